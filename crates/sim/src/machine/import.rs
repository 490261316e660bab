//! Memory of other processes: the importer's side.
#![forbid(unsafe_code)]

use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use gpulend_common::page_size;

use super::memory::{Kind, Memory};
use super::pool::{Place, Pool};
use super::share::{HANDLE, Handle, Passage, Process, Table};
use super::virtual_memory::POSIX_FILE_DESCRIPTOR;
use super::{Caller, Machine, State};
use crate::bytes::{Mapping, Range};
use crate::status::{Outcome, Status};

/// Imported memory begins at the same distance from a multiple of this as in the exporter.
const ALIGN: usize = 2 << 20;

/// Memory that this process has opened.
#[derive(Debug)]
pub struct Import {
    /// Its name.
    pub handle: Handle,
    held: Held,
    /// How often it was opened and not closed.
    pub opened: usize,
}

/// A hold of a row. All rows of an exporter are held by one descriptor.
#[derive(Debug)]
pub(super) struct Held {
    table: Arc<Table>,
    row: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.table.let_go(self.row);
    }
}

/// What an importer finds by a handle.
#[derive(Debug)]
pub(super) struct Opened {
    pub held: Held,
    window: Arc<Mapping>,
    pub range: Range,
    device: usize,
}

/// Opens what a handle names, by a table that is open already if there is one. Returns why it cannot be opened.
pub(super) fn open(
    handle: &Handle,
    known: Option<Arc<Table>>,
    pool: Option<u64>,
) -> Result<Opened, &'static str> {
    let gone = "the process that exported it is gone";
    if !handle.process.is_there() {
        return Err(gone);
    }
    let table = known.or_else(|| handle.open_table().map(Arc::new));
    let table = table.ok_or("the handle names no export of a process of this user")?;
    if !table.hold(handle.row) {
        return Err("the exporter's memory cannot be held");
    }
    let held = Held { table: Arc::clone(&table), row: handle.row };
    // After `hold`: the exporter ends the row first, and then looks whether it is held.
    let row = table.read(handle.row).filter(|row| row.nonce == handle.nonce);
    let row = row.ok_or("the handle names no export of that process")?;
    if !row.live {
        return Err("the exporter has freed it");
    }
    if row.pool != pool.unwrap_or(0) {
        return Err("it is exported in another way, or from another pool");
    }
    let memory = handle.open_memory(row.file).ok_or(gone)?;
    let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let (offset, bytes) = (size(row.offset), size(row.bytes));
    let low = offset - offset % page_size();
    let within = "the exporter's memory cannot be mapped";
    let end = offset.checked_add(bytes).and_then(|end| end.checked_next_multiple_of(page_size()));
    let whole = NonZeroUsize::new(end.ok_or(within)? - low).ok_or(within)?;
    let window = Arc::new(Mapping::window(whole, ALIGN).map_err(|_| within)?);
    window.show(0, whole.get(), memory.as_fd(), low).map_err(|_| within)?;
    let range =
        Range::of_mapping(&window, window.address() + (offset - low), bytes).ok_or(within)?;
    Ok(Opened { held, window, range, device: size(row.device) })
}

impl Memory {
    /// Returns the table that a handle is of, if it is open.
    fn table_of(&self, handle: &Handle) -> Option<Arc<Table>> {
        let same = |import: &&Import| {
            (import.handle.process, import.handle.table) == (handle.process, handle.table)
        };
        self.imports.values().find(same).map(|import| Arc::clone(&import.held.table))
    }

    /// Returns the address of memory that is open in this process.
    fn opened(&self, handle: &Handle) -> Option<usize> {
        self.imports.iter().find(|(_, import)| import.handle == *handle).map(|(base, _)| *base)
    }
}

impl State {
    fn import(
        &mut self,
        caller: &Caller,
        context: usize,
        handle: Handle,
        pool: Option<(usize, u64)>,
    ) -> Outcome<usize> {
        let known = self.memory.table_of(&handle);
        let opened = match open(&handle, known, pool.map(|(_, number)| number)) {
            Ok(opened) if opened.device < self.devices.len() => opened,
            Ok(_) => return Err(Status::ERROR_INVALID_DEVICE),
            Err(what) => return Err(self.fault(caller, Status::ERROR_INVALID_VALUE, what, 0)),
        };
        let base = opened.range.address();
        let kind = Kind::Imported { pool: pool.map_or(0, |(pool, _)| pool) };
        self.memory.add_window(opened.window);
        self.memory.insert(base, opened.range, kind, (opened.device, context), None);
        self.memory.imports.insert(base, Import { handle, held: opened.held, opened: 1 });
        Ok(base)
    }
}

impl Machine {
    /// Opens memory of another process.
    ///
    /// # Errors
    ///
    /// `INVALID_CONTEXT` for memory of this process, and for what another context has open. `INVALID_VALUE` for what
    /// is no handle, or one of memory that is gone.
    pub fn open_memory(
        &self,
        caller: &Caller,
        context: usize,
        bytes: &[u8; HANDLE],
    ) -> Outcome<usize> {
        let mut state = self.lock();
        state.context(context)?;
        state.refuse_unsafe(caller)?;
        let Some(handle) = Handle::of_bytes(bytes) else {
            let what = "opening what is no handle of the simulated GPU";
            return Err(state.fault(caller, Status::ERROR_INVALID_VALUE, what, 0));
        };
        if Process::own() == Some(handle.process) {
            let what = "opening memory of the same process: use its address";
            return Err(state.fault(caller, Status::ERROR_INVALID_CONTEXT, what, 0));
        }
        let Some(base) = state.memory.opened(&handle) else {
            return state.import(caller, context, handle, None);
        };
        if state.memory.get(base).is_none_or(|found| found.context != context) {
            return Err(Status::ERROR_INVALID_CONTEXT);
        }
        if let Some(import) = state.memory.imports.get_mut(&base) {
            import.opened += 1;
        }
        Ok(base)
    }

    /// Closes memory of another process, after the work that uses it.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE` for an address that [`Machine::open_memory`] did not return.
    pub fn close_memory(&self, caller: &Caller, address: usize) -> Outcome<()> {
        let opened = |kind| kind == Kind::Imported { pool: 0 };
        let mut state = self.lock();
        state.refuse_unsafe(caller)?;
        let base = state.closeable(caller, address, opened)?;
        if let Some(import) = state.memory.imports.get_mut(&base).filter(|import| import.opened > 1)
        {
            import.opened -= 1;
            return Ok(());
        }
        drop(state);
        self.free(caller, address, opened)
    }
}

impl Machine {
    /// Imports a pool of another process, or one of this one, by its descriptor.
    ///
    /// # Errors
    ///
    /// `UNKNOWN` for a descriptor of anything else, as a real driver says.
    pub fn import_pool(&self, caller: &Caller, file: BorrowedFd<'_>) -> Outcome<usize> {
        let mut state = self.lock();
        state.refuse_unsafe(caller)?;
        let passage = Passage::of_file(file);
        let device = passage.and_then(|found| usize::try_from(found.device).ok());
        let device = device.filter(|device| *device < state.devices.len());
        let Some((passage, device)) = passage.zip(device) else {
            let what = "import of a descriptor that is not of a pool of these devices";
            return Err(state.fault(caller, Status::ERROR_UNKNOWN, what, 0));
        };
        let mut pool = Pool::new(Place::Device, device, 0);
        (pool.handle_types, pool.imported) = (POSIX_FILE_DESCRIPTOR, Some(passage));
        Ok(state.pools.add(pool))
    }

    /// Imports memory of an imported pool. If it is imported already, returns the same address; the first free ends
    /// both, as with a real driver.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE` for memory of another pool, and for what is no such memory.
    pub fn import_pointer(
        &self,
        caller: &Caller,
        context: usize,
        pool: usize,
        bytes: &[u8; HANDLE],
    ) -> Outcome<usize> {
        let invalid = Status::ERROR_INVALID_VALUE;
        let mut state = self.lock();
        state.context(context)?;
        state.refuse_unsafe(caller)?;
        let passage = state.pool(caller, pool)?.imported.ok_or(invalid)?;
        let handle = Handle::of_bytes(bytes)
            .filter(|handle| (handle.process, handle.table) == (passage.process, passage.table));
        let Some(handle) = handle else {
            let what = "import of what is no memory of this pool";
            return Err(state.fault(caller, invalid, what, 0));
        };
        match state.memory.opened(&handle) {
            Some(base) => Ok(base),
            None => state.import(caller, context, handle, Some((pool, passage.pool))),
        }
    }
}

impl State {
    /// As [`State::freeable`], in the words of a close.
    fn closeable(
        &mut self,
        caller: &Caller,
        address: usize,
        fits: impl Fn(Kind) -> bool,
    ) -> Outcome<usize> {
        match self.memory.get(address) {
            Some(found) if fits(found.kind) => Ok(address),
            _ => {
                let what = "close of an address that is not open";
                Err(self.fault(caller, Status::ERROR_INVALID_VALUE, what, address))
            }
        }
    }
}
