//! The caller's host functions, and the thread that calls them.
//!
//! A host function may end its thread: Python does so if a thread takes the GIL while the interpreter shuts
//! down. The C library then unwinds the thread's frames, and aborts at a Rust frame with something to drop.
//! So the C library creates this thread, and nothing on its stack needs to be dropped while a host function
//! runs.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

/// A host function for a stream to call.
#[derive(Clone, Copy, Debug)]
pub struct HostFunction {
    call: Call,
    argument: usize,
}

/// A `CUhostFn`.
pub type Function = unsafe extern "C-unwind" fn(*mut c_void);
/// A `CUstreamCallback`.
pub type Callback = unsafe extern "C-unwind" fn(usize, i32, *mut c_void);

/// The two signatures that CUDA has for such functions.
#[derive(Clone, Copy, Debug)]
enum Call {
    Plain(Function),
    Callback { function: Callback, stream: usize },
}

impl HostFunction {
    /// Makes a host function of a `CUhostFn`.
    ///
    /// # Safety
    ///
    /// 1. The function may be called with `argument` on any thread, once for each time the operation runs.
    #[must_use]
    pub unsafe fn plain(function: Function, argument: usize) -> Self {
        Self { call: Call::Plain(function), argument }
    }

    /// Makes a host function of the address of a `CUhostFn`, unless it is null.
    ///
    /// # Safety
    ///
    /// 1. As [`HostFunction::plain`], if there is a function.
    #[must_use]
    pub unsafe fn at(address: usize, argument: usize) -> Option<Self> {
        let pointer: *const c_void = ptr::with_exposed_provenance(address);
        // SAFETY: the optional function has the size of a pointer, and null is none; (1) for others.
        let function = unsafe { std::mem::transmute::<*const c_void, Option<Function>>(pointer) };
        // SAFETY: (1).
        function.map(|function| unsafe { Self::plain(function, argument) })
    }

    /// Returns the address of the function, and its argument.
    #[must_use]
    pub fn parts(&self) -> (usize, usize) {
        let address = match self.call {
            Call::Plain(function) => function as usize,
            Call::Callback { function, .. } => function as usize,
        };
        (address, self.argument)
    }

    /// Makes a host function of a `CUstreamCallback`.
    ///
    /// # Safety
    ///
    /// 1. As [`HostFunction::plain`].
    #[must_use]
    pub unsafe fn callback(function: Callback, stream: usize, argument: usize) -> Self {
        Self { call: Call::Callback { function, stream }, argument }
    }

    /// Calls it. It may end the thread.
    fn run(self) {
        let argument = ptr::with_exposed_provenance_mut(self.argument);
        match self.call {
            // SAFETY: (1) of `plain`.
            Call::Plain(function) => unsafe { function(argument) },
            // SAFETY: (1) of `callback`.
            Call::Callback { function, stream } => unsafe { function(stream, 0, argument) },
        }
    }
}

/// The functions for a thread to call, one after another. Dropped when the thread ends, in whatever way.
pub trait Calls {
    /// Waits for the next function. `None` ends the thread.
    fn next(&mut self) -> Option<HostFunction>;
    /// The function has returned.
    fn done(&mut self);
}

unsafe extern "C-unwind" {
    fn pthread_create(
        thread: *mut libc::pthread_t,
        attributes: *const libc::pthread_attr_t,
        start: extern "C-unwind" fn(*mut c_void) -> *mut c_void,
        argument: *mut c_void,
    ) -> c_int;
}

thread_local! {
    /// Thread-local rather than on the stack: see above.
    static CALLS: RefCell<Option<Box<dyn Calls + Send>>> = const { RefCell::new(None) };
}

/// Starts a thread. Returns whether it succeeded; if not, the calls are dropped.
pub fn start(calls: Box<dyn Calls + Send>) -> bool {
    let argument = Box::into_raw(Box::new(calls));
    let mut thread = MaybeUninit::uninit();
    // SAFETY: the number has room; without attributes the thread is like any other; the argument is the thread's from now on.
    let refused = unsafe {
        pthread_create(thread.as_mut_ptr(), ptr::null(), call_all, argument.cast::<c_void>())
    };
    if refused != 0 {
        // SAFETY: there is no thread, so it is still ours.
        drop(unsafe { Box::from_raw(argument) });
        return false;
    }
    // SAFETY: the call has succeeded and written it.
    let thread = unsafe { thread.assume_init() };
    // SAFETY: the thread is new, and is never joined.
    unsafe { libc::pthread_detach(thread) };
    true
}

extern "C-unwind" fn call_all(argument: *mut c_void) -> *mut c_void {
    // SAFETY: `start` gave it to this thread alone.
    let calls = unsafe { Box::from_raw(argument.cast::<Box<dyn Calls + Send>>()) };
    CALLS.set(Some(*calls));
    // From here on nothing in this frame or in `run`'s needs to be dropped.
    while let Some(function) = turn(|calls| calls.next()).flatten() {
        function.run();
        turn(|calls| calls.done());
    }
    ptr::null_mut()
}

/// Uses this thread's calls. A panic here is a bug; it has been printed, and ends the thread.
fn turn<T>(body: impl FnOnce(&mut (dyn Calls + Send)) -> T) -> Option<T> {
    let guarded = AssertUnwindSafe(|| {
        CALLS.with_borrow_mut(|calls| calls.as_mut().map(|calls| body(&mut **calls)))
    });
    catch_unwind(guarded).ok().flatten()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    use super::*;

    struct One {
        jobs: Receiver<HostFunction>,
        sent: Sender<&'static str>,
    }

    impl Calls for One {
        fn next(&mut self) -> Option<HostFunction> {
            self.jobs.recv().ok()
        }

        fn done(&mut self) {
            self.sent.send("done").unwrap();
        }
    }

    impl Drop for One {
        fn drop(&mut self) {
            self.sent.send("ended").unwrap();
        }
    }

    extern "C-unwind" fn nothing(_: *mut c_void) {}

    extern "C-unwind" fn end_thread(_: *mut c_void) {
        unsafe extern "C-unwind" {
            fn pthread_exit(value: *mut c_void) -> !;
        }
        // SAFETY: the frames above are those of a thread that calls such functions.
        unsafe { pthread_exit(ptr::null_mut()) }
    }

    fn next_sent(all: &Receiver<&'static str>) -> &'static str {
        all.recv_timeout(Duration::from_secs(60)).unwrap()
    }

    #[test]
    fn a_function_may_end_its_thread() {
        let ((send, jobs), (sent, all)) = (channel(), channel());
        assert!(start(Box::new(One { jobs, sent })));
        // SAFETY: both may be called with anything.
        let [fine, last] = [nothing as Function, end_thread as Function]
            .map(|function| unsafe { HostFunction::plain(function, 0) });
        send.send(fine).unwrap();
        assert_eq!(next_sent(&all), "done");
        send.send(last).unwrap();
        assert_eq!(next_sent(&all), "ended");
    }

    #[test]
    fn a_thread_without_further_calls_ends() {
        let ((send, jobs), (sent, all)) = (channel(), channel());
        assert!(start(Box::new(One { jobs, sent })));
        drop(send);
        assert_eq!(next_sent(&all), "ended");
    }
}
