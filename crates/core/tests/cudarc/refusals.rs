//! What is refused, and what a refusal leaves as it was.

use cudarc::driver::{CudaContext, CudaSlice, DriverError, sys};
use gpulend::cudarc::{Lent, Refused, lease, lend};
use gpulend::driver::set_faults;
use gpulend::{Index, Lease, Report};

use crate::setup::{
    Setup, address_of, code, current, memory_of, other_context, set_current, slice_of, values,
};

#[test]
#[ignore = "needs the simulated GPU that `make test-rust` names"]
fn a_refused_slice_comes_back() {
    fn asked(slice: CudaSlice<i32>) -> Result<Lease, Report> {
        Ok(lease(slice)?)
    }
    let setup = Setup::new();
    let [one] = setup.streams();
    // Memory that nobody allocated.
    // SAFETY: nothing touches it, and it is leaked.
    let fabricated = unsafe { one.upgrade_device_ptr::<i32>(0x10, 4) };
    let Refused { slice, error } = lease(fabricated).unwrap_err();
    assert_eq!((error.code(), slice.len()), (407, 4));
    assert!(error.to_string().contains("0x10 is not an address of cuda:0"), "{error}");
    slice.leak();
    // More than there is.
    let short = slice_of(&one, 1);
    // SAFETY: as above.
    let long = unsafe { one.upgrade_device_ptr::<i32>(address_of(&short), 1 << 20) };
    let refused = lease(long).unwrap_err();
    assert_eq!(refused.error.code(), 408);
    assert_eq!(refused.to_string(), refused.error.to_string());
    assert!(format!("{refused:?}").contains("len: 1048576"), "{refused:?}");
    refused.slice.leak();
    // Of another context.
    let other = other_context();
    let own = other.default_stream();
    let refused = lease(slice_of(&own, 5)).unwrap_err();
    assert_eq!(refused.error.code(), 410);
    assert_eq!(own.clone_dtoh(&refused.slice).unwrap(), [5; 4]);
    let report = asked(refused.slice).unwrap_err();
    assert!(report.to_string().starts_with("gpulend 410: "), "{report}");
    set_current(None);
}

#[test]
#[ignore = "needs the simulated GPU that `make test-rust` names"]
fn an_error_that_cudarc_kept_is_not_lost() {
    let setup = Setup::new();
    let [one, other] = setup.streams();
    let mut slice = slice_of(&one, 1);
    other.memset_zeros(&mut slice).unwrap();
    let earlier = || Err::<(), _>(DriverError(sys::CUresult::CUDA_ERROR_NOT_FOUND));
    // cudarc does not wait after it, so the bytes would not be ready.
    setup.context.record_err(earlier());
    let refused = lease(slice).unwrap_err();
    assert_eq!(refused.error.code(), 1001);
    let text = refused.to_string();
    assert_eq!(text, "a call by cudarc returned CUDA_ERROR_NOT_FOUND (500)");
    let leased = lease(refused.slice).unwrap();
    assert_eq!(values(&leased), [0; 4]);
    // It would panic on it.
    setup.context.record_err(earlier());
    assert_eq!(code(lend::<i32>(&leased, &one)), 1001);
    assert!(leased.check_unlent().is_ok());
    assert!(lend::<i32>(&leased, &one).is_ok());
    // Without its event, its other streams would not wait. On one stream gpulend records none.
    let mut own = slice_of(&one, 1);
    one.memset_zeros(&mut own).unwrap();
    let leased = lease(own).unwrap();
    set_faults("cuEventRecord#*=INVALID_HANDLE").unwrap();
    let found = code(lend::<i32>(&leased, &one));
    set_faults("").unwrap();
    assert_eq!(found, 1001);
    assert!(leased.check_unlent().is_ok());
}

#[test]
#[ignore = "needs the simulated GPU that `make test-rust` names"]
fn what_cudarc_cannot_show_is_refused() {
    let setup = Setup::new();
    let [one] = setup.streams();
    let memory = memory_of(1);
    let refused = lend::<f32>(&memory, &one).unwrap_err();
    assert_eq!(refused.code(), 116);
    assert!(refused.to_string().starts_with("cannot view int32 as float32: "), "{refused}");
    let even = Index::Slice { start: None, stop: None, step: Some(2) };
    let refused = lend::<i32>(&memory.index(&[even]).unwrap(), &one).unwrap_err();
    assert_eq!(refused.code(), 115);
    assert!(refused.to_string().starts_with("shape [2] with strides [2] cannot be "), "{refused}");
    let square = memory.reshaped(&[2, 2]).unwrap();
    assert_eq!(code(lend::<i32>(&square.transposed(), &one)), 115);
    let there = CudaContext::new(1).unwrap().new_stream().unwrap();
    let refused = lend::<i32>(&memory, &there).unwrap_err();
    assert_eq!(refused.code(), 303);
    assert_eq!(refused.to_string(), "the memory is on cuda:0, but cuda:1 was asked for");
    let host = Lease::from_vec(vec![1_i32]).unwrap();
    assert_eq!(code(lend::<i32>(&host, &one)), 303);
    let other = other_context();
    let refused = lend::<i32>(&memory, &other.default_stream()).unwrap_err();
    assert_eq!(refused.code(), 203);
    assert!(refused.to_string().contains("not the primary context of cuda:0"), "{refused}");
    // None of them holds the memory.
    drop(square);
    assert!(memory.check_unlent().is_ok());
}

#[test]
#[ignore = "needs the simulated GPU that `make test-rust` names"]
fn read_only_memory_is_not_written() {
    let setup = Setup::new();
    let [one] = setup.streams();
    let memory = memory_of(7).as_readonly();
    let mut lent: Lent<i32> = lend(&memory, &one).unwrap();
    assert_eq!(one.clone_dtoh(&lent.view()).unwrap(), [7; 4]);
    assert_eq!(code(lent.view_mut()), 302);
}

#[test]
#[ignore = "needs the simulated GPU that `make test-rust` names"]
fn the_caller_s_context_stays() {
    let setup = Setup::new();
    let [one] = setup.streams();
    let (elsewhere, other) = (CudaContext::new(1).unwrap(), other_context());
    // With a second stream cudarc waits for events, and makes its context current for that.
    let _second = other.new_stream().unwrap();
    for context in [None, Some(&*setup.context), Some(&*elsewhere), Some(&*other)] {
        let slice = slice_of(&one, 1);
        let foreign = slice_of(&other.default_stream(), 1);
        set_current(context);
        let wanted = context.map(CudaContext::cu_ctx);
        let leased = lease(slice).unwrap();
        assert_eq!(current(), wanted, "lease");
        let lent: Lent<i32> = lend(&leased, &one).unwrap();
        assert_eq!(current(), wanted, "lend");
        drop(lent);
        assert_eq!(current(), wanted, "the end of a view");
        drop(leased);
        assert_eq!(current(), wanted, "the end of a lease");
        let refused = lease(foreign).unwrap_err();
        assert_eq!(current(), wanted, "a refusal");
        set_current(Some(&other));
        drop(refused);
    }
    set_current(None);
}
