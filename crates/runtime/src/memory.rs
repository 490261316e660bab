//! Memory: allocation, release, registration and what is known of an address.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;

use crate::driver::Driver;
use crate::error::{Error, Outcome};
use crate::slices::{Extent, PitchedPointer};
use crate::state::{device, enter};
use crate::wire::{Handle, Out, forward, runtime};

/// The element size that a pitch is made for. Any of the driver's gives rows that are aligned for all.
const ELEMENT: c_uint = 16;

runtime! {
    /// Allocates device memory. No bytes give null.
    fn cudaMalloc(address: Out<u64>, bytes: usize) {
        address.required()?;
        let driver = enter()?;
        if bytes == 0 {
            return address.put(0);
        }
        // SAFETY: there is a place for one address.
        unsafe { driver.cuMemAlloc_v2(address.raw(), bytes) }
    }

    /// Releases device memory. Null is allowed, and initialises the device.
    fn cudaFree(address: u64) {
        let driver = enter()?;
        if address == 0 {
            return Ok(());
        }
        // SAFETY: the caller no longer uses the memory; the driver refuses an address that is not its own.
        unsafe { driver.cuMemFree_v2(address) }
    }

    /// Allocates page-locked host memory.
    fn cudaMallocHost(address: Out<*mut c_void>, bytes: usize) {
        // Every context may use it.
        allocate_host(address, bytes, 1)
    }

    /// Allocates page-locked host memory with flags.
    fn cudaHostAlloc(address: Out<*mut c_void>, bytes: usize, flags: c_uint) {
        allocate_host(address, bytes, flags)
    }

    /// Releases page-locked host memory. Null is allowed.
    fn cudaFreeHost(address: *mut c_void) {
        let driver = enter()?;
        if address.is_null() {
            return Ok(());
        }
        // SAFETY: the caller no longer uses the memory; the driver refuses an address that is not its own.
        unsafe { driver.cuMemFreeHost(address) }
    }

    /// Allocates rows of device memory, each aligned.
    fn cudaMallocPitch(address: Out<u64>, pitch: Out<usize>, width: usize, height: usize) {
        address.required()?;
        pitch.required()?;
        let (base, step) = allocate_rows(enter()?, width, height)?;
        pitch.put(step)?;
        address.put(base)
    }

    /// Allocates slices of rows of device memory.
    fn cudaMalloc3D(pointer: Out<PitchedPointer>, extent: Extent) {
        pointer.required()?;
        let rows = extent.height.checked_mul(extent.depth).ok_or(Error::INVALID_VALUE)?;
        let (base, pitch) = allocate_rows(enter()?, extent.width, rows)?;
        pointer.put(PitchedPointer { address: base, pitch, width: extent.width, height: extent.height })
    }

    /// Describes an address.
    fn cudaPointerGetAttributes(attributes: Out<PointerAttributes>, address: u64) {
        attributes.required()?;
        attributes.put(describe(enter()?, address)?)
    }

    /// Moves managed memory to a device, or to the host if that is -1.
    fn cudaMemPrefetchAsync(address: u64, bytes: usize, place: c_int, stream: Handle) {
        let driver = enter()?;
        let place = place_of(driver, place)?;
        // SAFETY: the driver checks the range.
        unsafe { driver.cuMemPrefetchAsync(address, bytes, place, stream) }
    }

    /// Says how managed memory will be used.
    fn cudaMemAdvise(address: u64, bytes: usize, advice: c_int, place: c_int) {
        let driver = enter()?;
        let place = place_of(driver, place)?;
        // SAFETY: the driver checks the range.
        unsafe { driver.cuMemAdvise(address, bytes, advice, place) }
    }
}

forward! {
    /// Page-locks host memory of the caller.
    fn cudaHostRegister(address: *mut c_void, bytes: usize, flags: c_uint)
        = cuMemHostRegister_v2(address, bytes, flags);
    /// Ends the page-lock of host memory.
    fn cudaHostUnregister(address: *mut c_void) = cuMemHostUnregister(address);
    /// Returns the device's address of page-locked host memory.
    fn cudaHostGetDevicePointer(address: Out<u64>, host: *mut c_void, flags: c_uint)
        = cuMemHostGetDevicePointer_v2(address, host, flags);
    /// Returns the flags of page-locked host memory.
    fn cudaHostGetFlags(flags: Out<c_uint>, host: *mut c_void) = cuMemHostGetFlags(flags, host);
    /// Allocates memory that host and device share.
    fn cudaMallocManaged(address: Out<u64>, bytes: usize, flags: c_uint)
        = cuMemAllocManaged(address, bytes, flags);
    /// Returns the free and the total bytes of the device.
    fn cudaMemGetInfo(free: Out<usize>, total: Out<usize>) = cuMemGetInfo_v2(free, total);
    /// Returns an attribute of managed memory.
    fn cudaMemRangeGetAttribute(data: Out<c_void>, room: usize, which: c_int, address: u64, bytes: usize)
        = cuMemRangeGetAttribute(data, room, which, address, bytes);
    /// Returns several attributes of managed memory.
    fn cudaMemRangeGetAttributes(data: Out<*mut c_void>, rooms: Out<usize>, which: Out<c_int>, count: usize, address: u64, bytes: usize)
        = cuMemRangeGetAttributes(data, rooms, which, count, address, bytes);
}

fn allocate_host(address: Out<*mut c_void>, bytes: usize, flags: c_uint) -> Outcome<()> {
    address.required()?;
    let driver = enter()?;
    if bytes == 0 {
        return address.put(ptr::null_mut());
    }
    // SAFETY: there is a place for one address.
    unsafe { driver.cuMemHostAlloc(address.raw(), bytes, flags) }
}

/// Returns the address and the pitch of new rows. No bytes give null.
fn allocate_rows(driver: &Driver, width: usize, height: usize) -> Outcome<(u64, usize)> {
    let (mut address, mut pitch) = (0, 0);
    if width == 0 || height == 0 {
        return Ok((address, pitch));
    }
    // SAFETY: an address and a size are written.
    unsafe { driver.cuMemAllocPitch_v2(&raw mut address, &raw mut pitch, width, height, ELEMENT) }?;
    Ok((address, pitch))
}

/// Returns the driver's handle of a device, or -1 for the host.
fn place_of(driver: &Driver, place: c_int) -> Outcome<c_int> {
    if place == -1 { Ok(place) } else { device(driver, place) }
}

/// `cudaPointerAttributes`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PointerAttributes {
    kind: c_int,
    device: c_int,
    device_pointer: u64,
    host_pointer: u64,
}

fn describe(driver: &Driver, address: u64) -> Outcome<PointerAttributes> {
    /// The driver's numbers of: memory type, device pointer, host pointer, is managed, device.
    const WHICH: [c_int; 5] = [2, 3, 4, 8, 9];
    // A narrower attribute fills the low half.
    let mut values = [0_u64; 5];
    let places = values.each_mut().map(|value| ptr::from_mut(value).cast::<c_void>());
    // SAFETY: there are five attributes and as many places, each wide enough for any of them.
    unsafe { driver.cuPointerGetAttributes(5, WHICH.as_ptr(), places.as_ptr(), address) }?;
    let [place, device_pointer, host_pointer, managed, device] = values;
    let kind = match (place & 0xffff_ffff, managed & 0xff) {
        // Memory that the driver does not know is the host's own.
        (0, _) => {
            return Ok(PointerAttributes {
                kind: 0,
                device: -2,
                device_pointer: 0,
                host_pointer: address,
            });
        }
        (_, 1) => 3,
        (1, _) => 1,
        _ => 2,
    };
    let device = c_int::try_from(device & 0xffff_ffff).unwrap_or(-2);
    Ok(PointerAttributes { kind, device, device_pointer, host_pointer })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn pointer_attributes_are_those_of_the_header() {
        assert_eq!(size_of::<PointerAttributes>(), 24);
        assert_eq!(offset_of!(PointerAttributes, device), 4);
        assert_eq!(offset_of!(PointerAttributes, device_pointer), 8);
        assert_eq!(offset_of!(PointerAttributes, host_pointer), 16);
    }
}
