//! A tensor's storage and its version counter, by torch's own C++ functions.
//!
//! A lease keeps the storage of a tensor, not the tensor: `t.data = …` and `t.set_()` give a tensor another storage, and the
//! one before would be freed. A launch counts its writes on the tensor's version counter, by which autograd finds out that
//! a tensor which it saved was overwritten. torch's Python methods for both take longer than a hand-over; the functions behind
//! them take a few nanoseconds. As in [`crate::guards`], they are proved on samples first, and where the proof fails torch is
//! asked in Python.

use std::ffi::c_void;
use std::ptr;
use std::sync::OnceLock;

use gpulend::Owner;
use pyo3::ffi::PyObject;
use pyo3::intern;
use pyo3::prelude::*;

use crate::owners;
use crate::stable_torch::find_in;

/// `torch::autograd::impl::bump_version(const at::Tensor&)` and `version_counter`, as C++ spells them.
const BUMP: &str = "_ZN5torch8autograd4impl12bump_versionERKN2at6TensorE";
const COUNTER: &str = "_ZN5torch8autograd4impl15version_counterERKN2at6TensorE";
/// `torch::createPyObject(const c10::Storage&)`.
const CREATE: &str = "_ZN5torch14createPyObjectERKN3c107StorageE";

type Reference = *mut c_void;

/// How writes are counted.
pub(crate) struct Versions {
    bump: unsafe extern "C" fn(Reference),
    /// A `VariableVersion`, which is one pointer: null if the tensor has no counter.
    counter: unsafe extern "C" fn(Reference) -> *const usize,
}

impl Versions {
    /// The functions, if torch has them and they pass the proof. `find` gives the `TensorImpl` of a tensor of torch's own type.
    pub(crate) fn of(
        py: Python<'_>,
        find: impl Fn(&Bound<'_, PyAny>) -> usize,
    ) -> PyResult<Option<Self>> {
        // SAFETY: the types are those that torch/csrc/autograd/variable.h declares; a reference is a pointer in the C++ ABI.
        let bump = unsafe { find_in("libtorch_cpu.so", BUMP) };
        // SAFETY: as above.
        let counter = unsafe { find_in("libtorch_cpu.so", COUNTER) };
        let (Some(bump), Some(counter)) = (bump, counter) else { return Ok(None) };
        let versions = Self { bump, counter };
        let adapter = py.import(intern!(py, "gpulend.adapters.torch"))?;
        let samples = adapter.call_method0(intern!(py, "counted_and_not"))?;
        let (counted, view, uncounted): (Bound<'_, PyAny>, Bound<'_, PyAny>, Bound<'_, PyAny>) =
            samples.extract()?;
        let read = |tensor: &Bound<'_, PyAny>| -> PyResult<u32> {
            tensor.getattr(intern!(py, "_version"))?.extract()
        };
        let before = read(&counted)?;
        // SAFETY: the samples are alive, and torch's own.
        unsafe { versions.bump(find(&counted)) };
        // SAFETY: as above.
        unsafe { versions.bump(find(&view)) };
        // SAFETY: as above. It would raise if it found no counter.
        let skipped = unsafe { versions.counter_of(find(&uncounted)) } == 0;
        let right = skipped && read(&counted)? == before + 2 && read(&view)? == before + 2;
        Ok(right.then_some(versions))
    }

    /// Counts a write, if the tensor counts them: those of inference mode do not.
    ///
    /// # Safety
    ///
    /// The `TensorImpl` is that of a tensor that is alive.
    #[inline]
    pub(crate) unsafe fn bump(&self, tensor_impl: usize) {
        // SAFETY: the contract.
        if unsafe { self.counter_of(tensor_impl) } == 0 {
            return;
        }
        let mut handle: *mut c_void = ptr::with_exposed_provenance_mut(tensor_impl);
        // SAFETY: an `at::Tensor` is one pointer to its `TensorImpl`. With a counter the function raises nothing.
        unsafe { (self.bump)((&raw mut handle).cast()) }
    }

    /// # Safety
    ///
    /// As [`Versions::bump`].
    #[inline]
    unsafe fn counter_of(&self, tensor_impl: usize) -> usize {
        let mut handle: *mut c_void = ptr::with_exposed_provenance_mut(tensor_impl);
        // SAFETY: the contract; as in `bump`.
        let counter = unsafe { (self.counter)((&raw mut handle).cast()) };
        // SAFETY: a reference into the `TensorImpl`.
        unsafe { counter.read() }
    }
}

/// How storages are kept.
pub(crate) struct Storages {
    /// Where in a `TensorImpl` its `Storage` lies, which is one pointer.
    offset: usize,
    /// A new reference to the Python object of a storage.
    create: unsafe extern "C" fn(*const c_void) -> *mut PyObject,
}

impl Storages {
    /// How far into a `TensorImpl` it is looked for.
    const PLACES: [usize; 6] = [8, 16, 24, 32, 40, 48];

    /// The function and the place, if torch has them and they pass the proof on tensors with the addresses of their
    /// `TensorImpl`s.
    pub(crate) fn of(samples: &[(Bound<'_, PyAny>, usize)]) -> PyResult<Option<Self>> {
        // SAFETY: the type is that which torch/csrc/DynamicTypes.h declares; a reference is a pointer in the C++ ABI.
        let create = unsafe { find_in("libtorch_python.so", CREATE) };
        let Some(create) = create else { return Ok(None) };
        let mut wanted = Vec::new();
        for (tensor, tensor_impl) in samples {
            let storage = tensor.call_method0("untyped_storage")?;
            let address: usize = storage.getattr("_cdata")?.extract()?;
            wanted.push((*tensor_impl, address, storage));
        }
        let holds = |offset: &usize| {
            // SAFETY: a `TensorImpl` is larger.
            let found = |tensor_impl| unsafe { word(tensor_impl, *offset) };
            wanted.iter().all(|(tensor_impl, address, _)| found(*tensor_impl) == *address)
        };
        let Some(offset) = Self::PLACES.into_iter().find(holds) else { return Ok(None) };
        let storages = Self { offset, create };
        for ((tensor, tensor_impl), (_, _, storage)) in samples.iter().zip(&wanted) {
            // SAFETY: the sample is alive, and has a storage.
            let kept = unsafe { storages.object(tensor.py(), *tensor_impl) };
            if !kept.is(storage) {
                return Ok(None);
            }
        }
        Ok(Some(storages))
    }

    /// Whether a tensor has a storage.
    ///
    /// # Safety
    ///
    /// The `TensorImpl` is that of a tensor that is alive, and of the class of plain ones.
    #[inline]
    pub(crate) unsafe fn has(&self, tensor_impl: usize) -> bool {
        // SAFETY: the contract; `of` found the place.
        unsafe { word(tensor_impl, self.offset) != 0 }
    }

    /// Keeps a tensor's storage as it is at the time of the call. Making its Python object may run anybody's code after that.
    ///
    /// # Safety
    ///
    /// As [`Storages::has`], which said so.
    #[inline]
    pub(crate) unsafe fn keep(&self, py: Python<'_>, tensor_impl: usize) -> Owner {
        // SAFETY: the contract.
        owners::keep_owned(unsafe { self.object(py, tensor_impl) })
    }

    /// # Safety
    ///
    /// As [`Storages::keep`].
    #[inline]
    unsafe fn object<'py>(&self, py: Python<'py>, tensor_impl: usize) -> Bound<'py, PyAny> {
        let place = ptr::with_exposed_provenance::<c_void>(tensor_impl + self.offset);
        // SAFETY: the contract: a storage lies there.
        let storage = unsafe { (self.create)(place) };
        // SAFETY: a new reference; torch throws, and so ends the process, where there is no memory for an object.
        unsafe { Bound::from_owned_ptr(py, storage) }
    }
}

/// A word of a `TensorImpl`.
///
/// # Safety
///
/// It is alive, and at least eight bytes larger than `offset`.
#[inline]
unsafe fn word(tensor_impl: usize, offset: usize) -> usize {
    let place: *const usize = ptr::with_exposed_provenance(tensor_impl + offset);
    // SAFETY: the contract.
    unsafe { place.read() }
}

/// Whether torch records gradients in this thread.
pub(crate) fn records_gradients(py: Python<'_>) -> bool {
    static ASK: OnceLock<Option<unsafe extern "C" fn() -> bool>> = OnceLock::new();
    // SAFETY: the type is that which torch/csrc/inductor/aoti_torch/c/shim.h declares.
    let find = || unsafe { find_in("libtorch_cpu.so", "aoti_torch_grad_mode_is_enabled") };
    match ASK.get_or_init(find) {
        // SAFETY: it takes nothing, and raises nothing.
        Some(ask) => unsafe { ask() },
        None => {
            let torch = py.import(intern!(py, "torch"));
            let asked = torch.and_then(|torch| torch.call_method0(intern!(py, "is_grad_enabled")));
            asked.and_then(|answer| answer.extract()).unwrap_or(true)
        }
    }
}
