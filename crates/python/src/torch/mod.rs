//! How torch's tensors are read.
//!
//! ```text
//! gpulend.borrow(torch.ones(3))
//!   routes.rs   the exact type is torch.Tensor         Route::Torch(&Torch)
//!   reader.rs   device, dtype, sizes, strides, address Read::Plain(view)
//!   storage.rs  its storage becomes the owner          Owner
//!   borrow.rs   the core checks the view               Lease
//! ```
//!
//! # Why there is a reader of our own
//!
//! torch describes a tensor to C in one call: the DLPack C exchange API. That call takes longer than the rest of a borrow, and
//! it describes conjugate, negative and gradient-carrying tensors as if they were plain. To ask for these flags in Python costs
//! more than the call itself. libtorch exports a C function for each property and a C++ function for each flag. They take a
//! few nanoseconds together, and they need nothing but the address of the tensor's `TensorImpl`, which lies inside the Python
//! object.
//!
//! # Why it can be trusted
//!
//! Neither the place of that address nor the C++ functions are part of a stable interface. So nothing is assumed: `samples()` in
//! `gpulend/adapters/torch.py` makes tensors of every kind, each with the outcome that reading it must have, and
//! [`Reader::of`] compares. One difference, or one function that is missing, and this process has no reader.
//!
//! The reader reads plain `TensorImpl`s only. Sparse, nested, quantized and functional tensors and the wrappers of `vmap`
//! and `grad` are of other C++ classes. It sees that by the first word of the object and answers [`Read::Unknown`].
//!
//! # What serves where the reader does not
//!
//! 1. The exchange table, after the adapter has asked in Python what the tensor means: without a reader, and for whatever the
//!    reader does not know.
//! 2. `__dlpack__`, after the same questions: for subclasses, whose methods may do anything, and for a torch without the table.
//!
//! All three give the same answers; `tests/python/test_torch_routes.py` compares them, and counts which one served.
//!
//! # What means more than bytes
//!
//! There is one rule, in [`meaning`]. A tensor whose elements differ from what its memory holds is refused: conjugate, negative,
//! sparse, without memory. One that requires a gradient is refused if its [`Use`] would lose the gradient: it is kept beyond the
//! call, or written while torch records.
//!
//! # Limits
//!
//! - What is read points into the tensor. It must be used before anything of Python's runs, because a tensor can be given other
//!   sizes and another storage at any time.
//! - A lease keeps the storage that the tensor had when it was read, not the tensor.
//! - A torch for AMD's GPUs calls them CUDA, so there is no reader for it.
//! - The proof is made once in a process. If torch raises in it, the table serves.

mod borrow;
mod dispatch;
mod library;
mod meaning;
mod operation;
mod proof;
mod reader;
mod storage;
mod version;

use gpulend::abi::dlpack::{CurrentWorkStream, TensorFromPyObject};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

pub(crate) use self::borrow::{address, alias, borrow, view};
pub(crate) use self::meaning::{Use, explain};
pub(crate) use self::operation::{PyTorchOperation, torch_operation};
pub(crate) use self::reader::{On, Read};

use self::dispatch::Dispatch;
use self::proof::Sample;
use self::reader::Reader;
use self::storage::{Storage, Storages};
use self::version::Versions;
use crate::protocols;

/// How tensors of exactly `torch.Tensor` and `torch.nn.Parameter` are read.
pub(crate) struct Torch {
    native: Option<Native>,
    /// The exchange table's description of a tensor.
    show: TensorFromPyObject,
    /// The exchange table's current stream.
    pub(crate) stream: Option<CurrentWorkStream>,
}

/// What is done by libtorch's own functions; each part is proved by itself.
struct Native {
    reader: Reader,
    storages: Option<Storages>,
    versions: Option<Versions>,
    /// Proved when the first operation is made.
    dispatch: PyOnceLock<Option<Dispatch>>,
}

impl Native {
    /// Nothing if torch raises, or the reader does not pass the proof.
    fn of(py: Python<'_>, torch: &Bound<'_, PyAny>) -> Option<Self> {
        let samples = Sample::all(py).ok()?;
        let reader = Reader::of(torch, &samples).ok()??;
        let storages = Storages::of(&reader, &samples).unwrap_or(None);
        let versions = Versions::of(&reader, &samples).unwrap_or(None);
        Some(Self { reader, storages, versions, dispatch: PyOnceLock::new() })
    }
}

impl Torch {
    /// The functions of `torch`, which has been imported; nothing if its exchange table does not show tensors. `native`:
    /// whether the reader is used where there is one.
    pub(crate) fn of(
        py: Python<'_>,
        torch: &Bound<'_, PyAny>,
        native: bool,
    ) -> PyResult<Option<&'static Self>> {
        static FOUND: [PyOnceLock<Option<Torch>>; 2] = [const { PyOnceLock::new() }; 2];
        let Some(table) = protocols::exchange_api(&torch.getattr("Tensor")?)? else {
            return Ok(None);
        };
        let found = FOUND[usize::from(native)].get_or_init(py, || {
            let show = table.dltensor_from_py_object_no_sync?;
            let native = if native { Native::of(py, torch) } else { None };
            Some(Self { native, show, stream: table.current_work_stream })
        });
        Ok(found.as_ref())
    }

    /// Whether the reader serves.
    pub(crate) const fn is_native(&self) -> bool {
        self.native.is_some()
    }

    /// Whether a use takes a tensor that the reader found to require a gradient. Nothing of Python's runs.
    #[inline]
    pub(crate) fn takes_tracked(&self, used: Use) -> bool {
        let reader = self.native.as_ref().map(|native| &native.reader);
        used.takes_tracked(|| reader.is_none_or(Reader::records_gradients))
    }

    /// Reads a tensor by libtorch's functions, and asks what it means if that is to be checked.
    ///
    /// # Safety
    ///
    /// 1. The tensor is of exactly torch's types.
    /// 2. What is read points into it: it is used before anything else of torch's or Python's runs.
    #[inline(always)]
    pub(crate) unsafe fn read<'a>(
        &self,
        tensor: &'a Bound<'_, PyAny>,
        on: On,
        checked: bool,
    ) -> Read<'a> {
        match &self.native {
            // SAFETY: the contract.
            Some(native) => unsafe { native.reader.read(tensor, on, checked) },
            None => Read::Unknown,
        }
    }

    /// Proves, once in a process, that the dispatcher's keys are known, and returns whether they are.
    pub(crate) fn prove_dispatch(&self, py: Python<'_>) -> bool {
        let Some(Native { reader, dispatch, .. }) = &self.native else { return false };
        let prove = || Dispatch::of(py, reader, &Sample::all(py)?);
        dispatch.get_or_init(py, || prove().unwrap_or(None)).is_some()
    }

    /// How a call is looked at as the dispatcher would, if that was proved.
    #[inline]
    pub(crate) fn dispatch(&self, py: Python<'_>) -> Option<&Dispatch> {
        self.native.as_ref()?.dispatch.get(py)?.as_ref()
    }

    /// The dispatcher's keys of a tensor; nothing if they are not known.
    ///
    /// # Safety
    ///
    /// The tensor is of exactly torch's types.
    #[inline]
    pub(crate) unsafe fn keys(&self, tensor: &Bound<'_, PyAny>) -> Option<u64> {
        let Native { reader, dispatch, .. } = self.native.as_ref()?;
        let dispatch = dispatch.get(tensor.py())?.as_ref()?;
        // SAFETY: the contract.
        let tensor_impl = unsafe { reader.tensor_impl(tensor) };
        // SAFETY: the object keeps its `TensorImpl`.
        Some(unsafe { dispatch.keys(tensor_impl) })
    }

    /// The address of a tensor's first element; nothing where the table has to serve.
    ///
    /// # Safety
    ///
    /// The tensor is of exactly torch's types.
    #[inline]
    pub(crate) unsafe fn address(&self, tensor: &Bound<'_, PyAny>) -> Option<u64> {
        // SAFETY: the contract.
        self.native.as_ref().and_then(|native| unsafe { native.reader.address(tensor) })
    }

    /// The storage of a tensor; nothing where the table has to serve.
    ///
    /// # Safety
    ///
    /// The tensor is of exactly torch's types.
    #[inline(always)]
    unsafe fn storage(&self, tensor: &Bound<'_, PyAny>) -> Option<Storage<'_>> {
        let Native { reader, storages, .. } = self.native.as_ref()?;
        let storages = storages.as_ref()?;
        // SAFETY: the contract.
        let tensor_impl = unsafe { reader.tensor_impl(tensor) };
        // SAFETY: the object keeps it.
        let plain = unsafe { reader.is_plain_class(tensor_impl) };
        // SAFETY: as above, and the class is that of plain ones.
        let has = plain && unsafe { storages.has(tensor_impl) };
        has.then_some(Storage { storages, tensor_impl })
    }

    /// Counts a write of a tensor, for autograd.
    ///
    /// # Safety
    ///
    /// The tensor is of exactly torch's types.
    #[inline]
    pub(crate) unsafe fn count_write(&self, tensor: &Bound<'_, PyAny>) -> PyResult<()> {
        let Some(Native { reader, versions: Some(versions), .. }) = &self.native else {
            return count_write(tensor);
        };
        // SAFETY: the contract.
        let tensor_impl = unsafe { reader.tensor_impl(tensor) };
        // SAFETY: the object keeps its `TensorImpl`.
        unsafe { versions.bump(tensor_impl) };
        Ok(())
    }
}

/// Counts a write of any tensor, in Python.
#[cold]
pub(crate) fn count_write(tensor: &Bound<'_, PyAny>) -> PyResult<()> {
    proof::adapter(tensor.py())?.call_method1("count_write", (tensor,))?;
    Ok(())
}
