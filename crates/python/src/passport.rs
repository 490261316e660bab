//! `describe`: what is known about an address.

use std::hash::{DefaultHasher, Hash, Hasher};

use gpulend::driver::{self, Known, Passport};
use gpulend::{Device, Memory, host};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyTuple};

use crate::device::PyDevice;
use crate::errors::{NOT_MAPPED, raise, refused};
use crate::free_list::{FreeList, Reused};
use crate::reaper;

/// What is known about an address.
///
/// For GPU memory the driver answers: `known` is "allocation", "pool block" (of one of the
/// driver's pools) or "reservation" (a range of addresses that may be mapped in part; `base` and
/// `size` are those of the range). The driver cannot see whether a block in a framework's own
/// pool is in use.
///
/// For other memory the kernel answers: `base` and `size` are those of the
/// mapping, which usually contains much more than one array, and `known` is "host".
#[pyclass(frozen, name = "Passport", module = "gpulend")]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct PyPassport {
    address: u64,
    found: Found,
}

/// Who answered.
#[derive(PartialEq, Eq, Hash)]
enum Found {
    Driver(Passport),
    Mapping { base: u64, size: u64 },
}

impl Reused for PyPassport {
    fn list() -> &'static FreeList {
        static LIST: FreeList = FreeList::new();
        &LIST
    }
}

#[pymethods]
impl PyPassport {
    /// The address that was asked for.
    #[getter]
    fn address(&self) -> u64 {
        self.address
    }

    /// The first byte of the allocation or mapping.
    #[getter]
    fn base(&self) -> u64 {
        match &self.found {
            Found::Driver(found) => found.base,
            Found::Mapping { base, .. } => *base,
        }
    }

    /// The bytes of the allocation or mapping.
    #[getter]
    fn size(&self) -> u64 {
        match &self.found {
            Found::Driver(found) => found.size,
            Found::Mapping { size, .. } => *size,
        }
    }

    /// The bytes from `base` to `address`.
    #[getter]
    fn offset(&self) -> u64 {
        self.address.wrapping_sub(self.base())
    }

    /// The kind of memory: "host", "pinned", "managed" or "device".
    #[getter]
    fn memory(&self) -> &'static str {
        self.driver().map_or(Memory::Host, |found| found.memory).name()
    }

    /// The device.
    #[getter]
    fn device(&self) -> PyDevice {
        PyDevice(self.driver().map_or(Device::CPU, |found| found.device))
    }

    /// The device's UUID, as nvidia-smi writes it.
    #[getter]
    fn uuid(&self) -> Option<String> {
        self.driver().map(|found| uuid(found.uuid))
    }

    /// The context in which it was allocated.
    #[getter]
    fn context(&self) -> Option<u64> {
        self.driver().and_then(|found| found.context)
    }

    /// A number that no other allocation of this process has.
    #[getter]
    fn buffer_id(&self) -> Option<u64> {
        self.driver().map(|found| found.buffer_id)
    }

    /// The driver's pool that it comes from.
    #[getter]
    fn pool(&self) -> Option<u64> {
        self.driver().and_then(|found| found.pool)
    }

    /// How much is certain: "allocation", "pool block", "reservation" or "host".
    #[getter]
    fn known(&self) -> &'static str {
        match self.driver().map(|found| found.known) {
            Some(Known::Allocation) => "allocation",
            Some(Known::PoolBlock) => "pool block",
            Some(Known::Reservation) => "reservation",
            None => "host",
        }
    }

    /// How another process could get it: "ipc", "fd", "fabric".
    #[getter]
    fn shareable<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.routes())
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| self == other.get())
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }

    fn __str__(&self) -> String {
        let rows = self.rows();
        let rows: Vec<_> = rows.iter().filter(|(_, value)| !value.is_empty()).collect();
        let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let lines: Vec<_> =
            rows.iter().map(|(name, value)| format!("{name:<width$}  {value}")).collect();
        lines.join("\n")
    }

    fn __repr__(&self) -> String {
        let rows = self.rows();
        let rows = rows.iter().filter(|(_, value)| !value.is_empty());
        let fields: Vec<_> = rows.map(|(name, value)| format!("{name}={value}")).collect();
        format!("<gpulend.Passport {}>", fields.join(" "))
    }
}

impl PyPassport {
    fn driver(&self) -> Option<&Passport> {
        match &self.found {
            Found::Driver(found) => Some(found),
            Found::Mapping { .. } => None,
        }
    }

    fn routes(&self) -> Vec<&'static str> {
        let Some(found) = self.driver() else { return Vec::new() };
        let routes =
            [("ipc", found.by_handle), ("fd", found.by_descriptor), ("fabric", found.by_fabric)];
        routes.into_iter().filter(|(_, can)| *can).map(|(route, _)| route).collect()
    }

    /// All fields as text; empty where there is nothing to say.
    fn rows(&self) -> [(&'static str, String); 12] {
        let hex = |number: u64| format!("{number:#x}");
        [
            ("address", hex(self.address)),
            ("base", hex(self.base())),
            ("size", self.size().to_string()),
            ("offset", self.offset().to_string()),
            ("memory", self.memory().to_owned()),
            ("device", self.device().0.to_string()),
            ("uuid", self.uuid().unwrap_or_default()),
            ("context", self.context().map(hex).unwrap_or_default()),
            ("buffer_id", self.buffer_id().map(|number| number.to_string()).unwrap_or_default()),
            ("pool", self.pool().map(hex).unwrap_or_default()),
            ("known", self.known().to_owned()),
            ("shareable", self.routes().join(", ")),
        ]
    }
}

/// Return what is known about an array's memory, or about an address.
///
/// >>> import gpulend, numpy as np
/// >>> a = np.zeros(4)
/// >>> passport = gpulend.describe(a)
/// >>> passport.memory, passport.known, passport.address == a.ctypes.data
/// ('host', 'host', True)
#[pyfunction]
#[pyo3(signature = (array_or_address, /))]
pub(crate) fn describe(array_or_address: &Bound<'_, PyAny>) -> PyResult<PyPassport> {
    let py = array_or_address.py();
    reaper::catch_up(py);
    let number = match array_or_address.cast::<PyInt>() {
        Ok(number) => number.clone(),
        Err(_) => {
            let module = py.import(intern!(py, "gpulend._pointers"))?;
            let number = module.call_method1(intern!(py, "address_of"), (array_or_address,))?;
            number.cast_into::<PyInt>()?
        }
    };
    // A number that is no address is not mapped either.
    let Ok(address) = number.extract::<u64>() else { return Err(unmapped(&number)) };
    if let Some(found) = driver::passport(address).map_err(raise)? {
        return Ok(PyPassport { address, found: Found::Driver(found) });
    }
    let Some(mapping) = host::mapping_of(address) else { return Err(unmapped(&number)) };
    let (base, size) = (mapping.start, mapping.end - mapping.start);
    Ok(PyPassport { address, found: Found::Mapping { base, size } })
}

#[cold]
fn unmapped(number: &Bound<'_, PyInt>) -> PyErr {
    let hex = number.call_method1("__format__", ("#x",));
    let address = hex.map_or_else(|_| "the address".to_owned(), |hex| hex.to_string());
    let message = format!(
        "nothing is mapped at {address} in this process, and no GPU driver of it knows the \
         address; check that it is an address and still allocated"
    );
    refused(message, NOT_MAPPED)
}

/// As nvidia-smi writes it.
fn uuid(bytes: [u8; 16]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    format!("GPU-{}", parts.join("-"))
}
