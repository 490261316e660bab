//! `Moment`: an event that stands for the work of a stream which cannot be named later.
#![forbid(unsafe_code)]

use std::sync::{Arc, OnceLock};
use std::thread::{self, ThreadId};

use crate::abi::cuda::StreamHandle;
use crate::error::Error;
use crate::stream::event::Event;
use crate::stream::order::{is_in_capture, order, order_event};
use crate::stream::stream::Stream;

/// A stream on each device that only waits.
static GATHERING: [OnceLock<Stream>; 64] = [const { OnceLock::new() }; 64];

fn gathering(device: u8) -> Result<&'static Stream, Error> {
    let place = &GATHERING[usize::from(device) % GATHERING.len()];
    match place.get() {
        Some(stream) => Ok(stream),
        None => {
            let stream = Stream::create(device, false)?;
            Ok(place.get_or_init(|| stream))
        }
    }
}

/// An event recorded on a stream that cannot be named later, or not from another thread.
#[derive(Clone, Debug)]
pub(super) struct Moment {
    pub(super) event: Arc<Event>,
    pub(super) of: Origin,
}

/// The stream of a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// Unknown: the caller named an event.
    Named,
    /// The default stream of a thread.
    Thread(ThreadId),
    /// A stream that may be destroyed by now.
    Stream(StreamHandle),
}

impl Moment {
    /// Records the work that a stream has now.
    pub(super) fn now(stream: &Stream) -> Result<Self, Error> {
        Ok(Self { event: Arc::new(stream.record()?), of: Self::origin(stream) })
    }

    /// One moment after all of these, which must be real and of one device.
    pub(super) fn after_all(moments: &[Self], device: u8) -> Result<Self, Error> {
        let stream = gathering(device)?;
        moments.iter().try_for_each(|moment| stream.wait_unasked(&moment.event))?;
        Ok(Self { event: Arc::new(stream.record()?), of: Origin::Named })
    }

    /// The origin of a stream's moments.
    pub(super) fn origin(stream: &Stream) -> Origin {
        if stream.is_per_thread() {
            Origin::Thread(thread::current().id())
        } else {
            Origin::Stream(stream.handle())
        }
    }

    /// Whether both are the same event.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.event, &other.event)
    }

    /// Whether its stream is this thread's default stream, which can be named here.
    fn is_here(&self) -> bool {
        self.of == Origin::Thread(thread::current().id())
    }

    /// Whether it was recorded outside of a capture. Events of a capture never happen by themselves.
    pub(super) fn is_real(&self) -> bool {
        self.event.captured().is_none()
    }

    /// Its device.
    pub(super) fn device(&self) -> u8 {
        self.event.device()
    }

    pub(super) fn order(&self, after: &Stream) -> Result<(), Error> {
        if self.is_here() {
            return order(&Stream::per_thread(self.device()), after);
        }
        if self.is_real() || is_in_capture(after, self.event.captured())? {
            return order_event(&self.event, after);
        }
        Ok(())
    }

    pub(super) fn wait(&self) -> Result<(), Error> {
        match (self.is_here(), self.is_real()) {
            (true, _) => Stream::per_thread(self.device()).synchronize(),
            (false, true) => self.event.synchronize(),
            (false, false) => Ok(()),
        }
    }

    pub(super) fn has_come(&self) -> Result<bool, Error> {
        match (self.is_here(), self.is_real()) {
            (true, _) => Stream::per_thread(self.device()).is_idle(),
            (false, true) => self.event.has_happened(),
            (false, false) => Ok(true),
        }
    }
}
