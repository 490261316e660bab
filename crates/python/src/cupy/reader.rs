//! The reader: an array's fields where they lie in its object.
//!
//! An attribute of CuPy's costs a call and a new object, and an array has six. Its class is one of C, so that all of it lies at fixed
//! places of the object: the element type, a pointer object, two vectors of numbers. Where is not promised. So nothing is
//! assumed: `samples()` in `gpulend/adapters/cupy.py` makes arrays of every kind, and each place is one at which all of them have
//! what their attributes say. If there is no such place, this process has no reader, and attributes serve.

use std::{ptr, slice};

use gpulend::{MOST_AXES, host};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use smallvec::SmallVec;

use super::{Described, known_type, numbers};
use crate::places::{find_place, word};

/// Where fields lie, in bytes from the beginning of an object.
#[derive(Debug)]
pub(crate) struct Reader {
    /// In an array: its pointer object, its element type, and the vectors of its shape and of its strides in bytes.
    data: usize,
    dtype: usize,
    shape: usize,
    strides: usize,
    /// The class of pointer objects.
    pointer_class: usize,
    /// In such an object: the address and the number of the device.
    address: usize,
    device: usize,
}

/// Where objects of C begin to be their own.
const HEAD: usize = size_of::<ffi::PyObject>();

/// The places in objects of a class where a word can lie.
fn places(class: &Bound<'_, PyType>) -> PyResult<impl Iterator<Item = usize> + Clone> {
    let size: usize = class.getattr("__basicsize__")?.extract()?;
    Ok((HEAD..(size + 1).saturating_sub(8)).step_by(8))
}

impl Reader {
    /// The reader for a class, if it is CuPy's own and its arrays pass the proof.
    pub(crate) fn of(class: &Bound<'_, PyType>) -> Option<&'static Self> {
        static READER: PyOnceLock<Option<Reader>> = PyOnceLock::new();
        let py = class.py();
        let own = py.import("cupy").and_then(|cupy| cupy.getattr("ndarray"));
        if !own.is_ok_and(|own| own.is(class)) {
            return None;
        }
        READER.get_or_init(py, || Self::prove(class).unwrap_or(None)).as_ref()
    }

    /// Finds the places, and compares what is read of the adapter's samples with what their attributes say.
    fn prove(class: &Bound<'_, PyType>) -> PyResult<Option<Self>> {
        let py = class.py();
        let samples = py.import("gpulend.adapters.cupy")?.call_method0("samples")?;
        let samples: Vec<Bound<'_, PyAny>> = samples.extract()?;
        let [first, ..] = samples.as_slice() else { return Ok(None) };
        let pointer_class = first.getattr("data")?.get_type();
        let at = |object: &Bound<'_, PyAny>| object.as_ptr().expose_provenance();
        let (mut data, mut dtypes, mut addresses, mut devices) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut shapes, mut strides) = (Vec::new(), Vec::new());
        for sample in &samples {
            let pointer = sample.getattr("data")?;
            if !sample.get_type().is(class) || !pointer.get_type().is(&pointer_class) {
                return Ok(None);
            }
            // The sample keeps both.
            data.push((at(sample), at(&pointer)));
            dtypes.push((at(sample), at(&sample.getattr("dtype")?)));
            addresses.push((at(&pointer), pointer.getattr("ptr")?.extract()?));
            devices.push((at(&pointer), pointer.getattr("device_id")?.extract()?));
            shapes.push((at(sample), numbers(&sample.getattr("shape")?)?));
            strides.push((at(sample), numbers(&sample.getattr("strides")?)?));
        }
        let (array, pointer) = (places(class)?, places(&pointer_class)?);
        // SAFETY: the samples and their pointers are alive, and of these classes, whose objects have all of these places.
        let in_array = |known: &[_]| unsafe { find_place(array.clone(), known) };
        // SAFETY: as above.
        let vector_in_array = |known: &[_]| unsafe { find_vector(array.clone(), known) };
        // SAFETY: as above.
        let in_pointer = |known: &[_]| unsafe { find_place(pointer.clone(), known) };
        // SAFETY: as above.
        let is_int = |place: usize, (object, number): &(usize, i32)| unsafe {
            int(object + place) == *number
        };
        let (data, dtype, address) = (in_array(&data), in_array(&dtypes), in_pointer(&addresses));
        let (shape, strides) = (vector_in_array(&shapes), vector_in_array(&strides));
        let device =
            pointer.clone().find(|&place| devices.iter().all(|known| is_int(place, known)));
        let (Some(data), Some(dtype), Some(shape)) = (data, dtype, shape) else { return Ok(None) };
        let (Some(strides), Some(address), Some(device)) = (strides, address, device) else {
            return Ok(None);
        };
        let pointer_class = at(pointer_class.as_any());
        let reader = Self { data, dtype, shape, strides, pointer_class, address, device };
        for sample in &samples {
            // First, so that its element type is known.
            let said = Described::by_attributes(sample)?;
            // SAFETY: samples are of CuPy's class.
            if said.is_none() || unsafe { reader.read(sample) } != said {
                return Ok(None);
            }
        }
        Ok(Some(reader))
    }

    /// Reads an array; nothing if attributes have to serve. Runs no code of Python's.
    ///
    /// # Safety
    ///
    /// The array is of exactly CuPy's class.
    #[inline]
    pub(crate) unsafe fn read(&self, array: &Bound<'_, PyAny>) -> Option<Described> {
        let object = array.as_ptr().expose_provenance();
        // SAFETY: the contract.
        let data = unsafe { self.pointer_of(object) }?;
        // SAFETY: objects of the class have this place.
        let address = unsafe { word(data + self.address) };
        // SAFETY: as above.
        let device = unsafe { int(data + self.device) };
        // SAFETY: the contract; `prove` found the place.
        let dtype = known_type(unsafe { word(object + self.dtype) })?;
        let [shape, strides] = [self.shape, self.strides].map(|place| {
            // SAFETY: as above: a vector lies there, which nothing changes while the GIL is held.
            unsafe { vector(object + place) }.map(SmallVec::from_slice)
        });
        let device = u8::try_from(device).ok()?;
        Described::checked(address as u64, device, dtype, shape?, strides?)
    }

    /// The address of an array's first element; nothing if its attributes have to say.
    ///
    /// # Safety
    ///
    /// The array is of exactly CuPy's class.
    #[inline]
    pub(crate) unsafe fn address(&self, array: &Bound<'_, PyAny>) -> Option<u64> {
        // SAFETY: the contract.
        let data = unsafe { self.pointer_of(array.as_ptr().expose_provenance()) }?;
        // SAFETY: objects of the class have this place.
        Some(unsafe { word(data + self.address) } as u64)
    }

    /// The pointer object of an array; nothing if it has none yet, or one of another class.
    ///
    /// # Safety
    ///
    /// An array of exactly CuPy's class is there.
    #[inline]
    unsafe fn pointer_of(&self, object: usize) -> Option<usize> {
        // SAFETY: the contract; `prove` found the place.
        let data = unsafe { word(object + self.data) };
        if data == 0 {
            return None;
        }
        // SAFETY: a reference to an object of Python's, which begins with its count and its class.
        let class = unsafe { word(data + size_of::<ffi::Py_ssize_t>()) };
        (class == self.pointer_class).then_some(data)
    }
}

/// Where in objects a vector of C++ lies whose numbers are known of each.
///
/// # Safety
///
/// As [`find_place`].
unsafe fn find_vector(
    mut places: impl Iterator<Item = usize> + Clone,
    known: &[(usize, SmallVec<[i64; 8]>)],
) -> Option<usize> {
    let last = places.clone().last()?;
    places.find(|&place| {
        place < last
            && known.iter().all(|(object, numbers)| {
                // SAFETY: the contract: another place follows this one.
                let [begin, end] = [place, place + 8].map(|at| unsafe { word(object + at) });
                let bytes = numbers.len() * 8;
                // What lies there may be anything: it is read only if it can be.
                end.wrapping_sub(begin) == bytes
                    && (bytes == 0
                        || host::check_reachable(begin as u64, bytes as u64).is_ok()
                            // SAFETY: just asked, for as many bytes as will be read.
                            && unsafe { vector(object + place) } == Some(numbers.as_slice()))
            })
    })
}

/// The numbers of a vector of C++, which begins with where they begin and where they end; nothing for too many.
///
/// # Safety
///
/// Such a vector is there, and stays as it is as long as the result is used.
#[inline]
unsafe fn vector<'a>(at: usize) -> Option<&'a [i64]> {
    // SAFETY: the contract.
    let [begin, end] = [at, at + 8].map(|at| unsafe { word(at) });
    let count = end.wrapping_sub(begin) / 8;
    if count == 0 {
        return Some(&[]);
    }
    if count > MOST_AXES || !begin.is_multiple_of(8) {
        return None;
    }
    // SAFETY: the contract.
    Some(unsafe { slice::from_raw_parts(ptr::with_exposed_provenance(begin), count) })
}

/// An int of C.
///
/// # Safety
///
/// As [`word`].
#[inline]
unsafe fn int(at: usize) -> i32 {
    let place: *const i32 = ptr::with_exposed_provenance(at);
    // SAFETY: the contract.
    unsafe { place.read() }
}
