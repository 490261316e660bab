//! Who frees what, when and where.

use std::sync::Arc;
use std::thread;

use cudarc::driver::sys::CUgraphInstantiate_flags as Flags;
use cudarc::driver::sys::CUstreamCaptureMode as Mode;
use gpulend::cudarc::{Lent, lease, lend, stream};
use gpulend::stream::{Stream, deleting, enter, leave};

use crate::setup::{
    Setup, address_of, code, current, fill, hold_reaper, is_allocated, memory_of, slice_of, values,
    wait_until,
};

#[test]
#[ignore = "needs the simulated GPU that `make test-rust` names"]
fn what_was_lent_is_not_freed_by_cudarc() {
    let setup = Setup::new();
    let [one] = setup.streams();
    let memory = memory_of(1);
    drop(lend::<i32>(&memory, &one).unwrap());
    one.synchronize().unwrap();
    assert!(is_allocated(memory.view().address()));
    assert_eq!(values(&memory), [1; 4]);
    setup.context.check_err().unwrap();
}

#[test]
#[ignore = "needs the simulated GPU that `make test-rust` names"]
fn lent_memory_cannot_be_released() {
    let setup = Setup::new();
    let [one] = setup.streams();
    let leased = lease(slice_of(&one, 1)).unwrap();
    let lent: Lent<i32> = lend(&leased, &one).unwrap();
    assert!(format!("{lent:?}").starts_with("Lent(4 elements on Stream(0x"), "{lent:?}");
    let (leased, error) = leased.release().unwrap_err();
    assert_eq!(error.code(), 600);
    assert!(error.to_string().contains("cudarc"), "{error}");
    // The views outlive the name of the lease.
    drop(leased);
    assert_eq!(one.clone_dtoh(&lent.view()).unwrap(), [1; 4]);
}

#[test]
#[ignore = "needs the simulated GPU that `make test-rust` names"]
fn a_slice_is_freed_once_on_any_thread() {
    let setup = Setup::new();
    let [one] = setup.streams();
    for own in [&one, &setup.context.default_stream()] {
        let before = Arc::strong_count(own);
        let slice = slice_of(own, 1);
        let address = address_of(&slice);
        let leased = lease(slice).unwrap();
        drop(lend::<i32>(&leased, own).unwrap());
        // A new thread has no context.
        let there = thread::spawn(move || {
            assert_eq!(current(), None);
            drop(leased);
            assert_eq!(current(), None);
        });
        there.join().unwrap();
        // Only the slice's own stream has worked on it, so it was released there and then.
        assert_eq!(Arc::strong_count(own), before);
        own.synchronize().unwrap();
        setup.context.check_err().unwrap();
        assert!(!is_allocated(address));
    }
}

#[test]
#[ignore = "needs the simulated GPU that `make test-rust` names"]
fn a_slice_is_freed_after_the_work_of_others() {
    let setup = Setup::new();
    let [one, second] = setup.streams();
    // Of cudarc's own, where the views are the last to go.
    let leased = lease(slice_of(&one, 1)).unwrap();
    let lent: Lent<i32> = lend(&leased, &one).unwrap();
    drop(leased);
    let mut copied = slice_of(&second, 2);
    second.memcpy_dtod(&lent.view(), &mut copied).unwrap();
    drop(lent);
    one.synchronize().unwrap();
    assert_eq!(second.clone_dtoh(&copied).unwrap(), [1; 4]);
    setup.context.check_err().unwrap();
    // Of gpulend's.
    let other = Stream::create(0, false).unwrap();
    let slice = slice_of(&one, 1);
    let address = address_of(&slice);
    let leased = lease(slice).unwrap();
    enter(other.clone());
    fill(&leased, 2);
    leave(&other);
    drop(leased);
    // The fill is still queued, and its memory is there.
    assert!(is_allocated(address));
    one.synchronize().unwrap();
    assert!(is_allocated(address));
    other.synchronize().unwrap();
    wait_until("the release", || {
        one.synchronize().unwrap();
        !is_allocated(address)
    });
    setup.context.check_err().unwrap();
}

#[test]
#[ignore = "needs the simulated GPU that `make test-rust` names"]
fn a_slice_of_a_thread_s_stream_is_freed_after_that_thread_s_work() {
    let setup = Setup::new();
    let mine = setup.context.per_thread_stream();
    let mut slice = slice_of(&mine, 1);
    let address = address_of(&slice);
    mine.memset_zeros(&mut slice).unwrap();
    let leased = lease(slice).unwrap();
    // Where the same name means another stream, without work.
    thread::spawn(move || drop(leased)).join().unwrap();
    assert!(is_allocated(address));
    mine.synchronize().unwrap();
    wait_until("the release", || {
        setup.context.synchronize().unwrap();
        !is_allocated(address)
    });
}

#[test]
#[ignore = "needs the simulated GPU that `make test-rust` names"]
fn a_deleter_leaves_cudarc_s_calls_to_the_reaper() {
    let setup = Setup::new();
    let [one] = setup.streams();
    let leased = lease(slice_of(&one, 1)).unwrap();
    let memory = memory_of(1);
    let lent: Lent<i32> = lend(&memory, &one).unwrap();
    let held = hold_reaper();
    deleting(|| drop((leased, lent)));
    assert!(Arc::strong_count(&one) > 1, "the slice was freed in the deleter");
    assert!(memory.check_unlent().is_err(), "the view ended in the deleter");
    drop(held);
    wait_until("the release", || memory.check_unlent().is_ok());
    drop(memory);
    wait_until("the end of the last use", || Arc::strong_count(&one) == 1);

    // A stream holds its context until it is destroyed.
    let holders = Arc::strong_count(&setup.context);
    let [alone] = setup.streams();
    let kept = stream(&alone).unwrap();
    drop(alone);
    let held = hold_reaper();
    deleting(|| drop(kept));
    assert_eq!(Arc::strong_count(&setup.context), holders + 1, "destroyed in the deleter");
    drop(held);
    wait_until("the end of the stream", || Arc::strong_count(&setup.context) == holders);
    setup.context.check_err().unwrap();
}

#[test]
#[ignore = "needs the simulated GPU that `make test-rust` names"]
fn captures_survive() {
    let setup = Setup::new();
    let [one, other] = setup.streams();
    let mut slice = slice_of(&one, 1);
    other.memset_zeros(&mut slice).unwrap();
    let leased = lease(slice_of(&one, 1)).unwrap();
    let memory = memory_of(1);
    let mut lent: Lent<i32> = lend(&memory, &one).unwrap();
    other.memset_zeros(&mut lent.view_mut().unwrap()).unwrap();

    one.begin_capture(Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    let refused = lease(slice).unwrap_err();
    assert_eq!(refused.error.code(), 1003);
    // Even what no other stream has worked on, so that nothing would wait.
    assert_eq!(code(lend::<i32>(&leased, &one)), 1003);
    drop((leased, lent));
    assert!(memory.check_unlent().is_err(), "until the capture is over");
    let graph = one.end_capture(Flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
    assert!(graph.unwrap().is_some(), "the capture was invalidated");

    wait_until("the release", || memory.check_unlent().is_ok());
    assert_eq!(values(&memory), [0; 4]);
    // The slice was not lost, nor the wait for its writer.
    assert_eq!(values(&lease(refused.slice).unwrap()), [0; 4]);
    setup.context.check_err().unwrap();

    // Work on other streams harms no capture either, whatever its mode.
    let (unused, leased) = (slice_of(&other, 1), lease(slice_of(&other, 1)).unwrap());
    let lent: Lent<i32> = lend(&memory, &other).unwrap();
    one.begin_capture(Mode::CU_STREAM_CAPTURE_MODE_GLOBAL).unwrap();
    let again: Lent<i32> = lend(&leased, &other).unwrap();
    drop((lease(unused).unwrap(), again, lent, leased));
    let graph = one.end_capture(Flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
    assert!(graph.unwrap().is_some(), "the capture was invalidated");
    setup.context.check_err().unwrap();
}

#[test]
#[ignore = "needs the simulated GPU that `make test-rust` names"]
fn a_forked_child_leaves_the_parent_s_memory_alone() {
    let setup = Setup::new();
    let [one, alone] = setup.streams();
    let leased = lease(slice_of(&one, 1)).unwrap();
    let memory = memory_of(2);
    let lent: Lent<i32> = lend(&memory, &one).unwrap();
    let kept = stream(&alone).unwrap();
    drop(alone);
    // SAFETY: the child drops what it has and ends.
    match unsafe { libc::fork() } {
        0 => {
            let asked = matches!(code(lend::<i32>(&memory, &one)), 914);
            drop((leased, lent, kept));
            // A call that the driver refused would be here.
            let untouched = setup.context.check_err().is_ok();
            let returned = memory.check_unlent().is_ok();
            // SAFETY: it ends the child.
            unsafe { libc::_exit(i32::from(!(asked && untouched && returned))) }
        }
        child => {
            let mut status = -1;
            // SAFETY: one number is written.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert_eq!(status, 0);
        }
    }
    assert_eq!(one.clone_dtoh(&lent.view()).unwrap(), [2; 4]);
    assert_eq!(values(&leased), [1; 4]);
    kept.synchronize().unwrap();
}
