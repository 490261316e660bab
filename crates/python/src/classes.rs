//! Caches keyed by class are cleared when the class dies, so that they neither keep it alive nor apply to a later class at
//! the same address.

use std::collections::BTreeMap;

use gpulend::fork::ProcessLock;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple, PyType, PyWeakrefReference};

use crate::{arguments, frameworks, routes};

/// Weak references to the classes in those caches, by address. They exist for their callbacks.
static WATCHED: ProcessLock<BTreeMap<usize, Py<PyWeakrefReference>>> =
    ProcessLock::new(BTreeMap::new());

/// Has the caches cleared of a class when it dies. Python calls back before the address can be reused.
pub(crate) fn watch(class: &Bound<'_, PyType>) -> PyResult<()> {
    let address = class.as_ptr().addr();
    if WATCHED.lock().contains_key(&address) {
        return Ok(());
    }
    let gone = move |_arguments: &Bound<'_, PyTuple>, _options: Option<&Bound<'_, PyDict>>| {
        routes::forget(address);
        arguments::forget(address);
        frameworks::forget(address);
        let reference = WATCHED.lock().remove(&address);
        drop(reference);
    };
    let gone = PyCFunction::new_closure(class.py(), None, None, gone)?;
    let reference = PyWeakrefReference::new_with(class, gone)?.unbind();
    let before = WATCHED.lock().insert(address, reference);
    drop(before);
    Ok(())
}
