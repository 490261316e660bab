//! What an arena is made of: blocks, and the lists in which free ones wait.
#![forbid(unsafe_code)]

use crate::abi::cuda::StreamHandle;
use crate::blocks::classes::{CLASSES, Kind};
use crate::blocks::usage::User;

/// No block.
pub(super) const NONE: u32 = u32::MAX;

/// A block, live or free.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) address: u64,
    pub(super) bytes: u64,
    /// The first address of its segment.
    pub(super) segment: u64,
    /// The number of the allocation; 0 if it is free.
    pub(super) serial: u64,
    /// The number of its last free.
    pub(super) freed: u64,
    /// Its neighbours in its list while it is free.
    pub(super) before: u32,
    pub(super) after: u32,
    /// Its queue while it is free; while it is live, the one that it goes back to.
    pub(super) queue: u32,
    pub(super) kind: Kind,
    pub(super) user: User,
    /// Whether it is in `Arena::loose`.
    pub(super) loose: bool,
}

/// Lists of free blocks, by size class.
#[derive(Debug)]
pub(super) struct Lists {
    pub(super) heads: [u32; CLASSES],
    /// Which lists have blocks: a bit for each.
    pub(super) filled: [u64; CLASSES / 64],
}

impl Lists {
    const EMPTY: Self = Self { heads: [NONE; CLASSES], filled: [0; CLASSES / 64] };

    /// The first list with blocks, from a class on.
    pub(super) fn next(&self, from: usize) -> Option<usize> {
        let mut word = from / 64;
        let mut bits = self.filled.get(word)? & (u64::MAX << (from % 64));
        loop {
            if bits != 0 {
                return Some(word * 64 + bits.trailing_zeros() as usize);
            }
            word += 1;
            bits = *self.filled.get(word)?;
        }
    }
}

/// How long a stream lives in whose order memory is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// As long as the process.
    Lasting,
    /// Until gpulend destroys it: [`Arena::forget`](super::Arena::forget) comes first.
    Own,
    /// As long as an object is kept. Whoever frees a block keeps the object until the block is settled, so a free block of such a
    /// queue is always of the stream that has the handle now.
    Kept,
}

/// The free blocks of one stream.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) stream: StreamHandle,
    pub(super) life: Life,
    pub(super) bytes: u64,
    pub(super) lists: Box<[Lists; Kind::COUNT]>,
}

impl Queue {
    pub(super) fn new(stream: StreamHandle, life: Life) -> Self {
        Self { stream, life, bytes: 0, lists: Box::new([Lists::EMPTY; Kind::COUNT]) }
    }

    /// The classes of a kind that have blocks.
    pub(super) fn filled(&self, kind: usize) -> impl Iterator<Item = usize> {
        let lists = &self.lists[kind];
        let mut from = 0;
        std::iter::from_fn(move || {
            let found = lists.next(from)?;
            from = found + 1;
            Some(found)
        })
    }
}
