//! Blocks for the allocators of frameworks, which name memory by its address.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use crate::driver::{driver, is_forked};
use crate::error::Error;
use crate::fork::ProcessLock;
use crate::pool::cache::{self, Block};
use crate::pool::{User, side};
use crate::stream::{Stream, is_capturing};

/// The blocks that frameworks hold, by address.
static HELD: ProcessLock<BTreeMap<u64, Block>> = ProcessLock::new(BTreeMap::new());

/// Takes a block of at least `bytes` bytes for a framework, to be used in the order of a stream.
///
/// Inside a capture, and for the per-thread stream, which stands for no stream in particular, the block is one on which no work is left. It is given back after all work that the device has then.
///
/// # Errors
///
/// If there is no such device, or not enough memory.
pub fn allocate_for(user: User, bytes: u64, home: &Stream) -> Result<u64, Error> {
    let device = home.device();
    driver()?.require_device(device)?;
    // Which stream works on it is not known for a caller that names none, nor later for a graph, which may be launched anywhere.
    let block = if home.is_per_thread() || is_capturing(home)? {
        let side = side(device)?;
        let block = cache::allocate_as(user, bytes, &side)?;
        side.synchronize()?;
        block.for_any_stream()
    } else {
        cache::allocate_as(user, bytes, home)?
    };
    let address = block.address();
    HELD.lock().insert(address, block);
    Ok(address)
}

/// Gives a block back, in the order of the stream that it was taken for. Returns whether there was one.
///
/// It makes no call of the driver, so any thread may call it.
pub fn free_for(address: u64) -> bool {
    // Device memory belongs to the parent.
    if is_forked() {
        return true;
    }
    let block = HELD.lock().remove(&address);
    block.is_some()
}
