//! `Stream`: a queue of work on a device, ours or somebody's.

use std::fmt;
use std::sync::Arc;

use crate::abi::cuda::StreamHandle;
use crate::driver::{Capture, driver};
use crate::error::Error;
use crate::owner::Owner;
use crate::stream::event::Event;
use crate::stream::reaper;

/// A queue of work on a device. Clones name the same one.
///
/// The per-thread default stream is, as in CUDA, that of whichever thread names it.
#[derive(Clone)]
pub struct Stream {
    device: u8,
    handle: StreamHandle,
    /// What keeps the stream alive, where that is not its maker's own affair.
    _keeper: Option<Arc<Owner>>,
}

impl Stream {
    /// The legacy default stream of a device.
    #[must_use]
    pub const fn legacy(device: u8) -> Self {
        Self { device, handle: StreamHandle::LEGACY, _keeper: None }
    }

    /// The default stream of the calling thread on a device.
    #[must_use]
    pub const fn per_thread(device: u8) -> Self {
        Self { device, handle: StreamHandle::PER_THREAD, _keeper: None }
    }

    /// Makes a stream on a device; one that blocks waits for the legacy stream, and that for it.
    ///
    /// # Errors
    ///
    /// If there is no such device, or the driver refuses.
    pub fn create(device: u8, blocking: bool) -> Result<Self, Error> {
        let handle = driver()?.new_stream(device, blocking)?;
        let keeper = Owner::call(move || reaper::destroy(device, handle));
        Ok(Self { device, handle, _keeper: Some(Arc::new(keeper)) })
    }

    /// Somebody's stream, by its number. 0 is the legacy one.
    ///
    /// # Safety
    ///
    /// 1. There is such a stream, and it is of that device's primary context.
    /// 2. It stays until every clone is gone, or until `keeper` is released, if there is one.
    #[must_use]
    pub unsafe fn foreign(device: u8, number: usize, keeper: Option<Owner>) -> Self {
        Self { device, handle: StreamHandle::of(number), _keeper: keeper.map(Arc::new) }
    }

    /// On which device.
    #[must_use]
    pub const fn device(&self) -> u8 {
        self.device
    }

    /// The driver's handle.
    #[must_use]
    pub const fn handle(&self) -> StreamHandle {
        self.handle
    }

    /// Whether it is the default stream of whichever thread names it.
    #[must_use]
    pub const fn is_per_thread(&self) -> bool {
        self.handle.0 == StreamHandle::PER_THREAD.0
    }

    /// Whether both name one stream, on one thread.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        (self.device, self.handle) == (other.device, other.handle)
    }

    /// An event that happens when what is queued now is done.
    ///
    /// # Errors
    ///
    /// If the driver refuses, as for the legacy stream inside a capture.
    pub fn record(&self) -> Result<Event, Error> {
        let event = Event::take(self.device)?;
        event.record(self)?;
        Ok(event)
    }

    /// Has what is queued from now on wait for an event.
    ///
    /// # Errors
    ///
    /// If the driver refuses.
    pub fn wait(&self, event: &Event) -> Result<(), Error> {
        let driver = driver()?;
        let _entered = driver.enter(self.device)?;
        // SAFETY: both are alive: (2) of `foreign`, and `Event` keeps its own.
        Ok(unsafe { driver.wait(self.handle, event.handle()) }?)
    }

    /// Waits on the host until all that is queued is done.
    ///
    /// # Errors
    ///
    /// If the driver refuses, as it does for a stream that is capturing.
    pub fn synchronize(&self) -> Result<(), Error> {
        let driver = driver()?;
        let _entered = driver.enter(self.device)?;
        let _relaxed = driver.relax()?;
        // SAFETY: alive: (2) of `foreign`.
        Ok(unsafe { driver.wait_for(self.handle) }?)
    }

    /// Whether all that is queued is done.
    ///
    /// # Errors
    ///
    /// If the driver refuses, as it does for a stream that is capturing.
    pub fn is_idle(&self) -> Result<bool, Error> {
        let driver = driver()?;
        let _entered = driver.enter(self.device)?;
        let _relaxed = driver.relax()?;
        // SAFETY: alive: (2) of `foreign`.
        Ok(unsafe { driver.is_idle(self.handle) }?)
    }

    /// Whether what is queued is being captured.
    pub(crate) fn capture(&self) -> Result<Capture, Error> {
        let driver = driver()?;
        let _entered = driver.enter(self.device)?;
        // SAFETY: alive: (2) of `foreign`.
        Ok(unsafe { driver.capture(self.handle) }?)
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Stream({:#x} on cuda:{})", self.handle.0, self.device)
    }
}
