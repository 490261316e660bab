//! Streams and events as the driver has them. A stream's context is current when these are called; whether one that is no default
//! stream is capturing may be asked without.

use std::ffi::c_int;

use crate::abi::cuda::{
    CAPTURE_STATUS_NONE, EVENT_DISABLE_TIMING, EventHandle, Status, StreamHandle,
};
use crate::driver::cuda::Driver;
use crate::error::{DriverError, Error};

/// Whether a stream's work is being captured into a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Capture {
    /// It runs.
    No,
    /// It is captured, by the capture of that number.
    Active(u64),
    /// It is the legacy stream, and one that blocks on it is capturing: nothing may be queued.
    Implicit,
}

impl Driver {
    /// Whether a stream is capturing. Asking invalidates nothing.
    ///
    /// # Safety
    ///
    /// The stream is alive, as in all functions here.
    pub(crate) unsafe fn capture(&self, stream: StreamHandle) -> Result<Capture, DriverError> {
        let mut status: c_int = CAPTURE_STATUS_NONE;
        let mut id = 0;
        let none = std::ptr::null_mut();
        // SAFETY: an int and a number are written, the rest is not asked for; the contract.
        let answer = unsafe {
            (self.functions.stream_capture_info)(
                stream,
                &raw mut status,
                &raw mut id,
                none,
                none,
                none,
            )
        };
        match answer {
            Status::STREAM_CAPTURE_IMPLICIT => Ok(Capture::Implicit),
            answer => {
                self.check("cuStreamGetCaptureInfo", answer)?;
                Ok(if status == CAPTURE_STATUS_NONE { Capture::No } else { Capture::Active(id) })
            }
        }
    }

    /// Whether all work of a stream is done.
    ///
    /// # Safety
    ///
    /// The stream is alive.
    pub(crate) unsafe fn is_idle(&self, stream: StreamHandle) -> Result<bool, DriverError> {
        // SAFETY: the contract.
        let status = unsafe { (self.functions.stream_query)(stream) };
        self.done("cuStreamQuery", status)
    }

    fn done(&self, call: &'static str, status: Status) -> Result<bool, DriverError> {
        match status {
            Status::NOT_READY => Ok(false),
            status => self.check(call, status).map(|()| true),
        }
    }

    /// Waits on the host for all work of a stream.
    ///
    /// # Safety
    ///
    /// The stream is alive.
    pub(crate) unsafe fn wait_for(&self, stream: StreamHandle) -> Result<(), DriverError> {
        // SAFETY: the contract.
        unsafe { self.stream_synchronize(stream) }
    }

    /// Ends a stream; its work goes on.
    ///
    /// # Safety
    ///
    /// The stream is alive, and nobody uses it afterwards.
    pub(crate) unsafe fn destroy(&self, stream: StreamHandle) -> Result<(), DriverError> {
        // SAFETY: the contract.
        unsafe { self.stream_destroy(stream) }
    }

    /// Makes an event in the current context.
    pub(crate) fn new_event(&self) -> Result<EventHandle, Error> {
        let mut event = EventHandle(0);
        // SAFETY: one handle is written.
        unsafe { self.event_create(&raw mut event, EVENT_DISABLE_TIMING) }?;
        Ok(event)
    }

    /// Has an event happen when what is queued on a stream now is done.
    ///
    /// # Safety
    ///
    /// Stream and event are alive, and of one context.
    pub(crate) unsafe fn record(
        &self,
        event: EventHandle,
        stream: StreamHandle,
    ) -> Result<(), DriverError> {
        // SAFETY: the contract.
        unsafe { self.event_record(event, stream) }
    }

    /// Has an event happen when all that is queued on a device now is done, or waits for that.
    ///
    /// # Safety
    ///
    /// The event is alive and of the device's primary context, which is current.
    pub(crate) unsafe fn record_all(
        &'static self,
        event: EventHandle,
        device: u8,
    ) -> Result<(), Error> {
        let context = self.primary(device)?;
        match self.functions.context_record {
            Some(record) => {
                // SAFETY: the contract.
                let status = unsafe { record(context, event) };
                Ok(self.check("cuCtxRecordEvent", status)?)
            }
            // SAFETY: takes nothing. The event is left as it is: not recorded, so it has happened.
            None => Ok(unsafe { self.context_synchronize() }?),
        }
    }

    /// Has what is queued on a stream from now on wait for an event.
    ///
    /// # Safety
    ///
    /// Stream and event are alive.
    pub(crate) unsafe fn wait(
        &self,
        stream: StreamHandle,
        event: EventHandle,
    ) -> Result<(), DriverError> {
        // SAFETY: the contract; no flags.
        unsafe { self.stream_wait_event(stream, event, 0) }
    }

    /// Whether an event has happened.
    ///
    /// # Safety
    ///
    /// The event is alive.
    pub(crate) unsafe fn happened(&self, event: EventHandle) -> Result<bool, DriverError> {
        // SAFETY: the contract.
        let status = unsafe { (self.functions.event_query)(event) };
        self.done("cuEventQuery", status)
    }

    /// Waits on the host for an event.
    ///
    /// # Safety
    ///
    /// The event is alive.
    pub(crate) unsafe fn wait_for_event(&self, event: EventHandle) -> Result<(), DriverError> {
        // SAFETY: the contract.
        unsafe { self.event_synchronize(event) }
    }
}
