//! What torch's C path does not ask: the meanings a plain array would lose.
//!
//! torch hands out conjugate, negative and gradient-carrying tensors as if
//! they were plain ones. The questions are asked here by vectorcalls on
//! descriptors that are looked up once, because a Python-level call of each
//! costs as much as the whole hand-over.

use std::ptr;

use gpulend::Dtype;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// torch's own answers, looked up once.
pub(crate) struct Guards {
    is_neg: Py<PyAny>,
    is_conj: Py<PyAny>,
    requires_grad: Getter,
    dtype: Getter,
    bytes: [Py<PyAny>; 2],
}

/// A getset descriptor and the function that reads it.
struct Getter {
    descriptor: Py<PyAny>,
    get: ffi::descrgetfunc,
}

static GUARDS: PyOnceLock<Guards> = PyOnceLock::new();

impl Guards {
    /// The guards for `torch.Tensor`, which has been imported.
    pub(crate) fn of<'py>(py: Python<'py>, torch: &Bound<'py, PyAny>) -> PyResult<&'static Self> {
        let guards = GUARDS.get_or_try_init(py, || {
            let tensor = torch.getattr("Tensor")?;
            Ok::<_, PyErr>(Self {
                is_neg: tensor.getattr("is_neg")?.unbind(),
                is_conj: tensor.getattr("is_conj")?.unbind(),
                requires_grad: Getter::of(&tensor.getattr("requires_grad")?)?,
                dtype: Getter::of(&tensor.getattr("dtype")?)?,
                bytes: [torch.getattr("int8")?.unbind(), torch.getattr("uint8")?.unbind()],
            })
        })?;
        Ok(guards)
    }

    /// Whether a plain array would lose something; `dtype` is what the C path said.
    pub(crate) fn refuse(&self, tensor: &Bound<'_, PyAny>, dtype: Dtype) -> PyResult<bool> {
        let py = tensor.py();
        if is_true(&vectorcall(&self.is_neg, tensor)?) {
            return Ok(true);
        }
        if dtype.is_differentiable() && is_true(&self.requires_grad.read(tensor)?) {
            return Ok(true);
        }
        if dtype.is_complex() && is_true(&vectorcall(&self.is_conj, tensor)?) {
            return Ok(true);
        }
        // torch shows its types of less than a byte as 8-bit integers of the same shape.
        if dtype == Dtype::INT8 || dtype == Dtype::UINT8 {
            let found = self.dtype.read(tensor)?;
            return Ok(!self.bytes.iter().any(|known| found.is(known.bind(py))));
        }
        Ok(false)
    }
}

impl Getter {
    fn of(descriptor: &Bound<'_, PyAny>) -> PyResult<Self> {
        // SAFETY: the type is alive; the slot is null or a function of this type.
        let slot = unsafe { ffi::PyType_GetSlot(descriptor.get_type_ptr(), ffi::Py_tp_descr_get) };
        if slot.is_null() {
            let message = format!("{descriptor} is no descriptor");
            return Err(pyo3::exceptions::PyTypeError::new_err(message));
        }
        // SAFETY: what this slot holds is a `descrgetfunc` (Python/C API, type objects).
        let get = unsafe { std::mem::transmute::<*mut std::ffi::c_void, ffi::descrgetfunc>(slot) };
        Ok(Self { descriptor: descriptor.clone().unbind(), get })
    }

    fn read<'py>(&self, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: descriptor and object are alive, and the object is of the descriptor's type.
        let value = unsafe {
            (self.get)(self.descriptor.as_ptr(), object.as_ptr(), object.get_type_ptr().cast())
        };
        // SAFETY: a new reference, or null with an exception set.
        unsafe { Bound::from_owned_ptr_or_err(object.py(), value) }
    }
}

fn vectorcall<'py>(method: &Py<PyAny>, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let arguments = [object.as_ptr()];
    // SAFETY: one live argument, no keywords.
    let value = unsafe {
        ffi::PyObject_Vectorcall(method.as_ptr(), arguments.as_ptr(), 1, ptr::null_mut())
    };
    // SAFETY: a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(object.py(), value) }
}

fn is_true(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: `Py_True` is alive as long as the interpreter.
    object.as_ptr() == unsafe { ffi::Py_True() }
}

/// Has the adapter say by name why a tensor is refused, and what fixes it.
pub(crate) fn explain(tensor: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = tensor.py();
    let adapter = py.import(intern!(py, "gpulend.adapters.torch"))?;
    adapter.call_method1(intern!(py, "refuse"), (tensor,))?;
    Ok(())
}
