//! The driver of this process and the simulated GPU, as plain values; `gpulend.simulator` names them.

use std::ffi::OsString;
use std::path::PathBuf;

use gpulend::driver::{self, Check, Properties, Settings};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyString};

use crate::errors::{BAD_ARGUMENT, caused, raise, refused};

/// Kind, library, CUDA version, and each device's name, bytes of memory and compute capability.
type Description = (&'static str, OsString, (i32, i32), Vec<(String, u64, (i32, i32))>);

/// Sets the path of the package's simulated GPU in the core; nothing is loaded.
pub(crate) fn set_simulator(py: Python<'_>) -> PyResult<()> {
    // Missing where the package was imported from something other than files.
    if let Some(file) = py.import("gpulend")?.getattr_opt("__file__")?
        && let Ok(file) = file.extract::<PathBuf>()
    {
        driver::set_simulator(file.with_file_name("_simulator").join("libgpulend_sim.so"));
    }
    Ok(())
}

/// Choose the simulated GPU for this process, before its first use of a GPU.
///
/// `devices` (1 to 8), `memory` of each (bytes, or text as "1GiB") and `seed` (what the order of queued
/// work follows from) default to what `GPULEND_SIM_DEVICES`, `_MEMORY` and `_SEED` say. With
/// `expose=True` other libraries of this process find it as `libcuda.so.1` from now on.
///
/// `check` ("off", "memory" or "races") says which mistakes are looked for, `timeout` how many seconds a
/// kernel may take (0: no limit), `sticky` whether a kernel's mistake stays with its context,
/// `accept_nvvm` whether PTX of NVIDIA's compilers is taken; these too default to `GPULEND_SIM_*`.
///
/// It is refused where the process has a real driver mapped, where another choice was made before, and
/// where `GPULEND_DEVICE=cuda`. Asking again for the same is no error.
///
/// >>> import gpulend
/// >>> gpulend.simulate(devices=2, memory="1GiB")
/// >>> gpulend.simulate(devices=2, memory=2**30)
#[pyfunction]
#[pyo3(signature = (
    devices = None, memory = None, seed = None, expose = false, *,
    check = None, timeout = None, sticky = None, accept_nvvm = None,
))]
#[expect(clippy::too_many_arguments, reason = "callers name the settings")]
pub(crate) fn simulate(
    py: Python<'_>,
    devices: Option<&Bound<'_, PyAny>>,
    memory: Option<&Bound<'_, PyAny>>,
    seed: Option<&Bound<'_, PyAny>>,
    expose: bool,
    check: Option<&Bound<'_, PyAny>>,
    timeout: Option<&Bound<'_, PyAny>>,
    sticky: Option<bool>,
    accept_nvvm: Option<bool>,
) -> PyResult<()> {
    let settings = Settings {
        devices: devices
            .map(|count| number(count, "devices", "a number of devices"))
            .transpose()?,
        memory: memory.map(size).transpose()?,
        seed: seed.map(|seed| number(seed, "seed", "an int")).transpose()?,
        expose,
        check: check.map(checks).transpose()?,
        timeout: timeout.map(|limit| number(limit, "timeout", "whole seconds")).transpose()?,
        sticky,
        accept_nvvm,
    };
    py.detach(|| driver::simulate(&settings)).map(|_| ()).map_err(raise)
}

/// Whether there is a GPU to work on: a real one, or a simulated one if that is what `GPULEND_DEVICE` says, or nothing else is
/// there.
///
/// Raises nothing. It chooses the driver of this process, as every first use does, and makes no context.
///
/// >>> import gpulend
/// >>> gpulend.is_available()
/// True
#[pyfunction]
pub(crate) fn is_available(py: Python<'_>) -> bool {
    device_count(py) > 0
}

/// How many GPUs the driver shows; 0 where none can be used. `gpulend.empty(0)` says why.
///
/// >>> import gpulend
/// >>> gpulend.device_count()
/// 1
#[pyfunction]
pub(crate) fn device_count(py: Python<'_>) -> i32 {
    let count = || Ok::<_, gpulend::Error>(driver::driver()?.count()?);
    py.detach(count).unwrap_or(0)
}

/// The driver of this process, chosen now if it was not before.
#[pyfunction]
pub(crate) fn describe_driver(py: Python<'_>) -> PyResult<Description> {
    let describe = || {
        let driver = driver::driver()?;
        let devices = driver.devices()?.into_iter();
        let row = |device: Properties| (device.name, device.memory, device.capability);
        let kind = if driver.is_simulated() { "simulated" } else { "cuda" };
        Ok((kind, driver.path().into(), driver.version()?, devices.map(row).collect()))
    };
    py.detach(describe).map_err(|error: gpulend::Error| raise(error))
}

/// The path of `libgpulend_sim.so`.
#[pyfunction]
pub(crate) fn simulator_library() -> PyResult<OsString> {
    driver::simulator_library().map(PathBuf::into_os_string).map_err(raise)
}

/// The folder in which `libcuda.so.1` is the simulated GPU.
#[pyfunction]
pub(crate) fn driver_folder() -> PyResult<OsString> {
    driver::driver_folder().map(PathBuf::into_os_string).map_err(raise)
}

/// What the simulated GPU of this process saw, as JSON.
#[pyfunction]
pub(crate) fn report(py: Python<'_>) -> PyResult<String> {
    py.detach(driver::report).map_err(raise)
}

/// Says what shall go wrong on the simulated GPU of this process.
#[pyfunction]
#[pyo3(signature = (rules, /))]
pub(crate) fn set_faults(py: Python<'_>, rules: &str) -> PyResult<()> {
    py.detach(|| driver::set_faults(rules)).map_err(raise)
}

/// Tries the settings of the environment in a process that will not use the simulated GPU.
#[pyfunction]
pub(crate) fn rehearse(py: Python<'_>) -> PyResult<()> {
    py.detach(driver::rehearse).map_err(raise)
}

fn checks(check: &Bound<'_, PyAny>) -> PyResult<Check> {
    let text = check.cast::<PyString>().ok().map(|text| text.to_cow()).transpose()?;
    text.and_then(|text| Check::parse(&text)).ok_or_else(|| {
        refused(format!("check is {check}; give 'off', 'memory' or 'races'"), BAD_ARGUMENT)
    })
}

fn size(memory: &Bound<'_, PyAny>) -> PyResult<u64> {
    const WANTED: &str = "bytes as an int, or text such as '64MiB' or '1GiB'";
    let Ok(text) = memory.cast::<PyString>() else {
        return number(memory, "memory", WANTED);
    };
    driver::parse_size(&text.to_cow()?).ok_or_else(|| {
        refused(format!("memory is {:?}; give {WANTED}", text.to_string()), BAD_ARGUMENT)
    })
}

fn number(object: &Bound<'_, PyAny>, name: &str, wanted: &str) -> PyResult<u64> {
    let read = if object.is_instance_of::<PyBool>() {
        Err(PyTypeError::new_err("a bool"))
    } else {
        object.extract::<u64>()
    };
    read.map_err(|error| {
        let py = object.py();
        if !error.is_instance_of::<PyOverflowError>(py) && !error.is_instance_of::<PyTypeError>(py)
        {
            return error;
        }
        let message = format!("{name} is {object}; give {wanted}, zero or more and below 2**64");
        caused(py, refused(message, BAD_ARGUMENT), error)
    })
}
