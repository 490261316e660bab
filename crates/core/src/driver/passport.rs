//! What the driver knows about an address.
#![forbid(unsafe_code)]

use std::sync::OnceLock;

use crate::abi::cuda::{
    HANDLE_TYPE_FABRIC, HANDLE_TYPE_FILE_DESCRIPTOR, MEMORY_TYPE_HOST, PointerAttribute,
};
use crate::blocks::{self, Found};
use crate::device::{Device, DeviceKind, Memory};
use crate::driver::choice::present;
use crate::driver::cuda::Driver;
use crate::driver::paths::file_at;
use crate::error::{AddressError, DeviceError, Error};

/// The simulated GPU's memory has this name in `/proc/self/maps`.
const SIMULATED_MEMORY: &str = "/memfd:gpulend-simulated";

/// What the driver's answer refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Known {
    /// Exactly one allocation.
    Allocation,
    /// A block of gpulend's pool, or of one of the driver's own.
    PoolBlock,
    /// A range of reserved addresses, of which parts may be mapped.
    Reservation,
}

/// What the driver knows about an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Passport {
    /// The first byte of the allocation, block or reservation that contains the address.
    pub base: u64,
    /// Its size in bytes.
    pub size: u64,
    /// Its kind of memory.
    pub memory: Memory,
    /// The device it belongs to; the CPU for pinned memory.
    pub device: Device,
    /// The index of the device for which it was allocated.
    pub ordinal: u8,
    /// The UUID of that device.
    pub uuid: [u8; 16],
    /// The context in which it was allocated, if it has one.
    pub context: Option<u64>,
    /// A number unique to this allocation in this process.
    pub buffer_id: u64,
    /// The pool that it comes from, if any.
    pub pool: Option<u64>,
    /// What base and size refer to.
    pub known: Known,
    /// Whether another process can open it with legacy CUDA IPC.
    pub by_handle: bool,
    /// Whether it can be exported as a file descriptor.
    pub by_descriptor: bool,
    /// Whether it can be exported as a fabric handle.
    pub by_fabric: bool,
}

impl Driver {
    /// What the driver knows about an address. `None` if it does not know it.
    ///
    /// # Errors
    ///
    /// If the driver refuses, or the address is in the simulated GPU's memory but in no allocation.
    pub fn passport(&self, address: u64) -> Result<Option<Passport>, Error> {
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
        let [place @ .., handles, legacy] = self.pointer_attributes(ASKED, address)?;
        let Some(mut passport) = self.read(address, place)? else { return Ok(None) };
        passport.uuid = self.known_uuid(passport.ordinal)?;
        passport.by_handle = legacy != 0;
        passport.by_descriptor = handles & HANDLE_TYPE_FILE_DESCRIPTOR != 0;
        passport.by_fabric = handles & HANDLE_TYPE_FABRIC != 0;
        Ok(Some(passport))
    }

    /// The UUID of a device, which never changes, and costs as much as the rest of a passport.
    pub(crate) fn known_uuid(&self, index: u8) -> Result<[u8; 16], Error> {
        static UUIDS: [OnceLock<[u8; 16]>; 64] = [const { OnceLock::new() }; 64];
        let Some(place) = UUIDS.get(usize::from(index)) else {
            return self.uuid(i32::from(index));
        };
        match place.get() {
            Some(uuid) => Ok(*uuid),
            None => Ok(*place.get_or_init({
                let uuid = self.uuid(i32::from(index))?;
                move || uuid
            })),
        }
    }

    /// As [`Driver::passport`], without the UUID and how the memory can be shared.
    pub(crate) fn locate(&self, address: u64) -> Result<Option<Passport>, Error> {
        const ASKED: [PointerAttribute; 8] = [
            PointerAttribute::MEMORY_TYPE,
            PointerAttribute::IS_MANAGED,
            PointerAttribute::DEVICE_ORDINAL,
            PointerAttribute::RANGE_START_ADDR,
            PointerAttribute::RANGE_SIZE,
            PointerAttribute::BUFFER_ID,
            PointerAttribute::CONTEXT,
            PointerAttribute::MEMPOOL_HANDLE,
        ];
        self.read(address, self.pointer_attributes(ASKED, address)?)
    }

    /// What attributes mean that the driver gave in this order.
    fn read(&self, address: u64, attributes: [u64; 8]) -> Result<Option<Passport>, Error> {
        let [kind, managed, ordinal, base, size, buffer_id, context, pool] = attributes;
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
        let (known, base, size, buffer_id) = match (blocks::find(index, address), memory) {
            (Some(Found::Live { base, bytes, serial }), _) => {
                (Known::PoolBlock, base, bytes, blocks::buffer_id(index, serial))
            }
            (Some(Found::Free), _) => {
                let place = "gpulend's pool";
                return Err(AddressError::NotAllocated { place, address }.into());
            }
            (None, Memory::Device) if (pool, context) == (0, 0) => {
                (Known::Reservation, base, size, buffer_id)
            }
            (None, _) if pool == 0 => (Known::Allocation, base, size, buffer_id),
            (None, _) => (Known::PoolBlock, base, size, buffer_id),
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
            by_handle: false,
            by_descriptor: false,
            by_fabric: false,
        }))
    }

    /// The buffer id of the allocation that contains an address, if any.
    pub(crate) fn buffer_id(&self, address: u64) -> Result<Option<u64>, Error> {
        const ASKED: [PointerAttribute; 3] = [
            PointerAttribute::MEMORY_TYPE,
            PointerAttribute::BUFFER_ID,
            PointerAttribute::DEVICE_ORDINAL,
        ];
        let [kind, number, ordinal] = self.pointer_attributes(ASKED, address)?;
        let device = u8::try_from(ordinal).unwrap_or(u8::MAX);
        Ok(match blocks::find(device, address) {
            None => (kind != 0).then_some(number),
            Some(Found::Free) => None,
            Some(Found::Live { serial, .. }) => Some(blocks::buffer_id(device, serial)),
        })
    }

    /// Describes the allocation nearest to an address that is in none. Found by querying addresses around it.
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

    /// Refuses an address in the simulated GPU's memory but outside its allocations: it is mapped but not
    /// allocated.
    fn refuse_simulated(&self, address: u64) -> Result<(), AddressError> {
        let file = usize::try_from(address).ok().filter(|_| self.is_simulated()).and_then(file_at);
        match file {
            Some(file) if file.to_string_lossy().starts_with(SIMULATED_MEMORY) => {
                let place = "the simulated GPU's memory";
                Err(AddressError::NotAllocated { place, address })
            }
            _ => Ok(()),
        }
    }
}

/// What this process's driver knows about an address. Does not choose a driver, unless a real one is already
/// loaded.
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
/// As [`Driver::passport`], or if the loaded real driver does not start.
pub fn passport(address: u64) -> Result<Option<Passport>, Error> {
    match present() {
        Ok(Some(driver)) => driver.passport(address),
        // In a forked child, host memory can still be described.
        Ok(None) | Err(Error::NoDevice(DeviceError::Forked)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The kind of GPU memory at an address: device or managed memory; none if no driver of this process knows the address, or if
/// it is memory of the host.
///
/// # Errors
///
/// As [`passport`].
pub fn memory_at(address: u64) -> Result<Option<Memory>, Error> {
    const ASKED: [PointerAttribute; 2] =
        [PointerAttribute::MEMORY_TYPE, PointerAttribute::IS_MANAGED];
    let Some(driver) = present()? else { return Ok(None) };
    let [kind, managed] = driver.pointer_attributes(ASKED, address)?;
    Ok(match (kind, managed) {
        (0, _) => None,
        (_, 1..) => Some(Memory::Managed),
        (kind, _) => (kind != u64::from(MEMORY_TYPE_HOST)).then_some(Memory::Device),
    })
}
