//! `lend`, and exports that Python code ends by hand.

use std::sync::{Mutex, PoisonError};

use gpulend::{Error, Export};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

use crate::consumer::PyConsumer;
use crate::errors::raise;
use crate::lease::PyLease;
use crate::routes::borrow;

/// Lend an array of any framework to another: `borrow(array).lend(target)`.
///
/// >>> import gpulend, numpy as np
/// >>> gpulend.lend(bytearray(b"abc"), "numpy")
/// array([97, 98, 99], dtype=uint8)
#[pyfunction]
#[pyo3(signature = (array, target, *, copy = false, allow_writable_alias = false))]
pub(crate) fn lend<'py>(
    array: &Bound<'py, PyAny>,
    target: &str,
    copy: bool,
    allow_writable_alias: bool,
) -> PyResult<Bound<'py, PyAny>> {
    PyLease::lend(&borrow(array, None, true)?, target, copy, allow_writable_alias)
}

/// Has the adapter of a framework take a lease.
pub(crate) fn hand_to<'py>(
    lease: &Bound<'py, PyLease>,
    target: &str,
    allow_writable_alias: bool,
) -> PyResult<Bound<'py, PyAny>> {
    static CONSUMERS: PyOnceLock<(Py<PyDict>, Py<PyAny>)> = PyOnceLock::new();
    let py = lease.py();
    let (consumers, load) = CONSUMERS.get_or_try_init(py, || {
        let adapters = py.import("gpulend.adapters")?;
        let consumers = adapters.getattr("CONSUMERS")?.cast_into::<PyDict>()?;
        Ok::<_, PyErr>((consumers.unbind(), adapters.getattr("load")?.unbind()))
    })?;
    let consumer = match consumers.bind(py).get_item(target)? {
        Some(consumer) => consumer,
        None => load.bind(py).call1((target,))?,
    };
    consumer.cast::<PyConsumer>()?.get().lend(lease, allow_writable_alias)
}

/// An export that Python code ends by hand.
#[pyclass(frozen, name = "_Export", module = "gpulend._native")]
pub(crate) struct PyExport(Mutex<Option<Export>>);

impl PyExport {
    pub(crate) const fn new(export: Export) -> Self {
        Self(Mutex::new(Some(export)))
    }
}

#[pymethods]
impl PyExport {
    /// Where the memory that was handed out begins.
    #[getter]
    fn address(&self) -> PyResult<u64> {
        let export = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let export = export.as_ref().ok_or_else(|| raise(Error::Released))?;
        Ok(export.lease().view().address())
    }

    /// Ends the export.
    fn close(&self) {
        let export = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(export);
    }
}
