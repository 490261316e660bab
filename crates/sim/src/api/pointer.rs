//! Pointers from C callers. Each is checked for null, and only this file reads or writes through them.

use std::ffi::{CStr, c_char, c_void};
use std::os::fd::{BorrowedFd, RawFd};

use crate::bytes::Range;
use crate::machine::copy::{Operand, Side};
use crate::status::{Outcome, Status};

/// An output pointer. Only a C caller can make one; (1) of every function says that it is null or valid.
#[repr(transparent)]
#[derive(Debug)]
pub struct Out<T>(*mut T);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<T> {}

impl<T> Out<T> {
    /// Returns a null pointer, for a result that is not needed.
    pub(super) fn nowhere() -> Self {
        Self(std::ptr::null_mut())
    }

    /// Returns the pointer to an array element.
    pub(super) fn element(self, index: usize) -> Self {
        if self.is_null() { self } else { Self(self.0.wrapping_add(index)) }
    }

    /// Returns the address as a number.
    pub(super) fn number(self) -> usize {
        self.0.expose_provenance()
    }

    /// Returns whether it is null: the caller does not want the result.
    pub(super) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Refuses a null pointer.
    pub(super) fn required(self) -> Outcome<Self> {
        if self.is_null() { Err(Status::ERROR_INVALID_VALUE) } else { Ok(self) }
    }

    /// Writes a required result.
    pub(super) fn put(self, value: T) -> Outcome<()> {
        self.required()?.offer(value);
        Ok(())
    }

    /// Writes an optional result.
    pub(super) fn offer(self, value: T) {
        if !self.is_null() {
            // SAFETY: (1) of the function that was called; C does not promise alignment.
            unsafe { self.0.write_unaligned(value) };
        }
    }

    /// Returns the value that the caller wrote there before the call.
    pub(super) fn take(self) -> Outcome<T>
    where
        T: Copy,
    {
        self.required()?;
        // SAFETY: as in `offer`; the callers of this read and write the same place.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// Writes as many results as the caller has room for.
    pub(super) fn put_list(self, values: impl Iterator<Item = T>) {
        for (index, value) in values.enumerate() {
            self.element(index).offer(value);
        }
    }

    /// Writes several results.
    ///
    /// # Safety
    ///
    /// 1. There is room for all items of `values`.
    pub(super) unsafe fn put_all(self, values: impl Iterator<Item = T>) {
        for (index, value) in values.enumerate() {
            // SAFETY: (1).
            let place = unsafe { self.0.add(index) };
            Self(place).offer(value);
        }
    }
}

impl Out<c_char> {
    /// Writes a text of at most `room` bytes, including its NUL.
    pub(super) fn put_text(self, text: &str, room: i32) -> Outcome<()> {
        let room = usize::try_from(room)
            .ok()
            .filter(|room| *room > 0)
            .ok_or(Status::ERROR_INVALID_VALUE)?;
        self.required()?;
        let bytes = text.bytes().take(room - 1).chain([0]);
        // SAFETY: (1): at most `room` bytes are taken, which the caller said there is room for.
        unsafe { self.put_all(bytes.map(|byte| c_char::from_ne_bytes([byte]))) };
        Ok(())
    }
}

/// An input pointer.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct In<T>(*const T);

impl<T: Copy> In<T> {
    /// Reads the value.
    pub(super) fn get(self) -> Outcome<T> {
        // SAFETY: (1) of the function that was called: there is one.
        unsafe { self.at(0) }
    }

    /// Reads an array element.
    ///
    /// # Safety
    ///
    /// 1. The pointer is null, or the array has more than `index` elements.
    pub(super) unsafe fn at(self, index: usize) -> Outcome<T> {
        if self.0.is_null() {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        // SAFETY: (1).
        let place = unsafe { self.0.add(index) };
        // SAFETY: (1); C does not promise alignment.
        Ok(unsafe { place.read_unaligned() })
    }

    /// Returns the pointer to an array element.
    pub(super) fn element(self, index: usize) -> Self {
        if self.is_null() { self } else { Self(self.0.wrapping_add(index)) }
    }

    /// Reads `count` elements.
    pub(super) fn list(self, count: usize) -> Outcome<Vec<T>> {
        (0..count).map(|index| self.element(index).get()).collect()
    }

    /// Returns whether it is null.
    pub(super) fn is_null(self) -> bool {
        self.0.is_null()
    }
}

impl In<c_char> {
    /// Returns the C string.
    pub(super) fn text(self) -> Outcome<&'static CStr> {
        if self.0.is_null() {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        // SAFETY: (1) of the function that was called; the text is not kept beyond the call.
        Ok(unsafe { CStr::from_ptr(self.0) })
    }
}

/// Returns a caller's file, for the time of a call.
pub(super) fn borrowed(descriptor: RawFd) -> Outcome<BorrowedFd<'static>> {
    // SAFETY: the call changes nothing, whatever the number is.
    if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } < 0 {
        return Err(Status::ERROR_UNKNOWN);
    }
    // SAFETY: it is open, and (1) of the function that was called: the caller leaves it open during the call.
    Ok(unsafe { BorrowedFd::borrow_raw(descriptor) })
}

/// An address from a caller, not yet resolved to any memory.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Address(pub(super) *mut c_void);

impl Address {
    /// Returns the address as a number.
    pub(super) fn number(self) -> usize {
        self.0.expose_provenance()
    }

    /// Returns the address as an output pointer.
    pub(super) fn as_out<T>(self) -> Out<T> {
        Out(self.0.cast())
    }

    /// Returns the address with this number.
    pub(super) fn at(number: usize) -> Self {
        Self(std::ptr::with_exposed_provenance_mut(number))
    }

    /// Returns the address as an input pointer.
    pub(super) fn as_in<T>(self) -> In<T> {
        In(self.0.cast_const().cast())
    }

    /// Returns the address plus an offset.
    pub(super) fn forward(self, bytes: usize) -> Outcome<Self> {
        let number = self.number().checked_add(bytes).ok_or(Status::ERROR_INVALID_VALUE)?;
        Ok(Self::at(number))
    }

    /// Returns a range that the caller guarantees.
    pub(super) fn range(self, bytes: usize) -> Range {
        // SAFETY: (1) of the function that was called.
        unsafe { Range::of_caller(self.number(), bytes) }
    }

    /// Returns an operand in any memory.
    pub(super) fn any(self, bytes: usize) -> Operand {
        Operand { range: self.range(bytes), side: Side::Any }
    }

    /// Returns an operand in memory that a device can access.
    pub(super) fn device(self, bytes: usize) -> Operand {
        Operand { range: self.range(bytes), side: Side::Device }
    }
}
