//! What every function for C is made of: checked pointers, and the frame that catches panics and notes errors.

use std::ffi::{c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::driver::Shared;
use crate::error::{self, Error, Outcome};

/// A handle of the driver's: a stream, an event, a graph, a module. Zero is none, or the default one.
pub type Handle = usize;

/// A place for a result. Only a C caller makes one; the contract of every function says that it is null or valid.
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
    /// Returns the pointer, which may be null.
    pub(crate) fn raw(self) -> *mut T {
        self.0
    }

    /// Refuses null.
    pub(crate) fn required(self) -> Outcome<Self> {
        if self.0.is_null() { Err(Error::INVALID_VALUE) } else { Ok(self) }
    }

    /// Writes a required result.
    pub(crate) fn put(self, value: T) -> Outcome<()> {
        self.required()?.offer(value);
        Ok(())
    }

    /// Writes a result if the caller wants it.
    pub(crate) fn offer(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: the contract of the function that C called; C does not promise alignment.
            unsafe { self.0.write_unaligned(value) };
        }
    }
}

/// A place for a result that the caller may not want: null is allowed.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Maybe<T>(*mut T);

/// A pointer to a value that the caller wrote. Only a C caller makes one.
#[repr(transparent)]
#[derive(Debug)]
pub struct In<T>(*const T);

impl<T> Clone for In<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for In<T> {}

impl<T: Copy> In<T> {
    /// Reads the value, or refuses null.
    pub(crate) fn get(self) -> Outcome<T> {
        if self.0.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        // SAFETY: the contract of the function that C called; C does not promise alignment.
        Ok(unsafe { self.0.read_unaligned() })
    }
}

/// An argument that is passed on to the driver.
pub(crate) trait Argument: Copy {
    /// What the driver's function takes.
    type Passed;

    /// Refuses null where a result belongs.
    fn check(self) -> Outcome<()> {
        Ok(())
    }

    /// Returns what the driver's function takes.
    fn pass(self) -> Self::Passed;
}

macro_rules! plain {
    ($($type:ty),*) => {$(
        impl Argument for $type {
            type Passed = Self;

            fn pass(self) -> Self {
                self
            }
        }
    )*};
}

plain!(u8, u16, c_int, u32, u64, usize, *const c_void, *const c_char, *const Handle, Shared);

impl<T> Argument for *mut T {
    type Passed = Self;

    fn pass(self) -> Self {
        self
    }
}

impl<T> Argument for Out<T> {
    type Passed = *mut T;

    fn check(self) -> Outcome<()> {
        self.required().map(|_| ())
    }

    fn pass(self) -> *mut T {
        self.0
    }
}

impl<T: Copy> Argument for Maybe<T> {
    type Passed = *mut T;

    fn pass(self) -> *mut T {
        self.0
    }
}

impl<T> Argument for In<T> {
    type Passed = *const T;

    fn check(self) -> Outcome<()> {
        if self.0.is_null() { Err(Error::INVALID_VALUE) } else { Ok(()) }
    }

    fn pass(self) -> *const T {
        self.0
    }
}

impl<R> Argument for Option<unsafe extern "C" fn(*mut c_void) -> R> {
    type Passed = Self;

    fn check(self) -> Outcome<()> {
        if self.is_none() { Err(Error::INVALID_VALUE) } else { Ok(()) }
    }

    fn pass(self) -> Self {
        self
    }
}

impl Argument for Option<unsafe extern "C" fn(Handle, c_int, *mut c_void)> {
    type Passed = Self;

    fn check(self) -> Outcome<()> {
        if self.is_none() { Err(Error::INVALID_VALUE) } else { Ok(()) }
    }

    fn pass(self) -> Self {
        self
    }
}

/// Runs the body of a function for C: catches panics, and notes an error as the thread's last one.
pub(crate) fn guard(body: impl FnOnce() -> Outcome<()>) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(found)) => error::note(found),
        Err(_) => error::note(Error::UNKNOWN),
    }
}

/// Defines functions for C. Each body returns an `Outcome<()>`.
macro_rules! runtime {
    ($($(#[doc = $doc:literal])+ fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block)*) => {$(
        $(#[doc = $doc])+
        ///
        /// # Safety
        ///
        /// Pointers are null or as CUDA's documentation of the function wants them.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "the names are CUDA's")]
        #[allow(clippy::too_many_arguments, reason = "they are CUDA's")]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> std::ffi::c_int {
            $crate::wire::guard(|| $body)
        }
    )*};
}
pub(crate) use runtime;

/// Defines functions for C that only call one of the driver's: after `=` with a context, after `:` without one.
macro_rules! forward {
    () => {};
    ($(#[doc = $doc:literal])+ fn $name:ident($($argument:ident: $type:ty),* $(,)?)
        = $function:ident($($passed:expr),*); $($rest:tt)*) => {
        $crate::wire::forward! { @one enter $(#[doc = $doc])+ fn $name($($argument: $type),*) $function($($passed),*) }
        $crate::wire::forward! { $($rest)* }
    };
    ($(#[doc = $doc:literal])+ fn $name:ident($($argument:ident: $type:ty),* $(,)?)
        : $function:ident($($passed:expr),*); $($rest:tt)*) => {
        $crate::wire::forward! { @one driver $(#[doc = $doc])+ fn $name($($argument: $type),*) $function($($passed),*) }
        $crate::wire::forward! { $($rest)* }
    };
    (@one $start:ident $(#[doc = $doc:literal])+ fn $name:ident($($argument:ident: $type:ty),*)
        $function:ident($($passed:expr),*)) => {
        $crate::wire::runtime! {
            $(#[doc = $doc])+
            fn $name($($argument: $type),*) {
                $($crate::wire::Argument::check($argument)?;)*
                let driver = $crate::state::$start()?;
                // SAFETY: the caller's pointers are as CUDA's documentation wants them, the driver wants the same of
                // them, and places for results are not null.
                unsafe { driver.$function($($crate::wire::Argument::pass($passed)),*) }
            }
        }
    };
}
pub(crate) use forward;
