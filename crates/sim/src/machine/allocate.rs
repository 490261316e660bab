//! Allocation, release, and the attributes of an address.
#![forbid(unsafe_code)]

use gpulend_common::page_size;

use super::memory::{Found, Kind, Life};
use super::operation::OperationId;
use super::virtual_memory::Access;
use super::{Caller, Machine, State};
use crate::bytes::Range;
use crate::status::{Outcome, Status};

/// The pitch alignment.
const PITCH: usize = 512;
/// Memory is mapped in pieces of this size, as `CU_POINTER_ATTRIBUTE_MAPPING_SIZE` returns.
const MAPPED: usize = 2 << 20;

/// `CU_MEMHOSTREGISTER_READ_ONLY`.
const READ_ONLY: u32 = 8;

/// The driver's attributes of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passport {
    /// The address of the first byte.
    pub base: usize,
    /// Its size in bytes.
    pub bytes: usize,
    /// The kind of memory.
    pub kind: Kind,
    /// Its device.
    pub device: usize,
    /// The context in which it was allocated.
    pub context: usize,
    /// A number unique to this allocation.
    pub buffer_id: u64,
    /// Whether synchronous copies complete before they return.
    pub sync_memops: bool,
    /// The kinds of handles by which other processes can get it, apart from legacy ones.
    pub handle_types: u32,
    /// The start and size that its attributes name: of mapped memory, those of the reservation.
    pub span: (usize, usize),
    /// What its own device may do with it: `CU_MEM_ACCESS_FLAGS_PROT_*`.
    pub access: u8,
}

impl Passport {
    /// Returns the start and size of the mapping that contains it.
    #[must_use]
    pub fn mapping(&self) -> (usize, usize) {
        let unit = if matches!(self.kind, Kind::Registered { .. }) { page_size() } else { MAPPED };
        let start = self.base - self.base % unit;
        (start, (self.base + self.bytes).next_multiple_of(unit) - start)
    }
}

impl State {
    /// Returns the attributes of an address, if it is known.
    #[must_use]
    pub fn passport(&self, address: usize) -> Option<Passport> {
        let Found::Allocation(base, found) = self.memory.find(address) else { return None };
        // The program knows no address in an array.
        if found.kind == Kind::Array {
            return None;
        }
        let (handle_types, access) = match found.kind {
            Kind::Mapped { physical, access } => (
                self.physical.get(physical).map_or(0, |physical| physical.handle_types),
                access.of(found.device),
            ),
            Kind::Pool { pool } | Kind::HostPool { pool } | Kind::ManagedPool { pool } => {
                (self.pools.get(pool).map_or(0, |pool| pool.handle_types), Access::READ_WRITE)
            }
            _ => (0, Access::READ_WRITE),
        };
        let mapped = matches!(found.kind, Kind::Mapped { .. });
        let reserved = self.reservations.range(..=base).next_back().filter(|_| mapped);
        let span = reserved.map_or((base, found.range.bytes()), |(start, bytes)| (*start, *bytes));
        (found.life == Life::Live).then_some(Passport {
            base,
            bytes: found.range.bytes(),
            kind: found.kind,
            device: found.device,
            context: found.context,
            buffer_id: found.buffer_id,
            sync_memops: found.sync_memops,
            handle_types,
            span,
            access,
        })
    }

    /// Returns the base of an allocation that can be freed by this address.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`, with a report entry that describes the address.
    pub fn freeable(
        &mut self,
        caller: &Caller,
        address: usize,
        fits: impl Fn(Kind) -> bool,
    ) -> Outcome<usize> {
        let what = match self.memory.find(address) {
            Found::Allocation(_, found) if found.life == Life::Leaving => {
                "double free: cuMemFreeAsync was called already"
            }
            Found::Allocation(_, found) if found.life == Life::Asleep => {
                "free of memory of a graph that no launch has allocated"
            }
            Found::Allocation(_, found) if !fits(found.kind) => {
                "free of memory that another function frees"
            }
            Found::Allocation(base, _) if base == address => return Ok(base),
            Found::Allocation(..) => "free of an address inside an allocation",
            Found::Nothing if self.memory.freed_by(address).is_some() => "double free",
            Found::Nothing | Found::Elsewhere => "free of an address that was never allocated",
        };
        Err(self.fault(caller, Status::ERROR_INVALID_VALUE, what, address))
    }

    /// Ends an allocation, and reports writes to its redzone.
    pub fn end_allocation(&mut self, caller: &Caller, base: usize) {
        let Some(released) = self.memory.release(base, caller.function) else { return };
        self.leave_pool(&released);
        self.advice.remove(&base);
        if matches!(released.kind, Kind::Graph | Kind::Variable) {
            self.forget_graph_memory(base);
        }
        let buffer_id = released.buffer_id;
        if released.damaged {
            let what = format!("bytes around buffer {buffer_id} were overwritten");
            self.fault(caller, Status::SUCCESS, &what, base);
        }
        if released.kept {
            let what = format!("buffer {buffer_id} is freed, and another process has it open");
            self.fault(caller, Status::SUCCESS, &what, base);
        }
    }

    /// Allocates memory outside of pools.
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
    ) -> Outcome<usize> {
        let held = self.spare(device);
        match self.memory.allocate(kind, device, context, bytes, held) {
            Err(Status::ERROR_OUT_OF_MEMORY) if held > 0 => {
                // A pool returns its unused memory before an allocation fails.
                for (_, pool) in self.pools.iter_mut() {
                    pool.trim(0);
                }
                let held = self.spare(device);
                self.memory.allocate(kind, device, context, bytes, held)
            }
            allocated => allocated,
        }
    }

    /// Returns the operations that must run before an allocation is freed. For device memory that is all work
    /// of its context, as CUDA's guide says; for host memory, the operations that use it.
    fn before_free(&self, base: usize) -> Vec<OperationId> {
        let Some(allocation) = self.memory.get(base) else { return Vec::new() };
        let mut found: Vec<OperationId> = allocation.users.iter().copied().collect();
        if allocation.kind.is_device() || allocation.kind.is_managed() {
            found.extend(self.queued_in(allocation.context));
        }
        found
    }
}

impl Machine {
    /// Allocates device or host memory.
    ///
    /// # Errors
    ///
    /// `OUT_OF_MEMORY`, or an error of a capture.
    pub fn allocate(
        &self,
        caller: &Caller,
        context: usize,
        kind: Kind,
        bytes: usize,
    ) -> Outcome<usize> {
        let mut state = self.lock();
        let device = state.context(context)?.device;
        state.refuse_unsafe(caller)?;
        if bytes == 0 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        state.allocate(kind, device, context, bytes)
    }

    /// Allocates pitched memory. Returns its address and pitch.
    ///
    /// # Errors
    ///
    /// As `cuMemAllocPitch`.
    pub fn allocate_pitched(
        &self,
        caller: &Caller,
        context: usize,
        (width, height): (usize, usize),
        element: u32,
    ) -> Outcome<(usize, usize)> {
        if width == 0 || height == 0 || ![4, 8, 16].contains(&element) {
            self.lock().context(context)?;
            return Err(Status::ERROR_INVALID_VALUE);
        }
        let pitch = width.checked_next_multiple_of(PITCH).ok_or(Status::ERROR_INVALID_VALUE)?;
        let bytes = pitch.checked_mul(height).ok_or(Status::ERROR_INVALID_VALUE)?;
        Ok((self.allocate(caller, context, Kind::Device, bytes)?, pitch))
    }

    /// Frees memory once all queued work that uses it has run.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub fn free(
        &self,
        caller: &Caller,
        address: usize,
        fits: impl Fn(Kind) -> bool,
    ) -> Outcome<()> {
        loop {
            let mut state = self.lock();
            state.refuse_unsafe(caller)?;
            if address == 0 {
                return Ok(());
            }
            let base = state.freeable(caller, address, &fits)?;
            let goals = state.before_free(base);
            if goals.is_empty() {
                if state.memory.get(base).is_some_and(|found| found.kind == Kind::Graph) {
                    state.set_life(base, Life::Asleep);
                    state.sleep(caller, base);
                } else {
                    state.end_allocation(caller, base);
                }
                return Ok(());
            }
            drop(state);
            // On a lost device there is nothing to wait for.
            let _ = self.finish(caller, &goals);
        }
    }

    /// Registers the caller's memory.
    ///
    /// # Errors
    ///
    /// As `cuMemHostRegister`.
    pub fn register(
        &self,
        caller: &Caller,
        context: usize,
        range: Range,
        flags: u32,
    ) -> Outcome<()> {
        let mut state = self.lock();
        let device = state.context(context)?.device;
        state.refuse_unsafe(caller)?;
        if range.address() == 0 || range.bytes() == 0 || flags & !0b1011 != 0 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        let end = range.address().checked_add(range.bytes());
        if end.is_none() || !range.is_mapped() {
            let what = "registering memory that is not mapped";
            return Err(state.fault(caller, Status::ERROR_INVALID_VALUE, what, range.address()));
        }
        // Device memory, freed or not, cannot be registered.
        if state.memory.is_ours(range.address(), range.bytes()) {
            let what = "registering memory that is not the caller's own";
            return Err(state.fault(caller, Status::ERROR_INVALID_VALUE, what, range.address()));
        }
        if flags & READ_ONLY == 0 && !range.may_be_written() {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        state.memory.register(range, flags & 1 | 2, device, context)
    }

    /// Unregisters memory once all queued work that uses it has run.
    ///
    /// # Errors
    ///
    /// As `cuMemHostUnregister`.
    pub fn unregister(&self, caller: &Caller, address: usize) -> Outcome<()> {
        let registered = |kind| matches!(kind, Kind::Registered { .. });
        let mut state = self.lock();
        state.refuse_unsafe(caller)?;
        if address == 0 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        if matches!(state.memory.find(address), Found::Elsewhere | Found::Nothing) {
            return Err(state.fault(
                caller,
                Status::ERROR_HOST_MEMORY_NOT_REGISTERED,
                "unregistering memory that is not registered",
                address,
            ));
        }
        drop(state);
        self.free(caller, address, registered)
    }

    /// Sets whether synchronous copies of an allocation complete before they return.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub fn set_sync_memops(&self, caller: &Caller, address: usize, on: bool) -> Outcome<()> {
        let mut state = self.lock();
        state.refuse_unsafe(caller)?;
        let base = state.passport(address).ok_or(Status::ERROR_INVALID_VALUE)?.base;
        if let Some(allocation) = state.memory.get_mut(base) {
            allocation.sync_memops = on;
        }
        Ok(())
    }

    /// Returns a device's free and total bytes.
    ///
    /// # Errors
    ///
    /// An error of the context.
    pub fn memory_info(&self, context: usize) -> Outcome<(usize, usize)> {
        let mut state = self.lock();
        let device = state.context(context)?.device;
        state.memory.settle_exports();
        let taken = state.memory.used(device) + state.spare(device);
        Ok((state.memory.limit().saturating_sub(taken), state.config.memory))
    }
}
