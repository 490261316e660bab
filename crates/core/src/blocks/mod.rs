//! The books of the pool: which blocks of which segments are in use, on each device.
//!
//! No function here calls the driver. So a deleter may take the lock of a device on any thread, and it is held for a few
//! instructions. `driver` reads these books for passports: it is the one pool whose freed blocks can be recognised.
#![forbid(unsafe_code)]

mod arena;
mod classes;
mod lists;
mod queues;
mod usage;

use std::sync::MutexGuard;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::fork::ProcessLock;

pub(crate) use arena::{Arena, COMMON, Found, Taken};
pub(crate) use classes::{Kind, PAGE, rounded};
pub(crate) use lists::Life;
pub(crate) use queues::Waiting;
pub use usage::{Usage, User};

/// An arena for each device that a driver shows to a process.
static ARENAS: [ProcessLock<Arena>; DEVICES] = [const { ProcessLock::new(Arena::new()) }; DEVICES];
/// No driver shows more.
pub(crate) const DEVICES: usize = 64;
/// Whether there has been a segment: as long as there was none, no address is in one.
static USED: AtomicBool = AtomicBool::new(false);

/// The bit that tells the number of a block from the driver's buffer ids.
const OURS: u64 = 1 << 63;

/// The arena of a device. The lock must not be held during a call of the driver.
#[inline]
pub(crate) fn arena(device: u8) -> MutexGuard<'static, Arena> {
    ARENAS[usize::from(device) % DEVICES].lock()
}

/// Notes that addresses may be in segments from now on.
pub(crate) fn note_use() {
    USED.store(true, Ordering::Relaxed);
}

/// What the pool knows about an address of a device.
pub(crate) fn find(device: u8, address: u64) -> Option<Found> {
    if !USED.load(Ordering::Relaxed) {
        return None;
    }
    arena(device).find(address)
}

/// The buffer id of a block: unlike those of the driver's allocations, and of all other blocks of the process.
pub(crate) const fn buffer_id(device: u8, serial: u64) -> u64 {
    OURS | (device as u64) << 48 | serial
}
