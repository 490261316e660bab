//! `lease[…]`: what Python puts between the brackets.

use gpulend::Index;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyEllipsis, PySlice, PyTuple};

use crate::errors::is_no_number;

/// Reads an index: one part, or a tuple of them.
pub(crate) fn read(index: &Bound<'_, PyAny>) -> PyResult<Vec<Index>> {
    match index.cast::<PyTuple>() {
        Ok(tuple) => tuple.iter().map(|part| read_part(&part)).collect(),
        Err(_) => Ok(vec![read_part(index)?]),
    }
}

fn read_part(part: &Bound<'_, PyAny>) -> PyResult<Index> {
    if part.is_none() {
        return Ok(Index::New);
    }
    if part.is_instance_of::<PyEllipsis>() {
        return Ok(Index::Rest);
    }
    if let Ok(slice) = part.cast::<PySlice>() {
        let end = |name| -> PyResult<Option<i64>> {
            let end = slice.getattr(name)?;
            if end.is_none() { Ok(None) } else { saturating(&end).map(Some) }
        };
        return Ok(Index::Slice { start: end("start")?, stop: end("stop")?, step: end("step")? });
    }
    // A bool is an int to Python, and a mask to NumPy.
    let cause = match part.is_instance_of::<PyBool>() {
        true => None,
        false => match saturating(part) {
            Ok(number) => return Ok(Index::At(number)),
            Err(error) if is_no_number(part.py(), &error) => Some(error),
            Err(error) => return Err(error),
        },
    };
    let found = part.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
    let error = PyTypeError::new_err(format!(
        "a lease is indexed by ints, slices, ... and None, not by {found}; \
         lend it to a framework to gather elements"
    ));
    error.set_cause(part.py(), cause);
    Err(error)
}

/// An int, or the end of the range that it lies beyond.
fn saturating(number: &Bound<'_, PyAny>) -> PyResult<i64> {
    number.extract().or_else(|error: PyErr| {
        if !error.is_instance_of::<PyOverflowError>(number.py()) {
            return Err(error);
        }
        Ok(if number.lt(0)? { i64::MIN } else { i64::MAX })
    })
}
