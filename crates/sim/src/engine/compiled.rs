//! The code of kernels, compiled at their first use on a separate thread. Compiling needs stack, and takes
//! time that a launch need not wait for.
#![forbid(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::code::Code;

/// The stack size of a compiling thread.
const STACK: usize = 16 << 20;

/// Why there is no code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NotCompiled {
    /// It is not ready in time. Compilation continues.
    Late,
    /// It does not compile.
    Refused(String),
}

#[derive(Debug, Default)]
enum Stage {
    #[default]
    Wanted,
    Begun,
    Done(Result<Arc<Code>, String>),
}

/// The code of one kernel, once compiled.
#[derive(Debug, Default)]
pub(super) struct Compiled {
    stage: Mutex<Stage>,
    done: Condvar,
}

impl Compiled {
    /// Returns the code; the first caller starts the compilation. Waits at most `limit`; zero means no limit.
    pub(super) fn get(
        self: &Arc<Self>,
        limit: Duration,
        make: impl FnOnce() -> Result<Code, String> + Send + 'static,
    ) -> Result<Arc<Code>, NotCompiled> {
        let deadline = Instant::now().checked_add(limit).filter(|_| !limit.is_zero());
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*stage, Stage::Wanted) {
            *stage = Stage::Begun;
            drop(stage);
            self.begin(make);
            stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        }
        loop {
            if let Stage::Done(made) = &*stage {
                return made.clone().map_err(NotCompiled::Refused);
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(NotCompiled::Late);
            }
            let left = left.unwrap_or(Duration::MAX);
            let woken = self.done.wait_timeout(stage, left);
            (stage, _) = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn begin(self: &Arc<Self>, make: impl FnOnce() -> Result<Code, String> + Send + 'static) {
        let place = Arc::clone(self);
        let work = move || {
            // A compiler bug must not block launches for ever.
            let made = catch_unwind(AssertUnwindSafe(make)).unwrap_or_else(|_| {
                Err("a bug of the simulated GPU: its compiler panicked".to_owned())
            });
            let mut stage = place.stage.lock().unwrap_or_else(PoisonError::into_inner);
            *stage = Stage::Done(made.map(Arc::new));
            place.done.notify_all();
        };
        let builder = thread::Builder::new().name("gpulend-compile".to_owned()).stack_size(STACK);
        if let Err(error) = builder.spawn(work) {
            let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
            *stage = Stage::Done(Err(format!("the host has no thread to compile it: {error}")));
        }
    }
}
