//! CuPy's arrays as their own attributes describe them, without the tensor and the capsule that `__dlpack__` makes of each.

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
use crate::errors::raise;
use crate::{dtype, owners, protocols};

/// Where an array lies, of what elements, and how.
pub(crate) struct Described {
    address: u64,
    device: u8,
    memory: Memory,
    dtype: Dtype,
    shape: SmallVec<[i64; 8]>,
    strides: SmallVec<[i64; 8]>,
}

impl Described {
    /// What the array's attributes say, unless a closer look is needed.
    pub(crate) fn of(array: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let py = array.py();
        let data = array.getattr(intern!(py, "data"))?;
        let address = data.getattr(intern!(py, "ptr"))?.extract()?;
        let device = data.getattr(intern!(py, "device_id"))?.extract()?;
        let dtype = element_type(&array.getattr(intern!(py, "dtype"))?)?;
        let itemsize = i64::from(dtype.itemsize());
        let shape = numbers(&array.getattr(intern!(py, "shape"))?)?;
        let mut strides = numbers(&array.getattr(intern!(py, "strides"))?)?;
        let broken = |bytes: &i64| bytes % itemsize != 0;
        if address == 0 || shape.len() != strides.len() || strides.iter().any(broken) {
            return Ok(None);
        }
        strides.iter_mut().for_each(|stride| *stride /= itemsize);
        Ok(Some(Self { address, device, memory: Memory::Device, dtype, shape, strides }))
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
    entry: &Entry<'_, '_>,
    who: Name,
) -> PyResult<Lease> {
    let described = Described::of(array)?;
    // CuPy's pools may be of managed memory, and only the driver says so.
    let memory = described.as_ref().map_or(Ok(None), |described| memory_at(described.address));
    let (Some(mut described), Some(memory)) = (described, memory.map_err(raise)?) else {
        return by_dlpack(array, &Order::Cupy, entry, who);
    };
    described.memory = memory;
    let mut problem = None;
    let stream = |index: u8| protocols::cupy_stream(array.py(), index).map(Ready::Home);
    let ready = entry.ready(&mut problem, stream);
    // SAFETY: (1) and (2) the array keeps its memory, which can be written; (3) is the Python caller's, as for any two views of
    // one array.
    let lease = unsafe { raw::enter(described.view(), || owners::keep(array), ready, who) };
    problem.map_or(lease.map_err(raise), Err)
}

fn numbers(tuple: &Bound<'_, PyAny>) -> PyResult<SmallVec<[i64; 8]>> {
    tuple.cast::<PyTuple>()?.as_slice().iter().map(|number| number.extract()).collect()
}

/// NumPy's types by their objects, which are kept: of most there is one.
static KNOWN: ProcessLock<Vec<(usize, Dtype)>> = ProcessLock::new(Vec::new());
/// Those that a program makes itself are read anew each time past so many.
const MOST_KNOWN: usize = 64;

fn element_type(object: &Bound<'_, PyAny>) -> PyResult<Dtype> {
    let known = || KNOWN.lock();
    let address = object.as_ptr().addr();
    let found = known().iter().find(|(known, _)| *known == address).map(|(_, dtype)| *dtype);
    if let Some(dtype) = found {
        return Ok(dtype);
    }
    let dtype = dtype::parse(object)?;
    let mut known = known();
    if known.len() < MOST_KNOWN {
        known.push((address, dtype));
        let _kept = object.clone().into_ptr();
    }
    Ok(dtype)
}
