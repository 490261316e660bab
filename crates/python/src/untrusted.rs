//! Producers that gpulend does not know: their descriptions are checked, and their Python code can call us again.

use std::cell::Cell;

use gpulend::{DeviceKind, Lease, import};
use pyo3::exceptions::PyRecursionError;
use pyo3::prelude::*;

use crate::errors::raise;

/// Checks a tensor of an unknown producer with the driver or the kernel. Tensors of known frameworks and of C exchange tables
/// are not checked: it would cost more than the rest of the hand-over.
///
/// Host addresses are checked in any case, as those of `__array_interface__` are.
pub(crate) fn confirmed(lease: Lease, check: bool) -> PyResult<Lease> {
    if check || lease.view().device().kind() == DeviceKind::Cpu {
        import::raw::confirm(lease.view()).map_err(raise)?;
    }
    Ok(lease)
}

/// Lets only memory that is there through.
pub(crate) fn mapped(lease: Lease) -> PyResult<Lease> {
    let (low, bytes) = lease.view().extent();
    gpulend::host::check_mapped(low, bytes).map_err(raise)?;
    Ok(lease)
}

thread_local! {
    /// How many borrowings of this thread are in progress, each inside the one before.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// A borrowing in progress.
pub(crate) struct Nested;

impl Nested {
    /// Refuses to nest without end. The interpreter's own limit can be set so high that the stack ends first.
    pub(crate) fn enter() -> PyResult<Self> {
        const MOST: u32 = 256;
        let depth = DEPTH.get();
        if depth >= MOST {
            let message = "the producer borrows itself: 256 calls of gpulend are in progress";
            return Err(PyRecursionError::new_err(message));
        }
        DEPTH.set(depth + 1);
        Ok(Self)
    }
}

impl Drop for Nested {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}
