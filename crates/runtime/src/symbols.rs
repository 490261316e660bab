//! Device variables, named by the address of their host variable.

use std::ffi::{c_int, c_void};

use crate::copies::{Bytes, Kind, Queue, copy};
use crate::error::{Error, Outcome};
use crate::registry::variable;
use crate::state::here;
use crate::wire::{Handle, Out, runtime};

/// A part of a variable.
#[derive(Clone, Copy)]
struct Part {
    symbol: *const c_void,
    offset: usize,
    count: usize,
}

impl Part {
    /// Returns its address, if it lies inside the variable.
    fn address(self) -> Outcome<usize> {
        let (address, bytes) = variable(here()?, self.symbol)?;
        let end = self.offset.checked_add(self.count).ok_or(Error::INVALID_VALUE)?;
        if end > bytes {
            return Err(Error::INVALID_VALUE);
        }
        // An address of the device is as wide as one of the host.
        let address = usize::try_from(address).map_err(|_| Error::INVALID_VALUE)?;
        address.checked_add(self.offset).ok_or(Error::INVALID_VALUE)
    }
}

/// Copies to a variable.
///
/// # Safety
///
/// A host address is valid for as many bytes, until the copy is done.
unsafe fn write(part: Part, from: usize, kind: c_int, queue: Queue) -> Outcome<()> {
    let kind = Kind::of(kind)?;
    if matches!(kind, Kind::HostToHost | Kind::DeviceToHost) {
        return Err(Error::INVALID_DIRECTION);
    }
    let bytes = Bytes { to: part.address()?, from, count: part.count };
    // SAFETY: the contract.
    unsafe { copy(here()?.driver, bytes, kind, queue) }
}

/// Copies from a variable.
///
/// # Safety
///
/// As for `write`.
unsafe fn read(part: Part, to: usize, kind: c_int, queue: Queue) -> Outcome<()> {
    let kind = Kind::of(kind)?;
    if matches!(kind, Kind::HostToHost | Kind::HostToDevice) {
        return Err(Error::INVALID_DIRECTION);
    }
    let bytes = Bytes { to, from: part.address()?, count: part.count };
    // SAFETY: the contract.
    unsafe { copy(here()?.driver, bytes, kind, queue) }
}

runtime! {
    /// Copies to a variable, and waits.
    fn cudaMemcpyToSymbol(symbol: *const c_void, from: usize, count: usize, offset: usize, kind: c_int) {
        // SAFETY: the contract of the function.
        unsafe { write(Part { symbol, offset, count }, from, kind, None) }
    }

    /// Queues a copy to a variable.
    fn cudaMemcpyToSymbolAsync(symbol: *const c_void, from: usize, count: usize, offset: usize, kind: c_int, stream: Handle) {
        // SAFETY: the contract of the function.
        unsafe { write(Part { symbol, offset, count }, from, kind, Some(stream)) }
    }

    /// Copies from a variable, and waits.
    fn cudaMemcpyFromSymbol(to: usize, symbol: *const c_void, count: usize, offset: usize, kind: c_int) {
        // SAFETY: the contract of the function.
        unsafe { read(Part { symbol, offset, count }, to, kind, None) }
    }

    /// Queues a copy from a variable.
    fn cudaMemcpyFromSymbolAsync(to: usize, symbol: *const c_void, count: usize, offset: usize, kind: c_int, stream: Handle) {
        // SAFETY: the contract of the function.
        unsafe { read(Part { symbol, offset, count }, to, kind, Some(stream)) }
    }

    /// Returns the address of a variable on the device.
    fn cudaGetSymbolAddress(address: Out<u64>, symbol: *const c_void) {
        address.required()?;
        address.put(variable(here()?, symbol)?.0)
    }

    /// Returns the size of a variable.
    fn cudaGetSymbolSize(bytes: Out<usize>, symbol: *const c_void) {
        bytes.required()?;
        bytes.put(variable(here()?, symbol)?.1)
    }
}
