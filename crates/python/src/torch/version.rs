//! A tensor's version counter, by torch's own C++ functions.
//!
//! A launch counts its writes on the counter, by which autograd finds out that a tensor which it saved was overwritten. torch's
//! Python function for it takes longer than a hand-over; the functions behind it take a few nanoseconds. Where the proof fails
//! the adapter counts.

use std::ffi::c_void;
use std::ptr;

use pyo3::intern;
use pyo3::prelude::*;

use super::library::{self, find};
use super::proof::Sample;
use super::reader::Reader;

/// `torch::autograd::impl::bump_version(const at::Tensor&)` and `version_counter`, as C++ spells them.
const BUMP: &str = "_ZN5torch8autograd4impl12bump_versionERKN2at6TensorE";
const COUNTER: &str = "_ZN5torch8autograd4impl15version_counterERKN2at6TensorE";

type Reference = *mut c_void;

/// How writes are counted.
pub(super) struct Versions {
    bump: unsafe extern "C" fn(Reference),
    /// A `VariableVersion`, which is one pointer: null if the tensor has no counter.
    counter: unsafe extern "C" fn(Reference) -> *const usize,
}

impl Versions {
    /// The functions, if torch has them and they count the writes of the samples.
    pub(super) fn of(reader: &Reader, samples: &[Sample<'_>]) -> PyResult<Option<Self>> {
        // SAFETY: the types are those that torch/csrc/autograd/variable.h declares; a reference is a pointer in the C++ ABI.
        let bump = unsafe { find(library::CPU, BUMP) };
        // SAFETY: as above.
        let counter = unsafe { find(library::CPU, COUNTER) };
        let (Some(bump), Some(counter)) = (bump, counter) else { return Ok(None) };
        let versions = Self { bump, counter };
        for Sample { tensor, .. } in samples.iter().filter(|sample| sample.is_plain()) {
            let py = tensor.py();
            // SAFETY: samples are torch's own.
            let tensor_impl = unsafe { reader.tensor_impl(tensor) };
            let uncounted: bool = tensor.call_method0(intern!(py, "is_inference"))?.extract()?;
            // SAFETY: the sample is alive.
            if uncounted != (unsafe { versions.counter_of(tensor_impl) } == 0) {
                return Ok(None);
            }
            if uncounted {
                continue;
            }
            let version =
                || -> PyResult<u32> { tensor.getattr(intern!(py, "_version"))?.extract() };
            let before = version()?;
            // SAFETY: the sample is alive.
            unsafe { versions.bump(tensor_impl) };
            if version()? != before + 1 {
                return Ok(None);
            }
        }
        Ok(Some(versions))
    }

    /// Counts a write, if the tensor counts them: those of inference mode do not.
    ///
    /// # Safety
    ///
    /// The `TensorImpl` is that of a tensor that is alive.
    #[inline]
    pub(super) unsafe fn bump(&self, tensor_impl: usize) {
        // SAFETY: the contract.
        if unsafe { self.counter_of(tensor_impl) } == 0 {
            return;
        }
        let mut tensor: *mut c_void = ptr::with_exposed_provenance_mut(tensor_impl);
        // SAFETY: an `at::Tensor` is one pointer to its `TensorImpl`. With a counter the function raises nothing.
        unsafe { (self.bump)((&raw mut tensor).cast()) }
    }

    /// # Safety
    ///
    /// As [`Versions::bump`].
    #[inline]
    unsafe fn counter_of(&self, tensor_impl: usize) -> usize {
        let mut tensor: *mut c_void = ptr::with_exposed_provenance_mut(tensor_impl);
        // SAFETY: the contract; as in `bump`.
        let counter = unsafe { (self.counter)((&raw mut tensor).cast()) };
        // SAFETY: a reference into the `TensorImpl`.
        unsafe { counter.read() }
    }
}
