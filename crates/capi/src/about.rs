//! The library's version, and the message of the last failure.

use std::ffi::c_char;

use gpulend::Dtype;
use gpulend::abi::dlpack::DataType;

use crate::guard::{guard, last};
use crate::pointer::{Out, put_text, text};
use crate::refusal::Refusal;
use crate::types::{DtypeNumber, GPULEND_ABI_MAJOR, GPULEND_ABI_MINOR, Status};

/// The version of the library, such as "0.1.0". Never NULL, and always valid.
#[unsafe(no_mangle)]
pub extern "C" fn gpulend_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// The library's version of this interface: GPULEND_ABI_MAJOR << 16 | GPULEND_ABI_MINOR.
#[unsafe(no_mangle)]
pub extern "C" fn gpulend_abi_version() -> u32 {
    GPULEND_ABI_MAJOR << 16 | GPULEND_ABI_MINOR
}

/// The message of this thread's last failed call: what was found, what was wanted, how to
/// fix it. Never NULL, and valid until this thread's next call. ctypes: set restype to c_char_p.
#[unsafe(no_mangle)]
pub extern "C" fn gpulend_last_error() -> *const c_char {
    last()
}

/// Reads the name of an element type: "float32", "bfloat16", "float8_e4m3fn", "<f4".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_dtype_parse(
    name: *const c_char,
    dtype: *mut DtypeNumber,
) -> Status {
    guard(|| {
        // SAFETY: (1) of the crate.
        let dtype = unsafe { Out::at(dtype, "dtype") }?;
        // SAFETY: (1) of the crate.
        let name = unsafe { text(name, "name") }?;
        let name = name.ok_or_else(|| Refusal::argument("name", "is NULL; pass \"float32\""))?;
        dtype.put(number_of(name.parse()?));
        Ok(())
    })
}

/// Writes the name of an element type, as snprintf does: at most `room` bytes with the NUL;
/// `needed`, if it is not NULL, receives the number of bytes with the NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_dtype_name(
    dtype: DtypeNumber,
    text: *mut c_char,
    room: u64,
    needed: *mut u64,
) -> Status {
    guard(|| {
        let name = dtype_of(dtype)?.name();
        // SAFETY: (1) of the crate.
        unsafe { put_text(name, text, room, needed) }
    })
}

/// The element type of a number.
pub(crate) fn dtype_of(number: DtypeNumber) -> Result<Dtype, Refusal> {
    let [code, bits, low, high] = number.to_le_bytes();
    let lanes = u16::from_le_bytes([low, high]);
    Ok(Dtype::from_dlpack(DataType { code, bits, lanes }, false)?)
}

/// The number of an element type.
pub(crate) fn number_of(dtype: Dtype) -> DtypeNumber {
    let DataType { code, bits, lanes } = dtype.to_dlpack();
    let [low, high] = lanes.to_le_bytes();
    DtypeNumber::from_le_bytes([code, bits, low, high])
}
