//! Devices: which there are, which one a thread uses, and their settings.

use std::ffi::{c_char, c_int, c_uint, c_void};

use crate::driver::opened;
use crate::error::{Error, Outcome};
use crate::state::{choose, current, device, driver, enter, index, primary, reset};
use crate::wire::{Out, forward, runtime};

/// The CUDA version whose interface this library has.
const VERSION: c_int = 12000;
/// `cudaDeviceMapHost`: host memory is mapped in any case, and drivers take no flag for it. The documentation says that
/// it is set.
const MAP_HOST: c_uint = 8;

runtime! {
    /// Returns the number of devices.
    fn cudaGetDeviceCount(count: Out<c_int>) {
        count.required()?;
        let mut found = 0;
        let outcome = driver().and_then(|driver| {
            // SAFETY: one int is written.
            unsafe { driver.cuDeviceGetCount(&raw mut found) }
        });
        count.put(found)?;
        outcome?;
        if found == 0 { Err(Error::NO_DEVICE) } else { Ok(()) }
    }

    /// Makes a device the thread's own, with its primary context.
    fn cudaSetDevice(index: c_int) {
        choose(driver()?, index)
    }

    /// Returns the thread's device.
    fn cudaGetDevice(number: Out<c_int>) {
        number.required()?;
        number.put(index(driver()?)?)
    }

    /// Makes the first device of a list that works the thread's own.
    fn cudaSetValidDevices(list: Out<c_int>, count: c_int) {
        let count = usize::try_from(count).map_err(|_| Error::INVALID_VALUE)?;
        let driver = driver()?;
        if count == 0 {
            return Ok(());
        }
        list.required()?;
        let mut last = Err(Error::INVALID_DEVICE);
        for step in 0..count {
            let place = list.raw().wrapping_add(step);
            // SAFETY: the caller's list has `count` numbers.
            let number = unsafe { place.read_unaligned() };
            last = choose(driver, number);
            if last.is_ok() {
                break;
            }
        }
        last
    }

    /// Waits for all work of the device.
    fn cudaDeviceSynchronize() {
        synchronize()
    }

    /// Waits for all work of the device. The old name.
    fn cudaThreadSynchronize() {
        synchronize()
    }

    /// Destroys the device's memory, streams and modules in this process.
    fn cudaDeviceReset() {
        reset()
    }

    /// As `cudaDeviceReset`. The old name.
    fn cudaThreadExit() {
        reset()
    }

    /// Returns an attribute of a device.
    fn cudaDeviceGetAttribute(value: Out<c_int>, which: c_int, index: c_int) {
        value.required()?;
        let driver = driver()?;
        let device = device(driver, index)?;
        // SAFETY: there is a place for one int.
        unsafe { driver.cuDeviceGetAttribute(value.raw(), which, device) }
    }

    /// Returns the newest CUDA version that the driver supports, or zero without a driver.
    fn cudaDriverGetVersion(version: Out<c_int>) {
        version.required()?;
        let Ok(driver) = opened() else { return version.put(0) };
        // SAFETY: there is a place for one int.
        unsafe { driver.cuDriverGetVersion(version.raw()) }
    }

    /// Returns the CUDA version of this library.
    fn cudaRuntimeGetVersion(version: Out<c_int>) {
        version.put(VERSION)
    }

    /// Sets the flags of the device's context.
    fn cudaSetDeviceFlags(flags: c_uint) {
        let driver = driver()?;
        let device = device(driver, index(driver)?)?;
        // SAFETY: the driver checks the flags.
        unsafe { driver.cuDevicePrimaryCtxSetFlags_v2(device, flags & !MAP_HOST) }
    }

    /// Returns the flags of the device's context.
    fn cudaGetDeviceFlags(flags: Out<c_uint>) {
        flags.required()?;
        let driver = driver()?;
        let (mut found, mut active) = (0, 0);
        if current(driver)? == 0 {
            let device = device(driver, index(driver)?)?;
            // SAFETY: two ints are written.
            unsafe { driver.cuDevicePrimaryCtxGetState(device, &raw mut found, &raw mut active) }?;
        } else {
            // SAFETY: one int is written.
            unsafe { driver.cuCtxGetFlags(&raw mut found) }?;
        }
        flags.put(found | MAP_HOST)
    }

    /// As `cudaInitDevice` of CUDA 12: makes the primary context of a device, without making it current.
    fn cudaInitDevice(index: c_int, device_flags: c_uint, flags: c_uint) {
        /// `cudaInitDeviceFlagsAreValid`.
        const VALID: c_uint = 1;
        let driver = driver()?;
        let device = device(driver, index)?;
        if flags & VALID != 0 {
            // SAFETY: the driver checks the flags.
            unsafe { driver.cuDevicePrimaryCtxSetFlags_v2(device, device_flags & !MAP_HOST) }?;
        }
        primary(driver, index).map(|_| ())
    }

    /// Returns the device at an address of the PCI bus.
    fn cudaDeviceGetByPCIBusId(number: Out<c_int>, name: *const c_char) {
        number.required()?;
        if name.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        // SAFETY: there is a place for one device; the caller's name ends in NUL.
        unsafe { driver()?.cuDeviceGetByPCIBusId(number.raw(), name) }
    }

    /// Returns the address of a device on the PCI bus, as text.
    fn cudaDeviceGetPCIBusId(name: Out<c_char>, room: c_int, index: c_int) {
        name.required()?;
        let driver = driver()?;
        let device = device(driver, index)?;
        // SAFETY: the caller has as much room as it says.
        unsafe { driver.cuDeviceGetPCIBusId(name.raw(), room, device) }
    }

    /// Returns whether a device can access the memory of another one.
    fn cudaDeviceCanAccessPeer(can: Out<c_int>, index: c_int, peer: c_int) {
        can.required()?;
        let driver = driver()?;
        let (device, peer) = (device(driver, index)?, device(driver, peer)?);
        // SAFETY: there is a place for one int.
        unsafe { driver.cuDeviceCanAccessPeer(can.raw(), device, peer) }
    }

    /// Returns an attribute of two devices.
    fn cudaDeviceGetP2PAttribute(value: Out<c_int>, which: c_int, from: c_int, to: c_int) {
        value.required()?;
        let driver = driver()?;
        let (from, to) = (device(driver, from)?, device(driver, to)?);
        // SAFETY: there is a place for one int.
        unsafe { driver.cuDeviceGetP2PAttribute(value.raw(), which, from, to) }
    }

    /// Lets this device access the memory of another one.
    fn cudaDeviceEnablePeerAccess(peer: c_int, flags: c_uint) {
        let driver = enter()?;
        let context = primary(driver, peer)?;
        // SAFETY: the context is retained.
        unsafe { driver.cuCtxEnablePeerAccess(context, flags) }
    }

    /// Ends this device's access to the memory of another one.
    fn cudaDeviceDisablePeerAccess(peer: c_int) {
        let driver = enter()?;
        let context = primary(driver, peer)?;
        // SAFETY: the context is retained.
        unsafe { driver.cuCtxDisablePeerAccess(context) }
    }

    /// Sets how wide the banks of shared memory are: a wish, which newer devices ignore.
    fn cudaDeviceSetSharedMemConfig(value: c_int) {
        // SAFETY: the driver checks the value.
        wish(unsafe { enter()?.cuCtxSetSharedMemConfig(value) })
    }

    /// Returns how wide the banks of shared memory are.
    fn cudaDeviceGetSharedMemConfig(value: Out<c_int>) {
        value.required()?;
        // What a driver without the function has: the default.
        value.put(0)?;
        // SAFETY: there is a place for one int.
        wish(unsafe { enter()?.cuCtxGetSharedMemConfig(value.raw()) })
    }

    /// Returns a function of the driver by its name.
    fn cudaGetDriverEntryPoint(name: *const c_char, address: Out<*mut c_void>, flags: u64, found: *mut c_int) {
        address.required()?;
        if name.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        let mut status = 0;
        // SAFETY: there are places for an address and an int; the caller's name ends in NUL.
        unsafe { driver()?.cuGetProcAddress_v2(name, address.raw(), VERSION, flags, &raw mut status) }?;
        if !found.is_null() {
            // SAFETY: the caller's pointer, which is not null; C does not promise alignment.
            unsafe { found.write_unaligned(status) };
        }
        Ok(())
    }
}

fn synchronize() -> Outcome<()> {
    let driver = enter()?;
    // SAFETY: there are no arguments.
    unsafe { driver.cuCtxSynchronize() }
}

/// A wish that the driver does not know is not granted, and no error.
pub(crate) fn wish(outcome: Outcome<()>) -> Outcome<()> {
    if outcome == Err(Error::NOT_SUPPORTED) { Ok(()) } else { outcome }
}

forward! {
    /// Returns a limit of the device.
    fn cudaDeviceGetLimit(value: Out<usize>, which: c_int) = cuCtxGetLimit(value, which);
    /// Sets a limit of the device.
    fn cudaDeviceSetLimit(which: c_int, value: usize) = cuCtxSetLimit(which, value);
    /// Returns a limit of the device. The old name.
    fn cudaThreadGetLimit(value: Out<usize>, which: c_int) = cuCtxGetLimit(value, which);
    /// Sets a limit of the device. The old name.
    fn cudaThreadSetLimit(which: c_int, value: usize) = cuCtxSetLimit(which, value);
    /// Returns what the cache is preferred for.
    fn cudaDeviceGetCacheConfig(value: Out<c_int>) = cuCtxGetCacheConfig(value);
    /// Sets what the cache is preferred for.
    fn cudaDeviceSetCacheConfig(value: c_int) = cuCtxSetCacheConfig(value);
    /// Returns what the cache is preferred for. The old name.
    fn cudaThreadGetCacheConfig(value: Out<c_int>) = cuCtxGetCacheConfig(value);
    /// Sets what the cache is preferred for. The old name.
    fn cudaThreadSetCacheConfig(value: c_int) = cuCtxSetCacheConfig(value);
    /// Returns the lowest and the highest priority of a stream.
    fn cudaDeviceGetStreamPriorityRange(least: Out<c_int>, greatest: Out<c_int>)
        = cuCtxGetStreamPriorityRange(least, greatest);
    /// Gives the lines of the cache that were to persist back.
    fn cudaCtxResetPersistingL2Cache() = cuCtxResetPersistingL2Cache();
    /// Starts the profiler.
    fn cudaProfilerStart() = cuProfilerStart();
    /// Stops the profiler.
    fn cudaProfilerStop() = cuProfilerStop();
}
