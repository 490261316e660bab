//! Attributes of devices.

use std::ffi::c_char;

use super::Call;
use super::entry;
use super::pointer::{In, Out};
use crate::machine::device::{self, NAME};
use crate::status::{Outcome, Status};

/// `CUdevprop`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Properties {
    threads_per_block: i32,
    threads: [i32; 3],
    grid: [i32; 3],
    shared_memory_per_block: i32,
    constant_memory: i32,
    warp: i32,
    pitch: i32,
    registers_per_block: i32,
    clock: i32,
    texture_alignment: i32,
}

impl Call {
    /// Converts a device number to an index.
    pub(super) fn device(self, device: i32) -> Outcome<usize> {
        device::index(&self.machine()?.lock().config, device)
    }
}

entry! {
    /// Returns a device by its number.
    fn cuDeviceGet(device: Out<i32>, ordinal: i32) |call| {
        call.device(ordinal)?;
        device.put(ordinal)
    }
}

entry! {
    /// Returns the number of devices.
    fn cuDeviceGetCount(count: Out<i32>) |call| {
        let devices = call.machine()?.lock().config.devices;
        count.put(i32::try_from(devices).unwrap_or(i32::MAX))
    }
}

entry! {
    /// Returns the name of a device.
    fn cuDeviceGetName(name: Out<c_char>, room: i32, device: i32) |call| {
        call.device(device)?;
        name.put_text(NAME, room)
    }
}

entry! {
    /// Returns the UUID of a device.
    fn [cuDeviceGetUuid, cuDeviceGetUuid_v2](uuid: Out<[u8; 16]>, device: i32) |call| {
        uuid.put(device::uuid(call.device(device)?))
    }
}

entry! {
    /// Returns the memory size of a device.
    fn cuDeviceTotalMem_v2(bytes: Out<usize>, device: i32) |call| {
        call.device(device)?;
        bytes.put(call.machine()?.lock().config.memory)
    }
}

entry! {
    /// Returns an attribute of a device.
    fn cuDeviceGetAttribute(value: Out<i32>, attribute: i32, device: i32) |call| {
        let device = call.device(device)?;
        let arch = call.machine()?.lock().config.arch;
        value.required()?.put(device::attribute(arch, attribute, device)?)
    }
}

entry! {
    /// Returns the compute capability of a device.
    fn cuDeviceComputeCapability(major: Out<i32>, minor: Out<i32>, device: i32) |call| {
        call.device(device)?;
        minor.required()?;
        let (first, second) = call.machine()?.lock().config.arch.capability;
        major.put(first)?;
        minor.put(second)
    }
}

entry! {
    /// Returns several attributes at once.
    fn cuDeviceGetProperties(properties: Out<Properties>, device: i32) |call| {
        let device = call.device(device)?;
        let arch = call.machine()?.lock().config.arch;
        let of = |number| device::attribute(arch, number, device);
        properties.put(Properties {
            threads_per_block: of(1)?,
            threads: [of(2)?, of(3)?, of(4)?],
            grid: [of(5)?, of(6)?, of(7)?],
            shared_memory_per_block: of(8)?,
            constant_memory: of(9)?,
            warp: of(10)?,
            pitch: of(11)?,
            registers_per_block: of(12)?,
            clock: of(13)?,
            texture_alignment: of(14)?,
        })
    }
}

entry! {
    /// Returns a device by its PCI bus id.
    fn cuDeviceGetByPCIBusId(device: Out<i32>, text: In<c_char>) |call| {
        let devices = call.machine()?.lock().config.devices;
        device.required()?;
        let wanted = text.text()?.to_string_lossy().to_ascii_uppercase();
        let names = |index: &usize| {
            let id = device::pci_bus_id(*index);
            // Domain and function are optional.
            wanted == id || id.strip_prefix("0000:").is_some_and(|short| short == wanted || short.strip_suffix(".0") == Some(&wanted))
                || id.strip_suffix(".0") == Some(&wanted)
        };
        let digits = |character: char| character.is_ascii_hexdigit() || ":.".contains(character);
        if !wanted.contains(':') || !wanted.chars().all(digits) {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        let found = (0..devices).find(names).ok_or(Status::ERROR_INVALID_DEVICE)?;
        device.put(i32::try_from(found).unwrap_or(i32::MAX))
    }
}

entry! {
    /// Returns the PCI bus id of a device.
    fn cuDeviceGetPCIBusId(text: Out<c_char>, room: i32, device: i32) |call| {
        let id = device::pci_bus_id(call.device(device)?);
        if usize::try_from(room).is_ok_and(|room| room <= id.len()) {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        text.put_text(&id, room)
    }
}

entry! {
    /// Returns whether a device can access a peer's memory: always, except its own.
    fn cuDeviceCanAccessPeer(can: Out<i32>, device: i32, peer: i32) |call| {
        can.required()?;
        let (device, peer) = (call.device(device)?, call.device(peer)?);
        can.put(i32::from(device != peer))
    }
}

entry! {
    /// Returns an attribute of the link between two devices.
    fn cuDeviceGetP2PAttribute(value: Out<i32>, attribute: i32, source: i32, target: i32) |call| {
        let (source, target) = (call.device(source)?, call.device(target)?);
        if source == target {
            return Err(Status::ERROR_INVALID_DEVICE);
        }
        value.put(match attribute {
            2 => 1,
            1 | 3 | 4 | 5 => 0,
            _ => return Err(Status::ERROR_INVALID_VALUE),
        })
    }
}
