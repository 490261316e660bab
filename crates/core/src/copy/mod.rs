//! Copies: the only module that reads and writes elements.

mod device;
mod host;

use crate::device::{DeviceKind, Memory};
use crate::dtype::Dtype;
use crate::error::{Error, ExportError, LayoutError};
use crate::host as host_memory;
use crate::lease::Lease;
use crate::ledger::{FixedName, Name};
use crate::pool;
use crate::view::View;

pub use device::fill;
pub use host::to_vec;

/// Copies the elements of one lease to another of the same shape and type.
///
/// The two may overlap: then the whole source is read before anything is written. A copy of device
/// memory is queued on this thread's current stream there; it is done when the
/// call returns if one side is host memory, or shared with a host framework.
///
/// # Safety
///
/// 1. Until the copy is done nothing else writes the source, except on a stream that its lease knows.
/// 2. Until then nothing else reads or writes the target, with the same exception.
///
/// # Errors
///
/// If shapes or types differ, the destination is read-only or overlaps itself, host memory is not mapped, or the driver
/// refuses.
pub unsafe fn copy(from: &Lease, to: &Lease) -> Result<(), Error> {
    check(from.view(), to.view())?;
    require_reachable(from)?;
    require_reachable(to)?;
    // SAFETY: the contract.
    unsafe { copy_reachable(from, to) }
}

/// As [`copy`], for leases that passed `check` and `require_reachable`.
///
/// # Safety
///
/// As [`copy`].
unsafe fn copy_reachable(from: &Lease, to: &Lease) -> Result<(), Error> {
    if from.view().layout().is_empty() {
        return Ok(());
    }
    if is_host(from) && is_host(to) {
        // SAFETY: the contract.
        return unsafe { host::copy(from, to) };
    }
    // SAFETY: the contract.
    unsafe { device::copy(from, to) }
}

/// A compact copy in new host memory.
///
/// # Safety
///
/// As (1) of [`copy`].
///
/// # Errors
///
/// If there is not enough memory, packed elements are not contiguous, or the driver refuses.
pub unsafe fn duplicate(from: &Lease) -> Result<Lease, Error> {
    static WHO: FixedName = FixedName::new("a copy");
    // First: a wrong shape would otherwise be reported as out of memory.
    require_reachable(from)?;
    let to = Lease::zeros(from.view().layout().shape(), from.view().dtype(), WHO.get())?;
    check(from.view(), to.view())?;
    // SAFETY: the contract; nothing else uses the target.
    unsafe { copy_reachable(from, &to) }?;
    Ok(to)
}

/// A compact copy in new host memory, made without waiting and without a copy by the driver. `None` for memory that a
/// real GPU may write, and for bytes that queued work may still write.
///
/// # Safety
///
/// As (1) of [`copy`].
///
/// # Errors
///
/// As [`duplicate`], and if the memory was freed.
pub unsafe fn glimpse(from: &Lease) -> Result<Option<Lease>, Error> {
    if is_host(from) && from.view().memory() == Memory::Host {
        // SAFETY: the contract.
        return unsafe { duplicate(from) }.map(Some);
    }
    // The simulated GPU's memory is the host's.
    if !from.is_simulated() || !from.looks_ready()? {
        return Ok(None);
    }
    from.check_live()?;
    let to = Lease::zeros(from.view().layout().shape(), from.view().dtype(), Name::UNKNOWN)?;
    check(from.view(), to.view())?;
    if !from.view().layout().is_empty() {
        host::move_elements(from.view(), to.view());
    }
    Ok(Some(to))
}

/// A compact copy on the same side: on the device, queued, or on the host.
///
/// # Safety
///
/// As (1) of [`copy`].
///
/// # Errors
///
/// As [`duplicate`].
pub unsafe fn twin(from: &Lease) -> Result<Lease, Error> {
    if is_host(from) {
        // SAFETY: the contract.
        return unsafe { duplicate(from) };
    }
    let to = pool::empty(from.view().layout().shape(), from.view().dtype(), from.view().device())?;
    // SAFETY: the contract; nothing else uses the target.
    unsafe { copy(from, &to) }?;
    Ok(to)
}

fn is_host(lease: &Lease) -> bool {
    lease.view().device().kind() == DeviceKind::Cpu
}

/// Refuses host memory that is not mapped. Producers that `borrow` trusts can be wrong, and a copy would then crash.
fn require_reachable(lease: &Lease) -> Result<(), Error> {
    let (low, bytes) = lease.view().extent();
    if !is_host(lease) || lease.view().memory() == Memory::Pinned {
        return Ok(());
    }
    Ok(host_memory::check_reachable(low, bytes)?)
}

/// Refuses impossible copies.
fn check(source: &View, target: &View) -> Result<(), Error> {
    let same =
        source.dtype() == target.dtype() && source.layout().shape() == target.layout().shape();
    if !same {
        let words = |view: &View| {
            let padded = if view.dtype().is_padded() { " (padded)" } else { "" };
            format!("{}{padded} {:?}", view.dtype(), view.layout().shape()).into()
        };
        let (source_is, destination_is) = (words(source), words(target));
        return Err(LayoutError::Mismatch { source_is, destination_is }.into());
    }
    if target.readonly() {
        return Err(ExportError::WriteReadOnly.into());
    }
    if target.layout().may_overlap() {
        return Err(LayoutError::Overlap.into());
    }
    let compact = source.layout().is_compact() && target.layout().is_compact();
    if source.dtype().is_packed() && !compact {
        let (from, to) = (source.dtype().name().into(), Dtype::UINT8.name().into());
        let reason = "packed elements are copied from and to contiguous arrays only";
        return Err(LayoutError::View { from, to, reason }.into());
    }
    Ok(())
}
