//! Events.

use super::pointer::Out;
use super::{Call, entry};
use crate::status::{Outcome, Status};

entry! {
    /// Creates an event.
    fn cuEventCreate(event: Out<usize>, flags: u32) |call| {
        let context = call.context()?;
        event.required()?;
        event.put(call.machine()?.create_event(context, flags)?)
    }
}

impl Call {
    fn record(self, event: usize, stream: usize, flags: u32) -> Outcome<()> {
        let stream = self.stream(stream)?;
        self.machine()?.record_event(&self.caller(), event, stream, flags)
    }
}

entry! {
    /// Records an event in a stream.
    fn [cuEventRecord, cuEventRecord_ptsz](event: usize, stream: usize) |call| { call.record(event, stream, 0) }
}

entry! {
    /// Records an event in a stream; in a capture, as a node if the flags ask for that.
    fn [cuEventRecordWithFlags, cuEventRecordWithFlags_ptsz](event: usize, stream: usize, flags: u32) |call| {
        call.record(event, stream, flags)
    }
}

entry! {
    /// Returns whether an event is complete.
    fn cuEventQuery(event: usize) |call| {
        let ready = call.machine()?.query_event(&call.caller(), event)?;
        if ready { Ok(()) } else { Err(Status::ERROR_NOT_READY) }
    }
}

entry! {
    /// Waits until an event is complete.
    fn cuEventSynchronize(event: usize) |call| { call.machine()?.synchronize_event(&call.caller(), event) }
}

entry! {
    /// Destroys an event.
    fn [cuEventDestroy, cuEventDestroy_v2](event: usize) |call| {
        call.machine()?.destroy_event(&call.caller(), event)
    }
}

entry! {
    /// Returns the milliseconds between two events.
    fn [cuEventElapsedTime, cuEventElapsedTime_v2](milliseconds: Out<f32>, start: usize, end: usize) |call| {
        if milliseconds.is_null() {
            // The code that a real driver returns.
            return Err(Status::ERROR_INVALID_HANDLE);
        }
        milliseconds.put(call.machine()?.elapsed(&call.caller(), start, end)?)
    }
}

entry! {
    /// Records an event after all work of a context.
    fn cuCtxRecordEvent(context: usize, event: usize) |call| {
        call.machine()?.record_context(&call.caller(), context, event)
    }
}

entry! {
    /// Makes all later work of a context wait for an event.
    fn cuCtxWaitEvent(context: usize, event: usize) |call| {
        call.machine()?.wait_context(&call.caller(), context, event)
    }
}
