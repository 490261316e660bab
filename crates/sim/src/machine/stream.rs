//! Streams: the order of work.
#![forbid(unsafe_code)]

use smallvec::SmallVec;

use super::capture::Captured;
use super::operation::{OperationId, Work};
use super::schedule::Touches;
use super::{Caller, Machine, State};
use crate::status::{Outcome, Status};

/// `CU_STREAM_NON_BLOCKING`.
pub const NON_BLOCKING: u32 = 1;
/// The greatest priority; zero is the least.
pub const GREATEST_PRIORITY: i32 = -5;

/// From this many blocking streams on, those without queued work are removed.
const PRUNED: usize = 64;

/// The role of a stream in its context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Created by the program.
    Created,
    /// The legacy default stream, which synchronises with all blocking streams.
    Legacy,
    /// The per-thread default stream of a thread.
    PerThread,
}

/// The meaning of stream handle 0 for a driver function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultStream {
    /// The legacy default stream.
    Legacy,
    /// The per-thread default stream.
    PerThread,
}

/// A stream.
#[derive(Debug)]
pub struct Stream {
    /// Its context.
    pub context: usize,
    /// Its role.
    pub role: Role,
    /// As given to `cuStreamCreate`.
    pub flags: u32,
    /// Zero to [`GREATEST_PRIORITY`]; only stored.
    pub priority: i32,
    /// Its latest operation.
    pub last: Option<OperationId>,
    /// Its part of a capture, if it is capturing.
    pub capture: Option<Captured>,
}

impl Stream {
    /// Makes an empty stream.
    #[must_use]
    pub fn new(context: usize, role: Role, flags: u32, priority: i32) -> Self {
        Self {
            context,
            role,
            flags,
            priority: priority.clamp(GREATEST_PRIORITY, 0),
            last: None,
            capture: None,
        }
    }

    /// Returns whether it synchronises with the legacy stream.
    #[must_use]
    pub fn is_blocking(&self) -> bool {
        self.role != Role::Legacy && self.flags & NON_BLOCKING == 0
    }
}

/// The result of submitting work to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// It will run.
    Queued(OperationId),
    /// It became a node of a graph.
    Captured,
}

impl State {
    /// Returns the stream of a handle for a thread.
    ///
    /// # Errors
    ///
    /// `INVALID_CONTEXT` for a default stream without a context, `INVALID_HANDLE`.
    pub fn resolve_stream(
        &mut self,
        caller: &Caller,
        current: Outcome<usize>,
        handle: usize,
        default: DefaultStream,
    ) -> Outcome<usize> {
        let per_thread = match handle {
            0 => default == DefaultStream::PerThread,
            1 => false,
            2 => true,
            _ => return self.stream(caller, handle).map(|_| handle),
        };
        let context = current?;
        let found = self.context(context)?;
        if !per_thread {
            return Ok(found.legacy);
        }
        if let Some(stream) = found.per_thread.get(&caller.thread) {
            return Ok(*stream);
        }
        let stream = self.streams.add(Stream::new(context, Role::PerThread, 0, 0));
        self.context_mut(context)?.per_thread.insert(caller.thread, stream);
        Ok(stream)
    }

    /// Returns a stream by its own handle.
    ///
    /// # Errors
    ///
    /// `INVALID_HANDLE`, or an error of its context.
    pub fn stream(&mut self, caller: &Caller, handle: usize) -> Outcome<&mut Stream> {
        let Some(context) = self.streams.get(handle).map(|stream| stream.context) else {
            return Err(if self.streams.was(handle) {
                self.fault(
                    caller,
                    Status::ERROR_INVALID_HANDLE,
                    "use of a destroyed stream",
                    handle,
                )
            } else {
                Status::ERROR_INVALID_HANDLE
            });
        };
        self.context(context)?;
        self.streams.get_mut(handle).ok_or(Status::ERROR_INVALID_HANDLE)
    }

    /// Submits work to a stream: it is queued, or captured if the stream is capturing.
    ///
    /// # Errors
    ///
    /// `INVALID_HANDLE`, or an error of a capture.
    pub fn submit(
        &mut self,
        caller: &Caller,
        stream: usize,
        work: Work,
        touches: &[usize],
    ) -> Outcome<Submitted> {
        self.stream(caller, stream)?;
        self.refuse_legacy(stream)?;
        if self.is_capturing(stream) {
            self.capture_work(stream, work, touches)?;
            return Ok(Submitted::Captured);
        }
        Ok(Submitted::Queued(self.queue(stream, work, touches, None, &[])))
    }

    /// Queues work in a stream that is not capturing, also after `others`.
    pub fn queue(
        &mut self,
        stream: usize,
        work: Work,
        touches: &[usize],
        event: Option<usize>,
        others: &[OperationId],
    ) -> OperationId {
        let after = self.order(stream, others);
        let (context, role, is_blocking) =
            self.streams.get(stream).map_or((0, Role::Created, false), |found| {
                (found.context, found.role, found.is_blocking())
            });
        let id = self.queue_after(context, work, touches, event, &after);
        if let Some(stream) = self.streams.get_mut(stream) {
            stream.last = Some(id);
        }
        if let Some(context) = self.contexts.get_mut(context) {
            if role == Role::Legacy {
                // Waiting for this operation waits for all of them.
                context.blocking.clear();
            } else if is_blocking {
                context.blocking.insert(stream, id);
                if context.blocking.len().is_multiple_of(PRUNED) {
                    let schedule = &self.schedule;
                    context.blocking.retain(|_, id| !schedule.is_complete(*id));
                }
            }
        }
        id
    }

    /// Queues work after all queued work of some contexts, and before all later work.
    pub fn queue_serial(
        &mut self,
        stream: usize,
        work: Work,
        touches: &[usize],
        contexts: &[usize],
    ) -> OperationId {
        let before = self.schedule.tails(contexts);
        let id = self.queue(stream, work, touches, None, &before);
        for context in contexts {
            if let Some(context) = self.contexts.get_mut(*context) {
                context.barrier = Some(id);
            }
        }
        id
    }

    /// Queues work outside of streams.
    pub fn queue_after(
        &mut self,
        context: usize,
        work: Work,
        touches: &[usize],
        event: Option<usize>,
        after: &[OperationId],
    ) -> OperationId {
        let known =
            |base: &usize| self.memory.get(*base).map(|allocation| (*base, allocation.buffer_id));
        let touched: Touches = touches.iter().filter_map(known).collect();
        let id = self.schedule.add(work, context, touched, event, after.iter().copied());
        for base in touches {
            if let Some(allocation) = self.memory.get_mut(*base) {
                allocation.users.insert(id);
            }
        }
        id
    }

    /// Returns what the next operation of a stream waits for.
    pub fn order(&self, stream: usize, others: &[OperationId]) -> SmallVec<[OperationId; 4]> {
        let mut after: SmallVec<[OperationId; 4]> = others.iter().copied().collect();
        after.extend(self.waits_of(stream));
        // The order of the hash table differs from run to run; the scheduler's choices must not.
        after.sort_unstable();
        after
    }

    /// Returns the latest incomplete operations of a stream; for the legacy one, also those it waits for.
    fn unfinished(&self, handle: usize) -> SmallVec<[OperationId; 4]> {
        match self.streams.get(handle) {
            Some(stream) if stream.role != Role::Legacy => {
                stream.last.into_iter().filter(|id| !self.schedule.is_complete(*id)).collect()
            }
            _ => self.waits_of(handle),
        }
    }

    /// Returns the latest operations that a stream waits for.
    fn waits_of(&self, handle: usize) -> SmallVec<[OperationId; 4]> {
        let Some(stream) = self.streams.get(handle) else { return SmallVec::new() };
        let mut after: SmallVec<[OperationId; 4]> = stream.last.into_iter().collect();
        after.extend(self.contexts.get(stream.context).and_then(|context| context.barrier));
        let context = self.contexts.get(stream.context);
        if stream.role == Role::Legacy {
            after
                .extend(context.into_iter().flat_map(|context| context.blocking.values().copied()));
        } else if stream.is_blocking() {
            let legacy = context.and_then(|context| self.streams.get(context.legacy));
            after.extend(legacy.and_then(|legacy| legacy.last));
        }
        after.retain(|id| !self.schedule.is_complete(*id));
        after
    }
}

impl Machine {
    /// Creates a stream.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE` for unknown flags.
    pub fn create_stream(&self, context: usize, flags: u32, priority: i32) -> Outcome<usize> {
        if flags & !NON_BLOCKING != 0 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        let mut state = self.lock();
        state.context(context)?;
        Ok(state.streams.add(Stream::new(context, Role::Created, flags, priority)))
    }

    /// Destroys a stream. Its queued work stays queued.
    ///
    /// # Errors
    ///
    /// `INVALID_HANDLE`, also for default streams.
    pub fn destroy_stream(&self, caller: &Caller, handle: usize) -> Outcome<()> {
        let mut state = self.lock();
        if state.stream(caller, handle)?.role != Role::Created {
            return Err(Status::ERROR_INVALID_HANDLE);
        }
        state.forget_capture(caller, handle);
        state.streams.remove(handle);
        Ok(())
    }

    /// Waits for all work of a stream.
    ///
    /// # Errors
    ///
    /// As `cuStreamSynchronize`.
    pub fn synchronize_stream(&self, caller: &Caller, handle: usize) -> Outcome<()> {
        let mut state = self.lock();
        state.stream(caller, handle)?;
        state.refuse_waiting(caller, handle)?;
        let goals = state.unfinished(handle);
        drop(state);
        self.finish(caller, &goals)?;
        let mut state = self.lock();
        state.trim_pools();
        state.report_failure_of_stream(caller, handle)
    }

    /// Returns whether all work of a stream is complete, after one step of the machine.
    ///
    /// # Errors
    ///
    /// As `cuStreamQuery`, except `NOT_READY`.
    pub fn query_stream(&self, caller: &Caller, handle: usize) -> Outcome<bool> {
        let mut state = self.lock();
        state.stream(caller, handle)?;
        state.refuse_waiting(caller, handle)?;
        drop(state);
        self.step(caller);
        let mut state = self.lock();
        state.stream(caller, handle)?;
        state.report_failure_of_stream(caller, handle)?;
        Ok(state.unfinished(handle).is_empty())
    }
}
