//! Foreign memory in: each file reads what one protocol wrote, once, and makes a lease of it.
//!
//! Ownership is taken before anything is checked, so a refused array is still
//! released, exactly once.

pub mod array_interface;
pub mod dlpack;
pub mod raw;

use crate::device::{Device, DeviceKind};
use crate::error::DeviceError;

/// Refuses memory that this release cannot reach.
fn require_host(device: Device) -> Result<(), DeviceError> {
    match device.kind() {
        DeviceKind::Cpu => Ok(()),
        _ => Err(DeviceError::HostOnly { device: device.to_string().into() }),
    }
}
