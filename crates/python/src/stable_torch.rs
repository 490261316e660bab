//! torch's stable C ABI (torch 2.14 and newer): a tensor read in 40 ns, guards included.
//!
//! The exchange API describes a tensor in 53 ns and says nothing about what it
//! means; asking torch's Python methods costs another 85. The stable ABI gives
//! a handle in 25, and everything else is one load each. Three questions it
//! has no function for are put to libtorch's own C++ functions with that
//! handle. Whether those are what we take them for is proved once on sample
//! tensors; if not, or with an older torch, [`crate::guards`] serves. It also
//! reads tensors of a GPU by the same functions, in any torch that has them,
//! where a handle can be made of the object itself.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::{ptr, slice};

use gpulend::import::raw::ViewRef;
use gpulend::{Device, DeviceKind, Dtype, MOST_AXES, Memory};
use libloading::os::unix::{Library, RTLD_LAZY};
use pyo3::ffi::PyObject;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// `RTLD_NOLOAD` of glibc: find the library only if the process has it already.
const RTLD_NOLOAD: c_int = 4;

/// An `AtenTensorHandle`.
type Handle = *mut c_void;
type Get<T> = unsafe extern "C" fn(Handle, *mut T) -> i32;
pub(crate) type Ask = unsafe extern "C" fn(Handle) -> bool;

/// What torch tells of a tensor, a function each, looked up once.
#[derive(Clone, Copy)]
pub(crate) struct Getters {
    layout: Get<i32>,
    device_type: Get<i32>,
    device_index: Get<i32>,
    dtype: Get<i32>,
    dim: Get<i64>,
    sizes: Get<*mut i64>,
    strides: Get<*mut i64>,
    data: Get<*mut c_void>,
    storage_offset: Get<i64>,
    storage_size: Get<i64>,
    strided: i32,
    cpu: i32,
    cuda: i32,
    /// Element types by torch's code; the rest take the slow way.
    dtypes: [Option<Dtype>; 64],
}

/// The functions by which a Python object is read.
#[derive(Clone, Copy)]
pub(crate) struct StableTorch {
    from_pyobject: unsafe extern "C" fn(*mut PyObject, *mut Handle) -> i32,
    delete: unsafe extern "C" fn(Handle) -> i32,
    getters: Getters,
    questions: Questions,
}

/// What torch is asked of a tensor that a plain array would lose.
#[derive(Clone, Copy)]
pub(crate) struct Questions {
    is_neg: Ask,
    is_conj: Ask,
    /// A method of `TensorImpl`, which a handle points to the pointer of.
    requires_grad: Ask,
}

/// What a tensor means beside its elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// Nothing.
    Plain,
    /// It requires a gradient, which is lost only where it is written, or kept.
    Tracked,
    /// Its elements are other than its memory holds.
    Other,
}

impl Questions {
    /// The functions, if torch has them.
    pub(crate) fn find() -> Option<Self> {
        // SAFETY: functions of one reference, or const methods without arguments, that return bool have this type in the C++ ABI.
        let find = |library, name| unsafe { find_in(library, name) };
        Some(Self {
            is_neg: find("libtorch_cpu.so", IS_NEG)?,
            is_conj: find("libtorch_cpu.so", IS_CONJ)?,
            requires_grad: find("libc10.so", REQUIRES_GRAD)?,
        })
    }

    /// What a tensor of that element type means.
    ///
    /// # Safety
    ///
    /// The handle points to an `at::Tensor`, which is one pointer to its `TensorImpl`, and the functions are proved.
    #[inline]
    pub(crate) unsafe fn ask(&self, handle: Handle, dtype: Dtype) -> Meaning {
        // SAFETY: the contract; the functions only look.
        let negative = unsafe { (self.is_neg)(handle) };
        // Other types can be neither, and each question is a call into a cold corner of torch.
        // SAFETY: as above.
        if negative || dtype.is_complex() && unsafe { (self.is_conj)(handle) } {
            return Meaning::Other;
        }
        // SAFETY: the contract.
        let tensor_impl = unsafe { handle.cast::<*mut c_void>().read() };
        // SAFETY: as above; the tensor keeps its `TensorImpl`.
        if dtype.is_differentiable() && unsafe { (self.requires_grad)(tensor_impl) } {
            return Meaning::Tracked;
        }
        Meaning::Plain
    }
}

/// Tensors of which memory are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    Host,
    Gpu,
    Any,
}

/// What reading a tensor found.
pub(crate) enum Found<'a> {
    /// A plain array.
    Plain(ViewRef<'a>),
    /// The same, but that it requires a gradient.
    Tracked(ViewRef<'a>),
    /// A tensor of another device.
    Elsewhere,
    /// Something that a plain array would lose, or that is none.
    Other,
}

/// torch's library, if the process has it.
fn library() -> Option<Library> {
    // SAFETY: nothing is loaded, so no initialiser runs.
    unsafe { Library::open(Some("libtorch_cpu.so"), RTLD_LAZY | RTLD_NOLOAD) }.ok()
}

macro_rules! find {
    ($library:expr, $name:expr) => {
        // SAFETY: the library is libtorch, which is never unloaded; the types are those of torch/csrc/stable/c/shim.h and
        // torch/csrc/inductor/aoti_torch/c/shim.h.
        *unsafe { $library.get($name.as_bytes()) }.ok()?
    };
}

impl Getters {
    /// The functions, if torch has them.
    pub(crate) fn load() -> Option<Self> {
        let library = library()?;
        let constant = |name: String| {
            // SAFETY: as in `find`; such functions take nothing and return an `int32_t`.
            let symbol = unsafe { library.get::<unsafe extern "C" fn() -> i32>(name.as_bytes()) };
            // SAFETY: as above.
            symbol.ok().map(|function| unsafe { function() })
        };
        let mut dtypes = [None; 64];
        for dtype in Dtype::all() {
            let code = constant(format!("aoti_torch_dtype_{}", dtype.name()));
            if let Some(entry) = code.and_then(|code| dtypes.get_mut(usize::try_from(code).ok()?)) {
                *entry = Some(dtype);
            }
        }
        Some(Self {
            layout: find!(library, "aoti_torch_get_layout"),
            device_type: find!(library, "aoti_torch_get_device_type"),
            device_index: find!(library, "aoti_torch_get_device_index"),
            dtype: find!(library, "aoti_torch_get_dtype"),
            dim: find!(library, "aoti_torch_get_dim"),
            sizes: find!(library, "aoti_torch_get_sizes"),
            strides: find!(library, "aoti_torch_get_strides"),
            data: find!(library, "aoti_torch_get_data_ptr"),
            storage_offset: find!(library, "aoti_torch_get_storage_offset"),
            storage_size: find!(library, "aoti_torch_get_storage_size"),
            strided: constant("aoti_torch_layout_strided".to_owned())?,
            cpu: constant("aoti_torch_device_type_cpu".to_owned())?,
            cuda: constant("aoti_torch_device_type_cuda".to_owned())?,
            dtypes,
        })
    }

    /// Reads a tensor; nothing if torch raises or the tensor is unusual.
    ///
    /// # Safety
    ///
    /// 1. The handle is one: a pointer to an `at::Tensor` (aoti_torch/utils.h) that is there for `'a`.
    /// 2. What is told points into the tensor: it is done with before any call that could change it.
    #[inline]
    pub(crate) unsafe fn read<'a>(
        &self,
        handle: Handle,
        on: On,
        ask: impl FnOnce(Dtype) -> Meaning,
    ) -> Option<Found<'a>> {
        // SAFETY: (1).
        if unsafe { get(handle, self.layout) }? != self.strided {
            return Some(Found::Other);
        }
        // SAFETY: (1).
        let device = unsafe { get(handle, self.device_type) }?;
        let place = if device == self.cpu && on != On::Gpu {
            (Device::CPU, Memory::Host)
        } else if device == self.cuda && on != On::Host {
            // SAFETY: (1).
            let index = u8::try_from(unsafe { get(handle, self.device_index) }?).ok()?;
            (Device::new(DeviceKind::Cuda, index), Memory::Device)
        } else {
            return Some(Found::Elsewhere);
        };
        // SAFETY: (1).
        let dtype = usize::try_from(unsafe { get(handle, self.dtype) }?).ok()?;
        let Some(dtype) = self.dtypes.get(dtype).copied().flatten() else {
            return Some(Found::Other);
        };
        let meaning = ask(dtype);
        if meaning == Meaning::Other {
            return Some(Found::Other);
        }
        // SAFETY: (1).
        let rank = usize::try_from(unsafe { get(handle, self.dim) }?).ok()?;
        if rank > MOST_AXES {
            return Some(Found::Other);
        }
        // SAFETY: (1).
        let shape = unsafe { get(handle, self.sizes) }?;
        // SAFETY: (1).
        let strides = unsafe { get(handle, self.strides) }?;
        // SAFETY: sizes belong to the tensor, which `'a` keeps, and change only by its own calls.
        let shape = unsafe { numbers(shape, rank) };
        // SAFETY: as above, for strides.
        let strides = unsafe { numbers(strides, rank) };
        // SAFETY: (1).
        let address = unsafe { get(handle, self.data) }?.addr() as u64;
        // SAFETY: (1).
        let offset = unsafe { get(handle, self.storage_offset) }?;
        // SAFETY: (1).
        let size = unsafe { get(handle, self.storage_size) }?;
        let view = ViewRef { address, place, dtype, shape, strides, readonly: false };
        Some(match meaning {
            _ if !is_there(&view, offset, size) => Found::Other,
            Meaning::Tracked => Found::Tracked(view),
            _ => Found::Plain(view),
        })
    }
}

/// Whether a tensor lies in its storage: that may have been resized, and some tensors have none, of which a view's address is
/// its offset.
#[inline]
fn is_there(view: &ViewRef<'_>, offset: i64, size: i64) -> bool {
    let mut last = offset;
    for (extent, stride) in view.shape.iter().zip(view.strides) {
        if *extent == 0 {
            return true;
        }
        last = last.saturating_add((extent - 1).saturating_mul(*stride));
    }
    let itemsize = i64::from(view.dtype.itemsize());
    let start = offset.saturating_mul(itemsize).unsigned_abs();
    let fits = last.saturating_add(1).saturating_mul(itemsize) <= size;
    fits && offset >= 0 && view.address > start
}

/// What one of the functions tells.
///
/// # Safety
///
/// The handle is alive, and the function is one that fills such a value.
#[inline]
unsafe fn get<T>(handle: Handle, get: Get<T>) -> Option<T> {
    let mut value = MaybeUninit::uninit();
    // SAFETY: the contract.
    let failed = unsafe { get(handle, value.as_mut_ptr()) };
    // SAFETY: 0 means that the value was written.
    (failed == 0).then(|| unsafe { value.assume_init() })
}

static STABLE: PyOnceLock<Option<StableTorch>> = PyOnceLock::new();

impl StableTorch {
    /// The functions, if torch has them and they pass the proof.
    pub(crate) fn of(py: Python<'_>) -> Option<&'static Self> {
        let found = STABLE.get_or_init(py, || {
            let stable = Self::load()?;
            stable.prove(py).ok()?.then_some(stable)
        });
        found.as_ref()
    }

    /// Looks the functions up.
    fn load() -> Option<Self> {
        let library = library()?;
        Some(Self {
            from_pyobject: find!(library, "torch_tensor_from_pyobject"),
            delete: find!(library, "aoti_torch_delete_tensor_object"),
            getters: Getters::load()?,
            questions: Questions::find()?,
        })
    }

    /// Proves on tensors made for it that the functions answer what we ask.
    fn prove(&self, py: Python<'_>) -> PyResult<bool> {
        let adapter = py.import(intern!(py, "gpulend.adapters.torch"))?;
        let samples = adapter.call_method0(intern!(py, "samples"))?;
        let (plain, impl_address, others): (Bound<'_, PyAny>, usize, Vec<Bound<'_, PyAny>>) =
            samples.extract()?;
        let Some(handle) = Opened::new(self, &plain) else { return Ok(false) };
        // SAFETY: a handle points to an `at::Tensor`, which holds at least one pointer.
        let pointee = unsafe { handle.handle.cast::<usize>().read() };
        if pointee != impl_address {
            return Ok(false);
        }
        drop(handle);
        let is_plain = |tensor: &Bound<'_, PyAny>| {
            // SAFETY: what is told is dropped at once.
            matches!(unsafe { self.read(tensor, true) }, Some(Found::Plain(_)))
        };
        Ok(is_plain(&plain) && !others.iter().any(is_plain))
    }

    /// Reads a tensor of exactly torch's types, on the host; nothing if torch raises or the tensor is unusual.
    ///
    /// # Safety
    ///
    /// What is told points into the tensor: it is done with before any call that could change it.
    #[inline]
    pub(crate) unsafe fn read<'a>(
        &self,
        tensor: &'a Bound<'_, PyAny>,
        guarded: bool,
    ) -> Option<Found<'a>> {
        let opened = Opened::new(self, tensor)?;
        let ask = |dtype| match guarded {
            // SAFETY: torch made the handle, and `prove` found what it points to.
            true => unsafe { self.questions.ask(opened.handle, dtype) },
            false => Meaning::Plain,
        };
        // SAFETY: (1) torch made the handle, of a tensor that `'a` keeps; (2) is the contract.
        unsafe { self.getters.read(opened.handle, On::Host, ask) }
    }
}

/// # Safety
///
/// `first` points to `rank` numbers that stay unwritten for `'a`, or `rank` is 0.
unsafe fn numbers<'a>(first: *const i64, rank: usize) -> &'a [i64] {
    if rank == 0 {
        return &[];
    }
    // SAFETY: the contract.
    unsafe { slice::from_raw_parts(first, rank) }
}

/// A handle that is deleted again.
struct Opened<'a> {
    stable: &'a StableTorch,
    handle: Handle,
}

impl<'a> Opened<'a> {
    #[inline]
    fn new(stable: &'a StableTorch, tensor: &Bound<'_, PyAny>) -> Option<Self> {
        let mut handle = ptr::null_mut();
        // SAFETY: the object is alive, the GIL is held, and the result is ours to delete.
        let failed = unsafe { (stable.from_pyobject)(tensor.as_ptr(), &raw mut handle) };
        (failed == 0).then_some(Self { stable, handle })
    }
}

impl Drop for Opened<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the handle is ours, and deleted once. It fails for no live handle.
        let _ = unsafe { (self.stable.delete)(self.handle) };
    }
}

/// `at::native::is_neg(const at::Tensor&)` and `is_conj`, as C++ spells them.
const IS_NEG: &str = "_ZN2at6native6is_negERKNS_6TensorE";
const IS_CONJ: &str = "_ZN2at6native7is_conjERKNS_6TensorE";
/// `c10::TensorImpl::requires_grad() const`.
const REQUIRES_GRAD: &str = "_ZNK3c1010TensorImpl13requires_gradEv";

/// A function of a library that the process has.
///
/// # Safety
///
/// `T` is the type of the function of that name.
pub(crate) unsafe fn find_in<T: Copy>(library: &str, name: &str) -> Option<T> {
    // SAFETY: nothing is loaded, so no initialiser runs.
    let library = unsafe { Library::open(Some(library), RTLD_LAZY | RTLD_NOLOAD) }.ok()?;
    // SAFETY: the contract; torch's libraries are never unloaded.
    let symbol = unsafe { library.get(name.as_bytes()) }.ok()?;
    Some(*symbol)
}
