//! What torch's C path does not ask: the meanings a plain array would lose.
//!
//! torch hands out conjugate, negative and gradient-carrying tensors as if
//! they were plain ones. The questions are put to libtorch's own functions,
//! where the tensor inside its Python object can be found and proved on samples;
//! else to torch in Python, which costs more than the whole hand-over.

use std::ffi::c_void;
use std::ptr;

use gpulend::Dtype;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::stable_torch::{self, Ask, Found, Getters, On};

/// torch's own answers, looked up once.
pub(crate) struct Guards {
    direct: Option<Direct>,
}

static GUARDS: PyOnceLock<Guards> = PyOnceLock::new();

impl Guards {
    /// The guards for `torch.Tensor`, which has been imported.
    pub(crate) fn of<'py>(py: Python<'py>, torch: &Bound<'py, PyAny>) -> &'static Self {
        // Inside a transformation torch may raise: then it is asked in Python.
        GUARDS.get_or_init(py, || Self { direct: Direct::of(py, torch).unwrap_or(None) })
    }

    /// A tensor as libtorch alone tells it; nothing if it is not asked so, as of wrappers and tensors of other kinds, and what is
    /// found is nothing if torch raises, which older versions also print.
    ///
    /// # Safety
    ///
    /// 1. The tensor is of exactly torch's types.
    /// 2. What is told points into it: it is done with before anything else of torch's or Python's runs.
    #[inline]
    pub(crate) unsafe fn read<'a>(
        &self,
        tensor: &'a Bound<'_, PyAny>,
        on: On,
    ) -> Option<Option<Found<'a>>> {
        let direct = self.direct.as_ref().filter(|direct| direct.is_usual(tensor))?;
        // SAFETY: the contract.
        Some(unsafe { direct.read(tensor, on) })
    }
}

/// libtorch's own answers, asked of the tensor inside a Python object.
struct Direct {
    /// Where in the object the pointer to the tensor's `TensorImpl` lies.
    offset: usize,
    /// What every plain `TensorImpl` begins with: C++ begins objects of one class alike, and those of another otherwise.
    class: usize,
    is_neg: Ask,
    is_conj: Ask,
    requires_grad: Ask,
    getters: Getters,
}

impl Direct {
    /// How far into the object it is looked for.
    const PLACES: [usize; 6] = [16, 24, 32, 40, 48, 56];

    /// The functions and the place, if torch has them and they pass the proof.
    fn of(py: Python<'_>, torch: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let (Some([is_neg, is_conj]), Some(requires_grad)) =
            (stable_torch::find_in_torch(), stable_torch::find_requires_grad())
        else {
            return Ok(None);
        };
        let adapter = py.import(intern!(py, "gpulend.adapters.torch"))?;
        let samples = adapter.call_method0(intern!(py, "plain_and_other"))?;
        let (plain, others): (Vec<Sample<'_>>, Vec<Sample<'_>>) = samples.extract()?;
        let room: usize = torch.getattr("Tensor")?.getattr("__basicsize__")?.extract()?;
        let holds = |offset: &usize| {
            let mut all = plain.iter().chain(&others);
            // SAFETY: the object of a tensor is so large.
            offset + 8 <= room
                && all.all(|(tensor, address)| unsafe { word(tensor, *offset) } == *address)
        };
        let Some(offset) = Self::PLACES.into_iter().find(holds) else { return Ok(None) };
        // A GPU of AMD's is called CUDA there.
        if !torch.getattr("version")?.getattr("hip")?.is_none() {
            return Ok(None);
        }
        let Some(getters) = Getters::load() else { return Ok(None) };
        let Some((sample, _)) = plain.first() else { return Ok(None) };
        let mut direct = Self { offset, class: 0, is_neg, is_conj, requires_grad, getters };
        direct.class = direct.class_of(sample);
        if !plain.iter().chain(&others).all(|(tensor, _)| direct.is_usual(tensor)) {
            return Ok(None);
        }
        // As of a type that can be all of it.
        let asked = |(tensor, _): &Sample<'_>| direct.means_more(tensor, Dtype::COMPLEX64);
        let right = !plain.iter().any(asked) && others.iter().all(asked);
        Ok((right && direct.reads(&plain)?).then_some(direct))
    }

    /// What a tensor of exactly torch's types begins with inside.
    #[inline]
    fn class_of(&self, tensor: &Bound<'_, PyAny>) -> usize {
        // SAFETY: as in `means_more`.
        let tensor_impl = unsafe { word(tensor, self.offset) };
        let place: *const usize = ptr::with_exposed_provenance(tensor_impl);
        // SAFETY: it is larger than a word, and there as long as the tensor.
        unsafe { place.read() }
    }

    /// Whether a tensor is no wrapper, and of no other kind that has a class of its own.
    #[inline]
    fn is_usual(&self, tensor: &Bound<'_, PyAny>) -> bool {
        self.class_of(tensor) == self.class
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
            let Some(Found::Plain(told)) = (unsafe { self.read(tensor, On::Host) }) else {
                return Ok(false);
            };
            if (told.address, told.shape.to_vec(), told.strides.to_vec()) != said {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// # Safety
    ///
    /// As [`Guards::read`].
    #[inline]
    unsafe fn read<'a>(&self, tensor: &'a Bound<'_, PyAny>, on: On) -> Option<Found<'a>> {
        // SAFETY: as in `means_more`.
        let tensor_impl = unsafe { word(tensor, self.offset) };
        let mut handle: *mut c_void = ptr::with_exposed_provenance_mut(tensor_impl);
        let reference = (&raw mut handle).cast::<c_void>();
        let means_more = |dtype| self.means_more(tensor, dtype);
        // SAFETY: (1) an `at::Tensor` is one pointer to its `TensorImpl`, which the object keeps; (2) is the contract.
        unsafe { self.getters.read(reference, on, means_more) }
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

/// Has the adapter say by name why a tensor is refused, and what fixes it.
pub(crate) fn explain(tensor: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = tensor.py();
    let adapter = py.import(intern!(py, "gpulend.adapters.torch"))?;
    adapter.call_method1(intern!(py, "refuse"), (tensor,))?;
    Ok(())
}
