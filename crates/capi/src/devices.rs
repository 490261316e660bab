//! The choice between real and simulated GPU, and information about GPUs.

use std::ffi::c_char;

use gpulend::driver::{Check, Driver, Settings, driver, parse_size, simulate};
use gpulend::{Device, DeviceError, DeviceKind, stream};

use crate::guard::guard;
use crate::pointer::{Form, Out, put_text, text};
use crate::refusal::Refusal;
use crate::types::{DeviceInfo, GPULEND_ANY_DEVICE, GPULEND_HOST, GPULEND_SIMULATED, Status};

/// Chooses the simulated GPU for this process, before its first use of a GPU. `settings` is NULL,
/// or such as "devices=2,memory=1GiB,seed=7,check=races,timeout=5,sticky=1,accept_nvvm=1,expose=1"; other
/// settings come from GPULEND_SIM_*. Without this call GPULEND_DEVICE=auto|cuda|simulated
/// decides.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_simulate(settings: *const c_char) -> Status {
    guard(|| {
        // SAFETY: (1) of the crate.
        let settings = unsafe { text(settings, "settings") }?;
        simulate(&parse(settings.unwrap_or(""))?)?;
        Ok(())
    })
}

/// Writes a description of the driver that this process uses, as gpulend_dtype_name() writes. Chooses one
/// if there is none yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_driver(text: *mut c_char, room: u64, needed: *mut u64) -> Status {
    guard(|| {
        let words = driver()?.to_string();
        // SAFETY: (1) of the crate.
        unsafe { put_text(&words, text, room, needed) }
    })
}

/// The number of GPUs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_device_count(count: *mut i32) -> Status {
    guard(|| {
        // SAFETY: (1) of the crate.
        let count = unsafe { Out::at(count, "count") }?;
        let devices = driver()?.devices()?;
        count.put(i32::try_from(devices.len()).unwrap_or(i32::MAX));
        Ok(())
    })
}

/// Describes a GPU.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_device(device: i32, info: *mut DeviceInfo) -> Status {
    guard(|| {
        // SAFETY: (1) of the crate.
        let info = unsafe { Form::at(info, "info") }?;
        let index = gpu(device)?;
        let driver: &Driver = driver()?;
        let devices = driver.devices()?;
        let Some(found) = devices.get(usize::from(index)) else {
            let count = i32::try_from(devices.len()).unwrap_or(i32::MAX);
            return Err(DeviceError::NoSuchDevice { device: index, count }.into());
        };
        let mut name = [0; 256];
        for (place, byte) in name[..255].iter_mut().zip(found.name.bytes()) {
            *place = c_char::from_ne_bytes([byte]);
        }
        info.fill(DeviceInfo {
            size: 0,
            memory: found.memory,
            major: found.capability.0,
            minor: found.capability.1,
            flags: if driver.is_simulated() { GPULEND_SIMULATED } else { 0 },
            reserved: 0,
            name,
        });
        Ok(())
    })
}

/// Waits for all work of a GPU, of all libraries and streams.
#[unsafe(no_mangle)]
pub extern "C" fn gpulend_synchronize(device: i32) -> Status {
    guard(|| Ok(stream::synchronize(gpu(device)?)?))
}

/// A device by its number; none for GPULEND_ANY_DEVICE.
pub(crate) fn place(device: i32) -> Result<Option<Device>, Refusal> {
    match device {
        GPULEND_ANY_DEVICE => Ok(None),
        GPULEND_HOST => Ok(Some(Device::CPU)),
        _ => gpu(device).map(|index| Some(Device::new(DeviceKind::Cuda, index))),
    }
}

/// A GPU by its number, which may be too large.
pub(crate) fn gpu(device: i32) -> Result<u8, Refusal> {
    u8::try_from(device).map_err(|_| {
        let problem =
            format!("is {device}; GPUs are 0, 1 and so on, gpulend_device_count() of them");
        Refusal::argument("device", problem)
    })
}

/// The number of a device for callers.
pub(crate) fn number(device: Device) -> i32 {
    if device.kind() == DeviceKind::Cpu { GPULEND_HOST } else { i32::from(device.index()) }
}

fn parse(text: &str) -> Result<Settings, Refusal> {
    let mut settings = Settings::default();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let wrong = || {
            const KNOWN: &str = "devices=2, memory=1GiB, seed=7, check=off|memory|races, timeout=5, sticky=0|1, \
                                 accept_nvvm=0|1 and expose=0|1";
            Refusal::argument("settings", format!("have {part:?}; known are {KNOWN}"))
        };
        let (key, value) = part.split_once('=').ok_or_else(wrong)?;
        let number = || value.parse::<u64>().map_err(|_| wrong());
        let switch = || match value {
            "0" => Ok(false),
            "1" => Ok(true),
            _ => Err(wrong()),
        };
        match key {
            "devices" => settings.devices = Some(number()?),
            "memory" => settings.memory = Some(parse_size(value).ok_or_else(wrong)?),
            "seed" => settings.seed = Some(number()?),
            "check" => settings.check = Some(Check::parse(value).ok_or_else(wrong)?),
            "timeout" => settings.timeout = Some(number()?),
            "sticky" => settings.sticky = Some(switch()?),
            "accept_nvvm" => settings.accept_nvvm = Some(switch()?),
            "expose" => settings.expose = switch()?,
            _ => return Err(wrong()),
        }
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_the_environment_spells_them() {
        let settings = parse("devices=2, memory=1GiB,seed=7,check=races,expose=1").unwrap();
        assert_eq!(settings.to_string(), "devices=2,memory=1073741824,seed=7,check=races");
        assert!(settings.expose);
        assert_eq!(parse("").unwrap(), Settings::default());
        for wrong in ["devices", "devices=", "device=1", "sticky=yes", "memory=much", "=1"] {
            assert_eq!(parse(wrong).map_err(|refusal| refusal.code()), Err(253), "{wrong}");
        }
    }
}
