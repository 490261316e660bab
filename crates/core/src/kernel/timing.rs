//! `Timer`: GPU time between two points of a stream.
#![forbid(unsafe_code)]

use crate::error::Error;
use crate::stream::{Event, Stream, refuse_capturing};

/// Two timed events on a stream.
#[derive(Debug)]
pub struct Timer {
    stream: Stream,
    start: Event,
    end: Event,
}

impl Timer {
    /// Starts the measurement after the work that the stream has now.
    ///
    /// # Errors
    ///
    /// If the driver refuses, or the stream is capturing.
    pub fn start(stream: Stream) -> Result<Self, Error> {
        let end = Event::timed(stream.device())?;
        Ok(Self { start: stream.record_time()?, end, stream })
    }

    /// Stops the measurement.
    ///
    /// # Errors
    ///
    /// As [`Timer::start`].
    pub fn stop(&self) -> Result<(), Error> {
        refuse_capturing(&self.stream)?;
        self.end.record(&self.stream)
    }

    /// Waits on the host for the second event, and returns the time between the two.
    ///
    /// # Errors
    ///
    /// If it was not stopped, or the driver refuses.
    pub fn milliseconds(&self) -> Result<f32, Error> {
        self.start.elapsed(&self.end)
    }
}
