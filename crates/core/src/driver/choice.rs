//! Chooses the driver, once for each process, from the environment or the program's request.
//!
//! A failed choice changes nothing, so the next attempt starts afresh. No lock is held while a driver starts,
//! because a real driver may fork to load its kernel module.
#![forbid(unsafe_code)]

use std::env;
use std::io::Write;
use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, MutexGuard, OnceLock, PoisonError};

use libloading::os::unix::{RTLD_GLOBAL, RTLD_NOW};

use crate::driver::context::Relaxed;
use crate::driver::cuda::{Driver, PRIVATE, is_loaded, open};
use crate::driver::paths::{DRIVER, driver_folder, foreign_driver, simulator_library};
use crate::driver::settings::Settings;
use crate::driver::simulator::not_ours;
use crate::error::{DeviceError, Error};
use crate::fork::ProcessLock;

const VARIABLE: &str = "GPULEND_DEVICE";

/// What `GPULEND_DEVICE` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    /// The real driver if there is one, else the simulated GPU.
    Auto,
    /// The real driver only.
    Cuda,
    /// The simulated GPU only.
    Simulated,
}

impl FromStr for Wanted {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, DeviceError> {
        match text {
            "" | "auto" => Ok(Self::Auto),
            "cuda" => Ok(Self::Cuda),
            "simulated" => Ok(Self::Simulated),
            _ => {
                let (variable, wanted) = (VARIABLE, "auto, cuda or simulated");
                Err(DeviceError::UnknownChoice { variable, wanted, found: text.into() })
            }
        }
    }
}

/// The state of this process's choice.
#[derive(Clone, Copy)]
enum State {
    Open,
    /// A thread is choosing, without holding the lock.
    Choosing,
    Chosen(&'static Driver),
    /// The parent had chosen or was choosing when it forked.
    Forked,
}

static STATE: ProcessLock<State> = ProcessLock::with(State::Open, |state| {
    if !matches!(state, State::Open) {
        *state = State::Forked;
        FORKED.store(true, Ordering::Relaxed);
    }
});
/// The chosen driver, readable without the lock.
static CURRENT: OnceLock<&'static Driver> = OnceLock::new();
/// Whether a parent process made the choice.
static FORKED: AtomicBool = AtomicBool::new(false);
/// Notified when a choice succeeds or fails.
static SETTLED: Condvar = Condvar::new();

fn state() -> MutexGuard<'static, State> {
    STATE.lock()
}

/// The right to choose. Dropping it without a choice lets the next thread choose.
struct Turn;

/// What a thread finds once no other thread is choosing.
enum Next {
    Chosen(&'static Driver),
    Mine(Turn),
}

impl Turn {
    /// Waits until no thread is choosing.
    fn wait() -> Result<Next, DeviceError> {
        let settled = SETTLED.wait_while(state(), |state| matches!(state, State::Choosing));
        let mut state = settled.unwrap_or_else(PoisonError::into_inner);
        match *state {
            State::Chosen(driver) => Ok(Next::Chosen(driver)),
            State::Forked => Err(DeviceError::Forked),
            State::Open | State::Choosing => {
                *state = State::Choosing;
                Ok(Next::Mine(Self))
            }
        }
    }

    fn settle(self, driver: Driver) -> &'static Driver {
        let driver: &'static Driver = Box::leak(Box::new(driver));
        *state() = State::Chosen(driver);
        CURRENT.get_or_init(|| driver)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = state();
        if matches!(*state, State::Choosing) {
            *state = State::Open;
        }
        drop(state);
        SETTLED.notify_all();
    }
}

/// The driver of this process. The first call chooses it, according to `GPULEND_DEVICE`.
///
/// # Errors
///
/// If no driver can be used, or this process was forked after the choice.
#[inline]
pub fn driver() -> Result<&'static Driver, Error> {
    match CURRENT.get() {
        Some(driver) if !FORKED.load(Ordering::Relaxed) => Ok(driver),
        _ => choose(),
    }
}

#[cold]
fn choose() -> Result<&'static Driver, Error> {
    let turn = match Turn::wait()? {
        Next::Chosen(driver) => return Ok(driver),
        Next::Mine(turn) => turn,
    };
    let driver = match wanted()? {
        Wanted::Auto => start_any()?,
        Wanted::Cuda => start_real()?,
        Wanted::Simulated => start_simulated(&Settings::default())?,
    };
    Ok(turn.settle(driver))
}

/// Chooses the simulated GPU. Repeating the same request is not an error.
///
/// # Errors
///
/// If another driver was chosen before, `GPULEND_DEVICE=cuda` forbids it, the process has mapped a real
/// driver, or the settings are invalid.
pub fn simulate(settings: &Settings) -> Result<&'static Driver, Error> {
    let turn = match Turn::wait()? {
        Next::Chosen(driver) if driver.is_simulated() && driver.settings() == settings => {
            return Ok(driver);
        }
        Next::Chosen(driver) => {
            return Err(DeviceError::AlreadyChosen { chosen: driver.to_string().into() }.into());
        }
        Next::Mine(turn) => turn,
    };
    if wanted()? == Wanted::Cuda {
        return Err(DeviceError::Forbidden.into());
    }
    Ok(turn.settle(start_simulated(settings)?))
}

/// The chosen driver, if any. Does not choose one.
pub(super) fn chosen() -> Result<Option<&'static Driver>, DeviceError> {
    match *state() {
        State::Chosen(driver) => Ok(Some(driver)),
        State::Forked => Err(DeviceError::Forked),
        State::Open | State::Choosing => Ok(None),
    }
}

/// The driver that can have allocated GPU memory: the chosen one, or a real one that is already loaded.
///
/// This does not start a simulated GPU: memory that exists already cannot be from one that has not started.
///
/// # Errors
///
/// If the loaded real driver does not start, or this process was forked after the choice.
#[inline]
pub fn present() -> Result<Option<&'static Driver>, Error> {
    match CURRENT.get() {
        Some(driver) if !FORKED.load(Ordering::Relaxed) => Ok(Some(driver)),
        _ => match chosen()? {
            None if is_loaded() => choose().map(Some),
            found => Ok(found),
        },
    }
}

/// The driver that this process already uses. Unlike [`present`] it does not search for one, which takes
/// microseconds.
pub(crate) fn in_use() -> Option<&'static Driver> {
    CURRENT.get().copied().filter(|_| !FORKED.load(Ordering::Relaxed))
}

/// Puts this thread into relaxed capture mode if a driver is in use. For calls into foreign code that may use
/// CUDA.
pub fn relaxed() -> Option<Relaxed> {
    in_use()?.relax().ok()
}

/// Whether this process was forked after its parent chose a driver.
pub fn is_forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

fn wanted() -> Result<Wanted, DeviceError> {
    env::var_os(VARIABLE).unwrap_or_default().to_string_lossy().parse()
}

/// The driver that the loader finds, not yet initialised, or the loader's error.
fn find() -> Result<Result<Driver, DeviceError>, Box<str>> {
    open(Path::new(DRIVER), PRIVATE).map(Driver::new)
}

fn start_real() -> Result<Driver, Error> {
    let driver = find().map_err(|reason| DeviceError::NoDriver { reason })??;
    if driver.is_simulated() {
        let library = driver.path().display().to_string().into();
        return Err(DeviceError::Exposed { library }.into());
    }
    driver.initialise()?;
    Ok(driver)
}

fn start_any() -> Result<Driver, Error> {
    let (driver, reason) = match find() {
        Ok(driver) => {
            let driver = driver?;
            driver.initialise()?;
            if !driver.is_simulated() {
                return Ok(driver);
            }
            (driver, format!("the loader finds it as {DRIVER}"))
        }
        Err(reason) => match start_simulated(&Settings::default()) {
            Ok(driver) => (driver, format!("no CUDA driver can be loaded ({reason})")),
            Err(Error::NoDevice(DeviceError::NoSimulator { reason: other })) => {
                return Err(DeviceError::Nothing { reason, other }.into());
            }
            Err(error) => return Err(error),
        },
    };
    // A closed stderr must not make the choice fail.
    let _ = writeln!(
        std::io::stderr(),
        "gpulend: using the simulated GPU, because {reason}; {VARIABLE}=simulated chooses it \
         without this line, {VARIABLE}=cuda refuses it"
    );
    Ok(driver)
}

fn start_simulated(settings: &Settings) -> Result<Driver, Error> {
    let path = simulator_library()?;
    if let Some(library) = foreign_driver(&path) {
        return Err(DeviceError::Mapped { library: library.display().to_string().into() }.into());
    }
    let refused = |reason| DeviceError::NoSimulator { reason };
    let library = open(&path, PRIVATE).map_err(refused)?;
    let mut driver = Driver::new(library)?;
    let control = driver.control().ok_or_else(|| not_ours(&path))?;
    let text = settings.to_string();
    // Settings are refused if another library has started it already; without settings, sharing it is fine.
    if !text.is_empty() {
        control.configure(&text)?;
    }
    if settings.expose {
        // Before `cuInit`: if this fails, the settings can still be changed.
        let exposed = driver_folder()?.join(DRIVER);
        driver.keep(open(&exposed, RTLD_NOW | RTLD_GLOBAL).map_err(refused)?);
    }
    driver.initialise()?;
    driver.note(settings);
    Ok(driver)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_three_choices_and_nothing_means_auto() {
        assert_eq!("".parse(), Ok(Wanted::Auto));
        assert_eq!("auto".parse(), Ok(Wanted::Auto));
        assert_eq!("cuda".parse(), Ok(Wanted::Cuda));
        assert_eq!("simulated".parse(), Ok(Wanted::Simulated));
        for wrong in ["CUDA", "gpu", " auto", "cuda:0"] {
            assert!(wrong.parse::<Wanted>().is_err(), "{wrong}");
        }
    }
}
