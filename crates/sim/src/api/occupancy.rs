//! Occupancy.

use super::pointer::Out;
use super::{Call, entry};
use crate::machine::occupancy;
use crate::status::{Outcome, Status};

/// Returns the dynamic shared memory of a block with this many threads.
type SharedOf = extern "C" fn(i32) -> usize;

fn positive(number: i32) -> Outcome<u32> {
    u32::try_from(number).ok().filter(|number| *number > 0).ok_or(Status::ERROR_INVALID_VALUE)
}

fn signed(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

impl Call {
    fn active_blocks(
        self,
        out: Out<i32>,
        function: usize,
        threads: i32,
        shared: usize,
        flags: u32,
    ) -> Outcome<()> {
        let kernel = self.describe(function)?;
        out.required()?;
        let threads = positive(threads)?;
        if flags > 1 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        out.put(signed(occupancy::blocks(&kernel, threads, shared)?))
    }

    fn block_size(
        self,
        (grid, block): (Out<i32>, Out<i32>),
        function: usize,
        (shared_of, shared): (Option<SharedOf>, usize),
        limit: i32,
        flags: u32,
    ) -> Outcome<()> {
        let kernel = self.describe(function)?;
        grid.required()?;
        block.required()?;
        let limit = u32::try_from(limit).map_err(|_| Status::ERROR_INVALID_VALUE)?;
        if flags > 1 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        let dynamic = |threads| shared_of.map_or(shared, |function| function(signed(threads)));
        let (blocks, threads) = occupancy::best_block(&kernel, limit, dynamic)?;
        grid.put(signed(blocks))?;
        block.put(signed(threads))
    }
}

entry! {
    /// Returns how many blocks fit on a multiprocessor.
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks: Out<i32>, function: usize, threads: i32, shared: usize) |call| {
        call.active_blocks(blocks, function, threads, shared, 0)
    }
}

entry! {
    /// Returns how many blocks fit on a multiprocessor. The flags concern caches.
    fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks: Out<i32>,
        function: usize,
        threads: i32,
        shared: usize,
        flags: u32,
    ) |call| { call.active_blocks(blocks, function, threads, shared, flags) }
}

entry! {
    /// Returns a block size for high occupancy.
    fn cuOccupancyMaxPotentialBlockSize(
        grid: Out<i32>,
        block: Out<i32>,
        function: usize,
        shared_of: Option<SharedOf>,
        shared: usize,
        limit: i32,
    ) |call| { call.block_size((grid, block), function, (shared_of, shared), limit, 0) }
}

entry! {
    /// Returns a block size for high occupancy. The flags concern caches.
    fn cuOccupancyMaxPotentialBlockSizeWithFlags(
        grid: Out<i32>,
        block: Out<i32>,
        function: usize,
        shared_of: Option<SharedOf>,
        shared: usize,
        limit: i32,
        flags: u32,
    ) |call| { call.block_size((grid, block), function, (shared_of, shared), limit, flags) }
}

entry! {
    /// Returns the dynamic shared memory available to each of `blocks` blocks.
    fn cuOccupancyAvailableDynamicSMemPerBlock(bytes: Out<usize>, function: usize, blocks: i32, threads: i32) |call| {
        let kernel = call.describe(function)?;
        bytes.required()?;
        bytes.put(occupancy::available_shared(&kernel, positive(blocks)?, positive(threads)?)?)
    }
}
