//! `gpulend.Device`.

use gpulend::{Device, DeviceError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyString};

use crate::errors::{raise, raise_with};
use crate::hints;

/// Where memory lies: `cpu`, `cuda:0`, `opencl:0`. Compares equal to its name. A number is a CUDA device.
///
/// >>> import gpulend
/// >>> gpulend.Device("cuda").index
/// 0
/// >>> gpulend.Device("cpu") == "cpu"
/// True
#[pyclass(frozen, name = "Device", module = "gpulend")]
pub(crate) struct PyDevice(pub(crate) Device);

#[pymethods]
impl PyDevice {
    #[new]
    #[pyo3(signature = (name, /))]
    fn new(name: &Bound<'_, PyAny>) -> PyResult<Self> {
        parse(name).map(Self)
    }

    /// The kind: "cpu", "cuda" or "opencl".
    #[getter]
    fn kind(&self) -> &'static str {
        self.0.kind().name()
    }

    /// Which one of its kind.
    #[getter]
    fn index(&self) -> u8 {
        self.0.index()
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        format!("gpulend.Device('{}')", self.0)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        // No number: that would hash as another.
        read(other).is_ok_and(|other| other == Ok(self.0))
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        // Equal to its name, so it must hash as its name.
        PyString::new(py, &self.0.to_string()).hash()
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> (Bound<'py, PyAny>, (String,)) {
        (py.get_type::<Self>().into_any(), (self.0.to_string(),))
    }
}

/// Reads a device: ours, a string, the number of a CUDA device, or an object whose `str` is one, as torch's.
pub(crate) fn parse(object: &Bound<'_, PyAny>) -> PyResult<Device> {
    let number = object.hasattr(intern!(object.py(), "__index__"))?;
    if number && !object.is_instance_of::<PyBool>() {
        let number = object.call_method0(intern!(object.py(), "__index__"))?;
        return format!("cuda:{number}").parse().map_err(raise);
    }
    named(object)
}

/// The same, but for numbers. The error suggests a name that is near.
fn named(object: &Bound<'_, PyAny>) -> PyResult<Device> {
    read(object)?.map_err(|error| {
        let near = suggestion(object).ok().flatten();
        raise_with(error, |hint| match near {
            Some(near) => format!("did you mean '{near}'? {}", hints::words(hint)),
            None => hints::words(hint),
        })
    })
}

fn read(object: &Bound<'_, PyAny>) -> PyResult<Result<Device, DeviceError>> {
    if let Ok(device) = object.cast::<PyDevice>() {
        return Ok(Ok(device.get().0));
    }
    Ok(object.str()?.to_cow()?.parse())
}

fn suggestion(object: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    let module = object.py().import(intern!(object.py(), "gpulend._suggestions"))?;
    module.call_method1(intern!(object.py(), "device"), (object.str()?,))?.extract()
}
