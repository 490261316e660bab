//! Owners that are Python's: an object kept, a deleter called, a buffer given back.

use std::ffi::c_void;
use std::mem;
use std::sync::MutexGuard;

use gpulend::Owner;
use gpulend::fork::ProcessLock;
use gpulend::import::dlpack::{Release, release_legacy, release_versioned};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyWeakrefMethods, PyWeakrefReference};
use slab::Slab;

use crate::lease::PyLease;
use crate::reaper::{self, Context, Job};

/// Drops a reference.
///
/// # Safety
///
/// `context` is a reference that the caller gives up, and the GIL is held.
unsafe fn drop_reference(context: *mut c_void) {
    // SAFETY: the contract.
    unsafe { ffi::Py_DECREF(context.cast()) }
}

/// Keeps `object` alive.
pub(crate) fn keep(object: &Bound<'_, PyAny>) -> Owner {
    keep_owned(object.clone())
}

/// Keeps two objects alive.
pub(crate) fn keep_both(first: &Bound<'_, PyAny>, second: &Bound<'_, PyAny>) -> Owner {
    Owner::keep((keep(first), keep(second)))
}

/// The same by the reference given. No allocation: the owner is the reference itself.
pub(crate) fn keep_owned(object: Bound<'_, PyAny>) -> Owner {
    unsafe fn release(context: *mut c_void) {
        if reaper::attached() {
            // SAFETY: the reference that the owner is; this thread holds the GIL.
            return unsafe { drop_reference(context) };
        }
        if let Some(job) = reaper::defer(Job::Release(drop_reference, Context(context))) {
            reaper::leak(job);
        }
    }
    let context = object.into_ptr().cast();
    // SAFETY: (1) `release` drops the reference given here; (2) from a
    // thread without the GIL it leaves that to the reaper; (3) nobody else knows of it.
    unsafe { Owner::from_raw(context, release) }
}

/// Has a versioned tensor that came from Python released where the GIL is held.
///
/// Such deleters may take it (NumPy's does), and a thread that releases an export of ours may hold
/// locks. After the reaper's end the deleter is called all the same: it is not ours to leak.
///
/// # Safety
///
/// As [`release_versioned`], for any thread.
pub(crate) unsafe fn release_versioned_tensor(context: *mut c_void) {
    // SAFETY: the contract.
    unsafe { release_attached(context, release_versioned) }
}

/// The same for a legacy tensor.
///
/// # Safety
///
/// As [`release_legacy`], for any thread.
pub(crate) unsafe fn release_legacy_tensor(context: *mut c_void) {
    // SAFETY: the contract.
    unsafe { release_attached(context, release_legacy) }
}

/// # Safety
///
/// `release` may be called once with `context`, by any thread.
unsafe fn release_attached(context: *mut c_void, release: Release) {
    if reaper::attached() {
        // SAFETY: the contract.
        return unsafe { release(context) };
    }
    if reaper::defer(Job::Release(release, Context(context))).is_some() {
        // SAFETY: the contract; the job was given back and did not run.
        unsafe { release(context) }
    }
}

/// A lease with a deleter that has not been called.
enum Deletable {
    /// `wrap` has not returned yet. If the lease is dropped now, the call failed and the memory is still the caller's.
    Pending,
    /// In use, and released at exit.
    Alive(Py<PyWeakrefReference>),
    /// In use after exit has released the others.
    Left,
}

/// Those leases by key. The references are weak.
static WITH_DELETER: ProcessLock<Slab<Deletable>> = ProcessLock::new(Slab::new());

fn with_deleter() -> MutexGuard<'static, Slab<Deletable>> {
    WITH_DELETER.lock()
}

/// Calls `deleter(address, nbytes)` on release, provided that [`hand_out`] was called before. Exceptions go to
/// `sys.unraisablehook`.
///
/// Also returns the key for [`hand_out`].
pub(crate) fn call(deleter: Py<PyAny>, address: u64, nbytes: u64) -> (Owner, usize) {
    let key = with_deleter().insert(Deletable::Pending);
    let owner = Owner::call(move || {
        reaper::submit(move |py| {
            let entry = with_deleter().try_remove(key);
            let refused = matches!(entry, Some(Deletable::Pending));
            drop(entry);
            // A release may come while another exception is being raised; both must survive.
            let in_flight = PyErr::take(py);
            if !refused && let Err(error) = deleter.call1(py, (address, nbytes)) {
                error.write_unraisable(py, Some(deleter.bind(py)));
            }
            // SAFETY: the reference just given up; jobs run with the GIL.
            unsafe { drop_reference(deleter.into_ptr().cast()) };
            if let Some(error) = in_flight {
                error.restore(py);
            }
        });
    });
    (owner, key)
}

/// The last step of `wrap` with a deleter. From now on a release calls the deleter, and exit releases the lease if it has no
/// exports.
///
/// As `weakref.finalize` does: a deleter that is a function of the same module would otherwise
/// keep the module's names, the lease among them, beyond the end.
pub(crate) fn hand_out(lease: &Bound<'_, PyLease>, key: usize) -> PyResult<()> {
    let weak = PyWeakrefReference::new(lease)?.unbind();
    if let Some(entry) = with_deleter().get_mut(key) {
        *entry = Deletable::Alive(weak);
    }
    Ok(())
}

/// Ends those leases now.
pub(crate) fn end_all(py: Python<'_>) {
    let leave = |entry: &mut Deletable| match mem::replace(entry, Deletable::Left) {
        Deletable::Alive(weak) => Some(weak),
        before => {
            *entry = before;
            None
        }
    };
    let weak: Vec<_> = with_deleter().iter_mut().filter_map(|(_, entry)| leave(entry)).collect();
    for weak in weak {
        if let Some(lease) = weak.bind(py).upgrade()
            && let Ok(lease) = lease.cast::<PyLease>()
        {
            // One that is still lent is released by its borrower, or not at all.
            let _ = lease.get().release(lease.py());
        }
    }
}

/// A filled `Py_buffer`, at a stable address as exporters may want it.
pub(crate) struct HeldBuffer(pub(crate) Box<ffi::Py_buffer>);

// SAFETY: it is only read by who filled it, and given back where the GIL is held.
unsafe impl Send for HeldBuffer {}

/// Gives the buffer back on release.
pub(crate) fn give_back(buffer: HeldBuffer) -> Owner {
    Owner::call(move || {
        reaper::submit(move |_py| {
            let mut buffer = buffer;
            // SAFETY: `PyObject_GetBuffer` filled it, and jobs run once, with the GIL.
            unsafe { ffi::PyBuffer_Release(&raw mut *buffer.0) }
        });
    })
}
