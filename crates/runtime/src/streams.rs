//! Streams, and captures of them.

use std::ffi::{c_int, c_uint, c_void};

use crate::driver::Callback;
use crate::wire::{Handle, In, Maybe, Out, forward};

forward! {
    /// Creates a stream that waits for the legacy stream.
    fn cudaStreamCreate(stream: Out<Handle>) = cuStreamCreate(stream, 0_u32);
    /// Creates a stream with flags.
    fn cudaStreamCreateWithFlags(stream: Out<Handle>, flags: c_uint) = cuStreamCreate(stream, flags);
    /// Creates a stream with flags and a priority.
    fn cudaStreamCreateWithPriority(stream: Out<Handle>, flags: c_uint, priority: c_int)
        = cuStreamCreateWithPriority(stream, flags, priority);
    /// Destroys a stream. Its work still completes.
    fn cudaStreamDestroy(stream: Handle) = cuStreamDestroy_v2(stream);
    /// Returns whether all work of a stream is complete.
    fn cudaStreamQuery(stream: Handle) = cuStreamQuery(stream);
    /// Waits for all work of a stream.
    fn cudaStreamSynchronize(stream: Handle) = cuStreamSynchronize(stream);
    /// Makes a stream wait for an event.
    fn cudaStreamWaitEvent(stream: Handle, event: Handle, flags: c_uint)
        = cuStreamWaitEvent(stream, event, flags);
    /// Queues a call of a host function, with the stream and its error.
    fn cudaStreamAddCallback(stream: Handle, function: Callback, data: *mut c_void, flags: c_uint)
        = cuStreamAddCallback(stream, function, data, flags);
    /// Returns the flags of a stream.
    fn cudaStreamGetFlags(stream: Handle, flags: Out<c_uint>) = cuStreamGetFlags(stream, flags);
    /// Returns the priority of a stream.
    fn cudaStreamGetPriority(stream: Handle, priority: Out<c_int>) = cuStreamGetPriority(stream, priority);
    /// Returns the unique number of a stream.
    fn cudaStreamGetId(stream: Handle, id: Out<u64>) = cuStreamGetId(stream, id);
    /// Returns an attribute of a stream.
    fn cudaStreamGetAttribute(stream: Handle, which: c_int, value: Out<c_void>)
        = cuStreamGetAttribute(stream, which, value);
    /// Sets an attribute of a stream.
    fn cudaStreamSetAttribute(stream: Handle, which: c_int, value: In<c_void>)
        = cuStreamSetAttribute(stream, which, value);
    /// Copies the attributes of a stream to another one.
    fn cudaStreamCopyAttributes(to: Handle, from: Handle) = cuStreamCopyAttributes(to, from);
    /// Says which stream uses managed memory.
    fn cudaStreamAttachMemAsync(stream: Handle, address: u64, bytes: usize, flags: c_uint)
        = cuStreamAttachMemAsync(stream, address, bytes, flags);
    /// Begins a capture.
    fn cudaStreamBeginCapture(stream: Handle, mode: c_int) = cuStreamBeginCapture_v2(stream, mode);
    /// Ends a capture, and returns its graph.
    fn cudaStreamEndCapture(stream: Handle, graph: Out<Handle>) = cuStreamEndCapture(stream, graph);
    /// Returns whether a stream captures.
    fn cudaStreamIsCapturing(stream: Handle, status: Out<c_int>) = cuStreamIsCapturing(stream, status);
    /// Describes the capture of a stream.
    fn cudaStreamGetCaptureInfo(stream: Handle, status: Out<c_int>, id: Maybe<u64>, graph: Maybe<Handle>, dependencies: Maybe<*const Handle>, count: Maybe<usize>)
        = cuStreamGetCaptureInfo_v2(stream, status, id, graph, dependencies, count);
    /// Describes the capture of a stream. This is the name that CUDA 12's headers give it.
    fn cudaStreamGetCaptureInfo_v2(stream: Handle, status: Out<c_int>, id: Maybe<u64>, graph: Maybe<Handle>, dependencies: Maybe<*const Handle>, count: Maybe<usize>)
        = cuStreamGetCaptureInfo_v2(stream, status, id, graph, dependencies, count);
    /// Changes what the next captured work of a stream waits for.
    fn cudaStreamUpdateCaptureDependencies(stream: Handle, dependencies: *mut Handle, count: usize, flags: c_uint)
        = cuStreamUpdateCaptureDependencies(stream, dependencies, count, flags);
    /// Sets how captures forbid calls of this thread, and returns how they did.
    fn cudaThreadExchangeStreamCaptureMode(mode: Out<c_int>) = cuThreadExchangeStreamCaptureMode(mode);
}
