//! CuPy's arrays, without the tensor and the capsule that `__dlpack__` makes of each.
//!
//! `reader.rs` reads an array where it lies, if its proof holds; else the array's own attributes describe it. `stream.rs` asks
//! for CuPy's current stream.

mod reader;
mod stream;

use gpulend::driver::memory_at;
use gpulend::fork::ProcessLock;
use gpulend::import::raw::{self, ViewRef};
use gpulend::ledger::Name;
use gpulend::stream::Ready;
use gpulend::{Device, DeviceKind, Dtype, Lease, Memory};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use smallvec::SmallVec;

use crate::borrowing::{Entry, Order, by_dlpack};
use crate::counts::{Counted, count};
use crate::errors::raise;
use crate::routes::{Route, producer_of};
use crate::{dtype, owners};

pub(crate) use reader::Reader;
pub(crate) use stream::{current, known, of_object};

/// Where an array lies, of what elements, and how.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Described {
    address: u64,
    device: u8,
    memory: Memory,
    dtype: Dtype,
    shape: SmallVec<[i64; 8]>,
    strides: SmallVec<[i64; 8]>,
}

impl Described {
    /// What the reader finds, or else what the array's attributes say, unless a closer look is needed.
    pub(crate) fn of(array: &Bound<'_, PyAny>, reader: Option<&Reader>) -> PyResult<Option<Self>> {
        // SAFETY: the route that has a reader is that of its exact type.
        if let Some(read) = reader.and_then(|reader| unsafe { reader.read(array) }) {
            count(Counted::CupyNative);
            return Ok(Some(read));
        }
        count(Counted::Cupy);
        Self::by_attributes(array)
    }

    fn by_attributes(array: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let py = array.py();
        let data = array.getattr(intern!(py, "data"))?;
        let address = data.getattr(intern!(py, "ptr"))?.extract()?;
        let device = data.getattr(intern!(py, "device_id"))?.extract()?;
        let dtype = element_type(&array.getattr(intern!(py, "dtype"))?)?;
        let shape = numbers(&array.getattr(intern!(py, "shape"))?)?;
        let strides = numbers(&array.getattr(intern!(py, "strides"))?)?;
        Ok(Self::checked(address, device, dtype, shape, strides))
    }

    /// Nothing for an array without memory, or whose strides, which are in bytes, end inside of elements.
    #[inline(always)]
    fn checked(
        address: u64,
        device: u8,
        dtype: Dtype,
        shape: SmallVec<[i64; 8]>,
        mut strides: SmallVec<[i64; 8]>,
    ) -> Option<Self> {
        let itemsize = dtype.itemsize();
        // All of CuPy's types are so long, and a shift takes a tenth of a division.
        if !itemsize.is_power_of_two() {
            return None;
        }
        let (shift, inside) = (itemsize.trailing_zeros(), i64::from(itemsize) - 1);
        let broken = |bytes: &i64| bytes & inside != 0;
        if address == 0 || shape.len() != strides.len() || strides.iter().any(broken) {
            return None;
        }
        strides.iter_mut().for_each(|stride| *stride >>= shift);
        Some(Self { address, device, memory: Memory::Device, dtype, shape, strides })
    }

    /// On which GPU.
    pub(crate) const fn device(&self) -> u8 {
        self.device
    }

    /// The same as the core takes it.
    pub(crate) fn view(&self) -> ViewRef<'_> {
        ViewRef {
            address: self.address,
            place: (Device::new(DeviceKind::Cuda, self.device), self.memory),
            dtype: self.dtype,
            shape: &self.shape,
            strides: &self.strides,
            readonly: false,
        }
    }
}

/// Borrows an array. CuPy frees it in the order of its current stream.
pub(crate) fn borrow(
    array: &Bound<'_, PyAny>,
    reader: Option<&Reader>,
    entry: &Entry<'_, '_>,
    who: Name,
) -> PyResult<Lease> {
    let described = Described::of(array, reader)?;
    // CuPy's pools may be of managed memory, and only the driver says so.
    let memory = described.as_ref().map_or(Ok(None), |described| memory_at(described.address));
    let (Some(mut described), Some(memory)) = (described, memory.map_err(raise)?) else {
        return by_dlpack(array, &Order::Cupy, entry, who);
    };
    described.memory = memory;
    let mut problem = None;
    let stream = |index: u8| current(array.py(), index).map(Ready::Home);
    let ready = entry.ready(&mut problem, stream);
    // SAFETY: (1) and (2) the array keeps its memory, which can be written; (3) is the Python caller's, as for any two views of
    // one array.
    let lease = unsafe { raw::enter(described.view(), || owners::keep(array), ready, who) };
    problem.map_or(lease.map_err(raise), Err)
}

/// Read an array of CuPy's: address, device, element type, shape, strides; None if DLPack has to serve. For tests.
#[pyfunction]
#[expect(clippy::type_complexity, reason = "Python unpacks it")]
pub(crate) fn _read_cupy<'py>(
    array: &Bound<'py, PyAny>,
) -> PyResult<Option<(u64, u8, String, Bound<'py, PyTuple>, Bound<'py, PyTuple>)>> {
    let reader = match producer_of(array)?.route {
        Route::Cupy(reader) => reader,
        _ => None,
    };
    let py = array.py();
    let Some(described) = Described::of(array, reader)? else { return Ok(None) };
    let Described { address, device, dtype, shape, strides, .. } = described;
    let [shape, strides] = [shape, strides].map(|numbers| PyTuple::new(py, numbers));
    Ok(Some((address, device, dtype.name().to_owned(), shape?, strides?)))
}

fn numbers(tuple: &Bound<'_, PyAny>) -> PyResult<SmallVec<[i64; 8]>> {
    tuple.cast::<PyTuple>()?.as_slice().iter().map(|number| number.extract()).collect()
}

/// NumPy's types by their objects, which are kept: of most there is one.
static KNOWN: ProcessLock<Vec<(usize, Dtype)>> = ProcessLock::new(Vec::new());
/// Those that a program makes itself are read anew each time past so many.
const MOST_KNOWN: usize = 64;

/// The type whose object lies there, if it came before.
#[inline]
fn known_type(object: usize) -> Option<Dtype> {
    KNOWN.lock().iter().find(|(known, _)| *known == object).map(|(_, dtype)| *dtype)
}

fn element_type(object: &Bound<'_, PyAny>) -> PyResult<Dtype> {
    let address = object.as_ptr().addr();
    if let Some(dtype) = known_type(address) {
        return Ok(dtype);
    }
    let dtype = dtype::parse(object)?;
    let mut known = KNOWN.lock();
    if known.len() < MOST_KNOWN {
        known.push((address, dtype));
        let _kept = object.clone().into_ptr();
    }
    Ok(dtype)
}
