//! The reaper: a thread that releases memory when the GPU work on it is done.
//!
//! # Example
//!
//! A tensor is lent from CuPy to torch. torch queues a kernel on it and frees the tensor while the kernel runs:
//!
//! 1. torch calls the export's deleter, on one of its own threads and perhaps with its locks held. [`deleting`] marks the
//!    thread. The deleter drops the last clone of the lease, which calls [`retire`].
//! 2. The timeline knows CuPy's stream and torch's. [`retire`] puts the owner and both streams into the queue, starts
//!    the thread if there is none, and returns. The deleter has made no driver call and no system call.
//! 3. The reaper wakes up every [`NAP`] while there is something to do. It records one event on each stream for all owners
//!    that came since ([`Round`]), and queries the events.
//! 4. Both events have happened: the owner is dropped, which returns the memory to CuPy.
//!
//! # Why a thread
//!
//! - **Deleters must not call the driver.** A driver call may wait for a lock that the deleter's caller holds, or invalidate a
//!   capture on that thread. The reaper runs under relaxed capture mode ([`Driver::relax`]).
//! - **Deleters must not wait.** The work may take seconds.
//! - **A host callback does not help.** CUDA forbids driver calls in `cuLaunchHostFunc`, and owners make them to free memory.
//! - **It polls.** Waiting for one event would delay all other owners, and there is no call that waits for the first of many.
//!
//! Memory that nobody touched takes no thread: the producer gets it back as it gave it. Nor does memory on which only the
//! producer's own stream worked, because the producer frees it in stream order. [`retire`] drops the owner at once.
//!
//! # What a release costs
//!
//! Waking a thread costs microseconds, and recording an event hundreds of nanoseconds. So the caller does neither: it adds a line
//! to the queue. The reaper naps instead of sleeping, and sleeps only after [`LOOKS`] naps without work; a release
//! wakes it then. It also wakes it when [`CROWD`] owners wait for their first look, which bounds the backlog.
//! The ledger counts the owners that wait.
//!
//! # Captures
//!
//! Touching a capturing stream would add to the capture or invalidate it. [`mark`] therefore asks before and after it records, and
//! a capturing stream stays in the list for a later round. The legacy stream is different: while a blocking stream captures, touching it
//! invalidates that capture. So its event is recorded on a blocking stream of gpulend's own, which waits for the legacy
//! stream as every blocking stream does. Work on streams that are not known by name (`hidden`) is caught by an event over the whole
//! context, which is postponed while such a stream may be capturing, and retried every 250 ms after a refusal.
//!
//! # Exit
//!
//! [`drain`] ends the thread and gives up on work that is not done in time: its owners are leaked and counted. It runs
//! from an `atexit` function. Exit functions run in reverse order of registration; ours is registered with the first job, which is
//! after `cuInit` registered the driver's own. So it runs while the driver still works. Python drains earlier, while
//! the interpreter still exists.
//!
//! # Limits
//!
//! - Work on streams that gpulend never learned of is not waited for. `Lease::used_on` names them.
//! - Polling delays a release by up to two naps, or by 250 ms after a device refused.
//! - An owner that blocks delays all others: owners run one after another on this thread. One that panics does not end it.
//! - In a forked child nothing in the queue is released: the thread, the driver and the memory belong to the parent.

use std::cell::Cell;
use std::collections::HashMap;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use crate::abi::cuda::StreamHandle;
use crate::blocks;
use crate::driver::{Capture, Driver, driver, is_forked};
use crate::error::Error;
use crate::fork::ProcessLock;
use crate::ledger;
use crate::owner::Owner;
use crate::stream::event::Event;
use crate::stream::order::{
    all, is_capturing, is_lost, may_unnamed_be_capturing, record_beside_legacy,
};
use crate::stream::stream::Stream;
use crate::stream::timeline::Timeline;
use crate::stream::uses::{bit, devices};

/// How long the reaper naps between two rounds: memory is free within two naps of its last work.
const NAP: Duration = Duration::from_micros(200);

/// How many naps without work come before the reaper sleeps: ten milliseconds of them.
const LOOKS: u32 = 50;

/// When so many jobs are new, the reaper is woken from its nap.
const CROWD: usize = 1024;

/// How long the process waits at exit for work on dropped memory.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// A job for the reaper.
enum Job {
    /// Release an owner after some work.
    Release(Owner, Pending),
    /// Destroy one of gpulend's streams.
    Destroy(u8, StreamHandle),
}

/// Work to wait for.
pub(super) struct Pending {
    /// Streams on which no event was recorded yet.
    pub(super) streams: SmallVec<[Stream; 1]>,
    /// Events that were recorded.
    pub(super) events: Vec<Arc<Event>>,
    /// Devices on which the work of hidden streams must still be caught by an event: a bit for each.
    pub(super) hidden: u64,
}

/// An owner that waits for its release.
struct Retired {
    owner: Owner,
    work: Pending,
    /// Retry time of a device that refused: every query may invalidate a capture that we do not know of.
    again: Option<Instant>,
}

/// How long to wait before a device that refused is queried again.
const PATIENCE: Duration = Duration::from_millis(250);

struct Queue {
    incoming: Vec<Job>,
    thread: Option<JoinHandle<()>>,
    /// Whether the thread sleeps until it is woken.
    asleep: bool,
    /// When to give up; set at exit.
    deadline: Option<Instant>,
    /// Whether the exit function is registered.
    drained_at_exit: bool,
    /// The number of rounds so far.
    rounds: u64,
    /// How many threads wait for the end of a round.
    waiting: u32,
}

const EMPTY: Queue = Queue {
    incoming: Vec::new(),
    thread: None,
    asleep: false,
    deadline: None,
    drained_at_exit: false,
    rounds: 0,
    waiting: 0,
};
static QUEUE: ProcessLock<Queue> = ProcessLock::with(EMPTY, |queue| {
    // The thread and the driver belong to the parent: nothing in the queue is released here.
    mem::forget(queue.thread.take());
    mem::forget(mem::take(&mut queue.incoming));
    queue.asleep = false;
    queue.waiting = 0;
    ledger::forget_waiting();
});
static WAKE: Condvar = Condvar::new();
/// Notified at the end of a round that a thread waits for.
static ROUND: Condvar = Condvar::new();

fn queue() -> MutexGuard<'static, Queue> {
    QUEUE.lock()
}

thread_local! {
    static DELETING: Cell<u32> = const { Cell::new(0) };
    static REAPER: Cell<bool> = const { Cell::new(false) };
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Runs the body of a deleter that a foreign library calls: no driver call is made in it.
pub fn deleting<R>(body: impl FnOnce() -> R) -> R {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            DELETING.set(DELETING.get().saturating_sub(1));
        }
    }
    DELETING.set(DELETING.get() + 1);
    let _leave = Leave;
    body()
}

/// Whether this thread is in a deleter.
pub(crate) fn is_deleting() -> bool {
    DELETING.get() > 0
}

/// Whether this thread is the reaper: all work on the memory that it releases is done.
pub(crate) fn is_reaper() -> bool {
    REAPER.get()
}

/// Releases an owner after the work that may still use its memory. Any thread may call this: it makes no driver call.
pub(crate) fn retire(timeline: &mut Timeline, owner: Owner) {
    // The memory belongs to the parent, which releases it.
    if is_forked() {
        return mem::forget(owner);
    }
    match timeline.take_pending() {
        None => release_here(owner),
        Some(work) => release_when_done(work, owner),
    }
}

/// How many owners may be released inside one another: leases can own leases, and each takes stack.
const DEEPEST: u32 = 64;

/// Releases an owner at once. An owner that is deep inside others goes to the reaper instead, which begins anew.
pub(crate) fn release_here(owner: Owner) {
    struct Leave(u32);
    impl Drop for Leave {
        fn drop(&mut self) {
            DEPTH.set(self.0);
        }
    }
    let depth = DEPTH.get();
    if depth < DEEPEST {
        // Also if the owner panics.
        let _leave = Leave(depth);
        DEPTH.set(depth + 1);
        drop(owner);
    } else {
        release_elsewhere(owner);
    }
}

/// Releases an owner on the reaper, which may call the driver, as soon as it comes to it.
pub(crate) fn release_elsewhere(owner: Owner) {
    if is_forked() {
        return mem::forget(owner);
    }
    let work = Pending { streams: SmallVec::new(), events: Vec::new(), hidden: 0 };
    release_when_done(work, owner);
}

/// Releases an owner after the given work. Any thread may call this: it makes no driver call.
pub(super) fn release_when_done(work: Pending, owner: Owner) {
    ledger::count_waiting();
    submit(Job::Release(owner, work));
}

/// Releases an owner after the work of one stream, or of the whole device if that stream may be destroyed.
pub(crate) fn release_after(stream: Stream, owner: Owner) {
    let unnamable = !stream.stays_nameable();
    let hidden = if unnamable { bit(stream.device()) } else { 0 };
    let streams = (!unnamable).then_some(stream).into_iter().collect();
    release_when_done(Pending { streams, events: Vec::new(), hidden }, owner);
}

/// As [`release_after`], for several streams.
pub(crate) fn release_after_some(all: Vec<Stream>, owner: Owner) {
    let (named, unnamable): (Vec<_>, Vec<_>) = all.into_iter().partition(Stream::stays_nameable);
    let hidden = unnamable.iter().fold(0, |hidden, stream| hidden | bit(stream.device()));
    release_when_done(Pending { streams: named.into(), events: Vec::new(), hidden }, owner);
}

/// Releases an owner after all work that a device has now.
pub(crate) fn release_after_all(device: u8, owner: Owner) {
    // What is on the device belongs to the parent.
    if is_forked() {
        return mem::forget(owner);
    }
    let work = Pending { streams: SmallVec::new(), events: Vec::new(), hidden: bit(device) };
    release_when_done(work, owner);
}

/// Destroys one of gpulend's streams, on the reaper.
pub(super) fn destroy(device: u8, handle: StreamHandle) {
    if !is_forked() {
        submit(Job::Destroy(device, handle));
    }
}

fn submit(job: Job) {
    let mut queue = queue();
    // Releasing an owner may retire another, as the last variable of a module does with the module: the reaper finishes those too.
    let by_thread = is_reaper();
    if queue.deadline.is_some() && !by_thread {
        drop(queue);
        return give_up(job);
    }
    queue.incoming.push(job);
    if queue.thread.is_none() && !by_thread {
        if !mem::replace(&mut queue.drained_at_exit, true) {
            drain_at_exit();
        }
        // If no thread can be started, the job waits for the next attempt.
        queue.thread = thread::Builder::new().name("gpulend-reaper".into()).spawn(reap).ok();
    }
    let wakes = queue.asleep || queue.incoming.len() == CROWD;
    drop(queue);
    if wakes {
        WAKE.notify_one();
    }
}

/// Has the reaper release at once what is done by now, and waits for that, at most for `limit`. Not for the reaper itself.
pub(crate) fn hurry(limit: Duration) {
    let mut queue = queue();
    if queue.thread.is_none() {
        return;
    }
    // A round that is going on may have looked too early.
    let enough = queue.rounds + 2;
    let end = Instant::now() + limit;
    queue.waiting += 1;
    while queue.rounds < enough {
        WAKE.notify_one();
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        let waited = ROUND.wait_timeout(queue, left);
        queue = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
    queue.waiting -= 1;
}

/// Leaks an owner whose work did not end in time, and counts it.
fn give_up(job: Job) {
    if let Job::Release(owner, _) = job {
        mem::forget(owner);
        ledger::count_waited();
        ledger::count_leak();
    }
}

/// Registers [`drain`] for the end of the process, or the unloading of this library.
///
/// Exit functions run in the reverse order of their registration. This one is registered after `cuInit`,
/// so it runs while the driver still works.
fn drain_at_exit() {
    extern "C" fn finish() {
        let _ = catch_unwind(|| drain(LAST_WAIT));
    }
    // SAFETY: the function is static, takes no arguments and catches every panic.
    let _ = unsafe { libc::atexit(finish) };
}

/// Releases what it can and ends the thread. Owners whose work is not done within `limit` are leaked and counted.
pub fn drain(limit: Duration) {
    let thread = {
        let mut queue = queue();
        queue.deadline = Some(Instant::now() + limit);
        queue.thread.take()
    };
    WAKE.notify_one();
    if let Some(thread) = thread {
        // A panic of its own has been printed already.
        let _ = thread.join();
    }
}

fn reap() {
    // If this thread fails, the next job starts another.
    let _ = catch_unwind(reap_all);
    queue().thread = None;
}

fn reap_all() {
    REAPER.set(true);
    // Without a driver there are no leases to release.
    let Ok(driver) = driver() else { return };
    driver.only_look(true);
    let Ok(_relaxed) = driver.relax() else { return };
    let mut doomed: Vec<(u8, StreamHandle)> = Vec::new();
    let mut pending: Vec<Retired> = Vec::new();
    // The room of the last queue, for the next: the callers that fill it must not allocate.
    let mut incoming: Vec<Job> = Vec::new();
    let mut looks = 0;
    loop {
        let mut queue = queue();
        queue.rounds += 1;
        if queue.waiting > 0 {
            ROUND.notify_all();
        }
        let idle = pending.is_empty() && doomed.is_empty();
        if queue.incoming.is_empty() {
            match queue.deadline {
                Some(_) if idle => return,
                Some(deadline) if Instant::now() >= deadline => {
                    drop(queue);
                    let give_up = |one: Retired| give_up(Job::Release(one.owner, one.work));
                    return pending.into_iter().for_each(give_up);
                }
                _ => {}
            }
        }
        // New jobs too: the longer they wait, the more of them share an event.
        if queue.deadline.is_none() || queue.incoming.is_empty() {
            looks = if idle && queue.incoming.is_empty() { looks + 1 } else { 0 };
            if looks > LOOKS {
                queue.asleep = true;
                queue = WAKE.wait(queue).unwrap_or_else(PoisonError::into_inner);
                (queue.asleep, looks) = (false, 0);
            } else {
                let napped = WAKE.wait_timeout(queue, NAP);
                queue = napped.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        mem::swap(&mut incoming, &mut queue.incoming);
        // At exit the simulated GPU must run the work while we poll: no other thread may do so any more.
        driver.only_look(queue.deadline.is_none());
        let deadline = queue.deadline;
        drop(queue);
        for job in incoming.drain(..) {
            match job {
                Job::Release(owner, work) => pending.push(Retired { owner, work, again: None }),
                Job::Destroy(device, handle) => doomed.push((device, handle)),
            }
        }
        doomed.retain(|(device, handle)| !destroy_now(driver, *device, *handle));
        let mut round = Round::default();
        // Owners may be slow, and the end of the process does not wait for all of them.
        let is_late = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let step = |one| if is_late() { Some(one) } else { round.step(one) };
        pending = pending.into_iter().filter_map(step).collect();
        // An owner forked, and this is the only thread of the child: everything here is the parent's.
        if is_forked() {
            return mem::forget(pending);
        }
    }
}

/// Destroys a stream, unless it is capturing: that would invalidate the capture.
fn destroy_now(driver: &'static Driver, device: u8, handle: StreamHandle) -> bool {
    let Ok(_entered) = driver.enter(device) else { return true };
    // SAFETY: the stream belongs to gpulend, and is alive until it is destroyed.
    if let Ok(Capture::Active(_)) = unsafe { driver.capture(handle) } {
        return false;
    }
    // Free blocks of the pool wait for this stream's work. Its handle may soon be another stream's, so they are made common first.
    if blocks::arena(device).has(handle) {
        // SAFETY: as above.
        if let Ok(false) = unsafe { driver.is_idle(handle) } {
            return false;
        }
        // Also if the query failed: then the device is lost, and does no more work.
    }
    blocks::arena(device).forget(handle);
    // A stream that cannot be destroyed stays until the process ends.
    // SAFETY: as above, and its last reference is gone.
    let _ = unsafe { driver.destroy(handle) };
    true
}

/// One round of the reaper. All owners share its events and their answers: an event that is recorded now is after the work
/// of every owner that came before.
#[derive(Default)]
struct Round {
    /// The event after a stream's work; none for a stream that is capturing.
    marks: HashMap<(u8, StreamHandle), Mark>,
    /// The event after all work of a device.
    devices: HashMap<u8, Mark>,
    /// Which events have happened, by address: an event stays until the round is over, so that no other gets its address.
    events: HashMap<usize, (Arc<Event>, Answer)>,
}

/// What recording an event came to.
#[derive(Clone)]
enum Mark {
    Event(Arc<Event>),
    /// Not possible now.
    Later,
    /// The stream or the device is lost.
    Lost,
}

/// What an event answered.
#[derive(Clone, Copy)]
enum Answer {
    NotYet,
    Happened,
    /// It was recorded into a capture, and never happens.
    Never,
}

impl Round {
    /// Advances an owner as far as possible without waiting. Returns it unless it was released.
    fn step(&mut self, mut retired: Retired) -> Option<Retired> {
        // An owner is foreign code; its panic must not end the thread.
        let step = AssertUnwindSafe(|| (!self.is_done(&mut retired)).then_some(retired));
        let left = catch_unwind(step).ok().flatten();
        if left.is_none() {
            ledger::count_waited();
        }
        left
    }

    /// Whether all work that an owner waits for is done.
    fn is_done(&mut self, retired: &mut Retired) -> bool {
        let Pending { streams, events, hidden } = &mut retired.work;
        streams.retain(|stream| match self.mark(stream) {
            Mark::Event(event) => {
                events.push(event);
                false
            }
            Mark::Later => true,
            // The stream was destroyed; its work may still run.
            Mark::Lost => {
                *hidden |= bit(stream.device());
                false
            }
        });
        let due = retired.again.is_none_or(|again| Instant::now() >= again);
        if *hidden != 0 && due && !may_unnamed_be_capturing() {
            for device in devices(*hidden) {
                match self.mark_all(device) {
                    Mark::Event(event) => events.push(event),
                    // A lost device does no more work.
                    Mark::Lost => {}
                    // A capture forbids it, or there is no memory for an event: retry later.
                    Mark::Later => {
                        retired.again = Some(Instant::now() + PATIENCE);
                        continue;
                    }
                }
                *hidden &= !bit(device);
            }
        }
        events.retain(|event| match self.ask(event) {
            Answer::NotYet => true,
            Answer::Happened => false,
            // Wait for the device instead.
            Answer::Never => {
                *hidden |= bit(event.device());
                false
            }
        });
        streams.is_empty() && *hidden == 0 && events.is_empty()
    }

    /// An event after the work that a stream has now.
    fn mark(&mut self, stream: &Stream) -> Mark {
        let marked = || match mark(stream) {
            Ok(Some(event)) => Mark::Event(Arc::new(event)),
            Ok(None) => Mark::Later,
            Err(_) => Mark::Lost,
        };
        self.marks.entry((stream.device(), stream.handle())).or_insert_with(marked).clone()
    }

    /// An event after all work that a device has now.
    fn mark_all(&mut self, device: u8) -> Mark {
        let marked = || match all(device) {
            Ok(event) => Mark::Event(Arc::new(event)),
            Err(error) if is_lost(&error) => Mark::Lost,
            Err(_) => Mark::Later,
        };
        self.devices.entry(device).or_insert_with(marked).clone()
    }

    /// Whether an event has happened. What a lost device had to do is over.
    fn ask(&mut self, event: &Arc<Event>) -> Answer {
        let answer = || match event.has_happened() {
            Ok(false) => Answer::NotYet,
            Ok(true) => Answer::Happened,
            Err(error) if is_lost(&error) => Answer::Happened,
            Err(_) => Answer::Never,
        };
        let known = self.events.entry(Arc::as_ptr(event).addr());
        known.or_insert_with(|| (Arc::clone(event), answer())).1
    }
}

/// Records an event after a stream's work, unless the stream is capturing.
fn mark(stream: &Stream) -> Result<Option<Event>, Error> {
    if stream.is_legacy() {
        return record_beside_legacy(stream.device()).map(Some);
    }
    if is_capturing(stream)? {
        return Ok(None);
    }
    let event = stream.record()?;
    // If a capture began in between, the event is part of it, and querying it would invalidate the capture.
    Ok(if is_capturing(stream)? { None } else { Some(event) })
}
