//! The end of the process: sockets are removed.

use std::panic::catch_unwind;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::ticket::end;

/// Registers [`end`] for the end of the process, once. Exit functions are inherited by forked children.
pub(super) fn end_at_exit() {
    extern "C" fn finish() {
        let _ = catch_unwind(end);
    }
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    if !REGISTERED.swap(true, Ordering::Relaxed) {
        // SAFETY: the function is static, takes no arguments and catches every panic.
        let _ = unsafe { libc::atexit(finish) };
    }
}
