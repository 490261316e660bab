//! Arrays of our own: `empty`, `zeros`, `full`, `empty_like`, `zeros_like`, `from_host`; and how much memory there is.

use gpulend::{Device, DeviceKind, Dtype, Lease, copy, ledger::Name, pool};
use pyo3::intern;
use pyo3::prelude::*;

use crate::borrowing::{borrow_host, borrow_unordered};
use crate::errors::raise;
use crate::lease::PyLease;
use crate::torch::Use;
use crate::{copies, device, dtype, reaper, stream, wrap};

/// Allocate an array whose elements are whatever they are.
///
/// On a GPU the memory comes from gpulend's pool, or from the driver's, in the order of the current stream. `device` is the one of the
/// stream entered last, or `cuda:0`, if none is named; `cpu` gives host memory, zeroed. `shared` memory is of a kind that other
/// processes can open by a ticket: on the host a forked child shares it too; on a GPU gpulend's pool is used even where it is off.
///
/// >>> import gpulend
/// >>> a = gpulend.empty((2, 3), "float32", device="cuda:0")
/// >>> a.shape, str(a.device), a.nbytes
/// ((2, 3), 'cuda:0', 24)
#[pyfunction]
#[pyo3(signature = (shape, dtype = None, device = None, *, shared = false))]
pub(crate) fn empty<'py>(
    py: Python<'py>,
    shape: &Bound<'py, PyAny>,
    dtype: Option<&Bound<'py, PyAny>>,
    device: Option<&Bound<'py, PyAny>>,
    shared: bool,
) -> PyResult<Bound<'py, PyLease>> {
    let shape = wrap::extents(shape, "shape")?;
    let lease = allocate(py, &shape, (element(dtype)?, place(device)?), shared)?;
    PyLease::new(lease).publish(py)
}

/// Allocate an array of zeros.
///
/// >>> import gpulend
/// >>> gpulend.zeros(3, "int32").to_host()
/// array([0, 0, 0], dtype=int32)
#[pyfunction]
#[pyo3(signature = (shape, dtype = None, device = None, *, shared = false))]
pub(crate) fn zeros<'py>(
    py: Python<'py>,
    shape: &Bound<'py, PyAny>,
    dtype: Option<&Bound<'py, PyAny>>,
    device: Option<&Bound<'py, PyAny>>,
    shared: bool,
) -> PyResult<Bound<'py, PyLease>> {
    let made = empty(py, shape, dtype, device, shared)?;
    clear(py, &made.get().held()?)?;
    Ok(made)
}

/// Allocate an array in which every element is `value`.
///
/// >>> import gpulend
/// >>> gpulend.full((2, 2), 1.5, "float64").to_host()
/// array([[1.5, 1.5],
///        [1.5, 1.5]])
#[pyfunction]
#[pyo3(signature = (shape, value, dtype = None, device = None, *, shared = false))]
pub(crate) fn full<'py>(
    py: Python<'py>,
    shape: &Bound<'py, PyAny>,
    value: &Bound<'py, PyAny>,
    dtype: Option<&Bound<'py, PyAny>>,
    device: Option<&Bound<'py, PyAny>>,
    shared: bool,
) -> PyResult<Bound<'py, PyLease>> {
    let bytes = encode(value, element(dtype)?)?;
    let made = empty(py, shape, dtype, device, shared)?;
    fill(py, &made.get().held()?, &bytes)?;
    Ok(made)
}

/// Allocate an array of the shape, element type and device of another: of any framework's.
///
/// >>> import gpulend, numpy as np
/// >>> gpulend.empty_like(np.zeros((4, 5)), device="cuda:0")
/// <gpulend.Lease float64 (4, 5) on cuda:0 at 0x...>
#[pyfunction]
#[pyo3(signature = (array, *, dtype = None, device = None, shared = false))]
pub(crate) fn empty_like<'py>(
    py: Python<'py>,
    array: &Bound<'py, PyAny>,
    dtype: Option<&Bound<'py, PyAny>>,
    device: Option<&Bound<'py, PyAny>>,
    shared: bool,
) -> PyResult<Bound<'py, PyLease>> {
    let like = borrow_unordered(array, Use::Read)?;
    let view = like.view();
    let dtype = dtype.map_or(Ok(view.dtype()), dtype::parse)?;
    let device = device.map_or(Ok(view.device()), device::parse)?;
    let lease = allocate(py, view.layout().shape(), (dtype, device), shared)?;
    PyLease::new(lease).publish(py)
}

/// Allocate an array of zeros, of the shape, element type and device of another: of any framework's.
///
/// >>> import gpulend
/// >>> gpulend.zeros_like(gpulend.full(3, 1.5)).to_host()
/// array([0., 0., 0.], dtype=float32)
#[pyfunction]
#[pyo3(signature = (array, *, dtype = None, device = None, shared = false))]
pub(crate) fn zeros_like<'py>(
    py: Python<'py>,
    array: &Bound<'py, PyAny>,
    dtype: Option<&Bound<'py, PyAny>>,
    device: Option<&Bound<'py, PyAny>>,
    shared: bool,
) -> PyResult<Bound<'py, PyLease>> {
    let made = empty_like(py, array, dtype, device, shared)?;
    clear(py, &made.get().held()?)?;
    Ok(made)
}

/// Free and total bytes of a GPU's memory, whichever process uses it: of `device`, or the one of the stream entered last, or
/// `cuda:0`.
///
/// >>> import gpulend
/// >>> free, total = gpulend.mem_get_info()
/// >>> 0 < free <= total
/// True
#[pyfunction]
#[pyo3(signature = (device = None))]
pub(crate) fn mem_get_info(
    py: Python<'_>,
    device: Option<&Bound<'_, PyAny>>,
) -> PyResult<(u64, u64)> {
    let index = stream::index_of(device)?;
    py.detach(|| pool::room(index)).map_err(raise)
}

/// Copy an array of the host to a new one on a GPU.
///
/// A structured array of NumPy's becomes its bytes, with an axis more: kernels take that for a pointer to the struct.
/// `progress` is called as by `Lease.copy_from`.
///
/// >>> import gpulend, numpy as np
/// >>> a = gpulend.from_host(np.arange(3))
/// >>> str(a.device), a.to_host()
/// ('cuda:0', array([0, 1, 2]))
#[pyfunction]
#[pyo3(signature = (array, device = None, *, progress = None, shared = false))]
pub(crate) fn from_host<'py>(
    py: Python<'py>,
    array: &Bound<'py, PyAny>,
    device: Option<&Bound<'py, PyAny>>,
    progress: Option<&Bound<'py, PyAny>>,
    shared: bool,
) -> PyResult<Bound<'py, PyLease>> {
    let source = borrow_host(array, Use::Read)?;
    let view = source.view();
    let target = allocate(py, view.layout().shape(), (view.dtype(), place(device)?), shared)?;
    let manner = copies::Manner { progress, ..copies::Manner::default() };
    copies::move_elements(py, &source, &target, manner)?;
    PyLease::new(target).publish(py)
}

fn element(dtype: Option<&Bound<'_, PyAny>>) -> PyResult<Dtype> {
    dtype.map_or(Ok(Dtype::FLOAT32), dtype::parse)
}

fn place(device: Option<&Bound<'_, PyAny>>) -> PyResult<Device> {
    match device {
        Some(device) => device::parse(device),
        None => Ok(Device::new(DeviceKind::Cuda, stream::index_of(None)?)),
    }
}

fn allocate(
    py: Python<'_>,
    shape: &[i64],
    (dtype, device): (Dtype, Device),
    shared: bool,
) -> PyResult<Lease> {
    reaper::catch_up(py);
    // Where nothing waits, giving the GIL up costs as much as all the rest.
    if device.kind() == DeviceKind::Cuda
        && !shared
        && let Some(made) = pool::empty_at_once(shape, dtype, device).map_err(raise)?
    {
        return Ok(made);
    }
    let made = py.detach(|| match (device.kind(), shared) {
        (DeviceKind::Cpu, false) => Lease::zeros(shape, dtype, Name::intern("gpulend")),
        (DeviceKind::Cpu, true) => Lease::shared(shape, dtype, Name::intern("gpulend")),
        (_, false) => pool::empty(shape, dtype, device),
        (_, true) => pool::empty_shared(shape, dtype, device),
    });
    made.map_err(raise)
}

/// Fills new memory with zeros.
fn clear(py: Python<'_>, lease: &Lease) -> PyResult<()> {
    // The host's comes zeroed.
    if lease.view().device().kind() == DeviceKind::Cpu {
        return Ok(());
    }
    fill(py, lease, &[0])
}

/// The bytes of one element.
pub(crate) fn encode(value: &Bound<'_, PyAny>, dtype: Dtype) -> PyResult<Vec<u8>> {
    let elements = value.py().import(intern!(value.py(), "gpulend._elements"))?;
    elements.call_method1(intern!(value.py(), "encode"), (value, dtype.name()))?.extract()
}

pub(crate) fn fill(py: Python<'_>, lease: &Lease, element: &[u8]) -> PyResult<()> {
    // SAFETY: who else uses the array meanwhile is the Python caller's to know.
    py.detach(|| unsafe { copy::fill(lease, element) }).map_err(raise)
}

/// A copy where the original is.
pub(crate) fn twin(py: Python<'_>, lease: &Lease) -> PyResult<Lease> {
    // SAFETY: who else writes the array meanwhile is the Python caller's to know.
    py.detach(|| unsafe { copy::twin(lease) }).map_err(raise)
}
