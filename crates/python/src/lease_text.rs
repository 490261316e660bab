//! A lease in words.

use gpulend::{Lease, View};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

/// As `repr` has it.
pub(crate) fn text(lease: &Lease) -> String {
    let view = lease.view();
    let layout = view.layout();
    let mut text = format!("<gpulend.Lease {} {}", view.dtype(), tuple(layout.shape()));
    if !layout.is_compact() {
        text += &format!(" strides {}", tuple(layout.strides()));
    }
    if view.dtype().is_packed() {
        text += &format!(" packed in {} bytes", tuple(&view.storage_shape()));
    }
    text += &format!(" on {} at {:#x}", view.device(), view.address());
    text += if view.readonly() { ", read-only>" } else { ">" };
    text
}

/// Refuses what has more than one element, or none.
pub(crate) fn require_single(view: &View) -> PyResult<()> {
    let shape = view.layout().shape();
    if shape.iter().all(|extent| *extent == 1) {
        return Ok(());
    }
    let message = format!(
        "a lease of shape {} is not a single number; take one element, as lease[0], or all by lease.to_host()",
        tuple(shape)
    );
    Err(PyTypeError::new_err(message))
}

/// Numbers as Python writes a tuple.
fn tuple(numbers: &[i64]) -> String {
    match numbers {
        [one] => format!("({one},)"),
        many => format!("({})", many.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")),
    }
}
