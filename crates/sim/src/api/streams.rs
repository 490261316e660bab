//! Streams.

use super::pointer::{Address, In, Out};
use super::{Call, entry};
use crate::foreign::{Callback, Function, HostFunction};
use crate::machine::copy::Value;
use crate::machine::operation::Compare;
use crate::machine::stream::Stream;
use crate::status::{Outcome, Status};

/// `CU_STREAM_WAIT_VALUE_FLUSH`: unsupported, since `CAN_FLUSH_REMOTE_WRITES` is zero.
const FLUSH: u32 = 1 << 30;

/// The fields of `CUstreamBatchMemOpParams` for a wait or a write, and its padding.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MemoryOperation {
    kind: i32,
    address: Address,
    value: u64,
    flags: u32,
    alias: usize,
    padding: usize,
}

const _: () = assert!(size_of::<MemoryOperation>() == 48);

entry! {
    /// Creates a stream.
    fn cuStreamCreate(stream: Out<usize>, flags: u32) |call| { call.create_stream(stream, flags, 0) }
}

entry! {
    /// Creates a stream with a priority, which is only stored.
    fn cuStreamCreateWithPriority(stream: Out<usize>, flags: u32, priority: i32) |call| {
        call.create_stream(stream, flags, priority)
    }
}

impl Call {
    fn create_stream(self, out: Out<usize>, flags: u32, priority: i32) -> Outcome<()> {
        let context = self.context()?;
        out.required()?;
        out.put(self.machine()?.create_stream(context, flags, priority)?)
    }

    /// Reads from a stream.
    fn look<T>(self, handle: usize, body: impl FnOnce(&Stream) -> T) -> Outcome<T> {
        let stream = self.stream(handle)?;
        let mut state = self.machine()?.lock();
        state.stream(&self.caller(), stream).map(|stream| body(stream))
    }

    /// Returns a stream that is not capturing: a real driver refuses these queries for a capturing one.
    fn idle_stream(self, handle: usize) -> Outcome<usize> {
        let stream = self.stream(handle)?;
        self.machine()?.lock().refuse_captured_stream(stream)?;
        Ok(stream)
    }
}

entry! {
    /// Returns the priority of a stream.
    fn [cuStreamGetPriority, cuStreamGetPriority_ptsz](stream: usize, priority: Out<i32>) |call| {
        priority.put(call.look(stream, |stream| stream.priority)?)
    }
}

entry! {
    /// Returns the flags of a stream.
    fn [cuStreamGetFlags, cuStreamGetFlags_ptsz](stream: usize, flags: Out<u32>) |call| {
        call.idle_stream(stream)?;
        flags.put(call.look(stream, |stream| stream.flags)?)
    }
}

entry! {
    /// Returns the unique id of a stream.
    fn [cuStreamGetId, cuStreamGetId_ptsz](stream: usize, id: Out<u64>) |call| {
        let stream = call.idle_stream(stream)?;
        id.put(call.machine()?.lock().streams.number(stream))
    }
}

entry! {
    /// Returns the context of a stream.
    fn [cuStreamGetCtx, cuStreamGetCtx_ptsz](stream: usize, context: Out<usize>) |call| {
        context.put(call.look(stream, |stream| stream.context)?)
    }
}

entry! {
    /// Returns the context of a stream. There are no green contexts.
    fn [cuStreamGetCtx_v2, cuStreamGetCtx_v2_ptsz](stream: usize, context: Out<usize>, green: Out<usize>) |call| {
        green.offer(0);
        context.put(call.look(stream, |stream| stream.context)?)
    }
}

entry! {
    /// Returns the device of a stream.
    fn [cuStreamGetDevice, cuStreamGetDevice_ptsz](stream: usize, device: Out<i32>) |call| {
        let context = call.look(stream, |stream| stream.context)?;
        let index = call.machine()?.lock().context(context)?.device;
        device.put(i32::try_from(index).unwrap_or(i32::MAX))
    }
}

entry! {
    /// Makes a stream wait for an event.
    fn [cuStreamWaitEvent, cuStreamWaitEvent_ptsz](stream: usize, event: usize, flags: u32) |call| {
        let stream = call.stream(stream)?;
        call.machine()?.wait_event(&call.caller(), stream, event, flags)
    }
}

entry! {
    /// Returns whether all work of a stream is complete.
    fn [cuStreamQuery, cuStreamQuery_ptsz](stream: usize) |call| {
        let stream = call.stream(stream)?;
        let ready = call.machine()?.query_stream(&call.caller(), stream)?;
        if ready { Ok(()) } else { Err(Status::ERROR_NOT_READY) }
    }
}

entry! {
    /// Waits for all work of a stream.
    fn [cuStreamSynchronize, cuStreamSynchronize_ptsz](stream: usize) |call| {
        let stream = call.stream(stream)?;
        call.machine()?.synchronize_stream(&call.caller(), stream)
    }
}

entry! {
    /// Destroys a stream. Its queued work still runs.
    fn [cuStreamDestroy, cuStreamDestroy_v2](stream: usize) |call| {
        call.machine()?.destroy_stream(&call.caller(), stream)
    }
}

entry! {
    /// Makes a stream call a function with its handle. Not allowed in a capture.
    fn [cuStreamAddCallback, cuStreamAddCallback_ptsz](
        stream: usize,
        function: Option<Callback>,
        argument: Address,
        flags: u32,
    ) |call| {
        let function = function.ok_or(Status::ERROR_INVALID_VALUE)?;
        let target = call.stream(stream)?;
        if flags != 0 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        // SAFETY: (1): the caller guarantees function and argument.
        let function = unsafe { HostFunction::callback(function, stream, argument.number()) };
        call.machine()?.call_host(&call.caller(), target, function, false)
    }
}

impl Call {
    fn launch_host(
        self,
        stream: usize,
        function: Option<Function>,
        argument: Address,
    ) -> Outcome<()> {
        let function = function.ok_or(Status::ERROR_INVALID_VALUE)?;
        let stream = self.stream(stream)?;
        // SAFETY: (1) of the functions that call this: the caller guarantees function and argument.
        let function = unsafe { HostFunction::plain(function, argument.number()) };
        self.machine()?.call_host(&self.caller(), stream, function, true)
    }
}

entry! {
    /// Makes a stream call a function.
    fn [cuLaunchHostFunc, cuLaunchHostFunc_ptsz](stream: usize, function: Option<Function>, argument: Address) |call| {
        call.launch_host(stream, function, argument)
    }
}

entry! {
    /// Makes a stream call a function. The synchronisation mode has no effect here.
    fn [cuLaunchHostFunc_v2, cuLaunchHostFunc_v2_ptsz](
        stream: usize,
        function: Option<Function>,
        argument: Address,
        mode: u32,
    ) |call| {
        if mode > 1 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        call.launch_host(stream, function, argument)
    }
}

/// Returns the value for a stream to write.
fn written(address: Address, value: u64, bytes: usize, flags: u32) -> Outcome<Value> {
    if flags != 0 {
        return Err(Status::ERROR_INVALID_VALUE);
    }
    Ok(Value { operand: address.device(bytes), value, compare: None })
}

/// Returns the value for a stream to wait for.
fn awaited(address: Address, value: u64, bytes: usize, flags: u32) -> Outcome<Value> {
    if flags & FLUSH != 0 {
        return Err(Status::ERROR_NOT_SUPPORTED);
    }
    let compare = match flags {
        0 => Compare::GreaterOrEqual,
        1 => Compare::Equal,
        2 => Compare::And,
        3 => Compare::Nor,
        _ => return Err(Status::ERROR_INVALID_VALUE),
    };
    Ok(Value { operand: address.device(bytes), value, compare: Some(compare) })
}

impl Call {
    fn touch(self, stream: usize, values: &[Value]) -> Outcome<()> {
        let stream = self.stream(stream)?;
        self.machine()?.touch_values(&self.caller(), stream, values)
    }
}

entry! {
    /// Makes a stream wait for a value of 4 bytes in memory.
    fn [cuStreamWaitValue32, cuStreamWaitValue32_ptsz, cuStreamWaitValue32_v2, cuStreamWaitValue32_v2_ptsz](
        stream: usize,
        address: Address,
        value: u32,
        flags: u32,
    ) |call| { call.touch(stream, &[awaited(address, u64::from(value), 4, flags)?]) }
}

entry! {
    /// Makes a stream wait for a value of 8 bytes in memory.
    fn [cuStreamWaitValue64, cuStreamWaitValue64_ptsz, cuStreamWaitValue64_v2, cuStreamWaitValue64_v2_ptsz](
        stream: usize,
        address: Address,
        value: u64,
        flags: u32,
    ) |call| { call.touch(stream, &[awaited(address, value, 8, flags)?]) }
}

entry! {
    /// Makes a stream write a value of 4 bytes to memory.
    fn [cuStreamWriteValue32, cuStreamWriteValue32_ptsz, cuStreamWriteValue32_v2, cuStreamWriteValue32_v2_ptsz](
        stream: usize,
        address: Address,
        value: u32,
        flags: u32,
    ) |call| { call.touch(stream, &[written(address, u64::from(value), 4, flags)?]) }
}

entry! {
    /// Makes a stream write a value of 8 bytes to memory.
    fn [cuStreamWriteValue64, cuStreamWriteValue64_ptsz, cuStreamWriteValue64_v2, cuStreamWriteValue64_v2_ptsz](
        stream: usize,
        address: Address,
        value: u64,
        flags: u32,
    ) |call| { call.touch(stream, &[written(address, value, 8, flags)?]) }
}

entry! {
    /// Makes a stream wait for and write several values, one after the other.
    fn [cuStreamBatchMemOp, cuStreamBatchMemOp_ptsz, cuStreamBatchMemOp_v2, cuStreamBatchMemOp_v2_ptsz](
        stream: usize,
        count: u32,
        operations: In<MemoryOperation>,
        flags: u32,
    ) |call| {
        if flags != 0 || count > 255 {
            call.stream(stream)?;
            return Err(Status::ERROR_INVALID_VALUE);
        }
        let mut values = Vec::new();
        for index in 0..count as usize {
            // SAFETY: (1): the array has `count` elements.
            let MemoryOperation { kind, address, value, flags, .. } = unsafe { operations.at(index) }?;
            let short = value & u64::from(u32::MAX);
            match kind {
                1 => values.push(awaited(address, short, 4, flags)?),
                2 => values.push(written(address, short, 4, flags)?),
                4 => values.push(awaited(address, value, 8, flags)?),
                5 => values.push(written(address, value, 8, flags)?),
                // `CAN_FLUSH_REMOTE_WRITES` is zero.
                3 => return Err(Status::ERROR_NOT_SUPPORTED),
                // A barrier: writes become visible in order here anyway.
                6 => {}
                _ => return Err(Status::ERROR_INVALID_VALUE),
            }
        }
        call.touch(stream, &values)
    }
}
