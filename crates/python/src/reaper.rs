//! Python objects let go by threads that do not hold the GIL.
//!
//! A deleter may run on any thread, with locks of its caller's held (torch
//! frees tensors so). It must not wait for the GIL there, so it leaves the
//! object in a queue. The main thread lets go of it between two bytecodes, or
//! whoever calls gpulend next, or else, within a millisecond or so, a thread of
//! ours that takes the GIL. At exit the queue is drained and the thread joined;
//! what comes later is leaked on purpose and counted, because there is no
//! interpreter left to give it to.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Duration;
use std::{mem, ptr};

use gpulend::fork::ProcessLock;
use gpulend::ledger::count_leak;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::owners;

/// Work that needs the interpreter.
pub(crate) type Job = Box<dyn FnOnce(Python<'_>) + Send>;

/// How long the reaper leaves a job to the next caller of gpulend.
const PATIENCE: Duration = Duration::from_millis(1);
/// How long the end of the process waits for work on memory that was let go.
const LAST_WAIT: Duration = Duration::from_secs(5);
/// How often it looks again before it sleeps until woken: waking it costs a system call.
const LOOKS: u32 = 50;

struct State {
    queue: Vec<Job>,
    thread: Option<JoinHandle<()>>,
    /// Whether the thread sleeps until it is woken.
    asleep: bool,
    closed: bool,
}

/// Whether the queue may hold something: what callers look at without the lock.
static PENDING: AtomicBool = AtomicBool::new(false);

const IDLE: State = State { queue: Vec::new(), thread: None, asleep: false, closed: false };
static STATE: ProcessLock<State> = ProcessLock::with(IDLE, |state| {
    // The thread stayed with the parent; the next job starts one here.
    mem::forget(state.thread.take());
    state.asleep = false;
});
static WAKE: Condvar = Condvar::new();

fn state() -> MutexGuard<'static, State> {
    STATE.lock()
}

/// Whether the end has begun: until then the interpreter is there, without asking.
static CLOSING: AtomicBool = AtomicBool::new(false);
/// The thread that ends the interpreter, once it has begun to.
static ENDING: OnceLock<ThreadId> = OnceLock::new();
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

/// Python calls itself uninitialised while it still lets go of what modules held, on one thread.
#[cold]
fn is_ending_here() -> bool {
    !OVER.load(Ordering::Acquire) && ENDING.get() == Some(&thread::current().id())
}

/// Does `job` now if this thread holds the GIL, else leaves it to whoever has it next.
pub(crate) fn submit(job: impl FnOnce(Python<'_>) + Send + 'static) {
    if attached() {
        // SAFETY: just asked. `Python::attach` would refuse while the interpreter ends,
        // when the main thread still lets go of what modules held.
        job(unsafe { Python::assume_attached() });
    } else if let Some(job) = defer(Box::new(job)) {
        mem::forget(job);
        count_leak();
    }
}

/// Leaves `job` to whoever has the GIL next, or gives it back if nobody will.
pub(crate) fn defer(job: Job) -> Option<Job> {
    let mut state = state();
    if state.closed {
        return Some(job);
    }
    state.queue.push(job);
    let first = state.queue.len() == 1;
    PENDING.store(true, Ordering::Release);
    if state.thread.is_none() {
        // Without a thread the job waits for the next call, or for exit.
        state.thread = thread::Builder::new().name("gpulend-reaper".into()).spawn(reap).ok();
    }
    if first {
        // Fails when Python's own queue is full; then the thread does it.
        // SAFETY: may be called without the GIL, by any thread, until the interpreter ends; exit
        // waits for this lock to set `closed`, so it has not ended yet.
        let _ = unsafe { ffi::Py_AddPendingCall(Some(catch_up_pending), ptr::null_mut()) };
    }
    let asleep = state.asleep;
    drop(state);
    if asleep {
        WAKE.notify_one();
    }
    None
}

extern "C" fn catch_up_pending(_nothing: *mut c_void) -> c_int {
    // SAFETY: Python calls pending calls with the GIL held.
    catch_up(unsafe { Python::assume_attached() });
    0
}

/// Does what other threads left, for a caller that holds the GIL anyway.
#[inline]
pub(crate) fn catch_up(py: Python<'_>) {
    if PENDING.load(Ordering::Relaxed) {
        run(py, take());
    }
}

fn take() -> Vec<Job> {
    let mut state = state();
    PENDING.store(false, Ordering::Relaxed);
    mem::take(&mut state.queue)
}

#[cold]
fn run(py: Python<'_>, jobs: Vec<Job>) {
    // What is let go may free memory of a GPU, which must not cost anybody's capture its life.
    let _relaxed = gpulend::driver::relaxed();
    for job in jobs {
        job(py);
    }
}

fn reap() {
    let mut looks = 0;
    loop {
        let mut state = state();
        if state.queue.is_empty() && state.closed {
            return;
        }
        if !state.closed && looks < LOOKS {
            looks += 1;
            state = WAKE.wait_timeout(state, PATIENCE).unwrap_or_else(PoisonError::into_inner).0;
        } else if state.queue.is_empty() {
            state.asleep = true;
            state = WAKE.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.asleep = false;
            looks = 0;
            continue;
        }
        let idle = state.queue.is_empty();
        drop(state);
        if !idle {
            looks = 0;
            Python::attach(|py| run(py, take()));
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
    // Without `over` we could not tell the end from the time after it.
    // SAFETY: the function is static and calls nothing of Python's.
    if unsafe { ffi::Py_AtExit(Some(over)) } == 0 {
        ENDING.get_or_init(|| thread::current().id());
    }
    owners::end_all(py);
    // Work that still runs may use memory whose owner is Python's.
    py.detach(|| gpulend::stream::drain(LAST_WAIT));
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
