//! `Timeline`: which work made the bytes of a lease, and which work may still use them.
//!
//! # The part without the lock
//!
//! Most launches work on memory of which one stream alone makes use. Such a launch takes no lock. It reads two atomics:
//! `alone`, the handle of that stream, and `shared_with_host`. It has four steps, in this order:
//!
//! 1. It looks: [`Timeline::is_plain_here`]. If the answer is no, its stream first waits as [`Timeline::ready_for`] asks.
//! 2. It queues the kernel.
//! 3. It looks again.
//! 4. If the answer is no now, it notes its stream, [`Timeline::note`], then asks [`Timeline::is_shared_with_host`], and if
//!    so, its caller waits for the stream.
//!
//! An example of why it looks twice. Stream A works on the memory alone. A thread looks, and is interrupted. Another thread
//! lends the memory to stream B: B waits for an event of A, and the timeline remembers that B waits for all of A's noted
//! work. Now the first thread queues its kernel on A, behind the event. If it did not look again, the next reader on B would
//! find "B waits for A already", not wait, and read old bytes. Because `alone` is 0 by now, the launch notes A. A's note has
//! a new number, and B waits anew.
//!
//! These laws hold at all times:
//!
//! 1. `alone` is what `State::alone` says, whenever nobody holds the lock. Only [`Timeline::change`] writes it, under the
//!    lock; all that changes what `State::alone` reads goes through it.
//! 2. `alone` is a stream's handle only while all work on the memory is that stream's or done. No other use, moment or
//!    hidden work is there, and the reaper does not watch for the end of the work.
//! 3. Work that is not noted is on the stream that was alone after it was queued. That stream is a use: who waits for the
//!    memory, or frees it, waits for all that the stream holds.
//! 4. "B waits for A" is remembered with the number of A's last note, and only if B was a use before the event was recorded.
//!    When a stream becomes alone again it gets a new number: its next work will not be noted.
//! 5. A host that shares the memory sets `shared_with_host` first, and then waits for the streams. A launch queues first,
//!    and then looks. So the host waits for the kernel, or the launch does, or both.
//! 6. `borrowers` rises before the borrower's stream is noted, and falls after its last work is queued. Who reads 0 under
//!    the lock knows that no more work comes on what was noted as open while lent.
//!
//! The memory orderings, and why no stronger one is needed:
//!
//! - The first look reads `alone` with `Acquire`, and `change` writes it with `Release`: work of other streams that was found
//!   done happened before the kernel that does not wait for it.
//! - The second look needs no ordering of its own. Who records an event on A, or asks whether A is idle, became a use, or
//!   wrote 0, before. The driver locks A's queue for that call and for the launch. So if the launch came later, what was
//!   written before the event is visible to it; if it came sooner, the event comes after the kernel.
//! - `shared_with_host` is `Relaxed`: the same queue's lock, or the timeline's, stands between its write and its read.
//! - `borrowers` is read under the lock. Its increase becomes visible by the note that follows it under the same lock, and
//!   its decrease is `AcqRel`, read with `Acquire`: work that was queued before is in the queue that is looked at next.
//!
//! Limits. The driver must lock a stream's queue, as CUDA does: its functions are safe to call from any thread. Two threads
//! that use the memory at the same time with no order between them have a race of their own; the laws only keep a *later*
//! hand-over correct. A launch holds its leases until step 4 is over, so no memory goes in between. Memory that was wrapped
//! with a claim to be checked is never plain: the driver is asked at each launch.
//!
//! `tests/loom_timeline` runs these files, with loom's lock and atomics, in every order of threads.
#![forbid(unsafe_code)]

use std::sync::{Arc, PoisonError};

use smallvec::SmallVec;

use crate::abi::cuda::StreamHandle;
use crate::driver::driver;
use crate::error::{AddressError, DriverError, Error};
use crate::stream::event::Event;
use crate::stream::moment::{Moment, Origin};
use crate::stream::order::{all, is_gone, order_all, order_event, order_told, wait_for_all};
use crate::stream::ready::Ready;
use crate::stream::reaper::Pending;
use crate::stream::stream::Stream;
use crate::stream::sync::{AtomicBool, AtomicU32, AtomicUsize, Mutex, MutexGuard, Ordering};
use crate::stream::uses::{Open, State, Use, bit, devices};
use crate::stream::{current, is_capturing, is_reaper};

/// From so many streams or moments on, those are forgotten whose work is done.
const MANY: usize = 4;
/// More streams than this are not kept by one timeline: the rest become moments.
const MOST_STREAMS: usize = 16;
/// So many moments become one.
const MOST_MOMENTS: usize = 32;

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
    /// How much of what was handed out is alive: exports, hand-overs under way, leases that were borrowed for a stream.
    borrowers: AtomicU32,
    /// The producer's own stream: what it frees is free for whatever comes after on this one.
    home: Option<Stream>,
}

impl Timeline {
    pub(crate) fn new(device: u8, ready: Ready, claim: Option<(u64, u64)>) -> Result<Self, Error> {
        let mut state = State::default();
        let home = match ready {
            Ready::Now => None,
            Ready::Home(stream) if stream.stays_nameable() => {
                state.uses.push(Use::new(&stream, true, Open::Always, 0));
                Some(stream.kept())
            }
            // Named from another thread it would be another stream, named later it may be none.
            Ready::Home(stream) | Ready::On(stream) if !stream.stays_nameable() => {
                state.moments.push(Moment::now(&stream)?);
                None
            }
            Ready::Home(stream) | Ready::On(stream) => {
                state.uses.push(Use::new(&stream, true, Open::Always, 0));
                None
            }
            Ready::After(event) => {
                state.moments.push(Moment { event, of: Origin::Named });
                None
            }
        };
        Ok(Self {
            alone: AtomicUsize::new(state.alone(device)),
            device,
            shared_with_host: AtomicBool::new(false),
            claim,
            state: Mutex::new(state),
            borrowers: AtomicU32::new(0),
            home,
        })
    }

    pub(crate) const fn device(&self) -> u8 {
        self.device
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and what follows from it for those who do not take the lock.
    pub(super) fn change<R>(&self, how: impl FnOnce(&mut State) -> R) -> R {
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
        let (before, moments, hidden, among, notes) = {
            let mut state = self.state();
            if state.uses.len() >= MANY || state.moments.len() >= MANY {
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
            // recorded here, so that what comes behind that is noted: law 4.
            let among = state.uses.iter().any(|one| one.stream.is(after));
            (before, state.moments.clone(), hidden, among, state.notes)
        };
        let many = before.len() >= MANY;
        for (stream, noted) in &before {
            // A question costs less than an event and a wait, and of many streams most are idle.
            if many && Self::is_idle(stream) {
                continue;
            }
            match order_told(stream, after) {
                // Destroyed since: its work is caught with all of the device's, once.
                Err(error) if is_gone(&error) => {
                    order_all(stream.device(), after)?;
                    self.forget_stream(stream);
                }
                other => {
                    if other? && among {
                        self.note_waited(stream, after, *noted);
                    }
                }
            }
        }
        moments.iter().try_for_each(|moment| moment.order(after))?;
        devices(hidden).try_for_each(|device| {
            let event = Arc::new(all(device)?);
            self.reveal(device, &event, notes);
            order_event(&event, after)
        })
    }

    /// Has what is hidden now waited for by an event from here on, where no capture stands against it.
    pub(crate) fn reveal_hidden(&self) {
        let (hidden, notes) = {
            let state = self.state();
            (state.hidden, state.notes)
        };
        for device in devices(hidden) {
            if let Ok(event) = all(device) {
                self.reveal(device, &Arc::new(event), notes);
            }
        }
    }

    /// Whether a stream has nothing to do, for somebody who only looks.
    fn is_idle(stream: &Stream) -> bool {
        let Ok(driver) = driver() else { return false };
        driver.only_look(true);
        let idle = stream.is_idle().unwrap_or(false);
        driver.only_look(is_reaper());
        idle
    }

    /// Takes an event after all work of a device for what was hidden there, if no more of that can have come since a note.
    fn reveal(&self, device: u8, event: &Arc<Event>, notes: u32) {
        self.change(|state| {
            let lent = self.borrowers.load(Ordering::Acquire) > 0;
            if lent || state.notes != notes || state.hidden_always & bit(device) != 0 {
                return;
            }
            state.hidden &= !bit(device);
            state.hidden_writes &= !bit(device);
            state.remember(Moment { event: Arc::clone(event), of: Origin::Named }, None);
        });
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
                    self.forget_stream(stream);
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
        // First: law 5.
        self.shared_with_host.store(true, Ordering::Relaxed);
        self.ready_for_host()
    }

    /// Whether work on the memory must be done when the call that queued it returns.
    pub(crate) fn is_shared_with_host(&self) -> bool {
        self.shared_with_host.load(Ordering::Relaxed)
    }

    /// Notes that a stream works on the memory, so that it is not freed before.
    pub(crate) fn used_on(&self, stream: &Stream, writes: bool, open: Open) -> Result<(), Error> {
        let known = || self.state().uses.iter().any(|one| one.stream.is(stream));
        self.forget_done();
        if stream.is_per_thread() || !(stream.is_lasting() || known()) {
            return self.note_moment(stream, writes, open);
        }
        self.note(stream, writes, open);
        Ok(())
    }

    /// Notes what a stream holds now that cannot be named later.
    fn note_moment(&self, stream: &Stream, writes: bool, open: Open) -> Result<(), Error> {
        let of = Moment::origin(stream);
        let same = |old: &&Moment| old.of == of && old.device() == stream.device() && old.is_real();
        let old = self.state().moments.iter().rev().find(same).cloned();
        // It may be another stream with the handle of one that is gone, whose work goes on.
        let old = old.filter(|_| is_capturing(stream).is_ok_and(|capturing| !capturing));
        if let Some(old) = &old {
            stream.wait_unasked(&old.event)?;
        }
        let moment = Moment::now(stream)?;
        self.change(|state| {
            // Captured work does not run, and the user who replays it keeps the memory.
            if moment.is_real() && open != Open::No {
                state.hide(bit(stream.device()), writes, open);
            }
            let old = old.as_ref().filter(|_| moment.is_real());
            state.remember(moment, old);
        });
        Ok(())
    }

    /// Whether work that is queued by now on this stream of the memory's own device needs no note.
    #[inline]
    pub(crate) fn is_noted_here(&self, stream: StreamHandle) -> bool {
        // Laws 2 and 3, at the first and the second look.
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
            return self.used_on(stream, writes, Open::No);
        }
        self.note(stream, writes, Open::No);
        Ok(())
    }

    /// As [`Timeline::used_on`] for a stream that any thread can name: no call of the driver's.
    pub(crate) fn note(&self, stream: &Stream, writes: bool, open: Open) {
        self.change(|state| state.note(stream, writes, open));
    }

    /// Counts what was handed out: from before its streams are noted until it is gone.
    pub(crate) fn lend(&self) {
        self.borrowers.fetch_add(1, Ordering::AcqRel);
    }

    /// The end of what [`Timeline::lend`] counted.
    pub(crate) fn give_back(&self) {
        self.borrowers.fetch_sub(1, Ordering::AcqRel);
    }

    /// Forgets work that is done, once there is much of it, so that neither streams nor events grow in number with the age
    /// of a lease, nor the time that a hand-over takes.
    pub(crate) fn forget_done(&self) {
        let Ok(driver) = driver() else { return };
        let (uses, moments) = {
            let mut state = self.state();
            if state.uses.len() < MANY && state.moments.len() < MANY {
                return;
            }
            // Law 6.
            if self.borrowers.load(Ordering::Acquire) == 0 {
                state.close();
            }
            (state.uses.clone(), state.moments.clone())
        };
        // A kernel's mistake is for whoever waits, not for us who only look.
        driver.only_look(true);
        let idle = |one: &Use| !one.is_open() && one.stream.is_idle().unwrap_or(false);
        let (done, mut busy): (Vec<Use>, Vec<Use>) = uses.into_iter().partition(idle);
        let come =
            |moment: &Moment| moment.is_real() && moment.event.has_happened().unwrap_or(false);
        let come: Vec<Moment> = moments.into_iter().filter(come).collect();
        // The reaper only ever looks.
        driver.only_look(is_reaper());
        self.change(|state| state.forget_moments(&come));
        self.forget(&done);
        if let Some((device, moments)) = { self.state().many_moments(MOST_MOMENTS) }
            && let Ok(moment) = Moment::after_all(&moments, device)
        {
            self.change(|state| state.gather(&moments, moment));
        }
        if busy.len() > MOST_STREAMS {
            busy.sort_unstable_by_key(|one| one.noted);
            busy.truncate(busy.len() - MOST_STREAMS);
            self.fix(&busy);
        }
    }

    /// Replaces streams by what they hold now; of those that are open, by all work of their device too.
    fn fix(&self, uses: &[Use]) {
        let home = |one: &Use| self.home.as_ref().is_some_and(|home| home.is(&one.stream));
        // What its user keeps and may queue more on is no more than the user has: it is asked by its name.
        let stays = |one: &Use| home(one) || (one.is_open() && !one.stream.is_kept_for_us());
        for one in uses.iter().filter(|one| !stays(one)) {
            let stream = &one.stream;
            let Ok(false) = is_capturing(stream) else { continue };
            let Ok(moment) = Moment::now(stream) else { continue };
            self.change(|state| {
                let known = state.uses.iter().find(|found| found.stream.is(stream));
                if let Some(open) = known.filter(|found| found.is_open()).map(|found| found.open) {
                    state.hide(bit(stream.device()), one.writes, open);
                }
                state.remember(moment, None);
            });
            self.forget(std::slice::from_ref(one));
        }
    }

    /// Forgets uses that were not noted since; their streams go outside of the lock, because a keeper may run foreign code.
    fn forget(&self, done: &[Use]) {
        let same = |one: &Use, old: &Use| one.stream.is(&old.stream) && one.noted == old.noted;
        let gone = self.change(|state| {
            let (gone, mut stay): (Vec<Use>, Vec<Use>) =
                state.uses.drain(..).partition(|one| done.iter().any(|old| same(one, old)));
            // Law 4: what waits for it now does not wait for what comes.
            if let ([_, ..], [one]) = (gone.as_slice(), stay.as_mut_slice()) {
                one.noted = state.count();
            }
            state.uses = stay.into();
            gone
        });
        drop(gone);
    }

    /// Forgets a stream that is gone.
    fn forget_stream(&self, stream: &Stream) {
        let uses = self.state().uses.clone();
        let gone: Vec<Use> = uses.into_iter().filter(|one| one.stream.is(stream)).collect();
        self.forget(&gone);
    }

    /// Notes that work goes to streams that nobody names.
    pub(crate) fn note_hidden(&self, writes: bool, open: Open) {
        self.change(|state| state.hide(bit(self.device), writes, open));
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
    pub(super) fn pending(&self) -> Pending {
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
