//! Producers that gpulend does not know: their descriptions are checked.

use gpulend::{DeviceKind, Lease, import};
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
