//! Core errors and the binding's own refusals as Python exceptions.

use gpulend::Error as CoreError;
use gpulend::codes::{self, Class, Code};
use gpulend::hint::Hint;
use pyo3::exceptions::{
    PyException, PyMemoryError, PyOverflowError, PyRecursionError, PyTypeError, PyValueError,
};
use pyo3::prelude::*;

use crate::compiler::remark;
use crate::hints;

pyo3::import_exception!(gpulend.exceptions, Error);
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
pyo3::import_exception!(gpulend.exceptions, TicketError);
pyo3::import_exception!(gpulend.exceptions, TicketVersionError);
pyo3::import_exception!(gpulend.exceptions, TicketExpiredError);
pyo3::import_exception!(gpulend.exceptions, LenderGoneError);
pyo3::import_exception!(gpulend.exceptions, WrongMachineError);
pyo3::import_exception!(gpulend.exceptions, DeviceNotVisibleError);
pyo3::import_exception!(gpulend.exceptions, NotShareableError);
pyo3::import_exception!(gpulend.exceptions, NotPermittedError);

/// Imports the classes when the module is loaded. pyo3 imports them at first use, and panics if that fails, as it does at
/// the recursion limit.
pub(crate) fn import(py: Python<'_>) -> PyResult<()> {
    py.import("gpulend.exceptions")?;
    let _found = [
        Error::type_object_raw(py),
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
        TicketError::type_object_raw(py),
        TicketVersionError::type_object_raw(py),
        TicketExpiredError::type_object_raw(py),
        LenderGoneError::type_object_raw(py),
        WrongMachineError::type_object_raw(py),
        DeviceNotVisibleError::type_object_raw(py),
        NotShareableError::type_object_raw(py),
        NotPermittedError::type_object_raw(py),
    ];
    Ok(())
}

pub(crate) use gpulend::codes::{
    ARGUMENT_COUNT, BAD_ARGUMENT, BAD_CAPSULE, MEANING_LOST, NO_ADDRESS, NO_PROTOCOL, NOT_KEPT,
    NOT_MAPPED, NOT_NUMBERS, PRODUCER_RAISED,
};

/// The table of codes, for the Python half: number, name, class and meaning of each.
pub(crate) fn table() -> Vec<(u32, &'static str, &'static str, &'static str)> {
    codes::ALL
        .iter()
        .map(|code| (code.number, code.name, code.class.name(), code.meaning))
        .collect()
}

/// A core error as a Python exception.
pub(crate) fn raise(error: impl Into<CoreError>) -> PyErr {
    raise_with(error, hints::words)
}

/// As [`raise`], with the hint in words of the caller's.
pub(crate) fn raise_with(
    error: impl Into<CoreError>,
    words: impl FnOnce(Hint<'_>) -> String,
) -> PyErr {
    let error = error.into();
    let text = error.explained(words);
    if let CoreError::Compile(found) = &error {
        let said: Vec<_> = found.diagnostics().iter().map(remark).collect();
        return CompileError::new_err((text, error.code(), said));
    }
    exception(error.class(), (text, error.code()))
}

/// A refusal of the binding's own: the code has its class.
pub(crate) fn refused(message: String, code: Code) -> PyErr {
    exception(code.class, (message, code.number))
}

fn exception(class: Class, arguments: (String, u32)) -> PyErr {
    match class {
        Class::Error => Error::new_err(arguments),
        Class::Layout => LayoutError::new_err(arguments),
        Class::OutOfRange => OutOfRangeError::new_err(arguments),
        Class::Protocol => ProtocolError::new_err(arguments),
        Class::Export => ExportError::new_err(arguments),
        Class::Address => AddressError::new_err(arguments),
        Class::Released => ReleasedError::new_err(arguments),
        Class::StillLent => StillLentError::new_err(arguments),
        Class::Compile => CompileError::new_err(arguments),
        Class::Kernel => KernelError::new_err(arguments),
        Class::Signature => SignatureError::new_err(arguments),
        Class::NoDevice => NoDeviceError::new_err(arguments),
        Class::Driver => DriverError::new_err(arguments),
        Class::OutOfMemory => OutOfMemoryError::new_err(arguments),
        Class::Ticket => TicketError::new_err(arguments),
        Class::TicketVersion => TicketVersionError::new_err(arguments),
        Class::TicketExpired => TicketExpiredError::new_err(arguments),
        Class::LenderGone => LenderGoneError::new_err(arguments),
        Class::WrongMachine => WrongMachineError::new_err(arguments),
        Class::DeviceNotVisible => DeviceNotVisibleError::new_err(arguments),
        Class::NotShareable => NotShareableError::new_err(arguments),
        Class::NotPermitted => NotPermittedError::new_err(arguments),
    }
}

/// Whether an error is a refusal that an adapter of ours worded.
pub(crate) fn is_ours(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<ExportError>(py)
        || error.is_instance_of::<ProtocolError>(py)
        || error.is_instance_of::<AddressError>(py)
}

/// Whether an error is one of gpulend's.
pub(crate) fn is_gpulends(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<Error>(py)
}

/// Whether an error is a failure of the code that raised it: interrupts, exits, `RecursionError` and `MemoryError` are not, and
/// are passed on unchanged.
pub(crate) fn is_failure(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyException>(py)
        && !error.is_instance_of::<PyRecursionError>(py)
        && !error.is_instance_of::<PyMemoryError>(py)
}

/// Whether an error says that an object is not the number that is wanted. Other errors of `__index__` are passed on unchanged.
pub(crate) fn is_no_number(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyTypeError>(py)
        || error.is_instance_of::<PyValueError>(py)
        || error.is_instance_of::<PyOverflowError>(py)
}

/// `error`, caused by what foreign Python code raised.
pub(crate) fn caused(py: Python<'_>, error: PyErr, cause: PyErr) -> PyErr {
    error.set_cause(py, Some(cause));
    error
}
