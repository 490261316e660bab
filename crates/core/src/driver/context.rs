//! Primary contexts. A context is pushed only if another is current, and popped again on drop.

use std::ffi::c_int;
use std::marker::PhantomData;
use std::sync::OnceLock;

use crate::abi::cuda::{CAPTURE_MODE_RELAXED, ContextHandle, StreamHandle};
use crate::driver::cuda::Driver;
use crate::error::{DeviceError, DriverError, Error};

/// More devices than a driver shows to a process.
pub(super) const MOST_DEVICES: usize = 64;

/// The retained primary contexts. They are never released.
pub(super) type Primaries = [OnceLock<ContextHandle>; MOST_DEVICES];

/// A device's primary context, current on this thread until dropped.
pub struct Entered {
    driver: &'static Driver,
    pushed: bool,
    /// Current contexts belong to a thread.
    _thread: PhantomData<*const ()>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        if self.pushed {
            let mut popped = ContextHandle::NULL;
            // Fails only if the driver has shut down; then there is nothing to restore.
            // SAFETY: one handle is written; the context on top is the one pushed.
            let _ = unsafe { self.driver.context_pop(&raw mut popped) };
        }
    }
}

/// Relaxed capture mode on this thread until dropped: its calls invalidate no capture.
pub struct Relaxed {
    driver: &'static Driver,
    before: c_int,
    _thread: PhantomData<*const ()>,
}

impl Drop for Relaxed {
    fn drop(&mut self) {
        // The previous mode came from the driver, so it is valid.
        // SAFETY: one int is read and written.
        let _ = unsafe { self.driver.exchange_capture_mode(&raw mut self.before) };
    }
}

impl Driver {
    /// A device's primary context. Created if needed, and retained until the process ends.
    ///
    /// # Errors
    ///
    /// If there is no such device, or the driver refuses.
    #[inline]
    pub fn primary(&'static self, device: u8) -> Result<ContextHandle, Error> {
        let known = self.primaries.get(usize::from(device)).and_then(OnceLock::get);
        known.map_or_else(|| self.retain(device), |context| Ok(*context))
    }

    #[cold]
    fn retain(&'static self, device: u8) -> Result<ContextHandle, Error> {
        self.require_device(device)?;
        let place = &self.primaries[usize::from(device)];
        let handle = self.device(c_int::from(device))?;
        let mut context = ContextHandle::NULL;
        let _relaxed = self.relax()?;
        // If two threads retain it at once, the count is 2; it is never released anyway.
        // SAFETY: one handle is written; the device is the driver's own.
        unsafe { self.primary_retain(&raw mut context, handle) }?;
        Ok(*place.get_or_init(|| context))
    }

    /// Refuses an index that is not a device's.
    pub(crate) fn require_device(&self, device: u8) -> Result<(), Error> {
        let known =
            self.primaries.get(usize::from(device)).is_some_and(|known| known.get().is_some());
        if known {
            return Ok(());
        }
        let count = self.count()?;
        if c_int::from(device) < count && usize::from(device) < MOST_DEVICES {
            return Ok(());
        }
        Err(DeviceError::NoSuchDevice { device, count }.into())
    }

    /// Whether a context is the device's primary one. Does not create one.
    pub(crate) fn is_primary(&'static self, context: u64, device: u8) -> Result<bool, Error> {
        let known = self.primaries.get(usize::from(device)).and_then(OnceLock::get);
        if let Some(primary) = known {
            return Ok(primary.0 as u64 == context);
        }
        let (mut flags, mut active) = (0, 0);
        let handle = self.device(c_int::from(device))?;
        // SAFETY: two ints are written; the device is the driver's own.
        unsafe { self.primary_state(handle, &raw mut flags, &raw mut active) }?;
        Ok(active != 0 && self.primary(device)?.0 as u64 == context)
    }

    /// Makes a device's primary context current, unless it already is.
    ///
    /// # Errors
    ///
    /// As [`Driver::primary`].
    #[inline]
    pub fn enter(&'static self, device: u8) -> Result<Entered, Error> {
        let context = self.primary(device)?;
        let pushed = self.current()? != context;
        if pushed {
            // SAFETY: primary contexts that were retained stay.
            unsafe { self.context_push(context) }?;
        }
        Ok(Entered { driver: self, pushed, _thread: PhantomData })
    }

    /// As [`Driver::enter`], around foreign code that may make another context current in its place: the caller's comes back.
    #[cfg(feature = "cudarc")]
    pub(crate) fn shelter(&'static self, device: u8) -> Result<Entered, Error> {
        let context = self.primary(device)?;
        // SAFETY: primary contexts that were retained stay.
        unsafe { self.context_push(context) }?;
        Ok(Entered { driver: self, pushed: true, _thread: PhantomData })
    }

    fn current(&self) -> Result<ContextHandle, DriverError> {
        let mut current = ContextHandle::NULL;
        // SAFETY: one handle is written.
        unsafe { self.context_current(&raw mut current) }?;
        Ok(current)
    }

    /// Switches this thread to relaxed capture mode.
    ///
    /// # Errors
    ///
    /// If the driver refuses.
    pub fn relax(&'static self) -> Result<Relaxed, DriverError> {
        let mut mode = CAPTURE_MODE_RELAXED;
        // SAFETY: one int is read and written.
        unsafe { self.exchange_capture_mode(&raw mut mode) }?;
        Ok(Relaxed { driver: self, before: mode, _thread: PhantomData })
    }

    /// Creates a stream on a device. The driver takes the nearest priority that the device has.
    ///
    /// # Errors
    ///
    /// If the driver refuses.
    pub fn new_stream(
        &'static self,
        device: u8,
        blocking: bool,
        priority: i32,
    ) -> Result<StreamHandle, Error> {
        let _entered = self.enter(device)?;
        let _relaxed = self.relax()?;
        let mut stream = StreamHandle(0);
        let flags = if blocking { 0 } else { crate::abi::cuda::STREAM_NON_BLOCKING };
        // SAFETY: one handle is written.
        unsafe { self.stream_create(&raw mut stream, flags, priority) }?;
        Ok(stream)
    }

    /// The least and the greatest priority of a device's streams: a lower number comes first.
    ///
    /// # Errors
    ///
    /// If there is no such device, or the driver refuses.
    pub fn priorities(&'static self, device: u8) -> Result<(i32, i32), Error> {
        let _entered = self.enter(device)?;
        let (mut least, mut greatest) = (0, 0);
        // SAFETY: two ints are written.
        unsafe { self.priority_range(&raw mut least, &raw mut greatest) }?;
        Ok((least, greatest))
    }
}
