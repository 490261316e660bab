//! Export by `__array_interface__` and buffers: the fields of the dict or the `Py_buffer`.
#![forbid(unsafe_code)]

use crate::error::ExportError;
use crate::view::View;

/// Strides in bytes, as both protocols count them.
#[must_use]
pub fn byte_strides(view: &View) -> Vec<i64> {
    let itemsize = i64::from(view.dtype().itemsize());
    let canonical = view.layout().canonical();
    canonical.strides().iter().map(|stride| stride.saturating_mul(itemsize)).collect()
}

/// The typestr for the named protocol, `__array_interface__` or `__cuda_array_interface__`.
///
/// # Errors
///
/// If NumPy has no name for the type.
pub fn typestr(view: &View, protocol: &str) -> Result<&'static str, ExportError> {
    view.dtype().typestr().ok_or_else(|| no_type(view, protocol))
}

/// The format for the buffer protocol.
///
/// # Errors
///
/// If the `struct` module has no letter for the type.
pub fn format(view: &View) -> Result<&'static std::ffi::CStr, ExportError> {
    view.dtype().buffer_format().ok_or_else(|| no_type(view, "the buffer protocol"))
}

fn no_type(view: &View, consumer: &str) -> ExportError {
    let (dtype, bits_as) = (view.dtype().name().into(), view.dtype().bits_as());
    ExportError::Type { consumer: consumer.into(), dtype, bits_as }
}
