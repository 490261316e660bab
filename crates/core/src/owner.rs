//! `Owner`: the duty to release memory, exactly once, from any thread.

use std::ffi::c_void;
use std::fmt;
use std::ptr;
use std::sync::Arc;

/// What releases memory, called with the owner's context.
type Release = unsafe fn(*mut c_void);

/// What is known by a number, such as a place in a table.
pub(crate) trait Numbered {
    /// Releases what the number stands for, on any thread.
    fn release(number: usize);
}

/// The duty to release memory. Dropping it is the release; it happens once.
///
/// ```
/// use std::sync::mpsc::channel;
///
/// let (send, receive) = channel();
/// let owner = gpulend::Owner::call(move || send.send("released").unwrap());
/// std::thread::spawn(move || drop(owner)).join().unwrap();
/// assert_eq!(receive.recv(), Ok("released"));
/// ```
pub struct Owner {
    context: *mut c_void,
    release: Option<Release>,
}

// SAFETY: (2) of `from_raw`, which every constructor guarantees.
unsafe impl Send for Owner {}
// SAFETY: no method reads the context through a shared reference.
unsafe impl Sync for Owner {}

impl Owner {
    /// No owner: the memory outlives every lease, or its release is not our duty.
    #[must_use]
    pub const fn nobody() -> Self {
        Self { context: ptr::null_mut(), release: None }
    }

    /// Keeps `value` and drops it on release.
    pub fn keep<T: Send + 'static>(value: T) -> Self {
        unsafe fn release<T>(context: *mut c_void) {
            // SAFETY: the context is the box that `keep` leaked, and `drop` runs once.
            drop(unsafe { Box::from_raw(context.cast::<T>()) });
        }
        let context = Box::into_raw(Box::new(value)).cast();
        Self { context, release: Some(release::<T>) }
    }

    /// Keeps a shared value, with no allocation of its own.
    pub fn keep_shared<T: Send + Sync + 'static>(value: Arc<T>) -> Self {
        unsafe fn release<T>(context: *mut c_void) {
            // SAFETY: the context is the `Arc` that `keep_shared` leaked, and `drop` runs once.
            drop(unsafe { Arc::from_raw(context.cast::<T>().cast_const()) });
        }
        let context = Arc::into_raw(value).cast_mut().cast();
        Self { context, release: Some(release::<T>) }
    }

    /// Gives a number back to `T` on release, with no allocation at all.
    pub(crate) fn number<T: Numbered>(number: usize) -> Self {
        unsafe fn release<T: Numbered>(context: *mut c_void) {
            T::release(context.addr());
        }
        Self { context: ptr::without_provenance_mut(number), release: Some(release::<T>) }
    }

    /// Calls `function` on release.
    pub fn call(function: impl FnOnce() + Send + 'static) -> Self {
        struct Call<F: FnOnce()>(Option<F>);
        impl<F: FnOnce()> Drop for Call<F> {
            fn drop(&mut self) {
                if let Some(function) = self.0.take() {
                    function();
                }
            }
        }
        Self::keep(Call(Some(function)))
    }

    /// Takes over the duty to call a C function.
    ///
    /// # Safety
    ///
    /// 1. `release` may be called once with `context`, at any later time.
    /// 2. That call may come from any thread.
    /// 3. Nobody else makes it.
    #[must_use]
    pub const unsafe fn from_raw(context: *mut c_void, release: unsafe fn(*mut c_void)) -> Self {
        Self { context, release: Some(release) }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: (1) and (3) of `from_raw`; `drop` runs once.
            unsafe { release(self.context) }
        }
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(if self.release.is_some() { "Owner" } else { "Owner(nobody)" })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn each_kind_of_owner_releases_exactly_once() {
        let count = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&count);
        drop(Owner::call(move || {
            counter.fetch_add(1, Ordering::Relaxed);
        }));
        assert_eq!(count.load(Ordering::Relaxed), 1);
        let kept = Owner::keep(Arc::clone(&count));
        let shared = Owner::keep_shared(Arc::clone(&count));
        assert_eq!(Arc::strong_count(&count), 3);
        std::thread::spawn(move || drop((kept, shared))).join().unwrap();
        assert_eq!(Arc::strong_count(&count), 1);
        drop(Owner::nobody());
    }

    #[test]
    fn a_raw_owner_calls_its_function_with_its_context() {
        unsafe fn add(context: *mut c_void) {
            // SAFETY: the test passes a counter that outlives the owner.
            let count = unsafe { &*context.cast::<AtomicUsize>() };
            count.fetch_add(1, Ordering::Relaxed);
        }
        let count = AtomicUsize::new(0);
        let context = ptr::from_ref(&count).cast_mut().cast();
        // SAFETY: (1) and (2) `add` only counts; (3) nobody else calls it.
        drop(unsafe { Owner::from_raw(context, add) });
        assert_eq!(count.load(Ordering::Relaxed), 1);
    }
}
