//! Functions of torch's libraries, by name.

use std::ffi::c_int;

use libloading::os::unix::{Library, RTLD_LAZY};

/// `RTLD_NOLOAD` of glibc: find the library only if the process has it already.
const RTLD_NOLOAD: c_int = 4;

pub(super) const CORE: &str = "libc10.so";
pub(super) const CPU: &str = "libtorch_cpu.so";
pub(super) const PYTHON: &str = "libtorch_python.so";

/// A function of a library that the process has.
///
/// # Safety
///
/// `T` is the type of the function of that name.
pub(super) unsafe fn find<T: Copy>(library: &str, name: &str) -> Option<T> {
    // SAFETY: nothing is loaded, so no initialiser runs.
    let library = unsafe { Library::open(Some(library), RTLD_LAZY | RTLD_NOLOAD) }.ok()?;
    // SAFETY: the contract; torch's libraries are never unloaded.
    let symbol = unsafe { library.get(name.as_bytes()) }.ok()?;
    Some(*symbol)
}
