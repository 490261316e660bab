//! The same bytes at the same address on both sides, in order with all streams of both.

use std::sync::Arc;
use std::thread;

use cudarc::driver::{CudaStream, DevicePtr};
use gpulend::cudarc::{Lent, lease, lend};
use gpulend::stream::{Stream, enter, leave};
use gpulend::{Dtype, Element, pool};

use crate::setup::{Setup, address_of, fill, gpu, memory_of, slice_of, values};

#[test]
#[ignore = "needs the simulated GPU that `make test-rust` names"]
fn memory_goes_in_and_out_at_one_address() {
    let setup = Setup::new();
    let [one] = setup.streams();
    let slice = one.clone_htod(&[1_i32, 2, 3, 4, 5, 6]).unwrap();
    let address = address_of(&slice);
    let leased = lease(slice).unwrap();
    let view = leased.view();
    assert_eq!((view.address(), view.device(), view.dtype()), (address, gpu(0), Dtype::INT32));
    assert_eq!((view.layout().shape(), view.readonly()), (&[6][..], false));
    assert_eq!(&*leased.origin(), "cudarc::CudaSlice");
    let square = leased.reshaped(&[2, 3]).unwrap();
    assert_eq!(values(&square.transposed()), [1, 4, 2, 5, 3, 6]);

    let mut lent: Lent<i32> = lend(&square, &one).unwrap();
    assert_eq!(lent.view().device_ptr(&one).0, address);
    assert_eq!(lent.view().len(), 6);
    assert_eq!(one.clone_dtoh(&lent.view()).unwrap(), [1, 2, 3, 4, 5, 6]);
    one.memset_zeros(&mut lent.view_mut().unwrap().slice_mut(3..)).unwrap();
    drop(lent);
    assert_eq!(values(&leased), [1, 2, 3, 0, 0, 0]);
}

#[test]
#[ignore = "needs the simulated GPU that `make test-rust` names"]
fn a_lease_waits_for_all_of_cudarc_s_streams() {
    let setup = Setup::new();
    let [one, other] = setup.streams();
    let mut slice = slice_of(&one, 1);
    let reader = Stream::create(0, false).unwrap();
    enter(reader.clone());
    // The slice's stream has no work, and the other's is in the slice's event only.
    other.memset_zeros(&mut slice).unwrap();
    assert_eq!(values(&lease(slice).unwrap()), [0; 4]);
    // The slice's own stream.
    let mut slice = slice_of(&one, 1);
    one.memset_zeros(&mut slice).unwrap();
    assert_eq!(values(&lease(slice).unwrap()), [0; 4]);
    leave(&reader);
    // Of a stream that has the same name on every thread.
    let mine = setup.context.per_thread_stream();
    let mut slice = slice_of(&mine, 1);
    mine.memset_zeros(&mut slice).unwrap();
    let leased = lease(slice).unwrap();
    let there = thread::spawn(move || (values(&leased), leased));
    assert_eq!(there.join().unwrap().0, [0; 4]);
}

#[test]
#[ignore = "needs the simulated GPU that `make test-rust` names"]
fn a_writer_waits_for_cudarc_s_readers() {
    let setup = Setup::new();
    let [one, other] = setup.streams();
    let slice = slice_of(&one, 1);
    let mut copied = slice_of(&other, 2);
    other.memcpy_dtod(&slice, &mut copied).unwrap();
    let leased = lease(slice).unwrap();
    // On another stream than both.
    fill(&leased, 3);
    Stream::legacy(0).synchronize().unwrap();
    assert_eq!(other.clone_dtoh(&copied).unwrap(), [1; 4]);
}

#[test]
#[ignore = "needs the simulated GPU that `make test-rust` names"]
fn all_of_cudarc_s_streams_wait_for_earlier_work() {
    let setup = Setup::new();
    let [one, other] = setup.streams();
    for reader in [&one, &other] {
        let memory = memory_of(1);
        fill(&memory, 2);
        let lent: Lent<i32> = lend(&memory, &one).unwrap();
        let mut copied = slice_of(reader, 3);
        reader.memcpy_dtod(&lent.view(), &mut copied).unwrap();
        reader.synchronize().unwrap();
        assert_eq!(reader.clone_dtoh(&copied).unwrap(), [2; 4]);
    }
}

#[test]
#[ignore = "needs the simulated GPU that `make test-rust` names"]
fn later_users_wait_for_all_of_cudarc_s_streams() {
    let setup = Setup::new();
    let [one, other] = setup.streams();
    for writer in [&one, &other] {
        let memory = memory_of(1);
        let mut lent: Lent<i32> = lend(&memory, &one).unwrap();
        writer.memset_zeros(&mut lent.view_mut().unwrap()).unwrap();
        drop(lent);
        assert_eq!(values(&memory), [0; 4]);
    }
    let memory = memory_of(1);
    let mut lent: Lent<i32> = lend(&memory, &one).unwrap();
    one.memset_zeros(&mut lent.view_mut().unwrap()).unwrap();
    assert_eq!(values(&memory), [0; 4], "its own stream is known while it is lent");
}

#[test]
#[ignore = "needs the simulated GPU that `make test-rust` names"]
fn empty_arrays_go_both_ways() {
    let setup = Setup::new();
    let [one] = setup.streams();
    // SAFETY: the null address holds no elements, and is not freed but refused.
    let nothing = unsafe { one.upgrade_device_ptr::<f32>(0, 0) };
    let leased = lease(nothing).unwrap();
    assert_eq!((leased.view().layout().shape(), leased.view().device()), (&[0][..], gpu(0)));
    let memory = pool::empty(&[0, 3], Dtype::FLOAT32, gpu(0)).unwrap();
    for empty in [leased, memory] {
        let mut lent: Lent<f32> = lend(&empty, &one).unwrap();
        assert!(lent.view().is_empty() && lent.view_mut().unwrap().is_empty());
        assert_eq!(one.clone_dtoh(&lent.view()).unwrap(), Vec::<f32>::new());
    }
}

#[test]
#[ignore = "needs the simulated GPU that `make test-rust` names"]
fn every_element_type_goes_out() {
    fn goes<T: Element>(stream: &Arc<CudaStream>) {
        let memory = pool::empty(&[3], T::DTYPE, gpu(0)).unwrap();
        let lent: Lent<T> = lend(&memory, stream).unwrap();
        assert_eq!(lent.view().device_ptr(stream).0, memory.view().address());
        assert_eq!(memory.view().nbytes(), 3 * size_of::<T>() as u64, "{}", T::DTYPE);
    }
    fn is_of_any_thread<T: Send + Sync>() {}
    is_of_any_thread::<Lent<f32>>();
    let setup = Setup::new();
    let [one] = setup.streams();
    goes::<i8>(&one);
    goes::<u64>(&one);
    goes::<f64>(&one);
    goes::<half::f16>(&one);
    goes::<half::bf16>(&one);
    assert_ne!(half::f16::DTYPE, half::bf16::DTYPE);
}
