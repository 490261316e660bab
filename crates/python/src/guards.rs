//! What torch's C path does not ask: the meanings a plain array would lose.
//!
//! torch hands out conjugate, negative and gradient-carrying tensors as if
//! they were plain ones. The questions are put to libtorch's own functions,
//! where the tensor inside its Python object can be found and proved on samples;
//! else to torch in Python, which costs more than the whole hand-over.

use std::ffi::c_void;
use std::ptr;

use gpulend::{Dtype, Owner};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::owners;
use crate::stable_torch::{Found, Getters, Meaning, On, Questions};
use crate::torch_internals::{Storages, Versions, records_gradients};

/// What a call does with a tensor, by which its gradient is judged: a call that is over does not lose it unless it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// The caller wants no questions asked.
    Unchecked,
    /// It is read during the call.
    Read,
    /// It may be written, by work that the call queues.
    Written,
    /// It is lent beyond the call, to anybody.
    Kept,
}

impl Use {
    /// Whether tensors are asked what they mean.
    pub(crate) const fn is_checked(self) -> bool {
        !matches!(self, Self::Unchecked)
    }

    /// Whether a tensor that requires a gradient is taken. torch's own operations write one too where it records nothing.
    pub(crate) fn takes_tracked(self, py: Python<'_>) -> bool {
        match self {
            Self::Unchecked | Self::Read => true,
            Self::Written => !records_gradients(py),
            Self::Kept => false,
        }
    }

    /// As the adapter calls it.
    const fn word(self) -> &'static str {
        match self {
            Self::Unchecked | Self::Read => "read",
            Self::Written => "written",
            Self::Kept => "kept",
        }
    }
}

/// torch's own answers, looked up once.
pub(crate) struct Guards {
    direct: Option<Direct>,
    versions: Option<Versions>,
    storages: Option<Storages>,
}

static GUARDS: PyOnceLock<Guards> = PyOnceLock::new();

impl Guards {
    /// The guards for `torch.Tensor`, which has been imported.
    pub(crate) fn of<'py>(py: Python<'py>, torch: &Bound<'py, PyAny>) -> &'static Self {
        // Inside a transformation torch may raise: then it is asked in Python.
        GUARDS.get_or_init(py, || {
            let direct = Direct::of(py, torch).unwrap_or(None);
            let found = direct.as_ref().map(|direct| direct.internals(py));
            let (versions, storages) = found.unwrap_or_default();
            Self { direct, versions, storages }
        })
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

    /// Counts a write of a tensor, for autograd.
    ///
    /// # Safety
    ///
    /// The tensor is of exactly torch's types.
    #[inline]
    pub(crate) unsafe fn count_write(&self, tensor: &Bound<'_, PyAny>) -> PyResult<()> {
        let Some((direct, versions)) = self.direct.as_ref().zip(self.versions.as_ref()) else {
            return count_write(tensor);
        };
        // SAFETY: the contract; the object keeps its `TensorImpl`.
        unsafe { versions.bump(direct.tensor_impl(tensor)) };
        Ok(())
    }

    /// How to keep the storage of a tensor.
    ///
    /// # Safety
    ///
    /// The tensor is of exactly torch's types.
    #[inline]
    pub(crate) unsafe fn storage<'a, 'py>(
        &'a self,
        tensor: &Bound<'py, PyAny>,
    ) -> PyResult<Storage<'a, 'py>> {
        if let Some((direct, storages)) = self.direct.as_ref().zip(self.storages.as_ref())
            && direct.is_usual(tensor)
        {
            let tensor_impl = direct.tensor_impl(tensor);
            // SAFETY: the contract; its class was compared.
            if unsafe { storages.has(tensor_impl) } {
                return Ok(Storage::Inside { storages, tensor_impl });
            }
        }
        Storage::of(tensor)
    }
}

/// The storage of a tensor, to be kept.
pub(crate) enum Storage<'a, 'py> {
    /// As it lies in the tensor.
    Inside { storages: &'a Storages, tensor_impl: usize },
    /// As torch gave it.
    Object(Bound<'py, PyAny>),
}

impl<'py> Storage<'_, 'py> {
    /// As torch gives it.
    #[cold]
    pub(crate) fn of(tensor: &Bound<'py, PyAny>) -> PyResult<Self> {
        tensor.call_method0(intern!(tensor.py(), "untyped_storage")).map(Self::Object)
    }

    /// Keeps it. May run anybody's code, after that.
    ///
    /// # Safety
    ///
    /// The tensor is alive, and its memory was found since by nobody's code between.
    #[inline]
    pub(crate) unsafe fn keep(self, py: Python<'py>) -> Owner {
        match self {
            // SAFETY: the contract; `Guards::storage` found that it has one.
            Self::Inside { storages, tensor_impl } => unsafe { storages.keep(py, tensor_impl) },
            Self::Object(storage) => owners::keep_owned(storage),
        }
    }
}

/// libtorch's own answers, asked of the tensor inside a Python object.
struct Direct {
    /// Where in the object the pointer to the tensor's `TensorImpl` lies.
    offset: usize,
    /// What every plain `TensorImpl` begins with: C++ begins objects of one class alike, and those of another otherwise.
    class: usize,
    questions: Questions,
    getters: Getters,
}

impl Direct {
    /// How far into the object it is looked for.
    const PLACES: [usize; 6] = [16, 24, 32, 40, 48, 56];

    /// The functions and the place, if torch has them and they pass the proof.
    fn of(py: Python<'_>, torch: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let Some(questions) = Questions::find() else { return Ok(None) };
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
        let mut direct = Self { offset, class: 0, questions, getters };
        direct.class = direct.class_of(sample);
        if !plain.iter().chain(&others).all(|(tensor, _)| direct.is_usual(tensor)) {
            return Ok(None);
        }
        // As of a type that can be all of it.
        let asked = |(tensor, _): &Sample<'_>| direct.ask(tensor, Dtype::COMPLEX64);
        let right = plain.iter().map(asked).all(|meaning| meaning == Meaning::Plain)
            && others.iter().map(asked).eq([Meaning::Other, Meaning::Other, Meaning::Tracked]);
        Ok((right && direct.reads(&plain)?).then_some(direct))
    }

    /// How writes are counted and storages kept, as far as that can be proved.
    fn internals(&self, py: Python<'_>) -> (Option<Versions>, Option<Storages>) {
        let versions = Versions::of(py, |tensor| self.tensor_impl(tensor)).unwrap_or(None);
        let adapter = py.import(intern!(py, "gpulend.adapters.torch"));
        let samples = adapter.and_then(|adapter| adapter.call_method0("plain_and_other"));
        let samples = samples.and_then(|samples| samples.extract());
        let storages =
            samples.and_then(|(plain, _): (Vec<Sample<'_>>, Vec<Sample<'_>>)| Storages::of(&plain));
        (versions, storages.unwrap_or(None))
    }

    /// The address of the `TensorImpl` of a tensor of exactly torch's types.
    #[inline]
    fn tensor_impl(&self, tensor: &Bound<'_, PyAny>) -> usize {
        // SAFETY: `of` found that the pointer lies there in objects of torch's types.
        unsafe { word(tensor, self.offset) }
    }

    /// What a tensor of exactly torch's types begins with inside.
    #[inline]
    fn class_of(&self, tensor: &Bound<'_, PyAny>) -> usize {
        let place: *const usize = ptr::with_exposed_provenance(self.tensor_impl(tensor));
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
        let mut handle: *mut c_void = ptr::with_exposed_provenance_mut(self.tensor_impl(tensor));
        let reference = (&raw mut handle).cast::<c_void>();
        let ask = |dtype| self.ask(tensor, dtype);
        // SAFETY: (1) an `at::Tensor` is one pointer to its `TensorImpl`, which the object keeps; (2) is the contract.
        unsafe { self.getters.read(reference, on, ask) }
    }

    /// What a tensor of exactly torch's types means.
    #[inline]
    fn ask(&self, tensor: &Bound<'_, PyAny>, dtype: Dtype) -> Meaning {
        let mut handle: *mut c_void = ptr::with_exposed_provenance_mut(self.tensor_impl(tensor));
        // SAFETY: what C++ takes by reference: an `at::Tensor` is one pointer to its `TensorImpl`; the tensor is alive, and
        // the functions are proved by `of`.
        unsafe { self.questions.ask((&raw mut handle).cast(), dtype) }
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

/// Has the adapter say by name why a tensor is refused for a use, and what fixes it.
pub(crate) fn explain(tensor: &Bound<'_, PyAny>, used: Use) -> PyResult<()> {
    let py = tensor.py();
    let adapter = py.import(intern!(py, "gpulend.adapters.torch"))?;
    adapter.call_method1(intern!(py, "refuse"), (tensor, used.word()))?;
    Ok(())
}

/// Counts a write of any tensor, in Python.
#[cold]
pub(crate) fn count_write(tensor: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = tensor.py();
    let adapter = py.import(intern!(py, "gpulend.adapters.torch"))?;
    adapter.call_method1(intern!(py, "count_write"), (tensor,))?;
    Ok(())
}
