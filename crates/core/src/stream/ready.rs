//! `Ready`: when the bytes of a lease are valid.
#![forbid(unsafe_code)]

use std::sync::Arc;

use crate::error::Error;
use crate::stream::event::Event;
use crate::stream::stream::Stream;

/// When the bytes of a lease are valid.
#[derive(Clone, Debug)]
pub enum Ready {
    /// Already.
    Now,
    /// After the work that a stream has now.
    On(Stream),
    /// After the work that the producer's stream has now. The producer also frees the memory in its order, so it
    /// can be released at once if no other stream uses it.
    Home(Stream),
    /// After an event.
    After(Arc<Event>),
}

impl Ready {
    /// Waits on the host until it is so.
    pub(crate) fn wait(&self) -> Result<(), Error> {
        match self {
            Self::Now => Ok(()),
            Self::On(stream) | Self::Home(stream) => stream.synchronize(),
            Self::After(event) => event.synchronize(),
        }
    }
}
