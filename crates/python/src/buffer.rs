//! The buffer protocol: other objects' buffers in, leases out as buffers.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::slice;

use gpulend::import::array_interface::Buffer;
use gpulend::ledger::Name;
use gpulend::{Export, ExportError, Lease, export, import};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::errors::{BAD_ARGUMENT, raise, refused};
use crate::owners::{self, HeldBuffer};

/// Takes an object's buffer, and gives it back when the lease ends.
pub(crate) fn take(object: &Bound<'_, PyAny>, who: Name) -> PyResult<Lease> {
    let mut held = HeldBuffer(Box::new(ffi::Py_buffer::new()));
    let flags = ffi::PyBUF_RECORDS_RO;
    // SAFETY: object and buffer are alive.
    if unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &raw mut *held.0, flags) } != 0 {
        return Err(PyErr::fetch(object.py()));
    }
    let filled = &*held.0;
    let rank = usize::try_from(filled.ndim).unwrap_or(0);
    // SAFETY: an exporter fills `shape` and `strides` with `ndim` numbers when asked for strides.
    let shape = unsafe { numbers(filled.shape, rank) };
    // SAFETY: as above.
    let strides = unsafe { numbers(filled.strides, rank) };
    let format = if filled.format.is_null() {
        None
    } else {
        // SAFETY: a C string that lives until the buffer is given back.
        Some(unsafe { CStr::from_ptr(filled.format) }.to_string_lossy().into_owned())
    };
    let indirect = !filled.suboffsets.is_null();
    let buffer = Buffer {
        address: filled.buf.addr() as u64,
        format: format.as_deref(),
        itemsize: usize::try_from(filled.itemsize).unwrap_or(0),
        shape: shape.as_deref().unwrap_or(&[]),
        strides: strides.as_deref(),
        readonly: filled.readonly != 0,
    };
    let view = buffer.view();
    // Owned before it is judged, so that a refused buffer is given back too.
    let owner = owners::give_back(held);
    if indirect {
        let message = "the buffer's rows are reached through pointers; copy it to a plain array";
        return Err(refused(message.to_owned(), BAD_ARGUMENT));
    }
    let view = view.map_err(raise)?;
    // SAFETY: (1) and (2): an exporter keeps the memory until the buffer is given back, which
    // `owner` does; (3) is the Python caller's, as it is for any two views of one buffer.
    Ok(unsafe { import::raw::wrap(view, owner, who) })
}

/// # Safety
///
/// `first` is null or points to `count` numbers.
unsafe fn numbers(first: *const ffi::Py_ssize_t, count: usize) -> Option<Vec<i64>> {
    if first.is_null() {
        return None;
    }
    // SAFETY: the contract.
    let numbers = unsafe { slice::from_raw_parts(first, count) };
    Some(numbers.iter().map(|&number| number as i64).collect())
}

/// What a buffer we filled keeps alive until it is given back.
struct Given {
    _export: Export,
    shape: Vec<ffi::Py_ssize_t>,
    strides: Vec<ffi::Py_ssize_t>,
}

/// Fills a buffer with a lease.
///
/// # Safety
///
/// 1. `buffer` points to a `Py_buffer` to fill.
/// 2. `object` is the exporter, alive.
pub(crate) unsafe fn give(
    lease: &Lease,
    who: Name,
    object: *mut ffi::PyObject,
    buffer: *mut ffi::Py_buffer,
    flags: c_int,
) -> PyResult<()> {
    let view = lease.view();
    let refuse = |text: &str| Err(PyBufferError::new_err(text.to_owned()));
    let asks = |flag: c_int| flags & flag == flag;
    if asks(ffi::PyBUF_WRITABLE) && view.readonly() {
        return Err(raise(ExportError::ReadOnly { consumer: "a writable buffer".into() }));
    }
    if asks(ffi::PyBUF_C_CONTIGUOUS) && !view.layout().is_compact() {
        return refuse("a C-contiguous buffer was asked for and the lease is strided");
    }
    if asks(ffi::PyBUF_F_CONTIGUOUS) && !view.layout().is_compact_columns() {
        return refuse("a Fortran-contiguous buffer was asked for and the lease is not");
    }
    let contiguous = view.layout().is_compact() || view.layout().is_compact_columns();
    if asks(ffi::PyBUF_ANY_CONTIGUOUS) && !contiguous {
        return refuse("a contiguous buffer was asked for and the lease is strided");
    }
    if !asks(ffi::PyBUF_STRIDES) && !view.layout().is_compact() {
        return refuse("a buffer without strides was asked for and the lease is strided");
    }
    let format = export::array_interface::format(view).map_err(raise)?;
    let narrow = |number: i64| ffi::Py_ssize_t::try_from(number).unwrap_or(0);
    let given = Box::into_raw(Box::new(Given {
        shape: view.layout().shape().iter().copied().map(narrow).collect(),
        strides: export::array_interface::byte_strides(view).into_iter().map(narrow).collect(),
        _export: lease.export(who),
    }));
    // SAFETY: just made, and known to nobody else.
    let dims = unsafe { &mut *given };
    let filled = ffi::Py_buffer {
        buf: ptr::with_exposed_provenance_mut(usize::try_from(view.address()).unwrap_or(0)),
        // SAFETY: (2); `PyBuffer_Release` drops the reference taken here.
        obj: unsafe { ffi::Py_NewRef(object) },
        len: ffi::Py_ssize_t::try_from(view.nbytes()).unwrap_or(0),
        itemsize: ffi::Py_ssize_t::from(view.dtype().itemsize()),
        readonly: c_int::from(view.readonly()),
        ndim: c_int::try_from(view.layout().rank()).unwrap_or(0),
        format: if asks(ffi::PyBUF_FORMAT) { format.as_ptr().cast_mut() } else { ptr::null_mut() },
        shape: if asks(ffi::PyBUF_ND) { dims.shape.as_mut_ptr() } else { ptr::null_mut() },
        strides: if asks(ffi::PyBUF_STRIDES) { dims.strides.as_mut_ptr() } else { ptr::null_mut() },
        suboffsets: ptr::null_mut(),
        internal: given.cast::<c_void>(),
    };
    // SAFETY: (1).
    unsafe { buffer.write(filled) };
    Ok(())
}

/// Ends the export of a buffer that [`give`] filled.
///
/// # Safety
///
/// `buffer` was filled by [`give`] and is released once.
pub(crate) unsafe fn take_back(buffer: *mut ffi::Py_buffer) {
    // SAFETY: the contract.
    let given = unsafe { (*buffer).internal }.cast::<Given>();
    // SAFETY: `give` leaked it there.
    drop(unsafe { Box::from_raw(given) });
}
