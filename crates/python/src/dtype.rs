//! `gpulend.Dtype`, and element types from whatever people write.

use gpulend::fork::ProcessLock;
use gpulend::{Dtype, LayoutError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyFloat, PyInt, PyString, PyType};

use crate::errors::raise;

/// An element type. Compares equal to its name and to the same type of NumPy, torch or ctypes.
///
/// >>> import gpulend
/// >>> gpulend.Dtype("<f4")
/// gpulend.Dtype('float32')
/// >>> gpulend.Dtype("bfloat16").bits, gpulend.Dtype("bfloat16").code
/// (16, 4)
/// >>> gpulend.Dtype("float32") == "float32"
/// True
#[pyclass(frozen, name = "Dtype", module = "gpulend")]
pub(crate) struct PyDtype(pub(crate) Dtype);

#[pymethods]
impl PyDtype {
    #[new]
    #[pyo3(signature = (name, /, *, padded = false))]
    fn new(name: &Bound<'_, PyAny>, padded: bool) -> PyResult<Self> {
        let dtype = parse(name)?;
        Ok(Self(if padded { dtype.padded() } else { dtype }))
    }

    /// The name, as NumPy and ml_dtypes spell it.
    #[getter]
    fn name(&self) -> &'static str {
        self.0.name()
    }

    /// DLPack's type code.
    #[getter]
    fn code(&self) -> u8 {
        self.0.code()
    }

    /// Bits of one element.
    #[getter]
    fn bits(&self) -> u8 {
        self.0.bits()
    }

    /// Elements of one vector: always 1.
    #[getter]
    fn lanes(&self) -> u16 {
        1
    }

    /// Bytes of one element; 1 for packed types of less than a byte.
    #[getter]
    fn itemsize(&self) -> u8 {
        self.0.itemsize()
    }

    /// Whether each element of less than a byte fills a byte of its own.
    #[getter]
    fn padded(&self) -> bool {
        self.0.is_padded()
    }

    fn __str__(&self) -> &'static str {
        self.0.name()
    }

    fn __repr__(&self) -> String {
        let padded = if self.0.is_padded() { ", padded=True" } else { "" };
        format!("gpulend.Dtype('{}'{padded})", self.0.name())
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        parse(other).is_ok_and(|other| other == self.0)
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        // Equal to its name, so it must hash as its name.
        PyString::new(py, self.0.name()).hash()
    }

    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, (&'static str, bool))> {
        let rebuild = py.import("gpulend")?.getattr("_rebuild_dtype")?;
        Ok((rebuild, (self.0.name(), self.0.is_padded())))
    }
}

/// Reads an element type: a name, one of ours, or a type or dtype object of another library.
pub(crate) fn parse(object: &Bound<'_, PyAny>) -> PyResult<Dtype> {
    if let Ok(name) = object.cast::<PyString>() {
        return parse_name(name);
    }
    if let Ok(dtype) = object.cast::<PyDtype>() {
        return Ok(dtype.get().0);
    }
    if let Ok(class) = object.cast::<PyType>() {
        return parse_class(class);
    }
    // NumPy's dtype: `str` knows the byte order, `name` the types of ml_dtypes.
    if let (Ok(typestr), Ok(name)) = (object.getattr("str"), object.getattr("name")) {
        let typestr: String = typestr.extract()?;
        return match typestr.parse::<Dtype>() {
            Err(LayoutError::UnknownName { .. }) => {
                let name: String = name.extract()?;
                // NumPy stores each element in bytes of its own.
                name.parse::<Dtype>().map(Dtype::padded).map_err(raise)
            }
            other => other.map_err(raise),
        };
    }
    // torch's dtypes are known by their `str`.
    object.str()?.to_cow()?.parse().map_err(raise)
}

/// The name that came last, which is kept, and its type: programs name one type again and again, by one object.
static LAST: ProcessLock<Option<(Py<PyString>, Dtype)>> = ProcessLock::new(None);

fn parse_name(name: &Bound<'_, PyString>) -> PyResult<Dtype> {
    let last = LAST.lock().as_ref().filter(|(last, _)| last.is(name)).map(|(_, dtype)| *dtype);
    if let Some(dtype) = last {
        return Ok(dtype);
    }
    let dtype = name.to_cow()?.parse().map_err(raise)?;
    // A name may be of a class of the program's own, whose end runs its code: that must not be under the lock.
    if name.is_exact_instance_of::<PyString>() {
        let former = LAST.lock().replace((name.clone().unbind(), dtype));
        drop(former);
    }
    Ok(dtype)
}

/// Python's own number types mean what NumPy means by them; others are known by their name.
fn parse_class(class: &Bound<'_, PyType>) -> PyResult<Dtype> {
    let py = class.py();
    let builtins = [
        (py.get_type::<PyBool>(), "bool"),
        (py.get_type::<PyInt>(), "int64"),
        (py.get_type::<PyFloat>(), "float64"),
        (py.get_type::<PyComplex>(), "complex128"),
    ];
    for (builtin, name) in builtins {
        if class.is(&builtin) {
            return name.parse().map_err(raise);
        }
    }
    class.name()?.to_cow()?.parse().map_err(raise)
}
