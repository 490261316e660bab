//! Import of DLPack tensors: versioned, legacy, and tensors that are only shown during a call.

use std::ffi::c_void;
use std::slice;

use crate::abi::dlpack::{
    self, ExchangeApi, ExchangeHeader, FLAG_READ_ONLY, FLAG_SUBBYTE_PADDED, Header, ManagedTensor,
    ManagedTensorVersioned, Tensor,
};
use crate::device::{Device, DeviceKind};
use crate::dtype::Dtype;
use crate::error::{AddressError, Error, LayoutError, ProtocolError};
use crate::host;
use crate::import::raw::{self, ViewRef};
use crate::layout::{Layout, MOST_AXES};
use crate::lease::Lease;
use crate::ledger::Name;
use crate::owner::Owner;
use crate::stream::{Ready, current};

/// The longest chain of tables; a longer one is treated as a loop.
const MOST_TABLES: usize = 16;

/// Releases a tensor that was taken over: [`release_versioned`] or [`release_legacy`], or a
/// function that calls one of them later, on another thread.
pub type Release = unsafe fn(*mut c_void);

/// Takes a versioned tensor over. A tensor that is refused is still released.
///
/// # Safety
///
/// 1. `tensor` is null, or points to an initialised `DLManagedTensorVersioned` of the
///    version it names, which stays put and unwritten until its deleter has run.
/// 2. Nobody else calls that deleter.
/// 3. The deleter may be called from any thread.
/// 4. Until then the memory the tensor describes can be read, and written unless it says read-only.
///
/// # Errors
///
/// If the tensor is null, has another major version, or describes an array that cannot be lent.
pub unsafe fn take_versioned(
    tensor: *mut ManagedTensorVersioned,
    who: Name,
) -> Result<Lease, Error> {
    // SAFETY: the contract; (5) is what `release_versioned` does.
    unsafe { take_versioned_by(tensor, release_versioned, on_current, who) }
}

/// For a tensor whose producer was asked to make our current stream wait, as DLPack specifies.
#[must_use]
pub fn on_current(device: u8) -> Ready {
    Ready::On(current(device))
}

/// Takes over a versioned tensor that `release` will release. A refused tensor is still released.
/// For device memory `ready` says when it is valid.
///
/// # Safety
///
/// (1) to (4) of [`take_versioned`], and
///
/// 5. `release`, called once with the tensor from any thread, causes one call of its deleter.
///
/// # Errors
///
/// As [`take_versioned`].
pub unsafe fn take_versioned_by(
    tensor: *mut ManagedTensorVersioned,
    release: Release,
    ready: impl FnOnce(u8) -> Ready,
    who: Name,
) -> Result<Lease, Error> {
    if tensor.is_null() {
        return Err(ProtocolError::Null.into());
    }
    // SAFETY: (5), and (1) keeps the tensor until its release.
    let mut owner = Some(unsafe { Owner::from_raw(tensor.cast(), release) });
    // SAFETY: (1); every version of the struct begins with this header.
    let Header { version, flags, .. } = unsafe { tensor.cast::<Header>().read() };
    if version.major != dlpack::VERSION.major {
        let dlpack::Version { major, minor } = version;
        return Err(ProtocolError::Version { major, minor }.into());
    }
    // Copied, not borrowed: a refused tensor is freed with its owner.
    // SAFETY: (1), and the major version is ours.
    let inner = unsafe { &raw const (*tensor).tensor };
    // SAFETY: as above.
    let inner = unsafe { inner.read() };
    // SAFETY: (1) says that the tensor is initialised, (4) the rest.
    unsafe { lease_of(&inner, flags, || taken(&mut owner), ready, who) }
}

/// Takes a legacy tensor over. A tensor that is refused is still released.
///
/// # Safety
///
/// As [`take_versioned`], for a `DLManagedTensor`.
///
/// # Errors
///
/// If the tensor is null or describes an array that cannot be lent.
pub unsafe fn take_legacy(tensor: *mut ManagedTensor, who: Name) -> Result<Lease, Error> {
    // SAFETY: the contract; (5) is what `release_legacy` does.
    unsafe { take_legacy_by(tensor, release_legacy, on_current, who) }
}

/// Takes over a legacy tensor that `release` will release. A refused tensor is still released.
///
/// # Safety
///
/// As [`take_versioned_by`], for a `DLManagedTensor`.
///
/// # Errors
///
/// As [`take_legacy`].
pub unsafe fn take_legacy_by(
    tensor: *mut ManagedTensor,
    release: Release,
    ready: impl FnOnce(u8) -> Ready,
    who: Name,
) -> Result<Lease, Error> {
    if tensor.is_null() {
        return Err(ProtocolError::Null.into());
    }
    // SAFETY: as in `take_versioned`.
    let mut owner = Some(unsafe { Owner::from_raw(tensor.cast(), release) });
    // SAFETY: (1) of `take_versioned`.
    let inner = unsafe { &raw const (*tensor).tensor };
    // SAFETY: as above.
    let inner = unsafe { inner.read() };
    // SAFETY: (1) of `take_versioned` says that the tensor is initialised, (4) the rest.
    unsafe { lease_of(&inner, 0, || taken(&mut owner), ready, who) }
}

/// The owner. If it is not taken, the caller drops it after everything borrowed from the tensor.
fn taken(owner: &mut Option<Owner>) -> Owner {
    owner.take().unwrap_or(Owner::nobody())
}

/// Makes a lease of a tensor that is only shown to us; the result of `owner` keeps its memory alive.
///
/// # Safety
///
/// 1. `tensor` is initialised, and its shape and strides can be read now.
/// 2. The owner keeps the memory it describes alive, readable and writable.
///
/// # Errors
///
/// If the tensor describes an array that cannot be lent; `owner` is not called then.
pub unsafe fn take_shown(
    tensor: &Tensor,
    owner: impl FnOnce() -> Owner,
    ready: impl FnOnce(u8) -> Ready,
    who: Name,
) -> Result<Lease, Error> {
    // SAFETY: (1) and (2).
    unsafe { lease_of(tensor, 0, owner, ready, who) }
}

/// The description in a tensor that is only shown to us, unless it needs the full check.
///
/// # Safety
///
/// `tensor` is initialised, and its shape and strides live and are not written for `'a`.
///
/// # Errors
///
/// If its device is unknown.
pub unsafe fn view_of<'a>(tensor: &Tensor, dtype: Dtype) -> Result<Option<ViewRef<'a>>, Error> {
    let place = Device::from_dlpack(tensor.device)?;
    let Ok(rank) = usize::try_from(tensor.ndim) else { return Ok(None) };
    let data = tensor.data.expose_provenance() as u64;
    let nothing = rank > 0 && (tensor.shape.is_null() || tensor.strides.is_null());
    let Some(address) = data.checked_add(tensor.byte_offset).filter(|_| data != 0) else {
        return Ok(None);
    };
    if rank > MOST_AXES || nothing {
        return Ok(None);
    }
    // SAFETY: the contract; null was left out above.
    let shape = unsafe { numbers(tensor.shape, rank) };
    // SAFETY: as above.
    let strides = unsafe { numbers(tensor.strides, rank) };
    Ok(Some(ViewRef { address, place, dtype, shape, strides, readonly: false }))
}

/// Finds the table of our major version among a producer's tables. Each address is checked to be mapped before it is read,
/// because it can be a plain int from Python.
///
/// # Safety
///
/// `api` is null, is not mapped, or points to a table that lives as long as the result is used, as do those its `prev_api`
/// leads to.
///
/// # Errors
///
/// If there is no such table, or an address is not mapped.
pub unsafe fn exchange_api(api: *const ExchangeApi) -> Result<&'static ExchangeApi, Error> {
    let mut header = api.cast::<ExchangeHeader>();
    let mut newest = None;
    for _ in 0..MOST_TABLES {
        if header.is_null() {
            break;
        }
        require_table(header.addr(), size_of::<ExchangeHeader>())?;
        // SAFETY: the contract; every table begins with this header.
        let found = unsafe { &*header };
        if found.version.major == dlpack::VERSION.major {
            require_table(header.addr(), size_of::<ExchangeApi>())?;
            // SAFETY: the contract, and the major version is ours.
            return Ok(unsafe { &*header.cast::<ExchangeApi>() });
        }
        newest = newest.or(Some(found.version));
        header = found.prev_api;
    }
    let dlpack::Version { major, minor } = newest.ok_or(ProtocolError::Null)?;
    Err(ProtocolError::Version { major, minor }.into())
}

/// Refuses an address that is not aligned, or not mapped for that many bytes.
fn require_table(address: usize, bytes: usize) -> Result<(), Error> {
    if !address.is_multiple_of(align_of::<ExchangeApi>()) {
        let (protocol, field) = ("DLPack", "exchange API");
        let problem =
            format!("is said to be at {address:#x}, where no table of pointers can begin");
        return Err(ProtocolError::Field { protocol, field, problem: problem.into() }.into());
    }
    Ok(host::check_mapped(address as u64, bytes as u64)?)
}

/// Reads a tensor once, checks it, and copies its description.
///
/// # Safety
///
/// 1. `tensor` is initialised: its shape and strides are null or hold `ndim` numbers.
/// 2. The result of `owner` keeps the described memory, readable and, unless flagged read-only, writable.
unsafe fn lease_of(
    tensor: &Tensor,
    flags: u64,
    owner: impl FnOnce() -> Owner,
    ready: impl FnOnce(u8) -> Ready,
    who: Name,
) -> Result<Lease, Error> {
    let rank = match usize::try_from(tensor.ndim) {
        Ok(rank) if rank <= MOST_AXES => rank,
        _ => {
            let error = LayoutError::TooManyAxes { rank: tensor.ndim.into(), most: MOST_AXES };
            return Err(error.into());
        }
    };
    let (device, memory) = Device::from_dlpack(tensor.device)?;
    let dtype = Dtype::from_dlpack(tensor.dtype, flags & FLAG_SUBBYTE_PADDED != 0)?;
    if rank > 0 && tensor.shape.is_null() {
        let problem = format!("is null although there are {rank} axes").into();
        return Err(ProtocolError::Field { protocol: "DLPack", field: "shape", problem }.into());
    }
    // SAFETY: the contract; null was refused above.
    let shape = unsafe { numbers(tensor.shape, rank) };
    let data = tensor.data.expose_provenance() as u64;
    // Null plus an offset is not an address.
    let byte_offset = if data == 0 { 0 } else { tensor.byte_offset };
    let Some(address) = data.checked_add(byte_offset) else {
        return Err(AddressError::OutOfRange { address: data, bytes: byte_offset }.into());
    };
    let readonly = flags & FLAG_READ_ONLY != 0;
    let compact;
    let strides = if tensor.strides.is_null() {
        // DLPack 1.2 forbids null strides; in earlier versions they mean a compact array.
        compact = Layout::compact(shape, dtype)?;
        compact.strides()
    } else {
        // SAFETY: the contract.
        unsafe { numbers(tensor.strides, rank) }
    };
    let repaired;
    let repairable = device.kind() == DeviceKind::Cuda;
    let strides = if repairable && strides.iter().any(|stride| is_wrapped(*stride, dtype)) {
        repaired = strides.iter().map(|stride| unwrapped(*stride, dtype)).collect::<Vec<_>>();
        &repaired[..]
    } else {
        strides
    };
    let place = (device, memory);
    let view = ViewRef { address, place, dtype, shape, strides, readonly };
    // SAFETY: (2).
    unsafe { raw::enter(view, owner, ready, who) }
}

/// Whether a stride is the unsigned quotient of a negative number of bytes, as CuPy 14 writes it.
/// CuPy has no host arrays: for those such a stride is an ordinary error.
///
/// No array has such a stride: its elements would be past the end of the address space.
#[inline(always)]
fn is_wrapped(stride: i64, dtype: Dtype) -> bool {
    let itemsize = i128::from(dtype.itemsize().max(1));
    let whole = (1_i128 << 64) / itemsize;
    // This suffices for most strides.
    stride >= 1 << 48 && itemsize > 1 && (whole - (1 << 48)..whole).contains(&i128::from(stride))
}

/// The intended stride.
fn unwrapped(stride: i64, dtype: Dtype) -> i64 {
    let itemsize = i64::from(dtype.itemsize());
    if is_wrapped(stride, dtype) { stride.wrapping_mul(itemsize) / itemsize } else { stride }
}

/// The numbers behind a pointer, which may be null only if there are none.
///
/// # Safety
///
/// `first` points to `count` numbers that stay unwritten as long as the result is used, or `count` is 0.
unsafe fn numbers<'a>(first: *const i64, count: usize) -> &'a [i64] {
    if count == 0 {
        return &[];
    }
    // SAFETY: the contract.
    unsafe { slice::from_raw_parts(first, count) }
}

/// Calls the deleter of a versioned tensor, if it has one.
///
/// # Safety
///
/// `context` is such a tensor, whose deleter has not run and may be called by this thread.
pub unsafe fn release_versioned(context: *mut c_void) {
    let tensor = context.cast::<ManagedTensorVersioned>();
    // SAFETY: the contract: the header can be read until the deleter has run.
    let deleter = unsafe { (*tensor.cast::<Header>()).deleter };
    if let Some(deleter) = deleter {
        // SAFETY: the contract.
        unsafe { deleter(tensor) }
    }
}

/// Calls the deleter of a legacy tensor, if it has one.
///
/// # Safety
///
/// As [`release_versioned`].
pub unsafe fn release_legacy(context: *mut c_void) {
    let tensor = context.cast::<ManagedTensor>();
    // SAFETY: as in `release_versioned`.
    let deleter = unsafe { (*tensor).deleter };
    if let Some(deleter) = deleter {
        // SAFETY: as in `release_versioned`.
        unsafe { deleter(tensor) }
    }
}
