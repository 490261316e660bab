//! Where drivers lie: the files of the simulated GPU, and the drivers that this process has mapped.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::{env, fs};

use gpulend_common::maps::{self, Mapping};

use crate::error::DeviceError;

/// The name under which every client asks the loader for a driver.
pub(super) const DRIVER: &str = "libcuda.so.1";
/// Another name, which some ask for first.
const OTHER_DRIVER: &str = "libcuda.so";
/// Overrules what the binding told.
const OVERRIDE: &str = "GPULEND_SIM_LIBRARY";

static TOLD: OnceLock<PathBuf> = OnceLock::new();

/// Tells where `libgpulend_sim.so` was installed. The first word counts.
pub fn tell_simulator(library: PathBuf) {
    let _ = TOLD.set(library);
}

/// Where `libgpulend_sim.so` lies: what `GPULEND_SIM_LIBRARY` says, or where it was installed.
///
/// # Errors
///
/// If it is not there, or nobody told.
pub fn simulator_library() -> Result<PathBuf, DeviceError> {
    let told = env::var_os(OVERRIDE).filter(|path| !path.is_empty()).map(PathBuf::from);
    let Some(path) = told.as_ref().or_else(|| TOLD.get()) else {
        return Err(DeviceError::NoSimulator { reason: "its path is not known".into() });
    };
    fs::canonicalize(path).map_err(|error| missing(path, &error))
}

/// The folder whose `libcuda.so.1` is the simulated GPU, for the loader's path.
///
/// # Errors
///
/// If it is not there.
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
/// Says nothing where there is no `/proc`.
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

/// The file that is mapped at an address.
pub(super) fn file_at(address: usize) -> Option<PathBuf> {
    let list = maps::read()?;
    let found = maps::parse(&list).find(|mapping| mapping.holds(address as u64))?;
    found.path().map(Path::to_owned)
}
