//! Events.

use std::ffi::c_uint;

use crate::wire::{Handle, Out, forward};

forward! {
    /// Creates an event.
    fn cudaEventCreate(event: Out<Handle>) = cuEventCreate(event, 0_u32);
    /// Creates an event with flags.
    fn cudaEventCreateWithFlags(event: Out<Handle>, flags: c_uint) = cuEventCreate(event, flags);
    /// Records an event on a stream.
    fn cudaEventRecord(event: Handle, stream: Handle) = cuEventRecord(event, stream);
    /// Records an event on a stream, with flags.
    fn cudaEventRecordWithFlags(event: Handle, stream: Handle, flags: c_uint)
        = cuEventRecordWithFlags(event, stream, flags);
    /// Returns whether an event has happened.
    fn cudaEventQuery(event: Handle) = cuEventQuery(event);
    /// Waits for an event.
    fn cudaEventSynchronize(event: Handle) = cuEventSynchronize(event);
    /// Destroys an event.
    fn cudaEventDestroy(event: Handle) = cuEventDestroy_v2(event);
    /// Returns the time between two events.
    fn cudaEventElapsedTime(milliseconds: Out<f32>, start: Handle, end: Handle)
        = cuEventElapsedTime(milliseconds, start, end);
}
