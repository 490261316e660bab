//! A tensor's storage, which a lease keeps.
//!
//! Not the tensor: `t.data = …` and `t.set_()` give a tensor another storage, and the one before would be freed. torch's Python
//! method for it takes longer than a hand-over; the function behind it takes a few nanoseconds. Where the proof fails the table
//! serves, and the method is called.

use std::ffi::c_void;
use std::ptr;

use gpulend::Owner;
use pyo3::ffi::PyObject;
use pyo3::prelude::*;

use super::library::{self, find};
use super::proof::Sample;
use super::reader::Reader;
use crate::owners;
use crate::places::{find_place, word};

/// `torch::createPyObject(const c10::Storage&)`, as C++ spells it.
const CREATE: &str = "_ZN5torch14createPyObjectERKN3c107StorageE";

/// The storage that lies in a tensor, to be kept.
pub(super) struct Storage<'a> {
    pub(super) storages: &'a Storages,
    pub(super) tensor_impl: usize,
}

impl Storage<'_> {
    /// Keeps the storage that the tensor has now. May run arbitrary code, after that.
    ///
    /// # Safety
    ///
    /// The tensor is alive, and since its memory was read no code but ours ran.
    #[inline]
    pub(super) unsafe fn keep(self, py: Python<'_>) -> Owner {
        // SAFETY: the contract; `Torch::storage` found that it has one.
        owners::keep_owned(unsafe { self.storages.object(py, self.tensor_impl) })
    }
}

/// How storages are found.
pub(super) struct Storages {
    /// Where in a `TensorImpl` its `Storage` lies, which is one pointer.
    place: usize,
    /// A new reference to the Python object of a storage.
    create: unsafe extern "C" fn(*const c_void) -> *mut PyObject,
}

impl Storages {
    /// How far into a `TensorImpl` it is looked for.
    const PLACES: [usize; 6] = [8, 16, 24, 32, 40, 48];

    /// The function and the place, if torch has them and they give the storages of the samples.
    pub(super) fn of(reader: &Reader, samples: &[Sample<'_>]) -> PyResult<Option<Self>> {
        // SAFETY: the type is that which torch/csrc/DynamicTypes.h declares; a reference is a pointer in the C++ ABI.
        let create = unsafe { find(library::PYTHON, CREATE) };
        let Some(create) = create else { return Ok(None) };
        let (mut wanted, mut known) = (Vec::new(), Vec::new());
        for Sample { tensor, .. } in samples.iter().filter(|sample| sample.is_plain()) {
            let storage = tensor.call_method0("untyped_storage")?;
            // SAFETY: samples are torch's own.
            let tensor_impl = unsafe { reader.tensor_impl(tensor) };
            known.push((tensor_impl, storage.getattr("_cdata")?.extract()?));
            wanted.push((tensor_impl, storage));
        }
        // SAFETY: a `TensorImpl` is larger.
        let Some(place) = (unsafe { find_place(Self::PLACES, &known) }) else { return Ok(None) };
        let storages = Self { place, create };
        // SAFETY: the sample is alive, and has a storage.
        let gives = |(tensor_impl, storage): &(usize, Bound<'_, PyAny>)| unsafe {
            storages.object(storage.py(), *tensor_impl).is(storage)
        };
        Ok(wanted.iter().all(gives).then_some(storages))
    }

    /// Whether a tensor has a storage.
    ///
    /// # Safety
    ///
    /// The `TensorImpl` is that of a tensor that is alive, and of the class of plain ones.
    #[inline]
    pub(super) unsafe fn has(&self, tensor_impl: usize) -> bool {
        // SAFETY: the contract; `of` found the place.
        unsafe { word(tensor_impl + self.place) != 0 }
    }

    /// The Python object of a tensor's storage as it is now. Making it may run arbitrary code after that.
    ///
    /// # Safety
    ///
    /// As [`Storages::has`], which said so.
    #[inline]
    unsafe fn object<'py>(&self, py: Python<'py>, tensor_impl: usize) -> Bound<'py, PyAny> {
        let place = ptr::with_exposed_provenance::<c_void>(tensor_impl + self.place);
        // SAFETY: the contract: a storage lies there.
        let storage = unsafe { (self.create)(place) };
        // SAFETY: a new reference; torch throws, and so ends the process, where there is no memory for an object.
        unsafe { Bound::from_owned_ptr(py, storage) }
    }
}
