//! `Timer`: how long a device worked on what was queued between two moments of a stream.

use crate::abi::cuda::EventHandle;
use crate::driver::{driver, is_forked};
use crate::error::Error;
use crate::fork::ProcessLock;
use crate::stream::{Stream, refuse_capturing};

/// Two moments of a stream, and the time between them.
#[derive(Debug)]
pub struct Timer {
    stream: Stream,
    start: EventHandle,
    end: EventHandle,
}

/// Pairs of events that nobody uses, with their device: making one costs more than the shortest kernel.
static IDLE: ProcessLock<Vec<(u8, EventHandle)>> = ProcessLock::new(Vec::new());

fn take(device: u8) -> Result<EventHandle, Error> {
    let mut idle = IDLE.lock();
    if let Some(index) = idle.iter().rposition(|(of, _)| *of == device) {
        return Ok(idle.swap_remove(index).1);
    }
    drop(idle);
    let driver = driver()?;
    let _entered = driver.enter(device)?;
    let _relaxed = driver.relax()?;
    driver.new_timing_event()
}

impl Timer {
    /// Begins to measure what is queued on a stream from now on.
    ///
    /// # Errors
    ///
    /// If the driver refuses, or the stream is being captured.
    pub fn start(stream: Stream) -> Result<Self, Error> {
        refuse_capturing(&stream)?;
        let timer = Self { start: take(stream.device())?, end: take(stream.device())?, stream };
        timer.record(timer.start)?;
        Ok(timer)
    }

    /// Ends it.
    ///
    /// # Errors
    ///
    /// As [`Timer::start`].
    pub fn stop(&self) -> Result<(), Error> {
        refuse_capturing(&self.stream)?;
        self.record(self.end)
    }

    fn record(&self, event: EventHandle) -> Result<(), Error> {
        let driver = driver()?;
        let _entered = driver.enter(self.stream.device())?;
        // SAFETY: the event is ours, and of the stream's context.
        Ok(unsafe { driver.record(event, self.stream.handle()) }?)
    }

    /// Waits on the host for the end, and tells the time between.
    ///
    /// # Errors
    ///
    /// If it was not stopped, or the driver refuses.
    pub fn milliseconds(&self) -> Result<f32, Error> {
        let driver = driver()?;
        let _entered = driver.enter(self.stream.device())?;
        let _relaxed = driver.relax()?;
        // SAFETY: the event is ours.
        unsafe { driver.wait_for_event(self.end) }?;
        // SAFETY: both are ours, tell time, and were recorded: else the driver says so.
        Ok(unsafe { driver.elapsed(self.start, self.end) }?)
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // The events stayed with the parent.
        if is_forked() {
            return;
        }
        let device = self.stream.device();
        let mut idle = IDLE.lock();
        idle.extend([(device, self.start), (device, self.end)]);
    }
}
