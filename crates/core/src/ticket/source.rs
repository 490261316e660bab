//! How another process can open the allocation that a lease is in: found by asking the driver.
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use smallvec::SmallVec;

use crate::abi::cuda::{MemoryHandle, PoolPointer};
use crate::device::{DeviceKind, Memory};
use crate::driver::{Allocation, Driver, driver};
use crate::error::{Error, TicketError};
use crate::fork::ProcessLock;
use crate::host::{SharedFile, shared_at};
use crate::ticket::message::Grant;
use crate::view::View;

/// The ways to open memory, as they are called in messages.
pub(super) const NOTHING: u8 = 0;
pub(super) const FILE: u8 = 1;
pub(super) const HANDLE: u8 = 2;
pub(super) const POOL: u8 = 3;
pub(super) const MAPPINGS: u8 = 4;

/// The most mappings of one array: a message carries so many descriptors.
pub(super) const MOST_MAPPINGS: usize = 240;

/// A way to open memory.
#[derive(Debug)]
enum Way {
    /// There is nothing to open: the array is empty.
    Nothing,
    /// gpulend's own host memory.
    File(Arc<SharedFile>),
    /// Memory of `cuMemAlloc`: the legacy handle of the whole allocation.
    Handle(MemoryHandle),
    /// Memory of a pool of the driver's that has descriptors: the pool's, its number, and where in it.
    Pool(Arc<OwnedFd>, u64, PoolPointer),
    /// Memory that was made and mapped in separate steps: the descriptor and the size of each mapping, in their order.
    Mappings(Vec<(OwnedFd, u64)>),
}

/// An allocation that other processes can open. It lives as long as an offer or a claim of it.
#[derive(Debug)]
pub(super) struct Source {
    /// Unique in this process.
    pub(super) number: u64,
    /// The first byte, in this process.
    pub(super) base: u64,
    bytes: u64,
    /// The UUID of its device; none for host memory.
    pub(super) device: Option<[u8; 16]>,
    way: Way,
}

/// The sources in use, by address and the driver's id of the allocation.
static SOURCES: ProcessLock<Vec<(u64, u64, Weak<Source>)>> = ProcessLock::new(Vec::new());

impl Source {
    /// How the memory of a view can be opened.
    pub(super) fn of(view: &View) -> Result<Arc<Self>, Error> {
        let (low, bytes) = view.extent();
        if bytes == 0 {
            return Self::empty(view);
        }
        match view.device().kind() {
            DeviceKind::Cpu => Self::of_host(view, low),
            _ => Self::of_device(low, bytes),
        }
    }

    fn new(base: u64, bytes: u64, device: Option<[u8; 16]>, way: Way) -> Arc<Self> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        Arc::new(Self { number, base, bytes, device, way })
    }

    fn empty(view: &View) -> Result<Arc<Self>, Error> {
        let device = match view.device().kind() {
            DeviceKind::Cpu => None,
            _ => Some(driver()?.known_uuid(view.device().index())?),
        };
        Ok(Self::new(view.address(), 0, device, Way::Nothing))
    }

    fn of_host(view: &View, low: u64) -> Result<Arc<Self>, Error> {
        let Some((base, file)) = shared_at(low) else {
            let reason = match view.memory() {
                Memory::Pinned => "it is pinned by a driver",
                _ => "it is plain memory of this process",
            };
            return Err(TicketError::NotShareable { reason }.into());
        };
        // Files have no id: the list has one for each address, and forgets it with the file.
        let id = Arc::as_ptr(&file).addr() as u64;
        if let Some(known) = find(base, id) {
            return Ok(known);
        }
        Ok(keep(id, Self::new(base, file.bytes(), None, Way::File(file))))
    }

    fn of_device(low: u64, bytes: u64) -> Result<Arc<Self>, Error> {
        let driver = driver()?;
        let not = |reason| TicketError::NotShareable { reason };
        let found = driver.allocation(low)?.ok_or(not("no driver of this process knows it"))?;
        let Allocation { base, id, device, .. } = found;
        // Their address and id are those of a reservation.
        if found.pool == 0 && found.by_descriptor && !found.by_handle {
            return Self::of_mappings(driver, (low, bytes), device);
        }
        if let Some(known) = find(base, id) {
            return Ok(known);
        }
        if low.saturating_add(bytes) > base.saturating_add(found.bytes) {
            return Err(not("it spans several allocations of the driver").into());
        }
        let _entered = driver.enter(device)?;
        let _relaxed = driver.relax()?;
        let uuid = driver.known_uuid(device)?;
        if found.pool != 0 && found.by_descriptor {
            let way = of_pool(driver, found.pool, base)?;
            return Ok(keep(id, Self::new(base, found.bytes, Some(uuid), way)));
        }
        if !found.by_handle {
            let reason = match (found.managed, found.pool) {
                (true, _) => "it is managed memory",
                (false, 0) => "the driver has no handle for it",
                _ => "it is of a pool of the driver's that has no handles",
            };
            return Err(not(reason).into());
        }
        let handle = driver.handle_of(base)?;
        Ok(keep(id, Self::new(base, found.bytes, Some(uuid), Way::Handle(handle))))
    }

    /// Memory of a reservation, of which an array may span several mappings, such as torch's expandable segments.
    fn of_mappings(
        driver: &'static Driver,
        (low, bytes): (u64, u64),
        device: u8,
    ) -> Result<Arc<Self>, Error> {
        let not = |reason| TicketError::NotShareable { reason };
        let _entered = driver.enter(device)?;
        let _relaxed = driver.relax()?;
        let mut found: Vec<(u64, u64)> = Vec::new();
        // One number for all: each mapping has an id of its own.
        let mut ids = 0_u64;
        let mut next = low;
        while next < low.saturating_add(bytes) {
            let (base, size) = driver.mapping_at(next)?;
            let id = driver.buffer_id(base)?.unwrap_or(0);
            ids = ids.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(id);
            if base.saturating_add(size) <= next || found.len() == MOST_MAPPINGS {
                return Err(not("it spans too many mappings of the driver").into());
            }
            next = base + size;
            found.push((base, size));
        }
        let base = found.first().map_or(low, |(base, _)| *base);
        if let Some(known) = find(base, ids) {
            return Ok(known);
        }
        let exported = found.iter().map(|(base, size)| Ok((driver.export_mapping(*base)?, *size)));
        let parts = exported.collect::<Result<Vec<_>, Error>>()?;
        let uuid = driver.known_uuid(device)?;
        Ok(keep(ids, Self::new(base, next - base, Some(uuid), Way::Mappings(parts))))
    }

    /// What a borrower needs to open it.
    pub(super) fn grant(&self) -> Grant {
        let (way, handle) = match &self.way {
            Way::Nothing => (NOTHING, Vec::new()),
            Way::File(_) => (FILE, Vec::new()),
            Way::Handle(handle) => (HANDLE, handle.0.to_vec()),
            Way::Pool(_, pool, pointer) => (POOL, [&pointer.0[..], &pool.to_le_bytes()].concat()),
            Way::Mappings(parts) => {
                (MAPPINGS, parts.iter().flat_map(|(_, bytes)| bytes.to_le_bytes()).collect())
            }
        };
        Grant { way, bytes: self.bytes, handle, flag: None, shares: false }
    }

    /// Opens what is needed to have borrowers that may only read, if it is not yet open.
    pub(super) fn prepare_readers(&self) -> Result<(), Error> {
        match &self.way {
            Way::File(file) => file.descriptor_for_reading().map(drop),
            _ => Ok(()),
        }
    }

    /// The descriptors that a borrower needs beside.
    pub(super) fn descriptors(&self, readonly: bool) -> SmallVec<[BorrowedFd<'_>; 4]> {
        match &self.way {
            // Opened before the memory was offered: this fails never.
            Way::File(file) if readonly => file.descriptor_for_reading().into_iter().collect(),
            Way::File(file) => SmallVec::from_iter([file.descriptor().as_fd()]),
            Way::Pool(descriptor, ..) => SmallVec::from_iter([descriptor.as_fd()]),
            Way::Mappings(parts) => parts.iter().map(|(part, _)| part.as_fd()).collect(),
            Way::Nothing | Way::Handle(_) => SmallVec::new(),
        }
    }

    /// Whether the operating system keeps the memory as long as somebody has it mapped.
    pub(super) const fn is_counted_by_system(&self) -> bool {
        matches!(self.way, Way::Nothing | Way::File(_))
    }
}

/// The descriptors of the driver's pools, by their handles. Pools that programs destroy are few.
static POOLS: ProcessLock<Vec<(u64, Arc<OwnedFd>)>> =
    ProcessLock::with(Vec::new(), |all| std::mem::forget(std::mem::take(all)));

fn of_pool(driver: &Driver, pool: u64, address: u64) -> Result<Way, Error> {
    let pointer = driver.export_pointer(address)?;
    let known = POOLS.lock().iter().find(|(of, _)| *of == pool).map(|(_, known)| Arc::clone(known));
    let descriptor = match known {
        Some(known) => known,
        None => {
            // SAFETY: memory of the pool is alive, so the pool is.
            let made = Arc::new(unsafe { driver.export_pool(pool) }?);
            POOLS.lock().push((pool, Arc::clone(&made)));
            made
        }
    };
    Ok(Way::Pool(descriptor, pool, pointer))
}

fn find(base: u64, id: u64) -> Option<Arc<Source>> {
    let sources = SOURCES.lock();
    let mut known = sources.iter().filter(|(at, of, _)| (*at, *of) == (base, id));
    known.find_map(|(_, _, source)| source.upgrade())
}

/// Notes a source. If another thread was faster, both are right.
fn keep(id: u64, source: Arc<Source>) -> Arc<Source> {
    let mut sources = SOURCES.lock();
    sources.retain(|(_, _, known)| known.strong_count() > 0);
    sources.push((source.base, id, Arc::downgrade(&source)));
    drop(sources);
    source
}
