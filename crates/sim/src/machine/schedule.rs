//! Queued operations and their dependencies. Stream order, events and joins are all represented in the same
//! way: an operation waits for others. [`Schedule::choose`] picks the next one.
#![forbid(unsafe_code)]

use std::collections::{HashMap, HashSet};

use fastrand::Rng;
use smallvec::SmallVec;

use super::operation::{OperationId, Work};

/// Allocations: base and buffer id of each.
pub type Touches = SmallVec<[(usize, u64); 2]>;

/// An incomplete operation.
#[derive(Debug)]
pub struct Operation {
    /// Its work.
    pub work: Work,
    /// Its context.
    pub context: usize,
    /// The allocations that it accesses: base and buffer id.
    pub touches: Touches,
    /// The event that it records.
    pub event: Option<usize>,
    /// Whether it only observes: no operation waits for it, and the seed does not choose it.
    observer: bool,
    after: SmallVec<[OperationId; 4]>,
    followers: SmallVec<[OperationId; 2]>,
    waiting: usize,
    state: State,
}

impl Operation {
    /// Returns whether it may be ready and yet not to be chosen: an observer, or a wait for a value.
    fn is_special(&self) -> bool {
        self.observer || matches!(self.work, Work::Wait { .. })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Blocked,
    /// With its index in `ready`.
    Ready(usize),
    Running,
}

/// The state of an operation.
#[derive(Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is complete.
    Complete,
    /// A thread is running it.
    Running,
    /// It can run now.
    Ready,
    /// Waiting for these operations, in an order that the seed chose.
    Behind(SmallVec<[OperationId; 4]>),
}

/// The capacity that an empty queue keeps.
const ROOM: usize = 1024;

/// All incomplete operations.
#[derive(Debug)]
pub struct Schedule {
    made: OperationId,
    pending: HashMap<OperationId, Operation>,
    ready: Vec<OperationId>,
    /// How many of `ready` the seed may be unable to choose: see [`Operation::is_special`].
    special: usize,
    random: Rng,
}

impl Schedule {
    /// Makes an empty schedule. `seed` determines its choices.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let (pending, random) = (HashMap::new(), Rng::with_seed(seed));
        Self { made: 0, pending, ready: Vec::new(), special: 0, random }
    }

    /// Queues `work` after those of `after` that are incomplete.
    pub fn add(
        &mut self,
        work: Work,
        context: usize,
        touches: Touches,
        event: Option<usize>,
        after: impl IntoIterator<Item = OperationId>,
    ) -> OperationId {
        self.made += 1;
        let id = self.made;
        let mut behind: SmallVec<[OperationId; 4]> = after.into_iter().collect();
        behind.sort_unstable();
        behind.dedup();
        behind.retain(|other| self.pending.contains_key(other));
        for other in &behind {
            if let Some(operation) = self.pending.get_mut(other) {
                operation.followers.push(id);
            }
        }
        let waiting = behind.len();
        let operation = Operation {
            work,
            context,
            touches,
            event,
            observer: false,
            after: behind,
            followers: SmallVec::new(),
            waiting,
            state: State::Blocked,
        };
        self.pending.insert(id, operation);
        if waiting == 0 {
            self.enter_ready(id);
        }
        id
    }

    /// Turns an operation that no other waits for into an observer.
    pub fn observe(&mut self, id: OperationId) {
        let Some(operation) = self.pending.get_mut(&id) else { return };
        if matches!(operation.state, State::Ready(_)) && !operation.is_special() {
            self.special += 1;
        }
        operation.observer = true;
    }

    /// Returns the observers whose dependencies are complete.
    #[must_use]
    pub fn observed(&self) -> Vec<OperationId> {
        let watches = |id: &&OperationId| self.pending.get(id).is_some_and(|found| found.observer);
        self.ready.iter().filter(watches).copied().collect()
    }

    /// Returns whether nothing is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Returns whether the operation is complete.
    #[must_use]
    pub fn is_complete(&self, id: OperationId) -> bool {
        !self.pending.contains_key(&id)
    }

    /// Returns whether an operation is a loop that is not complete.
    #[must_use]
    pub fn is_loop(&self, id: OperationId) -> bool {
        self.get(id).is_some_and(|operation| matches!(operation.work, Work::Branch(_)))
    }

    /// Returns whether nothing that the operation waits for is left, and nobody runs it yet.
    #[must_use]
    pub fn is_ready(&self, id: OperationId) -> bool {
        self.get(id).is_some_and(|operation| matches!(operation.state, State::Ready(_)))
    }

    /// Returns an operation that is not complete.
    #[must_use]
    pub fn get(&self, id: OperationId) -> Option<&Operation> {
        self.pending.get(&id)
    }

    /// Returns all operations that are not complete.
    pub fn iter(&self) -> impl Iterator<Item = (OperationId, &Operation)> {
        self.pending.iter().map(|(id, operation)| (*id, operation))
    }

    /// Returns the state of the operation.
    pub fn standing(&mut self, id: OperationId) -> Standing {
        let Some(operation) = self.pending.get(&id) else { return Standing::Complete };
        match operation.state {
            State::Running => Standing::Running,
            State::Ready(_) => Standing::Ready,
            State::Blocked => {
                let mut left: SmallVec<[OperationId; 4]> = operation
                    .after
                    .iter()
                    .copied()
                    .filter(|other| self.pending.contains_key(other))
                    .collect();
                self.random.shuffle(&mut left);
                Standing::Behind(left)
            }
        }
    }

    /// Shuffles operations by the seed.
    pub fn shuffle(&mut self, operations: &mut [OperationId]) {
        self.random.shuffle(operations);
    }

    /// Chooses a ready operation by the seed. Waits whose value is not in memory yet are skipped.
    pub fn choose(&mut self) -> Option<OperationId> {
        if self.special == 0 {
            // Without a look at each: there may be many.
            return self.random.choice(&self.ready).copied();
        }
        let runs = |id: &&OperationId| {
            self.pending
                .get(id)
                .is_some_and(|operation| operation.work.may_run() && !operation.observer)
        };
        let could: Vec<OperationId> = self.ready.iter().filter(runs).copied().collect();
        self.random.choice(could)
    }

    /// Chooses by the seed a ready operation that can still run when the process ends.
    pub fn choose_last(&mut self) -> Option<OperationId> {
        let runs = |id: &&OperationId| {
            self.pending
                .get(id)
                .is_some_and(|operation| operation.work.may_be_last() && !operation.observer)
        };
        let could: Vec<OperationId> = self.ready.iter().filter(runs).copied().collect();
        self.random.choice(could)
    }

    /// Returns whether a thread is running an operation other than a host function.
    #[must_use]
    pub fn is_running(&self) -> bool {
        let runs = |operation: &Operation| {
            operation.state == State::Running && !matches!(operation.work, Work::Call(_))
        };
        self.pending.values().any(runs)
    }

    /// Chooses an operation that could write the value which another waits for: one on the same memory, or
    /// one that such an operation waits for.
    pub fn choose_for(&mut self, waiting: OperationId) -> Option<OperationId> {
        let memory = self.pending.get(&waiting)?.touches.clone();
        let shares = |operation: &Operation| {
            operation.touches.iter().any(|touched| memory.contains(touched))
        };
        let mut writers: Vec<OperationId> = self
            .pending
            .iter()
            .filter(|(id, operation)| **id != waiting && shares(operation))
            .map(|(id, _)| *id)
            .collect();
        writers.sort_unstable();
        let needed: Vec<OperationId> = writers
            .into_iter()
            .filter_map(|writer| self.before(writer, waiting))
            .flatten()
            .collect();
        let mut could: Vec<OperationId> = needed
            .into_iter()
            .filter(|id| {
                self.pending.get(id).is_some_and(|found| {
                    matches!(found.state, State::Ready(_)) && found.work.may_run()
                })
            })
            .collect();
        could.sort_unstable();
        could.dedup();
        self.random.choice(could)
    }

    /// Returns an operation and all that it waits for, unless `other` is one of them.
    fn before(&self, id: OperationId, other: OperationId) -> Option<Vec<OperationId>> {
        let mut seen = HashSet::from([id]);
        let mut found = vec![id];
        let mut next = 0;
        while let Some(&current) = found.get(next) {
            next += 1;
            if current == other {
                return None;
            }
            for before in
                self.pending.get(&current).map(|operation| &operation.after[..]).unwrap_or_default()
            {
                if self.pending.contains_key(before) && seen.insert(*before) {
                    found.push(*before);
                }
            }
        }
        Some(found)
    }

    /// Returns the last operations of some contexts: waiting for them waits for all.
    #[must_use]
    pub fn tails(&self, contexts: &[usize]) -> Vec<OperationId> {
        let of_theirs = |operation: &Operation| contexts.contains(&operation.context);
        let is_tail = |operation: &Operation| {
            !operation
                .followers
                .iter()
                .any(|follower| self.pending.get(follower).is_some_and(of_theirs))
        };
        self.pending
            .iter()
            .filter(|(_, operation)| of_theirs(operation) && is_tail(operation))
            .map(|(id, _)| *id)
            .collect()
    }

    /// Returns the operations that have not started, oldest first.
    #[must_use]
    pub fn not_running(&self) -> Vec<OperationId> {
        let waits = |operation: &Operation| operation.state != State::Running;
        let mut found: Vec<OperationId> = self
            .pending
            .iter()
            .filter(|(_, operation)| waits(operation))
            .map(|(id, _)| *id)
            .collect();
        found.sort_unstable();
        found
    }

    /// Marks a ready operation as running and returns its work.
    pub fn begin(&mut self, id: OperationId) -> Option<Work> {
        let operation = self.pending.get_mut(&id)?;
        let State::Ready(place) = operation.state else { return None };
        operation.state = State::Running;
        let (work, special) = (operation.work.clone(), operation.is_special());
        self.leave_ready(place, special);
        Some(work)
    }

    /// Makes a running operation wait for others, and then do `work`. Those that wait for it go on waiting.
    pub fn resume(&mut self, id: OperationId, work: Work, after: Vec<OperationId>) {
        let mut behind: SmallVec<[OperationId; 4]> = after.into();
        behind.retain(|other| self.pending.contains_key(other));
        for other in &behind {
            if let Some(before) = self.pending.get_mut(other) {
                before.followers.push(id);
            }
        }
        let Some(operation) = self.pending.get_mut(&id) else { return };
        operation.work = work;
        operation.waiting = behind.len();
        operation.state = State::Blocked;
        operation.after = behind;
        if operation.waiting == 0 {
            self.enter_ready(id);
        }
    }

    fn enter_ready(&mut self, id: OperationId) {
        let Some(operation) = self.pending.get_mut(&id) else { return };
        self.special += usize::from(operation.is_special());
        self.ready.push(id);
        operation.state = State::Ready(self.ready.len() - 1);
    }

    fn leave_ready(&mut self, place: usize, special: bool) {
        self.special -= usize::from(special);
        self.ready.swap_remove(place);
        if let Some(moved) = self.ready.get(place).and_then(|id| self.pending.get_mut(id)) {
            moved.state = State::Ready(place);
        }
    }

    /// Removes an operation, whether it ran or not, and makes its dependents ready.
    pub fn complete(&mut self, id: OperationId) -> Option<Operation> {
        let operation = self.pending.remove(&id)?;
        if let State::Ready(place) = operation.state {
            self.leave_ready(place, operation.is_special());
        }
        for follower in &operation.followers {
            let Some(next) = self.pending.get_mut(follower) else { continue };
            next.waiting -= 1;
            if next.waiting == 0 {
                self.enter_ready(*follower);
            }
        }
        // Do not keep a large table after a long queue.
        if self.pending.is_empty() && self.pending.capacity() > ROOM {
            self.pending.shrink_to(ROOM);
            self.ready.shrink_to(ROOM);
        }
        Some(operation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(schedule: &mut Schedule, after: &[OperationId]) -> OperationId {
        schedule.add(Work::Mark, 0, Touches::new(), None, after.iter().copied())
    }

    #[test]
    fn an_operation_is_ready_when_all_before_it_are_complete() {
        let mut schedule = Schedule::new(0);
        let first = mark(&mut schedule, &[]);
        let second = mark(&mut schedule, &[]);
        let third = mark(&mut schedule, &[first, second, first]);
        assert!(matches!(schedule.standing(third), Standing::Behind(left) if left.len() == 2));
        schedule.complete(first);
        assert!(matches!(schedule.standing(third), Standing::Behind(left) if left[..] == [second]));
        assert!(schedule.begin(second).is_some() && schedule.begin(second).is_none());
        assert_eq!(schedule.standing(second), Standing::Running);
        schedule.complete(second);
        assert_eq!(schedule.standing(third), Standing::Ready);
        schedule.complete(third);
        assert!(schedule.is_empty() && schedule.choose().is_none());
    }

    #[test]
    fn the_same_seed_makes_the_same_choices() {
        let choices = |seed| {
            let mut schedule = Schedule::new(seed);
            for _ in 0..20 {
                mark(&mut schedule, &[]);
            }
            let mut order = Vec::new();
            while let Some(id) = schedule.choose() {
                schedule.complete(id);
                order.push(id);
            }
            order
        };
        assert_eq!(choices(3), choices(3));
        assert_ne!(choices(3), choices(4));
        assert_eq!(choices(5).len(), 20);
    }
}
