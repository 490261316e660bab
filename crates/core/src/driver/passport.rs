//! What the driver knows about an address.
#![forbid(unsafe_code)]

use crate::abi::cuda::{
    HANDLE_TYPE_FABRIC, HANDLE_TYPE_FILE_DESCRIPTOR, MEMORY_TYPE_HOST, PointerAttribute,
};
use crate::device::{Device, DeviceKind, Memory};
use crate::driver::choice::present;
use crate::driver::cuda::Driver;
use crate::driver::paths::file_at;
use crate::error::{AddressError, DeviceError, Error};

/// The name that the simulated GPU gives its memory in the kernel's list of mappings.
const SIMULATED_MEMORY: &str = "/memfd:gpulend-simulated";

/// How much the driver can know about the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Exactly one allocation.
    Allocation,
    /// A block of one of the driver's own pools.
    PoolBlock,
    /// A range of reserved addresses, of which parts may be mapped.
    Reservation,
}

/// All that the driver knows about an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passport {
    /// The first byte of what holds the address.
    pub base: u64,
    /// How many bytes that has.
    pub size: u64,
    /// Of what kind it is.
    pub memory: Memory,
    /// Whose it is: pinned memory is the host's.
    pub device: Device,
    /// The number of the device that it was allocated for.
    pub ordinal: u8,
    /// Its UUID.
    pub uuid: [u8; 16],
    /// The context in which it was allocated, if it has one.
    pub context: Option<u64>,
    /// A number that no other allocation of this process has.
    pub buffer_id: u64,
    /// The pool it comes from, if it does.
    pub pool: Option<u64>,
    /// How much of this is certain.
    pub known: Known,
    /// Whether another process could open it by CUDA's older interface.
    pub by_handle: bool,
    /// Whether it can be sent to another process as a file descriptor.
    pub by_descriptor: bool,
    /// Whether it can be sent over a fabric.
    pub by_fabric: bool,
}

impl Driver {
    /// What the driver knows about an address, in one call; nothing if it does not know it.
    ///
    /// # Errors
    ///
    /// If the driver refuses, or the address is in the simulated GPU's memory but in no allocation.
    pub fn passport(&self, address: u64) -> Result<Option<Passport>, Error> {
        let Some(mut passport) = self.locate(address)? else { return Ok(None) };
        let index = passport.ordinal;
        passport.uuid = self.uuid(i32::from(index))?;
        Ok(Some(passport))
    }

    /// As [`Driver::passport`], without the UUID, which costs as much as all the rest.
    pub(crate) fn locate(&self, address: u64) -> Result<Option<Passport>, Error> {
        const ASKED: [PointerAttribute; 10] = [
            PointerAttribute::MEMORY_TYPE,
            PointerAttribute::IS_MANAGED,
            PointerAttribute::DEVICE_ORDINAL,
            PointerAttribute::RANGE_START_ADDR,
            PointerAttribute::RANGE_SIZE,
            PointerAttribute::BUFFER_ID,
            PointerAttribute::CONTEXT,
            PointerAttribute::MEMPOOL_HANDLE,
            PointerAttribute::ALLOWED_HANDLE_TYPES,
            PointerAttribute::IS_LEGACY_CUDA_IPC_CAPABLE,
        ];
        let [kind, managed, ordinal, base, size, buffer_id, context, pool, handles, legacy] =
            self.pointer_attributes(ASKED, address)?;
        if kind == 0 {
            self.refuse_simulated(address)?;
            return Ok(None);
        }
        let memory = match (managed, kind == u64::from(MEMORY_TYPE_HOST)) {
            (0, true) => Memory::Pinned,
            (0, false) => Memory::Device,
            _ => Memory::Managed,
        };
        let index = u8::try_from(ordinal).unwrap_or(u8::MAX);
        let known = match (memory, pool, context) {
            (Memory::Device, 0, 0) => Known::Reservation,
            (_, 0, _) => Known::Allocation,
            _ => Known::PoolBlock,
        };
        Ok(Some(Passport {
            base,
            size,
            memory,
            device: if memory == Memory::Pinned {
                Device::CPU
            } else {
                Device::new(DeviceKind::Cuda, index)
            },
            uuid: [0; 16],
            ordinal: index,
            context: Some(context).filter(|context| *context != 0),
            buffer_id,
            pool: Some(pool).filter(|pool| *pool != 0),
            known,
            by_handle: legacy != 0,
            by_descriptor: handles & HANDLE_TYPE_FILE_DESCRIPTOR != 0,
            by_fabric: handles & HANDLE_TYPE_FABRIC != 0,
        }))
    }

    /// The number of the allocation that holds an address, if there is one.
    pub(crate) fn buffer_id(&self, address: u64) -> Result<Option<u64>, Error> {
        const ASKED: [PointerAttribute; 2] =
            [PointerAttribute::MEMORY_TYPE, PointerAttribute::BUFFER_ID];
        let [kind, number] = self.pointer_attributes(ASKED, address)?;
        Ok((kind != 0).then_some(number))
    }

    /// The allocation nearest to an address that is in none, in words: found by asking around it.
    pub(crate) fn nearest(&self, address: u64) -> Box<str> {
        const ASKED: [PointerAttribute; 3] = [
            PointerAttribute::MEMORY_TYPE,
            PointerAttribute::RANGE_START_ADDR,
            PointerAttribute::RANGE_SIZE,
        ];
        let around = (9..40).map(|shift| 1_u64 << shift);
        let tried = around.flat_map(|far| [address.checked_sub(far), address.checked_add(far)]);
        for candidate in tried.flatten() {
            let Ok([kind, base, size]) = self.pointer_attributes(ASKED, candidate) else {
                continue;
            };
            if kind != 0 && size != 0 {
                return format!(
                    "the nearest allocation found has {size} bytes from {base:#x} to {:#x}",
                    base.saturating_add(size)
                )
                .into();
            }
        }
        "no allocation is near".into()
    }

    /// Refuses what lies in the simulated GPU's memory and in no allocation: it is mapped, but nobody's.
    fn refuse_simulated(&self, address: u64) -> Result<(), AddressError> {
        let file = usize::try_from(address).ok().filter(|_| self.is_simulated()).and_then(file_at);
        match file {
            Some(file) if file.to_string_lossy().starts_with(SIMULATED_MEMORY) => {
                Err(AddressError::NotAllocated { address })
            }
            _ => Ok(()),
        }
    }
}

/// What the driver of this process knows about an address. No driver is chosen for it, unless a real one is here already.
///
/// ```
/// # // Only where there is a simulated GPU.
/// # if std::env::var_os("GPULEND_SIM_LIBRARY").is_none() { return Ok(()) }
/// use gpulend::driver::{Settings, passport, simulate};
/// use gpulend::{Dtype, host, pool};
///
/// simulate(&Settings::default())?;
/// let lease = pool::empty(&[100], Dtype::FLOAT32, "cuda:0".parse()?)?;
/// let address = lease.view().address();
/// let known = passport(address + 8)?.expect("the driver has allocated it");
/// assert_eq!((known.base, known.device), (address, lease.view().device()));
/// assert!(known.size >= 400 && known.buffer_id > 0);
///
/// // Memory that no driver knows is the host's, or nobody's.
/// let number = 7_u64;
/// let address = (&raw const number).expose_provenance() as u64;
/// assert!(passport(address)?.is_none() && host::mapping_of(address).is_some());
/// assert!(host::mapping_of(1 << 60).is_none());
/// # Ok::<(), gpulend::Error>(())
/// ```
///
/// # Errors
///
/// As [`Driver::passport`], or if that real driver does not start.
pub fn passport(address: u64) -> Result<Option<Passport>, Error> {
    match present() {
        Ok(Some(driver)) => driver.passport(address),
        // In a forked child the host's own memory can still be told of.
        Ok(None) | Err(Error::NoDevice(DeviceError::Forked)) => Ok(None),
        Err(error) => Err(error),
    }
}
