//! Collections of Python's cycle collector, counted, so that the questions of one can be distinguished from those of the next.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple};

static COUNT: AtomicU64 = AtomicU64::new(0);
static COUNTED: AtomicBool = AtomicBool::new(false);

/// The number of the collection that is going on, or of the last.
pub(crate) fn current() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

/// Has collections counted from now on: before the first object that asks for their number.
#[inline]
pub(crate) fn count(py: Python<'_>) -> PyResult<()> {
    if COUNTED.load(Ordering::Relaxed) { Ok(()) } else { begin(py) }
}

#[cold]
fn begin(py: Python<'_>) -> PyResult<()> {
    // Called at the start and at the end of each; either may begin a new number.
    let called = |_arguments: &Bound<'_, PyTuple>, _options: Option<&Bound<'_, PyDict>>| {
        COUNT.fetch_add(1, Ordering::Relaxed);
    };
    let called = PyCFunction::new_closure(py, None, None, called)?;
    py.import(intern!(py, "gc"))?
        .getattr(intern!(py, "callbacks"))?
        .call_method1("append", (called,))?;
    COUNTED.store(true, Ordering::Relaxed);
    Ok(())
}
