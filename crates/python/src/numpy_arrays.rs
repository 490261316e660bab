//! NumPy's arrays: read where they lie; by `__dlpack__`, and by the adapter, what the reader does not know.
//!
//! The layout of an array object is part of NumPy's C API (`PyArrayObject_fields` and `PyArray_Descr` in `ndarraytypes.h`), alike
//! in all versions since 1.7. It is proved all the same, on samples, as torch's is: where one differs, `__dlpack__` serves. That
//! call makes a tensor and a capsule for each array, which takes longer than all the rest.

use std::ffi::c_int;
use std::{ptr, slice};

use gpulend::import::raw::ViewRef;
use gpulend::ledger::Name;
use gpulend::stream::Ready;
use gpulend::{Device, Dtype, Lease, MOST_AXES, Memory, import};
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use pyo3::{ffi, intern};
use smallvec::SmallVec;

use crate::counts::{Counted, count};
use crate::errors::raise;
use crate::protocols::{self, producer_raised};
use crate::{capsule, owners, wrap};

/// The beginning of an array object.
#[repr(C)]
struct Array {
    object: ffi::PyObject,
    data: *mut u8,
    rank: c_int,
    shape: *const i64,
    /// In bytes.
    strides: *const i64,
    base: *mut ffi::PyObject,
    element: *const Element,
    flags: c_int,
}

/// The beginning of an array's element type.
#[repr(C)]
struct Element {
    object: ffi::PyObject,
    class: *mut ffi::PyTypeObject,
    kind: u8,
    letter: u8,
    byte_order: u8,
    former_flags: u8,
    number: c_int,
}

/// NumPy's flag of arrays that may be written.
const WRITEABLE: c_int = 0x0400;
/// NumPy's flag of arrays that are copied back into another when they are dropped.
const WRITEBACK: c_int = 0x2000;
/// How NumPy says that elements are of the machine's own byte order, or have none.
const NATIVE: [u8; 2] = *b"=|";
/// One more than the highest number of a type of NumPy's own.
const TYPES: usize = 24;

/// How arrays are read: the element types by NumPy's numbers.
pub(crate) struct Reader([Option<Dtype>; TYPES]);

/// What is read of an array.
struct Description {
    address: u64,
    dtype: Dtype,
    shape: SmallVec<[i64; 8]>,
    strides: SmallVec<[i64; 8]>,
    readonly: bool,
}

impl Reader {
    /// The reader, if NumPy's arrays pass the proof.
    pub(crate) fn get(py: Python<'_>) -> Option<&'static Self> {
        static READER: PyOnceLock<Option<Reader>> = PyOnceLock::new();
        READER.get_or_init(py, || Self::prove(py).unwrap_or(None)).as_ref()
    }

    /// Compares what is read of the adapter's samples with what NumPy says of them in Python.
    fn prove(py: Python<'_>) -> PyResult<Option<Self>> {
        type Said = (u64, Vec<i64>, Vec<i64>, String, usize, bool);
        let adapter = py.import(intern!(py, "gpulend.adapters.numpy"))?;
        let samples: Vec<(Bound<'_, PyAny>, Said)> =
            adapter.call_method0(intern!(py, "samples"))?.extract()?;
        let mut reader = Self([None; TYPES]);
        for (_, (.., name, number, _)) in &samples {
            let Some(place) = reader.0.get_mut(*number) else { return Ok(None) };
            *place = name.parse().ok();
        }
        for (array, (address, shape, strides, name, _, readonly)) in &samples {
            // SAFETY: samples are arrays of NumPy's own class.
            let agrees = unsafe { reader.read(array) }.is_some_and(|read| {
                let dtype = name.parse() == Ok(read.dtype);
                let extents = read.shape[..] == shape[..] && read.strides[..] == strides[..];
                (read.address, read.readonly) == (*address, *readonly) && dtype && extents
            });
            if !agrees {
                return Ok(None);
            }
        }
        Ok(Some(reader))
    }

    /// Reads an array; nothing if its elements are not plain numbers, or its strides no multiples of them.
    ///
    /// # Safety
    ///
    /// The array is NumPy's, or of a class made of that.
    #[inline(always)]
    unsafe fn read(&self, array: &Bound<'_, PyAny>) -> Option<Description> {
        // SAFETY: the contract; the array is alive, and the GIL is held, so nobody changes it.
        let array = unsafe { &*array.as_ptr().cast::<Array>() };
        // SAFETY: each array has an element type, which it keeps.
        let element = unsafe { &*array.element };
        let number = usize::try_from(element.number).ok()?;
        let dtype = self.0.get(number).copied().flatten()?;
        let rank = usize::try_from(array.rank).ok()?;
        let native = NATIVE.contains(&element.byte_order);
        if !native || array.flags & WRITEBACK != 0 || rank > MOST_AXES {
            return None;
        }
        // SAFETY: an array has so many extents.
        let shape = unsafe { numbers(array.shape, rank) };
        // SAFETY: and so many strides.
        let bytes = unsafe { numbers(array.strides, rank) };
        let mut strides = SmallVec::new();
        // The sizes of all these types are powers of two.
        let (bits, rest) = (dtype.itemsize().trailing_zeros(), i64::from(dtype.itemsize()) - 1);
        for stride in bytes {
            if stride & rest != 0 {
                return None;
            }
            strides.push(stride >> bits);
        }
        Some(Description {
            address: array.data.expose_provenance() as u64,
            dtype,
            shape: SmallVec::from_slice(shape),
            strides,
            readonly: array.flags & WRITEABLE == 0,
        })
    }
}

/// # Safety
///
/// `first` points to `rank` numbers that nobody writes meanwhile, or `rank` is 0.
unsafe fn numbers<'a>(first: *const i64, rank: usize) -> &'a [i64] {
    if rank == 0 {
        return &[];
    }
    // SAFETY: the contract.
    unsafe { slice::from_raw_parts(first, rank) }
}

/// Where the first element of an array of exactly NumPy's class lies; nothing for other objects.
pub(crate) fn address(array: &Bound<'_, PyAny>) -> Option<u64> {
    static CLASS: PyOnceLock<usize> = PyOnceLock::new();
    let py = array.py();
    Reader::get(py)?;
    let class = CLASS.get_or_init(py, || {
        let class = py.import(intern!(py, "numpy")).and_then(|numpy| numpy.getattr("ndarray"));
        class.map_or(ptr::null_mut(), |class| class.as_ptr()).addr()
    });
    // SAFETY: it is of that class, and alive.
    (array.get_type_ptr().addr() == *class)
        .then(|| unsafe { (*array.as_ptr().cast::<Array>()).data }.addr() as u64)
}

/// Whether a class is made of `numpy.ndarray`, whatever it is called: by its layout, not by `__subclasscheck__`.
pub(crate) fn is_array(class: &Bound<'_, PyType>) -> bool {
    ndarray(class.py()).is_ok_and(|array| {
        // SAFETY: both are classes that are alive.
        unsafe { ffi::PyType_IsSubtype(class.as_type_ptr(), array.as_type_ptr()) == 1 }
    })
}

/// Whether this is the `__dlpack__` of `numpy.ndarray`, which runs no Python code.
pub(crate) fn is_own(method: &Bound<'_, PyAny>) -> bool {
    let theirs =
        ndarray(method.py()).and_then(|array| array.getattr(intern!(method.py(), "__dlpack__")));
    theirs.is_ok_and(|theirs| theirs.is(method))
}

fn ndarray(py: Python<'_>) -> PyResult<Bound<'_, PyType>> {
    Ok(py.import(intern!(py, "numpy"))?.getattr(intern!(py, "ndarray"))?.cast_into()?)
}

/// Borrows an array of a class that has NumPy's own `__dlpack__`.
#[inline(always)]
pub(crate) fn borrow(array: &Bound<'_, PyAny>, reader: &Reader, who: Name) -> PyResult<Lease> {
    // SAFETY: the route is that of its class.
    let Some(read) = (unsafe { reader.read(array) }) else { return by_dlpack(array, who) };
    count(Counted::NumPyNative);
    let view = ViewRef {
        address: read.address,
        place: (Device::CPU, Memory::Host),
        dtype: read.dtype,
        shape: &read.shape,
        strides: &read.strides,
        readonly: read.readonly,
    };
    // SAFETY: (1) and (2) the array keeps its memory, and said whether it is read-only; (3) is the Python caller's, as for any two
    // views of one array.
    let lease = unsafe { import::raw::enter(view, || owners::keep(array), |_| Ready::Now, who) };
    lease.map_err(raise)
}

/// Borrows any other array of NumPy's.
#[inline(never)]
pub(crate) fn by_dlpack(array: &Bound<'_, PyAny>, who: Name) -> PyResult<Lease> {
    count(Counted::NumPyDlpack);
    match protocols::call_versioned(array, None) {
        Ok(capsule) => capsule::take(&capsule, |_| Ready::Now, who),
        // What DLPack cannot say (ml_dtypes, read-only before NumPy 2.1), the adapter can.
        Err(error) => {
            let py = array.py();
            if !error.is_instance_of::<PyBufferError>(py)
                && !error.is_instance_of::<PyTypeError>(py)
            {
                return Err(producer_raised(array, "__dlpack__", error));
            }
            let adapter = py.import(intern!(py, "gpulend.adapters.numpy"))?;
            let described = adapter.call_method1(intern!(py, "describe"), (array,))?;
            let view = wrap::described(&described)?;
            // SAFETY: (1) and (2) the array keeps its memory and said whether it is read-only;
            // (3) is the Python caller's, as for any two views of one array.
            Ok(unsafe { import::raw::wrap(view, owners::keep(array), who) })
        }
    }
}
