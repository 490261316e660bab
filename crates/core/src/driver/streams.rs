//! Streams and events. Callers make the stream's context current first. [`Driver::capture`] does not need
//! that for streams other than the default ones.

use std::ffi::c_int;

use crate::abi::cuda::{
    CAPTURE_STATUS_NONE, EVENT_DISABLE_TIMING, EventHandle, GraphExecHandle, GraphHandle, Status,
    StreamHandle,
};
use crate::driver::cuda::Driver;
use crate::error::{DriverError, Error};

/// The capture state of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Capture {
    /// Not capturing.
    No,
    /// Capturing, with this capture id.
    Active(u64),
    /// The legacy stream, while a blocking stream is capturing: nothing may be queued.
    Implicit,
}

impl Driver {
    /// The capture state of a stream. The query invalidates no capture.
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

    /// The priority of a stream.
    ///
    /// # Safety
    ///
    /// The stream is alive.
    pub(crate) unsafe fn priority(&self, stream: StreamHandle) -> Result<i32, DriverError> {
        let mut priority = 0;
        // SAFETY: one int is written; the contract.
        unsafe { self.stream_priority(stream, &raw mut priority) }?;
        Ok(priority)
    }

    /// Begins to capture the work of a stream.
    ///
    /// # Safety
    ///
    /// The stream is alive.
    pub(crate) unsafe fn begin(
        &self,
        stream: StreamHandle,
        mode: c_int,
    ) -> Result<(), DriverError> {
        // SAFETY: the contract.
        unsafe { self.capture_begin(stream, mode) }
    }

    /// Ends a capture. The graph is the caller's to destroy.
    ///
    /// # Safety
    ///
    /// The stream is alive.
    pub(crate) unsafe fn end(&self, stream: StreamHandle) -> Result<GraphHandle, DriverError> {
        let mut graph = GraphHandle(0);
        // SAFETY: one handle is written; the contract.
        unsafe { self.capture_end(stream, &raw mut graph) }?;
        Ok(graph)
    }

    /// Makes a graph executable, and destroys the graph itself.
    ///
    /// # Safety
    ///
    /// The graph is alive, and nobody uses it afterwards.
    pub(crate) unsafe fn instantiate(
        &self,
        graph: GraphHandle,
    ) -> Result<GraphExecHandle, DriverError> {
        let mut executable = GraphExecHandle(0);
        // SAFETY: one handle is written; the contract.
        let made = unsafe { self.graph_instantiate(&raw mut executable, graph, 0) };
        // SAFETY: the contract. What is executable stays.
        let destroyed = unsafe { self.discard(graph) };
        made.and(destroyed).map(|()| executable)
    }

    /// Destroys a graph.
    ///
    /// # Safety
    ///
    /// The graph is alive, and nobody uses it afterwards.
    pub(crate) unsafe fn discard(&self, graph: GraphHandle) -> Result<(), DriverError> {
        // SAFETY: the contract.
        unsafe { self.graph_destroy(graph) }
    }

    /// Queues an executable graph.
    ///
    /// # Safety
    ///
    /// Graph and stream are alive, and no other thread uses the graph. All memory that the graph touches is there until it
    /// is done.
    pub(crate) unsafe fn replay(
        &self,
        executable: GraphExecHandle,
        stream: StreamHandle,
    ) -> Result<(), DriverError> {
        // SAFETY: the contract.
        unsafe { self.graph_launch(executable, stream) }
    }

    /// Destroys an executable graph.
    ///
    /// # Safety
    ///
    /// It is alive, its launches are done, and nobody uses it afterwards.
    pub(crate) unsafe fn destroy_executable(
        &self,
        executable: GraphExecHandle,
    ) -> Result<(), DriverError> {
        // SAFETY: the contract.
        unsafe { self.executable_destroy(executable) }
    }

    /// Destroys a stream. Its queued work still completes.
    ///
    /// # Safety
    ///
    /// The stream is alive, and nobody uses it afterwards.
    pub(crate) unsafe fn destroy(&self, stream: StreamHandle) -> Result<(), DriverError> {
        // SAFETY: the contract.
        unsafe { self.stream_destroy(stream) }
    }

    /// Creates an event without timing in the current context.
    pub(crate) fn new_event(&self) -> Result<EventHandle, Error> {
        let mut event = EventHandle(0);
        // SAFETY: one handle is written.
        unsafe { self.event_create(&raw mut event, EVENT_DISABLE_TIMING) }?;
        Ok(event)
    }

    /// Creates an event with timing in the current context.
    pub(crate) fn new_timing_event(&self) -> Result<EventHandle, Error> {
        let mut event = EventHandle(0);
        // SAFETY: one handle is written.
        unsafe { self.event_create(&raw mut event, 0) }?;
        Ok(event)
    }

    /// Milliseconds between two completed events.
    ///
    /// # Safety
    ///
    /// Both events are alive, were recorded, and were created with timing.
    pub(crate) unsafe fn elapsed(
        &self,
        start: EventHandle,
        end: EventHandle,
    ) -> Result<f32, DriverError> {
        let mut milliseconds = 0.0;
        // SAFETY: one number is written; the contract.
        unsafe { self.event_elapsed(&raw mut milliseconds, start, end) }?;
        Ok(milliseconds)
    }

    /// Records an event on a stream.
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

    /// Records an event after all work queued on a device. On older drivers, waits for that work instead.
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

    /// Makes work queued on a stream from now on wait for an event.
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

    /// Whether an event has completed.
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
