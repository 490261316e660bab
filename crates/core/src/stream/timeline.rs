//! `Timeline`: the work that wrote the bytes of a lease, and the work that may still use them.
//!
//! # The lock-free part
//!
//! Most launches use memory that only one stream uses. Such a launch takes no lock. It reads two atomics:
//! `alone`, the handle of that stream, and `shared_with_host`. It has four steps, in this order:
//!
//! 1. It checks [`Timeline::is_plain_here`]. If that is false, its stream first waits as in [`Timeline::ready_for`].
//! 2. It queues the kernel.
//! 3. It checks again.
//! 4. If the answer is now false, it notes its stream with [`Timeline::note`]. Then, if
//!    [`Timeline::is_shared_with_host`], its caller waits for the stream.
//!
//! Why two checks? An example: only stream A uses the memory. A thread checks, and is interrupted. Another
//! thread lends the memory to stream B: B waits for an event of A, and the timeline records that B waits for
//! all noted work of A. Now the first thread queues its kernel on A, after the event. Without the second
//! check, the next reader on B would find "B already waits for A", not wait, and read old bytes. But `alone`
//! is 0 by now, so the launch notes A. That note has a new number, and B waits again.
//!
//! These invariants always hold:
//!
//! 1. `alone` equals `State::alone` whenever the lock is free. Only `Timeline::publish` writes it, under the lock.
//!    Every change to what `State::alone` reads ends with it.
//! 2. `alone` is a stream's handle only while all other streams' work on the memory is done. There is no other use,
//!    no moment and no hidden work, the reaper does not watch for the end of the work, and the memory was touched.
//! 3. Work that is not noted is on the stream that was alone after it was queued. That stream is a use. Waiting for
//!    the memory, or freeing it, waits for all work of that stream.
//! 4. "B waits for A" is recorded with the number of A's last note, and only if B was a use before the event was
//!    recorded. When a stream becomes alone again it gets a new number, because its next work will not be noted.
//! 5. Sharing with the host sets `shared_with_host` first and then waits for the streams. A launch queues first and
//!    checks afterwards. So the host waits for the kernel, or the launch does, or both.
//! 6. `borrowers` rises before the borrower's stream is noted, and falls after its last work is queued. If it is 0
//!    under the lock, no more work follows on uses that were open while lent. So the streams are queried, or the event that
//!    replaces hidden work is recorded, after that look: a borrower may queue work and give back in between.
//! 7. Memory is untouched from its entry to the first note, unless its producer frees it in stream order anyway. So the
//!    first launch on it always notes its stream. Dropping untouched memory waits for nothing.
//!
//! Why these memory orderings suffice:
//!
//! - The first check reads `alone` with `Acquire`, and `change` writes it with `Release`. So work of other streams
//!   that was found done happened before the kernel that does not wait for it.
//! - The second check needs no ordering. A thread that records an event on A, or queries A, first became a use or
//!   wrote 0. The driver locks A's queue for that call and for the launch. If the launch is later, it sees what was
//!   written before the event. If it is earlier, the event follows the kernel.
//! - `shared_with_host` is `Relaxed`: the lock of the same queue, or the timeline's, separates its write and its read.
//! - `borrowers` is read under the lock. Its increment is `Relaxed`: it becomes visible with the note that follows under
//!   the same lock. Its decrement is `Release` and read with `Acquire`: what borrowers did happened before a launch that no
//!   longer waits for them.
//!
//! Limits. The driver must lock a stream's queue, as CUDA does: its functions are thread-safe. Two threads
//! that use the memory at once without synchronisation have a race of their own; the invariants only keep a
//! *later* hand-over correct. A launch holds its leases until after step 4, so no memory is freed in between.
//! Memory that was wrapped with a claim is never plain: each launch queries the driver about it.
//!
//! `tests/loom_timeline` runs these files with loom's lock and atomics, in every order of threads.
#![forbid(unsafe_code)]

use std::mem;
use std::sync::atomic::AtomicI32;
use std::sync::{Arc, PoisonError};

use smallvec::SmallVec;

use crate::abi::cuda::StreamHandle;
use crate::driver::driver;
use crate::error::{DriverError, Error};
use crate::stream::claim::Claim;
use crate::stream::event::Event;
use crate::stream::moment::{Moment, Origin};
use crate::stream::order::{all, is_gone, order_all, order_event, order_lasting, wait_for_all};
use crate::stream::ready::Ready;
use crate::stream::reaper::Pending;
use crate::stream::stream::Stream;
use crate::stream::sync::{AtomicBool, AtomicU32, AtomicUsize, Mutex, MutexGuard, Ordering};
use crate::stream::uses::{MANY, Open, State, Use, bit, devices};
use crate::stream::{current, is_capturing, is_reaper};

/// A timeline keeps at most this many streams; others become moments.
const MOST_STREAMS: usize = 16;
/// This many moments are merged into one.
const MOST_MOMENTS: usize = 32;

/// What a lease's memory waits for, on entry and on exit. Slices share their lease's timeline.
///
/// The fields that a launch on the memory's only stream reads come first, in one cache line.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Timeline {
    /// The handle of the only stream that uses the memory, if it is on the memory's device and may write.
    /// Work on it waits for nothing and needs no note. 0 if there is no such stream. Written under the lock.
    alone: AtomicUsize,
    device: u8,
    /// Whether a framework without streams uses the memory on the host.
    shared_with_host: AtomicBool,
    /// What each hand-over asks about again.
    claim: Claim,
    state: Mutex<State>,
    /// The number of live exports, hand-overs in progress, and leases borrowed for a stream.
    borrowers: AtomicU32,
    /// The producer's own stream. Memory that the producer frees may be reused by later work on this stream.
    home: Option<StreamHandle>,
}

impl Timeline {
    pub(crate) fn new(
        device: u8,
        ready: Ready,
        claim: Option<(u64, u64)>,
    ) -> Result<Arc<Self>, Error> {
        let claim = claim.map_or(Claim::None, |(address, id)| Claim::Buffer(address, id));
        Self::claimed(device, ready, claim)
    }

    /// For memory that another process writes: `lost` is its id if it ends before that is done.
    pub(crate) fn lent(device: u8, ready: Ready, lost: Arc<AtomicI32>) -> Result<Arc<Self>, Error> {
        Self::claimed(device, ready, Claim::Lender(lost))
    }

    fn claimed(device: u8, ready: Ready, claim: Claim) -> Result<Arc<Self>, Error> {
        let mut state = State::default();
        let home = match ready {
            Ready::Now => None,
            Ready::Home(stream) if stream.stays_nameable() => {
                state.uses.push(Use::new(&stream, true, Open::Always, 0));
                Some(stream.handle()).filter(|_| stream.device() == device)
            }
            // Another thread would name another stream by this handle, and later the stream may not exist.
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
        // The producer waits for its own work when it gets the memory back as it gave it. The first launch must not be
        // missed, so there is no short cut before: invariant 7.
        state.untouched = home.is_none();
        // Made where it stays: moving it would cost as much as making it.
        Ok(Arc::new(Self {
            alone: AtomicUsize::new(state.alone(device)),
            device,
            shared_with_host: AtomicBool::new(false),
            claim,
            state: Mutex::new(state),
            borrowers: AtomicU32::new(0),
            home,
        }))
    }

    /// Whether a stream is the producer's own.
    fn is_home(&self, stream: &Stream) -> bool {
        stream.device() == self.device && self.home == Some(stream.handle())
    }

    pub(crate) const fn device(&self) -> u8 {
        self.device
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and updates `alone` for readers without the lock.
    pub(super) fn change<R>(&self, how: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.state();
        let result = how(&mut state);
        self.publish(&state);
        result
    }

    /// Updates `alone` for readers without the lock, after a change of the state under the lock.
    fn publish(&self, state: &State) {
        self.alone.store(state.alone(self.device), Ordering::Release);
    }

    /// Whether only this stream uses the memory, and may write.
    #[inline]
    fn is_alone(&self, stream: &Stream) -> bool {
        stream.device() == self.device && self.is_noted_here(stream.handle())
    }

    /// Whether work on this stream of the memory's own device needs no wait and no note.
    #[inline]
    pub(crate) fn is_plain_here(&self, stream: StreamHandle) -> bool {
        self.is_noted_here(stream)
            && matches!(self.claim, Claim::None)
            && !self.is_shared_with_host()
    }

    /// Checks that wrapped memory is still the same allocation, and that a lender has not ended too early.
    #[inline]
    pub(crate) fn check_live(&self) -> Result<(), Error> {
        self.claim.check()
    }

    /// Checks that a lender has not ended too early.
    pub(crate) fn check_lender(&self) -> Result<(), Error> {
        self.claim.check_lender()
    }

    /// Makes a stream wait for the work that wrote the bytes. If it will write, it waits for readers too.
    #[inline]
    pub(crate) fn ready_for(&self, after: &Stream, writes: bool) -> Result<(), Error> {
        if self.is_alone(after) { Ok(()) } else { self.order_before(after, writes) }
    }

    fn order_before(&self, after: &Stream, writes: bool) -> Result<(), Error> {
        // No driver calls under the lock: deleters take it.
        let mut known = false;
        let (before, moments, hidden, among, returned) = {
            let mut state = self.state();
            if state.is_crowded() {
                drop(state);
                // Before events are recorded on these streams: such events would keep them busy.
                self.forget_done();
                state = self.state();
            }
            if state.uses.iter().any(|one| one.is_waited_for_by(after)) {
                drop(state);
                // In a capture, only waits that are part of the capture count.
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
            // Recorded only for a stream that is a use: the handle of another could be reused. It must be a
            // use before any event is recorded here, so that later work is noted: invariant 4.
            let among = state.uses.iter().any(|one| one.stream.is(after));
            (before, state.moments.clone(), hidden, among, self.all_returned(&state))
        };
        let many = before.len() >= MANY;
        for (stream, noted) in &before {
            // A query is cheaper than an event and a wait, and of many streams most are idle.
            if many && stream.is_idle_now() {
                continue;
            }
            match order_lasting(stream, after) {
                // Destroyed since. Wait once for all work of its device, which includes the stream's.
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
            self.reveal(device, &event, returned);
            order_event(&event, after)
        })
    }

    /// Replaces hidden work by an event, unless a capture prevents it.
    pub(crate) fn reveal_hidden(&self) {
        let (hidden, returned) = {
            let state = self.state();
            (state.hidden, self.all_returned(&state))
        };
        for device in devices(hidden) {
            if let Ok(event) = all(device) {
                self.reveal(device, &Arc::new(event), returned);
            }
        }
    }

    /// The number of the last note, if nothing is lent: then hidden work is added only after another note.
    fn all_returned(&self, state: &State) -> Option<u32> {
        (!self.is_lent()).then_some(state.notes)
    }

    /// Replaces a device's hidden work by an event, if no hidden work can have been added since `returned` was read, which
    /// was before the event was recorded: invariant 6.
    fn reveal(&self, device: u8, event: &Arc<Event>, returned: Option<u32>) {
        self.change(|state| {
            if returned != Some(state.notes) || state.hidden_always & bit(device) != 0 {
                return;
            }
            state.hidden &= !bit(device);
            state.hidden_writes &= !bit(device);
            state.remember(Moment { event: Arc::clone(event), of: Origin::Named }, None);
        });
    }

    /// Records that `after` waits for the work of `before` up to note `noted`.
    fn note_waited(&self, before: &Stream, after: &Stream, noted: u32) {
        let mut state = self.state();
        if let Some(one) = state.uses.iter_mut().find(|one| one.stream.is(before)) {
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
        // What was waited for may be the end of a lender.
        self.check_lender()
    }

    /// Like [`Timeline::ready_for_host`], and from now on every call that uses the memory waits.
    pub(crate) fn share_with_host(&self) -> Result<(), Error> {
        // First: invariant 5.
        self.shared_with_host.store(true, Ordering::Relaxed);
        // The host has the address now.
        self.note_unseen_work();
        self.ready_for_host()
    }

    /// Whether work on the memory must be done when the call that queued it returns.
    pub(crate) fn is_shared_with_host(&self) -> bool {
        self.shared_with_host.load(Ordering::Relaxed)
    }

    /// Notes that a stream uses the memory, so that it is not freed too early.
    pub(crate) fn used_on(&self, stream: &Stream, writes: bool, open: Open) -> Result<(), Error> {
        {
            // Mostly there is little to look at: one lock is enough.
            let mut state = self.state();
            let known = stream.is_lasting() || state.uses.iter().any(|one| one.stream.is(stream));
            if known && !stream.is_per_thread() && !state.is_crowded() {
                state.note(stream, writes, open);
                self.publish(&state);
                return Ok(());
            }
        }
        self.forget_done();
        let known = || self.state().uses.iter().any(|one| one.stream.is(stream));
        if stream.is_per_thread() || !(stream.is_lasting() || known()) {
            return self.note_moment(stream, writes, open);
        }
        self.note(stream, writes, open);
        Ok(())
    }

    /// Notes the current work of a stream that cannot be named later.
    fn note_moment(&self, stream: &Stream, writes: bool, open: Open) -> Result<(), Error> {
        let of = Moment::origin(stream);
        let same = |old: &&Moment| old.of == of && old.device() == stream.device() && old.is_real();
        let old = self.state().moments.iter().rev().find(same).cloned();
        // The handle may have been reused: wait for the old stream's work too.
        let old = old.filter(|_| is_capturing(stream).is_ok_and(|capturing| !capturing));
        if let Some(old) = &old {
            stream.wait_unasked(&old.event)?;
        }
        let moment = Moment::now(stream)?;
        self.change(|state| {
            // Captured work does not run now, and the user who replays it keeps the memory alive.
            if moment.is_real() && open != Open::No {
                state.hide(bit(stream.device()), writes, open);
            }
            let old = old.as_ref().filter(|_| moment.is_real());
            state.remember(moment, old);
        });
        Ok(())
    }

    /// Whether work already queued on this stream of the memory's own device needs no note.
    #[inline]
    pub(crate) fn is_noted_here(&self, stream: StreamHandle) -> bool {
        // Invariants 2 and 3, at the first and the second check.
        self.alone.load(Ordering::Acquire) == stream.0
    }

    /// Like [`Timeline::used_on`] for gpulend's own work, which is complete.
    pub(crate) fn used_once_on(&self, stream: &Stream, writes: bool) -> Result<(), Error> {
        if self.is_alone(stream) {
            return Ok(());
        }
        if !stream.stays_nameable() {
            return self.used_on(stream, writes, Open::No);
        }
        self.note(stream, writes, Open::No);
        Ok(())
    }

    /// Like [`Timeline::used_on`] for a stream that any thread can name. Calls no driver function.
    pub(crate) fn note(&self, stream: &Stream, writes: bool, open: Open) {
        self.change(|state| state.note(stream, writes, open));
    }

    /// Counts a borrower. Called before its streams are noted.
    pub(crate) fn lend(&self) {
        self.borrowers.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends what [`Timeline::lend`] counted.
    pub(crate) fn give_back(&self) {
        self.borrowers.fetch_sub(1, Ordering::Release);
    }

    /// Whether there are borrowers. Called under the lock.
    fn is_lent(&self) -> bool {
        self.borrowers.load(Ordering::Acquire) > 0
    }

    /// Removes finished work once there is much of it. Otherwise streams and events would accumulate with the
    /// age of a lease, and hand-overs would slow down.
    pub(crate) fn forget_done(&self) {
        let Ok(driver) = driver() else { return };
        let (uses, moments) = {
            let mut state = self.state();
            if !state.is_crowded() {
                return;
            }
            // Invariant 6.
            if !self.is_lent() {
                state.close();
            }
            (state.uses.clone(), state.moments.clone())
        };
        // A kernel's error must be reported to a caller that waits, not consumed by this query.
        driver.only_look(true);
        let idle = |one: &Use| !one.is_open() && one.stream.is_idle().unwrap_or(false);
        let (done, mut busy): (Vec<Use>, Vec<Use>) = uses.into_iter().partition(idle);
        let come =
            |moment: &Moment| moment.is_real() && moment.event.has_happened().unwrap_or(false);
        let come: Vec<Moment> = moments.into_iter().filter(come).collect();
        // The reaper is always in this mode.
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

    /// Replaces streams by moments. For open uses, also marks their device as having hidden work.
    fn fix(&self, uses: &[Use]) {
        let home = |one: &Use| self.is_home(&one.stream);
        // An open stream that its user keeps alive costs nothing to keep, and can be named.
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

    /// Removes uses without newer notes. Their streams are dropped outside of the lock: a keeper may run
    /// foreign code.
    fn forget(&self, done: &[Use]) {
        let same = |one: &Use, old: &Use| one.stream.is(&old.stream) && one.noted == old.noted;
        let gone = self.change(|state| {
            let (gone, mut stay): (Vec<Use>, Vec<Use>) =
                state.uses.drain(..).partition(|one| done.iter().any(|old| same(one, old)));
            // Invariant 4: a recorded wait does not cover the stream's next work, which will not be noted.
            if let ([_, ..], [one]) = (gone.as_slice(), stay.as_mut_slice()) {
                one.noted = state.count();
            }
            state.uses = stay.into();
            gone
        });
        drop(gone);
    }

    /// Removes a destroyed stream.
    fn forget_stream(&self, stream: &Stream) {
        let uses = self.state().uses.clone();
        let gone: Vec<Use> = uses.into_iter().filter(|one| one.stream.is(stream)).collect();
        self.forget(&gone);
    }

    /// Notes work on streams that cannot be named.
    pub(crate) fn note_hidden(&self, writes: bool, open: Open) {
        self.change(|state| state.hide(bit(self.device), writes, open));
    }

    /// Notes that a caller named a stream that uses the memory: the exit then always waits.
    pub(crate) fn note_named(&self) {
        self.state().named = true;
    }

    /// Notes that other code may work on the memory, on the streams that are known.
    pub(crate) fn note_unseen_work(&self) {
        self.change(|state| state.untouched = false);
    }

    /// Whether only the producer's own stream works on the memory, or no work was noted since it came in.
    pub(crate) fn is_at_home(&self) -> bool {
        self.state().is_at_home(|stream| self.is_home(stream))
    }

    /// What the release must wait for: streams, events, and devices with hidden work.
    pub(super) fn pending(&self) -> Pending {
        let state = self.state();
        let streams = state.uses.iter().map(|one| one.stream.clone()).collect();
        let real = state.moments.iter().filter(|moment| moment.is_real());
        let events = real.map(|moment| Arc::clone(&moment.event)).collect();
        Pending { streams, events, hidden: state.hidden }
    }

    /// Like [`Timeline::pending`] for the last holder: it takes no lock and clones nothing. None if the release waits for
    /// nothing.
    pub(super) fn take_pending(&mut self) -> Option<Pending> {
        let (device, home) = (self.device, self.home);
        let is_home = |stream: &Stream| stream.device() == device && home == Some(stream.handle());
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if state.is_at_home(is_home) {
            return None;
        }
        let streams = mem::take(&mut state.uses).into_iter().map(|one| one.stream).collect();
        let real = mem::take(&mut state.moments).into_iter().filter(Moment::is_real);
        let events = real.map(|moment| moment.event).collect();
        Some(Pending { streams, events, hidden: state.hidden })
    }

    /// A single stream after which the bytes are valid. If there are several, the current stream waits for
    /// them.
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

    /// Orders the entry of a consumer that named no stream, unless a capture prevents it.
    pub(crate) fn enter(&self, stream: &Stream) -> Result<(), Error> {
        match self.ready_for(stream, false) {
            Err(Error::Driver(DriverError::Captured { .. })) => Ok(()),
            other => other,
        }
    }
}
