//! The device that memory is presented as to a consumer.
#![forbid(unsafe_code)]

use crate::abi::dlpack::{Device as DlpackDevice, DeviceCode};
use crate::device::{Device, DeviceKind, Memory};
use crate::error::ExportError;
use crate::lease::Lease;

/// How a lease is presented to consumers that do not ask for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Pinned memory as host memory, managed memory as device memory, and a simulated GPU's memory as host
    /// memory, which it is.
    Usual,
    /// Like `Usual`, but a simulated GPU's memory as CUDA memory.
    Cuda,
    /// All memory that the CPU can read as host memory.
    Host,
}

/// The device of a lease for consumers that do not ask for one.
#[must_use]
pub fn shown(lease: &Lease, shown: Shown) -> DlpackDevice {
    match shown {
        Shown::Host if is_host_visible(lease) => Device::CPU.to_dlpack(),
        Shown::Usual if lease.is_simulated() => Device::CPU.to_dlpack(),
        _ => lease.view().device().to_dlpack(),
    }
}

/// The device of a lease for a consumer that asks for one.
///
/// # Errors
///
/// If the memory is not visible as that device's without a copy.
pub fn wanted(lease: &Lease, code: i32, index: i32) -> Result<DlpackDevice, ExportError> {
    let wanted = DlpackDevice { code: DeviceCode(code), index };
    let view = lease.view();
    let own = view.device().to_dlpack();
    let fits = match (wanted.code, view.memory()) {
        (DeviceCode::CPU, Memory::Host | Memory::Pinned | Memory::Managed) => index == 0,
        (DeviceCode::CPU, Memory::Device) => index == 0 && lease.is_simulated(),
        (DeviceCode::CUDA_HOST, Memory::Pinned) => true,
        (DeviceCode::CUDA_MANAGED, Memory::Managed) => index == own.index,
        _ => wanted == own,
    };
    if fits {
        return Ok(wanted);
    }
    let (found, wanted) =
        (view.device().to_string().into(), format!("DLPack device {code}:{index}").into());
    Err(ExportError::Device { found, wanted })
}

/// Refuses memory that is not a CUDA device's.
///
/// # Errors
///
/// If it is host memory.
pub fn require_cuda(lease: &Lease) -> Result<(), ExportError> {
    let device = lease.view().device();
    if device.kind() == DeviceKind::Cuda {
        return Ok(());
    }
    Err(ExportError::Device { found: device.to_string().into(), wanted: "a CUDA device".into() })
}

/// Whether the CPU may read and write the memory.
#[must_use]
pub fn is_host_visible(lease: &Lease) -> bool {
    lease.view().memory() != Memory::Device || lease.is_simulated()
}

/// Whether a consumer given this device works on the host.
#[must_use]
pub fn is_host(device: DlpackDevice) -> bool {
    matches!(device.code, DeviceCode::CPU | DeviceCode::CUDA_HOST)
}
