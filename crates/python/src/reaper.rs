//! Python objects let go by threads that do not hold the GIL.
//!
//! A deleter may run on any thread, with locks of its caller's held. It must
//! not wait for the GIL there, so it leaves the object in a queue, and a
//! thread of ours takes the GIL and lets go of it. At exit the queue is drained
//! and the thread joined; what comes later is leaked on purpose and counted,
//! because there is no interpreter left to give it to.

use std::cell::RefCell;
use std::mem;
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use gpulend::fork::on_fork;
use gpulend::ledger::count_leak;
use pyo3::ffi;
use pyo3::prelude::*;

/// Work that needs the interpreter.
pub(crate) type Job = Box<dyn FnOnce(Python<'_>) + Send>;

#[derive(Default)]
struct State {
    queue: Vec<Job>,
    thread: Option<JoinHandle<()>>,
    closed: bool,
}

static STATE: LazyLock<Mutex<State>> = LazyLock::new(|| {
    on_fork(before_fork, after_fork_in_parent, after_fork_in_child);
    Mutex::default()
});
static WAKE: Condvar = Condvar::new();

thread_local! {
    static FORKING: RefCell<Option<MutexGuard<'static, State>>> = const { RefCell::new(None) };
}

extern "C" fn before_fork() {
    FORKING.with_borrow_mut(|guard| *guard = Some(state()));
}

extern "C" fn after_fork_in_parent() {
    FORKING.with_borrow_mut(Option::take);
}

extern "C" fn after_fork_in_child() {
    FORKING.with_borrow_mut(|guard| {
        if let Some(mut state) = guard.take() {
            // The thread stayed with the parent; the next job starts one here.
            mem::forget(state.thread.take());
        }
    });
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether this thread may touch Python objects now.
pub(crate) fn attached() -> bool {
    // SAFETY: may be called at any time, by any thread.
    if unsafe { ffi::Py_IsInitialized() } == 0 {
        return false;
    }
    // SAFETY: the interpreter is there; the call reads this thread's state only.
    unsafe { ffi::PyGILState_Check() == 1 }
}

/// Does `job` now if this thread holds the GIL, else leaves it to the reaper.
pub(crate) fn submit(job: impl FnOnce(Python<'_>) + Send + 'static) {
    if attached() {
        // SAFETY: just asked. `Python::attach` would refuse while the interpreter ends,
        // when the main thread still lets go of what modules held.
        job(unsafe { Python::assume_attached() });
        return;
    }
    let mut state = state();
    if state.closed {
        drop(state);
        mem::forget(job);
        count_leak();
        return;
    }
    state.queue.push(Box::new(job));
    if state.thread.is_none() {
        // Without a thread the job waits for the next one, or for exit.
        state.thread = thread::Builder::new().name("gpulend-reaper".into()).spawn(reap).ok();
    }
    drop(state);
    WAKE.notify_one();
}

fn reap() {
    loop {
        let mut state = state();
        while state.queue.is_empty() && !state.closed {
            state = WAKE.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let jobs = mem::take(&mut state.queue);
        if jobs.is_empty() {
            return;
        }
        drop(state);
        Python::attach(|py| {
            for job in jobs {
                job(py);
            }
        });
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
    let rest = mem::take(&mut state().queue);
    for job in rest {
        job(py);
    }
}
