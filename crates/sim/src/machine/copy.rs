//! Copies and fills: checks of memory, and when a call waits.
//!
//! Waiting follows CUDA's published rules of synchronous and asynchronous copies: a copy is as late as they allow.
#![forbid(unsafe_code)]

use smallvec::SmallVec;

use super::memory::{Found, Kind, Life};
use super::operation::{Compare, Work};
use super::stream::Submitted;
use super::{Caller, Machine, State};
use crate::bytes::{Pattern, Range, Shape};
use crate::foreign::HostFunction;
use crate::status::{Outcome, Status};

/// Up to so many bytes of pageable memory are taken aside when a copy to a device is called.
const STAGED: usize = 64 << 10;

/// What a caller says an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Memory that a device reaches.
    Device,
    /// Any memory.
    Any,
}

/// One end of a copy: bytes as the caller named them.
#[derive(Clone, Debug)]
pub struct Operand {
    /// The bytes from the first to the last that is touched.
    pub range: Range,
    /// What the caller says they are.
    pub side: Side,
}

/// Which form of a copy was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form<'a> {
    /// In the order of its stream alone.
    Asynchronous,
    /// The host waits, where CUDA says that it does.
    Synchronous,
    /// Behind all work of these contexts, and before all that comes later.
    Serial(&'a [usize]),
}

/// What an operand turned out to be.
struct Resolved {
    range: Range,
    place: Place,
    base: Option<usize>,
    sync_memops: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Device,
    /// Memory of the host that devices reach.
    Shared,
    Pageable,
}

impl State {
    fn resolve(&mut self, caller: &Caller, operand: &Operand, what: &str) -> Outcome<Resolved> {
        let (address, bytes) = (operand.range.address(), operand.range.bytes());
        let invalid = Status::ERROR_INVALID_VALUE;
        match self.memory.find(address) {
            Found::Allocation(_, found) if found.life == Life::Leaving => {
                Err(self.fault(caller, invalid, &format!("{what} after cuMemFreeAsync"), address))
            }
            Found::Allocation(_, found)
                if found.kind.is_device() && self.devices[found.device].lost =>
            {
                Err(Status::ERROR_DEVICE_UNAVAILABLE)
            }
            Found::Allocation(base, found) => {
                if let Some(range) = found.range.part(address - base, bytes) {
                    let place = if found.kind.is_device() { Place::Device } else { Place::Shared };
                    let sync_memops = found.sync_memops;
                    // What the caller registered may have been unmapped since.
                    if !range.is_mapped() {
                        let what = format!("{what}: registered memory is not mapped any more");
                        return Err(self.fault(caller, invalid, &what, address));
                    }
                    return Ok(Resolved { range, place, base: Some(base), sync_memops });
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

fn pageable(range: Range) -> Resolved {
    Resolved { range, place: Place::Pageable, base: None, sync_memops: false }
}

/// A value in memory that a stream writes or waits for.
#[derive(Clone, Debug)]
pub struct Value {
    /// Its 4 or 8 bytes.
    pub operand: Operand,
    /// The value.
    pub value: u64,
    /// How to wait for it; nothing: it is written.
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
    /// `INVALID_VALUE` for what may not be touched; then nothing is.
    pub fn copy(
        &self,
        caller: &Caller,
        stream: usize,
        (target, source): (&Operand, &Operand),
        shape: Shape,
        form: Form<'_>,
    ) -> Outcome<()> {
        let wait = form != Form::Asynchronous;
        let mut state = self.lock();
        state.stream(caller, stream)?;
        state.refuse_legacy(stream)?;
        if wait {
            state.refuse_captured_stream(stream)?;
        }
        if shape.width == 0 || shape.height == 0 || shape.depth == 0 {
            return Ok(());
        }
        let mut source = state.resolve(caller, source, "copy reads")?;
        let target = state.resolve(caller, target, "copy writes")?;
        if target.place == Place::Pageable && !target.range.may_be_written() {
            let what = "copy writes: the memory is read-only";
            return Err(state.fault(
                caller,
                Status::ERROR_INVALID_VALUE,
                what,
                target.range.address(),
            ));
        }
        let touches: SmallVec<[usize; 2]> = source.base.into_iter().chain(target.base).collect();
        let from_pageable = source.place == Place::Pageable && target.place == Place::Device;
        let mut late = match (source.place, target.place) {
            (Place::Device, Place::Device) => true,
            (Place::Pageable, Place::Device) => source.range.bytes() <= STAGED,
            // A device writes pageable memory, and the host its own, before the call returns.
            (_, Place::Pageable) | (Place::Pageable | Place::Shared, Place::Shared) => false,
            (Place::Device, Place::Shared) | (Place::Shared, Place::Device) => !wait,
        };
        if wait && (source.sync_memops || target.sync_memops) {
            late = false;
        }
        if from_pageable && late && !state.is_capturing(stream) {
            if wait {
                // The synchronous form waits for earlier work in the stream, and then reads the bytes.
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
        if wait { self.lock().tell_failure_of_stream(caller, stream) } else { Ok(()) }
    }

    /// Fills rows in the order of a stream; `wait`: the synchronous form was called.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE` for what may not be touched; then nothing is.
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
        let row = width.checked_mul(pattern.size()).ok_or(Status::ERROR_INVALID_VALUE)?;
        let misaligned = !target.range.address().is_multiple_of(pattern.size())
            || (height > 1 && !pitch.is_multiple_of(pattern.size()));
        if misaligned || (height > 1 && pitch < row) {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        let target = state.resolve(caller, target, "fill writes")?;
        let touches: SmallVec<[usize; 2]> = target.base.into_iter().collect();
        // The synchronous form waits only for memory that the host could look at.
        let late = !(wait && (target.place == Place::Shared || target.sync_memops));
        let work = Work::Fill { target: target.range, pattern, width, height, pitch };
        let submitted = state.submit(caller, stream, work, &touches)?;
        drop(state);
        if let Submitted::Queued(operation) = submitted
            && !late
        {
            self.finish(caller, &[operation])?;
        }
        if wait { self.lock().tell_failure_of_stream(caller, stream) } else { Ok(()) }
    }

    /// Makes a stream write and wait for values in memory, one after the other; if one may not, none is.
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
            let resolved = state.resolve(caller, &value.operand, what)?;
            works.push((value.work(resolved.range), resolved.base));
        }
        for (work, base) in works {
            state.submit(caller, stream, work, base.as_slice())?;
        }
        Ok(())
    }

    /// Makes a stream call a function of the caller's.
    ///
    /// # Errors
    ///
    /// What a capture has against it.
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
