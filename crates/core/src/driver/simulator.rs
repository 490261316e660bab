//! The simulated GPU's own control functions, which no CUDA driver has: settings, injected faults, the
//! report.

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

/// What a kernel did wrong, as reported by the simulated GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mistake {
    /// The kernel's symbol.
    pub(crate) kernel: Box<str>,
    /// What happened and where.
    pub(crate) what: Box<str>,
    /// The address concerned, or 0.
    pub(crate) address: u64,
}

impl Control {
    /// Looks the functions up. `None` if the library is neither the simulated GPU nor linked to it.
    ///
    /// The pointers stay valid: the simulated GPU is linked so that it is never unloaded.
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

    /// Applies settings. Only possible before `cuInit`.
    pub(super) fn configure(&self, settings: &str) -> Result<(), DriverError> {
        self.apply(self.configure, settings)
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

    fn apply(
        &self,
        function: unsafe extern "C" fn(*const c_char) -> Status,
        text: &str,
    ) -> Result<(), DriverError> {
        let found = if text.is_empty() { "its environment" } else { text };
        let refused = |problem: String| DriverError::Settings {
            found: found.into(),
            problem: problem.into(),
        };
        let c_text = CString::new(text).map_err(|_| refused("a NUL inside".to_owned()))?;
        // SAFETY: the text ends in NUL and lives until the call is over.
        match unsafe { function(c_text.as_ptr()) } {
            Status::SUCCESS => Ok(()),
            _ => Err(refused(self.problem())),
        }
    }

    /// While on, queries by this thread do not advance the simulated GPU's queued work.
    pub(super) fn only_look(&self, on: bool) {
        // It cannot fail.
        // SAFETY: takes a number.
        let _ = unsafe { (self.passive)(i32::from(on)) };
    }

    /// Allows this thread's next launch to access a range of host memory.
    pub(super) fn admit(&self, address: u64, bytes: u64) -> Status {
        // SAFETY: takes numbers; memory that is not mapped is refused.
        unsafe { (self.admit)(address, bytes) }
    }

    /// Limits this thread's next launch to part of an allocation.
    pub(super) fn span(&self, address: u64, bytes: u64) {
        // It cannot fail.
        // SAFETY: takes numbers.
        let _ = unsafe { (self.span)(address, bytes) };
    }

    /// The kernel error behind this thread's last failed call.
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
        // The report can grow between two calls.
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

/// The simulated GPU's report as JSON: calls, unsupported functions, faults, live objects.
///
/// # Errors
///
/// If this process has no simulated GPU.
pub fn report() -> Result<String, Error> {
    with_control(|control| Ok(control.report()))
}

/// Sets the faults to inject into the simulated GPU, for instance `cuMemAlloc#3=OUT_OF_MEMORY;memory=64MiB`.
/// An empty string clears them.
///
/// # Errors
///
/// If this process has no simulated GPU, or the rules do not parse.
pub fn set_faults(rules: &str) -> Result<(), Error> {
    with_control(|control| control.apply(control.faults, rules))
}

/// Prepares the simulated GPU, if any, for the end of the process. Waits for host functions that its streams
/// are calling, starts no others, and runs the queued work so that kernel errors are reported. Takes at most
/// `limit`.
pub fn end_simulated(limit: Duration) {
    let milliseconds = u32::try_from(limit.as_millis()).unwrap_or(u32::MAX);
    // Without a simulated GPU this does nothing.
    let _ = with_control(|control| {
        // SAFETY: takes a number. It cannot fail in a process that was not forked, and does nothing in one that was.
        let _ = unsafe { (control.end)(milliseconds) };
        Ok(())
    });
}

/// Validates the simulator settings of the environment, in a process that will not use the simulator.
///
/// # Errors
///
/// If a setting is unknown or its value is invalid.
pub fn rehearse() -> Result<(), Error> {
    let path = simulator_library()?;
    let library = open(&path, PRIVATE).map_err(|reason| DeviceError::NoSimulator { reason })?;
    let control = Control::of(&library).ok_or_else(|| not_ours(&path))?;
    Ok(control.configure("")?)
}

/// The error for a library without the simulated GPU's control functions.
pub(super) fn not_ours(path: &std::path::Path) -> DeviceError {
    DeviceError::Incomplete {
        library: path.display().to_string().into(),
        function: "gpulend_sim_configure".into(),
    }
}

/// Calls `use_it` with the chosen simulated GPU, or with one that another library of this process loaded.
fn with_control<T>(use_it: impl Fn(&Control) -> Result<T, DriverError>) -> Result<T, Error> {
    let none = || DeviceError::NotSimulated;
    if let Some(driver) = chosen()? {
        return Ok(use_it(driver.control().ok_or_else(none)?)?);
    }
    let library = open(&simulator_library()?, PRIVATE | IF_LOADED).map_err(|_| none())?;
    Ok(use_it(&Control::of(&library).ok_or_else(none)?)?)
}
