//! torch's stable C ABI (torch 2.14 and newer): a tensor read in 40 ns, guards included.
//!
//! The exchange API describes a tensor in 53 ns and says nothing about what it
//! means; asking torch's Python methods costs another 85. The stable ABI gives
//! a handle in 25, and everything else is one load each. Three questions it
//! has no function for are put to libtorch's own C++ functions with that
//! handle. Whether those are what we take them for is proved once on sample
//! tensors; if not, or with an older torch, [`crate::guards`] serves.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::{ptr, slice};

use gpulend::import::raw::Told;
use gpulend::{Device, Dtype, MOST_AXES, Memory};
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

/// The functions, looked up once.
#[derive(Clone, Copy)]
pub(crate) struct StableTorch {
    from_pyobject: unsafe extern "C" fn(*mut PyObject, *mut Handle) -> i32,
    delete: unsafe extern "C" fn(Handle) -> i32,
    layout: Get<i32>,
    device_type: Get<i32>,
    dtype: Get<i32>,
    dim: Get<i64>,
    sizes: Get<*mut i64>,
    strides: Get<*mut i64>,
    data: Get<*mut c_void>,
    is_neg: Ask,
    is_conj: Ask,
    /// A method of `TensorImpl`, which a handle points to the pointer of.
    requires_grad: Ask,
    strided: i32,
    cpu: i32,
    /// Element types by torch's code; the rest take the slow way.
    dtypes: [Option<Dtype>; 64],
}

/// What reading a tensor found.
pub(crate) enum Found<'a> {
    /// A plain array.
    Plain(Told<'a>),
    /// A tensor of another device.
    Elsewhere,
    /// Something that a plain array would lose, or that is none.
    Other,
}

static STABLE: PyOnceLock<Option<StableTorch>> = PyOnceLock::new();

impl StableTorch {
    /// The functions, if torch has them and they pass the proof.
    pub(crate) fn of(py: Python<'_>) -> Option<&'static Self> {
        STABLE
            .get_or_init(py, || {
                // SAFETY: nothing is loaded, so no initialiser runs.
                let library =
                    unsafe { Library::open(Some("libtorch_cpu.so"), RTLD_LAZY | RTLD_NOLOAD) };
                // SAFETY: the library is torch's; `load` names the functions' documented types.
                let stable = unsafe { Self::load(&library.ok()?) }?;
                stable.prove(py).ok()?.then_some(stable)
            })
            .as_ref()
    }

    /// Looks the functions up.
    ///
    /// # Safety
    ///
    /// `library` is libtorch, which is never unloaded.
    unsafe fn load(library: &Library) -> Option<Self> {
        macro_rules! find {
            ($name:expr) => {
                // SAFETY: the contract; the types are those of torch/csrc/stable/c/shim.h and
                // torch/csrc/inductor/aoti_torch/c/shim.h.
                *unsafe { library.get($name.as_bytes()) }.ok()?
            };
        }
        let constant = |name: String| {
            // SAFETY: the contract; such functions take nothing and return an `int32_t`.
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
            from_pyobject: find!("torch_tensor_from_pyobject"),
            delete: find!("aoti_torch_delete_tensor_object"),
            layout: find!("aoti_torch_get_layout"),
            device_type: find!("aoti_torch_get_device_type"),
            dtype: find!("aoti_torch_get_dtype"),
            dim: find!("aoti_torch_get_dim"),
            sizes: find!("aoti_torch_get_sizes"),
            strides: find!("aoti_torch_get_strides"),
            data: find!("aoti_torch_get_data_ptr"),
            is_neg: find!(IS_NEG),
            is_conj: find!(IS_CONJ),
            requires_grad: find_requires_grad()?,
            strided: constant("aoti_torch_layout_strided".to_owned())?,
            cpu: constant("aoti_torch_device_type_cpu".to_owned())?,
            dtypes,
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

    /// Reads a tensor of exactly torch's types; nothing if torch raises or the tensor is unusual.
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
        if opened.get(self.layout)? != self.strided {
            return Some(Found::Other);
        }
        if opened.get(self.device_type)? != self.cpu {
            return Some(Found::Elsewhere);
        }
        let dtype = usize::try_from(opened.get(self.dtype)?).ok()?;
        let Some(dtype) = self.dtypes.get(dtype).copied().flatten() else {
            return Some(Found::Other);
        };
        if guarded && opened.means_more(self, dtype) {
            return Some(Found::Other);
        }
        let rank = usize::try_from(opened.get(self.dim)?).ok()?;
        if rank > MOST_AXES {
            return Some(Found::Other);
        }
        let (shape, strides) = (opened.get(self.sizes)?, opened.get(self.strides)?);
        Some(Found::Plain(Told {
            address: opened.get(self.data)?.addr() as u64,
            place: (Device::CPU, Memory::Host),
            dtype,
            // SAFETY: sizes belong to the tensor, which `'a` keeps, and change only by its own calls.
            shape: unsafe { numbers(shape, rank) },
            // SAFETY: as above, for strides.
            strides: unsafe { numbers(strides, rank) },
            readonly: false,
        }))
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

    #[inline]
    fn get<T>(&self, get: Get<T>) -> Option<T> {
        let mut value = MaybeUninit::uninit();
        // SAFETY: the handle is alive, and the function is one that fills such a value.
        let failed = unsafe { get(self.handle, value.as_mut_ptr()) };
        // SAFETY: 0 means that the value was written.
        (failed == 0).then(|| unsafe { value.assume_init() })
    }

    /// Whether a plain array would lose what the tensor means.
    #[inline]
    fn means_more(&self, stable: &StableTorch, dtype: Dtype) -> bool {
        // SAFETY: a handle is a pointer to an `at::Tensor` (aoti_torch/utils.h), which these take.
        let negative = unsafe { (stable.is_neg)(self.handle) };
        // SAFETY: as above.
        let conjugate = dtype.is_complex() && unsafe { (stable.is_conj)(self.handle) };
        // SAFETY: `prove` found that the handle points to the pointer to the `TensorImpl`.
        let tensor_impl = unsafe { self.handle.cast::<*mut c_void>().read() };
        // SAFETY: as above; the tensor keeps its `TensorImpl`.
        negative || conjugate || unsafe { (stable.requires_grad)(tensor_impl) }
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

/// torch's answers to whether a tensor's values are negated or conjugated.
pub(crate) fn find_in_torch() -> Option<[Ask; 2]> {
    Some([find_in("libtorch_cpu.so", IS_NEG)?, find_in("libtorch_cpu.so", IS_CONJ)?])
}

/// torch's answer to whether a tensor requires a gradient.
pub(crate) fn find_requires_grad() -> Option<Ask> {
    find_in("libc10.so", REQUIRES_GRAD)
}

fn find_in(library: &str, name: &str) -> Option<Ask> {
    // SAFETY: nothing is loaded, so no initialiser runs.
    let library = unsafe { Library::open(Some(library), RTLD_LAZY | RTLD_NOLOAD) }.ok()?;
    // SAFETY: a function of one reference, or a const method without arguments, that returns bool
    // has this type in the C++ ABI.
    let symbol = unsafe { library.get(name.as_bytes()) }.ok()?;
    Some(*symbol)
}
