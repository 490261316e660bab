//! `Consumer`: a framework as its adapter describes it, and the lending to it.

use std::mem::MaybeUninit;
use std::ptr;

use gpulend::abi::dlpack::{ExchangeApi, Tensor, TensorFromPyObject, ToPyObject};
use gpulend::export::consumer::Consumer;
use gpulend::{ExportError, Lease, export};
use pyo3::ffi;
use pyo3::prelude::*;

use crate::dtype;
use crate::errors::{NO_PROTOCOL, NOT_ZERO_COPY, caused, export as export_error, protocol, raise};
use crate::lease::PyLease;
use crate::protocols::{exchange_api, type_name};

/// A framework that memory is lent to: what its arrays cannot be, and how one is made.
///
/// `types` are the element types it takes. Where `array` is a type with the DLPack C exchange
/// API, arrays are made through that, else by `make(lease)`. `other` makes what `make` cannot:
/// arrays of element types that are not among `types`, and read-only arrays without elements.
#[pyclass(frozen, name = "Consumer", module = "gpulend._native")]
pub(crate) struct PyConsumer {
    consumer: Consumer,
    table: Option<(ToPyObject, TensorFromPyObject)>,
    make: Py<PyAny>,
    other: Option<Py<PyAny>>,
}

#[pymethods]
impl PyConsumer {
    #[new]
    #[pyo3(signature = (name, *, types, readonly, negative_strides, array, make, other = None))]
    fn new(
        name: &str,
        types: Vec<Bound<'_, PyAny>>,
        readonly: bool,
        negative_strides: bool,
        array: &Bound<'_, PyAny>,
        make: Py<PyAny>,
        other: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let types = types.iter().map(dtype::parse).collect::<PyResult<Vec<_>>>()?;
        let table = match exchange_api(array)? {
            Some(ExchangeApi {
                managed_tensor_to_py_object_no_sync: Some(make),
                dltensor_from_py_object_no_sync: Some(show),
                ..
            }) => Some((*make, *show)),
            _ => None,
        };
        let consumer = Consumer::new(name, types, readonly, negative_strides);
        Ok(Self { consumer, table, make, other })
    }

    /// The framework's name.
    #[getter]
    fn name(&self) -> &str {
        self.consumer.name()
    }

    /// How arrays are made: "DLPack C exchange API" or "DLPack".
    #[getter]
    fn protocol(&self) -> &'static str {
        if self.table.is_some() { "DLPack C exchange API" } else { "DLPack" }
    }

    /// Make the framework's array over a lease, and prove that it is the same memory.
    pub(crate) fn lend<'py>(
        &self,
        lease: &Bound<'py, PyLease>,
        allow_writable_alias: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = lease.py();
        let mut held = lease.get().held()?;
        if allow_writable_alias && held.view().readonly() && !self.consumer.takes_readonly() {
            held = held.as_writable_alias();
        }
        let refused = self.consumer.check(held.view());
        // NumPy makes an array of its own of a tensor without elements, and forgets the flag.
        let unusual = matches!(refused, Err(ExportError::Type { .. }))
            || (held.view().readonly() && held.view().layout().is_empty());
        if let (true, Some(other)) = (unusual, &self.other) {
            return other.bind(py).call1((lease,));
        }
        refused.map_err(raise)?;
        match self.table {
            Some((make, show)) => self.by_table(py, &held, make, show),
            None => {
                let bound = PyLease::bound_for(held.clone(), self.consumer.who());
                let holder = bound.publish(py)?;
                let array = self.make.bind(py).call1((holder,))?;
                prove(&held, &array, address_by_buffer)?;
                Ok(array)
            }
        }
    }
}

impl PyConsumer {
    fn by_table<'py>(
        &self,
        py: Python<'py>,
        lease: &Lease,
        make: ToPyObject,
        show: TensorFromPyObject,
    ) -> PyResult<Bound<'py, PyAny>> {
        let array = export::dlpack::hand_over(lease, self.consumer.who(), |tensor| {
            let mut object = ptr::null_mut();
            // SAFETY: the table's contract: it takes the tensor over and returns a new reference.
            if unsafe { make(tensor, &raw mut object) } != 0 {
                return Err(PyErr::fetch(py));
            }
            // SAFETY: 0 means that there is a new reference.
            Ok(unsafe { Bound::from_owned_ptr(py, object.cast()) })
        })?;
        prove(lease, &array, |array| {
            let mut tensor = MaybeUninit::<Tensor>::uninit();
            // SAFETY: the table is that of this type.
            if unsafe { show(array.as_ptr().cast(), tensor.as_mut_ptr()) } != 0 {
                return Err(PyErr::fetch(py));
            }
            // SAFETY: 0 means that the tensor was filled in.
            let tensor = unsafe { tensor.assume_init() };
            Ok((tensor.data.addr() as u64).wrapping_add(tensor.byte_offset))
        })?;
        Ok(array)
    }
}

/// Law 1: the array has the address that was lent, or there is an error.
fn prove<'py>(
    lease: &Lease,
    array: &Bound<'py, PyAny>,
    address_of: impl FnOnce(&Bound<'py, PyAny>) -> PyResult<u64>,
) -> PyResult<()> {
    if lease.view().layout().is_empty() {
        return Ok(());
    }
    let (wanted, found) = (lease.view().address(), address_of(array)?);
    if found == wanted {
        return Ok(());
    }
    let message = format!(
        "{} copied the memory: {found:#x} instead of {wanted:#x}; \
         lend with copy=True if that is right",
        type_name(array)
    );
    Err(export_error(message, NOT_ZERO_COPY))
}

fn address_by_buffer(array: &Bound<'_, PyAny>) -> PyResult<u64> {
    let mut buffer = ffi::Py_buffer::new();
    // SAFETY: array and buffer are alive.
    if unsafe { ffi::PyObject_GetBuffer(array.as_ptr(), &raw mut buffer, ffi::PyBUF_STRIDES) } != 0
    {
        let cause = PyErr::fetch(array.py());
        let message = format!("{} does not tell its address", type_name(array));
        return Err(caused(array.py(), protocol(message, NO_PROTOCOL), cause));
    }
    let address = buffer.buf.addr() as u64;
    // SAFETY: just filled.
    unsafe { ffi::PyBuffer_Release(&raw mut buffer) };
    Ok(address)
}
