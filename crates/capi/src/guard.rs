//! The border between C and Rust: every panic becomes a status, and so does every `Err`.
#![forbid(unsafe_code)]

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::refusal::Refusal;
use crate::single_instance;
use crate::types::{GPULEND_OK, Status};

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Runs `body`, if this is the copy of gpulend that the process uses; on failure stores the message for
/// this thread.
#[inline]
pub(crate) fn guard(body: impl FnOnce() -> Result<(), Refusal>) -> Status {
    guard_all(|| {
        single_instance::start()?;
        body()
    })
}

/// As [`guard`], for work that every copy must do: taking over what the caller gives away.
#[inline]
pub(crate) fn guard_all(body: impl FnOnce() -> Result<(), Refusal>) -> Status {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => GPULEND_OK,
        Ok(Err(refusal)) => remember(&refusal),
        Err(panic) => remember(&Refusal::Panic { said: words(&*panic) }),
    }
}

#[cold]
fn remember(refusal: &Refusal) -> Status {
    // A message may contain the caller's text, which may contain anything but NUL.
    let message = CString::new(refusal.to_string().replace('\0', "?")).unwrap_or_default();
    // A thread that is ending has no thread-local storage.
    let _ = LAST.try_with(|last| last.replace(message));
    refusal.code()
}

fn words(panic: &(dyn Any + Send)) -> Box<str> {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without words").into()
}

/// The message of this thread's last failure, until the next.
pub(crate) fn last() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_status_and_a_message() {
        let status = guard_all(|| panic!("deliberate"));
        assert_eq!(status, 2000);
        let message = LAST.with_borrow(|last| last.to_string_lossy().into_owned());
        assert!(message.ends_with("deliberate"), "{message}");
        assert_eq!(guard_all(|| Ok(())), GPULEND_OK);
    }

    #[test]
    fn a_nul_in_a_message_is_replaced() {
        guard_all(|| Err(Refusal::argument("text", "has a \0 in it")));
        let message: CString = LAST.with_borrow(Clone::clone);
        assert_eq!(message.as_c_str(), c"text has a ? in it");
    }
}
