//! Device code that is linked of several object files.
//!
//! Each object file registers the name of its part in the place of an image. One more object file of the same program or
//! library registers the image of all parts, which begins with their names.

use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;

/// What stands before a part's name.
const PART: &[u8] = b"// gpulend: part ";
/// What stands before the names of the parts in an image.
const LINKED: &[u8] = b"// gpulend: linked ";

/// Returns the rest of an image's first line, if it begins so.
///
/// # Safety
///
/// `image` is null, or text that ends in NUL, or an image of another kind, which begins with other bytes. It stays for
/// as long as the result is used.
unsafe fn after<'a>(beginning: &[u8], image: *const c_char) -> Option<&'a str> {
    let same = |(index, byte): (usize, &u8)| {
        // No overflow: all bytes before this one are those of the beginning, so the text has not ended.
        let place = image.cast::<u8>().wrapping_add(index);
        // SAFETY: the contract, for the same reason.
        unsafe { place.read() == *byte }
    };
    if image.is_null() || !beginning.iter().enumerate().all(same) {
        return None;
    }
    // SAFETY: it is text, which ends in NUL.
    let text = unsafe { CStr::from_ptr(image) }.to_bytes();
    let line = text.split(|byte| *byte == b'\n').next()?;
    str::from_utf8(line.get(beginning.len()..)?).ok()
}

/// Returns the name of the part that stands in the place of an image.
///
/// # Safety
///
/// As for `after`.
pub(crate) unsafe fn name<'a>(image: *const c_char) -> Option<&'a str> {
    // SAFETY: the contract.
    unsafe { after(PART, image) }
}

/// Returns whether an image has a part, and belongs to the same program or library.
///
/// # Safety
///
/// As for `after`, of both.
pub(crate) unsafe fn has(image: *const c_char, part: *const c_char) -> bool {
    // SAFETY: the contract.
    let Some(names) = (unsafe { after(LINKED, image) }) else { return false };
    // SAFETY: the contract.
    let Some(name) = (unsafe { name(part) }) else { return false };
    names.split(' ').any(|one| one == name) && library(image) == library(part)
}

/// Returns where the program or the library begins that an address is in.
fn library(address: *const c_char) -> usize {
    let mut about = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: the address is only looked up; a struct is written if something is found.
    unsafe { libc::dladdr(address.cast(), about.as_mut_ptr()) };
    // SAFETY: it is written, or zeros: null pointers.
    let about = unsafe { about.assume_init() };
    about.dli_fbase.cast_const().addr()
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;

    #[test]
    fn an_image_has_the_parts_that_it_names() {
        let image = c"// gpulend: linked 12 345\n.version 6.3\n";
        // SAFETY: both are texts that end in NUL.
        let has = |image: &CStr, part: &CStr| unsafe { has(image.as_ptr(), part.as_ptr()) };
        assert!(has(image, c"// gpulend: part 345\n"));
        assert!(!has(image, c"// gpulend: part 34\n"));
        assert!(!has(image, image));
        assert!(!has(c".version 6.3", c"// gpulend: part 345\n"));
        // SAFETY: null, and a text that ends in NUL.
        let name = |image| unsafe { name(image) };
        assert_eq!(name(ptr::null()), None);
        assert_eq!(name(c"//".as_ptr()), None);
        assert_eq!(name(c"// gpulend: part 345\n".as_ptr()), Some("345"));
    }
}
