//! `lend`, and exports that Python code ends by hand.

use std::sync::{Mutex, PoisonError};

use gpulend::stream::{Stream, deleting};
use gpulend::{Error, Export, Lease};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

use crate::borrowing::borrow_for;
use crate::consumer::{PyConsumer, Wishes};
use crate::errors::raise;
use crate::free_list::{FreeList, Reused};
use crate::quick::{self, Quick};
use crate::routes::last_producer;
use crate::torch::Use;

/// Lend an array of any framework to another: `borrow(array).lend(target)`.
///
/// >>> import gpulend, numpy as np
/// >>> gpulend.lend(bytearray(b"abc"), "numpy")
/// array([97, 98, 99], dtype=uint8)
///
/// `target` is the framework's name or its module. Its current stream, or `stream`, waits for the array's producer.
#[pyfunction]
#[pyo3(signature = (array, target, *, stream = None, copy = false, allow_writable_alias = false))]
pub(crate) fn lend<'py>(
    array: &Bound<'py, PyAny>,
    target: &Bound<'py, PyAny>,
    stream: Option<&Bound<'py, PyAny>>,
    copy: bool,
    allow_writable_alias: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let py = array.py();
    let consumer = consumer(py, target)?;
    let consumer = consumer.get();
    let lease = borrow_for(array, Use::Kept, &|index| consumer.stream(py, index, stream))?;
    consumer.lend_lease(py, lease, stream, Wishes { copy, allow_writable_alias })
}

static QUICK: Quick<2> = Quick::new(["array", "target"], 2);

/// Has Python call [`quick_lend`] first.
pub(crate) fn shorten(module: &Bound<'_, PyModule>) -> PyResult<()> {
    QUICK.shorten(module, "lend", quick_lend)
}

/// What Python calls for `lend(array, target)`.
///
/// # Safety
///
/// As Python's vectorcall protocol has it, and the GIL is held.
unsafe extern "C" fn quick_lend(
    module: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the contract.
    let py = unsafe { Python::assume_attached() };
    // SAFETY: the contract; Python keeps them until this returns.
    let given = unsafe { QUICK.given(py, arguments, count, names) };
    if let Some([Some(array), Some(target)]) = given
        && let Some(producer) = last_producer(array.get_type_ptr())
        && producer.route.runs_no_code()
    {
        return quick::returned(py, || lend(array, target, None, false, false));
    }
    // SAFETY: the contract.
    unsafe { QUICK.call_long(module, arguments, count, names) }
}

/// Has the adapter of a framework take a lease.
pub(crate) fn hand_to<'py>(
    py: Python<'py>,
    lease: Lease,
    target: &Bound<'py, PyAny>,
    stream: Option<&Bound<'py, PyAny>>,
    wishes: Wishes,
) -> PyResult<Bound<'py, PyAny>> {
    consumer(py, target)?.get().lend_lease(py, lease, stream, wishes)
}

/// The adapter of a framework, imported if it was not before.
fn consumer<'py>(py: Python<'py>, target: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyConsumer>> {
    static CONSUMERS: PyOnceLock<(Py<PyDict>, Py<PyAny>)> = PyOnceLock::new();
    let (consumers, load) = CONSUMERS.get_or_try_init(py, || {
        let adapters = py.import("gpulend.adapters")?;
        let consumers = adapters.getattr("CONSUMERS")?.cast_into::<PyDict>()?;
        Ok::<_, PyErr>((consumers.unbind(), adapters.getattr("load")?.unbind()))
    })?;
    let consumer = match consumers.bind(py).get_item(target) {
        Ok(Some(consumer)) => consumer,
        // What cannot be looked up is refused there.
        Ok(None) | Err(_) => load.bind(py).call1((target,))?,
    };
    Ok(consumer.cast_into()?)
}

/// An export that Python code ends by hand.
#[pyclass(frozen, name = "_Export", module = "gpulend._native")]
pub(crate) struct PyExport {
    export: Mutex<Option<Export>>,
    /// On which stream its holder works until it is closed.
    stream: Option<Stream>,
}

impl Reused for PyExport {
    fn list() -> &'static FreeList {
        static LIST: FreeList = FreeList::new();
        &LIST
    }
}

impl PyExport {
    pub(crate) const fn new(export: Export, stream: Option<Stream>) -> Self {
        Self { export: Mutex::new(Some(export)), stream }
    }

    fn take(&self) -> Option<Export> {
        self.export.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[pymethods]
impl PyExport {
    /// Where the memory that was handed out begins.
    #[getter]
    fn address(&self) -> PyResult<u64> {
        let export = self.export.lock().unwrap_or_else(PoisonError::into_inner);
        let export = export.as_ref().ok_or_else(|| raise(Error::Released))?;
        Ok(export.lease().view().address())
    }

    /// Ends the export.
    fn close(&self) -> PyResult<()> {
        match (self.take(), &self.stream) {
            // Noted again: what was queued meanwhile can only be noted from this thread.
            (Some(export), Some(stream)) => export.lease().used_on(stream).map_err(raise),
            _ => Ok(()),
        }
    }
}

impl Drop for PyExport {
    fn drop(&mut self) {
        // Its holder, such as a framework's array, may drop it on any thread and under any lock.
        deleting(|| drop(self.take()));
    }
}
