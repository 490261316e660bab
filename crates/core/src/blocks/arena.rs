//! `Arena`: the segments of one device, and the blocks that they are divided into.
//!
//! # What is where
//!
//! A segment is memory from one call of the driver. Its blocks cover it without a gap. A block is live, or free in a queue.
//! There is a queue for each stream that frees memory in its order, and one, [`COMMON`], for blocks on which no work is left.
//! Within a queue a block waits in the list of its kind and size class.
//!
//! # What a request does
//!
//! 1. The last block in the list of its size class, in the queue of its stream, then in the common one: a block that was freed is
//!    used again as it is.
//! 2. Another block of this size.
//! 3. Free neighbours of one queue are merged, and the smallest block that is large enough is split. Merging waits until then:
//!    most programs ask for the same sizes again.
//! 4. The same after neighbours of a stream's and of the common queue were merged, which takes blocks from other streams.
//!
//! What comes next needs the driver, and is in `pool`: other streams' blocks, new segments, giving segments back.
//!
//! # Laws
//!
//! - A block of a stream's queue may still be in use by that stream's work, so another stream takes it only after
//!   [`Arena::settle`], which wants a proof, or [`Arena::take_from`], whose caller makes the stream wait.
//! - The proof is about a moment. Each free has a number, and what was freed after the moment stays.
//! - Two neighbours are merged if they are of one queue, or one of them is common: the block that results waits for the same work.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use crate::blocks::classes::{GRAIN, Kind, class};
use crate::blocks::lists::{NONE, Piece, Queue};
use crate::blocks::usage::{Usage, User};

/// The queue of blocks on which no work is left.
pub(crate) const COMMON: u32 = 0;
/// How many blocks of a list are looked at for one that is large enough.
const LOOKS: usize = 16;

/// A block that was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) address: u64,
    /// How long it is: at least as long as was asked for.
    pub(crate) bytes: u64,
    /// Its number in the arena, by which it is given back.
    pub(crate) piece: u32,
}

/// What an arena knows about an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// In a live block.
    Live { base: u64, bytes: u64, serial: u64 },
    /// In a segment, but in no live block.
    Free,
}

/// The segments of a device.
#[derive(Debug)]
pub(crate) struct Arena {
    pub(super) pieces: Vec<Piece>,
    /// Numbers of pieces that are not used.
    pub(super) unused: Vec<u32>,
    /// Every piece by its address.
    pub(super) places: BTreeMap<u64, u32>,
    /// Every segment by its address, with its size.
    pub(super) segments: BTreeMap<u64, u64>,
    pub(super) queues: Vec<Queue>,
    /// The number of allocations so far.
    pub(super) serial: u64,
    /// The number of frees so far.
    pub(super) frees: u64,
    /// Blocks that were freed since neighbours of one queue were merged; some are live again, or gone.
    pub(super) loose: Vec<u32>,
    /// Whether there may be neighbours of two queues to merge.
    pub(super) scattered: bool,
    pub(super) usage: Usage,
    pub(super) limit: u64,
}

impl Arena {
    pub(crate) const fn new() -> Self {
        Self {
            pieces: Vec::new(),
            unused: Vec::new(),
            places: BTreeMap::new(),
            segments: BTreeMap::new(),
            queues: Vec::new(),
            serial: 0,
            frees: 0,
            loose: Vec::new(),
            scattered: false,
            usage: Usage {
                live: 0,
                cached: 0,
                peak: 0,
                reserved: 0,
                largest: 0,
                blocks: 0,
                segments: 0,
                users: [0; User::ALL.len()],
            },
            limit: u64::MAX,
        }
    }

    pub(super) fn piece(&mut self, number: u32) -> &mut Piece {
        &mut self.pieces[number as usize]
    }

    /// Takes a block of exactly this size, freed in the order of a stream or common.
    #[inline]
    pub(crate) fn hit(
        &mut self,
        queue: u32,
        (bytes, kind): (u64, Kind),
        user: User,
    ) -> Option<Taken> {
        let class = class(bytes);
        for from in [queue, COMMON] {
            let place = &mut self.queues[from as usize];
            let lists = &mut place.lists[kind as usize];
            let head = lists.heads[class];
            let Some(piece) = self.pieces.get(head as usize) else { continue };
            if piece.bytes != bytes {
                continue;
            }
            // As `unlink`, for the head of a list.
            let after = piece.after;
            lists.heads[class] = after;
            if after == NONE {
                lists.filled[class / 64] &= !(1 << (class % 64));
            }
            place.bytes -= bytes;
            self.usage.cached -= bytes;
            if let Some(after) = self.pieces.get_mut(after as usize) {
                after.before = NONE;
            }
            return Some(self.hand_out(head, queue, user));
        }
        None
    }

    /// Takes another block of this size, or one from a larger block, after merging if that is needed.
    pub(crate) fn fit(
        &mut self,
        queue: u32,
        (bytes, kind): (u64, Kind),
        user: User,
    ) -> Option<Taken> {
        let twin = self.twin(queue, bytes, kind).or_else(|| self.twin(COMMON, bytes, kind));
        if let Some(twin) = twin {
            self.unlink(twin);
            return Some(self.hand_out(twin, queue, user));
        }
        self.tidy();
        loop {
            let own = self.search(queue, bytes, kind);
            let common = self.search(COMMON, bytes, kind);
            let found = own.into_iter().chain(common);
            if let Some(found) = found.min_by_key(|found| self.pieces[*found as usize].bytes) {
                return Some(self.cut(found, bytes, queue, user));
            }
            if !self.scattered {
                return None;
            }
            self.merge();
        }
    }

    /// Takes a block of another stream's queue. The caller makes the new user wait for that stream.
    pub(crate) fn take_from(
        &mut self,
        from: u32,
        queue: u32,
        (bytes, kind): (u64, Kind),
        user: User,
    ) -> Option<Taken> {
        let found = self.search(from, bytes, kind)?;
        Some(self.cut(found, bytes, queue, user))
    }

    /// The first blocks of a list.
    fn listed(&self, queue: u32, kind: Kind, class: usize) -> impl Iterator<Item = (u32, &Piece)> {
        let mut at = self.queues[queue as usize].lists[kind as usize].heads[class];
        let next = move || {
            let piece = self.pieces.get(at as usize)?;
            let number = at;
            at = piece.after;
            Some((number, piece))
        };
        std::iter::from_fn(next).take(LOOKS)
    }

    /// A free block of a queue of exactly this size.
    fn twin(&self, queue: u32, bytes: u64, kind: Kind) -> Option<u32> {
        let mut listed = self.listed(queue, kind, class(bytes));
        listed.find(|(_, piece)| piece.bytes == bytes).map(|(number, _)| number)
    }

    /// A free block of a queue that is large enough, and not much larger.
    fn search(&self, queue: u32, bytes: u64, kind: Kind) -> Option<u32> {
        let lists = &self.queues[queue as usize].lists[kind as usize];
        let first = class(bytes);
        let classes = std::iter::once(first).chain(lists.next(first + 1));
        let smallest = |class| {
            let listed = self.listed(queue, kind, class);
            let enough = listed.filter(|(_, piece)| piece.bytes >= bytes);
            enough.min_by_key(|(_, piece)| piece.bytes).map(|(number, _)| number)
        };
        classes.into_iter().find_map(smallest)
    }

    /// Hands out the beginning of a free block; the rest stays free in the same queue.
    fn cut(&mut self, number: u32, bytes: u64, queue: u32, user: User) -> Taken {
        self.unlink(number);
        let whole = *self.piece(number);
        let rest = whole.bytes - bytes;
        if rest >= GRAIN {
            self.piece(number).bytes = bytes;
            let address = whole.address + bytes;
            let rest = self.add(Piece { address, bytes: rest, ..whole });
            self.link(rest, whole.queue);
        }
        self.hand_out(number, queue, user)
    }

    #[inline]
    fn hand_out(&mut self, number: u32, queue: u32, user: User) -> Taken {
        self.serial += 1;
        let serial = self.serial;
        let piece = self.piece(number);
        (piece.serial, piece.user, piece.queue) = (serial, user, queue);
        let (address, bytes) = (piece.address, piece.bytes);
        let usage = &mut self.usage;
        usage.live += bytes;
        usage.peak = usage.peak.max(usage.live);
        usage.blocks += 1;
        usage.users[user as usize] += bytes;
        Taken { address, bytes, piece: number }
    }

    /// Takes a block back into its queue. Returns the queue, and the number of the free.
    #[inline]
    pub(crate) fn give(&mut self, number: u32) -> (u32, u64) {
        self.frees += 1;
        let frees = self.frees;
        let piece = self.piece(number);
        (piece.serial, piece.freed) = (0, frees);
        let (bytes, user, queue) = (piece.bytes, piece.user, piece.queue);
        let usage = &mut self.usage;
        usage.live -= bytes;
        usage.blocks -= 1;
        usage.users[user as usize] -= bytes;
        self.loosen(number);
        self.link(number, queue);
        (queue, frees)
    }

    /// Notes that a free block may have free neighbours.
    #[inline]
    pub(super) fn loosen(&mut self, number: u32) {
        self.scattered = true;
        let piece = &mut self.pieces[number as usize];
        if !piece.loose {
            piece.loose = true;
            self.loose.push(number);
        }
    }

    fn add(&mut self, piece: Piece) -> u32 {
        let number = match self.unused.pop() {
            Some(number) => {
                let place = self.piece(number);
                *place = Piece { loose: place.loose, ..piece };
                number
            }
            None => {
                self.pieces.push(Piece { loose: false, ..piece });
                u32::try_from(self.pieces.len() - 1).unwrap_or(NONE)
            }
        };
        self.places.insert(piece.address, number);
        number
    }

    fn discard(&mut self, number: u32) {
        let piece = self.piece(number);
        piece.queue = NONE;
        let address = piece.address;
        self.places.remove(&address);
        self.unused.push(number);
    }

    /// Puts a free block at the head of its list.
    #[inline]
    pub(super) fn link(&mut self, number: u32, queue: u32) {
        let piece = &mut self.pieces[number as usize];
        let class = class(piece.bytes);
        let place = &mut self.queues[queue as usize];
        let lists = &mut place.lists[piece.kind as usize];
        let head = lists.heads[class];
        (piece.queue, piece.before, piece.after) = (queue, NONE, head);
        lists.heads[class] = number;
        lists.filled[class / 64] |= 1 << (class % 64);
        place.bytes += piece.bytes;
        self.usage.cached += piece.bytes;
        if head != NONE {
            self.piece(head).before = number;
        }
    }

    #[inline]
    pub(super) fn unlink(&mut self, number: u32) {
        let Piece { bytes, kind, queue, before, after, .. } = *self.piece(number);
        if after != NONE {
            self.piece(after).before = before;
        }
        if before != NONE {
            self.piece(before).after = after;
        } else {
            let lists = &mut self.queues[queue as usize].lists[kind as usize];
            let class = class(bytes);
            lists.heads[class] = after;
            if after == NONE {
                lists.filled[class / 64] &= !(1 << (class % 64));
            }
        }
        self.queues[queue as usize].bytes -= bytes;
        self.usage.cached -= bytes;
    }

    /// Merges blocks that were freed with free neighbours of the same queue.
    fn tidy(&mut self) {
        while let Some(number) = self.loose.pop() {
            let piece = self.piece(number);
            piece.loose = false;
            let Piece { address, serial, queue, .. } = *piece;
            // Live again, or merged into another already.
            if serial != 0 || queue == NONE {
                continue;
            }
            let before = self.places.range(..address).next_back().map(|(_, number)| *number);
            let mut stays = number;
            if let Some(before) = before.filter(|before| self.are_alike(*before, number)) {
                self.join(before, number);
                stays = before;
            }
            let after = self.places.range(address + 1..).next().map(|(_, number)| *number);
            if let Some(after) = after.filter(|after| self.are_alike(stays, *after)) {
                self.join(stays, after);
            }
        }
    }

    /// Merges all free neighbours, also those of which one is common.
    fn merge(&mut self) {
        self.scattered = false;
        let all: Vec<u32> = self.places.values().copied().collect();
        let mut last = NONE;
        for number in all {
            if last != NONE && self.may_merge(last, number) {
                self.join(last, number);
            } else {
                last = number;
            }
        }
    }

    /// Makes a free block and the next one, which may be merged, one block.
    fn join(&mut self, stays: u32, gone: u32) {
        self.unlink(stays);
        self.unlink(gone);
        let Piece { bytes, freed, queue, .. } = *self.piece(gone);
        let piece = self.piece(stays);
        piece.bytes += bytes;
        piece.freed = piece.freed.max(freed);
        let queue = if piece.queue == COMMON { queue } else { piece.queue };
        self.discard(gone);
        self.link(stays, queue);
    }

    fn may_merge(&self, one: u32, next: u32) -> bool {
        let (one, next) = (&self.pieces[one as usize], &self.pieces[next as usize]);
        let free = one.serial == 0 && next.serial == 0;
        let queues = one.queue == next.queue || one.queue == COMMON || next.queue == COMMON;
        free && queues && one.segment == next.segment
    }

    /// Whether two neighbours may be merged, and are of one queue.
    fn are_alike(&self, one: u32, next: u32) -> bool {
        let queue = |number: u32| self.pieces[number as usize].queue;
        queue(one) == queue(next) && self.may_merge(one, next)
    }

    /// Whether the limit leaves room for another segment.
    pub(crate) fn has_room_for(&self, bytes: u64) -> bool {
        self.usage.reserved.checked_add(bytes).is_some_and(|sum| sum <= self.limit)
    }

    /// Adds a segment, on which nobody works yet.
    pub(crate) fn grow(&mut self, address: u64, bytes: u64, kind: Kind) {
        self.begin();
        self.segments.insert(address, bytes);
        self.usage.reserved += bytes;
        self.usage.segments += 1;
        self.restore(address, bytes, kind);
    }

    /// Puts a segment back that the driver did not take.
    pub(crate) fn restore(&mut self, address: u64, bytes: u64, kind: Kind) {
        let number = self.add(Piece {
            address,
            bytes,
            segment: address,
            serial: 0,
            freed: 0,
            before: NONE,
            after: NONE,
            queue: COMMON,
            kind,
            user: User::Lease,
            loose: false,
        });
        self.link(number, COMMON);
    }

    /// Takes out the segments on which nobody works, until at most `keep` bytes are cached. The caller gives them to the driver.
    /// Until [`Arena::drop_segment`] their addresses are those of freed blocks.
    pub(crate) fn surplus(&mut self, keep: u64) -> Vec<(u64, u64, Kind)> {
        self.merge();
        let whole = |number: &u32| {
            let piece = &self.pieces[*number as usize];
            let all = self.segments.get(&piece.segment) == Some(&piece.bytes);
            all && piece.serial == 0 && piece.queue == COMMON
        };
        let whole: Vec<u32> = self.places.values().copied().filter(whole).collect();
        let mut surplus = Vec::new();
        for number in whole {
            if self.usage.cached <= keep {
                break;
            }
            self.unlink(number);
            let Piece { address, bytes, kind, .. } = *self.piece(number);
            self.discard(number);
            surplus.push((address, bytes, kind));
        }
        surplus
    }

    /// Forgets a segment that the driver took back.
    pub(crate) fn drop_segment(&mut self, address: u64) {
        if let Some(bytes) = self.segments.remove(&address) {
            self.usage.reserved -= bytes;
            self.usage.segments -= 1;
        }
    }

    /// What is known about an address; none if it is in no segment.
    pub(crate) fn find(&self, address: u64) -> Option<Found> {
        let piece = self.places.range(..=address).next_back();
        let piece = piece.map(|(_, number)| &self.pieces[*number as usize]);
        if let Some(piece) = piece.filter(|piece| address - piece.address < piece.bytes) {
            let Piece { address: base, bytes, serial, .. } = *piece;
            return Some(if serial == 0 {
                Found::Free
            } else {
                Found::Live { base, bytes, serial }
            });
        }
        // The driver is about to take it back, or it is in no segment.
        let (base, bytes) = self.segments.range(..=address).next_back()?;
        (address - base < *bytes).then_some(Found::Free)
    }

    pub(crate) fn usage(&self) -> Usage {
        // The largest run of free neighbours within a segment.
        let (mut largest, mut run, mut segment) = (0, 0, 0);
        for number in self.places.values() {
            let piece = &self.pieces[*number as usize];
            if piece.serial != 0 {
                run = 0;
                continue;
            }
            run = if piece.segment == segment { run + piece.bytes } else { piece.bytes };
            segment = piece.segment;
            largest = largest.max(run);
        }
        Usage { largest, ..self.usage }
    }

    pub(crate) const fn limit(&self) -> u64 {
        self.limit
    }

    pub(crate) const fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
    }

    /// Forgets the largest number of bytes that were in use.
    pub(crate) const fn reset_peak(&mut self) {
        self.usage.peak = self.usage.live;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::cuda::StreamHandle;
    use crate::blocks::classes::PAGE;
    use crate::blocks::lists::Life;

    const WHOLE: (u64, Kind) = (PAGE, Kind::Small);
    const HALF: (u64, Kind) = (PAGE / 2, Kind::Small);

    /// An arena with a segment whose halves are taken by two streams, the streams' queues, and the halves.
    fn halves() -> (Arena, [u32; 2], [Taken; 2]) {
        let mut arena = Arena::new();
        arena.grow(PAGE, PAGE, Kind::Small);
        let queues = [7, 8].map(|stream| arena.queue(StreamHandle(stream), Life::Own));
        let taken = queues.map(|queue| arena.fit(queue, HALF, User::Lease).unwrap());
        (arena, queues, taken)
    }

    #[test]
    fn neighbours_of_two_streams_are_not_merged() {
        let (mut arena, queues, taken) = halves();
        for one in taken {
            arena.give(one.piece);
        }
        for queue in queues {
            assert_eq!(arena.fit(queue, WHOLE, User::Lease), None);
        }
        // Without work one of them waits for the other's only.
        arena.settle(queues[0], arena.frees);
        assert_eq!(arena.fit(queues[0], WHOLE, User::Lease), None);
        assert_eq!(arena.fit(queues[1], WHOLE, User::Lease).map(|whole| whole.bytes), Some(PAGE));
    }

    #[test]
    fn what_was_merged_waits_for_the_later_free() {
        for first in [0, 1] {
            let mut arena = Arena::new();
            arena.grow(PAGE, PAGE, Kind::Small);
            let queue = arena.queue(StreamHandle(7), Life::Own);
            let taken = [(); 2].map(|()| arena.fit(queue, HALF, User::Lease).unwrap());
            arena.give(taken[first].piece);
            let (_, moment) = arena.waiting();
            arena.give(taken[1 - first].piece);
            // Merges both, and finds nothing that is long enough.
            assert_eq!(arena.fit(queue, (2 * PAGE, Kind::Small), User::Lease), None);
            arena.settle(queue, moment);
            let other = arena.queue(StreamHandle(8), Life::Own);
            assert_eq!(arena.fit(other, HALF, User::Lease), None, "{first}");
            arena.settle(queue, moment + 1);
            assert!(arena.fit(other, WHOLE, User::Lease).is_some());
        }
    }

    #[test]
    fn a_segment_is_surplus_when_no_stream_works_on_it() {
        let mut arena = Arena::new();
        arena.grow(PAGE, PAGE, Kind::Small);
        let queue = arena.queue(StreamHandle(7), Life::Own);
        let taken = arena.fit(queue, WHOLE, User::Lease).unwrap();
        assert_eq!(arena.surplus(0), []);
        let (_, moment) = arena.give(taken.piece);
        assert_eq!(arena.surplus(0), []);
        arena.settle(queue, moment);
        assert_eq!(arena.surplus(PAGE), []);
        assert_eq!(arena.surplus(0), [(PAGE, PAGE, Kind::Small)]);
    }

    #[test]
    fn a_user_that_takes_over_a_block_is_counted_in_the_others_place() {
        let (mut arena, _, taken) = halves();
        arena.pass_on(taken[0].piece, User::Block);
        let users = arena.usage().users;
        assert_eq!(users[User::Lease as usize], PAGE / 2);
        assert_eq!(users[User::Block as usize], PAGE / 2);
        arena.give(taken[0].piece);
        assert_eq!(arena.usage().users[User::Block as usize], 0);
    }

    #[test]
    fn a_stream_that_lasts_stays_so_by_whatever_object_it_is_named() {
        let mut arena = Arena::new();
        let queue = arena.queue(StreamHandle(7), Life::Lasting);
        assert_eq!(arena.queue(StreamHandle(7), Life::Kept), queue);
        assert_eq!(arena.queues[queue as usize].life, Life::Lasting);
        let other = arena.queue(StreamHandle(8), Life::Kept);
        assert_eq!(arena.queue(StreamHandle(8), Life::Own), other);
        assert_eq!(arena.queues[other as usize].life, Life::Own);
    }
}
