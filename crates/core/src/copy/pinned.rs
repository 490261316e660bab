//! Pinned host memory for results: a GPU writes there at the speed of the bus. Pinning takes longer than copying, so it is kept.
//! It is of a kind that other processes can open, where the system has a descriptor for it.

use std::mem;

use crate::driver::{Driver, driver, is_forked};
use crate::error::Error;
use crate::fork::ProcessLock;
use crate::host;
use crate::owner::Owner;

/// Blocks are multiples of this.
const STEP: u64 = 2 << 20;
/// The most bytes that are kept when another block is wanted.
const MOST_KEPT: u64 = 1 << 30;

/// Blocks that no result uses, oldest first.
static KEPT: ProcessLock<Vec<Block>> = ProcessLock::with(Vec::new(), |kept| {
    // Pinned memory is the parent's.
    mem::forget(mem::take(kept));
});

/// A block of pinned memory. It is freed by [`room`], because a drop may come from a deleter, which calls no driver.
struct Block {
    address: u64,
    bytes: u64,
    /// What other processes can open, which is registered with the driver; none for memory of the driver's own.
    shared: Option<Owner>,
}

impl Block {
    fn make(driver: &Driver, bytes: u64) -> Result<Option<Self>, Error> {
        if let Ok((address, shared)) = host::allocate_shared(bytes) {
            // SAFETY: the owner keeps the pages mapped until they are no longer registered.
            if unsafe { driver.register(address, bytes) }.is_ok() {
                return Ok(Some(Self { address, bytes, shared: Some(shared) }));
            }
        }
        let address = driver.allocate_pinned(bytes)?;
        Ok(address.map(|address| Self { address, bytes, shared: None }))
    }

    /// Gives the memory back. Its result is gone.
    fn free(self, driver: &Driver) -> Result<(), Error> {
        let Some(shared) = self.shared else {
            // SAFETY: (1) a block of ours, taken off the list; (2) its result is gone.
            return unsafe { driver.free_pinned(self.address) };
        };
        // SAFETY: it was registered by `make`, and its result is gone.
        let freed = unsafe { driver.unregister(self.address) };
        match freed {
            Ok(()) => drop(shared),
            // The driver still has the pages.
            Err(_) => mem::forget(shared),
        }
        freed
    }
}

/// A block in use, kept when dropped.
struct Used(Option<Block>);

impl Drop for Used {
    fn drop(&mut self) {
        let Some(block) = self.0.take() else { return };
        match is_forked() {
            true => mem::forget(block),
            false => KEPT.lock().push(block),
        }
    }
}

/// Pinned memory for a result; its bytes are whatever they are.
///
/// # Errors
///
/// If there is not enough memory, or the driver refuses.
pub(super) fn room(bytes: u64, device: u8) -> Result<(u64, Owner), Error> {
    let refused = Error::OutOfMemory { bytes };
    let needed = bytes.max(1).checked_next_multiple_of(STEP).ok_or_else(|| refused.clone())?;
    let driver = driver()?;
    let _entered = driver.enter(device)?;
    let _relaxed = driver.relax()?;
    // Not sooner: what is taken off the list is lost if something fails before it is used.
    let (found, surplus) = take(needed);
    for block in surplus {
        // Memory that the driver does not take back is kept from then on by nobody.
        let _ = block.free(driver);
    }
    let block = match found {
        Some(block) => block,
        None => Block::make(driver, needed)?.ok_or(refused)?,
    };
    Ok((block.address, Owner::keep(Used(Some(block)))))
}

/// The smallest kept block that is large enough and not much larger; and the oldest blocks beyond what is kept.
fn take(needed: u64) -> (Option<Block>, Vec<Block>) {
    let mut kept = KEPT.lock();
    let fits = |block: &Block| (needed..=needed + needed / 4).contains(&block.bytes);
    let best = kept.iter().enumerate().filter(|(_, block)| fits(block));
    let best = best.min_by_key(|(_, block)| block.bytes).map(|(index, _)| index);
    let found = best.map(|index| kept.remove(index));
    let mut total: u64 = kept.iter().map(|block| block.bytes).sum();
    let mut surplus = Vec::new();
    while total > MOST_KEPT {
        let oldest = kept.remove(0);
        total -= oldest.bytes;
        surplus.push(oldest);
    }
    (found, surplus)
}
