//! Pointers of a C caller: each is checked for null, and read or written in this file.

use std::ffi::{CStr, c_char};
use std::mem::{MaybeUninit, size_of};
use std::{ptr, slice};

use gpulend::{LayoutError, MOST_AXES};

use crate::refusal::Refusal;

/// A pointer for a result, not null.
#[derive(Clone, Copy)]
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Refuses null, before any work is done for the result.
    ///
    /// # Safety
    ///
    /// (1) of the crate, as long as the result is used.
    pub(crate) unsafe fn at(place: *mut T, name: &'static str) -> Result<Self, Refusal> {
        if place.is_null() {
            return Err(Refusal::argument(name, "is NULL; pass where the result goes"));
        }
        Ok(Self(place))
    }

    /// Writes the result.
    pub(crate) fn put(self, value: T) {
        // SAFETY: the contract of `at`; callers without a type for it, as ctypes, may not align it.
        unsafe { self.0.write_unaligned(value) }
    }
}

/// A struct that may grow at its end, and begins with the number of bytes that the caller knows.
///
/// # Safety
///
/// 1. It is `repr(C)`, and its first field is `size: u64`.
/// 2. All its bytes may be zero.
pub(crate) unsafe trait Growing: Copy {
    /// The size of its first version.
    const FIRST: u64;
    /// Sets the number of bytes that the caller knows.
    fn set_size(&mut self, size: u64);
}

/// No struct is longer, in any version.
const MOST_BYTES: u64 = 4096;

/// More options, names or headers than any program has.
const MOST_TEXTS: u32 = 1 << 16;

/// The number of bytes of a struct that the caller knows.
///
/// # Safety
///
/// (1) of the crate.
unsafe fn size_of_callers<T: Growing>(place: *const T, name: &'static str) -> Result<u64, Refusal> {
    if place.is_null() {
        return Err(Refusal::argument(name, "is NULL; pass a struct whose size field is set"));
    }
    // SAFETY: the contract; (1) of `Growing`.
    let size = unsafe { place.cast::<u64>().read_unaligned() };
    if (T::FIRST..=MOST_BYTES).contains(&size) {
        return Ok(size);
    }
    let problem = format!("has size {size}; set it to the struct's sizeof, {} or more", T::FIRST);
    Err(Refusal::argument(name, problem))
}

/// Reads a struct; fields that the caller does not know are zero.
///
/// # Safety
///
/// (1) of the crate, for as many bytes as its size field says.
pub(crate) unsafe fn read_sized<T: Growing>(
    place: *const T,
    name: &'static str,
) -> Result<T, Refusal> {
    // SAFETY: the contract.
    let size = unsafe { size_of_callers(place, name) }?;
    let known = usize::try_from(size).unwrap_or(0).min(size_of::<T>());
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: the contract; `known` bytes are in both.
    unsafe { ptr::copy_nonoverlapping(place.cast::<u8>(), value.as_mut_ptr().cast(), known) };
    // SAFETY: (2) of `Growing`, and the caller wrote a value of the type.
    Ok(unsafe { value.assume_init() })
}

/// A caller's struct to be filled.
pub(crate) struct Form<T> {
    place: *mut T,
    size: u64,
}

impl<T: Growing> Form<T> {
    /// Refuses null and impossible sizes.
    ///
    /// # Safety
    ///
    /// (1) of the crate, for as many bytes as its size field says, as long as the result is used.
    pub(crate) unsafe fn at(place: *mut T, name: &'static str) -> Result<Self, Refusal> {
        // SAFETY: the contract.
        let size = unsafe { size_of_callers(place, name) }?;
        Ok(Self { place, size })
    }

    /// Fills the fields that the caller knows; fields that only the caller knows become zero.
    pub(crate) fn fill(self, mut value: T) {
        value.set_size(self.size);
        let size = usize::try_from(self.size).unwrap_or(0);
        let known = size.min(size_of::<T>());
        // SAFETY: the contract of `at`, and `known` is no more than either has.
        unsafe {
            ptr::copy_nonoverlapping((&raw const value).cast::<u8>(), self.place.cast(), known)
        };
        let rest = self.place.cast::<u8>().wrapping_add(known);
        // SAFETY: the contract of `at`: the caller's struct has `size` bytes.
        unsafe { rest.write_bytes(0, size - known) };
    }
}

/// Bytes of the caller.
///
/// # Safety
///
/// (1) of the crate: `size` bytes, or null; the result is used only until the function returns.
pub(crate) unsafe fn bytes<'a>(
    first: *const u8,
    size: u64,
    name: &'static str,
) -> Result<&'a [u8], Refusal> {
    let Some(size) = usize::try_from(size).ok().filter(|size| *size <= MOST_TAKEN) else {
        let problem = format!("is said to have {size} bytes; at most {MOST_TAKEN} are taken");
        return Err(Refusal::argument(name, problem));
    };
    if first.is_null() {
        return Err(Refusal::argument(name, "is NULL"));
    }
    // SAFETY: the contract; null was refused.
    Ok(unsafe { slice::from_raw_parts(first, size) })
}

/// Writes bytes where the caller has room for them.
///
/// # Safety
///
/// There is.
pub(crate) unsafe fn put_bytes(content: &[u8], place: *mut u8) {
    // SAFETY: the contract.
    unsafe { ptr::copy_nonoverlapping(content.as_ptr(), place, content.len()) };
}

/// More bytes than this are refused before they are read.
const MOST_TAKEN: usize = 1 << 20;

/// The numbers of a shape or of strides.
///
/// # Safety
///
/// (1) of the crate: `count` numbers, or null; the result is used only until the function returns.
pub(crate) unsafe fn numbers<'a>(
    first: *const i64,
    count: i32,
    name: &'static str,
) -> Result<&'a [i64], Refusal> {
    let rank = usize::try_from(count).ok().filter(|rank| *rank <= MOST_AXES);
    let Some(rank) = rank else {
        return Err(LayoutError::TooManyAxes { rank: count.into(), most: MOST_AXES }.into());
    };
    if rank == 0 {
        return Ok(&[]);
    }
    if first.is_null() {
        let problem = format!("is NULL although there are {rank} axes");
        return Err(Refusal::argument(name, problem));
    }
    if !first.is_aligned() {
        return Err(Refusal::argument(name, "is not aligned as an array of int64_t"));
    }
    // SAFETY: the contract; null was refused.
    Ok(unsafe { slice::from_raw_parts(first, rank) })
}

/// A string, or nothing for null.
///
/// # Safety
///
/// (1) of the crate; the result is used only until the function returns.
pub(crate) unsafe fn text<'a>(
    first: *const c_char,
    name: &'static str,
) -> Result<Option<&'a str>, Refusal> {
    if first.is_null() {
        return Ok(None);
    }
    // SAFETY: the contract.
    let text = unsafe { CStr::from_ptr(first) };
    text.to_str().map(Some).map_err(|_| Refusal::argument(name, "is not UTF-8"))
}

/// Strings, none of which is null.
///
/// # Safety
///
/// (1) of the crate: `count` texts from `first`, which may be null if `count` is 0.
pub(crate) unsafe fn texts(
    first: *const *const c_char,
    count: u32,
    name: &'static str,
) -> Result<Vec<String>, Refusal> {
    if count > MOST_TEXTS {
        let problem = format!("are said to be {count}; at most {MOST_TEXTS} are taken");
        return Err(Refusal::argument(name, problem));
    }
    if count > 0 && first.is_null() {
        return Err(Refusal::argument(name, format!("is NULL although there are {count}")));
    }
    let read = |index: u32| {
        // SAFETY: the contract; null was refused.
        let place = unsafe { first.wrapping_add(index as usize).read_unaligned() };
        // SAFETY: the contract.
        let found = unsafe { text(place, name) }?;
        let missing = || Refusal::argument(name, format!("have NULL at place {index}"));
        found.map(str::to_owned).ok_or_else(missing)
    };
    (0..count).map(read).collect()
}

/// Writes a string as `snprintf` does: as much as fits, and the number of bytes that it needs with its NUL.
///
/// # Safety
///
/// (1) of the crate: `room` bytes from `place`, which may be null if `room` is 0; `needed` may be null.
pub(crate) unsafe fn put_text(
    content: &str,
    place: *mut c_char,
    room: u64,
    needed: *mut u64,
) -> Result<(), Refusal> {
    if !needed.is_null() {
        // SAFETY: the contract.
        unsafe { needed.write_unaligned(content.len() as u64 + 1) };
    }
    let Some(room) = usize::try_from(room).ok().and_then(|room| room.checked_sub(1)) else {
        return Ok(());
    };
    if place.is_null() {
        return Err(Refusal::argument("text", "is NULL although room is not 0"));
    }
    let fits = content.floor_char_boundary_before(room);
    // SAFETY: the contract; there is room for `fits` bytes and one more.
    unsafe { ptr::copy_nonoverlapping(content.as_ptr(), place.cast(), fits) };
    let end = place.wrapping_add(fits);
    // SAFETY: as above.
    unsafe { end.write(0) };
    Ok(())
}

trait Cut {
    fn floor_char_boundary_before(&self, most: usize) -> usize;
}

impl Cut for str {
    /// The most bytes, up to `most`, that do not split a character.
    fn floor_char_boundary_before(&self, most: usize) -> usize {
        let most = most.min(self.len());
        (0..=most).rev().find(|at| self.is_char_boundary(*at)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_to_its_room_between_letters() {
        let mut place = [1_u8; 8];
        let mut needed = 0;
        let first = place.as_mut_ptr().cast();
        for (room, expected) in [(8, "a\u{e4}bc"), (5, "a\u{e4}b"), (3, "a"), (1, "")] {
            // SAFETY: as many bytes are there.
            unsafe { put_text("a\u{e4}bc", first, room, &raw mut needed) }.unwrap();
            // SAFETY: it ends in NUL.
            let found = unsafe { text(first, "text") }.unwrap();
            assert_eq!((found, needed), (Some(expected), 6));
        }
        // SAFETY: nothing is written.
        unsafe { put_text("abc", ptr::null_mut(), 0, ptr::null_mut()) }.unwrap();
        // SAFETY: null is refused.
        assert!(unsafe { put_text("abc", ptr::null_mut(), 5, ptr::null_mut()) }.is_err());
    }
}
