//! The reaper: a thread that releases memory when the GPU work on it is done.
//!
//! # Example
//!
//! A tensor is lent from CuPy to torch. torch queues a kernel on it and frees the tensor while the kernel runs:
//!
//! 1. torch calls the export's deleter, on one of its own threads and perhaps with its locks held. [`deleting`] marks the
//!    thread. The deleter drops the last clone of the lease, which calls [`retire`].
//! 2. The timeline knows CuPy's stream and torch's. [`retire`] puts the owner and both streams into the queue, starts
//!    the thread if there is none, and returns. The deleter has made no driver call.
//! 3. The reaper records an event on each stream ([`mark`]) and polls the events, first after 20 µs, later every millisecond.
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
//! Memory on which only the producer's own stream worked takes no thread: the producer frees it in stream order, so
//! [`retire`] drops the owner at once.
//!
//! # Captures
//!
//! Touching a capturing stream would add to the capture or invalidate it. [`mark`] therefore asks before and after it records, and
//! a capturing stream stays in the list for a later round. The legacy stream is different: while a blocking stream captures, touching it
//! invalidates that capture. So [`retire`] records its event at once, on the caller's thread, unless that is a
//! deleter. Work on streams that are not known by name (`hidden`) is caught by an event over the whole context,
//! which is postponed while such a stream may be capturing, and retried every 250 ms after a refusal.
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
//! - Polling delays a release by up to a millisecond, or by 250 ms after a device refused.
//! - An owner that blocks delays all others: owners run one after another on this thread. One that panics does not end it.
//! - In a forked child nothing in the queue is released: the thread, the driver and the memory belong to the parent.

use std::cell::Cell;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::abi::cuda::StreamHandle;
use crate::driver::{Capture, Driver, driver, is_forked};
use crate::error::Error;
use crate::fork::ProcessLock;
use crate::ledger::count_leak;
use crate::owner::Owner;
use crate::stream::event::Event;
use crate::stream::order::{all, is_capturing, is_lost, may_unnamed_be_capturing};
use crate::stream::stream::Stream;
use crate::stream::timeline::Timeline;
use crate::stream::uses::{bit, devices};

/// How long the reaper sleeps between two polls: at first, and at most.
const NAP: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(1));

/// How long the process waits at exit for work on dropped memory.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// A job for the reaper.
enum Job {
    /// Release an owner after the work of some streams.
    Release(Retired),
    /// Destroy one of gpulend's streams.
    Destroy(u8, StreamHandle),
}

/// Work to wait for: streams, events, and devices with work on hidden streams (a bit for each).
pub(super) type Pending = (Vec<Stream>, Vec<Arc<Event>>, u64);

/// An owner that waits for its release.
struct Retired {
    owner: Owner,
    /// Streams on which no event was recorded yet.
    streams: Vec<Stream>,
    /// Devices on which the work of hidden streams must still be caught by an event: a bit for each.
    hidden: u64,
    events: Vec<Arc<Event>>,
    /// Retry time of a device that refused: every query may invalidate a capture that we do not know of.
    again: Option<Instant>,
}

/// How long to wait before a device that refused is queried again.
const PATIENCE: Duration = Duration::from_millis(250);

struct Queue {
    incoming: Vec<Job>,
    thread: Option<JoinHandle<()>>,
    /// When to give up; set at exit.
    deadline: Option<Instant>,
    /// Whether the exit function is registered.
    drained_at_exit: bool,
}

const EMPTY: Queue =
    Queue { incoming: Vec::new(), thread: None, deadline: None, drained_at_exit: false };
static QUEUE: ProcessLock<Queue> = ProcessLock::with(EMPTY, |queue| {
    // The thread and the driver belong to the parent: nothing in the queue is released here.
    mem::forget(queue.thread.take());
    mem::forget(mem::take(&mut queue.incoming));
});
static WAKE: Condvar = Condvar::new();

fn queue() -> MutexGuard<'static, Queue> {
    QUEUE.lock()
}

thread_local! {
    static DELETING: Cell<u32> = const { Cell::new(0) };
    static REAPER: Cell<bool> = const { Cell::new(false) };
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

/// Releases an owner after the work that may still use its memory.
pub(crate) fn retire(timeline: &Timeline, owner: Owner) {
    // The memory belongs to the parent, which releases it.
    if is_forked() {
        return mem::forget(owner);
    }
    if timeline.is_at_home() {
        return drop(owner);
    }
    let mut retired = Retired::new(timeline.pending(), owner);
    // A capture that this thread begins next would be invalidated by work on the legacy stream.
    if !is_deleting() && !is_reaper() {
        retired.mark_legacy();
    }
    submit(Job::Release(retired));
}

/// Releases an owner after the given work. Any thread may call this: it makes no driver call.
pub(super) fn release_when_done(pending: Pending, owner: Owner) {
    submit(Job::Release(Retired::new(pending, owner)));
}

/// Releases an owner after the work of one stream, or of the whole device if that stream may be destroyed.
pub(crate) fn release_after(stream: Stream, owner: Owner) {
    let unnamable = !stream.stays_nameable();
    let hidden = if unnamable { bit(stream.device()) } else { 0 };
    let streams = if unnamable { Vec::new() } else { vec![stream] };
    release_when_done((streams, Vec::new(), hidden), owner);
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
    drop(queue);
    WAKE.notify_one();
}

/// Leaks an owner whose work did not end in time, and counts it.
fn give_up(job: Job) {
    if let Job::Release(retired) = job {
        mem::forget(retired.owner);
        count_leak();
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
    let mut nap = NAP.0;
    loop {
        let mut queue = queue();
        if queue.incoming.is_empty() {
            let over = queue.deadline.is_some_and(|deadline| Instant::now() >= deadline);
            match (pending.is_empty() && doomed.is_empty(), queue.deadline) {
                (true, Some(_)) => return,
                (false, _) if over => {
                    drop(queue);
                    return pending.into_iter().for_each(|retired| give_up(Job::Release(retired)));
                }
                (true, None) => {
                    queue = WAKE.wait(queue).unwrap_or_else(PoisonError::into_inner);
                }
                (false, _) => {
                    let waited = WAKE.wait_timeout(queue, nap);
                    queue = waited.unwrap_or_else(PoisonError::into_inner).0;
                    nap = (nap * 2).min(NAP.1);
                }
            }
        }
        let incoming = mem::take(&mut queue.incoming);
        // At exit the simulated GPU must run the work while we poll: no other thread may do so any more.
        driver.only_look(queue.deadline.is_none());
        drop(queue);
        if !incoming.is_empty() {
            nap = NAP.0;
        }
        for job in incoming {
            match job {
                Job::Release(retired) => pending.push(retired),
                Job::Destroy(device, handle) => doomed.push((device, handle)),
            }
        }
        doomed.retain(|(device, handle)| !destroy_now(driver, *device, *handle));
        // An owner is foreign code; its panic must not end the thread.
        let step =
            |retired| catch_unwind(AssertUnwindSafe(|| Retired::step(retired))).ok().flatten();
        pending = pending.into_iter().filter_map(step).collect();
    }
}

/// Destroys a stream, unless it is capturing: that would invalidate the capture.
fn destroy_now(driver: &'static Driver, device: u8, handle: StreamHandle) -> bool {
    let Ok(_entered) = driver.enter(device) else { return true };
    // SAFETY: the stream belongs to gpulend, and is alive until it is destroyed.
    if let Ok(Capture::Active(_)) = unsafe { driver.capture(handle) } {
        return false;
    }
    // A stream that cannot be destroyed stays until the process ends.
    // SAFETY: as above, and its last reference is gone.
    let _ = unsafe { driver.destroy(handle) };
    true
}

impl Retired {
    fn new((streams, events, hidden): Pending, owner: Owner) -> Self {
        Self { owner, streams, hidden, events, again: None }
    }

    /// Records events on legacy streams: they must not be touched once a blocking stream is capturing.
    fn mark_legacy(&mut self) {
        let Ok(driver) = driver() else { return };
        let events = &mut self.events;
        driver.only_look(true);
        self.streams.retain(|stream| {
            // The reaper tries again if this fails.
            let marked = if stream.is_legacy() { mark(stream).ok().flatten() } else { None };
            let left = marked.is_none();
            events.extend(marked.map(Arc::new));
            left
        });
        driver.only_look(false);
    }

    /// Advances as far as possible without waiting. Returns itself unless it was released.
    fn step(mut self) -> Option<Self> {
        self.streams = mem::take(&mut self.streams)
            .into_iter()
            .filter_map(|stream| match mark(&stream) {
                Ok(Some(event)) => {
                    self.events.push(Arc::new(event));
                    None
                }
                Ok(None) => Some(stream),
                // The stream was destroyed; its work may still run.
                Err(_) => {
                    self.hidden |= bit(stream.device());
                    None
                }
            })
            .collect();
        let due = self.again.is_none_or(|again| Instant::now() >= again);
        if self.hidden != 0 && due && !may_unnamed_be_capturing() {
            for device in devices(self.hidden) {
                match all(device) {
                    Ok(event) => self.events.push(Arc::new(event)),
                    // A lost device does no more work.
                    Err(error) if is_lost(&error) => {}
                    // A capture forbids it, or there is no memory for an event: retry later.
                    Err(_) => {
                        self.again = Some(Instant::now() + PATIENCE);
                        continue;
                    }
                }
                self.hidden &= !bit(device);
            }
        }
        let mut again = 0_u64;
        self.events.retain(|event| match event.has_happened() {
            Ok(happened) => !happened,
            Err(error) => {
                // An event that was recorded into a capture never happens: wait for the device instead.
                again |= if is_lost(&error) { 0 } else { bit(event.device()) };
                false
            }
        });
        self.hidden |= again;
        let done = self.streams.is_empty() && self.hidden == 0 && self.events.is_empty();
        (!done).then_some(self)
    }
}

/// Records an event on a stream, unless the stream is capturing.
fn mark(stream: &Stream) -> Result<Option<Event>, Error> {
    if is_capturing(stream)? {
        return Ok(None);
    }
    let event = stream.record()?;
    // If a capture began in between, the event is part of it, and querying it would invalidate the capture.
    Ok(if is_capturing(stream)? { None } else { Some(event) })
}
