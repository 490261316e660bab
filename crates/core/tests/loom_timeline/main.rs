//! The part of the timeline that takes no lock, in every order of threads and with every value that the memory model allows.
//!
//! The files under test are the core's own, by their paths; loom's lock and atomics are in the place of the standard
//! library's, and `stream` has streams to put them on. A launch is the four steps that `timeline.rs` asks of it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod stream;

/// What takes the place of the core's own modules.
mod abi {
    pub(crate) use gpulend::abi::cuda;
}

mod driver {
    use gpulend::Error;

    pub(crate) struct Driver;

    impl Driver {
        pub(crate) const fn only_look(&self, _: bool) {}

        pub(crate) const fn buffer_id(&self, _: u64) -> Result<Option<u64>, Error> {
            Ok(None)
        }
    }

    #[expect(clippy::unnecessary_wraps, reason = "as the core's own")]
    pub(crate) const fn driver() -> Result<&'static Driver, Error> {
        Ok(&Driver)
    }
}

mod error {
    pub(crate) use gpulend::{AddressError, DriverError, Error, TicketError};
}

mod owner {
    pub(crate) use gpulend::Owner;
}

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::thread;
use stream::{Open, Ready, Stream, Timeline};

/// Runs every order of threads in which at most so many are interrupted where they could go on.
fn every_order(interrupted: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(interrupted);
    builder.check(body);
}

/// Memory on which one stream alone works.
fn alone() -> (Arc<Timeline>, Stream) {
    let (timeline, stream) = (Timeline::new(0, Ready::Now, None).unwrap(), Stream::new(16));
    timeline.note(&stream, true, Open::No);
    assert!(timeline.is_plain_here(stream.handle()));
    (timeline, stream)
}

/// A launch: it looks, queues, looks again and notes. Returns whether the caller must wait for the stream.
fn launch(timeline: &Timeline, on: &Stream) -> bool {
    if !timeline.is_plain_here(on.handle()) {
        timeline.ready_for(on, true).unwrap();
    }
    on.push();
    if timeline.is_plain_here(on.handle()) {
        return false;
    }
    timeline.note(on, true, Open::No);
    timeline.is_shared_with_host()
}

/// A stream reads the memory: it waits for those who write, and is noted.
fn read(timeline: &Timeline, on: &Stream) {
    timeline.ready_for(on, false).unwrap();
    on.push();
    timeline.used_once_on(on, false).unwrap();
}

#[test]
fn who_waited_once_waits_for_a_launch_that_came_between() {
    every_order(4, || {
        let ((timeline, one), other) = (alone(), Stream::new(32));
        let (launching, first) = (Arc::clone(&timeline), one.clone());
        let launched = thread::spawn(move || launch(&launching, &first));
        read(&timeline, &other);
        read(&timeline, &other);
        launched.join().unwrap();
        read(&timeline, &other);
        assert_eq!(other.waits_for(&one), 1);
    });
}

#[test]
fn a_wait_from_before_its_stream_was_a_use_is_not_remembered() {
    every_order(3, || {
        let ((timeline, one), other) = (alone(), Stream::new(32));
        let (launching, first) = (Arc::clone(&timeline), one.clone());
        let launched = thread::spawn(move || launch(&launching, &first));
        let (waiting, waiter) = (Arc::clone(&timeline), other.clone());
        let waited = thread::spawn(move || waiting.ready_for(&waiter, false).unwrap());
        // Another thread makes the waiting stream a use meanwhile.
        timeline.note(&other, false, Open::No);
        launched.join().unwrap();
        waited.join().unwrap();
        read(&timeline, &other);
        assert_eq!(other.waits_for(&one), 1);
    });
}

#[test]
fn a_stream_that_is_alone_again_is_waited_for_again() {
    every_order(3, || {
        let ((timeline, one), other) = (alone(), Stream::new(32));
        timeline.note(&other, false, Open::No);
        one.push();
        timeline.note(&one, true, Open::No);
        // What this thread finds out is noted late: the other stream was forgotten, and is a use again.
        let (waiting, waiter) = (Arc::clone(&timeline), other.clone());
        let waited = thread::spawn(move || waiting.ready_for(&waiter, false).unwrap());
        for number in [48, 64] {
            timeline.note(&Stream::new(number), false, Open::No);
        }
        timeline.forget_done();
        launch(&timeline, &one);
        timeline.note(&other, false, Open::No);
        waited.join().unwrap();
        read(&timeline, &other);
        assert_eq!(other.waits_for(&one), 2);
    });
}

#[test]
fn the_host_waits_for_a_launch_or_the_launch_waits_itself() {
    every_order(4, || {
        let (timeline, one) = alone();
        let (launching, first) = (Arc::clone(&timeline), one.clone());
        let launched = thread::spawn(move || launch(&launching, &first));
        timeline.share_with_host().unwrap();
        let done = one.done();
        let waits = launched.join().unwrap();
        assert!(waits || done == 1, "the host reads what a kernel still writes");
    });
}

#[test]
fn what_a_borrower_queued_before_it_gave_back_is_waited_for() {
    every_order(3, || {
        let timeline = Timeline::new(0, Ready::Now, None).unwrap();
        let streams = [16, 32, 48, 64].map(Stream::new);
        timeline.lend();
        timeline.note(&streams[0], true, Open::WhileLent);
        streams[1..].iter().for_each(|stream| timeline.note(stream, false, Open::No));
        let (lent, borrowed) = (Arc::clone(&timeline), streams[0].clone());
        let borrower = thread::spawn(move || {
            borrowed.push();
            lent.give_back();
        });
        timeline.forget_done();
        borrower.join().unwrap();
        let pending = stream::pending(&timeline);
        assert!(
            pending.iter().any(|stream| stream.is(&streams[0])),
            "it was forgotten: {pending:?}"
        );
    });
}

#[test]
fn a_collection_does_not_take_memory_of_a_launch() {
    every_order(4, || {
        let (timeline, one) = alone();
        let (launching, first) = (Arc::clone(&timeline), one.clone());
        let launched = thread::spawn(move || launch(&launching, &first));
        // It asks the reaper, which looks at the stream, and hears the answer in the next collection.
        let before = timeline.is_collectable(1);
        launched.join().unwrap();
        assert!(!before && !timeline.is_collectable(2), "the kernel still works on it");
    });
}

#[test]
fn work_that_is_forgotten_happened_before_a_launch_that_does_not_wait_for_it() {
    every_order(4, || {
        let (timeline, one) = alone();
        let others = [32, 48, 64].map(Stream::new);
        others.iter().for_each(|stream| timeline.note(stream, true, Open::No));
        one.push();
        let bytes = loom::sync::Arc::new(UnsafeCell::new(0));
        let (forgetting, written) = (Arc::clone(&timeline), bytes.clone());
        let forgotten = thread::spawn(move || {
            // What the others' kernels did: they are idle since.
            written.with_mut(|_| ());
            forgetting.forget_done();
        });
        if timeline.is_plain_here(one.handle()) {
            bytes.with_mut(|_| ());
        }
        forgotten.join().unwrap();
        assert!(timeline.is_plain_here(one.handle()), "the others are forgotten");
    });
}

#[test]
fn what_a_borrower_did_happened_before_a_launch_that_does_not_wait_for_it() {
    every_order(3, || {
        let (timeline, one) = alone();
        timeline.lend();
        timeline.note(&Stream::new(32), true, Open::WhileLent);
        for number in [48, 64] {
            timeline.note(&Stream::new(number), false, Open::No);
        }
        one.push();
        let bytes = loom::sync::Arc::new(UnsafeCell::new(0));
        let (lent, written) = (Arc::clone(&timeline), bytes.clone());
        let borrower = thread::spawn(move || {
            // No lock of the driver's comes after this: the count alone says that it is over.
            written.with_mut(|_| ());
            lent.give_back();
        });
        timeline.forget_done();
        if timeline.is_plain_here(one.handle()) {
            bytes.with_mut(|_| ());
        }
        borrower.join().unwrap();
    });
}

#[test]
fn hidden_work_of_a_borrower_that_gave_back_is_waited_for() {
    every_order(3, || {
        let timeline = Timeline::new(0, Ready::Now, None).unwrap();
        let (hidden, reader) = (stream::hidden(), Stream::new(32));
        timeline.lend();
        timeline.note_hidden(true, Open::WhileLent);
        let (lent, borrowed) = (Arc::clone(&timeline), hidden.clone());
        let borrower = thread::spawn(move || {
            borrowed.push();
            lent.give_back();
        });
        read(&timeline, &reader);
        borrower.join().unwrap();
        read(&timeline, &reader);
        assert_eq!(reader.waits_for(&hidden), 1);
    });
}

#[test]
fn hidden_work_of_a_borrower_that_came_and_gave_back_is_waited_for() {
    every_order(3, || {
        let timeline = Timeline::new(0, Ready::Now, None).unwrap();
        let (hidden, reader) = (stream::hidden(), Stream::new(32));
        timeline.note_hidden(true, Open::No);
        let (lent, borrowed) = (Arc::clone(&timeline), hidden.clone());
        let borrower = thread::spawn(move || {
            lent.lend();
            lent.note_hidden(true, Open::WhileLent);
            borrowed.push();
            lent.give_back();
        });
        read(&timeline, &reader);
        borrower.join().unwrap();
        read(&timeline, &reader);
        assert_eq!(reader.waits_for(&hidden), 1);
    });
}

/// Memory that one stream writes, another that waited for it, and two more, so that the idle ones are forgotten.
fn waited_and_forgotten() -> (Arc<Timeline>, Stream) {
    let ((timeline, one), other) = (alone(), Stream::new(32));
    one.push();
    timeline.note(&one, true, Open::No);
    timeline.note(&other, false, Open::No);
    timeline.ready_for(&other, false).unwrap();
    assert_eq!(other.waits_for(&one), 1);
    let busy = Stream::new(48);
    busy.push();
    timeline.note(&busy, false, Open::No);
    timeline.note(&Stream::new(64), false, Open::No);
    timeline.forget_done();
    assert!(!stream::pending(&timeline).iter().any(|stream| stream.is(&other)), "it is forgotten");
    (timeline, one)
}

#[test]
fn a_new_stream_with_the_number_of_one_that_waited_waits_itself() {
    every_order(2, || {
        let (timeline, one) = waited_and_forgotten();
        let again = Stream::new(32);
        read(&timeline, &again);
        assert_eq!(again.waits_for(&one), 1);
    });
}

#[test]
fn a_new_stream_with_the_number_of_one_that_waited_waits_itself_although_it_is_a_use() {
    every_order(2, || {
        let (timeline, one) = waited_and_forgotten();
        let again = Stream::new(32);
        timeline.note(&again, false, Open::No);
        read(&timeline, &again);
        assert_eq!(again.waits_for(&one), 1);
    });
}

#[test]
fn a_wait_noted_after_its_stream_was_forgotten_counts_for_no_new_stream() {
    every_order(3, || {
        let ((timeline, one), other) = (alone(), Stream::new(32));
        one.push();
        timeline.note(&one, true, Open::No);
        let busy = Stream::new(48);
        busy.push();
        timeline.note(&busy, false, Open::No);
        timeline.note(&other, false, Open::No);
        let waiting = Arc::clone(&timeline);
        let waited = thread::spawn(move || waiting.ready_for(&other, false).unwrap());
        timeline.note(&Stream::new(64), false, Open::No);
        timeline.forget_done();
        waited.join().unwrap();
        let again = Stream::new(32);
        read(&timeline, &again);
        assert_eq!(again.waits_for(&one), 1);
    });
}
