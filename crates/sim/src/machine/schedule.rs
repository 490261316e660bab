//! What is queued, and what must come before what. A stream's order, events and joins are all the same here: an
//! operation waits for others.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use fastrand::Rng;
use smallvec::SmallVec;

use super::operation::{OperationId, Work};

/// An operation that is not complete.
#[derive(Debug)]
pub struct Operation {
    /// What to do.
    pub work: Work,
    /// The context it belongs to.
    pub context: usize,
    /// Bases of the allocations that it reads or writes.
    pub touches: SmallVec<[usize; 2]>,
    /// The event that it records.
    pub event: Option<usize>,
    after: SmallVec<[OperationId; 4]>,
    followers: SmallVec<[OperationId; 2]>,
    waiting: usize,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Blocked,
    /// With its place in `ready`.
    Ready(usize),
    Running,
}

/// What stands between an operation and its completion.
#[derive(Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is complete.
    Complete,
    /// Some thread runs it.
    Running,
    /// It could run now.
    Ready,
    /// Others must be complete first; in an order that the seed chose.
    Behind(SmallVec<[OperationId; 4]>),
}

/// All operations that are not complete.
#[derive(Debug)]
pub struct Schedule {
    made: OperationId,
    pending: HashMap<OperationId, Operation>,
    ready: Vec<OperationId>,
    random: Rng,
}

impl Schedule {
    /// Makes an empty schedule whose choices follow from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { made: 0, pending: HashMap::new(), ready: Vec::new(), random: Rng::with_seed(seed) }
    }

    /// Queues `work` behind those of `after` that are not complete.
    pub fn add(
        &mut self,
        work: Work,
        context: usize,
        touches: SmallVec<[usize; 2]>,
        event: Option<usize>,
        after: impl IntoIterator<Item = OperationId>,
    ) -> OperationId {
        self.made += 1;
        let id = self.made;
        let mut behind = SmallVec::<[OperationId; 4]>::new();
        for other in after {
            if let Some(operation) = self.pending.get_mut(&other)
                && !behind.contains(&other)
            {
                operation.followers.push(id);
                behind.push(other);
            }
        }
        let waiting = behind.len();
        let state = if waiting == 0 {
            self.ready.push(id);
            State::Ready(self.ready.len() - 1)
        } else {
            State::Blocked
        };
        let operation = Operation {
            work,
            context,
            touches,
            event,
            after: behind,
            followers: SmallVec::new(),
            waiting,
            state,
        };
        self.pending.insert(id, operation);
        id
    }

    /// Returns whether nothing is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Returns the number of the newest operation ever made.
    #[must_use]
    pub fn newest(&self) -> OperationId {
        self.made
    }

    /// Returns whether the operation is complete.
    #[must_use]
    pub fn is_complete(&self, id: OperationId) -> bool {
        !self.pending.contains_key(&id)
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

    /// Returns what stands between the operation and its completion.
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

    /// Puts operations in an order that the seed chooses.
    pub fn shuffle(&mut self, operations: &mut [OperationId]) {
        self.random.shuffle(operations);
    }

    /// Chooses an operation that could run now, by the seed; waits for values that memory does not hold are left out.
    pub fn choose(&mut self) -> Option<OperationId> {
        let count = self.ready.len();
        let first = if count == 0 { 0 } else { self.random.usize(..count) };
        (0..count)
            .map(|step| self.ready[(first + step) % count])
            .find(|id| self.pending.get(id).is_some_and(|operation| operation.work.may_run()))
    }

    /// Marks a ready operation as running and returns its work.
    pub fn begin(&mut self, id: OperationId) -> Option<Work> {
        let operation = self.pending.get_mut(&id)?;
        let State::Ready(place) = operation.state else { return None };
        operation.state = State::Running;
        let work = operation.work.clone();
        self.leave_ready(place);
        Some(work)
    }

    fn leave_ready(&mut self, place: usize) {
        self.ready.swap_remove(place);
        if let Some(moved) = self.ready.get(place).and_then(|id| self.pending.get_mut(id)) {
            moved.state = State::Ready(place);
        }
    }

    /// Ends an operation, whether it ran or not, and lets its followers go on.
    pub fn complete(&mut self, id: OperationId) -> Option<Operation> {
        let operation = self.pending.remove(&id)?;
        if let State::Ready(place) = operation.state {
            self.leave_ready(place);
        }
        for follower in &operation.followers {
            let Some(next) = self.pending.get_mut(follower) else { continue };
            next.waiting -= 1;
            if next.waiting == 0 {
                self.ready.push(*follower);
                next.state = State::Ready(self.ready.len() - 1);
            }
        }
        Some(operation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(schedule: &mut Schedule, after: &[OperationId]) -> OperationId {
        schedule.add(Work::Mark, 0, SmallVec::new(), None, after.iter().copied())
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
