//! Export of DLPack tensors: versioned, legacy, or only shown during a call.
//!
//! Written for the strictest reader: `byte_offset` is 0, strides are never
//! null, `data` is null when there is no element; in tensors that are handed over,
//! strides that are never used are canonical.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use crate::abi::dlpack::{
    self, CurrentWorkStream, DeviceCode, FLAG_IS_COPIED, FLAG_READ_ONLY, FLAG_SUBBYTE_PADDED,
    Header, ManagedTensor, ManagedTensorVersioned, Tensor,
};
use crate::device::{Device, Memory};
use crate::dtype::Dtype;
use crate::error::{DeviceError, Error, ExportError, LayoutError, ProtocolError};
use crate::layout::{Layout, MOST_AXES};
use crate::lease::{Export, Lease};
use crate::ledger::Name;
use crate::stream::{Open, Stream, deleting};
use crate::view::View;

/// An exported tensor: the part that the consumer reads, then the part that keeps it alive.
///
/// One allocation: shape and strides of up to four axes are inside.
#[repr(C)]
struct Exported<T> {
    /// First: the consumer's pointer to it is our pointer to the whole struct.
    managed: T,
    layout: Layout,
    export: Export,
    /// Returns the consumer's current stream when it frees the tensor.
    sample: Option<CurrentWorkStream>,
}

/// The receiver of a lease, and how the lease appears to it.
///
/// The caller must first make the consumer's stream wait ([`Lease::hand_to`]).
#[derive(Clone, Copy, Debug)]
pub struct Receiver {
    /// The name in the ledger.
    pub who: Name,
    /// The device in the tensor.
    pub device: dlpack::Device,
    /// Returns the consumer's current stream, from any thread, without any runtime.
    pub sample: Option<CurrentWorkStream>,
}

impl Receiver {
    /// A receiver on the host.
    #[must_use]
    pub fn of_host(who: Name) -> Self {
        Self { who, device: Device::CPU.to_dlpack(), sample: None }
    }
}

/// Exports a lease as a versioned tensor, which the receiver releases by its deleter.
#[must_use]
pub fn to_versioned(lease: &Lease, to: Receiver, copied: bool) -> *mut ManagedTensorVersioned {
    let view = lease.view();
    let mut flags = 0;
    flags |= if view.readonly() { FLAG_READ_ONLY } else { 0 };
    flags |= if copied { FLAG_IS_COPIED } else { 0 };
    flags |= if view.dtype().is_padded() { FLAG_SUBBYTE_PADDED } else { 0 };
    let managed = ManagedTensorVersioned {
        header: Header {
            version: dlpack::VERSION,
            manager_ctx: ptr::null_mut(),
            deleter: Some(delete::<ManagedTensorVersioned>),
            flags,
        },
        tensor: bare_tensor(view, to.device),
    };
    let exported = leak(managed, lease, to);
    // SAFETY: `leak` returns a live allocation that nothing else knows yet.
    let layout = unsafe { &raw mut (*exported).layout };
    // SAFETY: as above.
    let tensor = unsafe { &raw mut (*exported).managed.tensor };
    // SAFETY: both are in that allocation.
    unsafe { point(tensor, layout) };
    exported.cast()
}

/// Hands a lease to a function that takes the tensor over, as an exchange API does.
///
/// DLPack does not say who releases the tensor when that function fails. The
/// ledger knows whether the function released it; if not, it is released here, so that it is
/// released once in both cases.
///
/// # Errors
///
/// The function's error.
pub fn hand_over<R, E>(
    lease: &Lease,
    to: Receiver,
    take: impl FnOnce(*mut ManagedTensorVersioned) -> Result<R, E>,
) -> Result<R, E> {
    let tensor = to_versioned(lease, to, false);
    // SAFETY: the tensor is fresh, and the first field of its allocation.
    let export = unsafe { &(*tensor.cast::<Exported<ManagedTensorVersioned>>()).export };
    let identity = export.identity();
    let result = take(tensor);
    if result.is_err() && identity.is_live() {
        // SAFETY: its line in the ledger is still there, so the deleter has not run.
        unsafe { delete(tensor) }
    }
    result
}

/// Exports a lease as a legacy tensor, which has no read-only flag.
///
/// # Errors
///
/// If the lease is read-only, or its sub-byte elements are padded.
pub fn to_legacy(
    lease: &Lease,
    to: Receiver,
    consumer: &str,
) -> Result<*mut ManagedTensor, ExportError> {
    let view = lease.view();
    if view.readonly() {
        return Err(ExportError::ReadOnly { consumer: consumer.into() });
    }
    if view.dtype().is_padded() {
        let (dtype, bits_as) = (view.dtype().name().into(), view.dtype().bits_as());
        return Err(ExportError::Type { consumer: consumer.into(), dtype, bits_as });
    }
    let managed = ManagedTensor {
        tensor: bare_tensor(view, to.device),
        manager_ctx: ptr::null_mut(),
        deleter: Some(delete::<ManagedTensor>),
    };
    let exported = leak(managed, lease, to);
    // SAFETY: `leak` returns a live allocation that nothing else knows yet.
    let layout = unsafe { &raw mut (*exported).layout };
    // SAFETY: as above.
    let tensor = unsafe { &raw mut (*exported).managed.tensor };
    // SAFETY: both are in that allocation.
    unsafe { point(tensor, layout) };
    Ok(exported.cast())
}

/// Shows a lease as a tensor that is valid as long as the lease is held.
#[must_use]
pub fn show(lease: &Lease, device: dlpack::Device) -> Tensor {
    let mut tensor = bare_tensor(lease.view(), device);
    let layout = lease.view().layout();
    // Consumers only read these, although DLPack declares them mutable.
    tensor.shape = layout.shape().as_ptr().cast_mut();
    tensor.strides = layout.strides().as_ptr().cast_mut();
    tensor
}

/// Allocates host memory like a prototype, of which only type, shape and device are read.
///
/// # Safety
///
/// `prototype` is initialised, and its shape holds `ndim` numbers.
///
/// # Errors
///
/// If the prototype is not a host array, or there is not enough memory.
pub unsafe fn allocate(prototype: &Tensor, who: Name) -> Result<Lease, Error> {
    let (device, memory) = Device::from_dlpack(prototype.device)?;
    if (device, memory) != (Device::CPU, Memory::Host) {
        let problem = "the exchange API's allocator makes host memory only";
        return Err(DeviceError::OutOfReach { device: device.to_string().into(), problem }.into());
    }
    let dtype = Dtype::from_dlpack(prototype.dtype, false)?;
    let rank = match usize::try_from(prototype.ndim) {
        Ok(rank) if rank <= MOST_AXES => rank,
        _ => {
            let rank = prototype.ndim.into();
            return Err(LayoutError::TooManyAxes { rank, most: MOST_AXES }.into());
        }
    };
    if rank > 0 && prototype.shape.is_null() {
        return Err(ProtocolError::Null.into());
    }
    let shape: &[i64] = if rank == 0 {
        &[]
    } else {
        // SAFETY: the contract; null was refused above.
        unsafe { std::slice::from_raw_parts(prototype.shape, rank) }
    };
    Lease::zeros(shape, dtype, who)
}

/// A tensor without the pointers to its shape and strides.
fn bare_tensor(view: &View, device: dlpack::Device) -> Tensor {
    // A rank is at most `MOST_AXES`.
    let ndim = i32::try_from(view.layout().rank()).unwrap_or(0);
    let address = if view.layout().is_empty() { 0 } else { view.address() };
    Tensor {
        data: ptr::with_exposed_provenance_mut(usize::try_from(address).unwrap_or(0)),
        device,
        ndim,
        dtype: view.dtype().to_dlpack(),
        shape: ptr::null_mut(),
        strides: ptr::null_mut(),
        byte_offset: 0,
    }
}

fn leak<T>(managed: T, lease: &Lease, to: Receiver) -> *mut Exported<T> {
    let layout = lease.view().layout().canonical();
    let (export, sample) = (lease.export(to.who), to.sample);
    Box::into_raw(Box::new(Exported { managed, layout, export, sample }))
}

/// Points a tensor at a layout beside it.
///
/// # Safety
///
/// Both pointers are into one live allocation that nothing else uses now.
unsafe fn point(tensor: *mut Tensor, layout: *mut Layout) {
    // SAFETY: the contract.
    let (shape, strides) = unsafe { &mut *layout }.dims_mut();
    // SAFETY: the contract.
    let tensor = unsafe { &mut *tensor };
    tensor.shape = shape;
    tensor.strides = strides;
}

/// The deleter of every exported tensor: it runs on any thread, needs no runtime, and catches every panic.
unsafe extern "C" fn delete<T>(managed: *mut T) {
    if managed.is_null() {
        return;
    }
    // SAFETY: consumers call the deleter once, with the pointer they were given,
    // which is that of the whole allocation (`Exported`, first field).
    let exported = unsafe { Box::from_raw(managed.cast::<Exported<T>>()) };
    // An owner's release is foreign code; its panic must not cross this frame.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        deleting(|| {
            exported.sample();
            drop(exported);
        });
    }));
}

impl<T> Exported<T> {
    /// Notes the consumer's current stream: its work may use the memory.
    fn sample(&self) {
        let lease = self.export.lease();
        let (Some(sample), Some(timeline)) = (self.sample, lease.timeline()) else { return };
        let device = timeline.device();
        let mut stream = ptr::null_mut();
        // SAFETY: the function is from its framework's table, whose contract allows this call.
        let failed = unsafe { sample(DeviceCode::CUDA, i32::from(device), &raw mut stream) } != 0;
        let writes = !lease.view().readonly();
        match Stream::known(device, stream.addr()) {
            Some(stream) if !failed && !stream.is_per_thread() => {
                timeline.note(&stream, writes, Open::No);
            }
            // The stream may be destroyed by then.
            _ => timeline.note_hidden(writes, Open::No),
        }
    }
}
