//! New leases: allocations, and addresses of the caller.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use gpulend::import::raw;
use gpulend::ledger::FixedName;
use gpulend::stream::{Ready, current_device};
use gpulend::{Device, DeviceKind, Lease, Owner, copy, pool};

use crate::about::dtype_of;
use crate::devices::place;
use crate::guard::guard;
use crate::pointer::{Out, numbers, read_sized};
use crate::refusal::Refusal;
use crate::streams::{Entered, check_flags};
use crate::table::{self, Kind, find, insert};
use crate::types::{
    Claim, Deleter, DtypeNumber, GPULEND_READONLY, GPULEND_READY, GPULEND_UNCHECKED,
    GPULEND_UNOWNED, LeaseHandle, Status, StreamHandle,
};

/// The origin of the memory in the ledger.
pub(crate) static WHO: FixedName = FixedName::new("a C program");

/// Allocates an uninitialised array, row-major without gaps. On a GPU the allocation is queued on
/// `stream`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_allocate(
    device: i32,
    dtype: DtypeNumber,
    ndim: i32,
    shape: *const i64,
    stream: StreamHandle,
    lease: *mut LeaseHandle,
) -> Status {
    guard(|| {
        // SAFETY: (1) of the crate.
        let lease = unsafe { Out::at(lease, "lease") }?;
        // SAFETY: (1) of the crate.
        let shape = unsafe { numbers(shape, ndim, "shape") }?;
        lease.put(insert(allocate(device, dtype, shape, stream, false)?)?);
        Ok(())
    })
}

/// Allocates an array of zeros, as gpulend_allocate().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_zeros(
    device: i32,
    dtype: DtypeNumber,
    ndim: i32,
    shape: *const i64,
    stream: StreamHandle,
    lease: *mut LeaseHandle,
) -> Status {
    guard(|| {
        // SAFETY: (1) of the crate.
        let lease = unsafe { Out::at(lease, "lease") }?;
        // SAFETY: (1) of the crate.
        let shape = unsafe { numbers(shape, ndim, "shape") }?;
        lease.put(insert(allocate(device, dtype, shape, stream, true)?)?);
        Ok(())
    })
}

fn allocate(
    device: i32,
    dtype: DtypeNumber,
    shape: &[i64],
    stream: StreamHandle,
    zeroed: bool,
) -> Result<Lease, Refusal> {
    let dtype = dtype_of(dtype)?;
    let device = match place(device)? {
        Some(device) => device,
        None => Device::new(DeviceKind::Cuda, current_device()),
    };
    if device == Device::CPU {
        refuse_stream(stream)?;
        return Ok(Lease::zeros(shape, dtype, WHO.get())?);
    }
    let _entered = Entered::on(stream, device.index())?;
    let made = pool::empty(shape, dtype, device)?;
    if zeroed {
        // SAFETY: the memory is new.
        unsafe { copy::fill(&made, &[0]) }?;
    }
    Ok(made)
}

/// Refuses a stream for host memory.
pub(crate) fn refuse_stream(stream: StreamHandle) -> Result<(), Refusal> {
    if stream == 0 {
        return Ok(());
    }
    Err(gpulend::ProtocolError::HostStream { found: "stream".into() }.into())
}

/// Makes a lease of an address. Asks the driver whether the memory is live, long enough and on the
/// claimed device. `deleter` frees the memory; without one the claim must have GPULEND_UNOWNED. If the
/// call fails, the deleter is not called: the memory is still the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_wrap(
    claim: *const Claim,
    deleter: Deleter,
    context: *mut c_void,
    lease: *mut LeaseHandle,
) -> Status {
    guard(|| {
        // SAFETY: (1) of the crate.
        let lease = unsafe { Out::at(lease, "lease") }?;
        // SAFETY: (1) of the crate.
        let claim = unsafe { read_sized(claim, "claim") }?;
        // SAFETY: (1), (2) and (3) of the crate.
        lease.put(unsafe { wrap(&claim, deleter, context) }?);
        Ok(())
    })
}

/// # Safety
///
/// (1), (2) and (3) of the crate.
unsafe fn wrap(
    claim: &Claim,
    deleter: Deleter,
    context: *mut c_void,
) -> Result<LeaseHandle, Refusal> {
    let flags = claim.flags;
    check_flags(flags, GPULEND_READONLY | GPULEND_UNOWNED | GPULEND_UNCHECKED | GPULEND_READY)?;
    if deleter.is_some() == (flags & GPULEND_UNOWNED != 0) {
        let problem = "must say who keeps the memory alive, in one way: a deleter that frees it, or \
                       GPULEND_UNOWNED in the claim's flags and NULL";
        return Err(Refusal::argument("deleter", problem));
    }
    // SAFETY: the contract.
    let shape = unsafe { numbers(claim.shape, claim.ndim, "shape") }?;
    let strides = if claim.strides.is_null() {
        None
    } else {
        // SAFETY: the contract.
        Some(unsafe { numbers(claim.strides, claim.ndim, "strides") }?)
    };
    let ready = ready(claim)?;
    let checked = raw::Claim {
        address: claim.address,
        shape,
        strides,
        dtype: dtype_of(claim.dtype)?,
        device: place(claim.device)?,
        readonly: flags & GPULEND_READONLY != 0,
        check: flags & GPULEND_UNCHECKED == 0,
    }
    .verify()?;
    let (address, bytes) = (claim.address, checked.view().nbytes());
    let Some(function) = deleter else {
        // SAFETY: the contract: the caller says that the memory outlives the lease.
        let wrapped = unsafe { raw::wrap_checked(checked, Owner::nobody, ready, WHO.get()) }?;
        return insert(wrapped);
    };
    let kept = AtomicBool::new(false);
    let mut deletion = ptr::null_mut::<Deletion>();
    let owner = || {
        deletion = Box::into_raw(Box::new(Deletion { function, context, address, bytes, kept }));
        // SAFETY: (2) of the crate; nobody else has the box.
        unsafe { Owner::from_raw(deletion.cast(), Deletion::release) }
    };
    // SAFETY: the contract: the caller says so by giving a deleter.
    let wrapped = unsafe { raw::wrap_checked(checked, owner, ready, WHO.get()) }?;
    // The deleter must not free the memory under work that the caller queued before.
    wrapped.note_unseen_work();
    let handle = insert(wrapped.clone())?;
    // SAFETY: `wrapped` keeps the owner alive, and the owner keeps the box.
    unsafe { (*deletion).kept.store(true, Ordering::Release) };
    Ok(handle)
}

fn ready(claim: &Claim) -> Result<Option<Ready>, Refusal> {
    if claim.flags & GPULEND_READY != 0 {
        return Ok(Some(Ready::Now));
    }
    match (claim.ready_on, Kind::of(claim.ready_on)) {
        (0, _) => Ok(None),
        (event, Some(Kind::Event)) => Ok(Some(Ready::After(find(event)?))),
        (stream, _) => Ok(Some(Ready::On(find(stream)?))),
    }
}

/// A deleter of C.
struct Deletion {
    function: unsafe extern "C" fn(*mut c_void, u64, u64),
    context: *mut c_void,
    address: u64,
    bytes: u64,
    /// Set when `gpulend_wrap` has succeeded. Until then the memory is the caller's and the deleter must not run.
    kept: AtomicBool,
}

impl Deletion {
    /// # Safety
    ///
    /// `context` is the box that `wrap` made, once.
    unsafe fn release(context: *mut c_void) {
        let deletion = context.cast::<Self>();
        // SAFETY: the contract.
        let Self { function, context, address, bytes, kept } = *unsafe { Box::from_raw(deletion) };
        if kept.into_inner() {
            // SAFETY: (2) of the crate; an owner is released once.
            unsafe { function(context, address, bytes) }
        }
    }
}

/// Frees a lease. The memory is released when its last slice and export are freed too, and the
/// GPU work on it is done.
#[unsafe(no_mangle)]
pub extern "C" fn gpulend_free(lease: LeaseHandle) -> Status {
    guard(|| {
        drop(table::adopt(lease)?);
        Ok(())
    })
}

/// Ends a lease now. Fails with 600 and names the holders if slices or exports of it are alive;
/// the handle is still valid then.
#[unsafe(no_mangle)]
pub extern "C" fn gpulend_release(lease: LeaseHandle) -> Status {
    guard(|| table::release(lease))
}
