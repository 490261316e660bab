//! Copies and fills.

use super::pointer::{Address, In};
use super::{Call, entry};
use crate::bytes::{Pattern, Shape};
use crate::machine::copy::{Form, Operand};
use crate::status::{Outcome, Status};

/// `CUmemorytype`.
const HOST: i32 = 1;
const DEVICE: i32 = 2;
const ARRAY: i32 = 3;
const UNIFIED: i32 = 4;

const SYNC: Form<'static> = Form::Synchronous;
const ASYNC: Form<'static> = Form::Asynchronous;

/// One side of `CUDA_MEMCPY2D`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Side2 {
    x: usize,
    y: usize,
    kind: i32,
    host: Address,
    device: Address,
    array: usize,
    pitch: usize,
}

/// `CUDA_MEMCPY2D`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Copy2 {
    source: Side2,
    target: Side2,
    width: usize,
    height: usize,
}

/// One side of `CUDA_MEMCPY3D`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Side3 {
    pub(super) x: usize,
    pub(super) y: usize,
    pub(super) z: usize,
    pub(super) level: usize,
    kind: i32,
    host: Address,
    device: Address,
    pub(super) array: usize,
    reserved: usize,
    pitch: usize,
    height: usize,
}

/// `CUDA_MEMCPY3D`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Copy3 {
    source: Side3,
    target: Side3,
    width: usize,
    height: usize,
    depth: usize,
}

impl Side3 {
    /// Returns a side that begins at a byte of an array of one axis.
    pub(super) fn of_array(array: usize, x: usize) -> Self {
        let none = Address::at(0);
        let (y, z, level, reserved, pitch, height) = (0, 0, 0, 0, 0, 0);
        Self {
            x,
            y,
            z,
            level,
            kind: ARRAY,
            host: none,
            device: none,
            array,
            reserved,
            pitch,
            height,
        }
    }

    /// Reads the 11 words of one side.
    fn of_words(words: &[u64]) -> Self {
        let number = |index: usize| {
            words.get(index).and_then(|word| usize::try_from(*word).ok()).unwrap_or(0)
        };
        Self {
            x: number(0),
            y: number(1),
            z: number(2),
            level: number(3),
            kind: i32::try_from(number(4) & 0xFFFF_FFFF).unwrap_or(0),
            host: Address::at(number(5)),
            device: Address::at(number(6)),
            array: number(7),
            reserved: 0,
            pitch: number(9),
            height: number(10),
        }
    }
}

impl Copy3 {
    /// Reads the 25 words of a `CUDA_MEMCPY3D`.
    pub(super) fn of_words(words: &[u64; 25]) -> Self {
        let [width, height, depth] =
            [22, 23, 24].map(|index: usize| usize::try_from(words[index]).unwrap_or(0));
        let (source, target) = (Side3::of_words(&words[..11]), Side3::of_words(&words[11..22]));
        Self { source, target, width, height, depth }
    }

    /// Returns the target, the source and the shape.
    pub(super) fn operands(&self, call: Call) -> Outcome<(Operand, Operand, Shape)> {
        let (source, from) = self.source.operand(self, call)?;
        let (target, to) = self.target.operand(self, call)?;
        let Self { width, height, depth, .. } = *self;
        Ok((target, source, Shape { width, height, depth, source: from, target: to }))
    }
}

const _: () = {
    assert!(size_of::<Copy2>() == 128);
    assert!(std::mem::offset_of!(Copy2, target) == 56);
    assert!(size_of::<Copy3>() == 200);
    assert!(std::mem::offset_of!(Copy3, target) == 88);
};

impl Call {
    fn copy(
        self,
        stream: usize,
        target: &Operand,
        source: &Operand,
        form: Form<'_>,
    ) -> Outcome<()> {
        let shape = Shape::line(source.range.bytes());
        self.machine()?.copy(&self.caller(), stream, (target, source), shape, form)
    }

    fn fill(
        self,
        stream: usize,
        target: Address,
        pattern: Pattern,
        (width, height, pitch): (usize, usize, usize),
        wait: bool,
    ) -> Outcome<()> {
        let bytes = span(width.saturating_mul(pattern.size()), height, pitch)?;
        let target = target.device(bytes);
        self.machine()?.fill(&self.caller(), stream, &target, pattern, (width, height, pitch), wait)
    }

    fn copy_2d(self, stream: usize, copy: In<Copy2>, form: Form<'_>) -> Outcome<()> {
        let copy = copy.get()?;
        let side = |side: Side2| Side3 {
            x: side.x,
            y: side.y,
            z: 0,
            level: 0,
            kind: side.kind,
            host: side.host,
            device: side.device,
            array: side.array,
            reserved: 0,
            pitch: side.pitch,
            height: 0,
        };
        let Copy2 { source, target, width, height } = copy;
        self.copy_box(
            stream,
            Copy3 { source: side(source), target: side(target), width, height, depth: 1 },
            form,
        )
    }

    fn copy_box(self, stream: usize, copy: Copy3, form: Form<'_>) -> Outcome<()> {
        let (target, source, shape) = copy.operands(self)?;
        self.machine()?.copy(&self.caller(), stream, (&target, &source), shape, form)
    }
}

/// Returns the bytes from the first byte of the first row to the last byte of the last.
pub(super) fn span(row: usize, rows: usize, pitch: usize) -> Outcome<usize> {
    if row == 0 || rows == 0 {
        return Ok(0);
    }
    let before = (rows - 1).checked_mul(pitch);
    before.and_then(|before| before.checked_add(row)).ok_or(Status::ERROR_INVALID_VALUE)
}

impl Side3 {
    /// Returns the bytes accessed, with the row pitch and the slice pitch.
    fn operand(self, copy: &Copy3, call: Call) -> Outcome<(Operand, (usize, usize))> {
        if self.kind == ARRAY {
            return call.array_side(&self, [copy.width, copy.height, copy.depth]);
        }
        let invalid = Status::ERROR_INVALID_VALUE;
        let add = |one: usize, other: usize| one.checked_add(other).ok_or(invalid);
        let multiply = |one: usize, other: usize| one.checked_mul(other).ok_or(invalid);
        // Zero means that rows, or slices, are contiguous.
        let pitch = if self.pitch == 0 { add(self.x, copy.width)? } else { self.pitch };
        let rows = if self.height == 0 { add(self.y, copy.height)? } else { self.height };
        let is_empty = [copy.width, copy.height, copy.depth].contains(&0);
        // One slice may have any number of rows, unless a height is given.
        let has_height = copy.depth > 1 || self.height > 0;
        let is_past =
            add(self.x, copy.width)? > pitch || (has_height && add(self.y, copy.height)? > rows);
        if is_past && !is_empty {
            return Err(invalid);
        }
        let slice = multiply(pitch, rows)?;
        let start = add(add(multiply(self.z, slice)?, multiply(self.y, pitch)?)?, self.x)?;
        let of_slice = span(copy.width, copy.height, pitch)?;
        let bytes = span(of_slice, copy.depth, slice)?;
        let operand = match self.kind {
            HOST => self.host.forward(start)?.any(bytes),
            DEVICE => self.device.forward(start)?.device(bytes),
            UNIFIED => self.device.forward(start)?.any(bytes),
            _ => return Err(invalid),
        };
        Ok((operand, (pitch, slice)))
    }
}

entry! {
    /// Copies between any two addresses.
    fn [cuMemcpy, cuMemcpy_ptds](target: Address, source: Address, bytes: usize) |call| {
        call.copy(call.default_stream()?, &target.any(bytes), &source.any(bytes), SYNC)
    }
}

entry! {
    /// Copies between any two addresses, in stream order.
    fn [cuMemcpyAsync, cuMemcpyAsync_ptsz](target: Address, source: Address, bytes: usize, stream: usize) |call| {
        call.copy(call.stream(stream)?, &target.any(bytes), &source.any(bytes), ASYNC)
    }
}

impl Call {
    /// Returns both contexts; null means the current one. Refuses destroyed and invalid ones.
    fn both(self, target: usize, source: usize) -> Outcome<[usize; 2]> {
        let (target, source) = (self.context_or_current(target)?, self.context_or_current(source)?);
        let state = self.machine()?.lock();
        state.context(target).and(state.context(source)).map(|_| [target, source])
    }
}

entry! {
    /// Copies between the memory of two contexts.
    fn [cuMemcpyPeer, cuMemcpyPeer_ptds](
        target: Address,
        target_context: usize,
        source: Address,
        source_context: usize,
        bytes: usize,
    ) |call| {
        let stream = call.default_stream()?;
        let [one, other] = call.both(target_context, source_context)?;
        let serial = Form::Serial(&[call.context()?, one, other]);
        call.copy(stream, &target.device(bytes), &source.device(bytes), serial)
    }
}

entry! {
    /// Copies between the memory of two contexts, in stream order.
    fn [cuMemcpyPeerAsync, cuMemcpyPeerAsync_ptsz](
        target: Address,
        target_context: usize,
        source: Address,
        source_context: usize,
        bytes: usize,
        stream: usize,
    ) |call| {
        let stream = call.stream(stream)?;
        call.both(target_context, source_context)?;
        call.copy(stream, &target.device(bytes), &source.device(bytes), Form::Peer)
    }
}

entry! {
    /// Copies to a device.
    fn [cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds](target: Address, source: Address, bytes: usize) |call| {
        call.copy(call.default_stream()?, &target.device(bytes), &source.any(bytes), SYNC)
    }
}

entry! {
    /// Copies to a device, in stream order.
    fn [cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2_ptsz](
        target: Address,
        source: Address,
        bytes: usize,
        stream: usize,
    ) |call| { call.copy(call.stream(stream)?, &target.device(bytes), &source.any(bytes), ASYNC) }
}

entry! {
    /// Copies from a device.
    fn [cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds](target: Address, source: Address, bytes: usize) |call| {
        call.copy(call.default_stream()?, &target.any(bytes), &source.device(bytes), SYNC)
    }
}

entry! {
    /// Copies from a device, in stream order.
    fn [cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync_v2_ptsz](
        target: Address,
        source: Address,
        bytes: usize,
        stream: usize,
    ) |call| { call.copy(call.stream(stream)?, &target.any(bytes), &source.device(bytes), ASYNC) }
}

entry! {
    /// Copies within or between devices.
    fn [cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds](target: Address, source: Address, bytes: usize) |call| {
        call.copy(call.default_stream()?, &target.device(bytes), &source.device(bytes), SYNC)
    }
}

entry! {
    /// Copies within or between devices, in stream order.
    fn [cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync_v2_ptsz](
        target: Address,
        source: Address,
        bytes: usize,
        stream: usize,
    ) |call| { call.copy(call.stream(stream)?, &target.device(bytes), &source.device(bytes), ASYNC) }
}

entry! {
    /// Copies rows.
    fn [cuMemcpy2D_v2, cuMemcpy2D_v2_ptds, cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned_v2_ptds](copy: In<Copy2>) |call| {
        call.copy_2d(call.default_stream()?, copy, SYNC)
    }
}

entry! {
    /// Copies rows, in stream order.
    fn [cuMemcpy2DAsync_v2, cuMemcpy2DAsync_v2_ptsz](copy: In<Copy2>, stream: usize) |call| {
        call.copy_2d(call.stream(stream)?, copy, ASYNC)
    }
}

entry! {
    /// Copies slices of rows.
    fn [cuMemcpy3D_v2, cuMemcpy3D_v2_ptds](copy: In<Copy3>) |call| {
        call.copy_box(call.default_stream()?, copy.get()?, SYNC)
    }
}

entry! {
    /// Copies slices of rows, in stream order.
    fn [cuMemcpy3DAsync_v2, cuMemcpy3DAsync_v2_ptsz](copy: In<Copy3>, stream: usize) |call| {
        call.copy_box(call.stream(stream)?, copy.get()?, ASYNC)
    }
}

entry! {
    /// Fills bytes.
    fn [cuMemsetD8_v2, cuMemsetD8_v2_ptds](target: Address, value: u8, count: usize) |call| {
        call.fill(call.default_stream()?, target, Pattern::Byte(value), (count, 1, 0), true)
    }
}

entry! {
    /// Fills elements of 2 bytes.
    fn [cuMemsetD16_v2, cuMemsetD16_v2_ptds](target: Address, value: u16, count: usize) |call| {
        call.fill(call.default_stream()?, target, Pattern::Half(value), (count, 1, 0), true)
    }
}

entry! {
    /// Fills elements of 4 bytes.
    fn [cuMemsetD32_v2, cuMemsetD32_v2_ptds](target: Address, value: u32, count: usize) |call| {
        call.fill(call.default_stream()?, target, Pattern::Word(value), (count, 1, 0), true)
    }
}

entry! {
    /// Fills rows of bytes.
    fn [cuMemsetD2D8_v2, cuMemsetD2D8_v2_ptds](target: Address, pitch: usize, value: u8, width: usize, height: usize) |call| {
        call.fill(call.default_stream()?, target, Pattern::Byte(value), (width, height, pitch), true)
    }
}

entry! {
    /// Fills rows of elements of 2 bytes.
    fn [cuMemsetD2D16_v2, cuMemsetD2D16_v2_ptds](target: Address, pitch: usize, value: u16, width: usize, height: usize) |call| {
        call.fill(call.default_stream()?, target, Pattern::Half(value), (width, height, pitch), true)
    }
}

entry! {
    /// Fills rows of elements of 4 bytes.
    fn [cuMemsetD2D32_v2, cuMemsetD2D32_v2_ptds](target: Address, pitch: usize, value: u32, width: usize, height: usize) |call| {
        call.fill(call.default_stream()?, target, Pattern::Word(value), (width, height, pitch), true)
    }
}

entry! {
    /// Fills bytes, in stream order.
    fn [cuMemsetD8Async, cuMemsetD8Async_ptsz](target: Address, value: u8, count: usize, stream: usize) |call| {
        call.fill(call.stream(stream)?, target, Pattern::Byte(value), (count, 1, 0), false)
    }
}

entry! {
    /// Fills elements of 2 bytes, in stream order.
    fn [cuMemsetD16Async, cuMemsetD16Async_ptsz](target: Address, value: u16, count: usize, stream: usize) |call| {
        call.fill(call.stream(stream)?, target, Pattern::Half(value), (count, 1, 0), false)
    }
}

entry! {
    /// Fills elements of 4 bytes, in stream order.
    fn [cuMemsetD32Async, cuMemsetD32Async_ptsz](target: Address, value: u32, count: usize, stream: usize) |call| {
        call.fill(call.stream(stream)?, target, Pattern::Word(value), (count, 1, 0), false)
    }
}

entry! {
    /// Fills rows of bytes, in stream order.
    fn [cuMemsetD2D8Async, cuMemsetD2D8Async_ptsz](
        target: Address,
        pitch: usize,
        value: u8,
        width: usize,
        height: usize,
        stream: usize,
    ) |call| { call.fill(call.stream(stream)?, target, Pattern::Byte(value), (width, height, pitch), false) }
}

entry! {
    /// Fills rows of elements of 2 bytes, in stream order.
    fn [cuMemsetD2D16Async, cuMemsetD2D16Async_ptsz](
        target: Address,
        pitch: usize,
        value: u16,
        width: usize,
        height: usize,
        stream: usize,
    ) |call| { call.fill(call.stream(stream)?, target, Pattern::Half(value), (width, height, pitch), false) }
}

entry! {
    /// Fills rows of elements of 4 bytes, in stream order.
    fn [cuMemsetD2D32Async, cuMemsetD2D32Async_ptsz](
        target: Address,
        pitch: usize,
        value: u32,
        width: usize,
        height: usize,
        stream: usize,
    ) |call| { call.fill(call.stream(stream)?, target, Pattern::Word(value), (width, height, pitch), false) }
}
