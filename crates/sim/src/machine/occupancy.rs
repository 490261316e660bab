//! Occupancy: how many blocks of a kernel fit on a multiprocessor.
#![forbid(unsafe_code)]

use super::device::Processor;
use super::function::Description;
use crate::status::{Outcome, Status};

/// The number of multiprocessors of a device.
pub const MULTIPROCESSORS: u32 = 4;
const WARP: u32 = 32;
/// The registers of a multiprocessor.
const REGISTERS: u32 = 65_536;
/// The units in which registers are allocated to warps, and shared memory to blocks.
const REGISTER_UNIT: u32 = 256;
const SHARED_UNIT: u32 = 256;

fn whole(bytes: u64, unit: u32) -> u64 {
    bytes.next_multiple_of(u64::from(unit))
}

/// Returns how many blocks fit, ignoring shared memory.
fn by_threads(kernel: &Description, threads: u32) -> Outcome<u32> {
    if threads == 0 {
        return Err(Status::ERROR_INVALID_VALUE);
    }
    if threads > kernel.most_threads()? {
        return Ok(0);
    }
    let warps = threads.div_ceil(WARP);
    let registers = (kernel.kernel()?.registers * WARP).next_multiple_of(REGISTER_UNIT) * warps;
    let Processor { threads, blocks, .. } = kernel.image.processor;
    Ok(blocks.min(threads / (warps * WARP)).min(REGISTERS.checked_div(registers).unwrap_or(blocks)))
}

/// Returns how many blocks with these threads and this dynamic shared memory fit.
///
/// # Errors
///
/// `INVALID_VALUE` for zero threads.
pub fn blocks(kernel: &Description, threads: u32, dynamic: usize) -> Outcome<u32> {
    let fitting = by_threads(kernel, threads)?;
    let own = u64::from(kernel.kernel()?.shared_bytes);
    if dynamic as u64 > u64::from(kernel.max_dynamic) {
        return Ok(0);
    }
    let shared = whole(own + dynamic as u64, SHARED_UNIT);
    let Processor { shared: all, blocks, .. } = kernel.image.processor;
    let by_shared = u64::from(all).checked_div(shared).unwrap_or(u64::from(blocks));
    Ok(u32::try_from(by_shared).map_or(fitting, |most| fitting.min(most)))
}

/// Returns the grid size that fills the device, and the block size with the most concurrent threads.
///
/// # Errors
///
/// As [`blocks`].
pub fn best_block(
    kernel: &Description,
    limit: u32,
    dynamic: impl Fn(u32) -> usize,
) -> Outcome<(u32, u32)> {
    let most = kernel.most_threads()?;
    let most = if limit == 0 { most } else { most.min(limit) };
    let (mut best, mut found) = (0, (0, 0));
    let mut threads = most;
    while threads > 0 {
        let fitting = blocks(kernel, threads, dynamic(threads))?;
        // Of equally good blocks, the largest wins.
        if fitting * threads > best {
            (best, found) = (fitting * threads, (fitting * MULTIPROCESSORS, threads));
        }
        threads =
            if threads.is_multiple_of(WARP) { threads - WARP } else { threads - threads % WARP };
    }
    Ok(found)
}

/// Returns the dynamic shared memory available to each of `count` blocks.
///
/// # Errors
///
/// `INVALID_VALUE` if that many do not fit.
pub fn available_shared(kernel: &Description, count: u32, threads: u32) -> Outcome<usize> {
    if count == 0 || count > by_threads(kernel, threads)? {
        return Err(Status::ERROR_INVALID_VALUE);
    }
    let each = kernel.image.processor.shared / count / SHARED_UNIT * SHARED_UNIT;
    let left = each.saturating_sub(kernel.kernel()?.shared_bytes);
    Ok(left.min(kernel.max_dynamic) as usize)
}
