//! A cell that the GIL guards: read without a lock's cost, by threads that are attached to Python.

use std::cell::UnsafeCell;

use pyo3::exceptions::PyImportError;
use pyo3::intern;
use pyo3::prelude::*;

/// Refuses a free-threaded Python that was started without the GIL although modules need it.
pub(crate) fn require_gil(py: Python<'_>) -> PyResult<()> {
    let asked = py.import(intern!(py, "sys"))?.getattr_opt(intern!(py, "_is_gil_enabled"))?;
    if asked.is_none_or(|ask| ask.call0().and_then(|answer| answer.is_truthy()).unwrap_or(true)) {
        return Ok(());
    }
    let message =
        "gpulend needs Python's GIL, which was switched off: run without PYTHON_GIL=0 and -X gil=0";
    Err(PyImportError::new_err(message))
}

/// A value that is only touched by a thread that holds the GIL, in a few steps in which nothing of Python's runs.
pub(crate) struct Attached<T>(UnsafeCell<T>);

// SAFETY: the value is touched by the thread that holds the GIL alone, and so by one at a time: `with` shows a token for it,
// and (1) of `peek` asks for it.
unsafe impl<T: Send> Sync for Attached<T> {}

impl<T> Attached<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// Works on the value.
    ///
    /// # Safety
    ///
    /// `work` runs no code of Python's, nor any that may: it could come back here, or let another thread in.
    #[inline]
    pub(crate) unsafe fn with<R>(&self, _py: Python<'_>, work: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: the token shows that the GIL is held, and by the contract nobody else comes until `work` is over.
        work(unsafe { &mut *self.0.get() })
    }

    /// The value, to be read.
    ///
    /// # Safety
    ///
    /// As long as the result is used: (1) the caller holds the GIL without a break; (2) nothing of Python's runs, as in
    /// [`Attached::with`].
    #[inline]
    pub(crate) unsafe fn peek(&self) -> &T {
        // SAFETY: the contract.
        unsafe { &*self.0.get() }
    }
}
