//! The process's one machine, made by `cuInit`.

use std::ffi::CStr;
use std::fs;
use std::io::Write;
use std::panic::catch_unwind;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use gpulend_common::maps::{self, Mapping};

use super::{control, injection, thread};
use crate::config::Config;
use crate::machine::Machine;
use crate::machine::fault::Rule;
use crate::status::{Outcome, Status};

/// The time limit for queued work when the process ends.
const LAST_WAIT: Duration = Duration::from_secs(10);

static MACHINE: OnceLock<Machine> = OnceLock::new();
/// The settings from `gpulend_sim_configure`.
static SETTINGS: Mutex<String> = Mutex::new(String::new());
static FORKED: AtomicBool = AtomicBool::new(false);

/// Returns the machine, if `cuInit` was called.
pub(super) fn machine() -> Option<&'static Machine> {
    MACHINE.get()
}

/// Returns whether this process was forked from one with a machine.
pub(super) fn was_forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// Makes the machine, once.
pub(super) fn start() -> Outcome<()> {
    // The lock is held so that two threads cannot make two machines.
    let settings = SETTINGS.lock().unwrap_or_else(PoisonError::into_inner);
    if MACHINE.get().is_some() {
        return Ok(());
    }
    let refuse = |status, problem: &str| {
        thread::set_problem(problem);
        // A program that cannot query the message must still see it.
        let _ = writeln!(std::io::stderr(), "gpulend: the simulated GPU does not start: {problem}");
        Err(status)
    };
    if let Some(path) = other_driver() {
        let problem = format!("another CUDA driver is loaded in this process: {path}");
        return refuse(Status::ERROR_SYSTEM_DRIVER_MISMATCH, &problem);
    }
    let config = match assemble(&settings) {
        Ok(config) => config,
        Err(problem) => return refuse(Status::ERROR_INVALID_VALUE, &problem),
    };
    if let Err(problem) = injection::check(&config.faults, config.devices) {
        return refuse(Status::ERROR_INVALID_VALUE, &problem);
    }
    let mut config = config;
    // Made absolute now: the program may change its folder. Each process of a run can have its own file.
    config.report = config.report.map(|path| {
        let path =
            PathBuf::from(path.to_string_lossy().replace("%p", &std::process::id().to_string()));
        if path.as_os_str() == "-" { path } else { std::path::absolute(&path).unwrap_or(path) }
    });
    let machine = match Machine::new(config) {
        Ok(machine) => machine,
        Err(error) => {
            return refuse(Status::ERROR_OUT_OF_MEMORY, &format!("no address space: {error}"));
        }
    };
    // SAFETY: the handler is a static function of this library, which is never unloaded.
    unsafe { libc::pthread_atfork(None, None, Some(after_fork)) };
    // SAFETY: as above.
    unsafe { libc::atexit(at_exit) };
    machine.start_timer();
    let _ = MACHINE.set(machine);
    Ok(())
}

/// Says once, on stderr, why there is no private table, unless a report was requested. Libraries ask before `cuInit`.
pub(super) fn explain_tables() {
    static SAID: AtomicBool = AtomicBool::new(false);
    let asked_for = |settings: &str| assemble(settings).is_ok_and(|config| config.report.is_some());
    let quiet = match machine() {
        Some(machine) => machine.lock().config.report.is_some(),
        None => asked_for(&SETTINGS.lock().unwrap_or_else(PoisonError::into_inner)),
    };
    if quiet || SAID.swap(true, Ordering::Relaxed) {
        return;
    }
    let _ = writeln!(
        std::io::stderr(),
        "gpulend: simulated GPU: refused with code {}: found a call of cuGetExportTable, wanted CUDA's public driver API: \
         libraries that were built on NVIDIA's runtime (libcudart, cuBLAS, a torch for CUDA, CuPy) ask for private tables of \
         its driver, and see no device here. `gpulend build` compiles CUDA programs with a runtime of its own",
        Status::ERROR_NOT_FOUND.0
    );
}

/// Returns the rules that apply before any configuration. Invalid ones are reported at `cuInit`.
pub(super) fn first_rules() -> Vec<Rule> {
    Config::from_environment().map(|config| config.faults).unwrap_or_default()
}

fn assemble(settings: &str) -> Result<Config, String> {
    let mut config = Config::from_environment()?;
    config.merge(settings)?;
    Ok(config)
}

/// Replaces the settings of a machine that is not made yet.
pub(super) fn configure(settings: &str) -> Result<(), (Status, String)> {
    let mut kept = SETTINGS.lock().unwrap_or_else(PoisonError::into_inner);
    if MACHINE.get().is_some() {
        let problem =
            "the simulated GPU has started already; configure it before its first use".to_owned();
        return Err((Status::ERROR_NOT_PERMITTED, problem));
    }
    let invalid = |problem| (Status::ERROR_INVALID_VALUE, problem);
    let config = assemble(settings).map_err(invalid)?;
    injection::check(&config.faults, config.devices).map_err(invalid)?;
    injection::replace(&config.faults);
    settings.clone_into(&mut kept);
    Ok(())
}

extern "C" fn after_fork() {
    FORKED.store(true, Ordering::Relaxed);
}

extern "C" fn at_exit() {
    if was_forked() {
        return;
    }
    let Some(machine) = machine() else { return };
    // A bug of the simulator must not keep the process from ending.
    let _ = catch_unwind(|| machine.end(LAST_WAIT));
    let Some(path) = machine.lock().config.report.clone() else { return };
    if path.as_os_str() == "-" {
        if let Some(summary) = control::summary() {
            let _ = writeln!(std::io::stderr(), "{summary}");
        }
    } else if let Err(error) = fs::write(&path, control::report()) {
        let _ = writeln!(std::io::stderr(), "gpulend: no report at {}: {error}", path.display());
    }
}

/// Returns the path of another `libcuda` in this process, if there is one.
fn other_driver() -> Option<String> {
    let list = maps::read()?;
    let drivers = maps::parse(&list).filter(Mapping::is_driver).map(|mapping| mapping.name);
    drivers.map(str::to_owned).find(|path| !is_ours(path))
}

/// The simulated GPU's own `libcuda` is an empty library that links to this one.
fn is_ours(path: &str) -> bool {
    // A mapped file that can no longer be read is assumed to be a real driver.
    fs::read(path).is_ok_and(|file| holds(&file, c"libgpulend_sim.so"))
}

fn holds(file: &[u8], wanted: &CStr) -> bool {
    let wanted = wanted.to_bytes_with_nul();
    file.windows(wanted.len()).any(|window| window == wanted)
}
