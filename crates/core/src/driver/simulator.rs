//! What the simulated GPU offers besides the driver's functions: settings, faults on demand, a report.

use std::ffi::{CStr, CString, c_char, c_int};
use std::time::Duration;

use libloading::os::unix::Library;

use crate::abi::cuda::Status;
use crate::driver::choice::chosen;
use crate::driver::cuda::{IF_LOADED, PRIVATE, open};
use crate::driver::paths::simulator_library;
use crate::error::{DeviceError, DriverError, Error};

/// The functions of `libgpulend_sim.so` that no driver has.
pub(super) struct Control {
    configure: unsafe extern "C" fn(*const c_char) -> Status,
    problem: unsafe extern "C" fn() -> *const c_char,
    faults: unsafe extern "C" fn(*const c_char) -> Status,
    report: unsafe extern "C" fn(*mut c_char, usize) -> usize,
    passive: unsafe extern "C" fn(c_int) -> Status,
    admit: unsafe extern "C" fn(u64, u64) -> Status,
    span: unsafe extern "C" fn(u64, u64) -> Status,
    mistake: unsafe extern "C" fn(*mut u64) -> *const c_char,
    end: unsafe extern "C" fn(u32) -> Status,
}

/// A kernel's mistake, as the simulated GPU tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mistake {
    /// The kernel's symbol.
    pub(crate) kernel: Box<str>,
    /// What happened and where.
    pub(crate) what: Box<str>,
    /// The address that it is about; 0 for none.
    pub(crate) address: u64,
}

impl Control {
    /// The functions, if the library is the simulated GPU or leads to it.
    ///
    /// They may be called for good: the simulated GPU is linked never to be unloaded.
    pub(super) fn of(library: &Library) -> Option<Self> {
        macro_rules! find {
            ($name:literal) => {
                // SAFETY: nobody else's functions have these names; the types are those that
                // `crates/sim` defines them with.
                *unsafe { library.get($name) }.ok()?
            };
        }
        Some(Self {
            configure: find!("gpulend_sim_configure"),
            problem: find!("gpulend_sim_problem"),
            faults: find!("gpulend_sim_faults"),
            report: find!("gpulend_sim_report"),
            passive: find!("gpulend_sim_passive"),
            admit: find!("gpulend_sim_admit"),
            span: find!("gpulend_sim_span"),
            mistake: find!("gpulend_sim_mistake"),
            end: find!("gpulend_sim_end"),
        })
    }

    /// Shapes the simulated GPU, before `cuInit`.
    pub(super) fn configure(&self, settings: &str) -> Result<(), DriverError> {
        self.tell(self.configure, settings)
    }

    /// Why the last call of this thread was refused.
    pub(super) fn problem(&self) -> String {
        // SAFETY: takes nothing; returns a string that lives until this thread's next call.
        let text = unsafe { (self.problem)() };
        if text.is_null() {
            return String::new();
        }
        // SAFETY: as above; it ends in NUL.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }

    fn tell(
        &self,
        function: unsafe extern "C" fn(*const c_char) -> Status,
        text: &str,
    ) -> Result<(), DriverError> {
        let found = if text.is_empty() { "its environment" } else { text };
        let refused = |problem: String| DriverError::Settings {
            found: found.into(),
            problem: problem.into(),
        };
        let told = CString::new(text).map_err(|_| refused("a NUL inside".to_owned()))?;
        // SAFETY: the text ends in NUL and lives until the call is over.
        match unsafe { function(told.as_ptr()) } {
            Status::SUCCESS => Ok(()),
            _ => Err(refused(self.problem())),
        }
    }

    /// Says whether this thread only looks: what it asks then makes no work go on.
    pub(super) fn only_look(&self, on: bool) {
        // It cannot fail.
        // SAFETY: takes a number.
        let _ = unsafe { (self.passive)(i32::from(on)) };
    }

    /// Lets the next launch of this thread touch memory of the host.
    pub(super) fn admit(&self, address: u64, bytes: u64) -> Status {
        // SAFETY: takes numbers; memory that is not mapped is refused.
        unsafe { (self.admit)(address, bytes) }
    }

    /// Says which part of an allocation the next launch of this thread may touch.
    pub(super) fn span(&self, address: u64, bytes: u64) {
        // It cannot fail.
        // SAFETY: takes numbers.
        let _ = unsafe { (self.span)(address, bytes) };
    }

    /// The kernel's mistake that the last failing call of this thread told of.
    pub(super) fn mistake(&self) -> Option<Mistake> {
        let mut address = 0;
        // SAFETY: one number is written; returns a string that lives until this thread's next question.
        let text = unsafe { (self.mistake)(&raw mut address) };
        // SAFETY: as above; it is never null and ends in NUL.
        let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
        let (kernel, what) = text.split_once('\n')?;
        Some(Mistake { kernel: kernel.into(), what: what.into(), address })
    }

    fn report(&self) -> String {
        let mut room = 4096;
        // It may have grown since its length was told.
        loop {
            let mut text = vec![0_u8; room];
            // SAFETY: at most as many bytes as there is room are written.
            let length = unsafe { (self.report)(text.as_mut_ptr().cast(), room) };
            if length < room {
                text.truncate(length);
                return String::from_utf8_lossy(&text).into_owned();
            }
            room = length + 1;
        }
    }
}

/// What the simulated GPU of this process saw, as JSON: calls, unsupported ones, faults, what is live.
///
/// # Errors
///
/// If this process has none.
pub fn report() -> Result<String, Error> {
    with_control(|control| Ok(control.report()))
}

/// Says what shall go wrong on the simulated GPU of this process, as
/// `cuMemAlloc#3=OUT_OF_MEMORY;memory=64MiB`; no rules end it.
///
/// # Errors
///
/// If this process has none, or the rules cannot be understood.
pub fn set_faults(rules: &str) -> Result<(), Error> {
    with_control(|control| control.tell(control.faults, rules))
}

/// Tells the simulated GPU of this process, if there is one, that the process ends: functions that its streams have begun to
/// call are waited for, no others are begun, and what is queued is run, which tells of mistakes. No longer than `limit`.
pub fn end_simulated(limit: Duration) {
    let milliseconds = u32::try_from(limit.as_millis()).unwrap_or(u32::MAX);
    // Without one there is nothing to end.
    let _ = with_control(|control| {
        // SAFETY: takes a number. It cannot fail in a process that was not forked, and does nothing in one that was.
        let _ = unsafe { (control.end)(milliseconds) };
        Ok(())
    });
}

/// Tries what the environment asks of the simulated GPU, in a process that will not use it.
///
/// # Errors
///
/// If it has no such setting, or a setting cannot be so.
pub fn rehearse() -> Result<(), Error> {
    let path = simulator_library()?;
    let library = open(&path, PRIVATE).map_err(|reason| DeviceError::NoSimulator { reason })?;
    let control = Control::of(&library).ok_or_else(|| not_ours(&path))?;
    Ok(control.configure("")?)
}

/// The error for a file that is another library.
pub(super) fn not_ours(path: &std::path::Path) -> DeviceError {
    DeviceError::Incomplete {
        library: path.display().to_string().into(),
        function: "gpulend_sim_configure".into(),
    }
}

/// Reaches the simulated GPU that was chosen, or that another client of this process loaded.
fn with_control<T>(use_it: impl Fn(&Control) -> Result<T, DriverError>) -> Result<T, Error> {
    let none = || DeviceError::NotSimulated;
    if let Some(driver) = chosen()? {
        return Ok(use_it(driver.control().ok_or_else(none)?)?);
    }
    let library = open(&simulator_library()?, PRIVATE | IF_LOADED).map_err(|_| none())?;
    Ok(use_it(&Control::of(&library).ok_or_else(none)?)?)
}
