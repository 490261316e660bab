//! Arrays: memory of a device whose layout the program does not know, alone or as levels of a mipmap.
//!
//! Here the rows of an array follow each other without gaps. Addresses do not reach it: only copies that name the
//! array do.
#![forbid(unsafe_code)]

use super::copy::{Operand, Side};
use super::memory::{Found, Kind};
use super::texture::limit;
use super::{Caller, Machine, State};
use crate::status::{Outcome, Status};

const INVALID: Status = Status::ERROR_INVALID_VALUE;

/// `CUDA_ARRAY3D_*`.
const LAYERED: u32 = 1;
/// Surfaces may be made of it.
pub const SURFACE: u32 = 2;
const CUBEMAP: u32 = 4;
const GATHER: u32 = 8;
const PLAIN: u32 = LAYERED | SURFACE | CUBEMAP | GATHER;
/// Sparse arrays, late mapping, video.
const OTHER: u32 = 0x1C0;

/// The size of an array on each axis, and what its elements are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// Elements on each axis; 0 for an axis that it does not have. With layers, the last one counts them.
    pub sizes: [usize; 3],
    /// `CUarray_format`.
    pub format: u32,
    /// Numbers in an element.
    pub channels: u32,
    /// `CUDA_ARRAY3D_*`.
    pub flags: u32,
}

/// Returns the size of an element.
///
/// # Errors
///
/// `NOT_SUPPORTED` for packed, compressed and normalized formats.
pub fn element(format: u32, channels: u32) -> Outcome<usize> {
    let bytes = match format {
        0x01 | 0x08 => 1,
        0x02 | 0x09 | 0x10 => 2,
        0x03 | 0x0A | 0x20 => 4,
        // `CU_AD_FORMAT_*` of video, block compression and normalized integers.
        0x50..=0x7F | 0x90..=0xFF => return Err(Status::ERROR_NOT_SUPPORTED),
        _ => return Err(INVALID),
    };
    match channels {
        1 => Ok(bytes),
        2 => Ok(bytes * 2),
        4 => Ok(bytes * 4),
        _ => Err(INVALID),
    }
}

impl Form {
    /// Returns the longest axes that it may have: a row of CUDA's table of the sizes of arrays, whose entries are
    /// numbers of device attributes.
    fn limits(&self) -> Outcome<[usize; 3]> {
        let has = |flag: u32| self.flags & flag != 0;
        let [width, height, depth] = self.sizes;
        let cube = width == height;
        let row = match (has(LAYERED), has(CUBEMAP), self.sizes.map(|size| size > 0)) {
            (false, false, [true, false, false]) if has(SURFACE) => [55, 0, 0],
            (false, false, [true, false, false]) => [21, 0, 0],
            (false, false, [true, true, false]) if has(GATHER) => [45, 46, 0],
            (false, false, [true, true, false]) if has(SURFACE) => [56, 57, 0],
            (false, false, [true, true, false]) => [22, 23, 0],
            (false, false, [true, true, true]) if has(SURFACE) => [58, 59, 60],
            (false, false, [true, true, true]) if depth > 16_384 => [47, 48, 49],
            (false, false, [true, true, true]) => [24, 25, 26],
            (true, false, [true, false, true]) if has(SURFACE) => [61, 0, 62],
            (true, false, [true, false, true]) => [42, 0, 43],
            (true, false, [true, true, true]) if has(SURFACE) => [63, 64, 65],
            (true, false, [true, true, true]) => [27, 28, 29],
            (false, true, [true, true, true]) if cube && depth == 6 && has(SURFACE) => [66, 66, 54],
            (false, true, [true, true, true]) if cube && depth == 6 => [52, 52, 54],
            (true, true, [true, true, true]) if cube && depth % 6 == 0 && has(SURFACE) => {
                [67, 67, 68]
            }
            (true, true, [true, true, true]) if cube && depth % 6 == 0 => [53, 53, 54],
            _ => return Err(INVALID),
        };
        Ok(row.map(|attribute| usize::try_from(limit(attribute)).unwrap_or(0)))
    }

    /// Refuses what no array can be. Returns its bytes.
    fn check(&self) -> Outcome<usize> {
        let element = element(self.format, self.channels)?;
        if self.flags & !(PLAIN | OTHER) != 0 {
            return Err(INVALID);
        }
        if self.flags & OTHER != 0 {
            return Err(Status::ERROR_NOT_SUPPORTED);
        }
        let gathers_flat = self.sizes[1] > 0 && self.sizes[2] == 0;
        if self.flags & GATHER != 0 && !gathers_flat {
            return Err(INVALID);
        }
        let limits = self.limits()?;
        if self.sizes.iter().zip(limits).any(|(size, most)| *size > most) {
            return Err(INVALID);
        }
        // The limits keep the product far below the end of the numbers.
        Ok(self.extent().iter().product::<usize>() * element)
    }

    /// Refuses what no array with levels can be: without layers and surfaces its axes are shorter than those of one alone.
    fn check_with_levels(&self) -> Outcome<()> {
        self.check()?;
        let most = match self.sizes {
            _ if self.flags & (LAYERED | CUBEMAP | SURFACE) != 0 => return Ok(()),
            [_, 0, 0] => [77, 0],
            [_, _, 0] => [73, 74],
            _ => return Ok(()),
        };
        let most = most.map(|attribute| usize::try_from(limit(attribute)).unwrap_or(0));
        if self.sizes.iter().zip(most).any(|(size, most)| *size > most) {
            return Err(INVALID);
        }
        Ok(())
    }

    /// Returns the elements on each axis, 1 for an axis that it does not have.
    fn extent(&self) -> [usize; 3] {
        self.sizes.map(|size| size.max(1))
    }

    /// Returns the form of a level of a mipmap: each level halves the axes, and keeps the layers.
    fn level(&self, level: u32) -> Self {
        let halve = |size: usize| if size == 0 { 0 } else { (size >> level).max(1) };
        let [width, height, depth] = self.sizes;
        let flat = self.flags & (LAYERED | CUBEMAP) != 0;
        let depth = if flat { depth } else { halve(depth) };
        Self { sizes: [halve(width), halve(height), depth], ..*self }
    }

    /// Returns the number of levels down to a single element.
    fn most_levels(&self) -> u32 {
        let flat = self.flags & (LAYERED | CUBEMAP) != 0;
        let axes = if flat { &self.sizes[..2] } else { &self.sizes[..] };
        axes.iter().copied().max().unwrap_or(0).max(1).ilog2() + 1
    }
}

/// An array.
#[derive(Debug)]
pub struct Array {
    /// What it is.
    pub form: Form,
    /// Its memory.
    base: usize,
    /// The context in which it was made.
    pub context: usize,
    /// The mipmap whose level it is.
    mipmap: Option<usize>,
}

/// An array with smaller versions of itself.
#[derive(Debug)]
pub struct Mipmap {
    /// Its levels, the largest first.
    levels: Vec<usize>,
    /// The context in which it was made.
    context: usize,
}

/// Where a copy begins in an array, in bytes, rows and slices, and how much it copies.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The first byte of a row, the first row, the first slice.
    pub start: [usize; 3],
    /// Bytes, rows, slices.
    pub size: [usize; 3],
}

impl State {
    /// Returns an array.
    ///
    /// # Errors
    ///
    /// `INVALID_HANDLE`.
    pub fn array(&mut self, caller: &Caller, handle: usize) -> Outcome<&Array> {
        if self.arrays.was(handle) {
            let what = "use of an array that is destroyed";
            return Err(self.fault(caller, Status::ERROR_INVALID_HANDLE, what, handle));
        }
        self.arrays.get(handle).ok_or(Status::ERROR_INVALID_HANDLE)
    }

    /// Returns whether a mipmap exists.
    #[must_use]
    pub fn has_mipmap(&self, handle: usize) -> bool {
        self.mipmaps.get(handle).is_some()
    }

    /// Returns the operand of a copy from or to a part of an array, with the distance of rows and of slices.
    ///
    /// # Errors
    ///
    /// `INVALID_HANDLE`; `INVALID_VALUE` for a part that is not in the array, or cuts elements.
    pub fn array_operand(
        &mut self,
        caller: &Caller,
        handle: usize,
        part: Part,
    ) -> Outcome<(Operand, (usize, usize))> {
        let array = self.array(caller, handle)?;
        let (form, base) = (array.form, array.base);
        let element = element(form.format, form.channels)?;
        let [width, height, depth] = form.extent();
        let limits = [width * element, height, depth];
        let ends = |axis: usize| part.start[axis].checked_add(part.size[axis]);
        let inside = (0..3).all(|axis| ends(axis).is_some_and(|end| end <= limits[axis]));
        let whole = [part.start[0], part.size[0]].iter().all(|bytes| bytes.is_multiple_of(element));
        // Nothing may be copied from anywhere.
        if (!inside || !whole) && !part.size.contains(&0) {
            let what = if inside {
                "copy cuts elements of an array"
            } else {
                "copy of more than an array has"
            };
            return Err(self.fault(caller, INVALID, what, handle));
        }
        let (pitch, slice) = (limits[0], limits[0] * height);
        let offset = |[x, y, z]: [usize; 3]| z * slice + y * pitch + x;
        let bytes = if part.size.contains(&0) {
            0
        } else {
            let [x, y, z] = part.size;
            offset([x, y - 1, z - 1])
        };
        let range = self.memory.get(base).and_then(|found| {
            let start = if bytes == 0 { 0 } else { offset(part.start) };
            found.range.part(start, bytes)
        });
        let range = range.ok_or(Status::ERROR_INVALID_HANDLE)?;
        Ok((Operand { range, side: Side::Array }, (pitch, slice)))
    }

    /// Returns the array that has some memory, and where in it that begins: the byte of a row, the row, the slice.
    #[must_use]
    pub fn array_at(&self, address: usize) -> Option<(usize, [usize; 3])> {
        let Found::Allocation(base, _) = self.memory.find(address) else { return None };
        let (handle, array) = self.arrays.iter().find(|(_, array)| array.base == base)?;
        let [width, height, _] = array.form.extent();
        let pitch = width * element(array.form.format, array.form.channels).ok()?;
        let (offset, slice) = (address - base, pitch * height);
        Some((handle, [offset % slice % pitch, offset % slice / pitch, offset / slice]))
    }

    /// Makes an array that was checked.
    fn add_array(
        &mut self,
        form: Form,
        bytes: usize,
        (device, context): (usize, usize),
        mipmap: Option<usize>,
    ) -> Outcome<usize> {
        let base = self.allocate(Kind::Array, device, context, bytes)?;
        Ok(self.arrays.add(Array { form, base, context, mipmap }))
    }

    /// Ends a mipmap that was not completed, which no work can use.
    fn forget_mipmap(&mut self, caller: &Caller, handle: usize) {
        let levels = self.mipmaps.remove(handle).map_or_else(Vec::new, |mipmap| mipmap.levels);
        for level in levels {
            if let Some(array) = self.arrays.remove(level) {
                self.end_allocation(caller, array.base);
            }
        }
    }

    /// Forgets the arrays of a context, whose memory ends with it.
    pub fn end_arrays(&mut self, context: usize) {
        self.arrays.retain(|array| array.context != context);
        self.mipmaps.retain(|mipmap| mipmap.context != context);
    }

    /// Returns a mipmap.
    fn mipmap(&mut self, caller: &Caller, handle: usize) -> Outcome<&Mipmap> {
        if self.mipmaps.was(handle) {
            let what = "use of a mipmapped array that is destroyed";
            return Err(self.fault(caller, Status::ERROR_INVALID_HANDLE, what, handle));
        }
        self.mipmaps.get(handle).ok_or(Status::ERROR_INVALID_HANDLE)
    }

    /// Returns a level of a mipmap.
    ///
    /// # Errors
    ///
    /// `INVALID_HANDLE`; `INVALID_VALUE` if it has no such level.
    pub fn level(&mut self, caller: &Caller, handle: usize, level: u32) -> Outcome<usize> {
        let mipmap = self.mipmap(caller, handle)?;
        let index = usize::try_from(level).map_err(|_| INVALID)?;
        mipmap.levels.get(index).copied().ok_or(INVALID)
    }
}

impl Machine {
    /// Makes an array.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`, `NOT_SUPPORTED`, `OUT_OF_MEMORY`, or an error of a capture.
    pub fn create_array(&self, caller: &Caller, context: usize, form: Form) -> Outcome<usize> {
        let mut state = self.lock();
        let device = state.context(context)?.device;
        state.refuse_unsafe(caller)?;
        let bytes = form.check()?;
        state.add_array(form, bytes, (device, context), None)
    }

    /// Makes an array with up to so many levels.
    ///
    /// # Errors
    ///
    /// As [`Machine::create_array`].
    pub fn create_mipmap(
        &self,
        caller: &Caller,
        context: usize,
        form: Form,
        levels: u32,
    ) -> Outcome<usize> {
        let mut state = self.lock();
        let device = state.context(context)?.device;
        state.refuse_unsafe(caller)?;
        form.check_with_levels()?;
        let handle = state.mipmaps.add(Mipmap { levels: Vec::new(), context });
        for level in 0..levels.clamp(1, form.most_levels()) {
            let form = form.level(level);
            let made = form
                .check()
                .and_then(|bytes| state.add_array(form, bytes, (device, context), Some(handle)));
            match (made, state.mipmaps.get_mut(handle)) {
                (Ok(array), Some(mipmap)) => mipmap.levels.push(array),
                (made, _) => {
                    state.forget_mipmap(caller, handle);
                    return made;
                }
            }
        }
        Ok(handle)
    }

    /// Destroys an array once all queued work that uses it has run.
    ///
    /// # Errors
    ///
    /// `INVALID_HANDLE`, also for a level of a mipmap; or an error of a capture.
    pub fn destroy_array(&self, caller: &Caller, handle: usize) -> Outcome<()> {
        let mut state = self.lock();
        state.refuse_unsafe(caller)?;
        if state.array(caller, handle)?.mipmap.is_some() {
            let what = "a level of a mipmapped array is destroyed with it, not by itself";
            return Err(state.fault(caller, Status::ERROR_INVALID_HANDLE, what, handle));
        }
        drop(state);
        self.end_array(caller, handle)
    }

    fn end_array(&self, caller: &Caller, handle: usize) -> Outcome<()> {
        // The thread that removes it frees the memory: no second one does.
        let array = self.lock().arrays.remove(handle).ok_or(Status::ERROR_INVALID_HANDLE)?;
        self.free(caller, array.base, |kind| kind == Kind::Array)
    }

    /// Destroys a mipmap with its levels, once all queued work that uses them has run.
    ///
    /// # Errors
    ///
    /// `INVALID_HANDLE`, or an error of a capture.
    pub fn destroy_mipmap(&self, caller: &Caller, handle: usize) -> Outcome<()> {
        let mut state = self.lock();
        state.refuse_unsafe(caller)?;
        state.mipmap(caller, handle)?;
        let levels = state.mipmaps.remove(handle).map_or_else(Vec::new, |mipmap| mipmap.levels);
        drop(state);
        levels.into_iter().try_for_each(|array| self.end_array(caller, array))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: Form = Form { sizes: [10, 6, 0], format: 0x20, channels: 2, flags: 0 };

    #[test]
    fn levels_halve_every_axis_but_layers() {
        assert_eq!(FORM.most_levels(), 4);
        assert_eq!(FORM.level(2).sizes, [2, 1, 0]);
        let layered = Form { sizes: [10, 6, 64], flags: LAYERED, ..FORM };
        assert_eq!((layered.most_levels(), layered.level(3).sizes), (4, [1, 1, 64]));
        assert_eq!(Form { sizes: [1, 1, 8], ..FORM }.most_levels(), 4);
    }

    #[test]
    fn the_size_of_an_array_follows_its_form() {
        assert_eq!(FORM.check(), Ok(10 * 6 * 8));
        assert_eq!(Form { sizes: [5, 0, 0], format: 1, ..FORM }.check(), Ok(10));
        let cube = Form { sizes: [4, 4, 6], flags: CUBEMAP, format: 1, channels: 1 };
        assert_eq!(cube.check(), Ok(96));
        for sizes in [[4, 5, 6], [4, 4, 5], [4, 0, 6]] {
            assert_eq!(Form { sizes, ..cube }.check(), Err(INVALID), "{sizes:?}");
        }
    }
}
