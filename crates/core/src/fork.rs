//! Locks across `fork`: the child must find them open.
//!
//! A thread that holds a lock while another one forks does not exist in the
//! child, so the lock would stay shut there for ever. Each process-wide lock
//! is therefore taken before the fork and let go after it, on both sides.

/// Has the three functions called before a fork, and after it in parent and child.
pub fn on_fork(
    before: unsafe extern "C" fn(),
    parent: unsafe extern "C" fn(),
    child: unsafe extern "C" fn(),
) {
    // Fails only when memory is exhausted; forking then is merely as unsafe as without us.
    // SAFETY: the functions are 'static and take no arguments, as pthread_atfork wants them.
    let _ = unsafe { libc::pthread_atfork(Some(before), Some(parent), Some(child)) };
}
