//! The files of drivers: the simulated GPU's, and those that this process has mapped.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::{env, fs};

use gpulend_common::maps::{self, Mapping};

use crate::error::DeviceError;

/// The name by which programs load a driver.
pub(super) const DRIVER: &str = "libcuda.so.1";
/// A second name, which some programs try first.
const OTHER_DRIVER: &str = "libcuda.so";
/// The environment variable that overrides [`set_simulator`].
const OVERRIDE: &str = "GPULEND_SIM_LIBRARY";

static INSTALLED: OnceLock<PathBuf> = OnceLock::new();

/// Sets the path of the installed `libgpulend_sim.so`. Only the first call counts.
pub fn set_simulator(library: PathBuf) {
    let _ = INSTALLED.set(library);
}

/// The path of `libgpulend_sim.so`: from `GPULEND_SIM_LIBRARY`, or as set by [`set_simulator`], or with the feature `sim`
/// where cargo puts it.
///
/// # Errors
///
/// If the file does not exist, or its path was never set.
pub fn simulator_library() -> Result<PathBuf, DeviceError> {
    let named = env::var_os(OVERRIDE).filter(|path| !path.is_empty()).map(PathBuf::from);
    let Some(path) = named.or_else(|| INSTALLED.get().cloned()).or_else(built_by_cargo) else {
        return Err(DeviceError::NoSimulator { reason: "its path is not known".into() });
    };
    fs::canonicalize(&path).map_err(|error| missing(&path, &error))
}

/// The library beside this program, or where cargo puts it for the programs, examples and tests that it runs.
fn built_by_cargo() -> Option<PathBuf> {
    if !cfg!(feature = "sim") {
        return None;
    }
    let program = env::current_exe().ok()?;
    let folder = program.parent()?;
    ["", "deps", "../deps"]
        .map(|place| folder.join(place).join("libgpulend_sim.so"))
        .into_iter()
        .find(|path| path.is_file())
}

/// The folder in which `libcuda.so.1` is the simulated GPU, for `LD_LIBRARY_PATH`.
///
/// # Errors
///
/// If the folder has no `libcuda.so.1`.
pub fn driver_folder() -> Result<PathBuf, DeviceError> {
    let folder = folder_beside(&simulator_library()?);
    let driver = folder.join(DRIVER);
    fs::metadata(&driver).map_err(|error| missing(&driver, &error))?;
    Ok(folder)
}

fn missing(path: &Path, error: &std::io::Error) -> DeviceError {
    DeviceError::NoSimulator { reason: format!("{}: {error}", path.display()).into() }
}

fn folder_beside(simulator: &Path) -> PathBuf {
    simulator.with_file_name("driver")
}

/// A driver that this process has mapped and that is not the simulated GPU's.
///
/// Returns `None` without `/proc`.
pub(super) fn foreign_driver(simulator: &Path) -> Option<PathBuf> {
    let list = maps::read()?;
    let folder = folder_beside(simulator);
    let ours = [DRIVER, OTHER_DRIVER].map(|name| fs::canonicalize(folder.join(name)).ok());
    maps::parse(&list)
        .filter(Mapping::is_driver)
        .filter_map(|mapping| mapping.path())
        .find(|path| !ours.iter().flatten().any(|ours| ours == path))
        .map(Path::to_owned)
}

/// The file mapped at an address.
pub(super) fn file_at(address: usize) -> Option<PathBuf> {
    let list = maps::read()?;
    let found = maps::parse(&list).find(|mapping| mapping.holds(address as u64))?;
    found.path().map(Path::to_owned)
}
