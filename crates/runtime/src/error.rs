//! Errors: the thread's last one, and their names.

use std::cell::Cell;
use std::ffi::{c_char, c_int};

use crate::error_table::ERRORS;
use crate::state;

/// An error of the runtime: a value of `cudaError_t`, which is not zero. Nearly all are those of `CUresult`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Error(pub(crate) c_int);

/// A result of this crate.
pub(crate) type Outcome<T> = Result<T, Error>;

impl Error {
    pub(crate) const INVALID_VALUE: Self = Self(1);
    pub(crate) const INVALID_CONFIGURATION: Self = Self(9);
    pub(crate) const INVALID_PITCH: Self = Self(12);
    pub(crate) const INVALID_SYMBOL: Self = Self(13);
    pub(crate) const INVALID_CHANNEL: Self = Self(20);
    pub(crate) const INVALID_DIRECTION: Self = Self(21);
    pub(crate) const INVALID_FILTER: Self = Self(26);
    pub(crate) const INSUFFICIENT_DRIVER: Self = Self(35);
    pub(crate) const MISSING_CONFIGURATION: Self = Self(52);
    pub(crate) const INVALID_FUNCTION: Self = Self(98);
    pub(crate) const NO_DEVICE: Self = Self(100);
    pub(crate) const INVALID_DEVICE: Self = Self(101);
    pub(crate) const INVALID_IMAGE: Self = Self(200);
    pub(crate) const INVALID_HANDLE: Self = Self(400);
    pub(crate) const SYMBOL_NOT_FOUND: Self = Self(500);
    pub(crate) const NOT_READY: Self = Self(600);
    pub(crate) const NOT_SUPPORTED: Self = Self(801);
    pub(crate) const UNKNOWN: Self = Self(999);

    /// Makes a result of what a driver function returned.
    pub(crate) fn of(status: c_int) -> Outcome<()> {
        if status == 0 { Ok(()) } else { Err(Self(status)) }
    }

    /// Returns whether the context is lost: every later call fails too, until the device is reset.
    fn is_sticky(self) -> bool {
        matches!(self.0, 214 | 220 | 700 | 702 | 710 | 714..=719 | 721)
    }
}

thread_local! {
    /// The last error, and how often devices had been reset then.
    static LAST: Cell<(c_int, u64)> = const { Cell::new((0, 0)) };
}

/// Notes an error as the thread's last one, and returns its number.
pub(crate) fn note(error: Error) -> c_int {
    if error != Error::NOT_READY {
        // A thread that is ending has no last error.
        let _ = LAST.try_with(|last| last.set((error.0, state::resets())));
    }
    error.0
}

/// Returns the last error, and whether the context is lost by it.
fn last() -> (c_int, bool) {
    let (code, resets) = LAST.try_with(Cell::get).unwrap_or_default();
    let sticky = Error(code).is_sticky();
    // A reset gives the device a new context.
    if sticky && resets != state::resets() { (0, false) } else { (code, sticky) }
}

/// Returns the last error of this thread, and forgets it unless the context is lost.
///
/// # Safety
///
/// There are no pointers.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the names are CUDA's")]
pub unsafe extern "C" fn cudaGetLastError() -> c_int {
    let (code, sticky) = last();
    if !sticky {
        let _ = LAST.try_with(|last| last.set((0, 0)));
    }
    code
}

/// Returns the last error of this thread.
///
/// # Safety
///
/// There are no pointers.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the names are CUDA's")]
pub unsafe extern "C" fn cudaPeekAtLastError() -> c_int {
    last().0
}

const UNRECOGNIZED: &str = "unrecognized error code\0";

fn row(code: c_int) -> Option<&'static (i32, &'static str, &'static str)> {
    ERRORS.binary_search_by_key(&code, |row| row.0).ok().and_then(|index| ERRORS.get(index))
}

/// Returns the name of an error.
///
/// # Safety
///
/// There are no pointers.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the names are CUDA's")]
pub unsafe extern "C" fn cudaGetErrorName(error: c_int) -> *const c_char {
    row(error).map_or(UNRECOGNIZED, |row| row.1).as_ptr().cast()
}

/// Returns the description of an error.
///
/// # Safety
///
/// There are no pointers.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the names are CUDA's")]
pub unsafe extern "C" fn cudaGetErrorString(error: c_int) -> *const c_char {
    row(error).map_or(UNRECOGNIZED, |row| row.2).as_ptr().cast()
}

/// Prints a line for the user. A closed stderr is no reason to fail.
pub(crate) fn say(line: std::fmt::Arguments<'_>) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "gpulend: {line}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::guard;

    #[test]
    fn the_table_is_in_order_and_its_texts_end_in_nul() {
        assert!(ERRORS.is_sorted_by(|one, next| one.0 < next.0));
        assert!(ERRORS.iter().all(|row| row.1.ends_with('\0') && row.2.ends_with('\0')));
    }

    #[test]
    fn an_error_is_forgotten_once_read_unless_the_context_is_lost() {
        assert_eq!(guard(|| Err(Error::INVALID_VALUE)), 1);
        // SAFETY: there are no pointers.
        assert_eq!(unsafe { cudaPeekAtLastError() }, 1);
        // SAFETY: as above.
        assert_eq!(unsafe { cudaGetLastError() }, 1);
        // SAFETY: as above.
        assert_eq!(unsafe { cudaGetLastError() }, 0);
        assert_eq!(guard(|| Err(Error(700))), 700);
        // SAFETY: as above.
        assert_eq!(unsafe { cudaGetLastError() }, 700);
        // SAFETY: as above.
        assert_eq!(unsafe { cudaGetLastError() }, 700);
    }

    #[test]
    fn not_ready_is_no_last_error_and_a_panic_is_one() {
        assert_eq!(guard(|| Err(Error::NOT_READY)), 600);
        // SAFETY: there are no pointers.
        assert_eq!(unsafe { cudaGetLastError() }, 0);
        assert_eq!(guard(|| panic!("a bug")), 999);
        // SAFETY: as above.
        assert_eq!(unsafe { cudaGetLastError() }, 999);
    }

    #[test]
    fn the_header_has_every_error_with_its_number() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../core/headers/program/driver_types.h");
        let text = std::fs::read_to_string(path).unwrap();
        let body = text.split("enum cudaError {").nth(1).unwrap().split('}').next().unwrap();
        let rows =
            body.lines().filter_map(|line| line.trim().trim_end_matches(',').split_once(" = "));
        let of_header: Vec<_> =
            rows.map(|(name, code)| (code.parse::<i32>().unwrap(), name)).collect();
        let ours: Vec<_> = ERRORS.iter().map(|row| (row.0, row.1.trim_end_matches('\0'))).collect();
        assert_eq!(of_header, ours);
    }
}
