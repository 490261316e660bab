//! `__array_interface__` and `__cuda_array_interface__`: dicts in, a dict out.

use gpulend::import::array_interface::{Description, Interface};
use gpulend::stream::Stream;
use gpulend::{View, export};
use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::{PyKeyError, PyOverflowError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping, PyTuple};

use crate::errors::{BAD_ARGUMENT, caused, is_gpulends, raise, refused};
use crate::wrap::Extents;

/// Reads the dict behind an attribute. Every field is taken once, to be checked by the core.
pub(crate) fn describe(dict: &Bound<'_, PyAny>, interface: Interface) -> PyResult<Description> {
    let reader = Reader { dict: dict.cast::<PyMapping>().ok(), name: interface.name() };
    Ok(Description {
        interface,
        version: reader.required("version")?,
        typestr: reader.required::<String>("typestr")?.into(),
        shape: reader.required("shape").map(|Extents(shape)| shape)?,
        strides: reader.optional("strides")?.map(|Extents(strides)| strides),
        data: reader.data()?,
        masked: reader.present("mask")?,
        stream: reader.optional("stream")?,
    })
}

struct Reader<'a, 'py> {
    dict: Option<&'a Bound<'py, PyMapping>>,
    name: &'static str,
}

impl<'py> Reader<'_, 'py> {
    fn get(&self, key: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(dict) = self.dict else {
            return Err(refused(format!("{} is not a dict", self.name), BAD_ARGUMENT));
        };
        match dict.get_item(key) {
            Ok(value) if value.is_none() => Ok(None),
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is_instance_of::<PyKeyError>(dict.py()) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn optional<T>(&self, key: &str) -> PyResult<Option<T>>
    where
        T: FromPyObjectOwned<'py>,
    {
        let Some(value) = self.get(key)? else { return Ok(None) };
        let read: Result<T, _> = value.extract();
        read.map(Some).map_err(|error| self.wrong(key, &value, error.into()))
    }

    fn required<T>(&self, key: &str) -> PyResult<T>
    where
        T: FromPyObjectOwned<'py>,
    {
        self.optional(key)?.ok_or_else(|| self.missing(key))
    }

    fn present(&self, key: &str) -> PyResult<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// `data` is an address and a flag, or in the oldest version an address alone.
    fn data(&self) -> PyResult<(u64, bool)> {
        let value = self.get("data")?.ok_or_else(|| self.missing("data"))?;
        if let Ok(pair) = value.cast::<PyTuple>() {
            return pair.extract().map_err(|error| self.wrong("data", &value, error));
        }
        value
            .extract()
            .map(|address| (address, false))
            .map_err(|error| self.wrong("data", &value, error))
    }

    fn missing(&self, key: &str) -> PyErr {
        refused(format!("{}: {key:?} is missing", self.name), BAD_ARGUMENT)
    }

    fn wrong(&self, key: &str, value: &Bound<'_, PyAny>, cause: PyErr) -> PyErr {
        let py = value.py();
        if is_gpulends(py, &cause) {
            return cause;
        }
        let kind = value.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
        let range = if cause.is_instance_of::<PyOverflowError>(py) { " out of range" } else { "" };
        let message = format!("{}: {key:?} is a {kind}{range} that cannot be read", self.name);
        caused(py, refused(message, BAD_ARGUMENT), cause)
    }
}

/// Writes the dict: for the host's memory, or with a stream for a device's.
pub(crate) fn write<'py>(
    py: Python<'py>,
    view: &View,
    stream: Option<&Stream>,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("version", 3)?;
    let protocol = if stream.is_some() { Interface::Cuda } else { Interface::Array }.name();
    dict.set_item("typestr", export::array_interface::typestr(view, protocol).map_err(raise)?)?;
    dict.set_item("shape", PyTuple::new(py, view.layout().shape())?)?;
    let strides = export::array_interface::byte_strides(view);
    dict.set_item("strides", PyTuple::new(py, strides)?)?;
    let address = if view.layout().is_empty() && stream.is_some() { 0 } else { view.address() };
    dict.set_item("data", (address, view.readonly()))?;
    if let Some(stream) = stream {
        dict.set_item("stream", stream.handle().0)?;
    }
    Ok(dict)
}
