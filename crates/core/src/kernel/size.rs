//! The size of a launch, and the limits of device and kernel.

use std::ptr;

use crate::abi::cuda::{LaunchConfiguration, StreamHandle};
use crate::driver::driver;
use crate::error::{Error, KernelError, Shape};
use crate::kernel::Ready;

/// Grid, block, and dynamic shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Blocks along each axis.
    pub grid: [u32; 3],
    /// Threads per block along each axis.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory per block.
    pub shared: u32,
}

impl Size {
    /// A one-dimensional launch.
    #[must_use]
    pub const fn of(blocks: u32, threads: u32) -> Self {
        Self { grid: [blocks, 1, 1], block: [threads, 1, 1], shared: 0 }
    }

    /// The driver's launch configuration for this size and stream.
    #[inline]
    pub(super) const fn on(&self, stream: StreamHandle) -> LaunchConfiguration {
        let Self { grid, block, shared } = *self;
        LaunchConfiguration { grid, block, shared, stream, attributes: ptr::null(), count: 0 }
    }
}

impl Ready {
    /// Whether the known limits allow this size. Makes no driver call.
    #[inline]
    pub(super) fn fits(&self, size: &Size) -> bool {
        let fits = |found: [u32; 3], most: [u32; 3]| {
            (0..3).all(|axis| found[axis].wrapping_sub(1) < most[axis])
        };
        fits(size.grid, self.limits.grid)
            && fits(size.block, self.limits.block)
            && threads(size) <= u64::from(self.threads.min(self.limits.threads))
            && size.shared <= self.dynamic
    }

    /// Refuses a size beyond the limits of the device or the kernel.
    #[inline]
    pub(super) fn check(&self, size: &Size) -> Result<(), Error> {
        if self.fits(size) { Ok(()) } else { self.explain(size) }
    }

    #[cold]
    fn explain(&self, size: &Size) -> Result<(), Error> {
        let fits = |found: [u32; 3], most: [u32; 3]| {
            found.into_iter().zip(most).all(|(found, most)| (1..=most).contains(&found))
        };
        let threads = threads(size) <= u64::from(self.threads.min(self.limits.threads));
        let shared =
            u64::from(size.shared) + u64::from(self.shared) <= u64::from(self.limits.shared);
        let fits = fits(size.grid, self.limits.grid) && fits(size.block, self.limits.block);
        if !(threads && shared && fits) {
            let wide = |extents: [u32; 3]| extents.map(i64::from);
            return Err(self.outsized(wide(size.grid), wide(size.block), size.shared.into()));
        }
        // More than the current limit, but the device has it. Raise the limit to the maximum, so that this
        // happens once.
        let most = self.limits.shared - self.shared;
        // SAFETY: the module of the function is loaded, and held.
        Ok(unsafe { driver()?.allow_shared(self.function, most) }?)
    }

    /// The error for a size beyond the limits.
    #[cold]
    pub(super) fn outsized(&self, grid: [i64; 3], block: [i64; 3], shared: i64) -> Error {
        const AXES: [&str; 3] = ["x", "y", "z"];
        let shape = || Box::new(Shape { kernel: self.signature.name.clone(), grid, block });
        for (what, extents, limits) in
            [("grid", grid, self.limits.grid), ("block", block, self.limits.block)]
        {
            for ((found, most), axis) in extents.into_iter().zip(limits).zip(AXES) {
                if !(1..=i64::from(most)).contains(&found) {
                    return KernelError::Extent { shape: shape(), what, axis, found, most }.into();
                }
            }
        }
        let found = block.iter().map(|extent| extent.unsigned_abs()).product();
        for (most, whose) in [
            (self.limits.threads, "the device"),
            (self.threads, "this kernel (its registers or __launch_bounds__)"),
        ] {
            if found > u64::from(most) {
                return KernelError::Threads { shape: shape(), found, most, whose }.into();
            }
        }
        let (own, most) = (self.shared, self.limits.shared);
        KernelError::Shared { shape: shape(), found: shared, own, most }.into()
    }
}

fn threads(size: &Size) -> u64 {
    size.block.iter().map(|extent| u64::from(*extent)).product()
}

/// The most threads that a block has along z, on every device.
const MOST_Z: u32 = 64;
/// Threads along x that read one row of memory at once.
const WARP: u32 = 32;

/// A block of at most so many threads for elements along x, y and z: whole warps along x, then as much as there is of the rest.
pub(super) fn block_over([x, y, z]: [u64; 3], threads: u32) -> [u32; 3] {
    if y <= 1 && z <= 1 {
        return [threads, 1, 1];
    }
    let enough = |extent: u64, most: u32| {
        let rounded = u32::try_from(extent.max(1)).ok().and_then(u32::checked_next_power_of_two);
        rounded.map_or(most, |rounded| rounded.min(most)).max(1)
    };
    let width = enough(x, WARP.min(threads));
    let height = enough(y, threads / width);
    let depth = enough(z, (threads / width / height).min(MOST_Z));
    [enough(x, threads / height / depth), height, depth]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_no_more_threads_than_it_may_and_wastes_few() {
        assert_eq!(block_over([1000, 1, 1], 768), [768, 1, 1]);
        assert_eq!(block_over([640, 480, 1], 1024), [32, 32, 1]);
        assert_eq!(block_over([640, 480, 1], 768), [32, 24, 1]);
        assert_eq!(block_over([3, 480, 1], 256), [4, 64, 1]);
        assert_eq!(block_over([1000, 2, 1], 256), [128, 2, 1]);
        assert_eq!(block_over([8, 8, 8], 256), [8, 8, 4]);
        assert_eq!(block_over([1, 1, 1000], 1024), [1, 1, 64]);
        assert_eq!(block_over([u64::MAX, u64::MAX, u64::MAX], 1024), [32, 32, 1]);
        assert_eq!(block_over([5, 5, 5], 1), [1, 1, 1]);
    }
}
