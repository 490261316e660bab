//! The queues of an arena: the streams in whose order blocks were freed.
#![forbid(unsafe_code)]

use crate::abi::cuda::StreamHandle;
use crate::blocks::arena::{Arena, COMMON};
use crate::blocks::classes::Kind;
use crate::blocks::lists::{Life, Queue};
use crate::blocks::usage::User;

/// From so many queues on, those of objects that are gone are used again.
const MANY_QUEUES: usize = 64;

/// A stream that has free blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) queue: u32,
    pub(crate) stream: StreamHandle,
    pub(crate) life: Life,
}

impl Arena {
    /// Makes the common queue, which every request looks into.
    pub(crate) fn begin(&mut self) {
        if self.queues.is_empty() {
            self.queues.push(Queue::new(StreamHandle(0), Life::Lasting));
        }
    }

    /// The queue of a stream, which is added if it is new.
    #[inline]
    pub(crate) fn queue(&mut self, stream: StreamHandle, life: Life) -> u32 {
        let known = |queue: &Queue| queue.stream == stream;
        match self.queues.iter().position(known) {
            Some(number) if self.queues[number].life == life => {
                u32::try_from(number).unwrap_or(COMMON)
            }
            known => self.add_queue(known, stream, life),
        }
    }

    #[cold]
    fn add_queue(&mut self, known: Option<usize>, stream: StreamHandle, life: Life) -> u32 {
        self.begin();
        let forgotten = |queue: &Queue| queue.stream.0 == 0;
        let free = || self.queues.iter().skip(1).position(forgotten).map(|number| number + 1);
        let number = known.or_else(free).or_else(|| self.abandoned()).unwrap_or_else(|| {
            self.queues.push(Queue::new(stream, life));
            self.queues.len() - 1
        });
        let place = &mut self.queues[number];
        // A stream that is known to last stays so, by whatever object it is named.
        let lasts = known.is_some() && place.life == Life::Lasting;
        (place.stream, place.life) = (stream, if lasts { Life::Lasting } else { life });
        u32::try_from(number).unwrap_or(COMMON)
    }

    /// Once there are many queues, one of an object that nobody uses any more.
    fn abandoned(&self) -> Option<usize> {
        if self.queues.len() < MANY_QUEUES {
            return None;
        }
        let mut used = vec![false; self.queues.len()];
        for number in self.places.values() {
            let queue = self.pieces[*number as usize].queue;
            if let Some(used) = used.get_mut(queue as usize) {
                *used = true;
            }
        }
        let queues = self.queues.iter().zip(used);
        queues.skip(1).position(|(queue, used)| queue.life == Life::Kept && !used).map(|n| n + 1)
    }

    /// Lets a live block go back to another queue.
    pub(crate) fn rehome(&mut self, number: u32, queue: u32) {
        self.piece(number).queue = queue;
    }

    /// Notes that a live block has another user from now on.
    pub(crate) fn pass_on(&mut self, number: u32, user: User) {
        let piece = &mut self.pieces[number as usize];
        let (before, bytes) = (std::mem::replace(&mut piece.user, user), piece.bytes);
        self.usage.users[before as usize] -= bytes;
        self.usage.users[user as usize] += bytes;
    }

    /// The stream in whose order a live block is given back; none if it is a block on which no work is left then.
    pub(crate) fn home(&self, number: u32) -> Option<(StreamHandle, Life)> {
        let queue = self.pieces[number as usize].queue;
        let place = self.queues.get(queue as usize).filter(|_| queue != COMMON)?;
        Some((place.stream, place.life))
    }

    /// The streams that have free blocks, and the number of the last free: what is proved about a stream from now on is
    /// proved for blocks up to that number.
    pub(crate) fn waiting(&self) -> (Vec<Waiting>, u64) {
        let streams = self.queues.iter().zip(0..).skip(1).filter(|(queue, _)| queue.bytes > 0);
        let waiting =
            streams.map(|(queue, n)| Waiting { queue: n, stream: queue.stream, life: queue.life });
        (waiting.collect(), self.frees)
    }

    /// Makes blocks of a queue common: all work that its stream had at a moment is done.
    pub(crate) fn settle(&mut self, queue: u32, moment: u64) {
        let place = &self.queues[queue as usize];
        let mut done = Vec::new();
        for kind in (0..Kind::COUNT).filter(|_| place.bytes > 0) {
            for class in place.filled(kind) {
                let mut at = place.lists[kind].heads[class];
                while let Some(piece) = self.pieces.get(at as usize) {
                    if piece.freed <= moment {
                        done.push(at);
                    }
                    at = piece.after;
                }
            }
        }
        for number in done {
            self.unlink(number);
            self.link(number, COMMON);
            self.loosen(number);
        }
    }

    /// Whether a stream has a queue: blocks, live or free, may have work on it.
    pub(crate) fn has(&self, stream: StreamHandle) -> bool {
        self.queues.iter().skip(1).any(|queue| queue.stream == stream)
    }

    /// Forgets a stream, which has no work left and is about to be destroyed: its handle may become another stream's.
    pub(crate) fn forget(&mut self, stream: StreamHandle) {
        let known = self.queues.iter().zip(0..).skip(1).find(|(queue, _)| queue.stream == stream);
        let Some((_, number)) = known else { return };
        self.settle(number, u64::MAX);
        // Live blocks of the stream have no work left either, and nobody can add any.
        for piece in &mut self.pieces {
            if piece.serial != 0 && piece.queue == number {
                piece.queue = COMMON;
            }
        }
        // The queue keeps its number, for another stream.
        self.queues[number as usize].stream = StreamHandle(0);
    }
}
