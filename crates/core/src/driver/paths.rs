//! Where drivers lie: the files of the simulated GPU, and the drivers that this process has mapped.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::{env, fs};

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
        return Err(DeviceError::NoSimulator { reason: "nobody said where it lies".into() });
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
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let folder = folder_beside(simulator);
    let ours = [DRIVER, OTHER_DRIVER].map(|name| fs::canonicalize(folder.join(name)).ok());
    mapped_files(&maps)
        .map(|(_, path)| path)
        .find(|path| is_driver(path) && !ours.iter().flatten().any(|ours| ours == path))
        .map(Path::to_owned)
}

/// The file that is mapped at an address.
pub(super) fn file_at(address: usize) -> Option<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let holds = |range: &str| {
        let (start, end) = range.split_once('-')?;
        let start = usize::from_str_radix(start, 16).ok()?;
        let end = usize::from_str_radix(end, 16).ok()?;
        Some((start..end).contains(&address))
    };
    let found = mapped_files(&maps).find(|(range, _)| holds(range) == Some(true));
    found.map(|(_, path)| path.to_owned())
}

/// Range and path of each mapping that has a path.
fn mapped_files(maps: &str) -> impl Iterator<Item = (&str, &Path)> {
    maps.lines().filter_map(|line| {
        let path = line.find('/')?;
        let (range, _) = line.split_once(' ')?;
        Some((range, Path::new(&line[path..])))
    })
}

/// Whether a file is a driver by its name: `libcuda.so.1`, `libcuda.so.580.65.06`.
fn is_driver(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
    name.strip_prefix(OTHER_DRIVER).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_is_known_by_its_name() {
        for name in ["libcuda.so", "libcuda.so.1", "libcuda.so.580.65.06", "libcuda.so.1 (deleted)"]
        {
            assert!(is_driver(&Path::new("/usr/lib").join(name)), "{name}");
        }
        for name in ["libcudart.so.13", "libcuda.sofa", "notlibcuda.so.1", "libcudadebugger.so.1"] {
            assert!(!is_driver(&Path::new("/usr/lib").join(name)), "{name}");
        }
    }

    #[test]
    fn paths_are_read_whole_and_nameless_mappings_left_out() {
        let maps = "7f00-7f10 r-xp 00000000 fe:00 53 /opt/a b/libcuda.so.1\n\
                    7f10-7f20 rw-p 00000000 00:00 0\n\
                    7f20-7f30 rw-p 00000000 00:00 0                  [heap]\n";
        let files: Vec<_> = mapped_files(maps).collect();
        assert_eq!(files, [("7f00-7f10", Path::new("/opt/a b/libcuda.so.1"))]);
    }
}
