//! `Moment`: when work is done on a stream that nobody can name later.
#![forbid(unsafe_code)]

use std::sync::{Arc, OnceLock};
use std::thread::{self, ThreadId};

use crate::abi::cuda::StreamHandle;
use crate::error::Error;
use crate::stream::event::Event;
use crate::stream::order::{is_in_capture, order, order_event};
use crate::stream::stream::Stream;

/// A stream of ours on each device that does nothing but wait.
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

/// A moment that is fixed, because its stream cannot be named later, or from elsewhere.
#[derive(Clone, Debug)]
pub(super) struct Moment {
    pub(super) event: Arc<Event>,
    pub(super) of: Origin,
}

/// Whose moment it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// Somebody told an event.
    Named,
    /// The default stream of a thread.
    Thread(ThreadId),
    /// A stream that may be gone by now.
    Stream(StreamHandle),
}

impl Moment {
    /// What a stream holds now.
    pub(super) fn now(stream: &Stream) -> Result<Self, Error> {
        Ok(Self { event: Arc::new(stream.record()?), of: Self::origin(stream) })
    }

    /// One moment that comes when all of these have, which are real and of one device.
    pub(super) fn after_all(moments: &[Self], device: u8) -> Result<Self, Error> {
        let stream = gathering(device)?;
        moments.iter().try_for_each(|moment| stream.wait_unasked(&moment.event))?;
        Ok(Self { event: Arc::new(stream.record()?), of: Origin::Named })
    }

    /// Whose moments a stream's are.
    pub(super) fn origin(stream: &Stream) -> Origin {
        if stream.is_per_thread() {
            Origin::Thread(thread::current().id())
        } else {
            Origin::Stream(stream.handle())
        }
    }

    /// Whether both are one.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.event, &other.event)
    }

    /// Whether its stream is this thread's own, which can be named for what it holds by now.
    fn is_here(&self) -> bool {
        self.of == Origin::Thread(thread::current().id())
    }

    /// Whether it counts for somebody outside of its capture: such a moment never comes.
    pub(super) fn is_real(&self) -> bool {
        self.event.captured().is_none()
    }

    /// The device that it is on.
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
