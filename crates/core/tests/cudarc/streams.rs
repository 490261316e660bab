//! Streams, in and out.

use std::sync::Arc;
use std::thread;

use gpulend::cudarc::{lease, lend_stream, stream};
use gpulend::stream::{Stream, enter, leave};

use crate::setup::{Setup, code, current, memory_of, other_context, slice_of, values, wait_until};

#[test]
#[ignore = "needs the simulated GPU that `make test-rust` names"]
fn streams_go_in_and_are_kept() {
    let setup = Setup::new();
    let [one] = setup.streams();
    let number = one.cu_stream().addr();
    let weak = Arc::downgrade(&one);
    let kept = stream(&one).unwrap();
    assert_eq!((kept.device(), kept.handle().0), (0, number));
    drop(one);
    assert_eq!(weak.strong_count(), 1);
    enter(kept.clone());
    let memory = memory_of(1);
    leave(&kept);
    kept.synchronize().unwrap();
    drop(kept);
    assert_eq!(values(&memory), [1; 4]);
    assert_eq!(weak.strong_count(), 1, "its work on the memory is waited for");
    drop(memory);
    wait_until("the end of the stream", || weak.strong_count() == 0);
    // On a thread without a context, which it must not get.
    let [one] = setup.streams();
    let kept = stream(&one).unwrap();
    drop(one);
    let there = thread::spawn(move || {
        drop(kept);
        assert_eq!(current(), None);
    });
    there.join().unwrap();
    setup.context.check_err().unwrap();

    assert!(stream(&setup.context.default_stream()).unwrap().is_legacy());
    assert!(stream(&setup.context.per_thread_stream()).unwrap().is_per_thread());
    assert_eq!(code(stream(&other_context().default_stream())), 203);
}

#[test]
#[ignore = "needs the simulated GPU that `make test-rust` names"]
fn streams_go_out() {
    let setup = Setup::new();
    let own = Stream::create(0, false).unwrap();
    // SAFETY: (1) `own` is kept until the end; (2) cudarc uses this stream alone.
    let lent = unsafe { lend_stream(&setup.context, &own) }.unwrap();
    assert_eq!(lent.cu_stream().addr(), own.handle().0);
    // It is one stream: nothing waits.
    let mut slice = slice_of(&lent, 1);
    lent.memset_zeros(&mut slice).unwrap();
    let leased = lease(slice).unwrap();
    enter(own.clone());
    assert_eq!(values(&leased), [0; 4]);
    leave(&own);
    drop((leased, lent));
    own.synchronize().unwrap();

    // SAFETY: default streams live as long as the process.
    let legacy = unsafe { lend_stream(&setup.context, &Stream::legacy(0)) }.unwrap();
    assert_eq!(legacy, setup.context.default_stream());
    // SAFETY: as above.
    let mine = unsafe { lend_stream(&setup.context, &Stream::per_thread(0)) }.unwrap();
    assert_eq!(mine, setup.context.per_thread_stream());
    // SAFETY: as above.
    let refused = unsafe { lend_stream(&setup.context, &Stream::legacy(1)) }.unwrap_err();
    assert_eq!(refused.code(), 203);
    let words = "cudarc: context is of cuda:0, and the stream of cuda:1";
    assert_eq!(refused.to_string(), words);
    // SAFETY: as above.
    assert_eq!(code(unsafe { lend_stream(&other_context(), &own) }), 203);
}
