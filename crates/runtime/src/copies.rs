//! Copies and fills of one dimension, and between devices.

use std::ffi::{c_int, c_void};
use std::ptr;

use crate::driver::Driver;
use crate::error::{Error, Outcome};
use crate::state::{enter, primary};
use crate::wire::{Handle, runtime};

/// The kind of a copy: `cudaMemcpyKind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    HostToHost,
    HostToDevice,
    DeviceToHost,
    DeviceToDevice,
    Default,
}

impl Kind {
    /// Returns the kind of a number of `cudaMemcpyKind`.
    pub(crate) fn of(number: c_int) -> Outcome<Self> {
        match number {
            0 => Ok(Self::HostToHost),
            1 => Ok(Self::HostToDevice),
            2 => Ok(Self::DeviceToHost),
            3 => Ok(Self::DeviceToDevice),
            4 => Ok(Self::Default),
            _ => Err(Error::INVALID_DIRECTION),
        }
    }
}

/// Where a copy is queued: `None` is the call that waits.
pub(crate) type Queue = Option<Handle>;

/// A copy of bytes. Each address is one of the host or of the device, as the kind says.
#[derive(Clone, Copy)]
pub(crate) struct Bytes {
    pub(crate) to: usize,
    pub(crate) from: usize,
    pub(crate) count: usize,
}

/// Copies bytes.
///
/// # Safety
///
/// Host addresses are valid for as many bytes, until the copy is done. The driver checks those of the device.
pub(crate) unsafe fn copy(driver: &Driver, bytes: Bytes, kind: Kind, queue: Queue) -> Outcome<()> {
    if bytes.count == 0 {
        return Ok(());
    }
    if bytes.to == 0 || bytes.from == 0 {
        return Err(Error::INVALID_VALUE);
    }
    match queue {
        // SAFETY: the contract.
        None => unsafe { copy_now(driver, bytes, kind) },
        // SAFETY: the contract.
        Some(stream) => unsafe { copy_on(driver, bytes, kind, stream) },
    }
}

/// Copies bytes, and waits.
///
/// # Safety
///
/// As for `copy`.
unsafe fn copy_now(driver: &Driver, bytes: Bytes, kind: Kind) -> Outcome<()> {
    let Bytes { to, from, count } = bytes;
    let (above, below) = (to as u64, from as u64);
    match kind {
        Kind::HostToHost => {
            // Work that was queued before may write what is copied here.
            // SAFETY: zero is the legacy stream.
            unsafe { driver.cuStreamSynchronize(0) }?;
            let (to, from) = (host_mut(to), host(from));
            // SAFETY: the contract; the two may overlap.
            unsafe { ptr::copy(from.cast::<u8>(), to.cast::<u8>(), count) };
            Ok(())
        }
        // SAFETY: the contract.
        Kind::HostToDevice => unsafe { driver.cuMemcpyHtoD_v2(above, host(from), count) },
        // SAFETY: the contract.
        Kind::DeviceToHost => unsafe { driver.cuMemcpyDtoH_v2(host_mut(to), below, count) },
        // SAFETY: the driver checks both addresses.
        Kind::DeviceToDevice => unsafe { driver.cuMemcpyDtoD_v2(above, below, count) },
        // SAFETY: the contract.
        Kind::Default => unsafe { driver.cuMemcpy(above, below, count) },
    }
}

/// Queues a copy of bytes.
///
/// # Safety
///
/// As for `copy`.
unsafe fn copy_on(driver: &Driver, bytes: Bytes, kind: Kind, stream: Handle) -> Outcome<()> {
    let Bytes { to, from, count } = bytes;
    let (above, below) = (to as u64, from as u64);
    match kind {
        // SAFETY: the contract.
        Kind::HostToDevice => unsafe {
            driver.cuMemcpyHtoDAsync_v2(above, host(from), count, stream)
        },
        // SAFETY: the contract.
        Kind::DeviceToHost => unsafe {
            driver.cuMemcpyDtoHAsync_v2(host_mut(to), below, count, stream)
        },
        // SAFETY: the driver checks both addresses.
        Kind::DeviceToDevice => unsafe { driver.cuMemcpyDtoDAsync_v2(above, below, count, stream) },
        // The driver takes any host address here, and keeps the stream's order.
        // SAFETY: the contract.
        Kind::HostToHost | Kind::Default => unsafe {
            driver.cuMemcpyAsync(above, below, count, stream)
        },
    }
}

/// Returns a pointer to host memory that C passed as a number.
fn host(address: usize) -> *const c_void {
    ptr::with_exposed_provenance(address)
}

/// As `host`, to write there.
fn host_mut(address: usize) -> *mut c_void {
    ptr::with_exposed_provenance_mut(address)
}

/// Returns the byte that fills memory: C passes it as an int.
pub(crate) fn fill_byte(value: c_int) -> u8 {
    value.to_le_bytes()[0]
}

runtime! {
    /// Copies bytes, and waits.
    fn cudaMemcpy(to: usize, from: usize, count: usize, kind: c_int) {
        let kind = Kind::of(kind)?;
        // SAFETY: the contract of the function.
        unsafe { copy(enter()?, Bytes { to, from, count }, kind, None) }
    }

    /// Queues a copy of bytes.
    fn cudaMemcpyAsync(to: usize, from: usize, count: usize, kind: c_int, stream: Handle) {
        let kind = Kind::of(kind)?;
        // SAFETY: the contract of the function.
        unsafe { copy(enter()?, Bytes { to, from, count }, kind, Some(stream)) }
    }

    /// Copies bytes from one device to another, and waits.
    fn cudaMemcpyPeer(to: u64, to_device: c_int, from: u64, from_device: c_int, count: usize) {
        let driver = enter()?;
        let (above, below) = (primary(driver, to_device)?, primary(driver, from_device)?);
        if count == 0 {
            return Ok(());
        }
        // SAFETY: the contexts are retained; the driver checks the addresses.
        unsafe { driver.cuMemcpyPeer(to, above, from, below, count) }
    }

    /// Queues a copy from one device to another.
    fn cudaMemcpyPeerAsync(to: u64, to_device: c_int, from: u64, from_device: c_int, count: usize, stream: Handle) {
        let driver = enter()?;
        let (above, below) = (primary(driver, to_device)?, primary(driver, from_device)?);
        if count == 0 {
            return Ok(());
        }
        // SAFETY: the contexts are retained; the driver checks the addresses.
        unsafe { driver.cuMemcpyPeerAsync(to, above, from, below, count, stream) }
    }

    /// Fills device memory with a byte.
    fn cudaMemset(address: u64, value: c_int, count: usize) {
        let driver = enter()?;
        if count == 0 {
            return Ok(());
        }
        // SAFETY: the driver checks the range.
        unsafe { driver.cuMemsetD8_v2(address, fill_byte(value), count) }
    }

    /// Queues a fill of device memory with a byte.
    fn cudaMemsetAsync(address: u64, value: c_int, count: usize, stream: Handle) {
        let driver = enter()?;
        if count == 0 {
            return Ok(());
        }
        // SAFETY: the driver checks the range.
        unsafe { driver.cuMemsetD8Async(address, fill_byte(value), count, stream) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_outside_the_five_is_refused() {
        assert_eq!(Kind::of(4), Ok(Kind::Default));
        assert_eq!(Kind::of(5), Err(Error::INVALID_DIRECTION));
        assert_eq!(Kind::of(-1), Err(Error::INVALID_DIRECTION));
    }

    #[test]
    fn a_fill_takes_the_lowest_byte() {
        assert_eq!(fill_byte(-1), 255);
        assert_eq!(fill_byte(0x1234), 0x34);
    }
}
