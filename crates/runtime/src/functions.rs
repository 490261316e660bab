//! Attributes of kernels.

use std::ffi::{c_char, c_int, c_void};

use crate::devices::wish;
use crate::error::{Error, Outcome};
use crate::registry;
use crate::state::{Here, here};
use crate::wire::{Handle, Out, runtime};

/// `cudaFuncAttributes`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct FunctionAttributes {
    shared: usize,
    constant: usize,
    local: usize,
    most_threads: c_int,
    registers: c_int,
    ptx_version: c_int,
    binary_version: c_int,
    cache_mode: c_int,
    most_dynamic_shared: c_int,
    carveout: c_int,
    cluster_must_be_set: c_int,
    cluster_width: c_int,
    cluster_height: c_int,
    cluster_depth: c_int,
    cluster_policy: c_int,
    large_cluster: c_int,
    reserved: [c_int; 16],
}

fn attribute(here: Here, kernel: Handle, which: c_int) -> Outcome<c_int> {
    let mut value = 0;
    // SAFETY: one int is written; the kernel is loaded.
    unsafe { here.driver.cuFuncGetAttribute(&raw mut value, which, kernel) }?;
    Ok(value)
}

fn describe(here: Here, kernel: Handle) -> Outcome<FunctionAttributes> {
    let read = |which| attribute(here, kernel, which);
    let size = |which| read(which).map(|value| usize::try_from(value).unwrap_or(0));
    // A driver or device without clusters has none of their attributes.
    let late = |which| read(which).unwrap_or(0);
    Ok(FunctionAttributes {
        most_threads: read(0)?,
        shared: size(1)?,
        constant: size(2)?,
        local: size(3)?,
        registers: read(4)?,
        ptx_version: read(5)?,
        binary_version: read(6)?,
        cache_mode: late(7),
        most_dynamic_shared: late(8),
        carveout: late(9),
        cluster_must_be_set: late(10),
        cluster_width: late(11),
        cluster_height: late(12),
        cluster_depth: late(13),
        large_cluster: late(14),
        cluster_policy: late(15),
        reserved: [0; 16],
    })
}

runtime! {
    /// Describes a kernel.
    fn cudaFuncGetAttributes(attributes: Out<FunctionAttributes>, function: *const c_void) {
        attributes.required()?;
        let here = here()?;
        attributes.put(describe(here, registry::kernel(here, function)?)?)
    }

    /// Sets an attribute of a kernel.
    fn cudaFuncSetAttribute(function: *const c_void, which: c_int, value: c_int) {
        let here = here()?;
        let kernel = registry::kernel(here, function)?;
        // The others are facts.
        if !(8..=15).contains(&which) {
            return Err(Error::INVALID_VALUE);
        }
        // SAFETY: the kernel is loaded; the driver checks the value.
        unsafe { here.driver.cuFuncSetAttribute(kernel, which, value) }
    }

    /// Sets what the cache is preferred for while a kernel runs.
    fn cudaFuncSetCacheConfig(function: *const c_void, value: c_int) {
        let here = here()?;
        let kernel = registry::kernel(here, function)?;
        // SAFETY: the kernel is loaded; the driver checks the value.
        unsafe { here.driver.cuFuncSetCacheConfig(kernel, value) }
    }

    /// Sets how wide the banks of shared memory are for a kernel: a wish, which newer devices ignore.
    fn cudaFuncSetSharedMemConfig(function: *const c_void, value: c_int) {
        let here = here()?;
        let kernel = registry::kernel(here, function)?;
        // SAFETY: the kernel is loaded; the driver checks the value.
        wish(unsafe { here.driver.cuFuncSetSharedMemConfig(kernel, value) })
    }

    /// Returns the driver's handle of a kernel.
    fn cudaGetFuncBySymbol(place: Out<Handle>, function: *const c_void) {
        place.required()?;
        place.put(registry::kernel(here()?, function)?)
    }

    /// Returns the name of a kernel in its image.
    fn cudaFuncGetName(name: Out<*const c_char>, function: *const c_void) {
        name.required()?;
        let here = here()?;
        let kernel = registry::kernel(here, function)?;
        // SAFETY: there is a place for one pointer; the kernel is loaded.
        unsafe { here.driver.cuFuncGetName(name.raw(), kernel) }
    }

    /// Returns where a parameter of a kernel lies, and its size.
    fn cudaFuncGetParamInfo(function: *const c_void, index: usize, offset: Out<usize>, size: *mut usize) {
        offset.required()?;
        let here = here()?;
        let kernel = registry::kernel(here, function)?;
        // SAFETY: there is a place for one size, and another or null; the kernel is loaded.
        unsafe { here.driver.cuFuncGetParamInfo(kernel, index, offset.raw(), size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn function_attributes_are_those_of_the_header() {
        assert_eq!(size_of::<FunctionAttributes>(), 144);
        assert_eq!(offset_of!(FunctionAttributes, most_threads), 24);
        assert_eq!(offset_of!(FunctionAttributes, registers), 28);
        assert_eq!(offset_of!(FunctionAttributes, cluster_must_be_set), 52);
        assert_eq!(offset_of!(FunctionAttributes, cluster_policy), 68);
        assert_eq!(offset_of!(FunctionAttributes, large_cluster), 72);
    }
}
