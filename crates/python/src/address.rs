//! Addresses from whatever people hold them in.

use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::PyInt;

use crate::errors::{BAD_ARGUMENT, NO_ADDRESS, caused, refused};
use crate::fast_path::small_integer;

/// An address, and the element type its pointer names, if it names one.
pub(crate) fn resolve<'py>(
    object: &Bound<'py, PyAny>,
) -> PyResult<(u64, Option<Bound<'py, PyAny>>)> {
    let py = object.py();
    if let Ok(number) = object.cast::<PyInt>() {
        return Ok((to_address(number)?, None));
    }
    let (number, dtype): (Bound<'py, PyAny>, Bound<'py, PyAny>) =
        py.import("gpulend._pointers")?.call_method1("resolve", (object,))?.extract()?;
    let number = number.cast::<PyInt>().map_err(|_| {
        let found = object.get_type().name().map_or_else(|_| "?".into(), |name| name.to_string());
        let message = format!(
            "{found} is not an address; pass an int, a ctypes pointer or an object with __int__"
        );
        refused(message, BAD_ARGUMENT)
    })?;
    Ok((to_address(number)?, (!dtype.is_none()).then_some(dtype)))
}

fn to_address(number: &Bound<'_, PyInt>) -> PyResult<u64> {
    if let Some(address) = small_integer(number).and_then(|value| u64::try_from(value).ok()) {
        return Ok(address);
    }
    number.extract::<u64>().map_err(|error| {
        let py = number.py();
        if !error.is_instance_of::<PyOverflowError>(py) {
            return error;
        }
        let message = format!(
            "{number} is not an address: addresses are between 0 and 2**64 - 1; a function of ctypes without \
             restype = c_void_p returns such numbers"
        );
        caused(py, refused(message, NO_ADDRESS), error)
    })
}
