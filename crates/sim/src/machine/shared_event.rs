//! Events of several processes: two counters in shared memory.
//!
//! The first counts the records of an event, the second says which of them is complete. A wait for another process's
//! record is a wait for the second counter: a record of a process that was killed never comes, as with hardware.
#![forbid(unsafe_code)]

use std::num::NonZeroUsize;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use super::event::{Event, INTERPROCESS_FLAGS};
use super::import::{Held, open};
use super::operation::{Compare, Work};
use super::share::{EVENT, HANDLE, Handle, Process, Row};
use super::{Caller, Machine, State};
use crate::bytes::{self, Mapping, Range};
use crate::status::{Outcome, Status};

/// The size of two counters.
const COUNTERS: usize = 16;
/// The number of events in one file.
const EVENTS: usize = 1 << 16;

/// The counters of this process's events.
#[derive(Debug, Default)]
pub struct Counters {
    memory: Option<Arc<Mapping>>,
    made: usize,
    /// The offsets of destroyed events that no process had open.
    free: Vec<usize>,
}

/// The part of an event that processes share.
#[derive(Debug)]
pub struct Shared {
    /// The counter of records.
    recorded: Range,
    /// The latest complete record.
    completed: Range,
    /// Where it is in the counters of this process.
    offset: Option<usize>,
    /// Its row in the table of exports.
    row: Option<u64>,
    /// The hold of another process's row.
    _held: Option<Held>,
}

impl Shared {
    fn of_range(range: &Range, offset: Option<usize>, held: Option<Held>) -> Option<Self> {
        let (recorded, completed) = (range.part(0, 8)?, range.part(8, 8)?);
        Some(Self { recorded, completed, offset, row: None, _held: held })
    }

    /// Counts a record. Returns its number, and the work that completes it.
    #[must_use]
    pub fn record(&self) -> (u64, Work) {
        let number = bytes::count(&self.recorded);
        (number, Work::Raise { target: self.completed.clone(), value: number })
    }

    /// Returns the number of the latest record of any process, if it is not complete.
    #[must_use]
    pub fn pending(&self) -> Option<u64> {
        let latest = bytes::load(&self.recorded, true);
        (bytes::load(&self.completed, true) < latest).then_some(latest)
    }

    /// Returns whether a record is complete.
    #[must_use]
    pub fn is_complete(&self, number: u64) -> bool {
        bytes::load(&self.completed, true) >= number
    }

    /// Returns the work of waiting for a record.
    #[must_use]
    pub fn wait(&self, number: u64) -> Work {
        let (source, compare) = (self.completed.clone(), Compare::GreaterOrEqual);
        Work::Wait { source, value: number, wide: true, compare }
    }
}

impl State {
    /// Makes the counters of a new event.
    ///
    /// # Errors
    ///
    /// `OUT_OF_MEMORY`.
    pub(super) fn share_event(&mut self) -> Outcome<Shared> {
        let full = Status::ERROR_OUT_OF_MEMORY;
        let counters = &mut self.counters;
        let memory = match &counters.memory {
            Some(memory) => memory,
            None => {
                let size = NonZeroUsize::new(EVENTS * COUNTERS).ok_or(full)?;
                counters.memory.insert(Arc::new(Mapping::new(size).map_err(|_| full)?))
            }
        };
        let offset = counters.free.pop().unwrap_or_else(|| {
            counters.made += 1;
            (counters.made - 1) * COUNTERS
        });
        let range = Range::of_mapping(memory, memory.address() + offset, COUNTERS).ok_or(full)?;
        let shared = Shared::of_range(&range, Some(offset), None).ok_or(full)?;
        bytes::store(&shared.recorded, 0, true);
        bytes::store(&shared.completed, 0, true);
        Ok(shared)
    }

    /// Ends an event that processes share. Its counters stay if another process or a queued record has them.
    pub(super) fn end_shared_event(&mut self, shared: &Shared) {
        let held = shared.row.is_some_and(|row| self.memory.exports.end(row));
        if let Some(offset) = shared.offset.filter(|_| !held && shared.pending().is_none()) {
            self.counters.free.push(offset);
        }
    }
}

impl Machine {
    /// Returns the handle by which other processes open an event.
    ///
    /// # Errors
    ///
    /// `INVALID_HANDLE` if it was not made for that, or is another process's.
    pub fn export_event(&self, caller: &Caller, event: usize) -> Outcome<[u8; HANDLE]> {
        let mut state = self.lock();
        let context = state.event(caller, event)?.context;
        let device = state.device_of(context).unwrap_or(0);
        let shared = state.events.get(event).and_then(|event| event.shared.as_ref());
        let shared = shared.ok_or(Status::ERROR_INVALID_HANDLE)?;
        let (offset, row) = (shared.offset.ok_or(Status::ERROR_INVALID_HANDLE)?, shared.row);
        let system = Status::ERROR_OPERATING_SYSTEM;
        let file = state.counters.memory.as_ref().and_then(|memory| memory.file());
        let file = file.and_then(|file| u64::try_from(file.as_raw_fd()).ok()).ok_or(system)?;
        let new = Row {
            nonce: [0; 2],
            live: true,
            device: device as u64,
            file,
            offset: offset as u64,
            bytes: COUNTERS as u64,
            pool: EVENT,
        };
        let row = match row {
            Some(row) => row,
            None => state.memory.exports.add(new).ok_or(system)?,
        };
        if let Some(shared) = state.events.get_mut(event).and_then(|event| event.shared.as_mut()) {
            shared.row = Some(row);
        }
        state.memory.exports.handle(row).map(Handle::to_bytes).ok_or(system)
    }

    /// Opens an event of another process.
    ///
    /// # Errors
    ///
    /// `INVALID_CONTEXT` for an event of this process, `MAP_FAILED` for what is no handle of an event that is there.
    pub fn open_event(
        &self,
        caller: &Caller,
        context: usize,
        bytes: &[u8; HANDLE],
    ) -> Outcome<usize> {
        let mut state = self.lock();
        state.context(context)?;
        let failed = Status::ERROR_MAP_FAILED;
        let Some(handle) = Handle::of_bytes(bytes) else {
            let what = "opening what is no handle of the simulated GPU";
            return Err(state.fault(caller, failed, what, 0));
        };
        if Process::own() == Some(handle.process) {
            let what = "opening an event of the same process";
            return Err(state.fault(caller, Status::ERROR_INVALID_CONTEXT, what, 0));
        }
        let opened = match open(&handle, None, Some(EVENT)) {
            Ok(opened) => opened,
            Err(what) => return Err(state.fault(caller, failed, what, 0)),
        };
        let aligned = opened.range.address().is_multiple_of(8);
        let shared = Shared::of_range(&opened.range, None, Some(opened.held));
        let shared = shared.filter(|_| aligned).ok_or(failed)?;
        Ok(state.events.add(Event {
            context,
            flags: INTERPROCESS_FLAGS,
            record: None,
            captured: None,
            shared: Some(shared),
        }))
    }
}
