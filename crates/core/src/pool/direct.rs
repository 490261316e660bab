//! Memory of the driver's own pool: one call for each allocation, in stream order.
//!
//! A simulated GPU that checks kernels needs it: it knows where each such allocation ends, and when it was freed.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::driver::{driver, is_forked};
use crate::error::Error;
use crate::owner::Owner;
use crate::pool::{cache, exhausted, side};
use crate::stream::{Stream, is_capturing, is_deleting, is_reaper, release_after};

/// Bytes allocated like this, by device, and the most there were.
static HELD: [(AtomicU64, AtomicU64); 256] =
    [const { (AtomicU64::new(0), AtomicU64::new(0)) }; 256];

/// Bytes of a device that are in use, and the most that were.
pub(super) fn held(device: u8) -> (u64, u64) {
    let (held, peak) = &HELD[usize::from(device)];
    (held.load(Ordering::Relaxed), peak.load(Ordering::Relaxed))
}

/// Forgets the most bytes of a device that were in use.
pub(super) fn reset_peak(device: u8) {
    let (held, peak) = &HELD[usize::from(device)];
    peak.store(held.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// A block of memory, freed when dropped.
pub(super) struct Block {
    pub(super) address: u64,
    bytes: u64,
    /// The stream in whose order it was allocated.
    home: Stream,
    /// Whether that stream was waited for since the memory was used last. To be on the reaper is no proof of that: it may release
    /// something else that held the last reference.
    settled: bool,
}

impl Drop for Block {
    fn drop(&mut self) {
        // Device memory belongs to the parent.
        if is_forked() {
            return;
        }
        // A stream that cannot be named here, or any more, must not be touched.
        let unnamable = !self.home.stays_nameable();
        let elsewhere =
            is_reaper() || is_deleting() || unnamable || is_capturing(&self.home).unwrap_or(false);
        if elsewhere && !self.settled {
            let (home, address, bytes) = (self.home.clone(), self.address, self.bytes);
            let block = Self { address, bytes, home: home.clone(), settled: true };
            return release_after(home, Owner::keep(block));
        }
        self.free();
    }
}

impl Block {
    fn free(&self) {
        let device = self.home.device();
        HELD[usize::from(device)].0.fetch_sub(self.bytes, Ordering::Relaxed);
        let free = || {
            let driver = driver()?;
            let _entered = driver.enter(device)?;
            let _relaxed = driver.relax()?;
            // All work on the memory is done then, and the home stream may be gone.
            let stream = if self.settled { side(device)? } else { self.home.clone() };
            // SAFETY: the block's own address, once; the stream is alive and not capturing.
            Ok::<_, Error>(unsafe { driver.free(self.address, stream.handle()) }?)
        };
        // If the driver fails here, the device is lost, and its memory with it.
        let _ = free();
    }
}

/// Allocates in the order of a stream, which is not capturing.
pub(super) fn allocate(bytes: u64, home: &Stream) -> Result<Block, Error> {
    let driver = driver()?;
    let device = home.device();
    let _entered = driver.enter(device)?;
    let _relaxed = driver.relax()?;
    // SAFETY: the stream is alive, and the caller has checked that it is not capturing.
    let mut found = unsafe { driver.allocate(device, bytes, home.handle()) }?;
    if found.is_none() {
        // Memory that was freed in the order of these streams may become free when their work is done.
        home.synchronize()?;
        side(device)?.synchronize()?;
        driver.trim(device)?;
        cache::trim(device, 0)?;
        // SAFETY: as above.
        found = unsafe { driver.allocate(device, bytes, home.handle()) }?;
    }
    let Some(address) = found else { return Err(exhausted(device, bytes)?) };
    let (held, peak) = &HELD[usize::from(device)];
    let now = held.fetch_add(bytes, Ordering::Relaxed) + bytes;
    peak.fetch_max(now, Ordering::Relaxed);
    Ok(Block { address, bytes, home: home.kept(), settled: false })
}
