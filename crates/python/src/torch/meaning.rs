//! What a tensor means beside its bytes, and which use loses it.

use std::ffi::c_void;

use gpulend::Dtype;
use pyo3::intern;
use pyo3::prelude::*;

use super::library::{self, find};
use super::proof::adapter;

/// What a call does with a tensor. A gradient is lost only by what outlives the call or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// The caller wants to lose what it means. It must have memory all the same.
    Unchecked,
    /// It is read during the call.
    Read,
    /// It may be written, by work that the call queues.
    Written,
    /// It is lent beyond the call.
    Kept,
}

impl Use {
    /// Whether tensors are asked what they mean.
    pub(crate) const fn is_checked(self) -> bool {
        !matches!(self, Self::Unchecked)
    }

    /// Whether a tensor that requires a gradient is taken; `records` is asked whether torch records gradients now. torch's own
    /// operations write such a tensor too where it records nothing.
    pub(super) fn takes_tracked(self, records: impl FnOnce() -> bool) -> bool {
        match self {
            Self::Unchecked | Self::Read => true,
            Self::Written => !records(),
            Self::Kept => false,
        }
    }

    /// As the adapter calls it.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Unchecked => "unchecked",
            Self::Read => "read",
            Self::Written => "written",
            Self::Kept => "kept",
        }
    }
}

/// What a tensor means beside its elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Nothing.
    Plain,
    /// It requires a gradient, which only some uses lose.
    Tracked,
    /// Its elements are not what its memory holds.
    Other,
}

/// A function of one pointer: a C++ reference, or the object of a const method.
type Ask = unsafe extern "C" fn(*mut c_void) -> bool;

/// The functions that say what a tensor means.
#[derive(Clone, Copy)]
pub(super) struct Questions {
    is_neg: Ask,
    is_conj: Ask,
    /// A method of `TensorImpl`.
    requires_grad: Ask,
    /// Of the thread, not of a tensor.
    records_gradients: unsafe extern "C" fn() -> bool,
}

/// `at::native::is_neg(const at::Tensor&)` and `is_conj`, as C++ spells them.
const IS_NEG: &str = "_ZN2at6native6is_negERKNS_6TensorE";
const IS_CONJ: &str = "_ZN2at6native7is_conjERKNS_6TensorE";
/// `c10::TensorImpl::requires_grad() const`.
const REQUIRES_GRAD: &str = "_ZNK3c1010TensorImpl13requires_gradEv";

impl Questions {
    /// The functions, if torch has them.
    pub(super) fn find() -> Option<Self> {
        // SAFETY: functions of one reference, or const methods without arguments, that return bool have this type in the C++ ABI.
        let ask = |library, name| unsafe { find(library, name) };
        Some(Self {
            is_neg: ask(library::CPU, IS_NEG)?,
            is_conj: ask(library::CPU, IS_CONJ)?,
            requires_grad: ask(library::CORE, REQUIRES_GRAD)?,
            // SAFETY: the type is that which torch/csrc/inductor/aoti_torch/c/shim.h declares.
            records_gradients: unsafe { find(library::CPU, "aoti_torch_grad_mode_is_enabled") }?,
        })
    }

    /// Whether torch records gradients in this thread.
    pub(super) fn records_gradients(&self) -> bool {
        // SAFETY: it takes nothing, and raises nothing.
        unsafe { (self.records_gradients)() }
    }

    /// What a tensor of that element type means.
    ///
    /// # Safety
    ///
    /// `tensor` points to an `at::Tensor`, which is one pointer to its `TensorImpl`.
    #[inline]
    pub(super) unsafe fn ask(&self, tensor: *mut c_void, dtype: Dtype) -> Meaning {
        // SAFETY: the contract; the functions only look.
        let negative = unsafe { (self.is_neg)(tensor) };
        // Other types cannot be conjugate, and each question is a call into a cold corner of torch.
        // SAFETY: as above.
        if negative || dtype.is_complex() && unsafe { (self.is_conj)(tensor) } {
            return Meaning::Other;
        }
        // SAFETY: the contract.
        let tensor_impl = unsafe { tensor.cast::<*mut c_void>().read() };
        // SAFETY: as above; the tensor keeps its `TensorImpl`.
        if dtype.is_differentiable() && unsafe { (self.requires_grad)(tensor_impl) } {
            return Meaning::Tracked;
        }
        Meaning::Plain
    }
}

/// Has the adapter say by name why a tensor is refused for a use, and what fixes it.
#[cold]
pub(crate) fn explain(tensor: &Bound<'_, PyAny>, used: Use) -> PyResult<()> {
    let py = tensor.py();
    adapter(py)?.call_method1(intern!(py, "refuse"), (tensor, used.word()))?;
    Ok(())
}
