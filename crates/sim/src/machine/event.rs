//! Events: points in streams.
#![forbid(unsafe_code)]

use std::time::Duration;

use super::operation::{OperationId, Work};
use super::shared_event::Shared;
use super::stream::Role;
use super::{Caller, Machine, State};
use crate::status::{Outcome, Status};

/// `CU_EVENT_DISABLE_TIMING`.
const DISABLE_TIMING: u32 = 2;
/// `CU_EVENT_INTERPROCESS`.
const INTERPROCESS: u32 = 4;
/// The flags of an event of another process.
pub const INTERPROCESS_FLAGS: u32 = DISABLE_TIMING | INTERPROCESS;
/// `CU_EVENT_RECORD_EXTERNAL` and `CU_EVENT_WAIT_EXTERNAL`.
const EXTERNAL: u32 = 1;

/// An event.
#[derive(Debug)]
pub struct Event {
    /// Its context.
    pub context: usize,
    /// As given to `cuEventCreate`.
    pub flags: u32,
    /// The latest record.
    pub record: Option<Record>,
    /// The capture in which it was last recorded, and the nodes that it refers to.
    pub captured: Option<(u64, Vec<usize>)>,
    /// What other processes see of it, if they may open it.
    pub shared: Option<Shared>,
}

impl Event {
    /// Returns the number of the latest record if it is another process's, and not complete.
    fn foreign(&self) -> Option<u64> {
        let own = self.record.map_or(0, |record| record.number);
        self.shared.as_ref().and_then(Shared::pending).filter(|latest| *latest != own)
    }
}

/// A record of an event.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// The operation whose completion completes the event.
    pub operation: OperationId,
    /// The time of completion.
    pub at: Option<Duration>,
    /// Its number among the records of all processes; zero if no other process may open the event.
    pub number: u64,
}

impl State {
    /// Returns an event.
    ///
    /// # Errors
    ///
    /// `INVALID_HANDLE`, or an error of its context.
    pub fn event(&mut self, caller: &Caller, handle: usize) -> Outcome<&mut Event> {
        let Some(context) = self.events.get(handle).map(|event| event.context) else {
            return Err(if self.events.was(handle) {
                self.fault(caller, Status::ERROR_INVALID_HANDLE, "use of a destroyed event", handle)
            } else {
                Status::ERROR_INVALID_HANDLE
            });
        };
        self.context(context)?;
        self.events.get_mut(handle).ok_or(Status::ERROR_INVALID_HANDLE)
    }

    /// Returns the number of a new record, and its work.
    pub(super) fn new_record(&self, handle: usize) -> (u64, Work) {
        let shared = self.events.get(handle).and_then(|event| event.shared.as_ref());
        shared.map_or((0, Work::Mark), Shared::record)
    }

    /// Returns the work of waiting for another process's record of an event, if that is not complete.
    pub(super) fn foreign_wait(&self, handle: usize) -> Option<Work> {
        let event = self.events.get(handle)?;
        Some(event.shared.as_ref()?.wait(event.foreign()?))
    }

    /// Stores that `operation` now records the event.
    pub fn set_record(&mut self, handle: usize, operation: OperationId, number: u64) {
        if let Some(event) = self.events.get_mut(handle) {
            event.record = Some(Record { operation, at: None, number });
            event.captured = None;
        }
    }

    /// Stores that a record is complete, unless the event has a newer one.
    pub fn complete_record(&mut self, handle: usize, operation: OperationId, now: Duration) {
        if let Some(record) = self.events.get_mut(handle).and_then(|event| event.record.as_mut())
            && record.operation == operation
        {
            record.at = Some(now);
        }
    }
}

impl Machine {
    /// Creates an event.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE` for unknown flags.
    pub fn create_event(&self, context: usize, flags: u32) -> Outcome<usize> {
        let interprocess = flags & INTERPROCESS != 0;
        if flags > 7 || (interprocess && flags & DISABLE_TIMING == 0) {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        let mut state = self.lock();
        state.context(context)?;
        let shared = if interprocess { Some(state.share_event()?) } else { None };
        Ok(state.events.add(Event { context, flags, record: None, captured: None, shared }))
    }

    /// Destroys an event. A queued record stays in its stream's order.
    ///
    /// # Errors
    ///
    /// `INVALID_HANDLE`.
    pub fn destroy_event(&self, caller: &Caller, handle: usize) -> Outcome<()> {
        let mut state = self.lock();
        state.event(caller, handle)?;
        if let Some(shared) = state.events.remove(handle).and_then(|event| event.shared) {
            state.end_shared_event(&shared);
        }
        Ok(())
    }

    /// Records an event in a stream.
    ///
    /// # Errors
    ///
    /// As `cuEventRecordWithFlags`.
    pub fn record_event(
        &self,
        caller: &Caller,
        handle: usize,
        stream: usize,
        flags: u32,
    ) -> Outcome<()> {
        if flags & !EXTERNAL != 0 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        let mut state = self.lock();
        let context = state.event(caller, handle)?.context;
        if state.stream(caller, stream)?.context != context {
            return Err(Status::ERROR_INVALID_HANDLE);
        }
        state.refuse_legacy(stream)?;
        if state.is_capturing(stream) {
            return state.capture_record(stream, handle, flags == EXTERNAL);
        }
        if flags == EXTERNAL {
            return Err(Status::ERROR_ILLEGAL_STATE);
        }
        let (number, work) = state.new_record(handle);
        let operation = if caller.passive {
            // A record by a passive thread must not affect the order of other work.
            let after = state.order(stream, &[]);
            let operation = state.queue_after(context, work, &[], Some(handle), &after);
            state.schedule.observe(operation);
            operation
        } else {
            state.queue(stream, work, &[], Some(handle), &[])
        };
        state.set_record(handle, operation, number);
        Ok(())
    }

    /// Makes a stream wait for an event.
    ///
    /// # Errors
    ///
    /// As `cuStreamWaitEvent`.
    pub fn wait_event(
        &self,
        caller: &Caller,
        stream: usize,
        handle: usize,
        flags: u32,
    ) -> Outcome<()> {
        if flags & !EXTERNAL != 0 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        let mut state = self.lock();
        state.stream(caller, stream)?;
        let event = state.event(caller, handle)?;
        let (captured, record) = (event.captured.clone(), event.record);
        if state.is_capturing(stream) || captured.is_some() {
            return state.capture_wait(stream, handle, captured, flags == EXTERNAL);
        }
        if flags == EXTERNAL {
            return Err(Status::ERROR_ILLEGAL_STATE);
        }
        state.refuse_legacy(stream)?;
        if let Some(work) = state.foreign_wait(handle) {
            state.queue(stream, work, &[], None, &[]);
            return Ok(());
        }
        // An event that was never recorded is complete. A wait of the legacy stream is a barrier anyway.
        let pending = record.filter(|record| !state.schedule.is_complete(record.operation));
        let is_legacy = state.stream(caller, stream)?.role == Role::Legacy;
        if pending.is_some() || is_legacy {
            let after: Vec<OperationId> = pending.iter().map(|record| record.operation).collect();
            let barrier = state.queue(stream, Work::Mark, &[], None, &after);
            if state.schedule.is_ready(barrier) {
                // Nothing is before it, so nobody may find the stream busy.
                state.complete(caller, barrier);
            }
        }
        Ok(())
    }

    /// Returns whether an event is complete, after one step of the machine.
    ///
    /// # Errors
    ///
    /// As `cuEventQuery`, except `NOT_READY`.
    pub fn query_event(&self, caller: &Caller, handle: usize) -> Outcome<bool> {
        let mut state = self.lock();
        state.event(caller, handle)?;
        state.refuse_captured_event(handle, true)?;
        state.refuse_unsafe(caller)?;
        drop(state);
        self.step(caller);
        let mut state = self.lock();
        let (record, context) =
            state.event(caller, handle).map(|found| (found.record, found.context))?;
        state.report_failure(caller, context)?;
        if state.foreign_wait(handle).is_some() {
            return Ok(false);
        }
        Ok(record.is_none_or(|record| state.schedule.is_complete(record.operation)))
    }

    /// Waits until an event is complete.
    ///
    /// # Errors
    ///
    /// As `cuEventSynchronize`.
    pub fn synchronize_event(&self, caller: &Caller, handle: usize) -> Outcome<()> {
        let mut state = self.lock();
        state.event(caller, handle)?;
        state.refuse_captured_event(handle, true)?;
        state.refuse_unsafe(caller)?;
        let (record, context) =
            state.event(caller, handle).map(|found| (found.record, found.context))?;
        let foreign = state.events.get(handle).and_then(Event::foreign);
        drop(state);
        if let Some(number) = foreign {
            self.wait_for_process(caller, handle, number)?;
        } else if let Some(record) = record {
            self.finish(caller, &[record.operation])?;
            self.lock().trim_pools();
        }
        self.lock().report_failure(caller, context)
    }

    /// Waits until another process's record is complete.
    fn wait_for_process(&self, caller: &Caller, handle: usize, number: u64) -> Outcome<()> {
        let mut state = self.lock();
        loop {
            let shared = state.event(caller, handle)?.shared.as_ref();
            if shared.is_none_or(|shared| shared.is_complete(number)) {
                return Ok(());
            }
            state = self.sleep(state);
        }
    }

    /// Records an event after all work of a context.
    ///
    /// # Errors
    ///
    /// As `cuCtxRecordEvent`.
    pub fn record_context(&self, caller: &Caller, context: usize, handle: usize) -> Outcome<()> {
        let mut state = self.lock();
        state.context(context)?;
        if state.event(caller, handle)?.context != context {
            return Err(Status::ERROR_INVALID_HANDLE);
        }
        state.refuse_in_context(caller, context)?;
        let after = state.schedule.tails(&[context]);
        let (number, work) = state.new_record(handle);
        let operation = state.queue_after(context, work, &[], Some(handle), &after);
        if caller.passive {
            state.schedule.observe(operation);
        }
        state.set_record(handle, operation, number);
        Ok(())
    }

    /// Makes all later work of a context wait for an event.
    ///
    /// # Errors
    ///
    /// As `cuCtxWaitEvent`.
    pub fn wait_context(&self, caller: &Caller, context: usize, handle: usize) -> Outcome<()> {
        let mut state = self.lock();
        let barrier = state.context(context)?.barrier;
        let record = state.event(caller, handle)?.record;
        state.refuse_in_context(caller, context)?;
        state.refuse_captured_event(handle, true)?;
        let work = state.foreign_wait(handle);
        if work.is_some() || record.is_some() {
            let own = record.filter(|_| work.is_none()).map(|record| record.operation);
            let after: Vec<OperationId> = barrier.into_iter().chain(own).collect();
            let work = work.unwrap_or(Work::Mark);
            let operation = state.queue_after(context, work, &[], None, &after);
            state.context_mut(context)?.barrier = Some(operation);
        }
        Ok(())
    }

    /// Returns the milliseconds between two events.
    ///
    /// # Errors
    ///
    /// As `cuEventElapsedTime`.
    pub fn elapsed(&self, caller: &Caller, start: usize, end: usize) -> Outcome<f32> {
        let mut state = self.lock();
        let mut times = [Duration::ZERO; 2];
        for (time, handle) in times.iter_mut().zip([start, end]) {
            state.event(caller, handle)?;
            state.refuse_captured_event(handle, false)?;
            let event = state.event(caller, handle)?;
            let record = event.record.filter(|_| event.flags & DISABLE_TIMING == 0);
            let record = record.ok_or(Status::ERROR_INVALID_HANDLE)?;
            *time = record.at.ok_or(Status::ERROR_NOT_READY)?;
        }
        let [start, end] = times;
        let apart = start.abs_diff(end).as_secs_f32() * 1e3;
        Ok(if end < start { -apart } else { apart })
    }
}
