//! Allocation and release.

use super::pointer::{Address, Out};
use super::pools::Location;
use super::{Call, entry};
use crate::machine::advice::{Advice, Spot};
use crate::machine::memory::Kind;
use crate::machine::operation::Work;
use crate::status::{Outcome, Status};

/// `CU_MEMHOSTALLOC_*`.
const HOST_FLAGS: u32 = 7;
/// `CU_MEMHOSTALLOC_DEVICEMAP`: set for all pinned memory.
const MAPPED: u32 = 2;
/// `CU_MEM_ATTACH_GLOBAL` and `CU_MEM_ATTACH_HOST`.
const ATTACH: [u32; 2] = [1, 2];

entry! {
    /// Returns the free and the total bytes of the current device.
    fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) |call| {
        let (left, all) = call.machine()?.memory_info(call.context()?)?;
        free.offer(left);
        total.offer(all);
        Ok(())
    }
}

impl Call {
    fn allocate(self, out: Out<usize>, kind: Kind, bytes: usize) -> Outcome<()> {
        out.required()?;
        let context = self.context()?;
        let allocated = self.machine()?.allocate(&self.caller(), context, kind, bytes);
        // Like a real driver, clears the output on failure, so that it contains no stale address.
        out.offer(*allocated.as_ref().unwrap_or(&0));
        allocated.map(|_| ())
    }

    /// Frees memory. This needs no context, but a current one must be alive.
    fn free(self, address: usize, fits: impl Fn(Kind) -> bool) -> Outcome<()> {
        let machine = self.machine()?;
        if let Ok(context) = self.context() {
            machine.lock().context(context)?;
        }
        machine.free(&self.caller(), address, fits)
    }

    fn allocate_pinned(self, out: Out<usize>, bytes: usize, flags: u32) -> Outcome<()> {
        let context = self.context()?;
        out.required()?;
        if bytes == 0 {
            let mut state = self.machine()?.lock();
            state.context(context)?;
            state.refuse_unsafe(&self.caller())?;
            return out.put(0);
        }
        self.allocate(out, Kind::Pinned { flags }, bytes)
    }
}

entry! {
    /// Allocates device memory.
    fn cuMemAlloc_v2(address: Out<usize>, bytes: usize) |call| { call.allocate(address, Kind::Device, bytes) }
}

entry! {
    /// Allocates pitched device memory.
    fn cuMemAllocPitch_v2(address: Out<usize>, pitch: Out<usize>, width: usize, height: usize, element: u32) |call| {
        let context = call.context()?;
        address.required()?;
        pitch.required()?;
        let (base, row) = call.machine()?.allocate_pitched(&call.caller(), context, (width, height), element)?;
        pitch.put(row)?;
        address.put(base)
    }
}

entry! {
    /// Frees device memory, also a pool's, or managed memory.
    fn cuMemFree_v2(address: usize) |call| {
        call.free(address, |kind| kind.is_allocated() || kind.is_managed())
    }
}

entry! {
    /// Returns the base address and the size of the allocation that contains an address.
    fn cuMemGetAddressRange_v2(base: Out<usize>, bytes: Out<usize>, address: usize) |call| {
        let context = call.context()?;
        let state = call.machine()?.lock();
        state.context(context)?;
        let found = state.passport(address);
        // A mapping that nobody may access is not found.
        let found = found.filter(|passport| !matches!(passport.kind, Kind::Mapped { access, .. } if access.is_none()));
        base.offer(found.as_ref().map_or(0, |passport| passport.base));
        bytes.offer(found.as_ref().map_or(0, |passport| passport.bytes));
        found.map(|_| ()).ok_or(Status::ERROR_NOT_FOUND)
    }
}

entry! {
    /// Allocates pinned host memory.
    fn cuMemAllocHost_v2(address: Out<usize>, bytes: usize) |call| { call.allocate_pinned(address, bytes, MAPPED) }
}

entry! {
    /// Allocates pinned host memory with flags, which are only stored.
    fn cuMemHostAlloc(address: Out<usize>, bytes: usize, flags: u32) |call| {
        if flags & !HOST_FLAGS != 0 {
            call.context()?;
            return Err(Status::ERROR_INVALID_VALUE);
        }
        // A real driver drops PORTABLE unless WRITECOMBINED is set: all pinned memory is portable.
        let stored = if flags & 0b110 == 0 { MAPPED } else { flags | MAPPED };
        call.allocate_pinned(address, bytes, if flags == 3 { MAPPED } else { stored })
    }
}

entry! {
    /// Frees pinned memory.
    fn cuMemFreeHost(address: usize) |call| {
        call.free(address, |kind| matches!(kind, Kind::Pinned { .. }))
    }
}

impl Call {
    /// Returns the flags of pinned or registered memory.
    fn host_flags(self, address: usize) -> Outcome<u32> {
        let context = self.context()?;
        let state = self.machine()?.lock();
        state.context(context)?;
        match state.passport(address).map(|passport| passport.kind) {
            Some(Kind::Pinned { flags } | Kind::Registered { flags }) => Ok(flags),
            _ => Err(Status::ERROR_INVALID_VALUE),
        }
    }
}

entry! {
    /// Returns the device pointer of pinned memory: the same address.
    fn cuMemHostGetDevicePointer_v2(device: Out<usize>, address: usize, flags: u32) |call| {
        call.host_flags(address)?;
        if flags != 0 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        device.put(address)
    }
}

entry! {
    /// Returns the flags of pinned memory.
    fn cuMemHostGetFlags(flags: Out<u32>, address: usize) |call| { flags.put(call.host_flags(address)?) }
}

entry! {
    /// Allocates managed memory.
    fn cuMemAllocManaged(address: Out<usize>, bytes: usize, flags: u32) |call| {
        let context = call.context()?;
        let mut state = call.machine()?.lock();
        state.context(context)?;
        state.refuse_unsafe(&call.caller())?;
        drop(state);
        if !ATTACH.contains(&flags) {
            address.offer(0);
            return Err(Status::ERROR_INVALID_VALUE);
        }
        call.allocate(address, Kind::Managed, bytes)
    }
}

entry! {
    /// Registers the caller's memory.
    fn [cuMemHostRegister, cuMemHostRegister_v2](address: Address, bytes: usize, flags: u32) |call| {
        let context = call.context()?;
        call.machine()?.register(&call.caller(), context, address.range(bytes), flags)
    }
}

entry! {
    /// Unregisters it.
    fn cuMemHostUnregister(address: usize) |call| { call.machine()?.unregister(&call.caller(), address) }
}

impl Call {
    /// Returns a place that exists.
    fn spot(self, location: Location) -> Outcome<Spot> {
        if let Some(device) = location.device() {
            self.device(device)?;
        }
        Ok(location.numbers())
    }

    /// Managed memory is accessible everywhere, so a prefetch only takes its place in the stream's order.
    pub(super) fn prefetch(
        self,
        address: usize,
        bytes: usize,
        location: Location,
        stream: usize,
    ) -> Outcome<()> {
        let spot = self.spot(location)?;
        let mut state = self.machine()?.lock();
        let context = state.stream(&self.caller(), stream)?.context;
        state.context(context)?;
        state.advise(address, bytes, Some(Advice::Prefetched(spot)))?;
        state.submit(&self.caller(), stream, Work::Mark, &[]).map(|_| ())
    }

    fn advise(self, address: usize, bytes: usize, advice: i32, location: Location) -> Outcome<()> {
        let context = self.context()?;
        let machine = self.machine()?;
        // Where memory is mostly read from does not matter, nor where it was to be.
        let spot = if matches!(advice, 1 | 2 | 4) { Ok((0, 0)) } else { self.spot(location) }?;
        let mut state = machine.lock();
        state.context(context)?;
        let advice = match advice {
            1 | 2 => Advice::ReadMostly(advice == 1),
            3 => Advice::Preferred(Some(spot)),
            4 => Advice::Preferred(None),
            5 | 6 => Advice::AccessedBy(spot, advice == 5),
            _ => return Err(Status::ERROR_INVALID_VALUE),
        };
        state.advise(address, bytes, Some(advice))
    }
}

entry! {
    /// Prefetches managed memory in stream order: nothing to move.
    fn [cuMemPrefetchAsync, cuMemPrefetchAsync_ptsz](address: usize, bytes: usize, device: i32, stream: usize) |call| {
        call.prefetch(address, bytes, Location::of_device(device), call.stream(stream)?)
    }
}

entry! {
    /// Prefetches managed memory in stream order: nothing to move.
    fn [cuMemPrefetchAsync_v2, cuMemPrefetchAsync_v2_ptsz](
        address: usize,
        bytes: usize,
        location: Location,
        flags: u32,
        stream: usize,
    ) |call| {
        if flags != 0 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        call.prefetch(address, bytes, location, call.stream(stream)?)
    }
}

entry! {
    /// Stores advice on managed memory, which has no effect.
    fn cuMemAdvise(address: usize, bytes: usize, advice: i32, device: i32) |call| {
        call.advise(address, bytes, advice, Location::of_device(device))
    }
}

entry! {
    /// Stores advice on managed memory, which has no effect.
    fn cuMemAdvise_v2(address: usize, bytes: usize, advice: i32, location: Location) |call| {
        call.advise(address, bytes, advice, location)
    }
}
