//! The end of the process: queued work runs as far as possible, so that kernel errors are reported.
#![forbid(unsafe_code)]

use std::io::Write;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::operation::Work;
use super::run::inside_host_function;
use super::{Caller, Machine, State};

impl Machine {
    /// Returns whether the process is ending: no more host functions are started.
    pub(super) fn is_ending(&self) -> bool {
        self.shared.ending.load(Ordering::SeqCst)
    }

    /// Ends the machine's work in this process. Waits for running host functions, starts no others, and runs
    /// queued work that does not depend on them. Takes at most `limit`.
    pub fn end(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        self.shared.ending.store(true, Ordering::SeqCst);
        let mut state = self.lock();
        // A host function that ends the process cannot wait for itself.
        let calling = || self.shared.calling.load(Ordering::SeqCst) > 0 && !inside_host_function();
        while calling() && Instant::now() < deadline {
            state = self.sleep(state);
        }
        let before = state.report.seen();
        if state.schedule.choose_last().is_none() && !state.schedule.is_running() {
            return;
        }
        drop(state);
        // On another thread, because a kernel can exceed the limit.
        let machine = self.clone();
        let run = move || machine.run_last(deadline);
        let Ok(worker) = thread::Builder::new().name("gpulend-exit".to_owned()).spawn(run) else {
            return;
        };
        let mut state = self.lock();
        while !worker.is_finished() && Instant::now() < deadline {
            state = self.sleep(state);
        }
        let launches = |state: &MutexGuard<'_, State>| {
            let is_launch = |work: &Work| matches!(work, Work::Launch(_));
            state.schedule.iter().filter(|(_, operation)| is_launch(&operation.work)).count()
        };
        let (found, left) = (state.report.seen() - before, launches(&state));
        if state.config.report.is_some() {
            return;
        }
        if found > 0 {
            let _ = writeln!(
                std::io::stderr(),
                "gpulend: simulated GPU: the process ended before that launch did: its exit status tells nothing of it"
            );
        }
        if left > 0 && !worker.is_finished() {
            let _ = writeln!(
                std::io::stderr(),
                "gpulend: simulated GPU: the process ends with {left} launches that had not ended after {} s",
                limit.as_secs_f64()
            );
        }
    }

    /// Runs the work that can still run.
    fn run_last(&self, deadline: Instant) {
        let caller = Caller::internal("the end of the process");
        let mut state = self.lock();
        while Instant::now() < deadline {
            state = match state.schedule.choose_last() {
                Some(id) => self.perform(&caller, state, id),
                None if state.schedule.is_running() => self.sleep(state),
                None => return,
            };
        }
    }
}
