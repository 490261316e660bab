//! The state of a timeline: the streams that worked on the memory, moments of others, and devices with hidden work.
#![forbid(unsafe_code)]

use std::sync::Arc;

use smallvec::SmallVec;

use crate::abi::cuda::StreamHandle;
use crate::stream::moment::Moment;
use crate::stream::stream::Stream;
use crate::stream::sync::AtomicBool;

/// Whether more work may be queued on a stream without notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Open {
    /// All work is queued, or will be noted.
    No,
    /// As long as the memory is lent.
    WhileLent,
    /// As long as the memory lives.
    Always,
}

/// A stream that works on the memory, or will.
#[derive(Clone, Debug)]
pub(super) struct Use {
    pub(super) stream: Stream,
    /// Whether it may write, so that readers must wait for it too.
    pub(super) writes: bool,
    pub(super) open: Open,
    /// The unique number of its last note: it shows whether work was added between two looks at the state.
    pub(super) noted: u32,
    /// The stream that waits for all work up to a note, and the number of that note. It counts only while that stream is a use
    /// itself. When its handle becomes a use again, it may be another stream; then this is reset.
    pub(super) waited: Option<(u8, StreamHandle, u32)>,
}

impl Use {
    pub(super) fn new(stream: &Stream, writes: bool, open: Open, noted: u32) -> Self {
        Self { stream: stream.kept(), writes, open, noted, waited: None }
    }

    /// Whether more work may be queued there without notice.
    pub(super) fn is_open(&self) -> bool {
        self.open != Open::No && self.stream.is_named()
    }

    /// Whether a stream waits for all its work already.
    pub(super) fn is_waited_for_by(&self, after: &Stream) -> bool {
        !self.is_open() && self.waited == Some((after.device(), after.handle(), self.noted))
    }
}

/// From this many streams or moments on, those whose work is done are removed.
pub(super) const MANY: usize = 4;

/// The bit of a device in a set.
pub(super) const fn bit(device: u8) -> u64 {
    1 << (device % 64)
}

/// The devices of a set of bits.
pub(super) fn devices(bits: u64) -> impl Iterator<Item = u8> {
    (0..64).filter(move |device| bits & bit(*device) != 0)
}

/// A timeline remembers the moments of this many captures; moments of captures that are over never happen.
const CAPTURES: usize = 4;

#[derive(Debug, Default)]
pub(super) struct State {
    /// Whether nothing was noted since the memory came in: its release waits for nothing then, and no stream is alone on it.
    pub(super) untouched: bool,
    pub(super) uses: SmallVec<[Use; 2]>,
    pub(super) moments: Vec<Moment>,
    /// The devices with work on hidden streams: a bit for each.
    pub(super) hidden: u64,
    /// Those of them whose hidden work may write.
    pub(super) hidden_writes: u64,
    /// Those of them where hidden work may be added as long as the memory lives, even if nothing is lent.
    pub(super) hidden_always: u64,
    /// Whether a caller named a stream that works on the memory, even the producer's own.
    pub(super) named: bool,
    /// The number of notes so far.
    pub(super) notes: u32,
    /// Set while the reaper watches for the end of all noted work; a new note resets it.
    pub(super) settling: Option<Arc<AtomicBool>>,
    /// The last garbage collection that asked whether it may take the memory, and the answer.
    pub(super) collected: Option<(u64, bool)>,
}

impl State {
    /// Whether finished work should be looked for and forgotten.
    pub(super) fn is_crowded(&self) -> bool {
        self.uses.len() >= MANY || self.moments.len() >= MANY
    }

    pub(super) fn note(&mut self, stream: &Stream, writes: bool, open: Open) {
        let noted = self.count();
        if let Some(one) = self.uses.iter_mut().find(|one| one.stream.is(stream)) {
            one.writes |= writes;
            one.open = one.open.max(open);
            one.noted = noted;
            return;
        }
        let same =
            |wait: &(u8, StreamHandle, u32)| (wait.0, wait.1) == (stream.device(), stream.handle());
        for one in &mut self.uses {
            one.waited = one.waited.filter(|wait| !same(wait));
        }
        self.uses.push(Use::new(stream, writes, open, noted));
    }

    pub(super) fn hide(&mut self, devices: u64, writes: bool, open: Open) {
        self.count();
        self.hidden |= devices;
        self.hidden_writes |= if writes { devices } else { 0 };
        self.hidden_always |= if open == Open::Always { devices } else { 0 };
    }

    /// Adds a moment. It replaces `old`, after which it happens.
    pub(super) fn remember(&mut self, moment: Moment, old: Option<&Moment>) {
        self.count();
        if let Some(old) = old {
            self.moments.retain(|known| !known.is(old));
        }
        self.moments.push(moment);
    }

    /// Counts a note and returns its number.
    pub(super) fn count(&mut self) -> u32 {
        self.untouched = false;
        self.settling = None;
        // A finalizer may queue work during a collection, which then must ask again.
        self.collected = None;
        self.notes = self.notes.wrapping_add(1);
        self.notes
    }

    /// Nothing is lent any more: no work is added without notice.
    pub(super) fn close(&mut self) {
        for one in &mut self.uses {
            if one.open == Open::WhileLent {
                one.open = Open::No;
            }
        }
    }

    /// The real moments of a device, if there are at least `many`.
    pub(super) fn many_moments(&self, many: usize) -> Option<(u8, Vec<Moment>)> {
        let real = |moment: &&Moment| moment.is_real();
        let device = self.moments.iter().find(real)?.device();
        let here = |moment: &&Moment| moment.is_real() && moment.device() == device;
        let moments: Vec<Moment> = self.moments.iter().filter(here).cloned().collect();
        (moments.len() >= many).then_some((device, moments))
    }

    /// Replaces moments by one that happens after all of them.
    pub(super) fn gather(&mut self, old: &[Moment], moment: Moment) {
        self.moments.retain(|known| !old.iter().any(|old| old.is(known)));
        self.remember(moment, None);
    }

    /// Forgets the moments in `come`, and those of captures that are probably over.
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

    /// The handle of the only stream, if it is on the memory's device, may write, and any thread can name it; otherwise 0. Also 0
    /// while the reaper watches for the end of the work, and before the first note: work must be noted then.
    pub(super) fn alone(&self, device: u8) -> usize {
        let unwatched = self.settling.is_none() && !self.untouched;
        match self.uses.as_slice() {
            [one] if self.hidden == 0 && self.moments.is_empty() && unwatched => {
                let here = one.stream.device() == device && one.stream.stays_nameable();
                if here && one.writes { one.stream.handle().0 } else { 0 }
            }
            _ => 0,
        }
    }

    /// Whether only the producer's own stream works on the memory, or no work was noted since it came in.
    pub(super) fn is_at_home(&self, is_home: impl Fn(&Stream) -> bool) -> bool {
        if self.untouched {
            return true;
        }
        let unnamed = self.hidden == 0 && !self.named && self.moments.is_empty();
        unnamed && self.uses.iter().all(|one| is_home(&one.stream))
    }

    /// The devices for whose hidden work a reader, or a writer, must wait.
    pub(super) const fn hidden_from(&self, writes: bool) -> u64 {
        if writes { self.hidden } else { self.hidden_writes }
    }
}
