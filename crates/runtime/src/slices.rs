//! Copies and fills of rows and of slices.

use std::ffi::{c_int, c_uint};

use crate::arrays::array;
use crate::copies::{Kind, Queue, fill_byte};
use crate::driver::{Copy2d, Copy3d, Driver, Side2d, Side3d};
use crate::error::{Error, Outcome};
use crate::state::enter;
use crate::wire::{Handle, In, runtime};

/// `cudaExtent`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
}

/// `cudaPos`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Position {
    x: usize,
    y: usize,
    z: usize,
}

/// `cudaPitchedPtr`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PitchedPointer {
    pub(crate) address: u64,
    pub(crate) pitch: usize,
    pub(crate) width: usize,
    pub(crate) height: usize,
}

/// `cudaMemcpy3DParms`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Copy3dParameters {
    from_array: Handle,
    from_position: Position,
    from: PitchedPointer,
    to_array: Handle,
    to_position: Position,
    to: PitchedPointer,
    extent: Extent,
    kind: c_int,
}

impl Copy3dParameters {
    /// Describes a copy of bytes: one row.
    pub(crate) fn of_bytes(to: u64, from: u64, bytes: usize, kind: c_int) -> Self {
        let start = Position { x: 0, y: 0, z: 0 };
        let row = |address| PitchedPointer { address, pitch: bytes, width: bytes, height: 1 };
        Self {
            from_array: 0,
            from_position: start,
            from: row(from),
            to_array: 0,
            to_position: start,
            to: row(to),
            extent: Extent { width: bytes, height: 1, depth: 1 },
            kind,
        }
    }
}

/// The driver's `CU_MEMORYTYPE` of both sides of a copy: the source, then the destination.
fn places(kind: Kind) -> (c_uint, c_uint) {
    const HOST: c_uint = 1;
    const DEVICE: c_uint = 2;
    const UNIFIED: c_uint = 4;
    match kind {
        Kind::HostToHost => (HOST, HOST),
        Kind::HostToDevice => (HOST, DEVICE),
        Kind::DeviceToHost => (DEVICE, HOST),
        Kind::DeviceToDevice => (DEVICE, DEVICE),
        Kind::Default => (UNIFIED, UNIFIED),
    }
}

fn side_2d(place: c_uint, address: usize, pitch: usize) -> Side2d {
    let mut side = Side2d { place, pitch, ..Side2d::default() };
    if place == 1 {
        side.host = address;
    } else {
        side.device = address as u64;
    }
    side
}

/// Rows to copy. Each address is one of the host or of the device, as the kind says.
pub(crate) struct Rows {
    pub(crate) to: usize,
    pub(crate) to_pitch: usize,
    pub(crate) from: usize,
    pub(crate) from_pitch: usize,
    pub(crate) width: usize,
    pub(crate) height: usize,
}

/// Copies rows.
///
/// # Safety
///
/// Host addresses are valid for all rows, until the copy is done. The driver checks those of the device.
pub(crate) unsafe fn copy_rows(rows: &Rows, kind: c_int, queue: Queue) -> Outcome<()> {
    let (from, to) = places(Kind::of(kind)?);
    if rows.width > rows.to_pitch || rows.width > rows.from_pitch {
        return Err(Error::INVALID_PITCH);
    }
    let driver = enter()?;
    if rows.width == 0 || rows.height == 0 {
        return Ok(());
    }
    let copy = Copy2d {
        from: side_2d(from, rows.from, rows.from_pitch),
        to: side_2d(to, rows.to, rows.to_pitch),
        width: rows.width,
        height: rows.height,
    };
    match queue {
        // SAFETY: the contract; the description is ours.
        None => unsafe { driver.cuMemcpy2DUnaligned_v2(&raw const copy) },
        // SAFETY: as above.
        Some(stream) => unsafe { driver.cuMemcpy2DAsync_v2(&raw const copy, stream) },
    }
}

fn side_3d(place: c_uint, pointer: PitchedPointer, position: Position) -> Side3d {
    let mut side = Side3d {
        x: position.x,
        y: position.y,
        z: position.z,
        place,
        pitch: pointer.pitch,
        height: pointer.height,
        ..Side3d::default()
    };
    if place == 1 {
        // An address is as wide as a size.
        side.host = usize::try_from(pointer.address).unwrap_or(0);
    } else {
        side.device = pointer.address;
    }
    side
}

/// One end of a copy of slices, as memory.
struct End {
    rows: PitchedPointer,
    position: Position,
    /// The bytes of an element, if it is an array.
    element: Option<usize>,
    /// How far it goes from its position on, in elements, if it is an array.
    room: Option<Extent>,
}

impl End {
    fn of(handle: Handle, rows: PitchedPointer, position: Position) -> Outcome<Self> {
        if handle == 0 {
            return Ok(Self { rows, position, element: None, room: None });
        }
        if rows.address != 0 {
            // One end has two places.
            return Err(Error::INVALID_VALUE);
        }
        let found = array(handle)?;
        let left =
            |size: usize, from: usize| size.max(1).checked_sub(from).ok_or(Error::INVALID_VALUE);
        let room = Extent {
            width: left(found.extent.width, position.x)?,
            height: left(found.extent.height, position.y)?,
            depth: left(found.extent.depth, position.z)?,
        };
        let element = found.format.element()?;
        let x = position.x.checked_mul(element).ok_or(Error::INVALID_VALUE)?;
        Ok(Self {
            rows: found.as_pitched()?,
            position: Position { x, ..position },
            element: Some(element),
            room: Some(room),
        })
    }
}

/// Returns the driver's form of a copy.
pub(crate) fn copy_of(parameters: &Copy3dParameters) -> Outcome<Copy3d> {
    let (from, to) = places(Kind::of(parameters.kind)?);
    let source = End::of(parameters.from_array, parameters.from, parameters.from_position)?;
    let target = End::of(parameters.to_array, parameters.to, parameters.to_position)?;
    if source.rows.address == 0 || target.rows.address == 0 {
        return Err(Error::INVALID_VALUE);
    }
    let extent = parameters.extent;
    for room in [source.room, target.room].into_iter().flatten() {
        if extent.width > room.width || extent.height > room.height || extent.depth > room.depth {
            return Err(Error::INVALID_VALUE);
        }
    }
    // Where an array takes part, the extent counts elements.
    let element = source.element.or(target.element).unwrap_or(1);
    Ok(Copy3d {
        from: side_3d(from, source.rows, source.position),
        to: side_3d(to, target.rows, target.position),
        width: extent.width.checked_mul(element).ok_or(Error::INVALID_VALUE)?,
        height: extent.height,
        depth: extent.depth,
    })
}

/// Copies slices.
///
/// # Safety
///
/// As for `copy_rows`.
unsafe fn copy_slices(parameters: &Copy3dParameters, queue: Queue) -> Outcome<()> {
    let copy = copy_of(parameters)?;
    let driver = enter()?;
    if copy.width == 0 || copy.height == 0 || copy.depth == 0 {
        return Ok(());
    }
    match queue {
        // SAFETY: the contract; the description is ours.
        None => unsafe { driver.cuMemcpy3D_v2(&raw const copy) },
        // SAFETY: as above.
        Some(stream) => unsafe { driver.cuMemcpy3DAsync_v2(&raw const copy, stream) },
    }
}

/// Fills rows of device memory.
fn fill_rows(driver: &Driver, pointer: PitchedPointer, value: c_int, queue: Queue) -> Outcome<()> {
    let PitchedPointer { address, pitch, width, height } = pointer;
    if width == 0 || height == 0 {
        return Ok(());
    }
    let value = fill_byte(value);
    match queue {
        // SAFETY: the driver checks the range.
        None => unsafe { driver.cuMemsetD2D8_v2(address, pitch, value, width, height) },
        // SAFETY: as above.
        Some(stream) => unsafe {
            driver.cuMemsetD2D8Async(address, pitch, value, width, height, stream)
        },
    }
}

/// Fills slices of device memory.
fn fill_slices(pointer: PitchedPointer, value: c_int, extent: Extent, queue: Queue) -> Outcome<()> {
    let driver = enter()?;
    if extent.width == 0 || extent.height == 0 {
        return Ok(());
    }
    let slice = pointer.pitch.checked_mul(pointer.height).ok_or(Error::INVALID_VALUE)?;
    for index in 0..extent.depth {
        let offset = slice.checked_mul(index).ok_or(Error::INVALID_VALUE)?;
        let address = pointer.address.checked_add(offset as u64).ok_or(Error::INVALID_VALUE)?;
        let rows = PitchedPointer {
            address,
            pitch: pointer.pitch,
            width: extent.width,
            height: extent.height,
        };
        fill_rows(driver, rows, value, queue)?;
    }
    Ok(())
}

runtime! {
    /// Copies rows, and waits.
    fn cudaMemcpy2D(to: usize, to_pitch: usize, from: usize, from_pitch: usize, width: usize, height: usize, kind: c_int) {
        let rows = Rows { to, to_pitch, from, from_pitch, width, height };
        // SAFETY: the contract of the function.
        unsafe { copy_rows(&rows, kind, None) }
    }

    /// Queues a copy of rows.
    fn cudaMemcpy2DAsync(to: usize, to_pitch: usize, from: usize, from_pitch: usize, width: usize, height: usize, kind: c_int, stream: Handle) {
        let rows = Rows { to, to_pitch, from, from_pitch, width, height };
        // SAFETY: the contract of the function.
        unsafe { copy_rows(&rows, kind, Some(stream)) }
    }

    /// Copies slices, and waits.
    fn cudaMemcpy3D(parameters: In<Copy3dParameters>) {
        // SAFETY: the contract of the function.
        unsafe { copy_slices(&parameters.get()?, None) }
    }

    /// Queues a copy of slices.
    fn cudaMemcpy3DAsync(parameters: In<Copy3dParameters>, stream: Handle) {
        // SAFETY: the contract of the function.
        unsafe { copy_slices(&parameters.get()?, Some(stream)) }
    }

    /// Fills rows of device memory with a byte.
    fn cudaMemset2D(address: u64, pitch: usize, value: c_int, width: usize, height: usize) {
        fill_rows(enter()?, PitchedPointer { address, pitch, width, height }, value, None)
    }

    /// Queues a fill of rows of device memory.
    fn cudaMemset2DAsync(address: u64, pitch: usize, value: c_int, width: usize, height: usize, stream: Handle) {
        fill_rows(enter()?, PitchedPointer { address, pitch, width, height }, value, Some(stream))
    }

    /// Fills slices of device memory with a byte.
    fn cudaMemset3D(pointer: PitchedPointer, value: c_int, extent: Extent) {
        fill_slices(pointer, value, extent, None)
    }

    /// Queues a fill of slices of device memory.
    fn cudaMemset3DAsync(pointer: PitchedPointer, value: c_int, extent: Extent, stream: Handle) {
        fill_slices(pointer, value, extent, Some(stream))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn a_copy_of_slices_is_that_of_the_header() {
        assert_eq!(size_of::<Copy3dParameters>(), 160);
        assert_eq!(offset_of!(Copy3dParameters, from_position), 8);
        assert_eq!(offset_of!(Copy3dParameters, from), 32);
        assert_eq!(offset_of!(Copy3dParameters, to_array), 64);
        assert_eq!(offset_of!(Copy3dParameters, to_position), 72);
        assert_eq!(offset_of!(Copy3dParameters, to), 96);
        assert_eq!(offset_of!(Copy3dParameters, extent), 128);
        assert_eq!(offset_of!(Copy3dParameters, kind), 152);
    }

    #[test]
    fn the_drivers_copies_have_the_drivers_sizes() {
        assert_eq!(size_of::<Copy2d>(), 128);
        assert_eq!(size_of::<Copy3d>(), 200);
    }
}
