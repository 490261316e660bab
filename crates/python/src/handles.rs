//! Leases from and to C, by the handles of `gpulend.h`, whose functions this extension exports.

use std::path::PathBuf;

use gpulend::compiler::Toolkit;
use gpulend_capi::Refusal;
use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;

use crate::errors::{raise, refused};
use crate::lease::PyLease;
use crate::reaper;

/// Refuses to be imported where another copy of gpulend is in use already.
pub(crate) fn be_the_only_copy() -> PyResult<()> {
    gpulend_capi::start().map_err(|refusal| PyImportError::new_err(refusal.to_string()))
}

/// Take over the lease that a handle of C's names; the handle ends.
#[pyfunction]
pub(crate) fn lease_of(py: Python<'_>, handle: u64) -> PyResult<Bound<'_, PyLease>> {
    reaper::catch_up(py);
    let lease = gpulend_capi::adopt(handle).map_err(say)?;
    PyLease::new(lease).publish(py)
}

/// Give C a handle of a lease, to be freed by `gpulend_free`.
#[pyfunction]
pub(crate) fn handle_of(lease: &Bound<'_, PyLease>) -> PyResult<u64> {
    gpulend_capi::publish(&lease.get().held()?).map_err(say)
}

/// Set the paths of Python's compilers for C code in this process.
#[pyfunction]
pub(crate) fn set_compilers(clang: Option<PathBuf>, roots: Vec<PathBuf>) {
    let Toolkit { libraries, headers } = Toolkit::find(&roots);
    gpulend_capi::set_compilers(clang, Some(libraries), Some(headers));
}

fn say(refusal: Refusal) -> PyErr {
    match refusal {
        Refusal::Core(error) => raise(error),
        other => refused(other.to_string(), other.entry()),
    }
}
