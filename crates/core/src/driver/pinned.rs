//! Pinned host memory. Callers make a device's primary context current first.

use crate::abi::cuda::{MEMORY_TYPE_HOST, PointerAttribute, Status};
use crate::driver::cuda::Driver;
use crate::error::Error;

/// `CU_MEMHOSTALLOC_PORTABLE`: pinned for every context.
const PORTABLE: u32 = 1;

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

    /// Whether the driver knows an address as pinned host memory, no matter who pinned it.
    pub(crate) fn is_pinned(&self, address: u64) -> Result<bool, Error> {
        let [kind] = self.pointer_attributes([PointerAttribute::MEMORY_TYPE], address)?;
        Ok(kind == u64::from(MEMORY_TYPE_HOST))
    }
}
