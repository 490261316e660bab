//! DLPack's capsules: bare ones in, ours out.

use std::ffi::{CStr, c_void};
use std::ptr;

use gpulend::abi::dlpack::{Header, ManagedTensor, ManagedTensorVersioned};
use gpulend::export::dlpack::Receiver;
use gpulend::ledger::Name;
use gpulend::stream::Ready;
use gpulend::{Lease, export, import};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::errors::{BAD_CAPSULE, raise, refused};
use crate::owners::{release_legacy_tensor, release_versioned_tensor};

// Statically allocated, because a capsule keeps only the pointer.
const VERSIONED: &CStr = c"dltensor_versioned";
const LEGACY: &CStr = c"dltensor";
const USED_VERSIONED: &CStr = c"used_dltensor_versioned";
const USED_LEGACY: &CStr = c"used_dltensor";

/// Takes over the tensor in a capsule and marks the capsule used.
pub(crate) fn take(
    object: &Bound<'_, PyAny>,
    ready: impl FnOnce(u8) -> Ready,
    who: Name,
) -> PyResult<Lease> {
    let Ok(capsule) = object.cast::<PyCapsule>() else {
        let found = object.get_type().name()?;
        let message = format!("__dlpack__ returned a {found}, not a capsule");
        return Err(refused(message, BAD_CAPSULE));
    };
    if let Some(tensor) = consume(capsule, VERSIONED, USED_VERSIONED)? {
        // SAFETY: a capsule of this name holds such a tensor (DLPack, Python specification),
        // and is marked used, so that its destructor leaves the deleter to us.
        return unsafe {
            import::dlpack::take_versioned_by(tensor.cast(), release_versioned_tensor, ready, who)
        }
        .map_err(raise);
    }
    if let Some(tensor) = consume(capsule, LEGACY, USED_LEGACY)? {
        // SAFETY: as above.
        return unsafe {
            import::dlpack::take_legacy_by(tensor.cast(), release_legacy_tensor, ready, who)
        }
        .map_err(raise);
    }
    let message = match name_of(capsule) {
        Some(name) if name == USED_VERSIONED || name == USED_LEGACY => {
            "the capsule was consumed already; each __dlpack__() call gives one to be used once"
                .to_owned()
        }
        Some(name) => {
            format!("the capsule is named {name:?}; wanted \"dltensor\" or \"dltensor_versioned\"")
        }
        None => "the capsule has no name; wanted \"dltensor\" or \"dltensor_versioned\"".to_owned(),
    };
    Err(refused(message, BAD_CAPSULE))
}

/// The pointer in a capsule of that name, which is then renamed.
fn consume(
    capsule: &Bound<'_, PyCapsule>,
    name: &'static CStr,
    used: &'static CStr,
) -> PyResult<Option<*mut c_void>> {
    // SAFETY: the capsule is alive.
    if unsafe { ffi::PyCapsule_IsValid(capsule.as_ptr(), name.as_ptr()) } == 0 {
        return Ok(None);
    }
    // SAFETY: just asked; the pointer is not null.
    let tensor = unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), name.as_ptr()) };
    // SAFETY: the capsule is alive and the name is static.
    if unsafe { ffi::PyCapsule_SetName(capsule.as_ptr(), used.as_ptr()) } != 0 {
        return Err(PyErr::fetch(capsule.py()));
    }
    Ok(Some(tensor))
}

fn name_of(capsule: &Bound<'_, PyCapsule>) -> Option<std::ffi::CString> {
    // SAFETY: the capsule is alive.
    let name = unsafe { ffi::PyCapsule_GetName(capsule.as_ptr()) };
    if name.is_null() {
        // SAFETY: clears the error that a capsule gone bad would have set.
        unsafe { ffi::PyErr_Clear() };
        return None;
    }
    // SAFETY: a capsule's name is a C string that lives as long as the capsule.
    Some(unsafe { CStr::from_ptr(name) }.to_owned())
}

/// Hands a lease out in a versioned capsule.
pub(crate) fn versioned<'py>(
    py: Python<'py>,
    lease: &Lease,
    to: Receiver,
    copied: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let tensor = export::dlpack::to_versioned(lease, to, copied);
    // SAFETY: the tensor is fresh, and so are its header and its deleter.
    let deleter = unsafe { (*tensor.cast::<Header>()).deleter };
    let give_up = move || {
        if let Some(deleter) = deleter {
            // SAFETY: nobody else has seen the tensor.
            unsafe { deleter(tensor) }
        }
    };
    seal(py, tensor.cast(), VERSIONED, drop_versioned, give_up)
}

/// Hands a lease out in a legacy capsule.
pub(crate) fn legacy<'py>(
    py: Python<'py>,
    lease: &Lease,
    to: Receiver,
    consumer: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let tensor = export::dlpack::to_legacy(lease, to, consumer).map_err(raise)?;
    // SAFETY: the tensor is fresh.
    let deleter = unsafe { (*tensor).deleter };
    let give_up = move || {
        if let Some(deleter) = deleter {
            // SAFETY: nobody else has seen the tensor.
            unsafe { deleter(tensor) }
        }
    };
    seal(py, tensor.cast(), LEGACY, drop_legacy, give_up)
}

fn seal<'py>(
    py: Python<'py>,
    tensor: *mut c_void,
    name: &'static CStr,
    destructor: unsafe extern "C" fn(*mut ffi::PyObject),
    give_up: impl FnOnce(),
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the pointer is not null, the name is static.
    let capsule = unsafe { ffi::PyCapsule_New(tensor, name.as_ptr(), Some(destructor)) };
    // SAFETY: a new reference, or null with an exception set.
    let capsule = unsafe { Bound::from_owned_ptr_or_err(py, capsule) };
    if capsule.is_err() {
        give_up();
    }
    capsule
}

/// The tensor of a dying capsule that nobody consumed.
///
/// # Safety
///
/// `capsule` is a capsule in destruction.
unsafe fn unconsumed(capsule: *mut ffi::PyObject, name: &CStr) -> *mut c_void {
    // SAFETY: the contract.
    if unsafe { ffi::PyCapsule_IsValid(capsule, name.as_ptr()) } == 0 {
        return ptr::null_mut();
    }
    // SAFETY: just asked, so no exception is set or disturbed.
    unsafe { ffi::PyCapsule_GetPointer(capsule, name.as_ptr()) }
}

unsafe extern "C" fn drop_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls this from the capsule's destruction.
    let tensor = unsafe { unconsumed(capsule, VERSIONED) }.cast::<ManagedTensorVersioned>();
    if tensor.is_null() {
        return;
    }
    // SAFETY: `versioned` put the tensor there, and nobody consumed it.
    if let Some(deleter) = unsafe { (*tensor).header.deleter } {
        // SAFETY: as above; the capsule dies once.
        unsafe { deleter(tensor) }
    }
}

unsafe extern "C" fn drop_legacy(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls this from the capsule's destruction.
    let tensor = unsafe { unconsumed(capsule, LEGACY) }.cast::<ManagedTensor>();
    if tensor.is_null() {
        return;
    }
    // SAFETY: `legacy` put the tensor there, and nobody consumed it.
    if let Some(deleter) = unsafe { (*tensor).deleter } {
        // SAFETY: as above; the capsule dies once.
        unsafe { deleter(tensor) }
    }
}
