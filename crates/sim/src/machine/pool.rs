//! Pools: stream-ordered memory and pool attributes.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use super::arena::GRANULE;
use super::memory::{Found, Kind, Life, Released};
use super::operation::Work;
use super::share::Passage;
use super::stream::Submitted;
use super::{Caller, Machine, State};
use crate::status::{Outcome, Status};

/// A pool grows and shrinks by this many bytes.
const CHUNK: usize = 32 << 20;

/// Where the memory of a pool is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// On its device.
    Device,
    /// In host memory that all devices can access.
    Host,
    /// In managed memory.
    Managed,
}

/// A pool of memory.
#[derive(Debug)]
pub struct Pool {
    /// Its device; of one outside of devices, the first.
    pub device: usize,
    /// Where its memory is.
    pub place: Place,
    /// The release threshold: bytes that a synchronisation leaves reserved.
    pub threshold: u64,
    /// The three reuse policies. They are only stored, because freed memory stays in quarantine.
    pub reuse: [i32; 3],
    /// Bytes in allocations, and their maximum so far.
    pub used: (usize, usize),
    /// Bytes that those allocations occupy, in whole granules.
    taken: usize,
    /// Bytes reserved from the device, and their maximum so far.
    pub reserved: (usize, usize),
    /// The maximum size; zero means no limit.
    pub maximum: usize,
    /// The access of other devices.
    pub access: BTreeMap<usize, u32>,
    /// How its memory can be shared with other processes.
    pub handle_types: u32,
    /// The exporter, if it is another process's: memory is imported, and never allocated.
    pub imported: Option<Passage>,
}

impl Pool {
    /// Makes an empty pool. The maximum is rounded up to whole chunks.
    #[must_use]
    pub fn new(place: Place, device: usize, maximum: usize) -> Self {
        let maximum = maximum.checked_next_multiple_of(CHUNK).unwrap_or(usize::MAX);
        Self {
            device,
            place,
            threshold: 0,
            reuse: [1; 3],
            used: (0, 0),
            taken: 0,
            reserved: (0, 0),
            maximum,
            access: BTreeMap::from([(device, 3)]),
            handle_types: 0,
            imported: None,
        }
    }

    /// Counts an allocation. The pool reserves whole chunks if the device has enough memory.
    fn take(&mut self, bytes: usize, beyond: usize) {
        self.used.0 += bytes;
        self.used.1 = self.used.1.max(self.used.0);
        self.taken += bytes.next_multiple_of(GRANULE);
        let whole = self.taken.next_multiple_of(CHUNK).min(self.taken + beyond);
        self.reserved.0 = self.reserved.0.max(whole);
        self.reserved.1 = self.reserved.1.max(self.reserved.0);
    }

    /// Counts an allocation whose release is queued as unused.
    fn leave(&mut self, bytes: usize) {
        self.used.0 = self.used.0.saturating_sub(bytes);
    }

    /// Counts an allocation as freed.
    fn give(&mut self, bytes: usize) {
        self.taken = self.taken.saturating_sub(bytes.next_multiple_of(GRANULE));
    }

    /// Returns unused reserved memory beyond `keep`.
    pub fn trim(&mut self, keep: usize) {
        let least = self.taken.max(keep).checked_next_multiple_of(CHUNK).unwrap_or(usize::MAX);
        self.reserved.0 = self.reserved.0.min(least);
    }

    /// Returns the reserved bytes outside of allocations.
    #[must_use]
    pub fn spare(&self) -> usize {
        self.reserved.0.saturating_sub(self.taken)
    }
}

impl State {
    /// Returns the bytes of a device that pools reserve beyond their allocations.
    #[must_use]
    pub fn spare(&self, device: usize) -> usize {
        self.pools
            .iter()
            .filter(|(_, pool)| pool.device == device && pool.place == Place::Device)
            .map(|(_, pool)| pool.spare())
            .sum()
    }

    /// Returns a pool.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub fn pool(&mut self, caller: &Caller, pool: usize) -> Outcome<&mut Pool> {
        if self.pools.was(pool) {
            return Err(self.fault(
                caller,
                Status::ERROR_INVALID_VALUE,
                "use of a destroyed pool",
                pool,
            ));
        }
        self.pools.get_mut(pool).ok_or(Status::ERROR_INVALID_VALUE)
    }

    /// Trims all pools to their release thresholds, after a synchronisation.
    pub fn trim_pools(&mut self) {
        for (_, pool) in self.pools.iter_mut() {
            pool.trim(usize::try_from(pool.threshold).unwrap_or(usize::MAX));
        }
    }

    /// Counts memory of a pool as freed.
    pub fn leave_pool(&mut self, released: &Released) {
        if let Some(pool) = released.kind.pool()
            && let Some(pool) = self.pools.get_mut(pool)
        {
            if released.life == Life::Live {
                pool.leave(released.bytes);
            }
            pool.give(released.bytes);
        }
    }
}

impl Machine {
    /// Allocates from `pool`, or from the device's current one, in the order of `stream`.
    ///
    /// # Errors
    ///
    /// As `cuMemAllocFromPoolAsync`.
    pub fn allocate_ordered(
        &self,
        caller: &Caller,
        stream: usize,
        pool: Option<usize>,
        bytes: usize,
    ) -> Outcome<usize> {
        let mut state = self.lock();
        let context = state.stream(caller, stream)?.context;
        if let Some(pool) = pool {
            state.pool(caller, pool)?;
        }
        if state.is_capturing(stream) {
            return state.capture_allocation(caller, stream, bytes);
        }
        state.refuse_unsafe(caller)?;
        if bytes == 0 {
            return Ok(0);
        }
        let device = state.context(context)?.device;
        let pool = pool.unwrap_or(state.devices[device].pool);
        let found = state.pool(caller, pool)?;
        if found.imported.is_some() {
            let what = "allocation from an imported pool";
            return Err(state.fault(caller, Status::ERROR_INVALID_VALUE, what, pool));
        }
        let device = found.device;
        if found.maximum > 0 && bytes > found.maximum.saturating_sub(found.taken) {
            return Err(Status::ERROR_OUT_OF_MEMORY);
        }
        let base = match state.take_from_pool(pool, device, context, bytes) {
            Err(Status::ERROR_OUT_OF_MEMORY) => {
                // Memory whose release is queued counts as free: a real driver waits for it.
                let releases = state.releases(device);
                drop(state);
                self.finish(caller, &releases)?;
                state = self.lock();
                state.trim_pools();
                state.take_from_pool(pool, device, context, bytes)?
            }
            taken => taken?,
        };
        match state.submit(caller, stream, Work::Acquire { base }, &[base]) {
            Ok(_) => Ok(base),
            Err(status) => {
                state.end_allocation(caller, base);
                Err(status)
            }
        }
    }

    /// Frees memory in the order of `stream`.
    ///
    /// # Errors
    ///
    /// As `cuMemFreeAsync`.
    pub fn free_ordered(&self, caller: &Caller, stream: usize, address: usize) -> Outcome<()> {
        let mut state = self.lock();
        state.stream(caller, stream)?;
        if state.is_capturing(stream) {
            return state.capture_release(caller, stream, address);
        }
        state.refuse_unsafe(caller)?;
        if address == 0 {
            return Ok(());
        }
        let base = state.freeable(caller, address, Kind::is_allocated)?;
        let buffer_id = state.memory.get(base).map_or(0, |allocation| allocation.buffer_id);
        let submitted = state.submit(caller, stream, Work::Release { base, buffer_id }, &[base])?;
        debug_assert!(matches!(submitted, Submitted::Queued(_)), "captures were refused above");
        if let Some(allocation) = state.memory.get_mut(base) {
            let (kind, bytes) = (allocation.kind, allocation.range.bytes());
            // The next launch allocates it again.
            allocation.life = if kind == Kind::Graph { Life::Asleep } else { Life::Leaving };
            if let Some(pool) = kind.pool()
                && let Some(pool) = state.pools.get_mut(pool)
            {
                pool.leave(bytes);
            }
        }
        Ok(())
    }
}

impl State {
    fn take_from_pool(
        &mut self,
        pool: usize,
        device: usize,
        context: usize,
        bytes: usize,
    ) -> Outcome<usize> {
        // The pool's own spare bytes are available to it.
        let own = self.pools.get(pool).map_or(0, Pool::spare);
        let held = self.spare(device).saturating_sub(own);
        let kind = match self.pools.get(pool).map(|pool| pool.place) {
            Some(Place::Host) => Kind::HostPool { pool },
            Some(Place::Managed) => Kind::ManagedPool { pool },
            Some(Place::Device) | None => Kind::Pool { pool },
        };
        let base = self.memory.allocate(kind, device, context, bytes, held)?;
        let beyond = self.memory.limit().saturating_sub(self.memory.used(device) + held);
        if let Some(pool) = self.pools.get_mut(pool) {
            pool.take(bytes, beyond);
        }
        Ok(base)
    }

    /// Returns the queued releases of a device's memory.
    fn releases(&self, device: usize) -> Vec<u64> {
        let gives = |work: &Work| match work {
            Work::Release { base, .. } => {
                matches!(self.memory.find(*base), Found::Allocation(_, found) if found.device == device)
            }
            _ => false,
        };
        self.schedule
            .iter()
            .filter(|(_, operation)| gives(&operation.work))
            .map(|(id, _)| id)
            .collect()
    }
}
