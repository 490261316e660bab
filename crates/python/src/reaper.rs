//! Python objects dropped by threads that do not hold the GIL.
//!
//! A deleter may run on any thread, with locks of its caller held (torch frees tensors so). It must not wait for the GIL there,
//! so it puts the object into a queue, and asks the main thread to empty that between two bytecodes. A program that calls gpulend
//! all the time is not asked: the next call empties the queue, which costs a tenth. If neither happens, a thread of
//! gpulend's own asks, and then takes the GIL itself: the object is gone within half a millisecond. At exit the queue is
//! emptied and the thread joined. What comes later is leaked on purpose and counted, because there is no interpreter left.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Condvar, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::{Duration, Instant};
use std::{mem, process, ptr};

use gpulend::fork::ProcessLock;
use gpulend::import::dlpack::Release;
use gpulend::ledger::count_leak;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::owners;

/// Work that needs the interpreter. Most of it is one reference to drop, which takes no allocation.
pub(crate) enum Job {
    /// Call a function once with a context.
    Release(Release, Context),
    /// Anything else.
    Call(Box<dyn FnOnce(Python<'_>) + Send>),
}

/// What a release is called with, as a plain address, to travel between threads.
pub(crate) struct Context(pub(crate) *mut c_void);

// SAFETY: nothing is done with it except the call that its job promises, where the GIL is held.
unsafe impl Send for Context {}

impl Job {
    fn run(self, py: Python<'_>) {
        match self {
            // SAFETY: the maker of the job promised that this may be called once, with the GIL.
            Self::Release(release, context) => unsafe { release(context.0) },
            Self::Call(job) => job(py),
        }
    }
}

/// How long the thread leaves a job to the next caller of gpulend, and then to the main thread. With the naps of the core's
/// reaper that is less than a millisecond from the end of the work.
const PATIENCE: Duration = Duration::from_micros(200);
/// How long the end of the process waits for work on memory that was dropped.
const LAST_WAIT: Duration = Duration::from_secs(5);
/// How often it looks again before it sleeps until woken: waking it costs a system call.
const LOOKS: u32 = 50;

struct State {
    queue: Vec<Job>,
    /// The room of the queue before this one, for the next.
    spare: Vec<Job>,
    thread: Option<JoinHandle<()>>,
    /// Whether the thread sleeps until it is woken.
    asleep: bool,
    closed: bool,
}

/// Whether the queue may hold something: what callers look at without the lock.
static PENDING: AtomicBool = AtomicBool::new(false);

const IDLE: State =
    State { queue: Vec::new(), spare: Vec::new(), thread: None, asleep: false, closed: false };
static STATE: ProcessLock<State> = ProcessLock::with(IDLE, |state| {
    // The thread stayed with the parent, and so did what was queued: the parent releases it.
    mem::forget(state.thread.take());
    mem::forget(mem::take(&mut state.queue));
    state.asleep = false;
    PENDING.store(false, Ordering::Relaxed);
});
static WAKE: Condvar = Condvar::new();

fn state() -> MutexGuard<'static, State> {
    STATE.lock()
}

/// Whether calls of gpulend emptied the queue a moment ago: then the next one will, and the main thread need not be asked.
static BUSY: AtomicBool = AtomicBool::new(false);
/// How often the main thread did so since the thread last looked. Where it is asked it comes before the next call: without this, a
/// program that calls gpulend all the time would never be seen to, and pay for asking each time.
static SERVED: AtomicU32 = AtomicU32::new(0);
/// After so many times between two looks, the next call is near.
const OFTEN: u32 = 8;

/// Whether the end has begun: until then the interpreter is there, without asking.
static CLOSING: AtomicBool = AtomicBool::new(false);
/// The thread that ends the interpreter, once it has begun to.
static ENDING: OnceLock<ThreadId> = OnceLock::new();
/// When the end stops waiting: deleters may be slow, and what is left then is leaked.
static DEADLINE: OnceLock<Instant> = OnceLock::new();
/// Whether the interpreter is over for good.
static OVER: AtomicBool = AtomicBool::new(false);

extern "C" fn over() {
    OVER.store(true, Ordering::Release);
}

/// Whether the cycle collector asks one of our objects something: it must not find an object dropped meanwhile.
static COLLECTING: AtomicBool = AtomicBool::new(false);

/// Runs what the cycle collector asks: what it drops of Python's goes later. The caller holds the GIL.
pub(crate) fn while_collecting<R>(body: impl FnOnce() -> R) -> R {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            COLLECTING.store(false, Ordering::Relaxed);
        }
    }
    COLLECTING.store(true, Ordering::Relaxed);
    let _leave = Leave;
    body()
}

/// Whether this thread may touch Python objects now.
pub(crate) fn attached() -> bool {
    // Set by the thread that has the GIL, so for others the answer is right too.
    if COLLECTING.load(Ordering::Relaxed) {
        return false;
    }
    if CLOSING.load(Ordering::Relaxed) && !is_running() && !is_ending_here() {
        return false;
    }
    // SAFETY: the interpreter is there; the call reads this thread's state only.
    unsafe { ffi::PyGILState_Check() == 1 }
}

fn is_running() -> bool {
    // SAFETY: may be called at any time, by any thread.
    unsafe { ffi::Py_IsInitialized() == 1 }
}

/// Python calls itself uninitialised while it still drops what modules held, on one thread.
#[cold]
fn is_ending_here() -> bool {
    !OVER.load(Ordering::Acquire) && ENDING.get() == Some(&thread::current().id())
}

/// Does `job` now if this thread holds the GIL, else leaves it to the next thread that has it.
pub(crate) fn submit(job: impl FnOnce(Python<'_>) + Send + 'static) {
    if attached() {
        // SAFETY: just asked. `Python::attach` would refuse while the interpreter ends,
        // when the main thread still drops what modules held.
        job(unsafe { Python::assume_attached() });
    } else if let Some(job) = defer(Job::Call(Box::new(job))) {
        leak(job);
    }
}

/// Leaks what a job would release, and counts it.
pub(crate) fn leak(job: Job) {
    mem::forget(job);
    count_leak();
}

/// Leaves `job` to the next thread that has the GIL, or returns it if there will be none.
pub(crate) fn defer(job: Job) -> Option<Job> {
    let mut state = state();
    if state.closed {
        return Some(job);
    }
    state.queue.push(job);
    PENDING.store(true, Ordering::Release);
    if state.queue.len() == 1 && !BUSY.load(Ordering::Relaxed) {
        // SAFETY: exit waits for this lock to set `closed`.
        unsafe { ask_main_thread() };
    }
    if state.thread.is_none() {
        // Without a thread the job waits for the next call, or for exit.
        state.thread = thread::Builder::new().name("gpulend-python".into()).spawn(reap).ok();
    }
    let asleep = state.asleep;
    drop(state);
    if asleep {
        WAKE.notify_one();
    }
    None
}

extern "C" fn catch_up_pending(_nothing: *mut c_void) -> c_int {
    SERVED.fetch_add(1, Ordering::Relaxed);
    // SAFETY: Python calls pending calls with the GIL held.
    run(unsafe { Python::assume_attached() }, take());
    0
}

/// Has the main thread do what is queued, between two bytecodes. Returns whether it will: Python's own queue may be full.
///
/// # Safety
///
/// The interpreter has not ended.
unsafe fn ask_main_thread() -> bool {
    // SAFETY: may be called without the GIL, by any thread; the contract.
    unsafe { ffi::Py_AddPendingCall(Some(catch_up_pending), ptr::null_mut()) == 0 }
}

/// Does what other threads left, for a caller that holds the GIL anyway.
#[inline]
pub(crate) fn catch_up(py: Python<'_>) {
    if PENDING.load(Ordering::Relaxed) {
        BUSY.store(true, Ordering::Relaxed);
        run(py, take());
    } else if SERVED.load(Ordering::Relaxed) >= OFTEN {
        SERVED.store(0, Ordering::Relaxed);
        BUSY.store(true, Ordering::Relaxed);
    }
}

fn take() -> Vec<Job> {
    let mut state = state();
    PENDING.store(false, Ordering::Relaxed);
    let spare = mem::take(&mut state.spare);
    mem::replace(&mut state.queue, spare)
}

#[inline(never)]
fn run(py: Python<'_>, mut jobs: Vec<Job>) {
    {
        // An owner may free GPU memory, which must not invalidate a capture.
        let _relaxed = gpulend::driver::relaxed();
        for job in jobs.drain(..) {
            match DEADLINE.get() {
                Some(deadline) if Instant::now() >= *deadline => leak(job),
                _ => job.run(py),
            }
        }
    }
    state().spare = jobs;
}

fn reap() {
    let mut looks = 0;
    // Whether the main thread was asked to do what is queued.
    let mut asked = false;
    loop {
        let mut state = state();
        if state.queue.is_empty() && state.closed {
            return;
        }
        if !state.closed && looks < LOOKS {
            looks += 1;
            state = WAKE.wait_timeout(state, PATIENCE).unwrap_or_else(PoisonError::into_inner).0;
            BUSY.store(false, Ordering::Relaxed);
            SERVED.store(0, Ordering::Relaxed);
        } else if state.queue.is_empty() {
            state.asleep = true;
            state = WAKE.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.asleep = false;
            looks = 0;
            continue;
        }
        if state.queue.is_empty() {
            asked = false;
            continue;
        }
        looks = 0;
        // Cheaper for the main thread than to wait for the GIL after us.
        // SAFETY: exit waits for this lock to set `closed`.
        if !state.closed && !mem::replace(&mut asked, true) && unsafe { ask_main_thread() } {
            continue;
        }
        drop(state);
        asked = false;
        let process = process::id();
        Python::attach(|py| run(py, take()));
        // A deleter forked, and this is the only thread of the child: there is nothing more to do here.
        if process::id() != process {
            return;
        }
    }
}

/// Has Python call us while it can still run what is queued.
pub(crate) fn drain_at_exit(py: Python<'_>) -> PyResult<()> {
    let drain = pyo3::wrap_pyfunction!(drain, py)?;
    py.import("atexit")?.call_method1("register", (drain,))?;
    Ok(())
}

/// Runs what is queued and ends the reaper.
#[pyfunction]
#[pyo3(name = "_drain")]
fn drain(py: Python<'_>) {
    CLOSING.store(true, Ordering::Relaxed);
    // Without `over` we could not distinguish the end from the time after it.
    // SAFETY: the function is static and calls nothing of Python's.
    if unsafe { ffi::Py_AtExit(Some(over)) } == 0 {
        ENDING.get_or_init(|| thread::current().id());
    }
    // Offers may keep Python's objects.
    py.detach(gpulend::ticket::end);
    owners::end_all(py);
    // Work that still runs may use memory whose owner is Python's.
    py.detach(|| gpulend::stream::drain(LAST_WAIT));
    DEADLINE.get_or_init(|| Instant::now() + LAST_WAIT);
    // A function of Python's that a stream of the simulated GPU calls later would find no interpreter.
    py.detach(|| gpulend::driver::end_simulated(LAST_WAIT));
    let thread = {
        let mut state = state();
        state.closed = true;
        state.thread.take()
    };
    WAKE.notify_one();
    if let Some(thread) = thread {
        // The thread needs the GIL to finish; a panic of its own has been printed already.
        let _ = py.detach(|| thread.join());
    }
    run(py, take());
}
