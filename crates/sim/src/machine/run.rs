//! Runs queued work: as late as ordering allows, in an order that the seed determines.
#![forbid(unsafe_code)]

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, MutexGuard, Weak};
use std::thread;
use std::time::Duration;

use super::operation::{OperationId, Work};
use super::schedule::{Operation, Standing};
use super::{Caller, Machine, Shared, State};
use crate::engine;
use crate::foreign::{self, Calls, HostFunction};
use crate::status::{Outcome, Status};

/// The polling interval for memory that a stream waits for.
const LOOK: Duration = Duration::from_millis(1);
/// The timer checks this many times in the period after which the machine counts as idle.
const LOOKS: u32 = 4;

/// After so many rounds of loops the rest of the queued work runs beside them, as on a GPU: it may end them.
const ROUNDS: u32 = 1000;

/// While a host function runs, the idle period is this many times longer.
const PATIENCE: u32 = 10;

/// A host function, and the operation that it completes, if it is a stream's.
pub(super) type Job = (Option<OperationId>, HostFunction);

impl Machine {
    /// Runs what the goals need, and nothing else.
    ///
    /// # Errors
    ///
    /// If the device of a goal is lost.
    pub fn finish(&self, caller: &Caller, goals: &[OperationId]) -> Outcome<()> {
        let mut state = self.lock();
        let mut left: Vec<OperationId> = goals.to_vec();
        // Sorted first: the order of the hash table differs from run to run.
        left.sort_unstable();
        state.schedule.shuffle(&mut left);
        let mut contexts: Vec<usize> = left
            .iter()
            .filter_map(|id| state.schedule.get(*id))
            .map(|operation| operation.context)
            .collect();
        contexts.sort_unstable();
        contexts.dedup();
        let mut rounds = 0;
        while let Some(&goal) = left.last() {
            match state.schedule.standing(goal) {
                Standing::Complete => {
                    left.pop();
                }
                Standing::Running => state = self.sleep(state),
                Standing::Behind(others) => left.extend(others),
                Standing::Ready => {
                    let runs = |goal: &Operation| goal.work.may_run();
                    let next = if state.schedule.get(goal).is_some_and(runs) {
                        Some(goal)
                    } else {
                        // The memory may be written by work in any stream, or by the host.
                        state.schedule.choose_for(goal)
                    };
                    let Some(next) = next else {
                        state = self.sleep(state);
                        continue;
                    };
                    state = self.perform(caller, state, next);
                    rounds += u32::from(state.schedule.is_loop(next));
                    if rounds > ROUNDS
                        && let Some(other) = state.schedule.choose()
                    {
                        state = self.perform(caller, state, other);
                    }
                }
            }
        }
        let lost = contexts.iter().any(|context| state.is_lost(*context));
        if lost { Err(Status::ERROR_DEVICE_UNAVAILABLE) } else { Ok(()) }
    }

    /// Runs one operation that is ready. If there is none, or the caller is passive, only updates observers.
    pub fn step(&self, caller: &Caller) {
        let mut state = self.lock();
        if !caller.passive
            && let Some(id) = state.schedule.choose()
        {
            drop(self.perform(caller, state, id));
            return;
        }
        for id in state.schedule.observed() {
            state = self.perform(caller, state, id);
        }
    }

    pub(super) fn sleep<'a>(&'a self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let woken = self.shared.changed.wait_timeout(state, LOOK);
        woken.map_or_else(|poisoned| poisoned.into_inner().0, |(state, _)| state)
    }

    /// Runs a ready operation. Other threads may make calls in the meantime.
    pub(super) fn perform<'a>(
        &'a self,
        caller: &Caller,
        mut state: MutexGuard<'a, State>,
        id: OperationId,
    ) -> MutexGuard<'a, State> {
        let Some(work) = state.schedule.begin(id) else { return state };
        match work {
            Work::Call(function) => {
                // On another thread, as in a real driver: the caller may hold a lock that the function needs.
                if self.is_ending() || self.callbacks().send((Some(id), function)).is_err() {
                    state.complete(caller, id);
                    self.shared.changed.notify_all();
                }
                return state;
            }
            Work::Copy { .. } | Work::Fill { .. } | Work::Write { .. } | Work::Raise { .. } => {
                self.shared.moving.fetch_add(1, Ordering::Relaxed);
                drop(state);
                work.run();
                self.shared.moving.fetch_sub(1, Ordering::Relaxed);
                state = self.lock();
            }
            Work::Launch(launched) => {
                let context = state.schedule.get(id).map_or(0, |operation| operation.context);
                let memory = state.reach(context, &launched);
                let read_only = state.read_only(context);
                let heap = state.contexts.get(context).and_then(|context| context.heap.clone());
                self.shared.moving.fetch_add(1, Ordering::Relaxed);
                drop(state);
                let heap = heap.as_deref().map(|heap| heap as &dyn engine::Heap);
                let ran =
                    launched.run(engine::Reach { memory: &memory, read_only: &read_only }, heap);
                self.shared.moving.fetch_sub(1, Ordering::Relaxed);
                state = self.lock();
                if let Err(fault) = ran {
                    state.kernel_failed(context, &launched, &fault);
                }
            }
            Work::Branch(branch) => {
                if let Some((body, again)) = branch.choose() {
                    let context = state.schedule.get(id).map_or(0, |operation| operation.context);
                    let made = state.queue_nodes(context, body, None);
                    let then = if again { Work::Branch(Arc::clone(&branch)) } else { Work::Mark };
                    state.schedule.resume(id, then, made);
                    if again {
                        // A loop whose graph does nothing must not keep other threads from the machine.
                        drop(state);
                        thread::yield_now();
                        state = self.lock();
                    }
                    return state;
                }
            }
            // The operation has the last reference, if the program has none.
            Work::End(graph) => drop(graph),
            Work::Mark | Work::Wait { .. } | Work::Acquire { .. } | Work::Release { .. } => {}
        }
        state.complete(caller, id);
        self.shared.changed.notify_all();
        state
    }

    /// Returns the channel to the thread of host functions.
    pub(super) fn callbacks(&self) -> &Sender<Job> {
        self.shared.callbacks.get_or_init(|| {
            let (sender, jobs) = channel::<Job>();
            let shared = Arc::downgrade(&self.shared);
            // Without a thread, host functions complete without being called.
            foreign::start(Box::new(HostFunctions { jobs, shared, current: None }));
            sender
        })
    }

    /// Starts the timer that advances work when no calls are made, so that a program that only polls memory
    /// terminates.
    pub fn start_timer(&self) {
        let idle = self.lock().config.idle;
        if idle.is_zero() {
            return;
        }
        let shared = Arc::downgrade(&self.shared);
        let _ = thread::Builder::new()
            .name("gpulend-idle".to_owned())
            .spawn(move || watch(&shared, idle));
    }
}

/// The state of the thread of host functions.
struct HostFunctions {
    jobs: Receiver<Job>,
    shared: Weak<Shared>,
    /// The running function's operation, if any.
    current: Option<Option<OperationId>>,
}

impl HostFunctions {
    /// Completes a function that has run, or that never will.
    fn complete(machine: &Machine, id: Option<OperationId>) {
        if let Some(id) = id {
            machine.lock().complete(&Caller::internal("a host function"), id);
        }
        machine.shared.calling.fetch_sub(1, Ordering::SeqCst);
        machine.shared.changed.notify_all();
    }
}

impl Calls for HostFunctions {
    fn next(&mut self) -> Option<HostFunction> {
        loop {
            let (id, function) = self.jobs.recv().ok()?;
            let machine = Machine { shared: self.shared.upgrade()? };
            // Counted before `is_ending` is checked: the thread that ends the process does it in the opposite
            // order.
            machine.shared.calling.fetch_add(1, Ordering::SeqCst);
            if machine.is_ending() {
                Self::complete(&machine, id);
                continue;
            }
            self.current = Some(id);
            INSIDE.set(true);
            return Some(function);
        }
    }

    fn done(&mut self) {
        INSIDE.set(false);
        if let Some(id) = self.current.take()
            && let Some(shared) = self.shared.upgrade()
        {
            Self::complete(&Machine { shared }, id);
        }
    }
}

impl Drop for HostFunctions {
    fn drop(&mut self) {
        // A function that ended its thread never returned.
        self.done();
    }
}

thread_local! {
    static INSIDE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Returns whether this thread is running a host function.
#[must_use]
pub fn inside_host_function() -> bool {
    INSIDE.get()
}

/// Advances the machine while no calls are made.
fn watch(shared: &Weak<Shared>, idle: Duration) {
    let caller = Caller::internal("the idle timer");
    let (mut seen, mut quiet) = (0, 0);
    let mut looks = LOOKS;
    loop {
        thread::sleep(if quiet < looks { idle / LOOKS } else { LOOK });
        let Some(shared) = shared.upgrade() else { return };
        let machine = Machine { shared };
        // The thread that ends the process runs the remaining work.
        if machine.is_ending() {
            return;
        }
        let calls = machine.shared.calls.load(Ordering::Relaxed);
        let moving = machine.shared.moving.load(Ordering::Relaxed) > 0;
        let calling = machine.shared.calling.load(Ordering::Relaxed) > 0;
        looks = if calling { LOOKS * PATIENCE } else { LOOKS };
        if calls != seen || moving || machine.lock().schedule.is_empty() {
            (seen, quiet) = (calls, 0);
        } else if quiet < looks {
            quiet += 1;
        } else {
            machine.step(&caller);
        }
    }
}

impl State {
    /// Completes an operation, with all consequences.
    pub(super) fn complete(&mut self, caller: &Caller, id: OperationId) {
        let Some(operation) = self.schedule.complete(id) else { return };
        for (base, buffer_id) in &operation.touches {
            if let Some(allocation) =
                self.memory.get_mut(*base).filter(|found| found.buffer_id == *buffer_id)
            {
                allocation.users.remove(&id);
            }
        }
        match operation.work {
            Work::Acquire { base } => {
                self.memory.refresh(base);
                self.wake(base);
            }
            // The memory may have been freed with its context.
            Work::Release { base, buffer_id }
                if self.memory.get(base).is_some_and(|found| found.buffer_id == buffer_id)
                    && !self.sleep(caller, base) =>
            {
                self.end_allocation(caller, base);
            }
            Work::End(graph) => {
                let was_last = Arc::into_inner(graph).is_some();
                if was_last {
                    self.sweep_graph_memory(caller);
                }
            }
            _ => {}
        }
        if let Some(event) = operation.event {
            let now = self.started.elapsed();
            self.complete_record(event, id, now);
        }
    }

    /// Loses a device: its queued work never runs.
    pub fn lose(&mut self, caller: &Caller, device: usize) {
        let Some(found) = self.devices.get_mut(device) else { return };
        found.lost = true;
        let is_there = |operation: &Operation| {
            self.contexts.get(operation.context).is_some_and(|context| context.device == device)
        };
        // Operations that are running complete by themselves.
        let mut queued = self.schedule.not_running();
        queued.retain(|id| self.schedule.get(*id).is_some_and(is_there));
        for id in queued {
            self.complete(caller, id);
        }
    }

    fn is_lost(&self, context: usize) -> bool {
        self.contexts.get(context).is_some_and(|context| self.devices[context.device].lost)
    }
}
