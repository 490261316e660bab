//! What torch's C path does not ask: the meanings a plain array would lose.
//!
//! torch hands out conjugate, negative and gradient-carrying tensors as if
//! they were plain ones. The questions are put to libtorch's own functions,
//! where the tensor inside its Python object can be found and proved on samples;
//! else to the C functions behind torch's methods and attributes, looked up
//! once: a Python-level call of each costs as much as the whole hand-over.

use std::ffi::c_void;
use std::ptr;

use gpulend::Dtype;
use gpulend::import::raw::Told;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::stable_torch::{self, Ask, Found, Getters};

/// torch's own answers, looked up once.
pub(crate) struct Guards {
    is_neg: Method,
    is_conj: Method,
    requires_grad: Getter,
    dtype: Getter,
    bytes: [Py<PyAny>; 2],
    direct: Option<Direct>,
}

/// A method without arguments: the C function behind its descriptor.
struct Method {
    _descriptor: Py<PyAny>,
    call: ffi::PyCFunction,
}

/// An attribute: the C function behind its descriptor, and what to call it with.
struct Getter {
    _descriptor: Py<PyAny>,
    get: ffi::getter,
    closure: *mut c_void,
}

// SAFETY: the closure is torch's constant, only ever passed back to torch.
unsafe impl Send for Getter {}
// SAFETY: as above.
unsafe impl Sync for Getter {}

static GUARDS: PyOnceLock<Guards> = PyOnceLock::new();

impl Guards {
    /// The guards for `torch.Tensor`, which has been imported.
    pub(crate) fn of<'py>(py: Python<'py>, torch: &Bound<'py, PyAny>) -> PyResult<&'static Self> {
        let guards = GUARDS.get_or_try_init(py, || {
            let tensor = torch.getattr("Tensor")?;
            Ok::<_, PyErr>(Self {
                is_neg: Method::of(tensor.getattr("is_neg")?)?,
                is_conj: Method::of(tensor.getattr("is_conj")?)?,
                requires_grad: Getter::of(tensor.getattr("requires_grad")?)?,
                dtype: Getter::of(tensor.getattr("dtype")?)?,
                bytes: [torch.getattr("int8")?.unbind(), torch.getattr("uint8")?.unbind()],
                direct: Direct::of(py)?,
            })
        })?;
        Ok(guards)
    }

    /// Whether torch is asked by Python's own calls about tensors of this type: then anybody's code may run.
    pub(crate) fn is_asked_in_python(&self, dtype: Dtype) -> bool {
        self.direct.is_none() || dtype == Dtype::INT8 || dtype == Dtype::UINT8
    }

    /// A plain tensor of a GPU as libtorch alone tells it; nothing for any other.
    ///
    /// # Safety
    ///
    /// 1. The tensor is of exactly torch's types.
    /// 2. What is told points into it: it is done with before anything else of torch's or Python's runs.
    #[inline]
    pub(crate) unsafe fn read_on_gpu<'a>(&self, tensor: &'a Bound<'_, PyAny>) -> Option<Told<'a>> {
        // SAFETY: the contract.
        unsafe { self.direct.as_ref()?.read(tensor, true) }.filter(|told| told.address != 0)
    }

    /// Whether a plain array would lose something; `dtype` is what the C path said.
    pub(crate) fn refuse(&self, tensor: &Bound<'_, PyAny>, dtype: Dtype) -> PyResult<bool> {
        let py = tensor.py();
        match &self.direct {
            Some(direct) if direct.means_more(tensor, dtype) => return Ok(true),
            Some(_) => {}
            None if is_true(&self.is_neg.call(tensor)?) => return Ok(true),
            None if dtype.is_differentiable() && is_true(&self.requires_grad.read(tensor)?) => {
                return Ok(true);
            }
            None if dtype.is_complex() && is_true(&self.is_conj.call(tensor)?) => return Ok(true),
            None => {}
        }
        // torch shows its types of less than a byte as 8-bit integers of the same shape.
        if dtype == Dtype::INT8 || dtype == Dtype::UINT8 {
            let found = self.dtype.read(tensor)?;
            return Ok(!self.bytes.iter().any(|known| found.is(known.bind(py))));
        }
        Ok(false)
    }
}

/// libtorch's own answers, asked of the tensor inside a Python object.
struct Direct {
    /// Where in the object the pointer to the tensor's `TensorImpl` lies.
    offset: usize,
    is_neg: Ask,
    is_conj: Ask,
    requires_grad: Ask,
    /// What else it tells, if that passes the proof too.
    getters: Option<Getters>,
}

impl Direct {
    /// How far into the object it is looked for.
    const PLACES: [usize; 6] = [16, 24, 32, 40, 48, 56];

    /// The functions and the place, if torch has them and they pass the proof.
    fn of(py: Python<'_>) -> PyResult<Option<Self>> {
        let (Some([is_neg, is_conj]), Some(requires_grad)) =
            (stable_torch::find_in_torch(), stable_torch::find_requires_grad())
        else {
            return Ok(None);
        };
        let adapter = py.import(intern!(py, "gpulend.adapters.torch"))?;
        let samples = adapter.call_method0(intern!(py, "plain_and_other"))?;
        let (plain, others): (Vec<Sample<'_>>, Vec<Sample<'_>>) = samples.extract()?;
        let holds = |offset: &usize| {
            let mut all = plain.iter().chain(&others);
            // SAFETY: a tensor's object is larger than the places that are looked at.
            all.all(|(tensor, address)| unsafe { word(tensor, *offset) } == *address)
        };
        let Some(offset) = Self::PLACES.into_iter().find(holds) else { return Ok(None) };
        let mut direct = Self { offset, is_neg, is_conj, requires_grad, getters: Getters::load() };
        // As of a type that can be all of it.
        let asked = |(tensor, _): &Sample<'_>| direct.means_more(tensor, Dtype::COMPLEX64);
        let right = !plain.iter().any(asked) && others.iter().all(asked);
        if !direct.reads(&plain)? {
            direct.getters = None;
        }
        Ok(right.then_some(direct))
    }

    /// Whether it reads of plain tensors what torch says of them in Python.
    fn reads(&self, samples: &[Sample<'_>]) -> PyResult<bool> {
        for (tensor, _) in samples {
            let said: (u64, Vec<i64>, Vec<i64>) = (
                tensor.call_method0("data_ptr")?.extract()?,
                tensor.getattr("shape")?.extract()?,
                tensor.call_method0("stride")?.extract()?,
            );
            // SAFETY: (1) they are torch's own; (2) it is copied at once.
            let told = unsafe { self.read(tensor, false) };
            let read = told.map(|told| (told.address, told.shape.to_vec(), told.strides.to_vec()));
            if read != Some(said) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads a plain tensor of a GPU, or of the host; nothing for any other.
    ///
    /// # Safety
    ///
    /// As [`Guards::read_on_gpu`].
    #[inline]
    unsafe fn read<'a>(&self, tensor: &'a Bound<'_, PyAny>, gpu: bool) -> Option<Told<'a>> {
        let getters = self.getters.as_ref()?;
        // SAFETY: as in `means_more`.
        let tensor_impl = unsafe { word(tensor, self.offset) };
        let mut handle: *mut c_void = ptr::with_exposed_provenance_mut(tensor_impl);
        let reference = (&raw mut handle).cast::<c_void>();
        let means_more = |dtype| self.means_more(tensor, dtype);
        // SAFETY: (1) an `at::Tensor` is one pointer to its `TensorImpl`, which the object keeps; (2) is the contract.
        match unsafe { getters.read(reference, gpu, means_more) }? {
            Found::Plain(told) => Some(told),
            Found::Elsewhere | Found::Other => None,
        }
    }

    /// Whether a plain array would lose what a tensor of exactly torch's types means.
    #[inline]
    fn means_more(&self, tensor: &Bound<'_, PyAny>, dtype: Dtype) -> bool {
        // SAFETY: `of` found that the pointer lies there in objects of torch's types.
        let tensor_impl = unsafe { word(tensor, self.offset) };
        let mut handle: *mut c_void = ptr::with_exposed_provenance_mut(tensor_impl);
        // What C++ takes by reference: an `at::Tensor` is one pointer to its `TensorImpl`.
        let reference = (&raw mut handle).cast::<c_void>();
        // SAFETY: the tensor is alive, and the functions only look; proved by `of`.
        let negative = unsafe { (self.is_neg)(reference) };
        // Other types can be neither, and each question is a call into a cold corner of torch.
        // SAFETY: as above.
        let conjugate = || dtype.is_complex() && unsafe { (self.is_conj)(reference) };
        // SAFETY: as above.
        let tracked = || dtype.is_differentiable() && unsafe { (self.requires_grad)(handle) };
        negative || conjugate() || tracked()
    }
}

/// A tensor and the address of its `TensorImpl`, as torch tells it.
type Sample<'py> = (Bound<'py, PyAny>, usize);

/// A word of an object.
///
/// # Safety
///
/// The object is at least eight bytes larger than `offset`.
unsafe fn word(object: &Bound<'_, PyAny>, offset: usize) -> usize {
    // SAFETY: the contract.
    let place = unsafe { object.as_ptr().cast::<u8>().add(offset) };
    // SAFETY: the contract; offsets are multiples of eight, as objects are aligned.
    unsafe { place.cast::<usize>().read() }
}

impl Method {
    fn of(descriptor: Bound<'_, PyAny>) -> PyResult<Self> {
        let wanted = &raw mut ffi::PyMethodDescr_Type;
        if descriptor.get_type_ptr() != wanted {
            return Err(unexpected(&descriptor));
        }
        let pointer = descriptor.as_ptr().cast::<ffi::PyMethodDescrObject>();
        // SAFETY: its type says that it is a `PyMethodDescrObject` (cpython/descrobject.h).
        let method = unsafe { (*pointer).d_method };
        // SAFETY: a method's definition lives as long as its type.
        let method = unsafe { &*method };
        if method.ml_flags != ffi::METH_NOARGS {
            return Err(unexpected(&descriptor));
        }
        // SAFETY: the flags say that it is a `PyCFunction`.
        let call = unsafe { method.ml_meth.PyCFunction };
        Ok(Self { _descriptor: descriptor.unbind(), call })
    }

    /// Calls the method of an object of exactly the descriptor's type.
    fn call<'py>(&self, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: the object is alive and of the type that the function is for.
        let value = unsafe { (self.call)(object.as_ptr(), ptr::null_mut()) };
        // SAFETY: a new reference, or null with an exception set.
        unsafe { Bound::from_owned_ptr_or_err(object.py(), value) }
    }
}

impl Getter {
    fn of(descriptor: Bound<'_, PyAny>) -> PyResult<Self> {
        let wanted = &raw mut ffi::PyGetSetDescr_Type;
        if descriptor.get_type_ptr() != wanted {
            return Err(unexpected(&descriptor));
        }
        let pointer = descriptor.as_ptr().cast::<ffi::PyGetSetDescrObject>();
        // SAFETY: its type says that it is a `PyGetSetDescrObject` (cpython/descrobject.h).
        let getset = unsafe { (*pointer).d_getset };
        // SAFETY: an attribute's definition lives as long as its type.
        let getset = unsafe { &*getset };
        let get = getset.get.ok_or_else(|| unexpected(&descriptor))?;
        Ok(Self { _descriptor: descriptor.unbind(), get, closure: getset.closure })
    }

    /// Reads the attribute of an object of exactly the descriptor's type.
    fn read<'py>(&self, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: the object is alive and of the type that the function is for.
        let value = unsafe { (self.get)(object.as_ptr(), self.closure) };
        // SAFETY: a new reference, or null with an exception set.
        unsafe { Bound::from_owned_ptr_or_err(object.py(), value) }
    }
}

fn unexpected(descriptor: &Bound<'_, PyAny>) -> PyErr {
    let message = format!("{descriptor} is no descriptor of the kind torch has had so far");
    pyo3::exceptions::PyTypeError::new_err(message)
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
