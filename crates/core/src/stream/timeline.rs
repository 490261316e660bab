//! `Timeline`: which work made the bytes of a lease, and which work may still use them.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use smallvec::SmallVec;

use crate::abi::cuda::StreamHandle;
use crate::driver::driver;
use crate::error::{AddressError, DriverError, Error};
use crate::stream::event::Event;
use crate::stream::lane::Stream;
use crate::stream::moment::{Moment, Origin};
use crate::stream::order::{is_gone, order_all, order_told, wait_for_all};
use crate::stream::{current, is_capturing, is_reaper};

/// From so many streams on those are forgotten whose work is done.
const MANY_STREAMS: usize = 4;

/// When the bytes of a lease are valid.
#[derive(Clone, Debug)]
pub enum Ready {
    /// Already.
    Now,
    /// After what a stream holds now.
    On(Stream),
    /// After what its producer's stream holds now, in whose order the producer also frees it: as long as
    /// nobody else's stream works on it, it may go at once.
    Home(Stream),
    /// After an event.
    After(Arc<Event>),
}

impl Ready {
    /// Waits on the host until it is so.
    pub(crate) fn wait(&self) -> Result<(), Error> {
        match self {
            Self::Now => Ok(()),
            Self::On(stream) | Self::Home(stream) => stream.synchronize(),
            Self::After(event) => event.synchronize(),
        }
    }
}

/// One stream that worked on the memory, or will.
#[derive(Clone, Debug)]
struct Use {
    stream: Stream,
    /// Whether whoever comes next must wait for it.
    writes: bool,
    /// Whether more may be queued there without a word, as long as an export lives.
    open: bool,
    /// The number of the last note of it, which no other note has: work may come between two looks.
    noted: u32,
    /// The stream that waits for all that was noted until then, and the number of that note. It was itself among the uses;
    /// when one with its handle becomes a use anew, it may be another, and this is forgotten.
    waited: Option<(u8, StreamHandle, u32)>,
}

impl Use {
    const fn new(stream: Stream, writes: bool, open: bool, noted: u32) -> Self {
        Self { stream, writes, open, noted, waited: None }
    }

    /// Whether a stream waits for all of it already.
    fn is_waited_for_by(&self, after: &Stream) -> bool {
        !self.open && self.waited == Some((after.device(), after.handle(), self.noted))
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

#[derive(Debug, Default)]
struct State {
    uses: SmallVec<[Use; 2]>,
    moments: Vec<Moment>,
    /// The devices on which some work goes to streams that cannot be asked: a bit for each.
    hidden: u64,
    /// Those of them where it may write.
    hidden_writes: u64,
    /// Whether somebody said by name that a stream works on it, be it the producer's own.
    told: bool,
    /// How many notes there were.
    notes: u32,
}

impl State {
    fn note(&mut self, stream: &Stream, writes: bool, open: bool) {
        self.notes = self.notes.wrapping_add(1);
        let noted = self.notes;
        if let Some(one) = self.uses.iter_mut().find(|one| one.stream.is(stream)) {
            one.writes |= writes;
            one.open |= open;
            one.noted = noted;
            return;
        }
        let same =
            |told: &(u8, StreamHandle, u32)| (told.0, told.1) == (stream.device(), stream.handle());
        for one in &mut self.uses {
            one.waited = one.waited.filter(|told| !same(told));
        }
        self.uses.push(Use::new(stream.clone(), writes, open, noted));
    }

    fn hide(&mut self, devices: u64, writes: bool) {
        self.hidden |= devices;
        self.hidden_writes |= if writes { devices } else { 0 };
    }

    /// The handle of the only stream on the memory's device, if it may write and any thread can name it; else 0.
    fn alone(&self, device: u8) -> usize {
        match self.uses.as_slice() {
            [one] if self.hidden == 0 && self.moments.is_empty() => {
                let here = one.stream.device() == device && one.stream.stays_nameable();
                if here && one.writes { one.stream.handle().0 } else { 0 }
            }
            _ => 0,
        }
    }

    /// The devices whose hidden work somebody who reads, or writes, must wait for.
    const fn hidden_from(&self, writes: bool) -> u64 {
        if writes { self.hidden } else { self.hidden_writes }
    }
}

/// What the memory of a lease waits for, at the entry and at the exit. Slices share their lease's.
///
/// What a launch on the memory's only stream looks at comes first, in one cache line.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Timeline {
    /// The handle of the one stream that works on the memory, on its own device, and may write: work there waits for
    /// nothing, and is noted already. 0 if there is no such stream. Set under the lock.
    alone: AtomicUsize,
    device: u8,
    /// Whether a framework of the host works on the memory, and knows no streams.
    shared_with_host: AtomicBool,
    /// Where the allocation is and its number, to be asked for again, if it was wrapped.
    claim: Option<(u64, u64)>,
    state: Mutex<State>,
    /// The producer's own stream: what it frees is free for whatever comes after on this one.
    home: Option<Stream>,
}

impl Timeline {
    pub(crate) fn new(device: u8, ready: Ready, claim: Option<(u64, u64)>) -> Result<Self, Error> {
        let mut state = State::default();
        let home = match ready {
            Ready::Now => None,
            Ready::Home(stream) if stream.stays_nameable() => {
                state.uses.push(Use::new(stream.clone(), true, true, 0));
                Some(stream)
            }
            // Named from another thread it would be another stream, named later it may be none.
            Ready::Home(stream) | Ready::On(stream) if !stream.stays_nameable() => {
                state.moments.push(Moment::now(&stream)?);
                None
            }
            Ready::Home(stream) | Ready::On(stream) => {
                state.uses.push(Use::new(stream, true, true, 0));
                None
            }
            Ready::After(event) => {
                state.moments.push(Moment { event, of: Origin::Told });
                None
            }
        };
        Ok(Self {
            alone: AtomicUsize::new(state.alone(device)),
            device,
            shared_with_host: AtomicBool::new(false),
            claim,
            state: Mutex::new(state),
            home,
        })
    }

    pub(crate) const fn device(&self) -> u8 {
        self.device
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and what follows from it for those who do not take the lock.
    fn change<R>(&self, how: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.state();
        let result = how(&mut state);
        self.alone.store(state.alone(self.device), Ordering::Release);
        result
    }

    /// Whether this stream alone works on the memory, and may write.
    #[inline]
    fn is_alone(&self, stream: &Stream) -> bool {
        stream.device() == self.device && self.is_noted_here(stream.handle())
    }

    /// Whether work on this stream of the memory's own device waits for nothing, and nobody has to wait for it but those
    /// who come later.
    #[inline]
    pub(crate) fn is_plain_here(&self, stream: StreamHandle) -> bool {
        self.is_noted_here(stream) && self.claim.is_none() && !self.is_shared_with_host()
    }

    /// The same of any stream.
    #[inline]
    pub(crate) fn is_plain_for(&self, stream: &Stream) -> bool {
        stream.device() == self.device && self.is_plain_here(stream.handle())
    }

    /// Asks whether wrapped memory is still the allocation it was.
    #[inline]
    pub(crate) fn check_live(&self) -> Result<(), Error> {
        let Some((address, wanted)) = self.claim else { return Ok(()) };
        match driver()?.buffer_id(address)? {
            Some(found) if found == wanted => Ok(()),
            Some(_) => {
                let reused = ", and something else was allocated there";
                Err(AddressError::Gone { address, reused }.into())
            }
            None => Err(AddressError::Gone { address, reused: "" }.into()),
        }
    }

    /// Has a stream wait for the work that made the bytes; one that will write waits for readers too.
    #[inline]
    pub(crate) fn ready_for(&self, after: &Stream, writes: bool) -> Result<(), Error> {
        if self.is_alone(after) { Ok(()) } else { self.order_before(after, writes) }
    }

    fn order_before(&self, after: &Stream, writes: bool) -> Result<(), Error> {
        // No driver call under the lock: deleters take it.
        let mut known = false;
        let (before, moments, hidden, among) = {
            let mut state = self.state();
            if state.uses.len() >= MANY_STREAMS {
                drop(state);
                // Before events are recorded on them: those would have to happen first.
                self.forget_done();
                state = self.state();
            }
            if state.uses.iter().any(|one| one.is_waited_for_by(after)) {
                drop(state);
                // In a capture only what is part of it counts.
                known = !is_capturing(after)?;
                state = self.state();
                known &= state.uses.iter().any(|one| one.stream.is(after));
            }
            let open = |one: &&Use| {
                let waited = known && one.is_waited_for_by(after);
                (one.writes || writes) && !one.stream.is(after) && !waited
            };
            let hidden = state.hidden_from(writes);
            if hidden == 0 && state.moments.is_empty() && !state.uses.iter().any(|one| open(&one)) {
                return Ok(());
            }
            let before: SmallVec<[(Stream, u32); 2]> =
                state.uses.iter().filter(open).map(|one| (one.stream.clone(), one.noted)).collect();
            // Only of a stream that is kept: the handle of another may come to mean a third. And since before any event is
            // recorded here, so that what comes behind that is noted: see `is_noted_for`.
            let among = state.uses.iter().any(|one| one.stream.is(after));
            (before, state.moments.clone(), hidden, among)
        };
        for (stream, noted) in &before {
            match order_told(stream, after) {
                // Destroyed since: its work is caught with all of the device's, once.
                Err(error) if is_gone(&error) => {
                    order_all(stream.device(), after)?;
                    self.forget(|one| one.stream.is(stream));
                }
                other => {
                    if other? && among {
                        self.note_waited(stream, after, *noted);
                    }
                }
            }
        }
        moments.iter().try_for_each(|moment| moment.order(after))?;
        devices(hidden).try_for_each(|device| order_all(device, after))
    }

    /// Notes that a stream waits for what another had been noted with.
    fn note_waited(&self, before: &Stream, after: &Stream, noted: u32) {
        let mut state = self.state();
        let known = state.uses.iter().any(|one| one.stream.is(after));
        if let Some(one) = state.uses.iter_mut().find(|one| known && one.stream.is(before)) {
            one.waited = Some((after.device(), after.handle(), noted));
        }
    }

    /// Waits on the host for the work on the bytes.
    pub(crate) fn ready_for_host(&self) -> Result<(), Error> {
        let state = self.state();
        let before: SmallVec<[Stream; 2]> =
            state.uses.iter().map(|one| one.stream.clone()).collect();
        let moments = state.moments.clone();
        let hidden = state.hidden;
        drop(state);
        moments.iter().try_for_each(Moment::wait)?;
        devices(hidden).try_for_each(wait_for_all)?;
        for stream in &before {
            match stream.synchronize() {
                Err(error) if is_gone(&error) => {
                    wait_for_all(stream.device())?;
                    self.forget(|one| one.stream.is(stream));
                }
                other => other?,
            }
        }
        Ok(())
    }

    /// Whether the bytes are ready already, so that nobody needs to wait.
    pub(crate) fn is_ready(&self) -> Result<bool, Error> {
        let state = self.state();
        let writers = state.uses.iter().filter(|one| one.writes);
        let before: SmallVec<[Stream; 2]> = writers.map(|one| one.stream.clone()).collect();
        let moments = state.moments.clone();
        let hidden = state.hidden_writes;
        drop(state);
        if hidden != 0 {
            return Ok(false);
        }
        for stream in &before {
            if is_capturing(stream)? || !stream.is_idle()? {
                return Ok(false);
            }
        }
        for moment in &moments {
            if !moment.has_come()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// As [`Timeline::ready_for_host`], and from now on every call that works on the memory waits.
    pub(crate) fn share_with_host(&self) -> Result<(), Error> {
        // First, so that what another thread queues meanwhile is waited for there.
        self.shared_with_host.store(true, Ordering::Relaxed);
        self.ready_for_host()
    }

    /// Whether work on the memory must be done when the call that queued it returns.
    pub(crate) fn is_shared_with_host(&self) -> bool {
        self.shared_with_host.load(Ordering::Relaxed)
    }

    /// Notes that a stream works on the memory, so that it is not freed before.
    pub(crate) fn used_on(&self, stream: &Stream, writes: bool) -> Result<(), Error> {
        let known = || self.state().uses.iter().any(|one| one.stream.is(stream));
        if stream.is_per_thread() || !(stream.is_lasting() || known()) {
            let moment = Moment::now(stream)?;
            self.change(|state| {
                let same = |old: &Moment| (old.of, old.device()) == (moment.of, moment.device());
                state.moments.retain(|old| old.of == Origin::Told || !same(old));
                // By whoever releases the memory, the stream could not be named. What is captured does
                // not run, and whoever replays it keeps the memory.
                if moment.is_real() {
                    state.hide(bit(stream.device()), writes);
                }
                state.moments.push(moment);
            });
            return Ok(());
        }
        self.forget_done();
        self.note(stream, writes, true);
        Ok(())
    }

    /// Whether work that is queued by now on this stream of the memory's own device needs no note.
    #[inline]
    pub(crate) fn is_noted_here(&self, stream: StreamHandle) -> bool {
        // If it is alone now that the work is queued, nobody remembers to have waited for less. They would be a use beside
        // it since before their event; if that is before this work, the driver's own lock on the queue shows it here.
        self.alone.load(Ordering::Acquire) == stream.0
    }

    /// The same of any stream.
    #[inline]
    pub(crate) fn is_noted_for(&self, stream: &Stream) -> bool {
        self.is_alone(stream)
    }

    /// As [`Timeline::used_on`] for work of our own, of which no more will come.
    pub(crate) fn used_once_on(&self, stream: &Stream, writes: bool) -> Result<(), Error> {
        if self.is_noted_for(stream) {
            return Ok(());
        }
        if !stream.stays_nameable() {
            return self.used_on(stream, writes);
        }
        self.note(stream, writes, false);
        Ok(())
    }

    /// As [`Timeline::used_on`] for a stream that any thread can name: no call of the driver's.
    pub(crate) fn note(&self, stream: &Stream, writes: bool, open: bool) {
        self.change(|state| state.note(stream, writes, open));
    }

    /// Forgets work of our own that is done, once there are many streams.
    fn forget_done(&self) {
        let uses = {
            let state = self.state();
            if state.uses.len() < MANY_STREAMS {
                return;
            }
            state.uses.clone()
        };
        // A kernel's mistake is for whoever waits, not for us who only look.
        let look = |on: bool| driver().map(|driver| driver.only_look(on));
        let _ = look(true);
        let idle = |one: &Use| !one.open && one.stream.is_idle().unwrap_or(false);
        let done: Vec<Use> = uses.into_iter().filter(idle).collect();
        // The exit thread only ever looks.
        let _ = look(is_reaper());
        let same = |one: &Use, old: &Use| one.stream.is(&old.stream) && one.noted == old.noted;
        self.forget(|one| !one.open && done.iter().any(|old| same(one, old)));
    }

    /// Forgets uses; their streams go outside of the lock, because a keeper may run foreign code.
    fn forget(&self, gone: impl Fn(&Use) -> bool) {
        let gone = self.change(|state| {
            let (gone, mut stay): (Vec<Use>, Vec<Use>) = state.uses.drain(..).partition(gone);
            // One that is alone from now on is not noted any more: what waits for it now does not for what comes.
            if let ([_, ..], [one]) = (gone.as_slice(), stay.as_mut_slice()) {
                state.notes = state.notes.wrapping_add(1);
                one.noted = state.notes;
            }
            state.uses = stay.into();
            gone
        });
        drop(gone);
    }

    /// Notes that work goes to streams that nobody names.
    pub(crate) fn note_hidden(&self, writes: bool) {
        self.change(|state| state.hide(bit(self.device), writes));
    }

    /// Notes that somebody said by name what works on the memory: it is waited for in every case.
    pub(crate) fn note_told(&self) {
        self.state().told = true;
    }

    /// Whether only the producer's own stream works on the memory.
    pub(crate) fn is_at_home(&self) -> bool {
        let state = self.state();
        let home = |one: &Use| self.home.as_ref().is_some_and(|home| home.is(&one.stream));
        let unasked = state.hidden == 0 && !state.told && state.moments.is_empty();
        unasked && state.uses.iter().all(home)
    }

    /// What must be done before the memory may go: streams, events, and the devices with hidden work.
    pub(super) fn pending(&self) -> (Vec<Stream>, Vec<Arc<Event>>, u64) {
        let state = self.state();
        let streams = state.uses.iter().map(|one| one.stream.clone()).collect();
        let real = state.moments.iter().filter(|moment| moment.is_real());
        let events = real.map(|moment| Arc::clone(&moment.event)).collect();
        (streams, events, state.hidden)
    }

    /// The one stream after which the bytes are valid, having others wait if need be.
    pub(crate) fn one_stream(&self, writes: bool) -> Result<Stream, Error> {
        let single = {
            let state = self.state();
            let mut before = state.uses.iter().filter(|one| one.writes || writes);
            let plain = state.moments.is_empty() && state.hidden_from(writes) == 0;
            match (before.next(), before.next(), plain) {
                (Some(one), None, true) if !one.stream.is_per_thread() => Some(one.stream.clone()),
                _ => None,
            }
        };
        if let Some(stream) = single {
            return Ok(stream);
        }
        let stream = current(self.device);
        self.ready_for(&stream, writes)?;
        Ok(stream)
    }

    /// Orders the entry of a consumer that did not say its stream, where no capture stands against it.
    pub(crate) fn enter(&self, stream: &Stream) -> Result<(), Error> {
        match self.ready_for(stream, false) {
            Err(Error::Driver(DriverError::Captured { .. })) => Ok(()),
            other => other,
        }
    }
}
