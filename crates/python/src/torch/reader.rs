//! The reader: a tensor's properties by the functions that libtorch exports, asked of the `TensorImpl` inside the Python object.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::{ptr, slice};

use gpulend::import::raw::ViewRef;
use gpulend::{Device, DeviceKind, Dtype, MOST_AXES, Memory};
use pyo3::prelude::*;

use super::Torch;
use super::library::{self, find};
use super::meaning::{Meaning, Questions, Use};
use super::proof::Sample;
use crate::places::{find_place, word};

/// What reading a tensor found.
pub(crate) enum Read<'a> {
    /// A plain array.
    Plain(ViewRef<'a>),
    /// The same, but that it requires a gradient.
    Tracked(ViewRef<'a>),
    /// A tensor of memory that was not asked for, or of a device that is neither the host nor CUDA's.
    Elsewhere,
    /// A tensor whose elements are not what its memory holds.
    Refused,
    /// The reader does not know it: another class of `TensorImpl`, an element type it does not know, or libtorch raised.
    Unknown,
}

impl Read<'_> {
    /// Whether a use loses part of what the tensor means, as far as the reader knows.
    #[inline]
    pub(super) fn is_lost(&self, used: Use, torch: &Torch) -> bool {
        match self {
            Self::Refused => true,
            Self::Tracked(_) => !torch.takes_tracked(used),
            Self::Plain(_) | Self::Elsewhere | Self::Unknown => false,
        }
    }
}

/// Tensors of which memory are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    Gpu,
    Any,
}

/// libtorch's answers, asked of the tensor inside a Python object.
pub(super) struct Reader {
    /// Where in the object the pointer to the tensor's `TensorImpl` lies.
    place: usize,
    /// What every plain `TensorImpl` begins with: C++ begins objects of one class alike, and those of another otherwise.
    class: usize,
    questions: Questions,
    getters: Getters,
}

impl Reader {
    /// How far into the object the pointer is looked for.
    const PLACES: [usize; 6] = [16, 24, 32, 40, 48, 56];

    /// The functions and the place, if torch has them and every sample is read as it should be.
    pub(super) fn of(torch: &Bound<'_, PyAny>, samples: &[Sample<'_>]) -> PyResult<Option<Self>> {
        // A GPU of AMD's is called CUDA there.
        if !torch.getattr("version")?.getattr("hip")?.is_none() {
            return Ok(None);
        }
        let (Some(questions), Some(getters)) = (Questions::find(), Getters::find()) else {
            return Ok(None);
        };
        let size: usize = torch.getattr("Tensor")?.getattr("__basicsize__")?.extract()?;
        let places = Self::PLACES.into_iter().filter(|place| place + 8 <= size);
        let inside =
            |sample: &Sample<'_>| (sample.tensor.as_ptr().expose_provenance(), sample.tensor_impl);
        let known: Vec<_> = samples.iter().map(inside).collect();
        // SAFETY: objects of tensors are so large.
        let Some(place) = (unsafe { find_place(places, &known) }) else { return Ok(None) };
        let Some(plain) = samples.iter().find(|sample| sample.is_plain()) else { return Ok(None) };
        // SAFETY: torch gave the address of the `TensorImpl`, which the sample keeps.
        let class = unsafe { word(plain.tensor_impl) };
        let reader = Self { place, class, questions, getters };
        for sample in samples {
            if !sample.agrees(&reader)? {
                return Ok(None);
            }
        }
        let records: bool = torch.call_method0("is_grad_enabled")?.extract()?;
        Ok((records == reader.records_gradients()).then_some(reader))
    }

    /// Whether torch records gradients in this thread.
    pub(super) fn records_gradients(&self) -> bool {
        self.questions.records_gradients()
    }

    /// The address of a tensor's `TensorImpl`, which the object keeps.
    ///
    /// # Safety
    ///
    /// The tensor is of exactly torch's types.
    #[inline]
    pub(super) unsafe fn tensor_impl(&self, tensor: &Bound<'_, PyAny>) -> usize {
        // SAFETY: the contract; `of` found that the pointer lies there in such objects.
        let place = unsafe { tensor.as_ptr().cast::<u8>().add(self.place) };
        // SAFETY: as above; places are multiples of eight, as objects are aligned.
        unsafe { place.cast::<usize>().read() }
    }

    /// Whether a tensor is no wrapper, and of no other kind that has a class of its own.
    ///
    /// # Safety
    ///
    /// The `TensorImpl` is that of a tensor that is alive.
    #[inline]
    pub(super) unsafe fn is_plain_class(&self, tensor_impl: usize) -> bool {
        // SAFETY: the contract; it is larger than a word.
        unsafe { word(tensor_impl) == self.class }
    }

    /// The address of a plain tensor's first element; nothing of other tensors, or if libtorch raises.
    ///
    /// # Safety
    ///
    /// The tensor is of exactly torch's types.
    #[inline]
    pub(super) unsafe fn address(&self, tensor: &Bound<'_, PyAny>) -> Option<u64> {
        // SAFETY: the contract.
        let tensor_impl = unsafe { self.tensor_impl(tensor) };
        // SAFETY: the object keeps it.
        if !unsafe { self.is_plain_class(tensor_impl) } {
            return None;
        }
        let mut pointer: *mut c_void = ptr::with_exposed_provenance_mut(tensor_impl);
        // SAFETY: an `at::Tensor` is one pointer to its `TensorImpl`, which the object keeps.
        let data = unsafe { get((&raw mut pointer).cast(), self.getters.data) };
        data.map(|data| data.addr() as u64)
    }

    /// # Safety
    ///
    /// As [`Torch::read`](super::Torch::read).
    #[inline]
    pub(super) unsafe fn read<'a>(
        &self,
        tensor: &'a Bound<'_, PyAny>,
        on: On,
        checked: bool,
    ) -> Read<'a> {
        // SAFETY: (1).
        let tensor_impl = unsafe { self.tensor_impl(tensor) };
        // SAFETY: the object keeps it.
        if !unsafe { self.is_plain_class(tensor_impl) } {
            return Read::Unknown;
        }
        let mut pointer: *mut c_void = ptr::with_exposed_provenance_mut(tensor_impl);
        let handle = (&raw mut pointer).cast::<c_void>();
        // SAFETY: an `at::Tensor` is one pointer to its `TensorImpl`.
        let ask = |dtype| unsafe { self.questions.ask(handle, dtype) };
        let ask = |dtype| if checked { ask(dtype) } else { Meaning::Plain };
        // SAFETY: (1) as above, and the object keeps the tensor; (2) is the contract's.
        unsafe { self.getters.read(handle, on, ask) }.unwrap_or(Read::Unknown)
    }
}

/// An `AtenTensorHandle`: a pointer to an `at::Tensor`.
type Handle = *mut c_void;
type Get<T> = unsafe extern "C" fn(Handle, *mut T) -> i32;

/// libtorch's functions of C, one for each property.
struct Getters {
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
    /// Element types by torch's code.
    dtypes: [Option<Dtype>; 64],
}

/// A function that torch/csrc/inductor/aoti_torch/c/shim.h declares.
macro_rules! getter {
    ($name:expr) => {
        // SAFETY: the types are those of that file.
        unsafe { find(library::CPU, $name) }?
    };
}

/// A number that such a function without arguments returns.
fn constant(name: &str) -> Option<i32> {
    let function: unsafe extern "C" fn() -> i32 = getter!(name);
    // SAFETY: as above.
    Some(unsafe { function() })
}

impl Getters {
    /// The functions, if torch has them.
    fn find() -> Option<Self> {
        let mut dtypes = [None; 64];
        for dtype in Dtype::all() {
            let code = constant(&format!("aoti_torch_dtype_{}", dtype.name()));
            if let Some(entry) = code.and_then(|code| dtypes.get_mut(usize::try_from(code).ok()?)) {
                *entry = Some(dtype);
            }
        }
        Some(Self {
            layout: getter!("aoti_torch_get_layout"),
            device_type: getter!("aoti_torch_get_device_type"),
            device_index: getter!("aoti_torch_get_device_index"),
            dtype: getter!("aoti_torch_get_dtype"),
            dim: getter!("aoti_torch_get_dim"),
            sizes: getter!("aoti_torch_get_sizes"),
            strides: getter!("aoti_torch_get_strides"),
            data: getter!("aoti_torch_get_data_ptr"),
            storage_offset: getter!("aoti_torch_get_storage_offset"),
            storage_size: getter!("aoti_torch_get_storage_size"),
            strided: constant("aoti_torch_layout_strided")?,
            cpu: constant("aoti_torch_device_type_cpu")?,
            cuda: constant("aoti_torch_device_type_cuda")?,
            dtypes,
        })
    }

    /// Reads a tensor; nothing if torch raises, which older versions also print, or the element type is unknown.
    ///
    /// # Safety
    ///
    /// 1. The handle points to an `at::Tensor` (aoti_torch/utils.h) that is there for `'a`.
    /// 2. What is read points into the tensor: it is used before any call that could change it.
    #[inline]
    unsafe fn read<'a>(
        &self,
        handle: Handle,
        on: On,
        ask: impl FnOnce(Dtype) -> Meaning,
    ) -> Option<Read<'a>> {
        // SAFETY: (1).
        if unsafe { get(handle, self.layout) }? != self.strided {
            return Some(Read::Refused);
        }
        // SAFETY: (1).
        let device = unsafe { get(handle, self.device_type) }?;
        let place = if device == self.cpu && on == On::Any {
            (Device::CPU, Memory::Host)
        } else if device == self.cuda {
            // SAFETY: (1).
            let index = u8::try_from(unsafe { get(handle, self.device_index) }?).ok()?;
            (Device::new(DeviceKind::Cuda, index), Memory::Device)
        } else {
            return Some(Read::Elsewhere);
        };
        // SAFETY: (1).
        let dtype = usize::try_from(unsafe { get(handle, self.dtype) }?).ok()?;
        let dtype = self.dtypes.get(dtype).copied().flatten()?;
        let meaning = ask(dtype);
        // SAFETY: (1).
        let rank = usize::try_from(unsafe { get(handle, self.dim) }?).ok()?;
        if meaning == Meaning::Other || rank > MOST_AXES {
            return Some(Read::Refused);
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
            _ if !is_there(&view, offset, size) => Read::Refused,
            Meaning::Tracked => Read::Tracked(view),
            _ => Read::Plain(view),
        })
    }
}

/// Whether a tensor lies in its storage: that may have been resized, and some tensors have none, of which a view's address is
/// its offset.
#[inline]
fn is_there(view: &ViewRef<'_>, offset: i64, size: i64) -> bool {
    // One test at the end for all sums: a test after each costs twice as much.
    let (mut end, mut too_far) = offset.overflowing_add(1);
    for (extent, stride) in view.shape.iter().zip(view.strides) {
        if *extent == 0 {
            return true;
        }
        let (reach, first) = (extent - 1).overflowing_mul(*stride);
        let (sum, second) = end.overflowing_add(reach);
        (end, too_far) = (sum, too_far | first | second);
    }
    let itemsize = i64::from(view.dtype.itemsize());
    // If this overflows, so does the end, which is farther away.
    let start = offset.wrapping_mul(itemsize).cast_unsigned();
    let (bytes, too_long) = end.overflowing_mul(itemsize);
    !(too_far | too_long) && offset >= 0 && offset < end && bytes <= size && view.address > start
}

/// What one of the functions answers.
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
