//! Import of foreign memory: each file reads one protocol's description, once, and makes a lease of it.
//!
//! Ownership is taken before anything is checked, so a refused array is still
//! released, exactly once.

pub mod array_interface;
pub mod dlpack;
pub mod raw;

use std::sync::Arc;

use crate::device::{Device, DeviceKind};
use crate::driver::present;
use crate::error::{AddressError, DeviceError, Error};
use crate::stream::{Ready, Timeline};

/// The timeline of device memory; none for host memory.
#[inline(always)]
fn timeline_of(
    device: Device,
    (low, bytes): (u64, u64),
    ready: impl FnOnce(u8) -> Ready,
) -> Result<Option<Arc<Timeline>>, Error> {
    match device.kind() {
        DeviceKind::Cpu => Ok(None),
        DeviceKind::Cuda => {
            reach(device, (low, bytes))?;
            Timeline::new(device.index(), ready(device.index()), None).map(Some)
        }
        DeviceKind::OpenCl => Err(opencl(device).into()),
    }
}

/// Refuses memory of a GPU that this process does not use.
fn reach(device: Device, (low, bytes): (u64, u64)) -> Result<(), Error> {
    let Some(driver) = present()? else {
        return Err(no_driver(&device.to_string()).into());
    };
    driver.require_device(device.index())?;
    // The simulated GPU cannot use addresses of a real one.
    if driver.is_simulated() && bytes > 0 && driver.buffer_id(low)?.is_none() {
        let (device, nearest) = (device.to_string().into(), driver.nearest(low));
        return Err(AddressError::Unknown { address: low, device, nearest }.into());
    }
    Ok(())
}

/// Refuses a device whose memory cannot be borrowed, before its producer is asked.
///
/// # Errors
///
/// If this process uses no driver, or there is no such device.
pub fn require_reachable(device: Device) -> Result<(), Error> {
    match device.kind() {
        DeviceKind::Cpu => Ok(()),
        DeviceKind::Cuda => reach(device, (0, 0)),
        DeviceKind::OpenCl => Err(opencl(device).into()),
    }
}

fn no_driver(device: &str) -> DeviceError {
    let problem =
        "this process has no GPU driver in use: whatever made the memory must have loaded one";
    DeviceError::OutOfReach { device: device.into(), problem }
}

fn opencl(device: Device) -> DeviceError {
    let problem = "this release of gpulend lends memory of the host and of CUDA devices only";
    DeviceError::OutOfReach { device: device.to_string().into(), problem }
}
