//! `Event`: a moment in a stream. They come from a pool, because making one costs more than using it.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::abi::cuda::EventHandle;
use crate::driver::{Capture, driver, is_forked};
use crate::error::hint::CaptureHint;
use crate::error::{DriverError, Error};
use crate::fork::ProcessLock;
use crate::stream::order;
use crate::stream::stream::Stream;

/// Events that nobody uses, with their device.
static IDLE: ProcessLock<Vec<(u8, EventHandle)>> = ProcessLock::new(Vec::new());
/// More than this many are not kept, but left to the driver.
const MOST_IDLE: usize = 4096;

/// A moment in a stream. Dropped, its handle serves the next one.
#[derive(Debug)]
pub struct Event {
    device: u8,
    handle: EventHandle,
    /// The capture that it is part of, or zero: asking for such a one would invalidate that.
    captured: AtomicU64,
}

impl Event {
    /// An event of a device, which has not been recorded.
    pub(crate) fn take(device: u8) -> Result<Self, Error> {
        let mut idle = IDLE.lock();
        if let Some(index) = idle.iter().rposition(|(of, _)| *of == device) {
            let (_, handle) = idle.swap_remove(index);
            return Ok(Self { device, handle, captured: AtomicU64::new(0) });
        }
        drop(idle);
        let driver = driver()?;
        let _entered = driver.enter(device)?;
        let _relaxed = driver.relax()?;
        Ok(Self { device, handle: driver.new_event()?, captured: AtomicU64::new(0) })
    }

    /// On which device.
    #[must_use]
    pub const fn device(&self) -> u8 {
        self.device
    }

    /// The driver's handle.
    #[must_use]
    pub const fn handle(&self) -> EventHandle {
        self.handle
    }

    /// Has it happen when what is queued on a stream of its device is done.
    pub(crate) fn record(&self, stream: &Stream) -> Result<(), Error> {
        let driver = driver()?;
        let _entered = driver.enter(self.device)?;
        let captured = match stream.capture()? {
            Capture::No => 0,
            Capture::Active(capture) => capture,
            Capture::Implicit => return Err(order::legacy_in_capture()),
        };
        self.captured.store(captured, Ordering::Relaxed);
        // SAFETY: the stream is alive, as every `Stream` is; the event is ours.
        Ok(unsafe { driver.record(self.handle, stream.handle()) }?)
    }

    /// The capture that it is part of, if it is.
    pub(super) fn captured(&self) -> Option<u64> {
        Some(self.captured.load(Ordering::Relaxed)).filter(|capture| *capture != 0)
    }

    fn refuse_captured(&self) -> Result<(), Error> {
        const PROBLEM: &str =
            "the event is part of it, so it never happens by itself";
        match self.captured() {
            Some(_) => {
                let (what, hint) = ("the host asks", CaptureHint::Outside);
                Err(DriverError::Captured { what, problem: PROBLEM, hint }.into())
            }
            None => Ok(()),
        }
    }

    /// Has it happen when all that is queued on its device is done.
    pub(crate) fn record_all(&self) -> Result<(), Error> {
        let driver = driver()?;
        let _entered = driver.enter(self.device)?;
        // SAFETY: the event is ours, and of the context just entered.
        unsafe { driver.record_all(self.handle, self.device) }
    }

    /// Whether it has happened.
    ///
    /// # Errors
    ///
    /// If the driver refuses, as it does for a moment of a capture.
    pub fn has_happened(&self) -> Result<bool, Error> {
        self.refuse_captured()?;
        let driver = driver()?;
        let _relaxed = driver.relax()?;
        // SAFETY: the event is ours.
        Ok(unsafe { driver.happened(self.handle) }?)
    }

    /// Waits on the host until it has happened.
    ///
    /// # Errors
    ///
    /// If the driver refuses.
    pub fn synchronize(&self) -> Result<(), Error> {
        self.refuse_captured()?;
        let driver = driver()?;
        let _relaxed = driver.relax()?;
        // SAFETY: the event is ours.
        Ok(unsafe { driver.wait_for_event(self.handle) }?)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // The event stayed with the parent.
        if is_forked() {
            return;
        }
        let mut idle = IDLE.lock();
        if idle.len() < MOST_IDLE {
            idle.push((self.device, self.handle));
        }
    }
}
