//! `gpulend.memory` and `gpulend.pool`: the memory that gpulend allocates, and blocks of it for frameworks.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int, c_void};
use std::panic::catch_unwind;
use std::sync::OnceLock;
use std::{mem, ptr};

use gpulend::pool::{self, Mode, User};
use gpulend::stream::Stream;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{BAD_ARGUMENT, raise, refused};
use crate::{reaper, stream};

/// What gpulend's memory on a device comes to: numbers by name, and the bytes of each user.
#[pyfunction]
#[pyo3(signature = (device = None))]
pub(crate) fn pool_usage<'py>(
    py: Python<'py>,
    device: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    reaper::catch_up(py);
    let index = stream::index_of(device)?;
    let usage = pool::usage(index);
    let found = PyDict::new(py);
    found.set_item("live", usage.live)?;
    found.set_item("cached", usage.cached)?;
    found.set_item("peak", usage.peak)?;
    found.set_item("reserved", usage.reserved)?;
    found.set_item("largest", usage.largest)?;
    found.set_item("blocks", usage.blocks)?;
    found.set_item("segments", usage.segments)?;
    found.set_item("fragmentation", usage.fragmentation())?;
    found.set_item("limit", pool::limit(index))?;
    let users = PyDict::new(py);
    for (user, bytes) in User::ALL.into_iter().zip(usage.users).filter(|(_, bytes)| *bytes > 0) {
        users.set_item(user.name(), bytes)?;
    }
    found.set_item("users", users)?;
    Ok(found)
}

/// Gives cached memory of a device back to the driver until at most `keep` bytes are left. Returns how many bytes went.
#[pyfunction]
#[pyo3(signature = (keep = 0, device = None))]
pub(crate) fn pool_trim(
    py: Python<'_>,
    keep: u64,
    device: Option<&Bound<'_, PyAny>>,
) -> PyResult<u64> {
    reaper::catch_up(py);
    let index = stream::index_of(device)?;
    py.detach(|| pool::trim(index, keep)).map_err(raise)
}

/// Limits what a device's pool may have from the driver; `None` takes the limit away.
#[pyfunction]
#[pyo3(signature = (limit, device = None))]
pub(crate) fn pool_set_limit(
    py: Python<'_>,
    limit: Option<u64>,
    device: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    let index = stream::index_of(device)?;
    py.detach(|| pool::set_limit(index, limit)).map_err(raise)
}

/// Lets the peak of a device count from now on.
#[pyfunction]
#[pyo3(signature = (device = None))]
pub(crate) fn pool_reset_peak(device: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    pool::reset_peak(stream::index_of(device)?);
    Ok(())
}

/// Whether gpulend's pool serves allocations.
#[pyfunction]
pub(crate) fn pool_is_on(py: Python<'_>) -> PyResult<bool> {
    py.detach(pool::is_on).map_err(raise)
}

/// Chooses who serves allocations: `"on"`, `"off"` or `"auto"`, as `GPULEND_POOL` does.
#[pyfunction]
pub(crate) fn pool_set_mode(mode: &str) -> PyResult<()> {
    pool::set_mode(mode.parse::<Mode>().map_err(raise)?);
    Ok(())
}

/// Takes a block for a framework, to be used in the order of a stream, and returns its address.
#[pyfunction]
#[pyo3(signature = (user, nbytes, stream, device = None))]
pub(crate) fn pool_allocate(
    py: Python<'_>,
    user: &str,
    nbytes: u64,
    stream: &Bound<'_, PyAny>,
    device: Option<&Bound<'_, PyAny>>,
) -> PyResult<u64> {
    reaper::catch_up(py);
    let Some(user) = User::ALL.into_iter().find(|known| known.name() == user) else {
        return Err(refused(format!("{user:?} is no user of the pool"), BAD_ARGUMENT));
    };
    let home = stream::parse(stream, stream::index_of(device)?)?;
    py.detach(|| pool::allocate_for(user, nbytes, &home)).map_err(raise)
}

/// Gives a block back, in the order of the stream that it was taken for.
#[pyfunction]
pub(crate) fn pool_free(py: Python<'_>, address: u64) -> bool {
    py.detach(|| pool::free_for(None, address))
}

/// A stream of torch's.
///
/// # Safety
///
/// The stream is null, or exists on that device.
unsafe fn torchs(device: u8, stream: *mut c_void) -> Stream {
    let number = stream.addr();
    // SAFETY: the contract; a stream that torch does not keep is not touched later.
    Stream::known(device, number).unwrap_or_else(|| unsafe { Stream::named(device, number, None) })
}

/// What torch calls for memory: null means that there is none, and torch then says so.
///
/// # Safety
///
/// The stream is null, or one of torch's on that device, as torch promises.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn _gpulend_torch_allocate(
    size: isize,
    device: c_int,
    stream: *mut c_void,
) -> *mut c_void {
    take(size, device, stream).0
}

/// What torch calls to free memory. The block knows its size, device and stream.
///
/// # Safety
///
/// The address is compared with those of torch's blocks, so any is fine.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn _gpulend_torch_free(
    address: *mut c_void,
    _size: isize,
    _device: c_int,
    _stream: *mut c_void,
) {
    let _ = catch_unwind(|| pool::free_for(Some(User::Torch), address.expose_provenance() as u64));
}

/// The function of torch's by which C++ code of its own reports an error: it throws.
type Fail = unsafe extern "C-unwind" fn(*const c_char, *const c_char, u32, *const c_char) -> !;
static FAIL: OnceLock<Fail> = OnceLock::new();

/// Keeps the address of torch's function that throws an error: its arguments are a function, a file, a line and a text.
#[pyfunction]
pub(crate) fn torch_fail(address: usize) {
    let address = ptr::with_exposed_provenance::<c_void>(address);
    if !address.is_null() {
        // SAFETY: the caller looked it up by its C++ name, which has these types.
        let _ = FAIL.set(unsafe { mem::transmute::<*const c_void, Fail>(address) });
    }
}

thread_local! {
    /// The text of a thread's last error, until the next: what throws leaves no frame that could free it.
    static TEXT: RefCell<Option<CString>> = const { RefCell::new(None) };
}

/// As `_gpulend_torch_allocate` where torch has no cache of its own: then it does not ask whether there was memory, so this
/// throws an error of torch's if there is none.
///
/// # Safety
///
/// As `_gpulend_torch_allocate`; the caller is C++ code that lets exceptions pass.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn _gpulend_torch_take(
    size: isize,
    device: c_int,
    stream: *mut c_void,
) -> *mut c_void {
    let (address, text) = take(size, device, stream);
    if text.is_null() {
        return address;
    }
    let Some(fail) = FAIL.get() else { return address };
    // SAFETY: strings that end in NUL, of which the last stays until this thread's next error.
    unsafe { fail(c"_gpulend_torch_take".as_ptr(), c"gpulend".as_ptr(), 0, text) }
}

/// The address of a block, or null and why there is none.
fn take(size: isize, device: c_int, stream: *mut c_void) -> (*mut c_void, *const c_char) {
    let allocate = || {
        let device = u8::try_from(device).unwrap_or(u8::MAX);
        // SAFETY: the contract of the functions that torch calls.
        let home = unsafe { torchs(device, stream) };
        pool::allocate_for(User::Torch, u64::try_from(size).unwrap_or(0), &home)
    };
    let error = match catch_unwind(allocate) {
        Ok(Ok(address)) => {
            let address = usize::try_from(address).unwrap_or(0);
            return (ptr::with_exposed_provenance_mut(address), ptr::null());
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => "gpulend failed while it allocated".to_owned(),
    };
    let text = CString::new(format!("CUDA out of memory: {error}")).unwrap_or_default();
    (ptr::null_mut(), TEXT.with_borrow_mut(|kept| kept.insert(text).as_ptr()))
}

/// As `_gpulend_torch_free` where torch has no cache of its own: memory of a graph is not given back.
///
/// # Safety
///
/// As `_gpulend_torch_free`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn _gpulend_torch_give(
    address: *mut c_void,
    _size: isize,
    _device: c_int,
    _stream: *mut c_void,
) {
    let address = address.expose_provenance() as u64;
    let _ = catch_unwind(|| pool::free_unless_captured(User::Torch, address));
}

/// What torch calls for `Tensor.record_stream`: another stream works on memory of that address.
///
/// # Safety
///
/// As `_gpulend_torch_allocate`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn _gpulend_torch_used(address: *mut c_void, stream: *mut c_void) {
    let _ = catch_unwind(|| {
        let address = address.expose_provenance() as u64;
        let device = pool::device_of(address)?;
        // SAFETY: the contract.
        Some(pool::used_on(address, &unsafe { torchs(device, stream) }))
    });
}

/// Remembers that torch never destroys these streams, which are of its own.
#[pyfunction]
pub(crate) fn torch_streams(device: u8, numbers: Vec<usize>) {
    for number in numbers {
        // SAFETY: torch made them, and keeps those that it made.
        unsafe { Stream::remember(device, number) };
    }
}
