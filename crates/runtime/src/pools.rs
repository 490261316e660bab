//! Memory pools, and allocation in stream order.

use std::ffi::{c_int, c_uint, c_void};

use crate::driver::Shared;
use crate::state::{device, driver, enter};
use crate::wire::{Handle, In, Out, forward, runtime};

forward! {
    /// Allocates from a pool in stream order.
    fn cudaMallocFromPoolAsync(address: Out<u64>, bytes: usize, pool: Handle, stream: Handle)
        = cuMemAllocFromPoolAsync(address, bytes, pool, stream);
    /// Creates a pool.
    fn cudaMemPoolCreate(pool: Out<Handle>, properties: In<c_void>) = cuMemPoolCreate(pool, properties);
    /// Destroys a pool.
    fn cudaMemPoolDestroy(pool: Handle) = cuMemPoolDestroy(pool);
    /// Gives unused memory of a pool back.
    fn cudaMemPoolTrimTo(pool: Handle, keep: usize) = cuMemPoolTrimTo(pool, keep);
    /// Sets an attribute of a pool.
    fn cudaMemPoolSetAttribute(pool: Handle, which: c_int, value: Out<c_void>)
        = cuMemPoolSetAttribute(pool, which, value);
    /// Returns an attribute of a pool.
    fn cudaMemPoolGetAttribute(pool: Handle, which: c_int, value: Out<c_void>)
        = cuMemPoolGetAttribute(pool, which, value);
    /// Says which devices may access a pool.
    fn cudaMemPoolSetAccess(pool: Handle, list: In<c_void>, count: usize) = cuMemPoolSetAccess(pool, list, count);
    /// Returns how a device may access a pool.
    fn cudaMemPoolGetAccess(flags: Out<c_int>, pool: Handle, location: In<c_void>)
        = cuMemPoolGetAccess(flags, pool, location);
    /// Returns a handle of a pool for other processes.
    fn cudaMemPoolExportToShareableHandle(handle: Out<c_void>, pool: Handle, kind: c_int, flags: c_uint)
        = cuMemPoolExportToShareableHandle(handle, pool, kind, u64::from(flags));
    /// Opens a pool of another process.
    fn cudaMemPoolImportFromShareableHandle(pool: Out<Handle>, handle: *mut c_void, kind: c_int, flags: c_uint)
        = cuMemPoolImportFromShareableHandle(pool, handle, kind, u64::from(flags));
    /// Returns a handle of memory of a pool for other processes.
    fn cudaMemPoolExportPointer(data: Out<Shared>, address: u64) = cuMemPoolExportPointer(data, address);
    /// Opens memory of a pool of another process.
    fn cudaMemPoolImportPointer(address: Out<u64>, pool: Handle, data: Out<Shared>)
        = cuMemPoolImportPointer(address, pool, data);
}

runtime! {
    /// Allocates in stream order, from the device's current pool. No bytes give null.
    fn cudaMallocAsync(address: Out<u64>, bytes: usize, stream: Handle) {
        address.required()?;
        let driver = enter()?;
        if bytes == 0 {
            return address.put(0);
        }
        // SAFETY: there is a place for one address; the driver checks the stream.
        unsafe { driver.cuMemAllocAsync(address.raw(), bytes, stream) }
    }

    /// Releases memory in stream order. Null is allowed.
    fn cudaFreeAsync(address: u64, stream: Handle) {
        let driver = enter()?;
        if address == 0 {
            return Ok(());
        }
        // SAFETY: the caller no longer uses the memory after the stream's work; the driver checks the address.
        unsafe { driver.cuMemFreeAsync(address, stream) }
    }

    /// Returns the pool that a device has from the start.
    fn cudaDeviceGetDefaultMemPool(pool: Out<Handle>, index: c_int) {
        pool.required()?;
        let driver = driver()?;
        let device = device(driver, index)?;
        // SAFETY: there is a place for one handle.
        unsafe { driver.cuDeviceGetDefaultMemPool(pool.raw(), device) }
    }

    /// Returns the current pool of a device.
    fn cudaDeviceGetMemPool(pool: Out<Handle>, index: c_int) {
        pool.required()?;
        let driver = driver()?;
        let device = device(driver, index)?;
        // SAFETY: there is a place for one handle.
        unsafe { driver.cuDeviceGetMemPool(pool.raw(), device) }
    }

    /// Sets the current pool of a device.
    fn cudaDeviceSetMemPool(index: c_int, pool: Handle) {
        let driver = driver()?;
        let device = device(driver, index)?;
        // SAFETY: the driver checks the pool.
        unsafe { driver.cuDeviceSetMemPool(device, pool) }
    }
}
