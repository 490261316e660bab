//! What a timeline remembers: the streams that worked on the memory, moments of others, and devices whose work nobody names.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use smallvec::SmallVec;

use crate::abi::cuda::StreamHandle;
use crate::stream::moment::Moment;
use crate::stream::stream::Stream;

/// Whether more work may be queued on a stream without a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Open {
    /// All of it is queued by now, or will be told.
    No,
    /// As long as something handed out is alive.
    WhileLent,
    /// As long as the memory.
    Always,
}

/// One stream that worked on the memory, or will.
#[derive(Clone, Debug)]
pub(super) struct Use {
    pub(super) stream: Stream,
    /// Whether the next user must wait for it.
    pub(super) writes: bool,
    pub(super) open: Open,
    /// The number of the last note of it, which no other note has: work may come between two looks.
    pub(super) noted: u32,
    /// The stream that waits for all that was noted until then, and the number of that note. It was itself among the uses;
    /// when one with its handle becomes a use anew, it may be another, and this is forgotten.
    pub(super) waited: Option<(u8, StreamHandle, u32)>,
}

impl Use {
    pub(super) fn new(stream: &Stream, writes: bool, open: Open, noted: u32) -> Self {
        Self { stream: stream.kept(), writes, open, noted, waited: None }
    }

    /// Whether more work may be queued there without a word.
    pub(super) fn is_open(&self) -> bool {
        self.open != Open::No && self.stream.is_named()
    }

    /// Whether a stream waits for all of it already.
    pub(super) fn is_waited_for_by(&self, after: &Stream) -> bool {
        !self.is_open() && self.waited == Some((after.device(), after.handle(), self.noted))
    }
}

/// A device's bit among all.
pub(super) const fn bit(device: u8) -> u64 {
    1 << (device % 64)
}

/// The devices of a set of bits.
pub(super) fn devices(bits: u64) -> impl Iterator<Item = u8> {
    (0..64).filter(move |device| bits & bit(*device) != 0)
}

/// How many captures a timeline remembers moments of: those that are over never come.
const CAPTURES: usize = 4;

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) uses: SmallVec<[Use; 2]>,
    pub(super) moments: Vec<Moment>,
    /// The devices on which some work goes to streams that cannot be asked: a bit for each.
    pub(super) hidden: u64,
    /// Those of them where it may write.
    pub(super) hidden_writes: u64,
    /// Those of them where such work may come as long as the memory is there, whatever was handed back.
    pub(super) hidden_always: u64,
    /// Whether somebody said by name that a stream works on it, be it the producer's own.
    pub(super) told: bool,
    /// How many notes there were.
    pub(super) notes: u32,
    /// Whether all that was noted is done: the reaper was asked, and nothing was noted since.
    pub(super) settling: Option<Arc<AtomicBool>>,
    /// The last collection that asked whether the memory may go, and the answer.
    pub(super) collected: Option<(u64, bool)>,
}

impl State {
    pub(super) fn note(&mut self, stream: &Stream, writes: bool, open: Open) {
        let noted = self.count();
        if let Some(one) = self.uses.iter_mut().find(|one| one.stream.is(stream)) {
            one.writes |= writes;
            one.open = one.open.max(open);
            one.noted = noted;
            return;
        }
        let same =
            |told: &(u8, StreamHandle, u32)| (told.0, told.1) == (stream.device(), stream.handle());
        for one in &mut self.uses {
            one.waited = one.waited.filter(|told| !same(told));
        }
        self.uses.push(Use::new(stream, writes, open, noted));
    }

    pub(super) fn hide(&mut self, devices: u64, writes: bool, open: Open) {
        self.count();
        self.hidden |= devices;
        self.hidden_writes |= if writes { devices } else { 0 };
        self.hidden_always |= if open == Open::Always { devices } else { 0 };
    }

    /// Adds a moment, in the place of `old` if that is still there: the new one comes after it.
    pub(super) fn remember(&mut self, moment: Moment, old: Option<&Moment>) {
        self.count();
        if let Some(old) = old {
            self.moments.retain(|known| !known.is(old));
        }
        self.moments.push(moment);
    }

    /// Counts a note.
    pub(super) fn count(&mut self) -> u32 {
        self.settling = None;
        // A finalizer may have queued work in the middle of a collection, which asks anew then.
        self.collected = None;
        self.notes = self.notes.wrapping_add(1);
        self.notes
    }

    /// Nothing that was handed out is alive: no more work comes without a word.
    pub(super) fn close(&mut self) {
        for one in &mut self.uses {
            if one.open == Open::WhileLent {
                one.open = Open::No;
            }
        }
    }

    /// The moments of a device that come by themselves, if there are so many.
    pub(super) fn many_moments(&self, many: usize) -> Option<(u8, Vec<Moment>)> {
        let real = |moment: &&Moment| moment.is_real();
        let device = self.moments.iter().find(real)?.device();
        let here = |moment: &&Moment| moment.is_real() && moment.device() == device;
        let moments: Vec<Moment> = self.moments.iter().filter(here).cloned().collect();
        (moments.len() >= many).then_some((device, moments))
    }

    /// Replaces moments by one that comes after them all.
    pub(super) fn gather(&mut self, old: &[Moment], moment: Moment) {
        self.moments.retain(|known| !old.iter().any(|old| old.is(known)));
        self.remember(moment, None);
    }

    /// Forgets moments: those of `come`, and those of captures that are likely over.
    pub(super) fn forget_moments(&mut self, come: &[Moment]) {
        let mut captures: Vec<u64> = Vec::new();
        for capture in self.moments.iter().rev().filter_map(|moment| moment.event.captured()) {
            if captures.len() < CAPTURES && !captures.contains(&capture) {
                captures.push(capture);
            }
        }
        self.moments.retain(|moment| match moment.event.captured() {
            Some(capture) => captures.contains(&capture),
            None => !come.iter().any(|old| old.is(moment)),
        });
    }

    /// The handle of the only stream on the memory's device, if it may write and any thread can name it; else 0. Also 0
    /// while the reaper watches for the end of the work: what comes must be noted then.
    pub(super) fn alone(&self, device: u8) -> usize {
        match self.uses.as_slice() {
            [one] if self.hidden == 0 && self.moments.is_empty() && self.settling.is_none() => {
                let here = one.stream.device() == device && one.stream.stays_nameable();
                if here && one.writes { one.stream.handle().0 } else { 0 }
            }
            _ => 0,
        }
    }

    /// The devices whose hidden work somebody who reads, or writes, must wait for.
    pub(super) const fn hidden_from(&self, writes: bool) -> u64 {
        if writes { self.hidden } else { self.hidden_writes }
    }
}
