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

/// Declares a process-wide value behind a lock, which a forked child finds open, and what is done
/// to the value there. One for each module.
#[macro_export]
macro_rules! across_fork {
    ($name:ident: $type:ty = $init:expr, in_child: $in_child:expr) => {
        static $name: ::std::sync::LazyLock<::std::sync::Mutex<$type>> =
            ::std::sync::LazyLock::new(|| {
                $crate::fork::on_fork(before_fork, after_fork_in_parent, after_fork_in_child);
                ::std::sync::Mutex::new($init)
            });

        ::std::thread_local! {
            static FORKING: ::std::cell::RefCell<Option<::std::sync::MutexGuard<'static, $type>>> =
                const { ::std::cell::RefCell::new(None) };
        }

        extern "C" fn before_fork() {
            // No code that could panic runs under such a lock, so a poisoned value is still right.
            let guard = $name.lock().unwrap_or_else(::std::sync::PoisonError::into_inner);
            FORKING.with_borrow_mut(|forking| *forking = Some(guard));
        }

        extern "C" fn after_fork_in_parent() {
            FORKING.with_borrow_mut(Option::take);
        }

        extern "C" fn after_fork_in_child() {
            FORKING.with_borrow_mut(|forking| {
                if let Some(mut guard) = forking.take() {
                    let in_child: fn(&mut $type) = $in_child;
                    in_child(&mut guard);
                }
            });
        }
    };
}
