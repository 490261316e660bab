//! Memory of other processes. Callers make the device's primary context current first.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::abi::cuda::{
    HANDLE_TYPE_FILE_DESCRIPTOR, IPC_LAZY_PEER_ACCESS, MemoryHandle, PointerAttribute, PoolHandle,
    PoolPointer,
};
use crate::driver::cuda::Driver;
use crate::error::{DriverError, Error};

/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`, as functions take it.
const BY_DESCRIPTOR: u32 = 1;

/// The driver's allocation that contains an address, and how another process can open it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allocation {
    /// Its first byte.
    pub(crate) base: u64,
    /// Its size in bytes.
    pub(crate) bytes: u64,
    /// Unique to this allocation in this process.
    pub(crate) id: u64,
    /// The index of its device.
    pub(crate) device: u8,
    /// Whether it has a legacy handle.
    pub(crate) by_handle: bool,
    /// Whether a descriptor can be made of it.
    pub(crate) by_descriptor: bool,
    /// Whether it is managed memory, which moves between host and devices.
    pub(crate) managed: bool,
    /// The driver's pool that it comes from, or 0.
    pub(crate) pool: u64,
}

impl Driver {
    /// The allocation that contains an address: unlike a passport, of the driver's and not of gpulend's pool.
    pub(crate) fn allocation(&self, address: u64) -> Result<Option<Allocation>, Error> {
        const ASKED: [PointerAttribute; 9] = [
            PointerAttribute::MEMORY_TYPE,
            PointerAttribute::IS_MANAGED,
            PointerAttribute::DEVICE_ORDINAL,
            PointerAttribute::RANGE_START_ADDR,
            PointerAttribute::RANGE_SIZE,
            PointerAttribute::BUFFER_ID,
            PointerAttribute::MEMPOOL_HANDLE,
            PointerAttribute::ALLOWED_HANDLE_TYPES,
            PointerAttribute::IS_LEGACY_CUDA_IPC_CAPABLE,
        ];
        let [kind, managed, ordinal, base, bytes, id, pool, handles, legacy] =
            self.pointer_attributes(ASKED, address)?;
        Ok((kind != 0).then(|| Allocation {
            base,
            bytes,
            id,
            device: u8::try_from(ordinal).unwrap_or(u8::MAX),
            by_handle: legacy != 0,
            by_descriptor: handles & HANDLE_TYPE_FILE_DESCRIPTOR != 0,
            managed: managed != 0,
            pool,
        }))
    }

    /// The handle by which another process opens the allocation that contains an address.
    pub(crate) fn handle_of(&self, address: u64) -> Result<MemoryHandle, DriverError> {
        let mut handle = MemoryHandle([0; 64]);
        // SAFETY: one handle is written.
        unsafe { self.ipc_get(&raw mut handle, address) }?;
        Ok(handle)
    }

    /// Opens another process's allocation. Returns its first byte here.
    ///
    /// # Safety
    ///
    /// The other process keeps the allocation until [`Driver::close_handle`] is done.
    pub(crate) unsafe fn open_handle(&self, handle: MemoryHandle) -> Result<u64, DriverError> {
        let mut address = 0;
        // SAFETY: one address is written; the contract.
        unsafe { self.ipc_open(&raw mut address, handle, IPC_LAZY_PEER_ACCESS) }?;
        Ok(address)
    }

    /// Closes what [`Driver::open_handle`] opened.
    ///
    /// # Safety
    ///
    /// The address came from that function and is closed once. No work on the memory is left.
    pub(crate) unsafe fn close_handle(&self, address: u64) -> Result<(), DriverError> {
        // SAFETY: the contract.
        unsafe { self.ipc_close(address) }
    }

    /// A descriptor of one of the driver's pools, for another process.
    ///
    /// # Safety
    ///
    /// The pool is alive.
    pub(crate) unsafe fn export_pool(&self, pool: u64) -> Result<OwnedFd, Error> {
        let mut descriptor = -1;
        let pool = PoolHandle(usize::try_from(pool).unwrap_or(0));
        // SAFETY: one descriptor is written; the contract.
        unsafe { self.pool_export(&raw mut descriptor, pool, BY_DESCRIPTOR, 0) }?;
        // SAFETY: the driver has just made it for us.
        Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
    }

    /// By which another process that imported its pool finds an allocation.
    pub(crate) fn export_pointer(&self, address: u64) -> Result<PoolPointer, DriverError> {
        let mut exported = PoolPointer([0; 64]);
        // SAFETY: one struct is written.
        unsafe { self.pool_export_pointer(&raw mut exported, address) }?;
        Ok(exported)
    }

    /// Imports another process's pool.
    pub(crate) fn import_pool(&self, descriptor: &OwnedFd) -> Result<PoolHandle, Error> {
        let mut pool = PoolHandle(0);
        let shared = usize::try_from(descriptor.as_raw_fd()).unwrap_or(0);
        // SAFETY: one handle is written. The driver takes the number of a descriptor in the place of an address.
        unsafe { self.pool_import(&raw mut pool, shared, BY_DESCRIPTOR, 0) }?;
        Ok(pool)
    }

    /// Opens an allocation of an imported pool. Returns its first byte here.
    ///
    /// # Safety
    ///
    /// The pool is alive, and the other process keeps the allocation until it is freed here by [`Driver::free_segment`].
    pub(crate) unsafe fn import_pointer(
        &self,
        pool: PoolHandle,
        exported: PoolPointer,
    ) -> Result<u64, DriverError> {
        let mut address = 0;
        // SAFETY: one address is written, and the struct is read; the contract.
        unsafe { self.pool_import_pointer(&raw mut address, pool, &raw const exported) }?;
        Ok(address)
    }

    /// Forgets an imported pool.
    ///
    /// # Safety
    ///
    /// It was imported, all that was opened of it was freed, and nobody uses it afterwards.
    pub(crate) unsafe fn forget_pool(&self, pool: PoolHandle) -> Result<(), DriverError> {
        // SAFETY: the contract.
        unsafe { self.pool_destroy(pool) }
    }
}
