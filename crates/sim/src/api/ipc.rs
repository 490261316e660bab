//! Memory and events of other processes, by handles of 64 bytes.

use super::entry;
use super::pointer::Out;
use crate::machine::share::HANDLE;
use crate::status::{Outcome, Status};

/// `CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS`.
const LAZY_ENABLE_PEER_ACCESS: u32 = 1;

/// `CUipcMemHandle`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MemoryHandle([u8; HANDLE]);

entry! {
    /// Returns the handle by which other processes open device memory.
    fn cuIpcGetMemHandle(handle: Out<MemoryHandle>, address: usize) |call| {
        let context = call.context()?;
        handle.required()?;
        handle.put(MemoryHandle(call.machine()?.export_memory(&call.caller(), context, address)?))
    }
}

impl super::Call {
    fn open(self, address: Out<usize>, handle: &MemoryHandle, flags: u32) -> Outcome<()> {
        let context = self.context()?;
        address.required()?;
        // A real driver looks at this one bit.
        if flags & LAZY_ENABLE_PEER_ACCESS == 0 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        address.put(self.machine()?.open_memory(&self.caller(), context, &handle.0)?)
    }
}

entry! {
    /// Opens memory of another process.
    fn [cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2](address: Out<usize>, handle: MemoryHandle, flags: u32) |call| {
        call.open(address, &handle, flags)
    }
}

entry! {
    /// Closes memory of another process.
    fn cuIpcCloseMemHandle(address: usize) |call| {
        let context = call.context()?;
        let machine = call.machine()?;
        machine.lock().context(context)?;
        machine.close_memory(&call.caller(), address)
    }
}

/// `CUipcEventHandle`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EventHandle([u8; HANDLE]);

entry! {
    /// Returns the handle by which other processes open an event.
    fn cuIpcGetEventHandle(handle: Out<EventHandle>, event: usize) |call| {
        let machine = call.machine()?;
        handle.required()?;
        handle.put(EventHandle(machine.export_event(&call.caller(), event)?))
    }
}

entry! {
    /// Opens an event of another process.
    fn cuIpcOpenEventHandle(event: Out<usize>, handle: EventHandle) |call| {
        let context = call.context()?;
        event.required()?;
        event.put(call.machine()?.open_event(&call.caller(), context, &handle.0)?)
    }
}
