//! Allocations: what is at an address, and what was there.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::num::NonZeroUsize;
use std::sync::Arc;

use super::arena::{Arena, Block, GRANULE};
use super::export::{Exports, Freed};
use super::import::Import;
pub use super::kind::{Kind, Life};
use super::operation::OperationId;
use crate::bytes::{self, Mapping, Pattern, Range};
use crate::config::{Check, Config};
use crate::status::{Outcome, Status};

/// The fill of the redzones around an allocation.
pub const REDZONE: u8 = 0xFB;
/// The fill of freed memory.
pub const POISON: u8 = 0xDD;
/// The fill of the start of new memory.
pub const FRESH: u8 = 0xCB;

/// How much of a new allocation is filled, and of a freed one that is too large to be poisoned whole.
pub const FILLED: usize = 64 << 10;
/// A freed block up to this size is poisoned whole. The pages of a larger one are returned to the kernel.
const POISONED_WHOLE: usize = 16 << 20;
/// Pages of up to this many free bytes are kept for the next allocation.
const WARM: usize = 256 << 20;
/// The size of the quarantine in bytes.
const QUARANTINED: usize = 64 << 20;
/// Device memory of this size begins at a multiple of `LARGE_ALIGN`, as in real drivers, and programs rely on it.
const LARGE: usize = 1 << 20;
const LARGE_ALIGN: usize = 2 << 20;
/// Address space for pinned and for managed memory, and the minimum if address space is limited.
const HOST_SPACE: usize = 1 << 38;
const LEAST_HOST_SPACE: usize = 1 << 30;

/// Reserves address space: as much as wanted, or a half, a quarter and so on, down to `least`.
fn reserve(wanted: usize, least: usize) -> nix::Result<Arena> {
    let space = NonZeroUsize::new(wanted).ok_or(nix::Error::EINVAL)?;
    match Arena::new(space, WARM) {
        // Address space is limited, or a sanitizer uses most of it.
        Err(_) if wanted / 2 >= least => reserve(wanted / 2, least),
        reserved => reserved,
    }
}

/// A live allocation.
#[derive(Debug)]
pub struct Allocation {
    /// Its bytes.
    pub range: Range,
    /// Its kind.
    pub kind: Kind,
    /// Its device.
    pub device: usize,
    /// The context in which it was allocated.
    pub context: usize,
    /// A number unique to this allocation in this process.
    pub buffer_id: u64,
    /// Whether synchronous copies complete before they return.
    pub sync_memops: bool,
    /// The incomplete operations that access it.
    pub users: HashSet<OperationId>,
    /// Its state.
    pub life: Life,
    /// Its row in the table of exports, if other processes may open it.
    pub export: Option<u64>,
    block: Option<Block>,
}

/// A freed allocation.
#[derive(Debug)]
struct Dead {
    bytes: usize,
    buffer_id: u64,
    freed_by: &'static str,
}

/// What became of a freed allocation.
#[derive(Clone, Copy, Debug)]
pub struct Released {
    /// Its buffer id.
    pub buffer_id: u64,
    /// Its kind.
    pub kind: Kind,
    /// Its state before.
    pub life: Life,
    /// Its size.
    pub bytes: usize,
    /// Whether its redzones were written.
    pub damaged: bool,
    /// Whether its bytes are kept, because another process has it open.
    pub kept: bool,
}

/// The result of looking up an address.
#[derive(Debug)]
pub enum Found<'a> {
    /// In an allocation, at its base.
    Allocation(usize, &'a Allocation),
    /// In the machine's address space, but in no allocation.
    Nothing,
    /// Outside: the caller's own memory, or none.
    Elsewhere,
}

/// All allocations of the machine.
#[derive(Debug)]
pub struct Memory {
    check: Check,
    limit: usize,
    /// One for each device, then one for pinned and one for managed memory.
    arenas: Vec<Arena>,
    devices: usize,
    live: BTreeMap<usize, Allocation>,
    dead: BTreeMap<usize, Dead>,
    quarantine: VecDeque<(usize, usize, Block)>,
    quarantined: usize,
    used: Vec<usize>,
    made: u64,
    /// Other address space of the machine, by its start.
    windows: BTreeMap<usize, Arc<Mapping>>,
    /// The starts of windows that are not used any more, oldest first.
    closed: VecDeque<usize>,
    /// What other processes may open.
    pub(super) exports: Exports,
    /// What other processes own, by its address.
    pub(super) imports: BTreeMap<usize, Import>,
}

impl Memory {
    /// Reserves the address space of a machine.
    ///
    /// # Errors
    ///
    /// The kernel's error.
    pub fn new(config: &Config) -> nix::Result<Self> {
        // Freed addresses stay in quarantine, so reserve four times each device's memory if possible.
        let mut arenas = Vec::new();
        for _ in 0..config.devices {
            arenas.push(reserve(
                (config.memory * 4).max(1 << 30),
                config.memory + config.memory / 4,
            )?);
        }
        arenas.push(reserve(HOST_SPACE, LEAST_HOST_SPACE)?);
        arenas.push(reserve(HOST_SPACE, LEAST_HOST_SPACE)?);
        Ok(Self {
            check: config.check,
            limit: config.memory,
            arenas,
            devices: config.devices,
            live: BTreeMap::new(),
            dead: BTreeMap::new(),
            quarantine: VecDeque::new(),
            quarantined: 0,
            used: vec![0; config.devices],
            made: 0,
            windows: BTreeMap::new(),
            closed: VecDeque::new(),
            exports: Exports::default(),
            imports: BTreeMap::new(),
        })
    }

    /// Lowers the memory limit of the devices to `bytes`.
    pub fn set_limit(&mut self, bytes: usize) {
        self.limit = bytes;
    }

    /// Returns the allocated bytes of a device.
    #[must_use]
    pub fn used(&self, device: usize) -> usize {
        self.used[device]
    }

    /// Returns the memory limit of a device in bytes.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Allocates; `held` bytes of the device count as allocated too.
    ///
    /// # Errors
    ///
    /// `OUT_OF_MEMORY`.
    pub fn allocate(
        &mut self,
        kind: Kind,
        device: usize,
        context: usize,
        bytes: usize,
        held: usize,
    ) -> Outcome<usize> {
        self.settle_exports();
        let full = bytes.checked_next_multiple_of(GRANULE).ok_or(Status::ERROR_OUT_OF_MEMORY)?;
        if kind.is_counted() && full > self.limit.saturating_sub(self.used[device] + held) {
            return Err(Status::ERROR_OUT_OF_MEMORY);
        }
        let around = if self.check == Check::Off { 0 } else { GRANULE };
        let place = self.arena_of(kind, device);
        let wanted = full.checked_add(2 * around).ok_or(Status::ERROR_OUT_OF_MEMORY)?;
        let align = if kind == Kind::Device && bytes >= LARGE { LARGE_ALIGN } else { GRANULE };
        let block = loop {
            match self.arenas[place].take(wanted, around, align) {
                Some(block) => break block,
                // Quarantined addresses are reused, oldest first, only if there are no others.
                None if self.leave_quarantine(place) => {}
                None => return Err(Status::ERROR_OUT_OF_MEMORY),
            }
        };
        let base = self.arenas[place].address(block) + around;
        let range = self.arenas[place].range(base, bytes).ok_or(Status::ERROR_UNKNOWN)?;
        if kind.is_counted() {
            self.used[device] += full;
        }
        self.insert(base, range, kind, (device, context), Some(block));
        if self.check != Check::Off {
            self.surround(place, block, base, bytes);
            // A pool's memory is filled in stream order.
            if kind.pool().is_none() && kind != Kind::Graph {
                self.refresh(base);
            }
        }
        Ok(base)
    }

    /// Takes `space` bytes of a device's addresses, of which `bytes` count as allocated. They are no allocation: the
    /// host cannot use them.
    ///
    /// # Errors
    ///
    /// `OUT_OF_MEMORY`.
    pub fn set_aside(
        &mut self,
        device: usize,
        bytes: usize,
        space: usize,
        held: usize,
    ) -> Outcome<(Block, Range)> {
        self.count(device, bytes, held)?;
        let arena = &mut self.arenas[device];
        let Some(block) = arena.take(space, 0, GRANULE) else {
            self.uncount(device, bytes);
            return Err(Status::ERROR_OUT_OF_MEMORY);
        };
        let range = arena.range(arena.address(block), space).ok_or(Status::ERROR_UNKNOWN)?;
        Ok((block, range))
    }

    /// Counts bytes of a device as allocated.
    ///
    /// # Errors
    ///
    /// `OUT_OF_MEMORY`.
    pub fn count(&mut self, device: usize, bytes: usize, held: usize) -> Outcome<()> {
        self.settle_exports();
        if bytes > self.limit.saturating_sub(self.used[device] + held) {
            return Err(Status::ERROR_OUT_OF_MEMORY);
        }
        self.used[device] += bytes;
        Ok(())
    }

    /// Counts them as free.
    pub fn uncount(&mut self, device: usize, bytes: usize) {
        self.used[device] -= bytes;
    }

    /// Takes back what was set aside.
    pub fn take_back(&mut self, device: usize, bytes: usize, block: Block) {
        self.used[device] -= bytes;
        self.arenas[device].discard(block);
        self.arenas[device].give(block);
    }

    fn arena_of(&self, kind: Kind, device: usize) -> usize {
        match kind {
            Kind::Device | Kind::Pool { .. } | Kind::Variable | Kind::Graph | Kind::Array => device,
            // In no arena.
            Kind::Imported { .. } | Kind::Mapped { .. } => device,
            Kind::Pinned { .. } | Kind::Registered { .. } | Kind::HostPool { .. } => self.devices,
            Kind::Managed | Kind::ManagedPool { .. } => self.devices + 1,
        }
    }

    /// Returns the address space of a kind of memory.
    pub(super) fn arena(&self, kind: Kind, device: usize) -> &Arena {
        &self.arenas[self.arena_of(kind, device)]
    }

    pub(super) fn insert(
        &mut self,
        base: usize,
        range: Range,
        kind: Kind,
        (device, context): (usize, usize),
        block: Option<Block>,
    ) {
        self.made += 1;
        let allocation = Allocation {
            range,
            kind,
            device,
            context,
            buffer_id: self.made,
            sync_memops: false,
            users: HashSet::new(),
            life: Life::Live,
            export: None,
            block,
        };
        self.dead.remove(&base);
        self.live.insert(base, allocation);
    }

    /// Registers the caller's memory.
    ///
    /// # Errors
    ///
    /// `HOST_MEMORY_ALREADY_REGISTERED` if it overlaps known memory.
    pub fn register(
        &mut self,
        range: Range,
        flags: u32,
        device: usize,
        context: usize,
    ) -> Outcome<()> {
        let (start, end) = (range.address(), range.address() + range.bytes());
        let overlaps =
            self.before(end).is_some_and(|(base, other)| base + other.range.bytes() > start);
        if overlaps {
            return Err(Status::ERROR_HOST_MEMORY_ALREADY_REGISTERED);
        }
        self.insert(start, range, Kind::Registered { flags }, (device, context), None);
        Ok(())
    }

    /// Fills the redzones of an allocation.
    fn surround(&self, place: usize, block: Block, base: usize, bytes: usize) {
        for zone in self.redzones(place, block, base, bytes).into_iter().flatten() {
            bytes::fill(&zone, Pattern::Byte(REDZONE), zone.bytes(), 1, 0);
        }
    }

    fn redzones(
        &self,
        place: usize,
        block: Block,
        base: usize,
        bytes: usize,
    ) -> [Option<Range>; 2] {
        let start = self.arenas[place].address(block);
        let end = start + block.bytes;
        let arena = &self.arenas[place];
        [arena.range(start, base - start), arena.range(base + bytes, end - base - bytes)]
    }

    /// Fills the start of memory that its user has not written yet.
    pub fn refresh(&self, base: usize) {
        if self.check == Check::Off {
            return;
        }
        if let Some(allocation) = self.live.get(&base) {
            let bytes = allocation.range.bytes().min(FILLED);
            bytes::fill(&allocation.range, Pattern::Byte(FRESH), bytes, 1, 0);
        }
    }

    /// Frees an allocation. Returns what became of it.
    pub fn release(&mut self, base: usize, by: &'static str) -> Option<Released> {
        self.settle_exports();
        let allocation = self.live.remove(&base)?;
        let (buffer_id, kind, life) = (allocation.buffer_id, allocation.kind, allocation.life);
        let bytes = allocation.range.bytes();
        // The addresses of registered memory are the caller's.
        if !matches!(kind, Kind::Registered { .. }) {
            self.dead.insert(base, Dead { bytes, buffer_id, freed_by: by });
        }
        let mut released = Released { buffer_id, kind, life, bytes, damaged: false, kept: false };
        if self.imports.remove(&base).is_some() {
            self.close_window(base);
        }
        let freed = Freed { base, allocation, by };
        match freed.allocation.export {
            // The other process goes on reading the bytes.
            Some(row) if self.exports.end(row) => {
                self.exports.kept.push((row, freed));
                released.kept = true;
            }
            _ => released.damaged = self.reclaim(&freed),
        }
        Some(released)
    }

    /// Frees memory that other processes had open and have closed.
    pub fn settle_exports(&mut self) {
        if self.exports.kept.is_empty() {
            return;
        }
        for freed in self.exports.let_go() {
            self.reclaim(&freed);
        }
    }

    /// Takes the bytes of a freed allocation back. Returns whether its redzones were written.
    fn reclaim(&mut self, freed: &Freed) -> bool {
        let Freed { base, allocation, .. } = freed;
        let (base, bytes) = (*base, allocation.range.bytes());
        let place = self.arena_of(allocation.kind, allocation.device);
        if allocation.kind.is_counted() {
            self.used[allocation.device] -= bytes.next_multiple_of(GRANULE);
        }
        let Some(block) = allocation.block else { return false };
        if self.check == Check::Off {
            self.dead.remove(&base);
            self.arenas[place].give(block);
            return false;
        }
        let damaged = self
            .redzones(place, block, base, bytes)
            .into_iter()
            .flatten()
            .any(|zone| !bytes::is_filled(&zone, REDZONE));
        let poisoned = if block.bytes <= POISONED_WHOLE { bytes } else { FILLED };
        if poisoned < bytes {
            self.arenas[place].discard(block);
        }
        // Pages that were never touched are not filled: that would allocate them.
        if let Some(range) = allocation.range.part(0, poisoned) {
            bytes::fill_resident(&range, POISON);
        }
        self.quarantine.push_back((place, base, block));
        self.quarantined += block.bytes.min(POISONED_WHOLE);
        while self.quarantined > QUARANTINED {
            self.end_oldest();
        }
        damaged
    }

    fn end_oldest(&mut self) {
        if let Some((place, base, block)) = self.quarantine.pop_front() {
            self.quarantined -= block.bytes.min(POISONED_WHOLE);
            self.dead.remove(&base);
            // The pages are kept for the next allocation of this size.
            self.arenas[place].give(block);
        }
    }

    /// Releases blocks from quarantine up to the oldest one of this arena. Returns whether there was one.
    fn leave_quarantine(&mut self, place: usize) -> bool {
        while let Some(&(oldest, ..)) = self.quarantine.front() {
            self.end_oldest();
            if oldest == place {
                return true;
            }
        }
        false
    }

    /// Looks up an address.
    #[must_use]
    pub fn find(&self, address: usize) -> Found<'_> {
        if let Some((&base, allocation)) = self.live.range(..=address).next_back()
            && address - base < allocation.range.bytes()
        {
            return Found::Allocation(base, allocation);
        }
        if self.arenas.iter().any(|arena| arena.spans(address)) || self.window(address).is_some() {
            Found::Nothing
        } else {
            Found::Elsewhere
        }
    }

    /// Returns whether a range overlaps the machine's address space.
    #[must_use]
    pub fn is_ours(&self, address: usize, bytes: usize) -> bool {
        self.arenas.iter().any(|arena| arena.meets(address, bytes))
            || self.windows.values().any(|window| window.meets(address, bytes))
    }

    /// Returns an allocation by its base.
    pub fn get_mut(&mut self, base: usize) -> Option<&mut Allocation> {
        self.live.get_mut(&base)
    }

    /// Returns an allocation by its base.
    #[must_use]
    pub fn get(&self, base: usize) -> Option<&Allocation> {
        self.live.get(&base)
    }

    /// Returns the last allocation that begins before an address.
    #[must_use]
    pub fn before(&self, address: usize) -> Option<(usize, &Allocation)> {
        self.live.range(..address).next_back().map(|(base, allocation)| (*base, allocation))
    }

    /// Returns all allocations by base.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Allocation)> {
        self.live.iter().map(|(base, allocation)| (*base, allocation))
    }

    /// Returns the function that freed the memory at this address, if recently.
    #[must_use]
    pub fn freed_by(&self, address: usize) -> Option<&'static str> {
        let (base, dead) = self.dead.range(..=address).next_back()?;
        (address - base < dead.bytes.max(1)).then_some(dead.freed_by)
    }
}

mod nearest;
mod windows;

#[cfg(test)]
mod tests;
