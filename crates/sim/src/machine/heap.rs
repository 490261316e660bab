//! The heap of a context: memory that kernels allocate and free.
//!
//! Each access of a kernel to it is looked up, so its blocks need no redzones, only gaps.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::arena::{Block, Space};
use super::memory::{FRESH, POISON};
use super::{Caller, State};
use crate::bytes::{self, Pattern, Range};
use crate::config::Check;
use crate::engine::{Heap as Interface, Spot};
use crate::status::{Outcome, Status};

/// The place of `CU_LIMIT_MALLOC_HEAP_SIZE` among the limits of a context.
pub const LIMIT: usize = 2;
/// The alignment of blocks, and the gap after each.
const UNIT: usize = 16;
/// Address space for each byte that may be allocated, so that the gaps and the quarantine have room.
const SPACE: usize = 4;
/// How much of a block is filled when it is allocated or freed.
const FILLED: usize = 64 << 10;

/// The heap of a context.
#[derive(Debug)]
pub struct Heap {
    range: Range,
    /// The range in its device's memory.
    pub(super) block: Block,
    /// How many bytes kernels may allocate.
    pub(super) limit: usize,
    fills: bool,
    blocks: Mutex<Blocks>,
}

#[derive(Debug, Default)]
struct Blocks {
    space: Space,
    used: usize,
    /// Offsets and sizes of live blocks, and of freed ones whose space is not used again yet.
    live: BTreeMap<usize, usize>,
    freed: BTreeMap<usize, usize>,
    /// The offsets of the freed ones, oldest first, and the space they take.
    quarantine: VecDeque<usize>,
    quarantined: usize,
}

/// The size of a block that counts against the limit; one byte at least, so that each has an address.
fn rounded(bytes: usize) -> Option<usize> {
    bytes.max(1).checked_next_multiple_of(UNIT)
}

/// The space that a block of this size takes.
fn footprint(bytes: usize) -> usize {
    rounded(bytes).map_or(usize::MAX, |rounded| rounded.saturating_add(UNIT))
}

/// The block that contains an offset.
fn holding(blocks: &BTreeMap<usize, usize>, offset: usize) -> Option<(usize, usize)> {
    let (&start, &bytes) = blocks.range(..=offset).next_back()?;
    (offset - start < bytes).then_some((start, bytes))
}

impl Blocks {
    fn allocate(&mut self, bytes: usize, limit: usize) -> Option<usize> {
        let counted = rounded(bytes)?;
        if counted > limit.saturating_sub(self.used) {
            return None;
        }
        let wanted = footprint(bytes);
        let offset = loop {
            match self.space.take(wanted, |offset| offset) {
                Some(block) => break block.offset,
                // Freed blocks are used again, oldest first, only if there is no other space.
                None if self.leave_quarantine() => {}
                None => return None,
            }
        };
        self.used += counted;
        self.live.insert(offset, bytes);
        Some(offset)
    }

    fn leave_quarantine(&mut self) -> bool {
        let Some(offset) = self.quarantine.pop_front() else { return false };
        let bytes = footprint(self.freed.remove(&offset).unwrap_or(0));
        self.quarantined -= bytes;
        self.space.join(Block { offset, bytes });
        true
    }

    fn free(&mut self, offset: usize, most: usize) -> Result<usize, &'static str> {
        let Some(bytes) = self.live.remove(&offset) else {
            return Err(match (self.freed.contains_key(&offset), holding(&self.live, offset)) {
                (true, _) => "which was freed already",
                (false, Some(_)) => "which is inside of what malloc returned",
                (false, None) => "which malloc did not return",
            });
        };
        self.used -= rounded(bytes).unwrap_or(0);
        self.freed.insert(offset, bytes);
        self.quarantine.push_back(offset);
        self.quarantined += footprint(bytes);
        while self.quarantined > most && self.leave_quarantine() {}
        Ok(bytes)
    }
}

impl Heap {
    fn new(range: Range, block: Block, limit: usize, check: Check) -> Self {
        let mut blocks = Blocks::default();
        blocks.space.join(Block { offset: 0, bytes: range.bytes() });
        Self { range, block, limit, fills: check != Check::Off, blocks: Mutex::new(blocks) }
    }

    fn blocks(&self) -> MutexGuard<'_, Blocks> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fill(&self, offset: usize, bytes: usize, value: u8) {
        if let Some(part) = self.range.part(offset, bytes.min(FILLED)).filter(|_| self.fills) {
            bytes::fill(&part, Pattern::Byte(value), part.bytes(), 1, 0);
        }
    }

    /// The offset of an address, if it is in the heap.
    fn offset(&self, address: u64) -> Option<usize> {
        let offset = usize::try_from(address).ok()?.checked_sub(self.range.address())?;
        (offset < self.range.bytes()).then_some(offset)
    }
}

impl Interface for Heap {
    fn allocate(&self, bytes: u64) -> u64 {
        let Ok(bytes) = usize::try_from(bytes) else { return 0 };
        let mut blocks = self.blocks();
        let Some(offset) = blocks.allocate(bytes, self.limit) else { return 0 };
        // Before another thread can get the same block.
        self.fill(offset, bytes, FRESH);
        (self.range.address() + offset) as u64
    }

    fn free(&self, address: u64) -> Result<(), &'static str> {
        let offset = self.offset(address).ok_or("which malloc did not return")?;
        let mut blocks = self.blocks();
        let bytes = blocks.free(offset, self.limit)?;
        self.fill(offset, bytes, POISON);
        Ok(())
    }

    fn find(&self, address: u64) -> Spot {
        let Some(offset) = self.offset(address) else { return Spot::Elsewhere };
        let blocks = self.blocks();
        if let Some((start, bytes)) = holding(&blocks.live, offset) {
            return Spot::Live((self.range.address() + start) as u64, bytes as u64);
        }
        if holding(&blocks.freed, offset).is_some() { Spot::Freed } else { Spot::Elsewhere }
    }
}

impl State {
    /// Creates the heap of a context, unless it exists.
    ///
    /// # Errors
    ///
    /// `OUT_OF_MEMORY`.
    pub(super) fn need_heap(&mut self, context: usize) -> Outcome<()> {
        let found = self.context(context)?;
        if found.heap.is_some() {
            return Ok(());
        }
        let (device, limit) = (found.device, found.limits[LIMIT]);
        let space = limit.checked_mul(SPACE).ok_or(Status::ERROR_OUT_OF_MEMORY)?;
        let held = self.spare(device);
        let (block, range) = self.memory.set_aside(device, limit, space, held)?;
        let heap = Arc::new(Heap::new(range, block, limit, self.config.check));
        self.context_mut(context)?.heap = Some(heap);
        Ok(())
    }

    /// Ends the heap of a context, with all that kernels have not freed.
    pub(super) fn end_heap(&mut self, context: usize) {
        let Some(found) = self.contexts.get_mut(context) else { return };
        if let Some(heap) = found.heap.take() {
            let device = found.device;
            self.memory.take_back(device, heap.limit, heap.block);
        }
    }

    /// Sets a limit of a context.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE` for the size of a heap that exists.
    pub fn set_limit(
        &mut self,
        caller: &Caller,
        context: usize,
        place: usize,
        value: usize,
    ) -> Outcome<()> {
        let found = self.context_mut(context)?;
        if place == LIMIT && found.heap.is_some() {
            let what = "changing the size of a heap that kernels use";
            return Err(self.fault(caller, Status::ERROR_INVALID_VALUE, what, 0));
        }
        found.limits[place] = value;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;
    use std::thread;

    use super::super::arena::Arena;
    use super::*;

    fn heap(limit: usize) -> Heap {
        let space = NonZeroUsize::new(limit * SPACE).unwrap();
        let mut arena = Arena::new(space, 0).unwrap();
        let block = arena.take(space.get(), 0, UNIT).unwrap();
        let range = arena.range(arena.address(block), block.bytes).unwrap();
        Heap::new(range, block, limit, Check::Memory)
    }

    /// Blocks that are all allocated at once, with a gap after each.
    fn are_apart(blocks: &mut [(u64, u64)]) -> bool {
        blocks.sort_unstable();
        blocks.windows(2).all(|pair| pair[0].0 + pair[0].1 + UNIT as u64 <= pair[1].0)
    }

    #[test]
    fn blocks_lie_apart_and_all_room_comes_back() {
        let heap = heap(64 << 10);
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..20 {
            let mut held = Vec::new();
            for _ in 0..500 {
                let bytes = random.u64(..3000);
                match heap.allocate(bytes) {
                    0 => {}
                    address => held.push((address, bytes)),
                }
                if random.bool() && !held.is_empty() {
                    heap.free(held.swap_remove(random.usize(..held.len())).0).unwrap();
                }
            }
            assert!(are_apart(&mut held));
            assert!(held.iter().all(|(address, _)| address.is_multiple_of(UNIT as u64)));
            for (address, bytes) in held {
                assert_eq!(
                    heap.find(address),
                    if bytes == 0 { Spot::Elsewhere } else { Spot::Live(address, bytes) }
                );
                heap.free(address).unwrap();
            }
        }
        let whole = heap.allocate(64 << 10);
        assert!(whole != 0 && heap.allocate(1) == 0);
        heap.free(whole).unwrap();
    }

    #[test]
    fn what_is_not_a_block_cannot_be_freed() {
        let heap = heap(4096);
        let block = heap.allocate(100);
        let part = heap.range.part(0, 100).unwrap();
        assert!(bytes::is_filled(&part, FRESH));
        assert_eq!(heap.find(block + 99), Spot::Live(block, 100));
        assert_eq!(heap.find(block + 100), Spot::Elsewhere);
        assert!(heap.free(block + 16).unwrap_err().contains("inside"));
        heap.free(block).unwrap();
        assert!(bytes::is_filled(&part, POISON));
        assert_eq!(heap.find(block + 99), Spot::Freed);
        assert!(heap.free(block).unwrap_err().contains("already"));
        assert!(heap.free(block + 112).unwrap_err().contains("did not return"));
        assert!(heap.free(8).unwrap_err().contains("did not return"));
        // Freed space rests while there is other.
        assert_ne!(heap.allocate(100), block);
    }

    #[test]
    fn threads_allocate_and_free_at_once() {
        let heap = heap(1 << 20);
        let each = |seed: u64| {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut held = Vec::new();
            for _ in 0..3000 {
                let bytes = random.u64(1..200);
                held.push((heap.allocate(bytes), bytes));
                if held.len() > 100 {
                    heap.free(held.swap_remove(random.usize(..held.len())).0).unwrap();
                }
            }
            held
        };
        let mut all: Vec<(u64, u64)> = thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|seed| scope.spawn(move || each(seed))).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert!(are_apart(&mut all) && all.iter().all(|(address, _)| *address != 0));
        all.into_iter().for_each(|(address, _)| heap.free(address).unwrap());
    }
}
