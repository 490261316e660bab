//! Core errors as Python exceptions: the one place where they meet.

use gpulend::Error;
use pyo3::prelude::*;

use crate::compiler::remark;

pyo3::import_exception!(gpulend.exceptions, LayoutError);
pyo3::import_exception!(gpulend.exceptions, OutOfRangeError);
pyo3::import_exception!(gpulend.exceptions, ProtocolError);
pyo3::import_exception!(gpulend.exceptions, ExportError);
pyo3::import_exception!(gpulend.exceptions, AddressError);
pyo3::import_exception!(gpulend.exceptions, ReleasedError);
pyo3::import_exception!(gpulend.exceptions, StillLentError);
pyo3::import_exception!(gpulend.exceptions, CompileError);
pyo3::import_exception!(gpulend.exceptions, KernelError);
pyo3::import_exception!(gpulend.exceptions, SignatureError);
pyo3::import_exception!(gpulend.exceptions, NoDeviceError);
pyo3::import_exception!(gpulend.exceptions, DriverError);
pyo3::import_exception!(gpulend.exceptions, OutOfMemoryError);

/// Imports the classes when the module is loaded. pyo3 imports them at first use, and panics if that fails, as it does at
/// the recursion limit.
pub(crate) fn import(py: Python<'_>) -> PyResult<()> {
    py.import("gpulend.exceptions")?;
    let _found = [
        LayoutError::type_object_raw(py),
        OutOfRangeError::type_object_raw(py),
        ProtocolError::type_object_raw(py),
        ExportError::type_object_raw(py),
        AddressError::type_object_raw(py),
        ReleasedError::type_object_raw(py),
        StillLentError::type_object_raw(py),
        CompileError::type_object_raw(py),
        KernelError::type_object_raw(py),
        SignatureError::type_object_raw(py),
        NoDeviceError::type_object_raw(py),
        DriverError::type_object_raw(py),
        OutOfMemoryError::type_object_raw(py),
    ];
    Ok(())
}

/// Codes of refusals that only Python can meet begin at 50 of each hundred; the core's end before.
pub(crate) const NO_PROTOCOL: u32 = 250;
pub(crate) const PRODUCER_RAISED: u32 = 251;
pub(crate) const BAD_CAPSULE: u32 = 252;
pub(crate) const BAD_ARGUMENT: u32 = 253;
pub(crate) const NO_ADDRESS: u32 = 450;
pub(crate) const MEANING_LOST: u32 = 350;
pub(crate) const NOT_ZERO_COPY: u32 = 351;

/// Says a core error in Python.
pub(crate) fn raise(error: impl Into<Error>) -> PyErr {
    let error = error.into();
    let arguments = (error.to_string(), error.code());
    match error {
        Error::Layout(
            gpulend::LayoutError::Index { .. } | gpulend::LayoutError::TooManyIndices { .. },
        ) => OutOfRangeError::new_err(arguments),
        Error::Layout(_) => LayoutError::new_err(arguments),
        Error::Protocol(_) => ProtocolError::new_err(arguments),
        Error::Export(_) => ExportError::new_err(arguments),
        Error::Address(_) => AddressError::new_err(arguments),
        Error::Released => ReleasedError::new_err(arguments),
        Error::StillLent { .. } => StillLentError::new_err(arguments),
        Error::Compile(ref found) => {
            let said: Vec<_> = found.diagnostics().iter().map(remark).collect();
            CompileError::new_err((arguments.0, arguments.1, said))
        }
        Error::Kernel(_) => KernelError::new_err(arguments),
        Error::Signature(_) => SignatureError::new_err(arguments),
        Error::NoDevice(_) => NoDeviceError::new_err(arguments),
        Error::Driver(_) => DriverError::new_err(arguments),
        _ => OutOfMemoryError::new_err(arguments),
    }
}

/// A protocol error of the binding's own.
pub(crate) fn protocol(message: String, code: u32) -> PyErr {
    ProtocolError::new_err((message, code))
}

/// A refusal to hand something out, of the binding's own.
pub(crate) fn export(message: String, code: u32) -> PyErr {
    ExportError::new_err((message, code))
}

/// Whether an error is a refusal that an adapter of ours worded.
pub(crate) fn is_ours(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<ExportError>(py)
        || error.is_instance_of::<ProtocolError>(py)
        || error.is_instance_of::<AddressError>(py)
}

/// `error`, caused by what foreign Python code raised.
pub(crate) fn caused(py: Python<'_>, error: PyErr, cause: PyErr) -> PyErr {
    error.set_cause(py, Some(cause));
    error
}
