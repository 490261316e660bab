//! Devices and kinds of memory.
#![forbid(unsafe_code)]

use std::fmt;
use std::str::FromStr;

use crate::abi::dlpack::{self, DeviceCode};
use crate::error::DeviceError;

/// The kinds of device that gpulend knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeviceKind {
    /// The host.
    Cpu,
    /// A CUDA GPU.
    Cuda,
    /// An OpenCL device.
    OpenCl,
}

impl DeviceKind {
    /// The word for it, as in `cuda:0`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
            Self::OpenCl => "opencl",
        }
    }
}

/// Kind and index: `cpu`, `cuda:0`, `opencl:0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Device {
    kind: DeviceKind,
    /// A byte: it keeps a view within 128 bytes, which compilers move without a call.
    index: u8,
}

/// The kind of memory; pinned and managed are kinds of memory, not devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Memory {
    /// Ordinary host memory.
    Host,
    /// Host memory that a GPU driver pinned.
    Pinned,
    /// Memory that migrates between host and device.
    Managed,
    /// Memory of a device.
    Device,
}

impl Memory {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Pinned => "pinned",
            Self::Managed => "managed",
            Self::Device => "device",
        }
    }
}

impl Device {
    /// The host.
    pub const CPU: Self = Self { kind: DeviceKind::Cpu, index: 0 };

    /// A device by kind and index; the host has only index 0.
    #[must_use]
    pub const fn new(kind: DeviceKind, index: u8) -> Self {
        let index = if matches!(kind, DeviceKind::Cpu) { 0 } else { index };
        Self { kind, index }
    }

    /// What kind.
    #[must_use]
    pub const fn kind(self) -> DeviceKind {
        self.kind
    }

    /// Which one.
    #[must_use]
    pub const fn index(self) -> u8 {
        self.index
    }

    /// Reads a DLPack device: where the bytes are, and what kind of memory.
    ///
    /// # Errors
    ///
    /// If gpulend does not know the code, or the index is negative.
    pub fn from_dlpack(device: dlpack::Device) -> Result<(Self, Memory), DeviceError> {
        let unknown = DeviceError::UnknownCode { code: device.code.0 };
        let Ok(index) = u8::try_from(device.index) else { return Err(unknown) };
        match device.code {
            DeviceCode::CPU => Ok((Self::CPU, Memory::Host)),
            DeviceCode::CUDA_HOST => Ok((Self::CPU, Memory::Pinned)),
            DeviceCode::CUDA => Ok((Self::new(DeviceKind::Cuda, index), Memory::Device)),
            DeviceCode::CUDA_MANAGED => Ok((Self::new(DeviceKind::Cuda, index), Memory::Managed)),
            DeviceCode::OPENCL => Ok((Self::new(DeviceKind::OpenCl, index), Memory::Device)),
            _ => Err(unknown),
        }
    }

    /// The device as DLPack writes it, as plain device memory.
    #[must_use]
    pub fn to_dlpack(self) -> dlpack::Device {
        let code = match self.kind {
            DeviceKind::Cpu => DeviceCode::CPU,
            DeviceKind::Cuda => DeviceCode::CUDA,
            DeviceKind::OpenCl => DeviceCode::OPENCL,
        };
        dlpack::Device { code, index: i32::from(self.index) }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            DeviceKind::Cpu => out.write_str("cpu"),
            kind => write!(out, "{}:{}", kind.name(), self.index),
        }
    }
}

impl FromStr for Device {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, DeviceError> {
        let unknown = || DeviceError::UnknownName { found: text.into() };
        let (kind, index) = match text.split_once(':') {
            Some((kind, index)) => (kind, index.parse().map_err(|_| unknown())?),
            None => (text, 0),
        };
        match kind {
            "cpu" if index == 0 => Ok(Self::CPU),
            "cuda" => Ok(Self::new(DeviceKind::Cuda, index)),
            "opencl" => Ok(Self::new(DeviceKind::OpenCl, index)),
            _ => Err(unknown()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for name in ["cpu", "cuda:0", "cuda:7", "opencl:1"] {
            assert_eq!(name.parse::<Device>().unwrap().to_string(), name);
        }
        assert_eq!("cuda".parse::<Device>().unwrap().to_string(), "cuda:0");
        assert_eq!("cpu:0".parse::<Device>().unwrap(), Device::CPU);
    }

    #[test]
    fn other_names_are_refused() {
        for name in ["", "gpu", "cuda:", "cuda:-1", "cuda:x", "cpu:1", "cuda:99999"] {
            assert!(name.parse::<Device>().is_err(), "{name}");
        }
    }

    #[test]
    fn a_code_from_the_future_is_refused_not_undefined() {
        let device = dlpack::Device { code: DeviceCode(i32::MAX), index: 0 };
        assert_eq!(Device::from_dlpack(device), Err(DeviceError::UnknownCode { code: i32::MAX }));
        let device = dlpack::Device { code: DeviceCode::CUDA, index: -1 };
        assert!(Device::from_dlpack(device).is_err());
    }

    #[test]
    fn pinned_memory_lies_on_the_host() {
        let device = dlpack::Device { code: DeviceCode::CUDA_HOST, index: 0 };
        assert_eq!(Device::from_dlpack(device), Ok((Device::CPU, Memory::Pinned)));
    }
}
