//! How the arguments of a generated kernel lie: `elementwise` and `reduction` find by that what they worked out before.

use gpulend::import::raw::ViewRef;
use gpulend::{Device, DeviceKind, Dtype};
use pyo3::PyTypeInfo;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyComplex, PyFloat, PyInt, PyTuple};
use smallvec::SmallVec;

use crate::arguments::is_number;
use crate::borrowing::borrow_unordered;
use crate::cupy::Described;
use crate::lease::PyLease;
use crate::routes::{Route, last_producer, producer_of};
use crate::torch::{self, Use};

/// The layouts of arguments; nothing waits for them.
///
/// Of a number it is the class. Of an array it is bytes, which are equal where the layouts are: words of 64 bits, the index of
/// the GPU or -1 and the number of axes, the shape and the strides in elements, then the name of the element type.
#[pyfunction]
#[pyo3(signature = (arguments, /))]
pub(crate) fn layouts_of<'py>(arguments: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyTuple>> {
    let layouts: PyResult<SmallVec<[Bound<'py, PyAny>; 8]>> =
        arguments.as_slice().iter().map(layout_of).collect();
    PyTuple::new(arguments.py(), layouts?)
}

fn layout_of<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let (py, class) = (object.py(), object.get_type_ptr());
    if class == PyLease::type_object_raw(py) {
        return written_of_lease(object);
    }
    let producer = match last_producer(class) {
        // Of a framework, and so no number.
        Some(producer) if producer.route.runs_no_code() => producer,
        _ if is_plain_number(object) || is_number(object)? => {
            return Ok(object.get_type().into_any());
        }
        _ => producer_of(object)?,
    };
    match producer.route {
        Route::Cupy(reader) => {
            if let Some(described) = Described::of(object, reader)? {
                return Ok(written_view(py, &described.view()));
            }
        }
        Route::Torch(torch) => {
            if let Some(view) = torch::view(object, torch, Use::Unchecked, || ())? {
                return Ok(written_view(py, &view));
            }
        }
        _ => {}
    }
    written_of_lease(object)
}

/// Whether an object is a number of Python's own.
fn is_plain_number(object: &Bound<'_, PyAny>) -> bool {
    object.is_exact_instance_of::<PyInt>()
        || object.is_exact_instance_of::<PyFloat>()
        || object.is_exact_instance_of::<PyBool>()
        || object.is_exact_instance_of::<PyComplex>()
}

/// The layout of an array that is borrowed for that, or of a lease.
fn written_of_lease<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let lease = borrow_unordered(object, Use::Unchecked)?;
    let view = lease.view();
    let layout = view.layout();
    Ok(written(object.py(), view.device(), layout.shape(), layout.strides(), view.dtype()))
}

fn written_view<'py>(py: Python<'py>, view: &ViewRef<'_>) -> Bound<'py, PyAny> {
    written(py, view.place.0, view.shape, view.strides, view.dtype)
}

fn written<'py>(
    py: Python<'py>,
    device: Device,
    shape: &[i64],
    strides: &[i64],
    dtype: Dtype,
) -> Bound<'py, PyAny> {
    let index = match device.kind() {
        DeviceKind::Cuda => i64::from(device.index()),
        _ => -1,
    };
    let mut bytes: SmallVec<[u8; 128]> = SmallVec::new();
    for word in [index, shape.len().cast_signed() as i64].iter().chain(shape).chain(strides) {
        bytes.extend_from_slice(&word.to_ne_bytes());
    }
    bytes.extend_from_slice(dtype.name().as_bytes());
    PyBytes::new(py, &bytes).into_any()
}
