//! Pinned host memory. Callers make a device's primary context current first.

use crate::abi::cuda::{MEMORY_TYPE_HOST, PointerAttribute, Status, StreamHandle};
use crate::driver::cuda::Driver;
use crate::error::Error;

/// `CU_MEMHOSTALLOC_PORTABLE`: pinned for every context. `CU_MEMHOSTREGISTER_PORTABLE` is the same number.
const PORTABLE: u32 = 1;
/// `CU_MEMHOSTREGISTER_DEVICEMAP`: devices can use it too.
const FOR_DEVICES: u32 = 2;
/// `CU_STREAM_WAIT_VALUE_GEQ`: until the value, or one after it, is there; numbers go round.
const AT_LEAST: u32 = 0;

impl Driver {
    /// Allocates pinned memory that every device reaches. `None` if there is not enough.
    pub(crate) fn allocate_pinned(&self, bytes: u64) -> Result<Option<u64>, Error> {
        let Ok(bytes) = usize::try_from(bytes) else { return Ok(None) };
        let mut address = 0;
        // SAFETY: one address is written.
        let status = unsafe { (self.functions.host_allocate)(&raw mut address, bytes, PORTABLE) };
        if status == Status::OUT_OF_MEMORY {
            return Ok(None);
        }
        self.check("cuMemHostAlloc", status)?;
        Ok(Some(address as u64))
    }

    /// Frees pinned memory.
    ///
    /// # Safety
    ///
    /// 1. The address came from [`Driver::allocate_pinned`], and is freed once.
    /// 2. Nothing uses the memory any more.
    pub(crate) unsafe fn free_pinned(&self, address: u64) -> Result<(), Error> {
        let address = usize::try_from(address).unwrap_or(0);
        // SAFETY: the contract.
        Ok(unsafe { self.host_free(address) }?)
    }

    /// Pins host memory of the caller's for every device. Returns its address for devices.
    ///
    /// # Safety
    ///
    /// The pages stay mapped until [`Driver::unregister`].
    pub(crate) unsafe fn register(&self, address: u64, bytes: u64) -> Result<u64, Error> {
        let place = usize::try_from(address).unwrap_or(0);
        let bytes = usize::try_from(bytes).unwrap_or(0);
        // SAFETY: the contract.
        unsafe { self.host_register(place, bytes, PORTABLE | FOR_DEVICES) }?;
        let mut device = 0;
        // SAFETY: one address is written.
        unsafe { self.host_device_pointer(&raw mut device, place, 0) }?;
        Ok(device)
    }

    /// Ends what [`Driver::register`] began.
    ///
    /// # Safety
    ///
    /// The memory was registered so, and no work on it is left.
    pub(crate) unsafe fn unregister(&self, address: u64) -> Result<(), Error> {
        // SAFETY: the contract.
        Ok(unsafe { self.host_unregister(usize::try_from(address).unwrap_or(0)) }?)
    }

    /// Queues a wait until a number in registered memory has a value, or a later one.
    ///
    /// # Safety
    ///
    /// The stream is alive, and the memory registered until the wait is over.
    pub(crate) unsafe fn wait_for_value(
        &self,
        stream: StreamHandle,
        address: u64,
        value: u32,
    ) -> Result<(), Error> {
        // SAFETY: the contract.
        Ok(unsafe { self.stream_wait_value(stream, address, value, AT_LEAST) }?)
    }

    /// Queues the writing of a number in registered memory, after the work before it.
    ///
    /// # Safety
    ///
    /// As [`Driver::wait_for_value`].
    pub(crate) unsafe fn write_value(
        &self,
        stream: StreamHandle,
        address: u64,
        value: u32,
    ) -> Result<(), Error> {
        // SAFETY: the contract.
        Ok(unsafe { self.stream_write_value(stream, address, value, 0) }?)
    }

    /// Whether the driver knows an address as pinned host memory, no matter who pinned it.
    pub(crate) fn is_pinned(&self, address: u64) -> Result<bool, Error> {
        let [kind] = self.pointer_attributes([PointerAttribute::MEMORY_TYPE], address)?;
        Ok(kind == u64::from(MEMORY_TYPE_HOST))
    }
}
