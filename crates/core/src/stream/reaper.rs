//! The exit: a thread of ours that lets memory go when the work that may use it is done.
//!
//! Whoever drops the last hold on a lease may be a deleter, on any thread, with
//! locks of its caller's held. It makes no call of the driver's there: it leaves
//! the owner in a queue. The thread records an event on each stream that worked
//! on the memory, asks now and then whether they have happened, and releases.
//! It is under relaxed capture mode, and waits with a stream that is capturing.

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

/// How long the thread sleeps between two looks at work that is not done: at first, and at most.
const NAP: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(1));

/// How long the end of the process waits for work on memory that was released.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// What the thread is asked to do.
enum Job {
    /// Release an owner after the work of some streams.
    Release(Retired),
    /// Destroy a stream of ours.
    Destroy(u8, StreamHandle),
}

/// Work that is to be waited for: of streams, until events, and of devices where nobody names the streams.
pub(super) type Pending = (Vec<Stream>, Vec<Arc<Event>>, u64);

/// An owner on its way out.
struct Retired {
    owner: Owner,
    /// Streams on which no event was recorded yet.
    streams: Vec<Stream>,
    /// The devices on which the work of streams that nobody named is still to be caught.
    hidden: u64,
    events: Vec<Arc<Event>>,
    /// When a device may be asked again that refused: each question costs a capture we never met its life.
    again: Option<Instant>,
}

/// How long a device that refused is left alone.
const PATIENCE: Duration = Duration::from_millis(250);

struct Queue {
    incoming: Vec<Job>,
    thread: Option<JoinHandle<()>>,
    /// When what is left is given up; set at the end of the process.
    deadline: Option<Instant>,
    /// Whether the process was asked to drain the queue when it ends.
    drained_at_exit: bool,
}

const EMPTY: Queue =
    Queue { incoming: Vec::new(), thread: None, deadline: None, drained_at_exit: false };
static QUEUE: ProcessLock<Queue> = ProcessLock::with(EMPTY, |queue| {
    // The thread stayed with the parent, and so did the driver: what was queued is not released.
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

/// Runs what a foreign library calls as a deleter: no call of the driver's is made in it.
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

/// Whether this is the thread that lets memory go: all work on it is done.
pub(crate) fn is_reaper() -> bool {
    REAPER.get()
}

/// Releases an owner after the work that may still use its memory.
pub(crate) fn retire(timeline: &Timeline, owner: Owner) {
    // The memory stayed with the parent, and so does the duty.
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

/// Releases an owner after some work. Any thread may call this: it makes no driver call.
pub(super) fn release_when_done(pending: Pending, owner: Owner) {
    submit(Job::Release(Retired::new(pending, owner)));
}

/// Releases an owner after the work of one stream, or of all if that one may be gone.
pub(crate) fn release_after(stream: Stream, owner: Owner) {
    let unnamable = !stream.stays_nameable();
    let hidden = if unnamable { bit(stream.device()) } else { 0 };
    let streams = if unnamable { Vec::new() } else { vec![stream] };
    release_when_done((streams, Vec::new(), hidden), owner);
}

/// Destroys a stream of ours, on a thread where that may be done.
pub(super) fn destroy(device: u8, handle: StreamHandle) {
    if !is_forked() {
        submit(Job::Destroy(device, handle));
    }
}

fn submit(job: Job) {
    let mut queue = queue();
    // What the thread itself lets go of hangs on what it released, as a module does on its variables: it goes on until all is done.
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
        // Without a thread the job waits for the next one.
        queue.thread = thread::Builder::new().name("gpulend-reaper".into()).spawn(reap).ok();
    }
    drop(queue);
    WAKE.notify_one();
}

/// Leaks what cannot be released in order any more, and counts it.
fn give_up(job: Job) {
    if let Job::Release(retired) = job {
        mem::forget(retired.owner);
        count_leak();
    }
}

/// Drains at the end of the process, or when this library is unloaded.
///
/// Exit functions run in the reverse order of their registration. This one is registered after `cuInit`,
/// so it runs while the driver still works.
fn drain_at_exit() {
    extern "C" fn finish() {
        let _ = catch_unwind(|| drain(LAST_WAIT));
    }
    // SAFETY: the function is static, takes nothing and lets no panic out.
    let _ = unsafe { libc::atexit(finish) };
}

/// Lets go of all that can be, and ends the thread; what is not done within `limit` is leaked and counted.
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
    // The next job starts another thread, should this one fail.
    let _ = catch_unwind(reap_all);
    queue().thread = None;
}

fn reap_all() {
    REAPER.set(true);
    // Without a driver there are no leases to let go of.
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
        // Nobody else may make the work go on any more.
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
        // An owner is foreign code; what it throws must not end the thread.
        let step =
            |retired| catch_unwind(AssertUnwindSafe(|| Retired::step(retired))).ok().flatten();
        pending = pending.into_iter().filter_map(step).collect();
    }
}

/// Destroys a stream, unless it is capturing: that would invalidate the capture.
fn destroy_now(driver: &'static Driver, device: u8, handle: StreamHandle) -> bool {
    let Ok(_entered) = driver.enter(device) else { return true };
    // SAFETY: the stream is ours, and alive until it is destroyed.
    if let Ok(Capture::Active(_)) = unsafe { driver.capture(handle) } {
        return false;
    }
    // A stream that cannot be destroyed is left to the end of the process.
    // SAFETY: as above, and its last name is gone.
    let _ = unsafe { driver.destroy(handle) };
    true
}

impl Retired {
    fn new((streams, events, hidden): Pending, owner: Owner) -> Self {
        Self { owner, streams, hidden, events, again: None }
    }

    /// Records events on streams that may not be touched once a blocking stream is capturing.
    fn mark_legacy(&mut self) {
        let Ok(driver) = driver() else { return };
        let events = &mut self.events;
        driver.only_look(true);
        self.streams.retain(|stream| {
            // The thread that lets memory go tries again where this one is refused.
            let marked = if stream.is_legacy() { mark(stream).ok().flatten() } else { None };
            let left = marked.is_none();
            events.extend(marked.map(Arc::new));
            left
        });
        driver.only_look(false);
    }

    /// Goes on as far as possible without waiting; comes back unless it was released.
    fn step(mut self) -> Option<Self> {
        self.streams = mem::take(&mut self.streams)
            .into_iter()
            .filter_map(|stream| match mark(&stream) {
                Ok(Some(event)) => {
                    self.events.push(Arc::new(event));
                    None
                }
                Ok(None) => Some(stream),
                // The stream is gone; its work may not be.
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
                    // With the device all work on it is lost.
                    Err(error) if is_lost(&error) => {}
                    // A capture stands against it, or there is no room: later, then.
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
                // An event of a capture that came and went says nothing: the device does.
                again |= if is_lost(&error) { 0 } else { bit(event.device()) };
                false
            }
        });
        self.hidden |= again;
        let done = self.streams.is_empty() && self.hidden == 0 && self.events.is_empty();
        (!done).then_some(self)
    }
}

/// An event after what a stream holds now, unless it is capturing.
fn mark(stream: &Stream) -> Result<Option<Event>, Error> {
    if is_capturing(stream)? {
        return Ok(None);
    }
    let event = stream.record()?;
    // Had a capture begun in between, asking for the event would invalidate it.
    Ok(if is_capturing(stream)? { None } else { Some(event) })
}
