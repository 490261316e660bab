//! `Event`: a point in a stream. Events come from a pool, because creating one costs more than using it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::abi::cuda::EventHandle;
use crate::driver::{Capture, driver, is_forked};
use crate::error::hint::CaptureHint;
use crate::error::{DriverError, Error};
use crate::fork::ProcessLock;
use crate::stream::gate::Gate;
use crate::stream::order;
use crate::stream::stream::Stream;

/// Unused events, with their device.
static IDLE: ProcessLock<Vec<(u8, EventHandle)>> = ProcessLock::new(Vec::new());
/// The same of events that know when they happen, which takes a GPU longer.
static IDLE_TIMED: ProcessLock<Vec<(u8, EventHandle)>> = ProcessLock::new(Vec::new());
/// The pool keeps at most this many; others are left to the driver.
const MOST_IDLE: usize = 4096;

/// A point in a stream. Dropping it returns its handle to the pool.
#[derive(Debug)]
pub struct Event {
    device: u8,
    handle: EventHandle,
    /// The capture that it is part of, or zero: querying such an event would invalidate the capture.
    captured: AtomicU64,
    /// Whether it knows when it happens.
    timed: bool,
    /// Work of the host's that it stands for besides.
    gate: Option<Arc<Gate>>,
}

impl Event {
    /// An event of a device, which has not been recorded.
    pub(crate) fn take(device: u8) -> Result<Self, Error> {
        Self::from_pool(device, false)
    }

    /// The same, of the kind that knows when it happens.
    pub(crate) fn timed(device: u8) -> Result<Self, Error> {
        Self::from_pool(device, true)
    }

    fn from_pool(device: u8, timed: bool) -> Result<Self, Error> {
        let captured = AtomicU64::new(0);
        let mut idle = pool(timed).lock();
        if let Some(index) = idle.iter().rposition(|(of, _)| *of == device) {
            let (_, handle) = idle.swap_remove(index);
            return Ok(Self { device, handle, captured, timed, gate: None });
        }
        drop(idle);
        let driver = driver()?;
        let _entered = driver.enter(device)?;
        let _relaxed = driver.relax()?;
        let handle = if timed { driver.new_timing_event()? } else { driver.new_event()? };
        Ok(Self { device, handle, captured, timed, gate: None })
    }

    /// The same, which nobody passes before a gate is open.
    pub(crate) fn behind(mut self, gate: Arc<Gate>) -> Self {
        self.gate = Some(gate);
        self
    }

    /// Waits on the host for its gate, if it has one.
    pub(super) fn pass_gate(&self) {
        if let Some(gate) = &self.gate {
            gate.pass();
        }
    }

    /// Whether it knows when it happens.
    #[must_use]
    pub const fn is_timed(&self) -> bool {
        self.timed
    }

    /// The device.
    #[must_use]
    pub const fn device(&self) -> u8 {
        self.device
    }

    /// The driver's handle.
    #[must_use]
    pub const fn handle(&self) -> EventHandle {
        self.handle
    }

    /// Records it on a stream of its device.
    pub(crate) fn record(&self, stream: &Stream) -> Result<(), Error> {
        let driver = driver()?;
        let _entered = driver.enter(self.device)?;
        let captured = match stream.capture()? {
            Capture::No => 0,
            Capture::Active(capture) => capture,
            Capture::Implicit => return Err(order::legacy_in_capture()),
        };
        self.captured.store(captured, Ordering::Relaxed);
        // SAFETY: the stream is alive, as every `Stream` is; the event belongs to this value.
        Ok(unsafe { driver.record(self.handle, stream.handle()) }?)
    }

    /// The capture that it is part of, if any.
    pub(super) fn captured(&self) -> Option<u64> {
        Some(self.captured.load(Ordering::Relaxed)).filter(|capture| *capture != 0)
    }

    fn refuse_captured(&self) -> Result<(), Error> {
        const PROBLEM: &str = "the event is part of it, so it never happens by itself";
        match self.captured() {
            Some(_) => {
                let (what, hint) = ("the host asks", CaptureHint::Outside);
                Err(DriverError::Captured { what, problem: PROBLEM, hint }.into())
            }
            None => Ok(()),
        }
    }

    /// Records it after all work that is queued on its device.
    pub(crate) fn record_all(&self) -> Result<(), Error> {
        let driver = driver()?;
        let _entered = driver.enter(self.device)?;
        // SAFETY: the event belongs to this value, and to the context just entered.
        unsafe { driver.record_all(self.handle, self.device) }
    }

    /// Whether it has happened.
    ///
    /// # Errors
    ///
    /// If the driver refuses, as it does for an event of a capture.
    pub fn has_happened(&self) -> Result<bool, Error> {
        self.refuse_captured()?;
        let driver = driver()?;
        if self.gate.as_ref().is_some_and(|gate| !gate.is_open()) {
            return Ok(false);
        }
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
        self.pass_gate();
        let _relaxed = driver.relax()?;
        // SAFETY: the event is ours.
        Ok(unsafe { driver.wait_for_event(self.handle) }?)
    }

    /// Waits on the host for both events, and returns the milliseconds of the GPU from this one until `end`. Negative if
    /// that happened first.
    ///
    /// # Errors
    ///
    /// If one of them does not know when it happened, or the driver refuses, as for events of two devices.
    pub fn elapsed(&self, end: &Self) -> Result<f32, Error> {
        if !(self.timed && end.timed) {
            return Err(DriverError::Untimed.into());
        }
        self.synchronize()?;
        end.synchronize()?;
        let driver = driver()?;
        let _entered = driver.enter(self.device)?;
        // SAFETY: both are ours and timed; one that was never recorded is an error of the driver's.
        Ok(unsafe { driver.elapsed(self.handle, end.handle) }?)
    }
}

fn pool(timed: bool) -> &'static ProcessLock<Vec<(u8, EventHandle)>> {
    if timed { &IDLE_TIMED } else { &IDLE }
}

impl Drop for Event {
    fn drop(&mut self) {
        // The event belongs to the parent.
        if is_forked() {
            return;
        }
        let mut idle = pool(self.timed).lock();
        if idle.len() < MOST_IDLE {
            idle.push((self.device, self.handle));
        }
    }
}
