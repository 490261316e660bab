//! Device memory: gpulend's own memory pool, copies, fills.
//!
//! Callers make the device's primary context current first.

use std::ffi::c_int;
use std::sync::OnceLock;

use crate::abi::cuda::{
    Access, Copy2d, DeviceAttribute, HANDLE_TYPE_FILE_DESCRIPTOR, MEMORY_TYPE_DEVICE,
    MEMORY_TYPE_HOST, POOL_RELEASE_THRESHOLD, PoolHandle, PoolProperties, Status, StreamHandle,
};
use crate::driver::context::MOST_DEVICES;
use crate::driver::cuda::Driver;
use crate::driver::mappings::{DEVICE, READ_WRITE};
use crate::error::{DeviceError, DriverError, Error};

/// The pools created so far. They are never destroyed.
pub(super) type Pools = [OnceLock<PoolHandle>; MOST_DEVICES];

/// Where one side of a copy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Memory that the CPU can access.
    Host,
    /// Memory of this device.
    Device(u8),
}

/// A copy of rows of bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    /// The address of the first source row.
    pub(crate) from: u64,
    /// Bytes from one source row to the next.
    pub(crate) from_pitch: u64,
    /// The address of the first target row.
    pub(crate) to: u64,
    /// Bytes from one target row to the next.
    pub(crate) to_pitch: u64,
    /// Bytes in each row.
    pub(crate) width: u64,
    /// The number of rows.
    pub(crate) height: u64,
}

fn narrow(number: u64) -> usize {
    // Only 64-bit platforms are supported.
    usize::try_from(number).unwrap_or(usize::MAX)
}

impl Driver {
    /// gpulend's pool on a device. It keeps freed memory. By default the driver would release it at each
    /// synchronisation, and allocating a gigabyte again takes 30 ms.
    fn pool(&self, device: u8) -> Result<PoolHandle, Error> {
        let Some(place) = self.pools.get(usize::from(device)) else {
            return Err(DeviceError::NoSuchDevice { device, count: self.count()? }.into());
        };
        if let Some(pool) = place.get() {
            return Ok(*pool);
        }
        let properties = PoolProperties {
            allocation_type: 1,
            handle_types: self.pool_handle_types(device)?,
            location_type: 1,
            location_id: c_int::from(device),
            security_attributes: 0,
            max_size: 0,
            usage: 0,
            reserved: [0; 54],
        };
        let mut pool = PoolHandle(0);
        // SAFETY: one handle is written, the properties are read.
        unsafe { self.pool_create(&raw mut pool, &raw const properties) }?;
        let all = u64::MAX;
        // SAFETY: the pool was just made; the attribute is 64 bits wide.
        unsafe { self.pool_set(pool, POOL_RELEASE_THRESHOLD, &raw const all) }?;
        self.open_to_peers(pool, device)?;
        // If two threads each created a pool, the second one is never used.
        Ok(*place.get_or_init(|| pool))
    }

    /// Lets the devices that can reach a device's memory use that of a pool. Without it copies by rows between two devices are
    /// refused.
    fn open_to_peers(&self, pool: PoolHandle, device: u8) -> Result<(), DriverError> {
        for peer in (0..self.count()?).filter(|peer| *peer != c_int::from(device)) {
            let mut can = 0;
            // SAFETY: one number is written.
            unsafe { self.can_access_peer(&raw mut can, peer, c_int::from(device)) }?;
            if can != 0 {
                let access = Access { location_type: DEVICE, location_id: peer, flags: READ_WRITE };
                // SAFETY: the pool was just made; one struct is read.
                unsafe { self.pool_set_access(pool, &raw const access, 1) }?;
            }
        }
        Ok(())
    }

    /// How other processes can open memory of a new pool: by a descriptor, where the device can have it.
    fn pool_handle_types(&self, device: u8) -> Result<c_int, Error> {
        let handle = self.device(c_int::from(device))?;
        let all = self.attribute(DeviceAttribute::MEMPOOL_SUPPORTED_HANDLE_TYPES, handle);
        // A driver that does not know the question has no such pools.
        Ok(all.unwrap_or(0) & c_int::try_from(HANDLE_TYPE_FILE_DESCRIPTOR).unwrap_or(0))
    }

    /// Allocates from gpulend's pool in stream order. `None` if there is not enough memory.
    ///
    /// # Safety
    ///
    /// The stream is alive, and not capturing.
    pub(crate) unsafe fn allocate(
        &self,
        device: u8,
        bytes: u64,
        stream: StreamHandle,
    ) -> Result<Option<u64>, Error> {
        let pool = self.pool(device)?;
        let mut address = 0;
        // SAFETY: one address is written; the contract.
        let status = unsafe {
            (self.functions.memory_allocate)(&raw mut address, narrow(bytes), pool, stream)
        };
        if status == Status::OUT_OF_MEMORY {
            return Ok(None);
        }
        self.check("cuMemAllocFromPoolAsync", status)?;
        Ok(Some(address))
    }

    /// Frees memory from [`Driver::allocate`] in stream order.
    ///
    /// # Safety
    ///
    /// The address was given by that function and is freed once; the stream is alive and not capturing.
    pub(crate) unsafe fn free(
        &self,
        address: u64,
        stream: StreamHandle,
    ) -> Result<(), DriverError> {
        // SAFETY: the contract.
        unsafe { self.memory_free(address, stream) }
    }

    /// Returns the pool's unused memory to the driver.
    pub(crate) fn trim(&self, device: u8) -> Result<(), Error> {
        let pool = self.pool(device)?;
        // SAFETY: our pools stay.
        Ok(unsafe { self.pool_trim(pool, 0) }?)
    }

    /// Allocates memory that other processes can open, in the order of no stream. `None` if there is not enough.
    pub(crate) fn allocate_segment(&self, bytes: u64) -> Result<Option<u64>, DriverError> {
        let mut address = 0;
        // SAFETY: one address is written.
        let status = unsafe { (self.functions.segment_allocate)(&raw mut address, narrow(bytes)) };
        if status == Status::OUT_OF_MEMORY {
            return Ok(None);
        }
        self.check("cuMemAlloc", status)?;
        Ok(Some(address))
    }

    /// Frees memory from [`Driver::allocate_segment`].
    ///
    /// # Safety
    ///
    /// The address was given by that function and is freed once. No work on the memory is left.
    pub(crate) unsafe fn free_segment(&self, address: u64) -> Result<(), DriverError> {
        // SAFETY: the contract.
        unsafe { self.segment_free(address) }
    }

    /// Free and total bytes of the current context's device.
    pub(crate) fn room(&self) -> Result<(u64, u64), DriverError> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: two sizes are written.
        unsafe { self.memory_info(&raw mut free, &raw mut total) }?;
        Ok((free as u64, total as u64))
    }

    /// Queues the copy of one row of bytes.
    ///
    /// # Safety
    ///
    /// 1. The stream is alive.
    /// 2. Until the copy is done, the source can be read and the target written on their sides.
    pub(crate) unsafe fn copy(
        &'static self,
        (to, target): (u64, Side),
        (from, source): (u64, Side),
        bytes: u64,
        stream: StreamHandle,
    ) -> Result<(), Error> {
        let bytes = narrow(bytes);
        let done = match (source, target) {
            // SAFETY: the contract.
            (Side::Host, Side::Device(_)) => unsafe {
                self.copy_up(to, narrow(from), bytes, stream)
            },
            // SAFETY: the contract.
            (Side::Device(_), Side::Host) => unsafe {
                self.copy_down(narrow(to), from, bytes, stream)
            },
            (Side::Device(source), Side::Device(target)) if source != target => {
                let (source, target) = (self.primary(source)?, self.primary(target)?);
                // SAFETY: the contract.
                unsafe { self.copy_peer(to, target, from, source, bytes, stream) }
            }
            // SAFETY: the contract.
            _ => unsafe { self.copy_across(to, from, bytes, stream) },
        };
        Ok(done?)
    }

    /// Queues the copy of rows of bytes.
    ///
    /// # Safety
    ///
    /// As [`Driver::copy`].
    pub(crate) unsafe fn copy_rows(
        &self,
        rows: &Rows,
        (source, target): (Side, Side),
        stream: StreamHandle,
    ) -> Result<(), DriverError> {
        let mut copy = Copy2d {
            source_pitch: narrow(rows.from_pitch),
            target_pitch: narrow(rows.to_pitch),
            width: narrow(rows.width),
            height: narrow(rows.height),
            ..Copy2d::default()
        };
        match source {
            Side::Host => {
                (copy.source_type, copy.source_host) = (MEMORY_TYPE_HOST, narrow(rows.from))
            }
            Side::Device(_) => {
                (copy.source_type, copy.source_device) = (MEMORY_TYPE_DEVICE, rows.from)
            }
        }
        match target {
            Side::Host => {
                (copy.target_type, copy.target_host) = (MEMORY_TYPE_HOST, narrow(rows.to))
            }
            Side::Device(_) => {
                (copy.target_type, copy.target_device) = (MEMORY_TYPE_DEVICE, rows.to)
            }
        }
        // SAFETY: the description is read; the contract.
        unsafe { self.copy_2d(&raw const copy, stream) }
    }

    /// Queues a fill with one value of 1, 2 or 4 bytes.
    ///
    /// # Safety
    ///
    /// The stream is alive, and until the fill is done `count` values can be written.
    pub(crate) unsafe fn fill(
        &self,
        address: u64,
        value: &[u8],
        count: u64,
        stream: StreamHandle,
    ) -> Result<(), DriverError> {
        let count = narrow(count);
        match *value {
            // SAFETY: the contract.
            [one] => unsafe { self.fill_8(address, one, count, stream) },
            [a, b] => {
                let value = u16::from_le_bytes([a, b]);
                // SAFETY: the contract.
                unsafe { self.fill_16(address, value, count, stream) }
            }
            [a, b, c, d] => {
                let value = u32::from_le_bytes([a, b, c, d]);
                // SAFETY: the contract.
                unsafe { self.fill_32(address, value, count, stream) }
            }
            _ => Ok(()),
        }
    }

    /// Queues a fill with a value of several 4-byte words, one column at a time.
    ///
    /// # Safety
    ///
    /// As [`Driver::fill`].
    pub(crate) unsafe fn fill_words(
        &self,
        address: u64,
        value: &[u8],
        count: u64,
        stream: StreamHandle,
    ) -> Result<(), DriverError> {
        for (at, word) in (address..).step_by(4).zip(value.chunks_exact(4)) {
            let word = word.try_into().map_or(0, u32::from_le_bytes);
            // SAFETY: the contract.
            unsafe { self.fill_column(at, value.len(), word, 1, narrow(count), stream) }?;
        }
        Ok(())
    }
}
