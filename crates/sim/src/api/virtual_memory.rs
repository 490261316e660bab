//! Memory that is made, mapped and given access to in separate steps.

use std::ffi::c_int;
use std::os::fd::{IntoRawFd, RawFd};

use super::pointer::{Address, In, Out, borrowed};
use super::pools::{Access, Location, PINNED};
use super::{Call, entry};
use crate::machine::memory::Kind;
use crate::machine::virtual_memory::{GRANULARITY, POSIX_FILE_DESCRIPTOR};
use crate::status::{Outcome, Status};

/// `CUmemAllocationProp`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Properties {
    kind: i32,
    handle_types: u32,
    location: Location,
    security: usize,
    flags: [u8; 8],
}

const _: () = assert!(size_of::<Properties>() == 32);

impl Call {
    /// Returns the device that properties name.
    fn device_of(self, properties: &Properties) -> Outcome<usize> {
        let (kind, types) = (properties.kind, properties.handle_types);
        if kind != PINNED || types & !0b1011 != 0 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        let Some(device) = properties.location.device() else {
            return Err(Status::ERROR_INVALID_VALUE);
        };
        // Handles of Windows and of fabrics are not for these devices.
        if types & !POSIX_FILE_DESCRIPTOR != 0 {
            return Err(Status::ERROR_NOT_SUPPORTED);
        }
        self.device(device)
    }
}

entry! {
    /// Returns the granularity of physical memory and its mappings.
    fn cuMemGetAllocationGranularity(granularity: Out<usize>, properties: In<Properties>, option: i32) |call| {
        granularity.required()?;
        call.device_of(&properties.get()?)?;
        if !(0..=1).contains(&option) {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        granularity.put(GRANULARITY)
    }
}

entry! {
    /// Reserves addresses. The hint is not taken.
    fn cuMemAddressReserve(address: Out<usize>, bytes: usize, align: usize, _hint: usize, flags: u64) |call| {
        address.required()?;
        let machine = call.machine()?;
        if flags != 0 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        address.put(machine.reserve(bytes, align)?)
    }
}

entry! {
    /// Ends a reservation.
    fn cuMemAddressFree(address: usize, bytes: usize) |call| {
        call.machine()?.end_reservation(&call.caller(), address, bytes)
    }
}

entry! {
    /// Makes physical memory.
    fn cuMemCreate(handle: Out<usize>, bytes: usize, properties: In<Properties>, flags: u64) |call| {
        handle.required()?;
        let properties = properties.get()?;
        let device = call.device_of(&properties)?;
        if flags != 0 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        handle.put(call.machine()?.make_physical(device, bytes, properties.handle_types)?)
    }
}

entry! {
    /// Releases a handle of physical memory.
    fn cuMemRelease(handle: usize) |call| { call.machine()?.release_physical(&call.caller(), handle) }
}

entry! {
    /// Maps physical memory at reserved addresses.
    fn cuMemMap(address: usize, bytes: usize, offset: usize, handle: usize, flags: u64) |call| {
        let machine = call.machine()?;
        if flags != 0 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        machine.map(&call.caller(), address, bytes, offset, handle)
    }
}

entry! {
    /// Unmaps memory.
    fn cuMemUnmap(address: usize, bytes: usize) |call| { call.machine()?.unmap(&call.caller(), address, bytes) }
}

entry! {
    /// Sets the access of devices to mapped memory.
    fn cuMemSetAccess(address: usize, bytes: usize, descriptions: In<Access>, count: usize) |call| {
        let machine = call.machine()?;
        if count == 0 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        let mut devices = Vec::new();
        for access in descriptions.list(count)? {
            let device = access.location.device().ok_or(Status::ERROR_NOT_SUPPORTED)?;
            let flags = u8::try_from(access.flags).ok().filter(|flags| [0, 1, 3].contains(flags));
            // As an H200 says, and not INVALID_DEVICE.
            let device = call.device(device).map_err(|_| Status::ERROR_INVALID_VALUE)?;
            devices.push((device, flags.ok_or(Status::ERROR_INVALID_VALUE)?));
        }
        machine.set_access(&call.caller(), (address, bytes), &devices)
    }
}

entry! {
    /// Returns the access of a device to mapped memory.
    fn cuMemGetAccess(flags: Out<u64>, location: In<Location>, address: usize) |call| {
        flags.required()?;
        let location = location.get()?;
        let device = call.device(location.device().ok_or(Status::ERROR_INVALID_VALUE)?)?;
        match call.machine()?.lock().passport(address).map(|passport| passport.kind) {
            Some(Kind::Mapped { access, .. }) => flags.put(u64::from(access.of(device))),
            _ => Err(Status::ERROR_INVALID_VALUE),
        }
    }
}

entry! {
    /// Returns a descriptor by which other processes import physical memory.
    fn cuMemExportToShareableHandle(shared: Out<c_int>, handle: usize, kind: u32, flags: u64) |call| {
        let machine = call.machine()?;
        shared.required()?;
        if kind != POSIX_FILE_DESCRIPTOR || flags != 0 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        shared.put(machine.share_physical(&call.caller(), handle)?.into_raw_fd())
    }
}

/// Returns the descriptor that a pointer stands for.
pub(super) fn descriptor(shared: Address) -> Outcome<RawFd> {
    // Callers cast an `int`; the upper half is not defined.
    let number = u32::try_from(shared.number() & 0xFFFF_FFFF).unwrap_or(u32::MAX).cast_signed();
    if number < 0 { Err(Status::ERROR_UNKNOWN) } else { Ok(number) }
}

entry! {
    /// Imports physical memory.
    fn cuMemImportFromShareableHandle(handle: Out<usize>, shared: Address, kind: u32) |call| {
        let machine = call.machine()?;
        handle.required()?;
        if kind != POSIX_FILE_DESCRIPTOR {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        handle.put(machine.import_physical(&call.caller(), borrowed(descriptor(shared)?)?)?)
    }
}

entry! {
    /// Returns the handle of what is mapped at an address.
    fn cuMemRetainAllocationHandle(handle: Out<usize>, address: usize) |call| {
        handle.required()?;
        handle.put(call.machine()?.retain_physical(address)?)
    }
}

entry! {
    /// Returns the properties of physical memory.
    fn cuMemGetAllocationPropertiesFromHandle(properties: Out<Properties>, handle: usize) |call| {
        properties.required()?;
        let mut state = call.machine()?.lock();
        let found = state.physical(&call.caller(), handle)?;
        let device = i32::try_from(found.device).unwrap_or(0);
        properties.put(Properties {
            kind: PINNED,
            handle_types: found.handle_types,
            location: Location::of_device(device),
            security: 0,
            flags: [0; 8],
        })
    }
}
