//! Blocks for the allocators of frameworks and for C programs, which name memory by its address.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::mem;

use crate::driver::is_forked;
use crate::error::Error;
use crate::fork::ProcessLock;
use crate::pool::User;
use crate::pool::block::{self, Block};
use crate::stream::{Stream, release_after_some};

/// A block that is named by its address.
struct Held {
    block: Block,
    user: User,
    /// Whether a graph may use it.
    captured: bool,
    /// Other streams that work on it.
    others: Vec<Stream>,
}

/// The blocks that frameworks and C programs hold, by address.
static HELD: ProcessLock<BTreeMap<u64, Held>> = ProcessLock::new(BTreeMap::new());

/// Takes a block of at least `bytes` bytes for a framework, to be used in the order of a stream.
///
/// Inside a capture, and for the per-thread stream, which stands for no stream in particular, the block is one on which no
/// work is left. It is given back after all work that the device has then.
///
/// # Errors
///
/// If there is no such device, or not enough memory.
pub fn allocate_for(user: User, bytes: u64, home: &Stream) -> Result<u64, Error> {
    let (block, captured) = block::allocate_in(user, bytes, home)?;
    let address = block.address();
    HELD.lock().insert(address, Held { block, user, captured, others: Vec::new() });
    Ok(address)
}

/// Gives a block of a user back, or of any framework, in the order of the stream that it was taken for, and after the work that other streams have
/// now, if they were [named](used_on). Returns whether there was one.
///
/// It makes no call of the driver, so any thread may call it.
pub fn free_for(user: Option<User>, address: u64) -> bool {
    // Device memory belongs to the parent.
    if is_forked() {
        return true;
    }
    take(user, address).map(give).is_some()
}

/// As [`free_for`] for a user that keeps no memory for its graphs: a block that was taken inside a capture is never given back,
/// because a graph may use it as long as the process lives.
pub fn free_unless_captured(user: User, address: u64) -> bool {
    if is_forked() {
        return true;
    }
    let Some(held) = take(Some(user), address) else { return false };
    if held.captured {
        mem::forget(held);
    } else {
        give(held);
    }
    true
}

/// The device of a block that is named by its address.
#[must_use]
pub fn device_of(address: u64) -> Option<u8> {
    HELD.lock().get(&address).map(|held| held.block.device())
}

/// Notes that another stream works on a block: the next user of the block waits for the work that the stream has when the block
/// is given back. Returns whether there is such a block.
pub fn used_on(address: u64, stream: &Stream) -> bool {
    let mut all = HELD.lock();
    let Some(held) = all.get_mut(&address) else { return false };
    if !held.others.iter().any(|other| other.is(stream)) {
        held.others.push(stream.kept());
    }
    true
}

fn take(user: Option<User>, address: u64) -> Option<Held> {
    let mut all = HELD.lock();
    let is_theirs = |held: &&Held| match user {
        Some(user) => held.user == user,
        None => held.user != User::Block,
    };
    all.get(&address).filter(is_theirs)?;
    all.remove(&address)
}

fn give(held: Held) {
    let Held { block, others, .. } = held;
    if !others.is_empty() {
        release_after_some(others, block.into_owner());
    }
}
