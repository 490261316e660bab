//! The DLPack C exchange API: the table we publish, and other libraries' tables used to lend.

use std::ffi::{CString, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use gpulend::abi::dlpack::{
    DeviceCode, ExchangeApi, ExchangeHeader, ManagedTensorVersioned, SetError, Tensor, VERSION,
};
use gpulend::export::dlpack::Receiver;
use gpulend::import::dlpack::on_current;
use gpulend::ledger::FixedName;
use gpulend::stream::current;
use gpulend::{export, import};
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::errors::raise;
use crate::faces;
use crate::hints;
use crate::lease::PyLease;
use crate::owners::release_versioned_tensor;

/// A table that never moves and is never written.
struct Table(ExchangeApi);

// SAFETY: the table is read-only; the pointer to an older table is null.
unsafe impl Sync for Table {}

static TABLE: Table = Table(ExchangeApi {
    header: ExchangeHeader { version: VERSION, prev_api: ptr::null() },
    managed_tensor_allocator: Some(allocate),
    managed_tensor_from_py_object_no_sync: Some(from_py_object),
    managed_tensor_to_py_object_no_sync: Some(to_py_object),
    dltensor_from_py_object_no_sync: Some(tensor_from_py_object),
    current_work_stream: Some(current_work_stream),
});

static CONSUMER: FixedName = FixedName::new("a C exchange API consumer");
static PRODUCER: FixedName = FixedName::new("a C exchange API producer");

/// The capsule that `Lease.__dlpack_c_exchange_api__` is.
pub(crate) fn capsule(py: Python<'_>) -> PyResult<Py<PyAny>> {
    let table = ptr::from_ref(&TABLE.0).cast_mut().cast();
    // SAFETY: table and name are static.
    let capsule = unsafe { ffi::PyCapsule_New(table, c"dlpack_exchange_api".as_ptr(), None) };
    // SAFETY: a new reference, or null with an exception set.
    let capsule = unsafe { Bound::from_owned_ptr_or_err(py, capsule) }?;
    debug_assert!(capsule.is_instance_of::<PyCapsule>());
    Ok(capsule.unbind())
}

/// Runs a body of the table: no panic gets out, an error becomes the Python exception and -1.
fn guard(body: impl FnOnce(Python<'_>) -> PyResult<()>) -> c_int {
    // SAFETY: the table's Python functions are called with the GIL held.
    let py = unsafe { Python::assume_attached() };
    let error = match catch_unwind(AssertUnwindSafe(|| body(py))) {
        Ok(Ok(())) => return 0,
        Ok(Err(error)) => error,
        Err(_) => PyRuntimeError::new_err("bug: a panic reached the C exchange API"),
    };
    error.restore(py);
    -1
}

/// The lease that a consumer passed.
///
/// # Safety
///
/// `object` is a live Python object.
unsafe fn lease_at(py: Python<'_>, object: *mut c_void) -> PyResult<Bound<'_, PyLease>> {
    // SAFETY: the contract.
    let object = unsafe { Bound::from_borrowed_ptr(py, object.cast()) };
    Ok(object.cast_into::<PyLease>()?)
}

unsafe extern "C" fn from_py_object(
    object: *mut c_void,
    out: *mut *mut ManagedTensorVersioned,
) -> c_int {
    guard(|py| {
        // SAFETY: the exchange API passes live objects.
        let lease = unsafe { lease_at(py, object) }?.get().held()?;
        let (handed, device) = faces::prepare_unordered(py, &lease)?;
        let to = Receiver { who: CONSUMER.get(), device, sample: None };
        // SAFETY: the exchange API passes a place to write to.
        unsafe { out.write(export::dlpack::to_versioned(handed.lease(), to, false)) };
        Ok(())
    })
}

unsafe extern "C" fn to_py_object(
    tensor: *mut ManagedTensorVersioned,
    out: *mut *mut c_void,
) -> c_int {
    guard(|py| {
        // SAFETY: the exchange API hands the tensor over; a refused one is released.
        let lease = unsafe {
            import::dlpack::take_versioned_by(
                tensor,
                release_versioned_tensor,
                on_current,
                PRODUCER.get(),
            )
        }
        .map_err(raise)?;
        let object = PyLease::new(lease).publish(py)?;
        // SAFETY: the exchange API passes a place to write to.
        unsafe { out.write(object.into_ptr().cast()) };
        Ok(())
    })
}

unsafe extern "C" fn tensor_from_py_object(object: *mut c_void, out: *mut Tensor) -> c_int {
    guard(|py| {
        // SAFETY: the exchange API passes live objects.
        let object = unsafe { lease_at(py, object) }?;
        let lease = object.get().held()?;
        if lease.view().readonly() {
            // A bare tensor has no flags to say so.
            let consumer = "DLPack's bare tensor".into();
            return Err(raise(gpulend::ExportError::ReadOnly { consumer }));
        }
        let (_handed, device) = faces::prepare_unordered(py, &lease)?;
        // The consumer does not say when it is done with it.
        lease.used_somewhere_always().map_err(raise)?;
        // The tensor points into the lease and has no deleter: the lease must live as long as the object.
        object.get().expose();
        // SAFETY: the exchange API passes a place to write to.
        unsafe { out.write(export::dlpack::show(&lease, device)) };
        Ok(())
    })
}

unsafe extern "C" fn current_work_stream(
    device: DeviceCode,
    index: i32,
    out: *mut *mut c_void,
) -> c_int {
    let stream = match (device, u8::try_from(index)) {
        // Host memory has no streams.
        (DeviceCode::CPU, _) => 0,
        (DeviceCode::CUDA, Ok(index)) => current(index).handle().0,
        _ => return guard(|_py| Err(raise(gpulend::DeviceError::UnknownCode { code: device.0 }))),
    };
    // SAFETY: the exchange API passes a place to write to.
    unsafe { out.write(ptr::without_provenance_mut(stream)) };
    0
}

/// Allocates host memory. Needs no Python, as the exchange API asks.
unsafe extern "C" fn allocate(
    prototype: *mut Tensor,
    out: *mut *mut ManagedTensorVersioned,
    error_context: *mut c_void,
    set_error: Option<SetError>,
) -> c_int {
    let made = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the exchange API passes an initialised prototype.
        let prototype = unsafe { &*prototype };
        // SAFETY: as above.
        unsafe { export::dlpack::allocate(prototype, CONSUMER.get()) }
    }));
    let (kind, message) = match made {
        Ok(Ok(lease)) => {
            let tensor =
                export::dlpack::to_versioned(&lease, Receiver::of_host(CONSUMER.get()), false);
            // SAFETY: the exchange API passes a place to write to.
            unsafe { out.write(tensor) };
            return 0;
        }
        Ok(Err(error @ gpulend::Error::OutOfMemory { .. })) => (c"MemoryError", error.to_string()),
        Ok(Err(error)) => (c"ValueError", error.explained(hints::words)),
        Err(_) => (c"RuntimeError", "bug: a panic reached the allocator".to_owned()),
    };
    if let Some(set_error) = set_error {
        let message = CString::new(message).unwrap_or_default();
        // SAFETY: the exchange API passes a function for this, called once and only on failure.
        unsafe { set_error(error_context, kind.as_ptr(), message.as_ptr()) };
    }
    -1
}
