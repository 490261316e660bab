//! Allocations of other processes that are open here: each once, counted, and closed when its last claim ends.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

use crate::abi::cuda::{MemoryHandle, PoolHandle, PoolPointer};
use crate::driver::{Driver, driver};
use crate::error::{Error, TicketError};
use crate::fork::ProcessLock;
use crate::host::{SharedFile, SharedPages};
use crate::ticket::message::Grant;
use crate::ticket::source::{FILE, HANDLE, MAPPINGS as WAY_MAPPINGS, NOTHING, POOL};

/// Which allocation: its lender, its number there, and whether it is mapped to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) lender: [u8; 16],
    pub(super) allocation: u64,
    pub(super) writable: bool,
}

/// How an allocation is open.
#[derive(Debug)]
enum Mapped {
    Nothing,
    File(SharedPages),
    /// By a legacy handle on a device; its address here.
    Handle(u8, u64),
    /// Memory of a pool that was imported: its device, the pool, its address here.
    Pool(u8, PoolKey, u64),
    /// Mappings side by side: their device, the first byte here, and how many there are.
    Mappings(u8, u64, u64),
}

/// Which pool: its lender, and its number there.
type PoolKey = ([u8; 16], u64);

/// The imported pools, and how many allocations of each are open.
static POOLS: ProcessLock<Vec<(PoolKey, PoolHandle, usize)>> =
    ProcessLock::with(Vec::new(), Vec::clear);

impl Mapped {
    fn address(&self) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::File(pages) => pages.address(),
            Self::Handle(_, address)
            | Self::Pool(_, _, address)
            | Self::Mappings(_, address, _) => *address,
        }
    }

    /// Closes it. No work on the memory is left.
    fn close(self) {
        let (device, address) = match self {
            Self::Nothing | Self::File(_) => return,
            Self::Handle(device, address)
            | Self::Pool(device, _, address)
            | Self::Mappings(device, address, _) => (device, address),
        };
        let close = || {
            let driver = driver()?;
            let _entered = driver.enter(device)?;
            let _relaxed = driver.relax()?;
            if let Self::Pool(_, key, _) = self {
                // SAFETY: it came from `import_pointer`, and leaves the list of mappings once. Claims end after their work.
                unsafe { driver.free_segment(address) }?;
                return leave_pool(driver, key);
            }
            if let Self::Mappings(_, _, bytes) = self {
                // SAFETY: it came from `map_side_by_side`, and leaves the list of mappings once. Claims end after their work.
                return unsafe { driver.unmap(address, bytes) };
            }
            // SAFETY: it came from `open_handle`, and leaves the list of mappings once. Claims end after their work.
            Ok::<_, Error>(unsafe { driver.close_handle(address) }?)
        };
        // If the driver fails here, the device is lost, and the mapping with it.
        let _ = close();
    }
}

/// Opens an allocation of a pool, which is imported with the first.
fn open_in_pool(
    driver: &Driver,
    key: PoolKey,
    pointer: PoolPointer,
    descriptor: &OwnedFd,
) -> Result<u64, Error> {
    // The caller is the only thread that opens allocations of this lender; others may close some.
    let known = POOLS.lock().iter_mut().find(|(of, ..)| *of == key).map(|(_, pool, open)| {
        *open += 1;
        *pool
    });
    let pool = match known {
        Some(pool) => pool,
        None => {
            let pool = driver.import_pool(descriptor)?;
            POOLS.lock().push((key, pool, 1));
            pool
        }
    };
    // SAFETY: the pool was imported and is counted; the lender keeps the allocation as long as the claim, which ends after it.
    let opened = unsafe { driver.import_pointer(pool, pointer) };
    opened.map_err(|error| {
        let _ = leave_pool(driver, key);
        error.into()
    })
}

/// Ends what [`open_in_pool`] counted.
fn leave_pool(driver: &Driver, key: PoolKey) -> Result<(), Error> {
    let mut pools = POOLS.lock();
    let Some(index) = pools.iter().position(|(of, ..)| *of == key) else { return Ok(()) };
    pools[index].2 -= 1;
    if pools[index].2 > 0 {
        return Ok(());
    }
    let (_, pool, _) = pools.swap_remove(index);
    drop(pools);
    // SAFETY: it was imported, and nothing of it is open.
    Ok(unsafe { driver.forget_pool(pool) }?)
}

struct Entry {
    /// None while it is being closed.
    mapped: Option<Mapped>,
    bytes: u64,
    claims: usize,
}

/// All mappings. In a forked child those of a driver are not there, and those of files are never unmapped.
static MAPPINGS: ProcessLock<Option<HashMap<Key, Entry>>> = ProcessLock::with(None, |all| {
    std::mem::forget(all.take());
});

/// How long to wait for an allocation that another thread is closing.
const PAUSE: Duration = Duration::from_micros(50);

/// Where an allocation is here, and how many bytes it has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opened {
    pub(super) base: u64,
    pub(super) bytes: u64,
}

/// Counts one more claim of an allocation that is open. `None` if it is not.
pub(super) fn enter(key: Key, deadline: Instant) -> Option<Opened> {
    loop {
        {
            let mut all = MAPPINGS.lock();
            let entry = all.as_mut()?.get_mut(&key)?;
            if let Some(mapped) = &entry.mapped {
                entry.claims += 1;
                return Some(Opened { base: mapped.address(), bytes: entry.bytes });
            }
        }
        if Instant::now() >= deadline {
            return None;
        }
        thread::sleep(PAUSE);
    }
}

/// Opens an allocation, for one claim. The caller is the only thread that opens allocations of this lender.
pub(super) fn open(
    key: Key,
    device: Option<u8>,
    grant: &Grant,
    descriptors: Vec<OwnedFd>,
) -> Result<Opened, Error> {
    let mapped = map(key, device, grant, descriptors)?;
    let opened = Opened { base: mapped.address(), bytes: grant.bytes };
    let entry = Entry { mapped: Some(mapped), bytes: grant.bytes, claims: 1 };
    MAPPINGS.lock().get_or_insert_default().insert(key, entry);
    Ok(opened)
}

/// Whether a grant says all that is needed to open an allocation.
pub(super) const fn needs_no_descriptor(grant: &Grant) -> bool {
    matches!(grant.way, NOTHING | HANDLE)
}

fn map(
    key: Key,
    device: Option<u8>,
    grant: &Grant,
    descriptors: Vec<OwnedFd>,
) -> Result<Mapped, Error> {
    let odd = |problem: &str| TicketError::LenderGone { problem: problem.into() };
    match (grant.way, device) {
        (NOTHING, _) => Ok(Mapped::Nothing),
        (FILE, None) => {
            let file = descriptors.into_iter().next().ok_or(odd("it sent no file"))?;
            Ok(Mapped::File(SharedFile::received(file, grant.bytes)?.map(key.writable)?))
        }
        (HANDLE, Some(device)) => {
            let handle = grant.handle.as_slice().try_into();
            let handle = MemoryHandle(handle.map_err(|_| odd("its handle has an odd size"))?);
            let driver = driver()?;
            let _entered = driver.enter(device)?;
            let _relaxed = driver.relax()?;
            // SAFETY: the lender keeps the allocation as long as the claim, which ends after the mapping.
            Ok(Mapped::Handle(device, unsafe { driver.open_handle(handle) }?))
        }
        (POOL, Some(device)) => {
            let file = descriptors.into_iter().next().ok_or(odd("it sent no pool"))?;
            let (pointer, number) = grant.handle.split_at_checked(64).unwrap_or_default();
            let (pointer, number) = (pointer.try_into(), number.try_into());
            let (Ok(pointer), Ok(number)) = (pointer, number) else {
                return Err(odd("its handle has an odd size").into());
            };
            let pool = (key.lender, u64::from_le_bytes(number));
            let driver = driver()?;
            let _entered = driver.enter(device)?;
            let _relaxed = driver.relax()?;
            let address = open_in_pool(driver, pool, PoolPointer(pointer), &file)?;
            Ok(Mapped::Pool(device, pool, address))
        }
        (WAY_MAPPINGS, Some(device)) => {
            let sizes =
                grant.handle.as_chunks::<8>().0.iter().map(|size| u64::from_le_bytes(*size));
            let parts: Vec<_> = descriptors.into_iter().zip(sizes).collect();
            let bytes = parts.iter().fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
            if bytes != grant.bytes || parts.len() * 8 != grant.handle.len() {
                return Err(odd("its mappings do not make up its memory").into());
            }
            let driver = driver()?;
            let _entered = driver.enter(device)?;
            let _relaxed = driver.relax()?;
            Ok(Mapped::Mappings(device, driver.map_side_by_side(device, &parts)?, bytes))
        }
        _ => Err(odd("it offers a way to open memory that is unknown here").into()),
    }
}

/// Ends what [`enter`] or [`open`] counted. The last one closes the allocation: the caller may call the driver.
pub(super) fn leave(key: Key) {
    let last = {
        let mut all = MAPPINGS.lock();
        let Some(entry) = all.as_mut().and_then(|all| all.get_mut(&key)) else { return };
        entry.claims -= 1;
        if entry.claims > 0 {
            return;
        }
        entry.mapped.take()
    };
    // Without the lock: others that want it meanwhile wait, and then open it anew.
    if let Some(mapped) = last {
        mapped.close();
    }
    let gone = MAPPINGS.lock().as_mut().and_then(|all| all.remove(&key));
    drop(gone);
}
