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
    /// After what a stream holds now.
    On(Stream),
    /// After what its producer's stream holds now, in whose order the producer also frees it: as long as
    /// nobody else's stream works on it, it may go at once.
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
