//! The core's own timeline, over loom's lock and atomics, on streams that are queues of numbered work.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unnecessary_wraps,
    clippy::missing_const_for_fn,
    reason = "as the core's own"
)]

#[path = "../../../src/stream/claim.rs"]
mod claim;
#[path = "../../../src/stream/collecting.rs"]
mod collecting;
#[path = "../../../src/stream/readiness.rs"]
mod readiness;
#[path = "../../../src/stream/ready.rs"]
mod ready;
#[path = "../../../src/stream/timeline.rs"]
mod timeline;
#[path = "../../../src/stream/uses.rs"]
mod uses;

pub(crate) use ready::Ready;
pub(crate) use stream::Stream;
pub(crate) use timeline::Timeline;
pub(crate) use uses::Open;

use gpulend::Error;

/// What takes the place of `src/stream/sync.rs`.
mod sync {
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
    pub(super) use loom::sync::{Mutex, MutexGuard};
}

/// Streams of one device whose work is numbered; nothing is done unless a thread waits for it.
#[expect(clippy::module_inception, reason = "named as the core's own")]
mod stream {
    use std::sync::Arc;

    use gpulend::Error;
    use gpulend::abi::cuda::StreamHandle;
    use loom::sync::Mutex;

    use super::event::Event;

    #[derive(Debug, Default)]
    struct Queue {
        queued: usize,
        done: usize,
        /// How much of which streams' work it waits for.
        waits: Vec<(usize, usize)>,
    }

    /// Its lock is that of a driver's queue, the only order between those who use a stream.
    #[derive(Clone, Debug)]
    pub(crate) struct Stream(StreamHandle, Arc<Mutex<Queue>>);

    impl Stream {
        pub(crate) fn new(number: usize) -> Self {
            Self(StreamHandle(number), Arc::default())
        }

        fn queue<R>(&self, how: impl FnOnce(&mut Queue) -> R) -> R {
            how(&mut self.1.lock().unwrap())
        }

        /// Queues one piece of work and returns its number, from 1.
        pub(crate) fn push(&self) -> usize {
            self.queue(|queue| {
                queue.queued += 1;
                queue.queued
            })
        }

        /// How much of another's work this waits for.
        pub(crate) fn waits_for(&self, other: &Self) -> usize {
            let of = |(handle, number): &(usize, usize)| (*handle == other.0.0).then_some(*number);
            self.queue(|queue| queue.waits.iter().filter_map(of).max().unwrap_or(0))
        }

        pub(crate) fn done(&self) -> usize {
            self.queue(|queue| queue.done)
        }

        pub(crate) fn record(&self) -> Result<Event, Error> {
            Ok(Event { of: self.clone(), number: self.queue(|queue| queue.queued) })
        }

        pub(crate) fn wait_unasked(&self, event: &Event) -> Result<(), Error> {
            self.queue(|queue| queue.waits.push((event.of.0.0, event.number)));
            Ok(())
        }

        pub(crate) fn synchronize(&self) -> Result<(), Error> {
            self.queue(|queue| queue.done = queue.queued);
            Ok(())
        }

        pub(crate) fn is_idle(&self) -> Result<bool, Error> {
            Ok(self.queue(|queue| queue.done == queue.queued))
        }

        pub(crate) fn is_idle_now(&self) -> bool {
            self.queue(|queue| queue.done == queue.queued)
        }

        pub(crate) fn kept(&self) -> Self {
            self.clone()
        }

        pub(crate) fn is(&self, other: &Self) -> bool {
            self.0 == other.0
        }

        pub(crate) fn handle(&self) -> StreamHandle {
            self.0
        }

        pub(crate) fn device(&self) -> u8 {
            0
        }

        pub(crate) fn stays_nameable(&self) -> bool {
            true
        }

        pub(crate) fn is_lasting(&self) -> bool {
            true
        }

        pub(crate) fn is_named(&self) -> bool {
            true
        }

        pub(crate) fn is_per_thread(&self) -> bool {
            false
        }

        pub(crate) fn is_legacy(&self) -> bool {
            false
        }

        pub(crate) fn is_kept_for_us(&self) -> bool {
            false
        }
    }
}

mod event {
    use gpulend::Error;

    use super::stream::Stream;

    /// A moment in a stream: after so much of its work.
    #[derive(Clone, Debug)]
    pub(crate) struct Event {
        pub(super) of: Stream,
        pub(super) number: usize,
    }

    impl Event {
        pub(crate) fn has_happened(&self) -> Result<bool, Error> {
            Ok(self.of.done() >= self.number)
        }

        pub(crate) fn synchronize(&self) -> Result<(), Error> {
            self.of.synchronize()
        }

        pub(crate) fn captured(&self) -> Option<u64> {
            None
        }
    }
}

/// Moments: of hidden work only, because every other stream here can be named.
mod moment {
    use std::sync::Arc;

    use gpulend::Error;
    use gpulend::abi::cuda::StreamHandle;

    use super::event::Event;
    use super::stream::Stream;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum Origin {
        Named,
        Stream(StreamHandle),
    }

    #[derive(Clone, Debug)]
    pub(super) struct Moment {
        pub(super) event: Arc<Event>,
        pub(super) of: Origin,
    }

    impl Moment {
        pub(super) fn now(stream: &Stream) -> Result<Self, Error> {
            Ok(Self { event: Arc::new(stream.record()?), of: Self::origin(stream) })
        }

        pub(super) fn after_all(moments: &[Self], _: u8) -> Result<Self, Error> {
            Ok(moments[0].clone())
        }

        pub(super) fn origin(stream: &Stream) -> Origin {
            Origin::Stream(stream.handle())
        }

        pub(super) fn is(&self, other: &Self) -> bool {
            Arc::ptr_eq(&self.event, &other.event)
        }

        pub(super) fn is_real(&self) -> bool {
            true
        }

        pub(super) fn device(&self) -> u8 {
            0
        }

        pub(super) fn order(&self, after: &Stream) -> Result<(), Error> {
            after.wait_unasked(&self.event)
        }

        pub(super) fn wait(&self) -> Result<(), Error> {
            self.event.synchronize()
        }

        pub(super) fn has_come(&self) -> Result<bool, Error> {
            self.event.has_happened()
        }
    }
}

mod order {
    use gpulend::Error;

    use super::event::Event;
    use super::stream::Stream;

    pub(super) fn order_lasting(before: &Stream, after: &Stream) -> Result<bool, Error> {
        after.wait_unasked(&before.record()?)?;
        Ok(true)
    }

    pub(super) fn order_event(event: &Event, after: &Stream) -> Result<(), Error> {
        after.wait_unasked(event)
    }

    pub(super) fn is_gone(_: &Error) -> bool {
        false
    }

    pub(super) fn is_legacy_idle(_: u8) -> Result<bool, Error> {
        unreachable!("there is no legacy stream")
    }

    pub(super) fn order_all(_: u8, _: &Stream) -> Result<(), Error> {
        unreachable!("every stream is named")
    }

    pub(super) fn wait_for_all(_: u8) -> Result<(), Error> {
        unreachable!("every stream is named")
    }

    /// After all work of the device, of which the model has only one hidden stream.
    pub(super) fn all(_: u8) -> Result<Event, Error> {
        super::hidden().record()
    }
}

/// The reaper looks once, at once, on the thread that asks: another thread would look later, and see more.
mod reaper {
    use std::mem;
    use std::sync::Arc;

    use gpulend::Owner;

    use super::event::Event;
    use super::stream::Stream;

    pub(super) struct Pending {
        pub(super) streams: Vec<Stream>,
        #[expect(dead_code, reason = "the model has no moments when memory is released")]
        pub(super) events: Vec<Arc<Event>>,
        #[expect(dead_code, reason = "nor hidden work then")]
        pub(super) hidden: u64,
    }

    pub(super) fn release_when_done(work: Pending, owner: Owner) {
        if work.streams.iter().all(|stream| stream.is_idle().unwrap()) {
            drop(owner);
        } else {
            mem::forget(owner);
        }
    }
}

loom::lazy_static! {
    static ref HIDDEN: Stream = Stream::new(128);
}

/// A stream that no timeline can name.
pub(crate) fn hidden() -> Stream {
    HIDDEN.clone()
}

/// The streams whose work must be done before the memory goes.
pub(crate) fn pending(timeline: &Timeline) -> Vec<Stream> {
    timeline.pending().streams
}

fn is_capturing(_: &Stream) -> Result<bool, Error> {
    Ok(false)
}

fn is_reaper() -> bool {
    false
}

fn current(_: u8) -> Stream {
    unreachable!("every stream is named")
}
