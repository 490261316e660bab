//! Copies and fills: memory checks, and when a call waits.
//!
//! The waiting follows CUDA's rules for synchronous and asynchronous copies. A copy runs as late as they
//! allow.
#![forbid(unsafe_code)]

use smallvec::SmallVec;

use super::graph::{Draft, Step};
use super::memory::{Found, Kind, Life};
use super::operation::{Compare, Work};
use super::stream::Submitted;
use super::virtual_memory::Access;
use super::{Caller, Machine, State};
use crate::bytes::{Pattern, Range, Shape};
use crate::foreign::HostFunction;
use crate::status::{Outcome, Status};

/// A copy to a device stages up to this many bytes of pageable memory at the time of the call.
const STAGED: usize = 64 << 10;

/// What kind of memory an operand must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Memory that a device can access.
    Device,
    /// Any memory.
    Any,
    /// Memory of an array.
    Array,
}

/// One side of a copy, as the caller named it.
#[derive(Clone, Debug)]
pub struct Operand {
    /// The bytes from the first to the last one accessed.
    pub range: Range,
    /// The kind of memory it must be.
    pub side: Side,
}

/// The form of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form<'a> {
    /// Ordered only by its stream.
    Asynchronous,
    /// The same, between the memory of two contexts.
    Peer,
    /// The same, and the source is read in that order, too.
    Ordered,
    /// Ordered by its stream, and the source is read during the call.
    Early,
    /// The host waits in the cases that CUDA defines.
    Synchronous,
    /// After all work of these contexts, and before all later work.
    Serial(&'a [usize]),
}

/// Who accesses an operand.
#[derive(Clone, Copy, Debug)]
pub struct User {
    /// The context.
    pub context: usize,
    /// Whether it becomes a node of a graph: memory of graphs need not be allocated yet.
    pub builds: bool,
    /// Whether it is a copy between contexts, which needs no access of one to the memory of the other.
    pub peers: bool,
}

/// A resolved operand.
struct Resolved {
    range: Range,
    place: Place,
    bases: SmallVec<[usize; 2]>,
    sync_memops: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Device,
    /// Host memory that devices can access.
    Shared,
    Pageable,
}

impl State {
    /// Returns who submits work to a stream.
    fn user(&self, stream: usize) -> User {
        let context = self.streams.get(stream).map_or(0, |stream| stream.context);
        User { context, builds: self.is_capturing(stream), peers: false }
    }

    /// Resolves an operand of work. `least` is the access that it needs.
    fn resolve(
        &mut self,
        caller: &Caller,
        (user, least): (User, u8),
        operand: &Operand,
        what: &str,
    ) -> Outcome<Resolved> {
        let (address, bytes) = (operand.range.address(), operand.range.bytes());
        let invalid = Status::ERROR_INVALID_VALUE;
        let device = self.device_of(user.context).unwrap_or(0);
        let allowed = |kind: Kind| match kind {
            Kind::Mapped { access, .. } => access.of(device) & least == least,
            // Only a copy that names the array knows where its elements are.
            Kind::Array => operand.side == Side::Array,
            // A pool of another device must have been opened to this one.
            Kind::Pool { pool } if !user.peers => {
                self.pools.get(pool).is_none_or(|pool| pool.access.contains_key(&device))
            }
            _ => true,
        };
        match self.memory.find(address) {
            Found::Allocation(_, found) if found.life == Life::Asleep && !user.builds => {
                let what = format!("{what}: memory of a graph that no launch has allocated");
                Err(self.fault(caller, invalid, &what, address))
            }
            Found::Allocation(_, found) if found.life == Life::Leaving => {
                Err(self.fault(caller, invalid, &format!("{what} after cuMemFreeAsync"), address))
            }
            Found::Allocation(_, found)
                if found.kind.is_device() && self.devices[found.device].lost =>
            {
                Err(Status::ERROR_DEVICE_UNAVAILABLE)
            }
            Found::Allocation(_, found) if !allowed(found.kind) => {
                let what = format!("{what}: the device has no such access to this memory");
                Err(self.fault(caller, invalid, &what, address))
            }
            Found::Allocation(base, found) => {
                if let Some(range) = found.range.part(address - base, bytes) {
                    let place = if found.kind.is_device() { Place::Device } else { Place::Shared };
                    let sync_memops = found.sync_memops;
                    // The caller may have unmapped registered memory.
                    if !range.is_mapped() {
                        let what = format!("{what}: registered memory is not mapped any more");
                        return Err(self.fault(caller, invalid, &what, address));
                    }
                    let bases = SmallVec::from_slice(&[base]);
                    return Ok(Resolved { range, place, bases, sync_memops });
                }
                if let Some((range, bases)) = self.across(address, bytes, allowed) {
                    let (place, bases) = (Place::Device, SmallVec::from_vec(bases));
                    return Ok(Resolved { range, place, bases, sync_memops: found.sync_memops });
                }
                if matches!(found.kind, Kind::Registered { .. })
                    && operand.side == Side::Any
                    && operand.range.is_mapped()
                {
                    return Ok(pageable(operand.range.clone()));
                }
                let over = bytes - (found.range.bytes() - (address - base));
                let what = format!("{what}: {over} of {bytes} bytes lie past the end");
                Err(self.fault(caller, invalid, &what, address))
            }
            Found::Nothing => {
                let what = match self.memory.freed_by(address) {
                    Some(function) => format!("{what}: memory was freed by {function}"),
                    None => format!("{what}: address is in no allocation"),
                };
                Err(self.fault(caller, invalid, &what, address))
            }
            Found::Elsewhere if operand.side == Side::Device => Err(self.fault(
                caller,
                invalid,
                &format!("{what}: no device reaches this address"),
                address,
            )),
            Found::Elsewhere if address == 0 || !operand.range.is_mapped() => Err(self.fault(
                caller,
                invalid,
                &format!("{what}: nothing is mapped here"),
                address,
            )),
            Found::Elsewhere => Ok(pageable(operand.range.clone())),
        }
    }
}

impl State {
    /// Resolves the target and the source of a copy.
    fn resolve_both(
        &mut self,
        caller: &Caller,
        user: User,
        (target, source): (&Operand, &Operand),
    ) -> Outcome<(Resolved, Resolved)> {
        let source = self.resolve(caller, (user, Access::READ), source, "copy reads")?;
        let target = self.resolve(caller, (user, Access::READ_WRITE), target, "copy writes")?;
        if target.place == Place::Pageable && !target.range.may_be_written() {
            let (what, address) = ("copy writes: the memory is read-only", target.range.address());
            return Err(self.fault(caller, Status::ERROR_INVALID_VALUE, what, address));
        }
        Ok((target, source))
    }
}

impl Form<'_> {
    fn is_of_peers(self) -> bool {
        matches!(self, Self::Peer | Self::Serial(_))
    }
}

/// Refuses a fill that is not aligned, or whose rows overlap.
fn check_fill(
    target: &Operand,
    pattern: Pattern,
    (width, height, pitch): (usize, usize, usize),
) -> Outcome<()> {
    let row = width.checked_mul(pattern.size()).ok_or(Status::ERROR_INVALID_VALUE)?;
    let misaligned = !target.range.address().is_multiple_of(pattern.size())
        || (height > 1 && !pitch.is_multiple_of(pattern.size()));
    if misaligned || (height > 1 && pitch < row) {
        return Err(Status::ERROR_INVALID_VALUE);
    }
    Ok(())
}

fn pageable(range: Range) -> Resolved {
    Resolved { range, place: Place::Pageable, bases: SmallVec::new(), sync_memops: false }
}

/// A value in memory for a stream to write or wait for.
#[derive(Clone, Debug)]
pub struct Value {
    /// Its 4 or 8 bytes.
    pub operand: Operand,
    /// The value.
    pub value: u64,
    /// How to wait for it; `None` to write it.
    pub compare: Option<Compare>,
}

impl Value {
    fn words(&self) -> &'static str {
        if self.compare.is_some() { "stream waits for a value" } else { "stream writes a value" }
    }

    fn work(&self, range: Range) -> Work {
        let (value, wide) = (self.value, range.bytes() == 8);
        match self.compare {
            Some(compare) => Work::Wait { source: range, value, wide, compare },
            None => Work::Write { target: range, value, wide },
        }
    }
}

impl Machine {
    /// Copies rows in the order of a stream.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE` for inaccessible memory. Then nothing is copied.
    pub fn copy(
        &self,
        caller: &Caller,
        stream: usize,
        (target, source): (&Operand, &Operand),
        shape: Shape,
        form: Form<'_>,
    ) -> Outcome<()> {
        let wait = matches!(form, Form::Synchronous | Form::Serial(_));
        let mut state = self.lock();
        state.stream(caller, stream)?;
        state.refuse_legacy(stream)?;
        if wait {
            state.refuse_captured_stream(stream)?;
        }
        if shape.width == 0 || shape.height == 0 || shape.depth == 0 {
            return Ok(());
        }
        let user = User { peers: form.is_of_peers(), ..state.user(stream) };
        let (target, mut source) = state.resolve_both(caller, user, (target, source))?;
        let touches: SmallVec<[usize; 2]> =
            source.bases.iter().chain(&target.bases).copied().collect();
        let from_pageable = source.place == Place::Pageable && target.place == Place::Device;
        let mut late = match (source.place, target.place) {
            (Place::Device, Place::Device) => true,
            (Place::Pageable, Place::Device) => source.range.bytes() <= STAGED,
            // Writes to pageable memory, and copies within host memory, complete before the call returns.
            (_, Place::Pageable) | (Place::Pageable | Place::Shared, Place::Shared) => false,
            (Place::Device, Place::Shared) | (Place::Shared, Place::Device) => !wait,
        };
        if wait && (source.sync_memops || target.sync_memops) {
            late = false;
        }
        if form == Form::Ordered && target.place != Place::Pageable {
            late = true;
        } else if form == Form::Early && source.range.bytes() > STAGED {
            // The source is read before the call returns, as it must be, when the stream gets there.
            late = false;
        } else if form == Form::Early {
            source.range = source.range.staged();
        } else if from_pageable && late && !state.is_capturing(stream) {
            if wait {
                // The synchronous form waits for earlier work of the stream, and then reads the bytes.
                let goals = state.order(stream, &[]);
                drop(state);
                self.finish(caller, &goals)?;
                state = self.lock();
            }
            source.range = source.range.staged();
        }
        let work = Work::Copy { target: target.range, source: source.range, shape };
        let submitted = match form {
            Form::Serial(contexts) => {
                Submitted::Queued(state.queue_serial(stream, work, &touches, contexts))
            }
            _ => state.submit(caller, stream, work, &touches)?,
        };
        drop(state);
        if let Submitted::Queued(operation) = submitted
            && !late
        {
            self.finish(caller, &[operation])?;
        }
        if wait { self.lock().report_failure_of_stream(caller, stream) } else { Ok(()) }
    }

    /// Fills rows in stream order. `wait`: the synchronous form was called.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE` for inaccessible memory. Then nothing is filled.
    pub fn fill(
        &self,
        caller: &Caller,
        stream: usize,
        target: &Operand,
        pattern: Pattern,
        (width, height, pitch): (usize, usize, usize),
        wait: bool,
    ) -> Outcome<()> {
        let mut state = self.lock();
        state.stream(caller, stream)?;
        state.refuse_legacy(stream)?;
        if wait {
            state.refuse_captured_stream(stream)?;
        }
        if width == 0 || height == 0 {
            return Ok(());
        }
        check_fill(target, pattern, (width, height, pitch))?;
        let user = state.user(stream);
        let target = state.resolve(caller, (user, Access::READ_WRITE), target, "fill writes")?;
        let touches = target.bases;
        // The synchronous form waits only for memory that the host could read.
        let late = !(wait && (target.place == Place::Shared || target.sync_memops));
        let work = Work::Fill { target: target.range, pattern, width, height, pitch };
        let submitted = state.submit(caller, stream, work, &touches)?;
        drop(state);
        if let Submitted::Queued(operation) = submitted
            && !late
        {
            self.finish(caller, &[operation])?;
        }
        if wait { self.lock().report_failure_of_stream(caller, stream) } else { Ok(()) }
    }

    /// Makes a draft of a node that copies.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub fn draft_copy(
        &self,
        caller: &Caller,
        context: usize,
        (target, source): (&Operand, &Operand),
        shape: Shape,
    ) -> Outcome<Draft> {
        let mut state = self.lock();
        state.context(context)?;
        if shape.width == 0 || shape.height == 0 || shape.depth == 0 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        let user = User { context, builds: true, peers: false };
        let (target, source) = state.resolve_both(caller, user, (target, source))?;
        let bases: Vec<usize> = source.bases.iter().chain(&target.bases).copied().collect();
        let touches = state.touches(&bases);
        let work = Work::Copy { target: target.range, source: source.range, shape };
        Ok(Draft { touches, context: Some(context), ..Draft::of(Step::Work(work)) })
    }

    /// Makes a draft of a node that fills.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub fn draft_fill(
        &self,
        caller: &Caller,
        context: usize,
        target: &Operand,
        pattern: Pattern,
        (width, height, pitch): (usize, usize, usize),
    ) -> Outcome<Draft> {
        let mut state = self.lock();
        state.context(context)?;
        if width == 0 || height == 0 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        check_fill(target, pattern, (width, height, pitch))?;
        let user = User { context, builds: true, peers: false };
        let target = state.resolve(caller, (user, Access::READ_WRITE), target, "fill writes")?;
        let touches = state.touches(&target.bases);
        let work = Work::Fill { target: target.range, pattern, width, height, pitch };
        Ok(Draft { touches, context: Some(context), ..Draft::of(Step::Work(work)) })
    }

    /// Makes a stream write or wait for several values in order. If one is invalid, none is queued.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub fn touch_values(&self, caller: &Caller, stream: usize, values: &[Value]) -> Outcome<()> {
        let mut state = self.lock();
        state.stream(caller, stream)?;
        let mut works = Vec::with_capacity(values.len());
        for value in values {
            let (bytes, what) = (value.operand.range.bytes(), value.words());
            if !value.operand.range.address().is_multiple_of(bytes) {
                return Err(Status::ERROR_INVALID_VALUE);
            }
            let least = if value.compare.is_some() { Access::READ } else { Access::READ_WRITE };
            let user = state.user(stream);
            let resolved = state.resolve(caller, (user, least), &value.operand, what)?;
            works.push((value.work(resolved.range), resolved.bases));
        }
        for (work, bases) in works {
            state.submit(caller, stream, work, &bases)?;
        }
        Ok(())
    }

    /// Makes a stream call a host function.
    ///
    /// # Errors
    ///
    /// An error of a capture.
    pub fn call_host(
        &self,
        caller: &Caller,
        stream: usize,
        function: HostFunction,
        may_capture: bool,
    ) -> Outcome<()> {
        let mut state = self.lock();
        state.stream(caller, stream)?;
        if !may_capture {
            state.refuse_captured_stream(stream)?;
        }
        state.submit(caller, stream, Work::Call(function), &[]).map(|_| ())
    }
}
