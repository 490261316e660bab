//! Copies: the only module that reads and writes elements.

mod crew;
mod device;
mod host;
mod past;
mod pinned;
mod staged;
mod worker;

use std::sync::Arc;

use crate::copy::staged::Job;
use crate::device::{Device, DeviceKind, Memory};
use crate::dtype::Dtype;
use crate::error::{Error, ExportError, LayoutError};
use crate::host as host_memory;
use crate::layout::Layout;
use crate::lease::Lease;
use crate::ledger::{FixedName, Name};
use crate::owner::Owner;
use crate::pool;
use crate::stream::{Event, Stream, release_after};
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
    // SAFETY: the contract.
    unsafe { copy_as(from, to, &mut How::default()) }
}

/// As [`copy`], and calls `progress` four times a second with the bytes that were moved and their number. The calling thread
/// calls it, and an error that it returns stops the copy. Only large copies between a device and pageable memory last so long.
///
/// # Safety
///
/// As [`copy`].
///
/// # Errors
///
/// As [`copy`], and what `progress` returns.
pub unsafe fn copy_watched(from: &Lease, to: &Lease, progress: Progress<'_>) -> Result<(), Error> {
    // SAFETY: the contract.
    unsafe { copy_as(from, to, &mut How { progress: Some(progress), ..How::default() }) }
}

/// As [`copy`], without waiting where both sides are memory of devices or pinned: such a copy is only queued, and the
/// leases are kept until it is done. Other copies are done when the call returns.
///
/// # Safety
///
/// As [`copy`]; the copy is done when the result says so.
///
/// # Errors
///
/// As [`copy`].
pub unsafe fn start(from: &Lease, to: &Lease) -> Result<Copy, Error> {
    // SAFETY: the contract.
    unsafe { start_as(from, to, How { asynchronous: true, ..How::default() }) }
}

/// As [`start`], and large copies of pageable memory go on in the background: threads stage them, and keep both leases until they are
/// done. Later users of the device memory wait for it, on the host. Its error is that of [`Copy::wait`].
///
/// # Safety
///
/// As [`start`]. Work that was queued on the stream by others does not wait.
///
/// # Errors
///
/// As [`copy`].
pub unsafe fn start_in_background(from: &Lease, to: &Lease) -> Result<Copy, Error> {
    // SAFETY: the contract.
    unsafe { start_as(from, to, How { asynchronous: true, background: true, ..How::default() }) }
}

/// # Safety
///
/// As [`start`].
unsafe fn start_as(from: &Lease, to: &Lease, mut how: How<'_>) -> Result<Copy, Error> {
    // SAFETY: the contract.
    unsafe { copy_as(from, to, &mut how) }?;
    if let Some(job) = how.started {
        return Ok(Copy(Step::Staged(job)));
    }
    let Some(stream) = how.queued else { return Ok(Copy::done()) };
    if is_host(from) || is_host(to) {
        release_after(stream.clone(), Owner::keep((from.clone(), to.clone())));
    }
    Copy::after(&stream)
}

/// A copy that [`start`] queued, or [`start_in_background`] began.
#[derive(Debug)]
pub struct Copy(Step);

#[derive(Debug)]
enum Step {
    Done,
    /// Done when this has happened.
    Queued(Event),
    /// Done by threads.
    Staged(Arc<Job>),
}

impl Copy {
    /// One after which a stream has no more work than it has now.
    ///
    /// # Errors
    ///
    /// If the driver refuses.
    pub fn after(stream: &Stream) -> Result<Self, Error> {
        stream.record().map(|event| Self(Step::Queued(event)))
    }

    /// One that is over.
    #[must_use]
    pub const fn done() -> Self {
        Self(Step::Done)
    }

    /// Whether it is done.
    ///
    /// # Errors
    ///
    /// If the driver refuses.
    pub fn is_done(&self) -> Result<bool, Error> {
        match &self.0 {
            Step::Done => Ok(true),
            Step::Queued(event) => event.has_happened(),
            Step::Staged(job) => Ok(job.is_over()),
        }
    }

    /// Waits until it is done.
    ///
    /// # Errors
    ///
    /// If the driver refuses, or refused a copy in the background.
    pub fn wait(&self) -> Result<(), Error> {
        match &self.0 {
            Step::Done => Ok(()),
            Step::Queued(event) => event.synchronize(),
            Step::Staged(job) => job.outcome(),
        }
    }
}

/// Hears how many bytes of how many were moved.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64) -> Result<(), Error>;

/// What a copy does beyond copying, and what became of it.
#[derive(Default)]
struct How<'a> {
    progress: Option<Progress<'a>>,
    /// Bytes that were moved before the present block, and all.
    moved: u64,
    total: u64,
    /// Whether the caller waits later.
    asynchronous: bool,
    /// The stream on which it was queued, if it was not waited for.
    queued: Option<Stream>,
    /// Whether threads may go on with it when the call returns.
    background: bool,
    /// The job of these threads, if they do.
    started: Option<Arc<Job>>,
}

/// # Safety
///
/// As [`copy`].
unsafe fn copy_as(from: &Lease, to: &Lease, how: &mut How<'_>) -> Result<(), Error> {
    check(from.view(), to.view())?;
    require_reachable(from)?;
    require_reachable(to)?;
    // SAFETY: the contract.
    unsafe { copy_reachable(from, to, how) }
}

/// As [`copy`], for leases that passed `check` and `require_reachable`.
///
/// # Safety
///
/// As [`copy`].
unsafe fn copy_reachable(from: &Lease, to: &Lease, how: &mut How<'_>) -> Result<(), Error> {
    if from.view().layout().is_empty() {
        return Ok(());
    }
    if is_host(from) && is_host(to) {
        // SAFETY: the contract.
        return unsafe { host::copy(from, to) };
    }
    // SAFETY: the contract.
    unsafe { device::copy(from, to, how) }?;
    // The wait may have been ended by the death of the process that was to write the bytes.
    match how.queued {
        None => from.check_lender(),
        Some(_) => Ok(()),
    }
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
    // SAFETY: the contract.
    unsafe { duplicate_as(from, &mut How::default()) }
}

/// As [`duplicate`], with the `progress` of [`copy_watched`].
///
/// # Safety
///
/// As (1) of [`copy`].
///
/// # Errors
///
/// As [`duplicate`], and what `progress` returns.
pub unsafe fn duplicate_watched(from: &Lease, progress: Progress<'_>) -> Result<Lease, Error> {
    // SAFETY: the contract.
    unsafe { duplicate_as(from, &mut How { progress: Some(progress), ..How::default() }) }
}

/// # Safety
///
/// As (1) of [`copy`].
unsafe fn duplicate_as(from: &Lease, how: &mut How<'_>) -> Result<Lease, Error> {
    static WHO: FixedName = FixedName::new("a copy");
    // First: a wrong shape would otherwise be reported as out of memory.
    require_reachable(from)?;
    let to = target_for(from.view(), WHO.get())?;
    check(from.view(), to.view())?;
    // SAFETY: the contract; nothing else uses the target.
    unsafe { copy_reachable(from, &to, how) }?;
    Ok(to)
}

/// New host memory for a copy of everything in `view`.
fn target_for(view: &View, who: Name) -> Result<Lease, Error> {
    let (shape, dtype) = (view.layout().shape(), view.dtype());
    // The last byte of packed elements may be written in part.
    if dtype.is_packed() {
        return Lease::zeros(shape, dtype, who);
    }
    let layout = Layout::compact(shape, dtype)?;
    let (address, owner) = host_memory::room(layout.nbytes(dtype))?;
    Ok(Lease::new(View::host(address, dtype, layout, false)?, owner, who))
}

/// A compact copy in pinned host memory, which is kept for the next one when it is no longer used.
///
/// # Safety
///
/// As (1) of [`copy`].
///
/// # Errors
///
/// As [`duplicate`], and if there is no driver.
pub unsafe fn duplicate_pinned(from: &Lease) -> Result<Lease, Error> {
    static WHO: FixedName = FixedName::new("a pinned copy");
    require_reachable(from)?;
    let (dtype, layout) = (from.view().dtype(), from.view().layout());
    let layout = Layout::compact(layout.shape(), dtype)?;
    let device = if is_host(from) { 0 } else { from.view().device().index() };
    let (address, owner) = pinned::room(layout.nbytes(dtype), device)?;
    let place = (Device::CPU, Memory::Pinned);
    let to = Lease::new(View::new(address, place, dtype, layout, false)?, owner, WHO.get());
    check(from.view(), to.view())?;
    // SAFETY: the contract; nothing else uses the target.
    unsafe { copy_reachable(from, &to, &mut How::default()) }?;
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

/// As [`twin`], in memory that other processes can open. It is done on return.
///
/// # Safety
///
/// As (1) of [`copy`].
///
/// # Errors
///
/// As [`duplicate`].
pub unsafe fn shared_twin(from: &Lease) -> Result<Lease, Error> {
    static WHO: FixedName = FixedName::new("a shared copy");
    require_reachable(from)?;
    let (shape, dtype) = (from.view().layout().shape(), from.view().dtype());
    let to = match is_host(from) {
        true => Lease::shared(shape, dtype, WHO.get())?,
        false => pool::empty_shared(shape, dtype, from.view().device())?,
    };
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
