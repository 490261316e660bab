//! Arrays: linear device memory with a format, behind a handle.
//!
//! A real runtime keeps arrays in a layout of its own, which only texture hardware reads. Here textures are sampled by
//! code, so rows follow one another without gaps.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::copies::{Bytes, Kind, Queue, copy};
use crate::error::{Error, Outcome};
use crate::slices::{Extent, PitchedPointer, Rows, copy_rows};
use crate::state::{Here, enter, here};
use crate::wire::{Handle, In, Out, runtime};

/// `cudaChannelFormatDesc`: the bits of each channel, and what they are.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelFormat {
    bits: [c_int; 4],
    kind: c_int,
}

/// `cudaArrayLayered`.
const LAYERED: c_uint = 1;
/// `cudaArrayCubemap`.
const CUBEMAP: c_uint = 4;

/// The largest number of the kinds that textures read: signed, unsigned and floating point.
const FLOATING: c_int = 2;

impl ChannelFormat {
    /// The number of channels, and the bytes of each.
    pub(crate) fn channels(self) -> Outcome<(u8, u8)> {
        let count = self.bits.iter().take_while(|bits| **bits != 0).count();
        let [first, ..] = self.bits;
        let even = self.bits.iter().take(count).all(|bits| *bits == first);
        let rest = self.bits.iter().skip(count).all(|bits| *bits == 0);
        let wide = matches!(first, 8 | 16 | 32) && (self.kind != FLOATING || first != 8);
        if !(matches!(count, 1 | 2 | 4)
            && even
            && rest
            && wide
            && (0..=FLOATING).contains(&self.kind))
        {
            return Err(Error::INVALID_CHANNEL);
        }
        let channels = u8::try_from(count).map_err(|_| Error::INVALID_CHANNEL)?;
        let bytes = u8::try_from(first / 8).map_err(|_| Error::INVALID_CHANNEL)?;
        Ok((channels, bytes))
    }

    /// The bytes of one element.
    pub(crate) fn element(self) -> Outcome<usize> {
        let (channels, bytes) = self.channels()?;
        Ok(usize::from(channels) * usize::from(bytes))
    }

    /// 0: signed, 1: unsigned, 2: floating point.
    pub(crate) fn kind(self) -> u8 {
        u8::try_from(self.kind).unwrap_or(0)
    }
}

/// Device memory with a format.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Array {
    pub(crate) address: u64,
    pub(crate) format: ChannelFormat,
    /// In elements. A missing axis is 0, as the caller said it.
    pub(crate) extent: Extent,
    flags: c_uint,
    /// The context whose memory it is.
    context: Handle,
}

impl Array {
    /// The bytes of a row.
    pub(crate) fn pitch(&self) -> Outcome<usize> {
        self.format.element()?.checked_mul(self.extent.width).ok_or(Error::INVALID_VALUE)
    }

    /// Its rows and slices, as memory.
    pub(crate) fn as_pitched(&self) -> Outcome<PitchedPointer> {
        let pitch = self.pitch()?;
        let height = self.extent.height.max(1);
        Ok(PitchedPointer { address: self.address, pitch, width: pitch, height })
    }

    /// The address of a byte of a row, as C passes addresses.
    fn at(&self, x: usize, y: usize) -> Outcome<usize> {
        let pitch = self.pitch()?;
        if x > pitch || y >= self.extent.height.max(1) {
            return Err(Error::INVALID_VALUE);
        }
        let start = usize::try_from(self.address).map_err(|_| Error::INVALID_VALUE)?;
        Ok(start + y * pitch + x)
    }
}

/// The arrays that live, by their handles.
static ARRAYS: Mutex<BTreeMap<Handle, Array>> = Mutex::new(BTreeMap::new());

fn arrays() -> MutexGuard<'static, BTreeMap<Handle, Array>> {
    ARRAYS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forgets the arrays of a context that is about to go: their addresses will be somebody else's.
pub(crate) fn forget(context: Handle) {
    arrays().retain(|_, array| array.context != context);
}

/// The array of a handle.
pub(crate) fn array(handle: Handle) -> Outcome<Array> {
    arrays().get(&handle).copied().ok_or(Error::INVALID_HANDLE)
}

fn allocate(
    handle: Out<Handle>,
    format: ChannelFormat,
    extent: Extent,
    flags: c_uint,
) -> Outcome<()> {
    handle.required()?;
    let rows = extent.height.max(1).checked_mul(extent.depth.max(1));
    let elements = rows.and_then(|rows| rows.checked_mul(extent.width));
    let bytes = elements.and_then(|elements| elements.checked_mul(format.element().ok()?));
    let bytes = bytes.filter(|bytes| *bytes != 0).ok_or(Error::INVALID_VALUE)?;
    let Here { driver, context } = here()?;
    let mut address = 0;
    // SAFETY: there is a place for one address.
    unsafe { driver.cuMemAlloc_v2(&raw mut address, bytes) }?;
    // No two live arrays have one address.
    let name = usize::try_from(address).map_err(|_| Error::INVALID_VALUE)?;
    arrays().insert(name, Array { address, format, extent, flags, context });
    handle.put(name)
}

/// Which side of a copy is the array.
#[derive(Clone, Copy)]
enum Side {
    To,
    From,
}

/// A part of an array: rows from a byte of a row on.
#[derive(Clone, Copy)]
struct Part {
    array: Handle,
    x: usize,
    y: usize,
}

/// Copies bytes to or from an array, row after row.
///
/// # Safety
///
/// `other` is valid for as many bytes until the copy is done, if the kind says that it is the host's.
unsafe fn copy_bytes(
    side: Side,
    part: Part,
    other: usize,
    count: usize,
    kind: c_int,
    queue: Queue,
) -> Outcome<()> {
    let kind = Kind::of(kind)?;
    let inside = array(part.array)?.at(part.x, part.y)?;
    let bytes = match side {
        Side::To => Bytes { to: inside, from: other, count },
        Side::From => Bytes { to: other, from: inside, count },
    };
    // SAFETY: the contract; the driver checks the array's own memory.
    unsafe { copy(enter()?, bytes, kind, queue) }
}

/// Copies rows to or from an array.
///
/// # Safety
///
/// As for `copy_bytes`, for all rows.
unsafe fn copy_part(
    side: Side,
    part: Part,
    other: PitchedPointer,
    kind: c_int,
    queue: Queue,
) -> Outcome<()> {
    let whole = array(part.array)?;
    let (inside, pitch) = (whole.at(part.x, part.y)?, whole.pitch()?);
    let PitchedPointer { address, pitch: other_pitch, width, height } = other;
    if part.x + width > pitch || part.y + height > whole.extent.height.max(1) {
        return Err(Error::INVALID_VALUE);
    }
    let address = usize::try_from(address).map_err(|_| Error::INVALID_VALUE)?;
    let rows = match side {
        Side::To => Rows {
            to: inside,
            to_pitch: pitch,
            from: address,
            from_pitch: other_pitch,
            width,
            height,
        },
        Side::From => Rows {
            to: address,
            to_pitch: other_pitch,
            from: inside,
            from_pitch: pitch,
            width,
            height,
        },
    };
    // SAFETY: the contract.
    unsafe { copy_rows(&rows, kind, queue) }
}

runtime! {
    /// Allocates an array of one or two axes.
    fn cudaMallocArray(handle: Out<Handle>, format: In<ChannelFormat>, width: usize, height: usize, flags: c_uint) {
        allocate(handle, format.get()?, Extent { width, height, depth: 0 }, flags)
    }

    /// Allocates an array of up to three axes, or layers.
    fn cudaMalloc3DArray(handle: Out<Handle>, format: In<ChannelFormat>, extent: Extent, flags: c_uint) {
        // Faces are squares, and each cube has six.
        let Extent { width, height, depth } = extent;
        let is_right = if flags & LAYERED == 0 { depth == 6 } else { depth != 0 && depth % 6 == 0 };
        if flags & CUBEMAP != 0 && !(width == height && is_right) {
            return Err(Error::INVALID_VALUE);
        }
        allocate(handle, format.get()?, extent, flags)
    }

    /// Releases an array. Null is allowed.
    fn cudaFreeArray(handle: Handle) {
        let driver = enter()?;
        if handle == 0 {
            return Ok(());
        }
        let found = arrays().remove(&handle).ok_or(Error::INVALID_HANDLE)?;
        // SAFETY: the memory is the array's own, and it is in no table any more.
        unsafe { driver.cuMemFree_v2(found.address) }
    }

    /// Returns what an array was made with.
    fn cudaArrayGetInfo(format: Out<ChannelFormat>, extent: Out<Extent>, flags: Out<c_uint>, handle: Handle) {
        let found = array(handle)?;
        format.offer(found.format);
        extent.offer(found.extent);
        flags.offer(found.flags);
        Ok(())
    }

    /// Returns the format of an array.
    fn cudaGetChannelDesc(format: Out<ChannelFormat>, handle: Handle) {
        format.put(array(handle)?.format)
    }

    /// Copies bytes to an array, and waits.
    fn cudaMemcpyToArray(handle: Handle, x: usize, y: usize, from: usize, count: usize, kind: c_int) {
        // SAFETY: the contract of the function.
        unsafe { copy_bytes(Side::To, Part { array: handle, x, y }, from, count, kind, None) }
    }

    /// Queues a copy of bytes to an array.
    fn cudaMemcpyToArrayAsync(handle: Handle, x: usize, y: usize, from: usize, count: usize, kind: c_int, stream: Handle) {
        // SAFETY: the contract of the function.
        unsafe { copy_bytes(Side::To, Part { array: handle, x, y }, from, count, kind, Some(stream)) }
    }

    /// Copies bytes of an array, and waits.
    fn cudaMemcpyFromArray(to: usize, handle: Handle, x: usize, y: usize, count: usize, kind: c_int) {
        // SAFETY: the contract of the function.
        unsafe { copy_bytes(Side::From, Part { array: handle, x, y }, to, count, kind, None) }
    }

    /// Queues a copy of bytes of an array.
    fn cudaMemcpyFromArrayAsync(to: usize, handle: Handle, x: usize, y: usize, count: usize, kind: c_int, stream: Handle) {
        // SAFETY: the contract of the function.
        unsafe { copy_bytes(Side::From, Part { array: handle, x, y }, to, count, kind, Some(stream)) }
    }

    /// Copies rows to an array, and waits.
    fn cudaMemcpy2DToArray(handle: Handle, x: usize, y: usize, from: u64, pitch: usize, width: usize, height: usize, kind: c_int) {
        let other = PitchedPointer { address: from, pitch, width, height };
        // SAFETY: the contract of the function.
        unsafe { copy_part(Side::To, Part { array: handle, x, y }, other, kind, None) }
    }

    /// Queues a copy of rows to an array.
    fn cudaMemcpy2DToArrayAsync(handle: Handle, x: usize, y: usize, from: u64, pitch: usize, width: usize, height: usize, kind: c_int, stream: Handle) {
        let other = PitchedPointer { address: from, pitch, width, height };
        // SAFETY: the contract of the function.
        unsafe { copy_part(Side::To, Part { array: handle, x, y }, other, kind, Some(stream)) }
    }

    /// Copies rows of an array, and waits.
    fn cudaMemcpy2DFromArray(to: u64, pitch: usize, handle: Handle, x: usize, y: usize, width: usize, height: usize, kind: c_int) {
        let other = PitchedPointer { address: to, pitch, width, height };
        // SAFETY: the contract of the function.
        unsafe { copy_part(Side::From, Part { array: handle, x, y }, other, kind, None) }
    }

    /// Queues a copy of rows of an array.
    fn cudaMemcpy2DFromArrayAsync(to: u64, pitch: usize, handle: Handle, x: usize, y: usize, width: usize, height: usize, kind: c_int, stream: Handle) {
        let other = PitchedPointer { address: to, pitch, width, height };
        // SAFETY: the contract of the function.
        unsafe { copy_part(Side::From, Part { array: handle, x, y }, other, kind, Some(stream)) }
    }
}

/// Returns a format of channels.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the name is CUDA's")]
#[must_use]
pub extern "C" fn cudaCreateChannelDesc(
    x: c_int,
    y: c_int,
    z: c_int,
    w: c_int,
    kind: c_int,
) -> ChannelFormat {
    ChannelFormat { bits: [x, y, z, w], kind }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(bits: [c_int; 4], kind: c_int) -> Outcome<(u8, u8)> {
        ChannelFormat { bits, kind }.channels()
    }

    #[test]
    fn channels_are_one_two_or_four_of_one_size() {
        assert_eq!(format([32, 0, 0, 0], 2), Ok((1, 4)));
        assert_eq!(format([8, 8, 8, 8], 1), Ok((4, 1)));
        assert_eq!(format([16, 16, 0, 0], 0), Ok((2, 2)));
        for bits in [[0, 0, 0, 0], [8, 8, 8, 0], [8, 16, 0, 0], [8, 0, 8, 0], [64, 0, 0, 0]] {
            assert_eq!(format(bits, 1), Err(Error::INVALID_CHANNEL), "{bits:?}");
        }
        assert_eq!(format([8, 0, 0, 0], 2), Err(Error::INVALID_CHANNEL));
        assert_eq!(format([8, 0, 0, 0], 3), Err(Error::INVALID_CHANNEL));
    }
}
