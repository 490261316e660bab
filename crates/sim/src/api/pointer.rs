//! Pointers of a C caller: each is checked for null, and read or written in this file.

use std::ffi::{CStr, c_char, c_void};

use crate::bytes::Range;
use crate::machine::copy::{Operand, Side};
use crate::status::{Outcome, Status};

/// Where a result goes. Only a C caller can make one, and (1) of every function says that it is null or valid.
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
    /// Returns a pointer for a result that is not needed.
    pub(super) fn nowhere() -> Self {
        Self(std::ptr::null_mut())
    }

    /// Returns the place of an element of an array.
    pub(super) fn element(self, index: usize) -> Self {
        if self.is_null() { self } else { Self(self.0.wrapping_add(index)) }
    }

    /// Returns the address as a number.
    pub(super) fn number(self) -> usize {
        self.0.expose_provenance()
    }

    /// Returns whether the caller does not want the result.
    pub(super) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Refuses a null pointer.
    pub(super) fn required(self) -> Outcome<Self> {
        if self.is_null() { Err(Status::ERROR_INVALID_VALUE) } else { Ok(self) }
    }

    /// Gives a result that the caller must want.
    pub(super) fn put(self, value: T) -> Outcome<()> {
        self.required()?.offer(value);
        Ok(())
    }

    /// Gives a result that the caller may not want.
    pub(super) fn offer(self, value: T) {
        if !self.is_null() {
            // SAFETY: (1) of the function that was called; C does not promise alignment.
            unsafe { self.0.write_unaligned(value) };
        }
    }

    /// Returns what the caller wrote there before the call.
    pub(super) fn take(self) -> Outcome<T>
    where
        T: Copy,
    {
        self.required()?;
        // SAFETY: as in `offer`; the callers of this read and write the same place.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// Gives as many results as the caller said that there is room for.
    pub(super) fn put_list(self, values: impl Iterator<Item = T>) {
        for (index, value) in values.enumerate() {
            self.element(index).offer(value);
        }
    }

    /// Gives several results.
    ///
    /// # Safety
    ///
    /// 1. There is room for as many as `values` gives.
    pub(super) unsafe fn put_all(self, values: impl Iterator<Item = T>) {
        for (index, value) in values.enumerate() {
            // SAFETY: (1).
            let place = unsafe { self.0.add(index) };
            Self(place).offer(value);
        }
    }
}

impl Out<c_char> {
    /// Writes a text of at most `room` bytes, its end included.
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

/// What a function reads.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct In<T>(*const T);

impl<T: Copy> In<T> {
    /// Returns what the pointer points to.
    pub(super) fn get(self) -> Outcome<T> {
        // SAFETY: (1) of the function that was called: there is one.
        unsafe { self.at(0) }
    }

    /// Returns an element of the array that the pointer points to.
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

    /// Returns an element, and those after it.
    pub(super) fn element(self, index: usize) -> Self {
        if self.is_null() { self } else { Self(self.0.wrapping_add(index)) }
    }

    /// Returns as many elements as the caller said that there are.
    pub(super) fn list(self, count: usize) -> Outcome<Vec<T>> {
        (0..count).map(|index| self.element(index).get()).collect()
    }

    /// Returns whether there is nothing to read.
    pub(super) fn is_null(self) -> bool {
        self.0.is_null()
    }
}

impl In<c_char> {
    /// Returns the text up to its end.
    pub(super) fn text(self) -> Outcome<&'static CStr> {
        if self.0.is_null() {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        // SAFETY: (1) of the function that was called; the text is not kept beyond the call.
        Ok(unsafe { CStr::from_ptr(self.0) })
    }
}

/// Memory that a caller names: an address, not yet known to be anything.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Address(pub(super) *mut c_void);

impl Address {
    /// Returns the address as a number.
    pub(super) fn number(self) -> usize {
        self.0.expose_provenance()
    }

    /// Returns the address as a place for a result.
    pub(super) fn as_out<T>(self) -> Out<T> {
        Out(self.0.cast())
    }

    /// Returns the place that a number names.
    pub(super) fn at(number: usize) -> Self {
        Self(std::ptr::with_exposed_provenance_mut(number))
    }

    /// Returns the address as something to read.
    pub(super) fn as_in<T>(self) -> In<T> {
        In(self.0.cast_const().cast())
    }

    /// Returns an address further on.
    pub(super) fn forward(self, bytes: usize) -> Outcome<Self> {
        let number = self.number().checked_add(bytes).ok_or(Status::ERROR_INVALID_VALUE)?;
        Ok(Self::at(number))
    }

    /// Returns bytes that the caller guarantees.
    pub(super) fn range(self, bytes: usize) -> Range {
        // SAFETY: (1) of the function that was called.
        unsafe { Range::of_caller(self.number(), bytes) }
    }

    /// Returns bytes of any memory.
    pub(super) fn any(self, bytes: usize) -> Operand {
        Operand { range: self.range(bytes), side: Side::Any }
    }

    /// Returns bytes that a device must reach.
    pub(super) fn device(self, bytes: usize) -> Operand {
        Operand { range: self.range(bytes), side: Side::Device }
    }
}
