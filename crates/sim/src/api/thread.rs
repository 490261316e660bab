//! Thread-local state: the context stack, the capture mode and more.
#![forbid(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::ffi::CString;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::machine::capture::Mode;

static THREADS: AtomicU64 = AtomicU64::new(1);

thread_local! {
    static NUMBER: u64 = THREADS.fetch_add(1, Ordering::Relaxed);
    static STACK: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
    static MODE: Cell<Mode> = const { Cell::new(Mode::Global) };
    static PASSIVE: Cell<bool> = const { Cell::new(false) };
    static ADMITTED: RefCell<Vec<(u64, u64)>> = const { RefCell::new(Vec::new()) };
    static SPANS: RefCell<Vec<(u64, u64)>> = const { RefCell::new(Vec::new()) };
    static PROBLEM: RefCell<CString> = RefCell::default();
}

/// Returns a number unique to this thread.
pub(super) fn number() -> u64 {
    NUMBER.with(|number| *number)
}

/// Uses the context stack. A thread that is ending has none any more, and may still make calls.
fn stack<T>(body: impl FnOnce(&mut Vec<usize>) -> Option<T>) -> Option<T> {
    STACK.try_with(|stack| body(&mut stack.borrow_mut())).ok().flatten()
}

/// Returns the current context.
pub(super) fn current() -> Option<usize> {
    stack(|stack| stack.last().copied())
}

/// Pushes a context.
pub(super) fn push(context: usize) {
    stack(|stack| {
        stack.push(context);
        Some(())
    });
}

/// Pops the current context.
pub(super) fn pop() -> Option<usize> {
    stack(Vec::pop)
}

/// Replaces the current context; `None` removes it.
pub(super) fn set(context: Option<usize>) {
    stack(|stack| {
        stack.pop();
        stack.extend(context);
        Some(())
    });
}

/// Returns the capture mode of this thread.
pub(super) fn mode() -> Mode {
    MODE.get()
}

/// Sets the capture mode, and returns the earlier one.
pub(super) fn exchange_mode(mode: Mode) -> Mode {
    MODE.replace(mode)
}

/// Returns whether queries by this thread leave queued work alone.
pub(super) fn is_passive() -> bool {
    PASSIVE.get()
}

/// Sets whether queries by this thread leave queued work alone.
pub(super) fn set_passive(on: bool) {
    PASSIVE.set(on);
}

/// Stores the message of the last failed call.
pub(super) fn set_problem(problem: &str) {
    let text = CString::new(problem.replace('\0', " ")).unwrap_or_default();
    // Fails only while the thread ends.
    let _ = PROBLEM.try_with(|kept| kept.replace(text));
}

/// Returns the address of the message of the last failed call.
pub(super) fn problem() -> *const std::ffi::c_char {
    PROBLEM.try_with(|kept| kept.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// Adds a range of memory that this thread's next launch may access.
pub(super) fn admit(address: u64, bytes: u64) {
    // Fails only while the thread ends; it launches nothing more.
    let _ = ADMITTED.try_with(|admitted| admitted.borrow_mut().push((address, bytes)));
}

/// Takes the ranges for this launch.
pub(super) fn take_admitted() -> Vec<(u64, u64)> {
    ADMITTED.try_with(RefCell::take).unwrap_or_default()
}

/// Adds the part of an allocation that this thread's next launch may access.
pub(super) fn add_span(address: u64, bytes: u64) {
    let _ = SPANS.try_with(|spans| spans.borrow_mut().push((address, bytes)));
}

/// Takes the parts for this launch.
pub(super) fn take_spans() -> Vec<(u64, u64)> {
    SPANS.try_with(RefCell::take).unwrap_or_default()
}
