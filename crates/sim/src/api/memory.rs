//! Allocating and freeing.

use super::pointer::{Address, Out};
use super::{Call, entry};
use crate::machine::memory::Kind;
use crate::status::{Outcome, Status};

/// `CU_MEMHOSTALLOC_*`.
const HOST_FLAGS: u32 = 7;
/// `CU_MEMHOSTALLOC_DEVICEMAP`: all pinned memory is.
const MAPPED: u32 = 2;
/// `CU_MEM_ATTACH_GLOBAL` and `CU_MEM_ATTACH_HOST`.
const ATTACH: [u32; 2] = [1, 2];

entry! {
    /// Tells the free bytes of the current device, and all it has.
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
        // As with a real driver, no address of before stays where it could be taken for the new one.
        out.offer(*allocated.as_ref().unwrap_or(&0));
        allocated.map(|_| ())
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
    /// Allocates memory of the current device.
    fn cuMemAlloc_v2(address: Out<usize>, bytes: usize) |call| { call.allocate(address, Kind::Device, bytes) }
}

entry! {
    /// Allocates rows of memory of the current device.
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
    /// Frees memory of a device, also that of a pool, or managed memory.
    fn cuMemFree_v2(address: usize) |call| {
        let freed = |kind: Kind| kind.is_device() || kind == Kind::Managed;
        call.machine()?.free(&call.caller(), address, freed)
    }
}

entry! {
    /// Tells where the allocation begins that an address lies in, and how long it is.
    fn cuMemGetAddressRange_v2(base: Out<usize>, bytes: Out<usize>, address: usize) |call| {
        let context = call.context()?;
        let state = call.machine()?.lock();
        state.context(context)?;
        let passport = state.passport(address).ok_or(Status::ERROR_NOT_FOUND)?;
        base.offer(passport.base);
        bytes.offer(passport.bytes);
        Ok(())
    }
}

entry! {
    /// Allocates pinned memory of the host.
    fn cuMemAllocHost_v2(address: Out<usize>, bytes: usize) |call| { call.allocate_pinned(address, bytes, MAPPED) }
}

entry! {
    /// Allocates pinned memory of the host with flags, which are only remembered.
    fn cuMemHostAlloc(address: Out<usize>, bytes: usize, flags: u32) |call| {
        if flags & !HOST_FLAGS != 0 {
            call.context()?;
            return Err(Status::ERROR_INVALID_VALUE);
        }
        // A real driver forgets PORTABLE where it is alone: all pinned memory is.
        let told = if flags & 0b110 == 0 { MAPPED } else { flags | MAPPED };
        call.allocate_pinned(address, bytes, if flags == 3 { MAPPED } else { told })
    }
}

entry! {
    /// Frees pinned memory.
    fn cuMemFreeHost(address: usize) |call| {
        call.machine()?.free(&call.caller(), address, |kind| matches!(kind, Kind::Pinned { .. }))
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
    /// Tells the address by which devices reach pinned memory: the same.
    fn cuMemHostGetDevicePointer_v2(device: Out<usize>, address: usize, flags: u32) |call| {
        call.host_flags(address)?;
        if flags != 0 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        device.put(address)
    }
}

entry! {
    /// Tells the flags of pinned memory.
    fn cuMemHostGetFlags(flags: Out<u32>, address: usize) |call| { flags.put(call.host_flags(address)?) }
}

entry! {
    /// Allocates memory that the host and all devices use.
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
    /// Lets devices reach memory of the caller's.
    fn [cuMemHostRegister, cuMemHostRegister_v2](address: Address, bytes: usize, flags: u32) |call| {
        let context = call.context()?;
        call.machine()?.register(&call.caller(), context, address.range(bytes), flags)
    }
}

entry! {
    /// Ends that.
    fn cuMemHostUnregister(address: usize) |call| { call.machine()?.unregister(&call.caller(), address) }
}
