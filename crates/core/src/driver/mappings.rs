//! Memory that was made and mapped in separate steps, in this process and in others. Callers make the device's primary context
//! current first.

use std::ffi::c_int;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::abi::cuda::Access;
use crate::driver::cuda::Driver;
use crate::error::{DriverError, Error};

/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`.
const BY_DESCRIPTOR: u32 = 1;
/// `CU_MEM_LOCATION_TYPE_DEVICE`.
pub(super) const DEVICE: c_int = 1;
/// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`.
pub(super) const READ_WRITE: c_int = 3;

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

impl Driver {
    /// The start and the size of the mapping that contains an address.
    pub(crate) fn mapping_at(&self, address: u64) -> Result<(u64, u64), DriverError> {
        let (mut base, mut bytes) = (0, 0);
        // SAFETY: an address and a size are written.
        unsafe { self.address_range(&raw mut base, &raw mut bytes, address) }?;
        Ok((base, bytes as u64))
    }

    /// A descriptor of the memory that is mapped at an address, for another process.
    pub(crate) fn export_mapping(&self, address: u64) -> Result<OwnedFd, Error> {
        let mut handle = 0;
        // SAFETY: one handle is written.
        unsafe { self.physical_retain(&raw mut handle, size(address)) }?;
        let mut descriptor = -1;
        // SAFETY: one descriptor is written; the handle is ours.
        let exported =
            unsafe { self.physical_export(&raw mut descriptor, handle, BY_DESCRIPTOR, 0) };
        // SAFETY: it was retained above, and is released once.
        let released = unsafe { self.physical_release(handle) };
        exported?;
        // SAFETY: the driver has just made it for us.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        released?;
        Ok(descriptor)
    }

    /// Maps memory of another process side by side: each descriptor with its size. Returns the first byte.
    pub(crate) fn map_side_by_side(
        &self,
        device: u8,
        parts: &[(OwnedFd, u64)],
    ) -> Result<u64, Error> {
        let bytes = parts.iter().map(|(_, bytes)| *bytes).sum();
        let mut base = 0;
        // SAFETY: one address is written.
        unsafe { self.addresses_reserve(&raw mut base, size(bytes), 0, 0, 0) }?;
        let mut mapped = 0;
        let made = parts.iter().try_for_each(|(descriptor, bytes)| {
            self.map_one(base + mapped, *bytes, descriptor)?;
            mapped += bytes;
            Ok::<_, Error>(())
        });
        let access =
            Access { location_type: DEVICE, location_id: c_int::from(device), flags: READ_WRITE };
        let made = made.and_then(|()| {
            // SAFETY: all of the range is mapped; one struct is read.
            Ok(unsafe { self.access_set(base, size(bytes), &raw const access, 1) }?)
        });
        match made {
            Ok(()) => Ok(base),
            Err(error) => {
                // What was mapped is unmapped; nobody has seen it.
                if mapped > 0 {
                    // SAFETY: whole mappings, made above.
                    let _ = unsafe { self.physical_unmap(base, size(mapped)) };
                }
                // SAFETY: it was reserved above, and nothing is mapped there.
                let _ = unsafe { self.addresses_free(base, size(bytes)) };
                Err(error)
            }
        }
    }

    fn map_one(&self, address: u64, bytes: u64, descriptor: &OwnedFd) -> Result<(), Error> {
        let mut handle = 0;
        let shared = usize::try_from(descriptor.as_raw_fd()).unwrap_or(0);
        // SAFETY: one handle is written. The driver takes the number of a descriptor in the place of an address.
        unsafe { self.physical_import(&raw mut handle, shared, BY_DESCRIPTOR) }?;
        // SAFETY: the range is reserved and free; the driver refuses a size that is not the handle's.
        let mapped = unsafe { self.physical_map(address, size(bytes), 0, handle, 0) };
        // SAFETY: it was imported above. What is mapped keeps the memory.
        let released = unsafe { self.physical_release(handle) };
        mapped?;
        Ok(released?)
    }

    /// Ends what [`Driver::map_side_by_side`] began.
    ///
    /// # Safety
    ///
    /// The address and the size are those of such a range, which is ended once. No work on the memory is left.
    pub(crate) unsafe fn unmap(&self, address: u64, bytes: u64) -> Result<(), Error> {
        // SAFETY: the contract.
        unsafe { self.physical_unmap(address, size(bytes)) }?;
        // SAFETY: the contract; nothing is mapped there any more.
        Ok(unsafe { self.addresses_free(address, size(bytes)) }?)
    }
}
