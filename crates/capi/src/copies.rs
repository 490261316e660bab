//! Copies between leases, and from and to host memory.

use std::ffi::c_void;

use gpulend::import::raw;
use gpulend::{Device, DeviceKind, Lease, Owner, copy};

use crate::guard::guard;
use crate::memory::{WHO, refuse_stream};
use crate::refusal::Refusal;
use crate::streams::Entered;
use crate::table::find;
use crate::types::{LeaseHandle, Status, StreamHandle};

/// Copies elements, row-major without gaps, from the host to a lease; `bytes` must be the size of the
/// lease. The copy is done when the function returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_copy_from_host(
    lease: LeaseHandle,
    data: *const c_void,
    bytes: u64,
    stream: StreamHandle,
) -> Status {
    guard(|| {
        let to: Lease = find(lease)?;
        // SAFETY: (1) and (3) of the crate.
        let from = unsafe { host_array(&to, data, bytes, true) }?;
        let _entered = entered(&to, stream)?;
        // SAFETY: (3) of the crate: the caller knows what else uses the two meanwhile.
        Ok(unsafe { copy::copy(&from, &to) }?)
    })
}

/// Copies all elements of a lease to the host, row-major without gaps, as
/// gpulend_copy_from_host().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_copy_to_host(
    lease: LeaseHandle,
    data: *mut c_void,
    bytes: u64,
    stream: StreamHandle,
) -> Status {
    guard(|| {
        let from: Lease = find(lease)?;
        // SAFETY: (1) and (3) of the crate.
        let to = unsafe { host_array(&from, data, bytes, false) }?;
        let _entered = entered(&from, stream)?;
        // SAFETY: as in `gpulend_copy_from_host`.
        Ok(unsafe { copy::copy(&from, &to) }?)
    })
}

/// Copies the elements of a lease to another of the same shape and type. Between GPUs the copy is
/// queued on `stream`, a stream of the target's GPU; with the host it is done when the function returns.
#[unsafe(no_mangle)]
pub extern "C" fn gpulend_copy(from: LeaseHandle, to: LeaseHandle, stream: StreamHandle) -> Status {
    guard(|| {
        let (from, to): (Lease, Lease) = (find(from)?, find(to)?);
        let _entered = entered(if is_host(&to) { &from } else { &to }, stream)?;
        // SAFETY: as in `gpulend_copy_from_host`.
        Ok(unsafe { copy::copy(&from, &to) }?)
    })
}

/// Fills a lease without gaps with the element at `element`; `bytes` must be the size of the element
/// type. On a GPU the fill is queued on `stream`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_fill(
    lease: LeaseHandle,
    element: *const c_void,
    bytes: u64,
    stream: StreamHandle,
) -> Status {
    guard(|| {
        let to: Lease = find(lease)?;
        let dtype = to.view().dtype();
        if u64::from(dtype.itemsize()) != bytes || dtype.is_packed() {
            let problem =
                format!("is {bytes}, but an element of {dtype} has {} bits", dtype.storage_bits());
            return Err(Refusal::argument("bytes", problem));
        }
        if element.is_null() {
            return Err(Refusal::argument("element", "is NULL"));
        }
        let bytes = usize::from(dtype.itemsize());
        // SAFETY: (1) of the crate; null was refused.
        let element = unsafe { std::slice::from_raw_parts(element.cast::<u8>(), bytes) };
        let _entered = entered(&to, stream)?;
        // SAFETY: as in `gpulend_copy_from_host`.
        Ok(unsafe { copy::fill(&to, element) }?)
    })
}

fn is_host(lease: &Lease) -> bool {
    lease.view().device().kind() == DeviceKind::Cpu
}

fn entered(lease: &Lease, stream: StreamHandle) -> Result<Entered, Refusal> {
    if is_host(lease) {
        refuse_stream(stream)?;
    }
    Entered::on(stream, lease.view().device().index())
}

/// Host memory as an array like a lease, without gaps, during a copy.
///
/// # Safety
///
/// (1) and (3) of the crate, as long as the result.
unsafe fn host_array(
    like: &Lease,
    data: *const c_void,
    bytes: u64,
    readonly: bool,
) -> Result<Lease, Refusal> {
    let view = like.view();
    if bytes != view.nbytes() {
        let problem = format!("is {bytes}, but the lease has {} bytes", view.nbytes());
        return Err(Refusal::argument("bytes", problem));
    }
    let claim = raw::Claim {
        address: data.expose_provenance() as u64,
        shape: view.layout().shape(),
        strides: None,
        dtype: view.dtype(),
        device: Some(Device::CPU),
        readonly,
        check: true,
    };
    let checked = claim.verify()?;
    // SAFETY: the contract; the caller's memory is there as long as the call.
    Ok(unsafe { raw::wrap_checked(checked, Owner::nobody, None, WHO.get()) }?)
}
