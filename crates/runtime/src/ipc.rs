//! Handles of memory and events for other processes.

use std::ffi::c_uint;

use crate::driver::Shared;
use crate::wire::{Handle, Out, forward};

forward! {
    /// Returns a handle of an event for other processes.
    fn cudaIpcGetEventHandle(shared: Out<Shared>, event: Handle) = cuIpcGetEventHandle(shared, event);
    /// Opens an event of another process.
    fn cudaIpcOpenEventHandle(event: Out<Handle>, shared: Shared) = cuIpcOpenEventHandle(event, shared);
    /// Returns a handle of device memory for other processes.
    fn cudaIpcGetMemHandle(shared: Out<Shared>, address: u64) = cuIpcGetMemHandle(shared, address);
    /// Opens device memory of another process.
    fn cudaIpcOpenMemHandle(address: Out<u64>, shared: Shared, flags: c_uint)
        = cuIpcOpenMemHandle_v2(address, shared, flags);
    /// Closes device memory of another process.
    fn cudaIpcCloseMemHandle(address: u64) = cuIpcCloseMemHandle(address);
}
