//! Memory that other processes may open: the exporter's side.
#![forbid(unsafe_code)]

use std::os::fd::{AsRawFd, OwnedFd};

use super::memory::{Allocation, Found, Kind, Life};
use super::share::{HANDLE, Handle, Passage, Process, Row, Table, nonce};
use super::virtual_memory::POSIX_FILE_DESCRIPTOR;
use super::{Caller, Machine, State};
use crate::status::{Outcome, Status};

/// The exports of this process.
#[derive(Debug, Default)]
pub struct Exports {
    table: Option<(Table, Process)>,
    made: u64,
    /// Memory that was freed here while another process has it open: its row, and how it is freed at last.
    pub(super) kept: Vec<(u64, Freed)>,
}

/// Memory that is to be freed.
#[derive(Debug)]
pub struct Freed {
    /// Its address.
    pub base: usize,
    /// The allocation.
    pub allocation: Allocation,
    /// The driver function that was called.
    pub by: &'static str,
}

impl Exports {
    /// Returns the table, which is made when it is first needed, and this process.
    fn table(&mut self) -> Option<&(Table, Process)> {
        if self.table.is_none() {
            self.table = Some((Table::new().ok()?, Process::own()?));
        }
        self.table.as_ref()
    }

    /// Adds a row and returns its number.
    pub(super) fn add(&mut self, mut row: Row) -> Option<u64> {
        row.nonce = nonce()?;
        self.table()?;
        let (table, _) = self.table.as_ref()?;
        table.write(self.made, &row).then_some(())?;
        self.made += 1;
        Some(self.made - 1)
    }

    /// Returns the handle of a row.
    #[must_use]
    pub fn handle(&self, row: u64) -> Option<Handle> {
        let (table, process) = self.table.as_ref()?;
        let nonce = table.read(row)?.nonce;
        Some(Handle { process: *process, table: table.descriptor(), row, nonce })
    }

    /// Ends a row, so that it cannot be opened any more. Returns whether a process has it open.
    pub fn end(&self, row: u64) -> bool {
        let Some((table, _)) = &self.table else { return false };
        // In this order: an importer holds the row first, and then looks whether it is live.
        if let Some(found) = table.read(row) {
            let _ = table.write(row, &Row { live: false, ..found });
        }
        table.is_held(row)
    }

    /// Takes out memory that no process has open any more.
    pub fn let_go(&mut self) -> Vec<Freed> {
        let Some((table, _)) = &self.table else { return Vec::new() };
        self.kept.extract_if(.., |(row, _)| !table.is_held(*row)).map(|(_, freed)| freed).collect()
    }
}

impl State {
    /// Returns the handle of an allocation, by which other processes open it.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE` if there is none, or if it cannot be shared in this way.
    fn export(
        &mut self,
        caller: &Caller,
        address: usize,
        fits: impl Fn(Kind) -> bool,
    ) -> Outcome<[u8; HANDLE]> {
        let invalid = Status::ERROR_INVALID_VALUE;
        let base = match self.memory.find(address) {
            Found::Allocation(base, found) if found.life == Life::Live && fits(found.kind) => base,
            _ => {
                let what = "export of what is no memory that can be shared in this way";
                return Err(self.fault(caller, invalid, what, address));
            }
        };
        let system = Status::ERROR_OPERATING_SYSTEM;
        let row = match self.memory.get(base).and_then(|found| found.export) {
            Some(row) => row,
            None => {
                let row = self.memory.row_of(base).ok_or(system)?;
                let row = self.memory.exports.add(row).ok_or(system)?;
                if let Some(allocation) = self.memory.get_mut(base) {
                    allocation.export = Some(row);
                }
                row
            }
        };
        self.memory.exports.handle(row).map(Handle::to_bytes).ok_or(system)
    }
}

impl super::memory::Memory {
    /// Returns the row of an allocation of an arena.
    fn row_of(&self, base: usize) -> Option<Row> {
        let allocation = self.get(base)?;
        let arena = self.arena(allocation.kind, allocation.device);
        let pool = if let Kind::Pool { pool } = allocation.kind { pool } else { 0 };
        Some(Row {
            nonce: [0; 2],
            live: true,
            device: allocation.device as u64,
            file: u64::try_from(arena.file()?.as_raw_fd()).ok()?,
            offset: arena.offset(base)? as u64,
            bytes: allocation.range.bytes() as u64,
            pool: pool as u64,
        })
    }
}

impl Machine {
    /// Returns the handle by which other processes open device memory of `cuMemAlloc`.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE` for all other memory.
    pub fn export_memory(
        &self,
        caller: &Caller,
        context: usize,
        address: usize,
    ) -> Outcome<[u8; HANDLE]> {
        let mut state = self.lock();
        state.context(context)?;
        state.export(caller, address, |kind| kind == Kind::Device)
    }

    /// Returns a descriptor by which other processes import a pool.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE` if it was not made for that.
    pub fn export_pool(&self, caller: &Caller, pool: usize) -> Outcome<OwnedFd> {
        let mut state = self.lock();
        state.refuse_unsafe(caller)?;
        let found = state.pool(caller, pool)?;
        if found.handle_types & POSIX_FILE_DESCRIPTOR == 0 || found.imported.is_some() {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        let device = found.device as u64;
        let system = Status::ERROR_OPERATING_SYSTEM;
        let (table, process) = state.memory.exports.table().ok_or(system)?;
        let (process, table) = (*process, table.descriptor());
        let passage = Passage { process, table, pool: pool as u64, device };
        passage.file().ok_or(system)
    }

    /// Returns the name by which importers of a pool get memory of it.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE` for memory of other pools, and all other memory.
    pub fn export_pointer(&self, caller: &Caller, address: usize) -> Outcome<[u8; HANDLE]> {
        let mut state = self.lock();
        let shares = |pool: usize| {
            state.pools.get(pool).is_some_and(|pool| pool.handle_types & POSIX_FILE_DESCRIPTOR != 0)
        };
        let kind = state.passport(address).map(|passport| passport.kind);
        match kind {
            Some(Kind::Pool { pool }) if shares(pool) => state.export(caller, address, |_| true),
            _ => Err(Status::ERROR_INVALID_VALUE),
        }
    }
}
