//! Pools: stream-ordered memory.

use std::ffi::c_int;
use std::os::fd::IntoRawFd;

use super::pointer::{Address, In, Out, borrowed};
use super::virtual_memory::descriptor;
use super::{Call, entry};
use crate::machine::device;
use crate::machine::pool::{Place, Pool};
use crate::machine::share::HANDLE;
use crate::machine::virtual_memory::POSIX_FILE_DESCRIPTOR;
use crate::status::{Outcome, Status};

/// `CU_MEM_LOCATION_TYPE_DEVICE`.
const DEVICE: i32 = 1;
/// `CU_MEM_LOCATION_TYPE_HOST`.
const HOST: i32 = 2;
/// `CU_MEM_LOCATION_TYPE_HOST_NUMA` and `CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT`.
const HOST_NUMA: i32 = 3;
const HOST_NUMA_CURRENT: i32 = 4;
/// `CU_MEM_ALLOCATION_TYPE_MANAGED`.
const MANAGED: i32 = 2;
/// `CU_MEM_ALLOCATION_TYPE_PINNED`.
pub(super) const PINNED: i32 = 1;

const RELEASE_THRESHOLD: i32 = 4;
const RESERVED_MEM_CURRENT: i32 = 5;
const RESERVED_MEM_HIGH: i32 = 6;
const USED_MEM_CURRENT: i32 = 7;
const USED_MEM_HIGH: i32 = 8;

/// `CUmemLocation`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Location {
    kind: i32,
    id: i32,
}

impl Location {
    /// Returns the location of a device number; -1 means the host.
    pub(super) fn of_device(device: i32) -> Self {
        if device == -1 { Self { kind: HOST, id: 0 } } else { Self { kind: DEVICE, id: device } }
    }

    /// Returns its type and its id.
    pub(super) fn numbers(self) -> (i32, i32) {
        (self.kind, self.id)
    }

    /// Returns the device, if the location is one.
    pub(super) fn device(self) -> Option<i32> {
        (self.kind == DEVICE).then_some(self.id)
    }
}

/// `CUmemPoolProps`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Properties {
    allocation: i32,
    handles: u32,
    location: Location,
    security: usize,
    maximum: usize,
    usage: u16,
    reserved: [u8; 54],
}

/// `CUmemAccessDesc`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Access {
    pub(super) location: Location,
    pub(super) flags: u32,
}

const _: () = {
    assert!(size_of::<Properties>() == 88);
    assert!(size_of::<Access>() == 12);
};

impl Call {
    /// Reads or changes a pool. CUDA's calls on pools count as unsafe during a capture.
    fn pool<T>(self, pool: usize, body: impl FnOnce(&mut Pool) -> Outcome<T>) -> Outcome<T> {
        let mut state = self.machine()?.lock();
        let caller = self.caller();
        state.refuse_unsafe(&caller)?;
        body(state.pool(&caller, pool)?)
    }

    fn put_pool(self, out: Out<usize>, device: i32, chosen: bool) -> Outcome<()> {
        let device = self.device(device)?;
        let state = self.machine()?.lock();
        let found = &state.devices[device];
        out.put(if chosen { found.pool } else { found.default_pool })
    }
}

entry! {
    /// Returns the default pool of a device.
    fn cuDeviceGetDefaultMemPool(pool: Out<usize>, device: i32) |call| { call.put_pool(pool, device, false) }
}

entry! {
    /// Returns the current pool of a device, which `cuMemAllocAsync` uses.
    fn cuDeviceGetMemPool(pool: Out<usize>, device: i32) |call| { call.put_pool(pool, device, true) }
}

entry! {
    /// Sets the current pool of a device.
    fn cuDeviceSetMemPool(device: i32, pool: usize) |call| {
        let device = call.device(device)?;
        let mut state = call.machine()?.lock();
        let found = state.pool(&call.caller(), pool)?;
        if found.device != device || found.place != Place::Device {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        state.devices[device].pool = pool;
        Ok(())
    }
}

/// Returns where the memory of a pool is. A pool on one NUMA node is not supported: the devices have none.
fn place(allocation: i32, location: Location) -> Outcome<Place> {
    match (allocation, location.kind) {
        (PINNED, DEVICE) => Ok(Place::Device),
        (PINNED, HOST) => Ok(Place::Host),
        (PINNED, HOST_NUMA | HOST_NUMA_CURRENT) => Err(Status::ERROR_NOT_SUPPORTED),
        (MANAGED, 0..=HOST_NUMA_CURRENT) => Ok(Place::Managed),
        _ => Err(Status::ERROR_INVALID_VALUE),
    }
}

impl Call {
    /// Finds the default and the current pool of a place. Those outside of devices are made when first asked for.
    fn pools(
        self,
        location: In<Location>,
        allocation: i32,
    ) -> Outcome<(Place, usize, (usize, usize))> {
        let location = location.get()?;
        let place = place(allocation, location)?;
        let known = |id| self.device(id).map_err(|_| Status::ERROR_INVALID_VALUE);
        let device = location.device().map(known).transpose()?;
        if let (Place::Device, Some(device)) = (place, device) {
            let state = self.machine()?.lock();
            let found = &state.devices[device];
            return Ok((place, device, (found.default_pool, found.pool)));
        }
        let mut state = self.machine()?.lock();
        let found = match state.default_pools.get(&place) {
            Some(found) => *found,
            None => {
                let made = state.pools.add(Pool::new(place, 0, 0));
                state.default_pools.insert(place, (made, made));
                (made, made)
            }
        };
        Ok((place, 0, found))
    }
}

entry! {
    /// Returns the default pool of a device, of the host, or of managed memory.
    fn cuMemGetDefaultMemPool(pool: Out<usize>, location: In<Location>, allocation: i32) |call| {
        pool.required()?;
        pool.put(call.pools(location, allocation)?.2.0)
    }
}

entry! {
    /// Returns the current pool of a device, of the host, or of managed memory.
    fn cuMemGetMemPool(pool: Out<usize>, location: In<Location>, allocation: i32) |call| {
        pool.required()?;
        pool.put(call.pools(location, allocation)?.2.1)
    }
}

entry! {
    /// Sets the current pool of a device, of the host, or of managed memory.
    fn cuMemSetMemPool(location: In<Location>, allocation: i32, pool: usize) |call| {
        let (place, device, _) = call.pools(location, allocation)?;
        let mut state = call.machine()?.lock();
        let found = state.pool(&call.caller(), pool)?;
        if (found.place, found.device) != (place, device) {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        if place == Place::Device {
            state.devices[device].pool = pool;
        } else if let Some((_, current)) = state.default_pools.get_mut(&place) {
            *current = pool;
        }
        Ok(())
    }
}

entry! {
    /// Allocates from the device's current pool, in stream order.
    fn [cuMemAllocAsync, cuMemAllocAsync_ptsz](address: Out<usize>, bytes: usize, stream: usize) |call| {
        let stream = call.stream(stream)?;
        address.required()?;
        address.put(call.machine()?.allocate_ordered(&call.caller(), stream, None, bytes)?)
    }
}

entry! {
    /// Allocates from a pool, in stream order.
    fn [cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync_ptsz](
        address: Out<usize>,
        bytes: usize,
        pool: usize,
        stream: usize,
    ) |call| {
        let stream = call.stream(stream)?;
        address.required()?;
        address.put(call.machine()?.allocate_ordered(&call.caller(), stream, Some(pool), bytes)?)
    }
}

entry! {
    /// Frees memory in stream order.
    fn [cuMemFreeAsync, cuMemFreeAsync_ptsz](address: usize, stream: usize) |call| {
        let stream = call.stream(stream)?;
        call.machine()?.free_ordered(&call.caller(), stream, address)
    }
}

entry! {
    /// Creates a pool of device memory.
    fn cuMemPoolCreate(pool: Out<usize>, properties: In<Properties>) |call| {
        let mut state = call.machine()?.lock();
        state.refuse_unsafe(&call.caller())?;
        pool.required()?;
        let properties = properties.get()?;
        let place = place(properties.allocation, properties.location)?;
        let known = |id| device::index(&state.config, id).map_err(|_| Status::ERROR_INVALID_VALUE);
        let device = properties.location.device().map(known).transpose()?;
        let device = device.filter(|_| place == Place::Device).unwrap_or(0);
        // Handles of Windows and of fabrics are not for these devices, and only their memory is shared.
        let shares = if place == Place::Device { POSIX_FILE_DESCRIPTOR } else { 0 };
        if properties.handles & !shares != 0 || properties.usage != 0 {
            return Err(Status::ERROR_NOT_SUPPORTED);
        }
        let mut made = Pool::new(place, device, properties.maximum);
        made.handle_types = properties.handles;
        pool.put(state.pools.add(made))
    }
}

entry! {
    /// Destroys a pool. Memory allocated from it stays valid.
    fn cuMemPoolDestroy(pool: usize) |call| {
        let mut state = call.machine()?.lock();
        let caller = call.caller();
        state.refuse_unsafe(&caller)?;
        let device = state.pool(&caller, pool)?.device;
        let is_default = state.default_pools.values().any(|(default, _)| *default == pool);
        if is_default || state.devices[device].default_pool == pool {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        for (default, current) in state.default_pools.values_mut() {
            if *current == pool {
                *current = *default;
            }
        }
        if state.devices[device].pool == pool {
            state.devices[device].pool = state.devices[device].default_pool;
        }
        state.pools.remove(pool);
        Ok(())
    }
}

entry! {
    /// Returns unused reserved memory beyond `keep` to the device.
    fn cuMemPoolTrimTo(pool: usize, keep: usize) |call| {
        call.pool(pool, |pool| {
            pool.trim(keep);
            Ok(())
        })
    }
}

entry! {
    /// Sets an attribute of a pool.
    fn cuMemPoolSetAttribute(pool: usize, attribute: i32, value: Address) |call| {
        call.pool(pool, |pool| {
            let long = || value.as_out::<u64>().take();
            match attribute {
                1..=3 => pool.reuse[reuse(attribute)] = i32::from(value.as_out::<i32>().take()? != 0),
                RELEASE_THRESHOLD => pool.threshold = long()?,
                RESERVED_MEM_HIGH if long()? == 0 => pool.reserved.1 = pool.reserved.0,
                USED_MEM_HIGH if long()? == 0 => pool.used.1 = pool.used.0,
                _ => return Err(Status::ERROR_INVALID_VALUE),
            }
            Ok(())
        })
    }
}

/// Returns the index of one of the three reuse policies.
fn reuse(attribute: i32) -> usize {
    usize::try_from(attribute - 1).unwrap_or(0)
}

entry! {
    /// Returns an attribute of a pool.
    fn cuMemPoolGetAttribute(pool: usize, attribute: i32, value: Address) |call| {
        call.pool(pool, |pool| {
            let long = |number: usize| value.as_out::<u64>().put(number as u64);
            match attribute {
                1..=3 => value.as_out::<i32>().put(pool.reuse[reuse(attribute)]),
                RELEASE_THRESHOLD => value.as_out::<u64>().put(pool.threshold),
                RESERVED_MEM_CURRENT => long(pool.reserved.0),
                RESERVED_MEM_HIGH => long(pool.reserved.1),
                USED_MEM_CURRENT => long(pool.used.0),
                USED_MEM_HIGH => long(pool.used.1),
                _ => Err(Status::ERROR_INVALID_VALUE),
            }
        })
    }
}

entry! {
    /// Sets the access of devices to a pool's memory. Copies and kernels of other devices need it.
    fn cuMemPoolSetAccess(pool: usize, map: In<Access>, count: usize) |call| {
        if count == 0 || map.is_null() {
            call.machine()?;
            return Err(Status::ERROR_INVALID_VALUE);
        }
        for index in 0..count {
            // SAFETY: (1): the array has `count` elements.
            let access = unsafe { map.at(index) }?;
            if access.location.kind != DEVICE {
                return Err(Status::ERROR_NOT_SUPPORTED);
            }
            let device = call.device(access.location.id)?;
            call.pool(pool, |pool| match access.flags {
                3 => {
                    pool.access.insert(device, 3);
                    Ok(())
                }
                0 if pool.device == device => Err(Status::ERROR_INVALID_DEVICE),
                0 => {
                    pool.access.remove(&device);
                    Ok(())
                }
                1 => Err(Status::ERROR_NOT_SUPPORTED),
                _ => Err(Status::ERROR_INVALID_VALUE),
            })?;
        }
        Ok(())
    }
}

entry! {
    /// Returns the access of a device to a pool's memory.
    fn cuMemPoolGetAccess(flags: Out<u32>, pool: usize, location: In<Location>) |call| {
        let location = location.get()?;
        flags.required()?;
        let device = match location.kind {
            DEVICE => Some(call.device(location.id).map_err(|_| Status::ERROR_INVALID_VALUE)?),
            HOST => None,
            _ => return Err(Status::ERROR_INVALID_VALUE),
        };
        let mut state = call.machine()?.lock();
        let pool = state.pool(&call.caller(), pool)?;
        if pool.place != Place::Device {
            return flags.put(3);
        }
        flags.put(device.and_then(|device| pool.access.get(&device)).copied().unwrap_or(0))
    }
}

/// `CUmemPoolPtrExportData`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Exported([u8; HANDLE]);

entry! {
    /// Returns a descriptor by which other processes import a pool.
    fn cuMemPoolExportToShareableHandle(shared: Out<c_int>, pool: usize, kind: u32, flags: u64) |call| {
        let machine = call.machine()?;
        shared.required()?;
        if kind != POSIX_FILE_DESCRIPTOR || flags != 0 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        shared.put(machine.export_pool(&call.caller(), pool)?.into_raw_fd())
    }
}

entry! {
    /// Imports a pool.
    fn cuMemPoolImportFromShareableHandle(pool: Out<usize>, shared: Address, kind: u32, flags: u64) |call| {
        let machine = call.machine()?;
        pool.required()?;
        if kind != POSIX_FILE_DESCRIPTOR || flags != 0 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        pool.put(machine.import_pool(&call.caller(), borrowed(descriptor(shared)?)?)?)
    }
}

entry! {
    /// Returns the name by which importers of a pool get memory of it.
    fn cuMemPoolExportPointer(exported: Out<Exported>, address: usize) |call| {
        let machine = call.machine()?;
        exported.required()?;
        exported.put(Exported(machine.export_pointer(&call.caller(), address)?))
    }
}

entry! {
    /// Imports memory of an imported pool.
    fn cuMemPoolImportPointer(address: Out<usize>, pool: usize, exported: In<Exported>) |call| {
        let machine = call.machine()?;
        address.required()?;
        let exported = exported.get()?;
        address.put(machine.import_pointer(&call.caller(), call.context()?, pool, &exported.0)?)
    }
}
