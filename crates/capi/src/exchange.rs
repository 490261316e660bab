//! Import and export of DLPack tensors, versioned and legacy.

use gpulend::abi::dlpack::{ManagedTensor, ManagedTensorVersioned};
use gpulend::export::dlpack::{Receiver, to_legacy, to_versioned};
use gpulend::export::face::{Shown, is_host, shown};
use gpulend::import::dlpack::{
    release_legacy, release_versioned, take_legacy_by, take_versioned_by,
};
use gpulend::ledger::FixedName;
use gpulend::stream::{Ready, Stream, current};
use gpulend::{DeviceKind, Handed, Lease};

use crate::guard::{guard, guard_all};
use crate::memory::{WHO, refuse_stream};
use crate::pointer::Out;
use crate::refusal::Refusal;
use crate::single_instance;
use crate::streams::{check_flags, of};
use crate::table::{find, insert};
use crate::types::{GPULEND_AS_CUDA, LeaseHandle, Status, StreamHandle};

static TO: FixedName = FixedName::new("DLPack, by a C program");

/// Takes over another library's tensor. Its deleter is called when the last lease of it is freed.
/// The tensor is no longer the caller's, whatever the status: a refused tensor is released too.
/// Its bytes are valid after the work that `stream` has now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_from_dlpack(
    tensor: *mut ManagedTensor,
    stream: StreamHandle,
    lease: *mut LeaseHandle,
) -> Status {
    guard_all(|| {
        let named = named(stream);
        // SAFETY: (1) to (3) of the crate: the caller gives the tensor away.
        let taken = unsafe { take_legacy_by(tensor, release_legacy, ready(&named), WHO.get()) };
        named?;
        // SAFETY: (1) of the crate.
        unsafe { keep(taken?, lease) }
    })
}

/// As gpulend_from_dlpack(), for the versioned struct of DLPack 1.0, which has a read-only flag.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_from_dlpack_versioned(
    tensor: *mut ManagedTensorVersioned,
    stream: StreamHandle,
    lease: *mut LeaseHandle,
) -> Status {
    guard_all(|| {
        let named = named(stream);
        // SAFETY: (1) to (3) of the crate: the caller gives the tensor away.
        let taken =
            unsafe { take_versioned_by(tensor, release_versioned, ready(&named), WHO.get()) };
        named?;
        // SAFETY: (1) of the crate.
        unsafe { keep(taken?, lease) }
    })
}

/// The stream that a caller named; none for the current one.
fn named(stream: StreamHandle) -> Result<Option<Stream>, Refusal> {
    if stream == 0 { Ok(None) } else { find(stream).map(Some) }
}

/// When a tensor is valid. A tensor whose stream is refused is still taken over, and released.
fn ready(named: &Result<Option<Stream>, Refusal>) -> impl FnOnce(u8) -> Ready {
    let stream = named.as_ref().ok().cloned().flatten();
    move |device| Ready::On(stream.unwrap_or_else(|| current(device)))
}

/// # Safety
///
/// (1) of the crate.
unsafe fn keep(taken: Lease, place: *mut LeaseHandle) -> Result<(), Refusal> {
    single_instance::start()?;
    // SAFETY: the contract.
    let place = unsafe { Out::at(place, "lease") }?;
    place.put(insert(taken)?);
    Ok(())
}

/// Exports a lease as a tensor, which the receiver releases by its deleter; the memory stays
/// alive until then. Refused for read-only leases, which this struct cannot describe. `stream`, the
/// receiver's stream, waits until the bytes are ready; memory that is exported as host memory is
/// ready when the function returns. `flags` is 0 or GPULEND_AS_CUDA.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_to_dlpack(
    lease: LeaseHandle,
    stream: StreamHandle,
    flags: u32,
    tensor: *mut *mut ManagedTensor,
) -> Status {
    guard(|| {
        // SAFETY: (1) of the crate.
        let tensor = unsafe { Out::at(tensor, "tensor") }?;
        let (handed, to) = prepare(lease, stream, flags)?;
        tensor.put(to_legacy(handed.lease(), to, "DLPack before 1.0")?);
        Ok(())
    })
}

/// As gpulend_to_dlpack(), by the versioned struct of DLPack 1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_to_dlpack_versioned(
    lease: LeaseHandle,
    stream: StreamHandle,
    flags: u32,
    tensor: *mut *mut ManagedTensorVersioned,
) -> Status {
    guard(|| {
        // SAFETY: (1) of the crate.
        let tensor = unsafe { Out::at(tensor, "tensor") }?;
        let (handed, to) = prepare(lease, stream, flags)?;
        tensor.put(to_versioned(handed.lease(), to, false));
        Ok(())
    })
}

/// Makes the receiver's stream, or the host, wait for the bytes; returns the device to export.
fn prepare(
    lease: LeaseHandle,
    stream: StreamHandle,
    flags: u32,
) -> Result<(Handed, Receiver), Refusal> {
    check_flags(flags, GPULEND_AS_CUDA)?;
    let lease: Lease = find(lease)?;
    let as_cuda = flags & GPULEND_AS_CUDA != 0;
    let device = shown(&lease, if as_cuda { Shown::Cuda } else { Shown::Usual });
    let place = lease.view().device();
    let to = Receiver { who: TO.get(), device, sample: None };
    match (place.kind(), is_host(device)) {
        (DeviceKind::Cpu, _) => refuse_stream(stream)?,
        (_, true) => lease.hand_to_host()?,
        (_, false) => return Ok((lease.hand_to(&of(stream, place.index())?)?, to)),
    }
    Ok((Handed::new(&lease), to))
}
