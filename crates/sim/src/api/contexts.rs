//! Contexts: primary and created ones, and the current one.

use super::pointer::{In, Out};
use super::{Call, entry, thread};
use crate::machine::context::{FLAGS, MAP_HOST};
use crate::machine::stream::GREATEST_PRIORITY;
use crate::status::{Outcome, Status};

/// `CU_CTX_SCHED_MASK`.
const SCHEDULE: u32 = 7;

/// Refuses unknown flags, and more than one scheduling flag.
fn check_flags(flags: u32) -> Outcome<()> {
    let schedules = [0, 1, 2, 4].contains(&(flags & SCHEDULE));
    if flags & !FLAGS != 0 || !schedules { Err(Status::ERROR_INVALID_VALUE) } else { Ok(()) }
}

impl Call {
    /// Returns the context of a handle; null means the current one.
    pub(super) fn context_or_current(self, context: usize) -> Outcome<usize> {
        self.machine()?;
        if context == 0 { self.context() } else { Ok(context) }
    }

    fn create(self, out: Out<usize>, flags: u32, device: i32) -> Outcome<()> {
        let device = self.device(device)?;
        out.required()?;
        check_flags(flags)?;
        let context = self.machine()?.lock().create_context(device, flags, false)?;
        thread::push(context);
        out.put(context)
    }
}

entry! {
    /// Retains the primary context of a device.
    fn cuDevicePrimaryCtxRetain(context: Out<usize>, device: i32) |call| {
        let device = call.device(device)?;
        context.required()?;
        context.put(call.machine()?.lock().retain_primary(device)?)
    }
}

entry! {
    /// Releases the primary context of a device once.
    fn [cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2](device: i32) |call| {
        let device = call.device(device)?;
        call.machine()?.release_primary(&call.caller(), device)
    }
}

entry! {
    /// Resets the primary context of a device.
    fn [cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2](device: i32) |call| {
        let device = call.device(device)?;
        call.machine()?.reset_primary(&call.caller(), device)
    }
}

entry! {
    /// Returns whether the primary context of a device is active.
    fn cuDevicePrimaryCtxGetState(device: i32, flags: Out<u32>, active: Out<i32>) |call| {
        let device = call.device(device)?;
        let state = call.machine()?.lock();
        flags.required()?;
        active.put(i32::from(state.primary_is_active(device)))?;
        flags.put(state.devices[device].flags)
    }
}

entry! {
    /// Sets the flags of the primary context of a device.
    fn [cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags_v2](device: i32, flags: u32) |call| {
        let device = call.device(device)?;
        check_flags(flags)?;
        if flags & MAP_HOST != 0 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        let mut state = call.machine()?.lock();
        state.devices[device].flags = flags;
        if let Some(context) = state.devices[device].primary.filter(|_| state.primary_is_active(device)) {
            state.context_mut(context)?.flags = flags | MAP_HOST;
        }
        Ok(())
    }
}

entry! {
    /// Creates a context and makes it current.
    fn cuCtxCreate_v2(context: Out<usize>, flags: u32, device: i32) |call| { call.create(context, flags, device) }
}

entry! {
    /// Creates a context and makes it current. Affinities are not supported.
    fn cuCtxCreate_v3(context: Out<usize>, _affinities: In<u8>, count: i32, flags: u32, device: i32) |call| {
        if count != 0 {
            return Err(Status::ERROR_UNSUPPORTED_EXEC_AFFINITY);
        }
        call.create(context, flags, device)
    }
}

entry! {
    /// Creates a context and makes it current. Parameters must be empty.
    fn cuCtxCreate_v4(context: Out<usize>, parameters: In<[usize; 3]>, flags: u32, device: i32) |call| {
        // Affinities, their count (in the low half) and graphics: all zero.
        let empty = parameters.is_null() || parameters.get()?.map(|field| field & 0xFFFF_FFFF) == [0; 3];
        if !empty {
            return Err(Status::ERROR_NOT_SUPPORTED);
        }
        call.create(context, flags, device)
    }
}

entry! {
    /// Destroys a context that is not a primary one.
    fn [cuCtxDestroy, cuCtxDestroy_v2](context: usize) |call| {
        if context == 0 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        let machine = call.machine()?;
        let primary = machine.lock().contexts.get(context).is_none_or(|found| found.primary);
        if primary {
            return Err(Status::ERROR_INVALID_CONTEXT);
        }
        machine.destroy_context(&call.caller(), context, |_| true)?;
        if thread::current() == Some(context) {
            thread::pop();
        }
        Ok(())
    }
}

entry! {
    /// Pushes a context.
    fn [cuCtxPushCurrent, cuCtxPushCurrent_v2](context: usize) |call| {
        call.known(context)?;
        thread::push(context);
        Ok(())
    }
}

entry! {
    /// Pops the current context.
    fn [cuCtxPopCurrent, cuCtxPopCurrent_v2](context: Out<usize>) |call| {
        call.machine()?;
        let popped = thread::pop().ok_or(Status::ERROR_INVALID_CONTEXT)?;
        context.offer(popped);
        Ok(())
    }
}

entry! {
    /// Replaces the current context.
    fn cuCtxSetCurrent(context: usize) |call| {
        call.machine()?;
        if context != 0 {
            call.known(context)?;
        }
        thread::set(Some(context).filter(|context| *context != 0));
        Ok(())
    }
}

impl Call {
    /// Refuses handles that were never contexts. A destroyed context may be made current; later calls then
    /// report it.
    fn known(self, context: usize) -> Outcome<()> {
        let state = self.machine()?.lock();
        let known = state.contexts.get(context).is_some() || state.contexts.was(context);
        match known {
            true => Ok(()),
            false if context == 0 => Err(Status::ERROR_INVALID_VALUE),
            false => Err(Status::ERROR_INVALID_CONTEXT),
        }
    }
}

entry! {
    /// Returns the current context, or null.
    fn cuCtxGetCurrent(context: Out<usize>) |call| {
        call.machine()?;
        context.put(thread::current().unwrap_or(0))
    }
}

entry! {
    /// Returns the device of the current context, even if that is destroyed.
    fn cuCtxGetDevice(device: Out<i32>) |call| { call.put_device(call.context()?, device) }
}

entry! {
    /// Returns the device of a context.
    fn cuCtxGetDevice_v2(device: Out<i32>, context: usize) |call| {
        call.put_device(call.context_or_current(context)?, device)
    }
}

impl Call {
    fn put_device(self, context: usize, device: Out<i32>) -> Outcome<()> {
        let state = self.machine()?.lock();
        let index = state.device_of(context).ok_or(Status::ERROR_INVALID_CONTEXT)?;
        device.put(i32::try_from(index).unwrap_or(i32::MAX))
    }
}

entry! {
    /// Returns the flags of the current context.
    fn cuCtxGetFlags(flags: Out<u32>) |call| {
        let context = call.context()?;
        let state = call.machine()?.lock();
        flags.put(state.context(context)?.flags)
    }
}

entry! {
    /// Sets the flags of the current context.
    fn cuCtxSetFlags(flags: u32) |call| {
        let context = call.context()?;
        let mut state = call.machine()?.lock();
        let found = state.context_mut(context)?;
        check_flags(flags)?;
        found.flags = flags | MAP_HOST;
        Ok(())
    }
}

entry! {
    /// Returns the unique id of a context.
    fn cuCtxGetId(context: usize, id: Out<u64>) |call| {
        let context = call.context_or_current(context)?;
        let state = call.machine()?.lock();
        state.context(context)?;
        id.put(state.contexts.number(context))
    }
}

entry! {
    /// Returns the API version of a context.
    fn cuCtxGetApiVersion(context: usize, version: Out<u32>) |call| {
        let context = call.context_or_current(context)?;
        let state = call.machine()?.lock();
        // A real driver returns the same version for every kind of context, and this code for destroyed ones.
        match state.context(context) {
            Err(Status::ERROR_CONTEXT_IS_DESTROYED) => return Err(Status::ERROR_INVALID_CONTEXT),
            found => found?,
        };
        version.put(3020)
    }
}

entry! {
    /// Waits for all work of the current context.
    fn cuCtxSynchronize() |call| {
        let context = call.context()?;
        call.machine()?.synchronize_context(&call.caller(), context)
    }
}

entry! {
    /// Waits for all work of a context.
    fn cuCtxSynchronize_v2(context: usize) |call| {
        let context = call.context_or_current(context)?;
        call.machine()?.synchronize_context(&call.caller(), context)
    }
}

/// Returns the index of a limit.
fn limit(number: i32) -> Outcome<usize> {
    match number {
        3 | 9 => Err(Status::ERROR_UNSUPPORTED_LIMIT),
        0..=8 => usize::try_from(number).map_err(|_| Status::ERROR_INVALID_VALUE),
        _ => Err(Status::ERROR_INVALID_VALUE),
    }
}

entry! {
    /// Returns a limit of the current context.
    fn cuCtxGetLimit(value: Out<usize>, number: i32) |call| {
        let context = call.context()?;
        let state = call.machine()?.lock();
        let found = state.context(context)?;
        value.required()?.put(found.limits[limit(number)?])
    }
}

entry! {
    /// Sets a limit of the current context. Kernels heed that of their heap; the others are only stored.
    fn cuCtxSetLimit(number: i32, value: usize) |call| {
        let context = call.context()?;
        let mut state = call.machine()?.lock();
        state.context(context)?;
        state.refuse_unsafe(&call.caller())?;
        let place = limit(number)?;
        if place >= 7 {
            return Err(Status::ERROR_NOT_PERMITTED);
        }
        // More stack than a thread can have.
        if place == 0 && value > 512 << 10 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        state.set_limit(&call.caller(), context, place, value)
    }
}

entry! {
    /// Returns the preferred cache configuration.
    fn cuCtxGetCacheConfig(config: Out<i32>) |call| {
        let context = call.context()?;
        let state = call.machine()?.lock();
        config.put(state.context(context)?.cache)
    }
}

entry! {
    /// Stores the preferred cache configuration.
    fn cuCtxSetCacheConfig(config: i32) |call| {
        let context = call.context()?;
        let mut state = call.machine()?.lock();
        let found = state.context_mut(context)?;
        if !(0..=3).contains(&config) {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        found.cache = config;
        Ok(())
    }
}

entry! {
    /// Returns the least and the greatest stream priority.
    fn cuCtxGetStreamPriorityRange(least: Out<i32>, greatest: Out<i32>) |call| {
        let context = call.context()?;
        call.machine()?.lock().context(context)?;
        least.offer(0);
        greatest.offer(GREATEST_PRIORITY);
        Ok(())
    }
}

entry! {
    /// Increments the usage count of the current context.
    fn cuCtxAttach(context: Out<usize>, flags: u32) |call| {
        let current = call.context()?;
        if flags != 0 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        call.machine()?.lock().context_mut(current)?.attached += 1;
        context.put(current)
    }
}

entry! {
    /// Decrements the usage count of a context; at zero it is destroyed.
    fn cuCtxDetach(context: usize) |call| {
        let machine = call.machine()?;
        let mut state = machine.lock();
        let found = state.contexts.get_mut(context).filter(|found| found.active);
        let found = found.ok_or(Status::ERROR_INVALID_CONTEXT)?;
        if found.attached > 0 || found.primary {
            found.attached = found.attached.saturating_sub(1);
            return Ok(());
        }
        drop(state);
        machine.destroy_context(&call.caller(), context, |_| true)?;
        if thread::current() == Some(context) {
            thread::pop();
        }
        Ok(())
    }
}

impl Call {
    /// Returns the current context, and whether it could access the peer's memory.
    fn peers(self, peer: usize) -> Outcome<(usize, bool)> {
        let current = self.context()?;
        let state = self.machine()?.lock();
        let (own, other) = (
            state.context(current)?,
            state.context(peer).map_err(|_| Status::ERROR_INVALID_CONTEXT)?,
        );
        Ok((current, own.device != other.device))
    }
}

entry! {
    /// Allows the current context to access another's memory. Copies between devices do not need this.
    fn cuCtxEnablePeerAccess(peer: usize, flags: u32) |call| {
        let (current, apart) = call.peers(peer)?;
        if flags != 0 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        if !apart {
            return Err(Status::ERROR_PEER_ACCESS_UNSUPPORTED);
        }
        let mut state = call.machine()?.lock();
        let added = state.context_mut(current)?.peers.insert(peer);
        if added { Ok(()) } else { Err(Status::ERROR_PEER_ACCESS_ALREADY_ENABLED) }
    }
}

entry! {
    /// Revokes that access.
    fn cuCtxDisablePeerAccess(peer: usize) |call| {
        let (current, _) = call.peers(peer)?;
        let mut state = call.machine()?.lock();
        let removed = state.context_mut(current)?.peers.remove(&peer);
        if removed { Ok(()) } else { Err(Status::ERROR_PEER_ACCESS_NOT_ENABLED) }
    }
}
