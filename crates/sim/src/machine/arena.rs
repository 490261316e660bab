//! Address space: which parts of a mapping are allocated.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::bytes::{Mapping, Range};

/// The granularity of blocks, as in a real driver.
pub const GRANULE: usize = 512;

/// The number of freed blocks kept for the next request of the same size.
const RECENT: usize = 16;

/// An allocated part of an arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its offset in the mapping.
    pub offset: usize,
    /// Its size.
    pub bytes: usize,
}

/// Free blocks.
#[derive(Debug, Default)]
pub struct Space {
    /// By offset; neighbours are joined.
    free: BTreeMap<usize, usize>,
    /// The same blocks by size and offset, to find the smallest that fits.
    lengths: BTreeSet<(usize, usize)>,
}

impl Space {
    /// Takes a block. `aligned` returns the next valid start at or after an offset.
    pub fn take(&mut self, bytes: usize, aligned: impl Fn(usize) -> usize) -> Option<Block> {
        let (start, length, offset) =
            self.lengths.range((bytes, 0)..).find_map(|&(length, offset)| {
                let start = aligned(offset);
                (start + bytes <= offset + length).then_some((start, length, offset))
            })?;
        self.remove(offset, length);
        let (end, free_end) = (start + bytes, offset + length);
        if start > offset {
            self.insert(offset, start - offset);
        }
        if free_end > end {
            self.insert(end, free_end - end);
        }
        Some(Block { offset: start, bytes })
    }

    /// Adds a free block, and joins it with its neighbours.
    pub fn join(&mut self, block: Block) {
        let (mut offset, mut bytes) = (block.offset, block.bytes);
        if let Some((&before, &length)) = self.free.range(..offset).next_back()
            && before + length == offset
        {
            self.remove(before, length);
            (offset, bytes) = (before, bytes + length);
        }
        if let Some(&length) = self.free.get(&(offset + bytes)) {
            self.remove(offset + bytes, length);
            bytes += length;
        }
        self.insert(offset, bytes);
    }

    fn insert(&mut self, offset: usize, bytes: usize) {
        self.free.insert(offset, bytes);
        self.lengths.insert((bytes, offset));
    }

    fn remove(&mut self, offset: usize, bytes: usize) {
        self.free.remove(&offset);
        self.lengths.remove(&(bytes, offset));
    }
}

/// A mapping and its free parts.
#[derive(Debug)]
pub struct Arena {
    mapping: Arc<Mapping>,
    space: Space,
    recent: Vec<Block>,
    /// Bytes of freed blocks whose pages may be resident, and their limit.
    warm: usize,
    warm_limit: usize,
}

impl Arena {
    /// Reserves address space. The pages of up to `warm_limit` free bytes are kept for the next request.
    ///
    /// # Errors
    ///
    /// The kernel's error.
    pub fn new(bytes: NonZeroUsize, warm_limit: usize) -> nix::Result<Self> {
        let mut arena = Self {
            mapping: Arc::new(Mapping::new(bytes)?),
            space: Space::default(),
            recent: Vec::with_capacity(RECENT),
            warm: 0,
            warm_limit,
        };
        arena.space.join(Block { offset: 0, bytes: bytes.get() - bytes.get() % GRANULE });
        Ok(arena)
    }

    /// Allocates a block of at least `bytes`, if there is one. The address `before` bytes after its start, a multiple of
    /// the granule, is a multiple of `align`.
    pub fn take(&mut self, bytes: usize, before: usize, align: usize) -> Option<Block> {
        let bytes = bytes.checked_next_multiple_of(GRANULE)?;
        self.warm = self.warm.saturating_sub(bytes);
        let fits = |block: &Block| {
            block.bytes == bytes && (self.address(*block) + before).is_multiple_of(align)
        };
        if let Some(place) = self.recent.iter().rposition(fits) {
            return Some(self.recent.swap_remove(place));
        }
        let to_address = self.mapping.address() + before;
        let aligned = |offset: usize| (to_address + offset).next_multiple_of(align) - to_address;
        match self.space.take(bytes, aligned) {
            None if !self.recent.is_empty() => {
                self.settle();
                self.space.take(bytes, aligned)
            }
            found => found,
        }
    }

    /// Frees a block.
    pub fn give(&mut self, block: Block) {
        if self.recent.len() == RECENT {
            self.settle();
        }
        if self.warm + block.bytes > self.warm_limit {
            self.discard(block);
        } else {
            self.warm += block.bytes;
        }
        self.recent.push(block);
    }

    fn settle(&mut self) {
        for block in std::mem::take(&mut self.recent) {
            self.space.join(block);
        }
    }

    /// Returns the pages of a block to the kernel.
    pub fn discard(&self, block: Block) {
        self.mapping.discard(block.offset, block.bytes);
    }

    /// Returns the address of a block.
    #[must_use]
    pub fn address(&self, block: Block) -> usize {
        self.mapping.address() + block.offset
    }

    /// Returns whether the address is in this arena, allocated or not.
    #[must_use]
    pub fn spans(&self, address: usize) -> bool {
        self.mapping.spans(address)
    }

    /// Returns whether a range overlaps this arena.
    #[must_use]
    pub fn meets(&self, address: usize, bytes: usize) -> bool {
        self.mapping.meets(address, bytes)
    }

    /// Returns the file of its bytes.
    #[must_use]
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        self.mapping.file()
    }

    /// Returns where in that file an address is.
    #[must_use]
    pub fn offset(&self, address: usize) -> Option<usize> {
        address.checked_sub(self.mapping.address())
    }

    /// Returns bytes of the arena.
    #[must_use]
    pub fn range(&self, address: usize, bytes: usize) -> Option<Range> {
        Range::of_mapping(&self.mapping, address, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_never_overlap_and_all_space_comes_back() {
        let mut arena = Arena::new(NonZeroUsize::new(1 << 20).unwrap(), 1 << 18).unwrap();
        let mut random = fastrand::Rng::with_seed(1);
        let mut taken: Vec<Block> = Vec::new();
        for _ in 0..5000 {
            let (before, align) =
                [(0, GRANULE), (GRANULE, GRANULE), (GRANULE, 16 << 10)][random.usize(..3)];
            if random.bool()
                && let Some(block) = arena.take(random.usize(1..20_000), before, align)
            {
                let end = block.offset + block.bytes;
                assert!((arena.address(block) + before).is_multiple_of(align));
                assert!(
                    taken
                        .iter()
                        .all(|other| end <= other.offset
                            || other.offset + other.bytes <= block.offset)
                );
                taken.push(block);
            } else if !taken.is_empty() {
                arena.give(taken.swap_remove(random.usize(..taken.len())));
            }
        }
        taken.drain(..).for_each(|block| arena.give(block));
        assert_eq!(arena.take(1 << 20, 0, GRANULE).map(|block| block.bytes), Some(1 << 20));
        assert_eq!(arena.take(1, 0, GRANULE), None);
    }
}
