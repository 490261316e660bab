//! Primary contexts: entered only where another is current, and left as they were found.

use std::ffi::c_int;
use std::marker::PhantomData;
use std::sync::OnceLock;

use crate::abi::cuda::{CAPTURE_MODE_RELAXED, ContextHandle, StreamHandle};
use crate::driver::cuda::Driver;
use crate::error::{DeviceError, DriverError, Error};

/// More devices than a driver shows to a process.
pub(super) const MOST_DEVICES: usize = 64;

/// The primary contexts that were retained, for good.
pub(super) type Primaries = [OnceLock<ContextHandle>; MOST_DEVICES];

/// A device's primary context, current on this thread until dropped.
pub struct Entered {
    driver: &'static Driver,
    pushed: bool,
    /// Contexts are a thread's.
    _thread: PhantomData<*const ()>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        if self.pushed {
            let mut popped = ContextHandle::NULL;
            // It fails only where the driver is gone, and then there is nothing to restore.
            // SAFETY: one handle is written; the context on top is the one pushed.
            let _ = unsafe { self.driver.context_pop(&raw mut popped) };
        }
    }
}

/// This thread under relaxed capture mode, so that no call of it invalidates anybody's capture.
pub struct Relaxed {
    driver: &'static Driver,
    before: c_int,
    _thread: PhantomData<*const ()>,
}

impl Drop for Relaxed {
    fn drop(&mut self) {
        // The mode was the thread's before, so it is one.
        // SAFETY: one int is read and written.
        let _ = unsafe { self.driver.exchange_capture_mode(&raw mut self.before) };
    }
}

impl Driver {
    /// The primary context of a device, made if it is not there, kept until the process ends.
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
        // Retained twice by two threads at once, it is kept all the same.
        // SAFETY: one handle is written; the device is the driver's own.
        unsafe { self.primary_retain(&raw mut context, handle) }?;
        Ok(*place.get_or_init(|| context))
    }

    /// Refuses a number that is no device's.
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

    /// Whether a context is the primary one of a device. None is made for it.
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

    /// Makes a device's primary context current, unless it is.
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

    fn current(&self) -> Result<ContextHandle, DriverError> {
        let mut current = ContextHandle::NULL;
        // SAFETY: one handle is written.
        unsafe { self.context_current(&raw mut current) }?;
        Ok(current)
    }

    /// Puts this thread under relaxed capture mode.
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

    /// A stream of our own on a device.
    ///
    /// # Errors
    ///
    /// If the driver refuses.
    pub fn new_stream(&'static self, device: u8, blocking: bool) -> Result<StreamHandle, Error> {
        let _entered = self.enter(device)?;
        let _relaxed = self.relax()?;
        let mut stream = StreamHandle(0);
        let flags = if blocking { 0 } else { crate::abi::cuda::STREAM_NON_BLOCKING };
        // SAFETY: one handle is written.
        unsafe { self.stream_create(&raw mut stream, flags) }?;
        Ok(stream)
    }
}
