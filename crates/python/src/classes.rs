//! Caches keyed by class are cleared when the class dies, so that they neither keep it alive nor apply to a later class at
//! the same address.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple, PyType, PyWeakrefReference};

use crate::{arguments, routes};

/// Weak references to the classes in those caches, by address. They exist for their callbacks.
static WATCHED: LazyLock<Mutex<HashMap<usize, Py<PyWeakrefReference>>>> =
    LazyLock::new(Mutex::default);

fn watched() -> MutexGuard<'static, HashMap<usize, Py<PyWeakrefReference>>> {
    WATCHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has the caches cleared of a class when it dies. Python calls back before the address can be reused.
pub(crate) fn watch(class: &Bound<'_, PyType>) -> PyResult<()> {
    let address = class.as_ptr().addr();
    if watched().contains_key(&address) {
        return Ok(());
    }
    let gone = move |_arguments: &Bound<'_, PyTuple>, _options: Option<&Bound<'_, PyDict>>| {
        routes::forget(address);
        arguments::forget(address);
        let reference = watched().remove(&address);
        drop(reference);
    };
    let gone = PyCFunction::new_closure(class.py(), None, None, gone)?;
    let reference = PyWeakrefReference::new_with(class, gone)?.unbind();
    let before = watched().insert(address, reference);
    drop(before);
    Ok(())
}
