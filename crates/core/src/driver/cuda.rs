//! A loaded driver and the properties of its devices.

use std::env;
use std::error::Error as _;
use std::ffi::{CStr, c_int, c_uint, c_void};
use std::fmt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use gpulend_common::Check;
use libc::{dl_iterate_phdr, dl_phdr_info};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW, Symbol};

use crate::abi::cuda::{DeviceAttribute, DeviceHandle, PointerAttribute, Status};
use crate::driver::context::{MOST_DEVICES, Primaries};
use crate::driver::functions::Functions;
use crate::driver::log::is_mistake;
use crate::driver::memory::Pools;
use crate::driver::paths::{DRIVER, file_at};
use crate::driver::settings::Settings;
use crate::driver::simulator::Control;
use crate::error::{DeviceError, DriverError, Error};

/// A driver that answered `cuInit`: the real one or the simulated GPU.
pub struct Driver {
    pub(super) functions: Functions,
    control: Option<Control>,
    path: PathBuf,
    settings: Settings,
    pub(super) primaries: Primaries,
    pub(super) pools: Pools,
    /// Closed with a rejected driver. The chosen driver is never dropped.
    libraries: Vec<Library>,
}

/// The properties of one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Properties {
    /// Its name, as `NVIDIA H200` or `Simulated GPU`.
    pub name: String,
    /// Bytes of memory.
    pub memory: u64,
    /// Compute capability, as in sm_75.
    pub capability: (i32, i32),
}

/// Opens a library. With [`PRIVATE`], its symbols stay invisible to other libraries.
///
/// # Errors
///
/// The loader's message.
pub(super) fn open(path: &Path, flags: c_int) -> Result<Library, Box<str>> {
    // SAFETY: the initialisers that run are those of a CUDA driver, which programs load like this.
    unsafe { Library::open(Some(path), flags) }.map_err(|error| match error.source() {
        Some(words) => words.to_string().into(),
        None => error.to_string().into(),
    })
}

/// The flags for a library whose symbols only gpulend sees.
pub(super) const PRIVATE: c_int = RTLD_NOW | RTLD_LOCAL;
/// `RTLD_NOLOAD` of glibc: find the library only if the process has it already.
pub(super) const IF_LOADED: c_int = 4;

/// Whether this process has a driver already, loaded by anybody.
///
/// The loader opens files to find that out, for tens of microseconds. It is asked again only if a library was loaded since
/// it said no.
pub(super) fn is_loaded() -> bool {
    static NOT_AMONG: AtomicU64 = AtomicU64::new(0);
    let loaded = libraries_loaded();
    if loaded != 0 && loaded == NOT_AMONG.load(Ordering::Relaxed) {
        return false;
    }
    let found = open(Path::new(DRIVER), PRIVATE | IF_LOADED).is_ok();
    if !found {
        NOT_AMONG.store(loaded, Ordering::Relaxed);
    }
    found
}

/// How many libraries this process has loaded so far, with those that have gone. 0 where the loader does not count.
fn libraries_loaded() -> u64 {
    /// Takes the number from the first library and ends the walk.
    unsafe extern "C" fn first(info: *mut dl_phdr_info, _: usize, count: *mut c_void) -> c_int {
        // SAFETY: the loader passes a description that is valid during the call.
        let adds = unsafe { (*info).dlpi_adds };
        // SAFETY: it is the variable below.
        unsafe { count.cast::<u64>().write(adds) };
        1
    }
    let mut count = 0_u64;
    // SAFETY: the function is of the type that the loader calls, and the variable lives until the walk is over.
    unsafe { dl_iterate_phdr(Some(first), (&raw mut count).cast()) };
    count
}

impl Driver {
    /// Looks up the functions of an opened driver. Does not initialise it.
    pub(super) fn new(library: Library) -> Result<Self, DeviceError> {
        // SAFETY: a symbol is looked up, and only its address is used.
        let first = unsafe { library.get::<unsafe extern "C" fn()>("cuInit") };
        let path = first.ok().and_then(|symbol: Symbol<_>| file_at(symbol.as_raw_ptr().addr()));
        let path = path.unwrap_or_else(|| PathBuf::from(DRIVER));
        // SAFETY: (1) that is what a library under CUDA's name, or one with the simulated GPU's
        // control functions, promises; (2) it is kept beside them.
        let functions = unsafe { Functions::of(&library) };
        let functions = functions.map_err(|function| DeviceError::Incomplete {
            library: path.display().to_string().into(),
            function: function.into(),
        })?;
        let control = Control::of(&library);
        Ok(Self {
            functions,
            control,
            path,
            settings: Settings::default(),
            primaries: [const { OnceLock::new() }; MOST_DEVICES],
            pools: [const { OnceLock::new() }; MOST_DEVICES],
            libraries: vec![library],
        })
    }

    /// Keeps another library open as long as this driver.
    pub(super) fn keep(&mut self, library: Library) {
        self.libraries.push(library);
    }

    /// Records the settings that `simulate` was called with.
    pub(super) fn note(&mut self, settings: &Settings) {
        self.settings = settings.clone();
    }

    /// Calls `cuInit`.
    pub(super) fn initialise(&self) -> Result<(), DeviceError> {
        // SAFETY: no flags are defined, so zero.
        let status = unsafe { (self.functions.init)(0) };
        if status == Status::SUCCESS {
            return Ok(());
        }
        let advice = match &self.control {
            Some(control) => control.problem(),
            None => advice(status).to_owned(),
        };
        Err(DeviceError::Refused {
            library: self.path.display().to_string().into(),
            name: self.name_of(status),
            code: status.0,
            advice: advice.into(),
        })
    }

    /// The simulated GPU's control functions; `None` for a real driver.
    pub(super) fn control(&self) -> Option<&Control> {
        self.control.as_ref()
    }

    /// The settings that `simulate` was called with, or the default ones.
    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// While on, queries by this thread do not advance the simulated GPU's queued work.
    pub(crate) fn only_look(&self, on: bool) {
        if let Some(control) = &self.control {
            control.only_look(on);
        }
    }

    /// Whether this driver is the simulated GPU.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        self.control.is_some()
    }

    /// How strictly the simulated GPU checks kernels; `None` for a real driver.
    pub(crate) fn checks(&self) -> Option<Check> {
        let from_environment = || Check::parse(&env::var("GPULEND_SIM_CHECK").ok()?);
        self.control
            .as_ref()
            .map(|_| self.settings.check.or_else(from_environment).unwrap_or(Check::Races))
    }

    /// The file that contains its functions.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The newest CUDA version it supports, for instance `(13, 2)`.
    ///
    /// # Errors
    ///
    /// If the driver refuses.
    pub fn version(&self) -> Result<(i32, i32), Error> {
        let mut version = 0;
        // SAFETY: one int is written.
        unsafe { self.driver_version(&raw mut version) }?;
        Ok((version / 1000, version % 1000 / 10))
    }

    /// All devices, in the driver's order.
    ///
    /// # Errors
    ///
    /// If the driver refuses.
    pub fn devices(&self) -> Result<Vec<Properties>, Error> {
        (0..self.count()?).map(|index| self.properties(index)).collect()
    }

    /// How many devices there are. Creates no context.
    ///
    /// # Errors
    ///
    /// If the driver refuses.
    pub fn count(&self) -> Result<i32, DriverError> {
        let mut count = 0;
        // SAFETY: one int is written.
        unsafe { self.device_count(&raw mut count) }?;
        Ok(count)
    }

    /// The handle of a device.
    pub(super) fn device(&self, index: c_int) -> Result<DeviceHandle, DriverError> {
        let mut device = DeviceHandle(0);
        // SAFETY: one handle is written.
        unsafe { self.device_get(&raw mut device, index) }?;
        Ok(device)
    }

    fn properties(&self, index: c_int) -> Result<Properties, Error> {
        let device = self.device(index)?;
        let mut memory = 0_usize;
        // SAFETY: one size is written; the device is the driver's own.
        unsafe { self.device_memory(&raw mut memory, device) }?;
        let (name, memory) = (self.device_name(device)?, memory as u64);
        Ok(Properties { name, memory, capability: self.capability_of(device)? })
    }

    fn capability_of(&self, device: DeviceHandle) -> Result<(i32, i32), Error> {
        Ok((
            self.attribute(DeviceAttribute::COMPUTE_CAPABILITY_MAJOR, device)?,
            self.attribute(DeviceAttribute::COMPUTE_CAPABILITY_MINOR, device)?,
        ))
    }

    /// The compute capability of a device.
    pub(crate) fn capability(&self, device: u8) -> Result<(i32, i32), Error> {
        self.capability_of(self.device(c_int::from(device))?)
    }

    fn device_name(&self, device: DeviceHandle) -> Result<String, Error> {
        const ROOM: c_int = 256;
        let mut name = [0_u8; ROOM as usize];
        // SAFETY: at most as many bytes as there is room are written.
        unsafe { self.device_get_name(name.as_mut_ptr().cast(), ROOM, device) }?;
        let name = CStr::from_bytes_until_nul(&name).unwrap_or_default();
        Ok(name.to_string_lossy().into_owned())
    }

    pub(super) fn attribute(
        &self,
        attribute: DeviceAttribute,
        device: DeviceHandle,
    ) -> Result<c_int, Error> {
        let mut value = 0;
        // SAFETY: one int is written.
        unsafe { self.device_attribute(&raw mut value, attribute, device) }?;
        Ok(value)
    }

    /// Reads several attributes of an address in one call. Each value starts as 64 zero bits. A narrower
    /// attribute fills the low half; an unknown one stays zero.
    pub(super) fn pointer_attributes<const N: usize>(
        &self,
        attributes: [PointerAttribute; N],
        address: u64,
    ) -> Result<[u64; N], Error> {
        let mut values = [0_u64; N];
        let places = values.each_mut().map(|value| ptr::from_mut(value).cast::<c_void>());
        let count = c_uint::try_from(N).unwrap_or(0);
        // SAFETY: there are `count` attributes and as many places, each wide enough for any of them.
        unsafe {
            self.pointer_get_attributes(count, attributes.as_ptr(), places.as_ptr(), address)
        }?;
        Ok(values)
    }

    /// The UUID of a device.
    pub(super) fn uuid(&self, index: c_int) -> Result<[u8; 16], Error> {
        let device = self.device(index)?;
        let mut uuid = [0; 16];
        // SAFETY: 16 bytes are written.
        unsafe { self.device_uuid(&raw mut uuid, device) }?;
        Ok(uuid)
    }

    #[inline]
    pub(super) fn check(&self, call: &'static str, status: Status) -> Result<(), DriverError> {
        if status == Status::SUCCESS {
            return Ok(());
        }
        Err(self.refusal(call, status))
    }

    /// The error for a status.
    #[cold]
    pub(crate) fn refusal(&self, call: &'static str, status: Status) -> DriverError {
        let (code, name) = (status.0, self.name_of(status));
        if is_mistake(code) {
            return self.mistake(call, code, name);
        }
        DriverError::Call { call, code, name }
    }

    /// The driver's name for a code.
    fn name_of(&self, status: Status) -> Box<str> {
        let mut name = ptr::null();
        // SAFETY: one pointer is written, to a string of the driver's that lives as long as it does.
        let named = unsafe { (self.functions.error_name)(status, &raw mut name) };
        if named != Status::SUCCESS || name.is_null() {
            // A stub library returns the same code from every function, this one included.
            let stub = status == Status::STUB_LIBRARY;
            return if stub { "CUDA_ERROR_STUB_LIBRARY" } else { "a code without a name" }.into();
        }
        // SAFETY: as above; it ends in NUL.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into()
    }
}

/// What usually helps when a real driver does not start.
fn advice(status: Status) -> &'static str {
    match status {
        Status::NOT_INITIALIZED => {
            "CUDA cannot be used in a process that was forked after CUDA had started"
        }
        Status::STUB_LIBRARY => {
            "that library is there to be linked against; take its folder off LD_LIBRARY_PATH"
        }
        Status::NO_DEVICE => "no GPU is visible; see nvidia-smi and CUDA_VISIBLE_DEVICES",
        Status::SYSTEM_DRIVER_MISMATCH => {
            "the library and the kernel's module are of different drivers; reboot or install one"
        }
        Status::UNKNOWN => "see nvidia-smi; often the kernel's module nvidia_uvm is missing",
        _ => "see nvidia-smi",
    }
}

/// As in `the CUDA driver (/usr/lib/libcuda.so.580)`.
impl fmt::Display for Driver {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_simulated() {
            return write!(out, "the CUDA driver ({})", self.path.display());
        }
        out.write_str("the simulated GPU")?;
        let settings = self.settings.to_string();
        let expose = if self.settings.expose { ", exposed" } else { "" };
        let settings = if settings.is_empty() { "the usual settings" } else { &settings };
        write!(out, " ({settings}{expose})")
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Driver({})", self.path.display())
    }
}
