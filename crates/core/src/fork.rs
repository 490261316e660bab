//! Locks across `fork`: in the child they must be unlocked.
//!
//! If one thread holds a lock while another forks, the holder does not exist in the child, and the lock would
//! stay locked there for ever. So every process-wide lock is a [`ProcessLock`]. The forking thread locks all
//! of them before the fork and unlocks them after it, in parent and child.
//!
//! ```
//! use gpulend::fork::ProcessLock;
//!
//! static SEEN: ProcessLock<Vec<u32>> = ProcessLock::new(Vec::new());
//! SEEN.lock().push(7);
//! assert_eq!(*SEEN.lock(), [7]);
//! ```
//!
//! The locks are taken in the order of their first use. A thread that held one and waited for another could
//! deadlock with the forking thread. So no code holds two at a time.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A process-wide value behind a lock that is unlocked in a forked child.
pub struct ProcessLock<T: 'static> {
    value: Mutex<T>,
    /// Whether the fork handlers know this lock.
    enrolled: AtomicBool,
    in_child: fn(&mut T),
}

impl<T: Send + 'static> ProcessLock<T> {
    /// A lock around a value that a forked child keeps as it is.
    pub const fn new(value: T) -> Self {
        Self::with(value, |_| ())
    }

    /// Like [`ProcessLock::new`]. `in_child` changes the value in a forked child.
    ///
    /// It runs in the child before `fork` returns, so it must not wait for anything.
    pub const fn with(value: T, in_child: fn(&mut T)) -> Self {
        Self { value: Mutex::new(value), enrolled: AtomicBool::new(false), in_child }
    }

    /// Takes the lock.
    #[inline]
    pub fn lock(&'static self) -> MutexGuard<'static, T> {
        if !self.enrolled.load(Ordering::Acquire) {
            self.enroll();
        }
        self.take()
    }

    #[inline]
    fn take(&'static self) -> MutexGuard<'static, T> {
        // No code that can panic runs under such a lock, so a poisoned value is still valid.
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cold]
    fn enroll(&'static self) {
        let mut registry = REGISTRY.lock().unwrap_or_else(PoisonError::into_inner);
        if !registry.handlers {
            registry.handlers = true;
            // Fails only if memory is exhausted. Forking is then as unsafe as without fork handlers.
            // SAFETY: the functions are 'static and take no arguments, as pthread_atfork wants them.
            let _ =
                unsafe { libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) };
        }
        if !self.enrolled.swap(true, Ordering::AcqRel) {
            registry.locks.push(self);
        }
    }
}

/// The locks in use, and whether the fork handlers are installed.
struct Registry {
    handlers: bool,
    locks: Vec<&'static dyn Enrolled>,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry { handlers: false, locks: Vec::new() });

/// A lock of the registry.
trait Enrolled: Sync {
    fn hold(&'static self) -> Box<dyn Held>;
}

/// A lock that the forking thread holds.
trait Held {
    fn in_child(&mut self);
}

struct Holding<T: 'static> {
    guard: MutexGuard<'static, T>,
    in_child: fn(&mut T),
}

impl<T: Send + 'static> Enrolled for ProcessLock<T> {
    fn hold(&'static self) -> Box<dyn Held> {
        Box::new(Holding { guard: self.take(), in_child: self.in_child })
    }
}

impl<T> Held for Holding<T> {
    fn in_child(&mut self) {
        (self.in_child)(&mut self.guard);
    }
}

/// What a thread holds while it forks.
struct Forking {
    held: Vec<Box<dyn Held>>,
    // Last, so that the registry is unlocked after the locks.
    _registry: MutexGuard<'static, Registry>,
}

thread_local! {
    static FORKING: RefCell<Option<Forking>> = const { RefCell::new(None) };
}

extern "C" fn before_fork() {
    let registry = REGISTRY.lock().unwrap_or_else(PoisonError::into_inner);
    let held = registry.locks.iter().map(|lock| lock.hold()).collect();
    FORKING.with_borrow_mut(|forking| *forking = Some(Forking { held, _registry: registry }));
}

extern "C" fn in_parent() {
    drop(FORKING.with_borrow_mut(Option::take));
}

extern "C" fn in_child() {
    let mut forking = FORKING.with_borrow_mut(Option::take);
    for held in forking.iter_mut().flat_map(|forking| &mut forking.held) {
        held.in_child();
    }
}
