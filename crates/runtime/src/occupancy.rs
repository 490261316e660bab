//! How many blocks of a kernel run at once.

use std::ffi::{c_int, c_uint, c_void};

use crate::launch::LaunchConfig;
use crate::registry::kernel;
use crate::state::here;
use crate::wire::{In, Out, runtime};

runtime! {
    /// Returns how many blocks of a kernel a multiprocessor runs at once.
    fn cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks: Out<c_int>, function: *const c_void, threads: c_int, shared: usize) {
        blocks.required()?;
        let here = here()?;
        let kernel = kernel(here, function)?;
        // SAFETY: there is a place for one int; the kernel is loaded.
        unsafe {
            here.driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks.raw(), kernel, threads, shared)
        }
    }

    /// Returns how many blocks of a kernel a multiprocessor runs at once, with flags.
    fn cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks: Out<c_int>, function: *const c_void, threads: c_int, shared: usize, flags: c_uint) {
        blocks.required()?;
        let here = here()?;
        let kernel = kernel(here, function)?;
        // SAFETY: there is a place for one int; the kernel is loaded.
        unsafe {
            here.driver.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
                blocks.raw(), kernel, threads, shared, flags,
            )
        }
    }

    /// Returns the block with which most threads run, and the smallest grid that fills the device.
    fn cudaOccupancyMaxPotentialBlockSize(grid: Out<c_int>, block: Out<c_int>, function: *const c_void, shared: usize, most: c_int) {
        grid.required()?;
        block.required()?;
        let here = here()?;
        let kernel = kernel(here, function)?;
        // SAFETY: there are places for two ints; the kernel is loaded; no function says how much shared memory
        // a block needs.
        unsafe {
            here.driver.cuOccupancyMaxPotentialBlockSizeWithFlags(
                grid.raw(), block.raw(), kernel, 0, shared, most, 0,
            )
        }
    }

    /// As `cudaOccupancyMaxPotentialBlockSize`, with flags.
    fn cudaOccupancyMaxPotentialBlockSizeWithFlags(grid: Out<c_int>, block: Out<c_int>, function: *const c_void, shared: usize, most: c_int, flags: c_uint) {
        grid.required()?;
        block.required()?;
        let here = here()?;
        let kernel = kernel(here, function)?;
        // SAFETY: as above.
        unsafe {
            here.driver.cuOccupancyMaxPotentialBlockSizeWithFlags(
                grid.raw(), block.raw(), kernel, 0, shared, most, flags,
            )
        }
    }

    /// Returns how much shared memory a launch may ask for if so many blocks are to run at once.
    fn cudaOccupancyAvailableDynamicSMemPerBlock(bytes: Out<usize>, function: *const c_void, blocks: c_int, threads: c_int) {
        bytes.required()?;
        let here = here()?;
        let kernel = kernel(here, function)?;
        // SAFETY: there is a place for one size; the kernel is loaded.
        unsafe {
            here.driver.cuOccupancyAvailableDynamicSMemPerBlock(bytes.raw(), kernel, blocks, threads)
        }
    }

    /// Returns the largest cluster with which a kernel can be launched.
    fn cudaOccupancyMaxPotentialClusterSize(size: Out<c_int>, function: *const c_void, configuration: In<LaunchConfig>) {
        size.required()?;
        let here = here()?;
        let kernel = kernel(here, function)?;
        let passed = configuration.get()?.for_driver()?;
        // SAFETY: there is a place for one int; the kernel is loaded; the caller's attributes are as documented.
        unsafe {
            here.driver.cuOccupancyMaxPotentialClusterSize(size.raw(), kernel, &raw const passed)
        }
    }

    /// Returns how many clusters of a kernel the device runs at once.
    fn cudaOccupancyMaxActiveClusters(count: Out<c_int>, function: *const c_void, configuration: In<LaunchConfig>) {
        count.required()?;
        let here = here()?;
        let kernel = kernel(here, function)?;
        let passed = configuration.get()?.for_driver()?;
        // SAFETY: as above.
        unsafe { here.driver.cuOccupancyMaxActiveClusters(count.raw(), kernel, &raw const passed) }
    }
}
