//! `cuInit`, versions, names of error codes, and `cuGetProcAddress`.

use std::ffi::{c_char, c_void};

use super::entry;
use super::pointer::{In, Out};
use super::{process, table};
use crate::machine::device::DRIVER_VERSION;
use crate::status::{Outcome, Status};

/// `CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM`.
const PER_THREAD: u64 = 2;
/// The flags of `cuGetProcAddress`.
const LOOKUP_FLAGS: u64 = 3;

entry! {
    /// Makes the machine.
    fn cuInit(flags: u32) |_call| {
        if flags != 0 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        process::start()
    }
}

entry! {
    /// Returns the newest supported CUDA version.
    fn cuDriverGetVersion(version: Out<i32>) |_call| { version.put(DRIVER_VERSION) }
}

entry! {
    /// Returns the name of a code.
    fn cuGetErrorName(error: Status, text: Out<*const c_char>) |_call| { put_words(error.name(), text) }
}

entry! {
    /// Returns the description of a code.
    fn cuGetErrorString(error: Status, text: Out<*const c_char>) |_call| { put_words(error.meaning(), text) }
}

fn put_words(words: Option<&'static std::ffi::CStr>, text: Out<*const c_char>) -> Outcome<()> {
    text.put(words.map_or(std::ptr::null(), std::ffi::CStr::as_ptr))?;
    words.map(|_| ()).ok_or(Status::ERROR_INVALID_VALUE)
}

entry! {
    /// Finds a function, or returns `NOT_FOUND`.
    fn cuGetProcAddress(name: In<c_char>, function: Out<*const ()>, version: i32, flags: u64) |_call| {
        match find(name, version, flags, false)? {
            Found::Function(address) => function.put(address),
            Found::Unknown | Found::TooNew => Err(Status::ERROR_NOT_FOUND),
        }
    }
}

entry! {
    /// Finds a function. A separate output says whether it exists.
    fn cuGetProcAddress_v2(
        name: In<c_char>,
        function: Out<*const ()>,
        version: i32,
        flags: u64,
        status: Out<i32>,
    ) |_call| { put_found(find(name, version, flags, false)?, function, status) }
}

entry! {
    /// Like `cuGetProcAddress_v2`, for programs whose stream 0 is the per-thread one.
    fn cuGetProcAddress_v2_ptsz(
        name: In<c_char>,
        function: Out<*const ()>,
        version: i32,
        flags: u64,
        status: Out<i32>,
    ) |_call| { put_found(find(name, version, flags, true)?, function, status) }
}

enum Found {
    Function(*const ()),
    Unknown,
    /// It exists only in a newer CUDA than the caller's.
    TooNew,
}

fn put_found(found: Found, function: Out<*const ()>, status: Out<i32>) -> Outcome<()> {
    let (address, code) = match found {
        Found::Function(address) => (address, 0),
        Found::Unknown => (std::ptr::null(), 1),
        Found::TooNew => (std::ptr::null(), 2),
    };
    function.put(address)?;
    status.offer(code);
    Ok(())
}

fn find(name: In<c_char>, version: i32, flags: u64, per_thread: bool) -> Outcome<Found> {
    if flags & !LOOKUP_FLAGS != 0 || version > DRIVER_VERSION {
        return Err(Status::ERROR_INVALID_VALUE);
    }
    let name = name.text()?.to_bytes();
    // A negative version means the newest.
    let version = if version < 0 { DRIVER_VERSION } else { version };
    let per_thread = if flags == 0 { per_thread } else { flags & PER_THREAD != 0 };
    let named = || table::FUNCTIONS.iter().filter(|row| row.name.as_bytes() == name);
    let newest = |of_thread: bool| {
        named()
            .filter(|row| row.per_thread == of_thread && row.since <= version)
            .max_by_key(|row| row.since)
    };
    // Functions without a stream have one form only.
    let row = newest(per_thread && named().any(|row| row.per_thread));
    Ok(match row {
        Some(row) => Found::Function(row.address.0),
        None if named().next().is_some() => Found::TooNew,
        None => Found::Unknown,
    })
}

entry! {
    /// Finds no table: there is no private interface here.
    fn cuGetExportTable(table: Out<*const c_void>, _id: In<[u8; 16]>) |_call| {
        table.offer(std::ptr::null());
        process::explain_tables();
        Err(Status::ERROR_NOT_FOUND)
    }
}

entry! {
    /// Does nothing: there is no profiler to start.
    fn cuProfilerStart() |call| { call.context().map(|_| ()) }
}

entry! {
    /// Does nothing: there is no profiler to stop.
    fn cuProfilerStop() |call| { call.context().map(|_| ()) }
}
