//! User objects: dropping the last reference calls a function. A graph keeps them as long as it may run.
#![forbid(unsafe_code)]

use std::sync::mpsc::Sender;
use std::sync::{Arc, Weak};

use super::handle::Table;
use super::run::Job;
use super::{Caller, Machine, State};
use crate::foreign::HostFunction;
use crate::status::{Outcome, Status};

/// Counts are limited to C's `int`, although their type is unsigned.
const MOST: u32 = i32::MAX as u32;

/// Objects that have ended are forgotten after as many new ones.
const SWEEP: u64 = 1024;

/// A user object. Dropping it calls the caller's function, once.
#[derive(Debug)]
pub struct Kept {
    ended: HostFunction,
    callbacks: Sender<Job>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        // On the thread of host functions: the thread that drops the last reference may hold the machine's
        // lock, and the function may wait for a lock of the caller. That thread ends only with the machine.
        let _ = self.callbacks.send((None, self.ended));
    }
}

/// The caller's side of an object.
#[derive(Debug)]
pub struct UserObject {
    /// One reference for all of the caller's, if it has any.
    held: Option<Arc<Kept>>,
    /// The number of the caller's references.
    count: u32,
    /// For new references while only a graph keeps the object.
    kept: Weak<Kept>,
}

/// Adds an object. Now and then forgets those that have ended, with or without a call about them.
fn add(objects: &mut Table<UserObject>, object: UserObject) -> usize {
    let handle = objects.add(object);
    if objects.number(handle).is_multiple_of(SWEEP) {
        objects.retain(|object| object.kept.strong_count() > 0);
    }
    handle
}

/// Refuses a count that is zero or not an `int`.
fn refuse_count(count: u32) -> Outcome<()> {
    if (1..=MOST).contains(&count) { Ok(()) } else { Err(Status::ERROR_INVALID_VALUE) }
}

impl State {
    /// Returns an object with a reference that keeps it alive meanwhile.
    fn user_object(
        &mut self,
        caller: &Caller,
        handle: usize,
    ) -> Outcome<(&mut UserObject, Arc<Kept>)> {
        let kept = self.user_objects.get(handle).and_then(|object| object.kept.upgrade());
        if kept.is_none() {
            self.user_objects.remove(handle);
            if self.user_objects.was(handle) {
                let what = "use of a user object that has ended";
                return Err(self.fault(caller, Status::ERROR_INVALID_VALUE, what, handle));
            }
        }
        self.user_objects.get_mut(handle).zip(kept).ok_or(Status::ERROR_INVALID_VALUE)
    }

    /// Releases references of the caller. Releasing more than it has is an error.
    fn release_user_object(&mut self, caller: &Caller, handle: usize, count: u32) -> Outcome<()> {
        let (object, _) = self.user_object(caller, handle)?;
        let Some(left) = object.count.checked_sub(count) else {
            let what = "release of more references to a user object than the caller has";
            return Err(self.fault(caller, Status::ERROR_INVALID_VALUE, what, handle));
        };
        object.count = left;
        if left == 0 {
            object.held = None;
        }
        Ok(())
    }
}

impl Machine {
    /// Creates an object with `count` references of the caller.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE` for a count of zero.
    pub fn create_user_object(&self, ended: HostFunction, count: u32) -> Outcome<usize> {
        // The only call in which a real driver accepts a count beyond `int`.
        if count == 0 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        let held = Arc::new(Kept { ended, callbacks: self.callbacks().clone() });
        let kept = Arc::downgrade(&held);
        let object = UserObject { held: Some(held), count, kept };
        Ok(add(&mut self.lock().user_objects, object))
    }

    /// Adds references of the caller.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub fn retain_user_object(&self, caller: &Caller, handle: usize, count: u32) -> Outcome<()> {
        refuse_count(count)?;
        let mut state = self.lock();
        let (object, kept) = state.user_object(caller, handle)?;
        let sum = object.count.checked_add(count).filter(|sum| *sum <= MOST);
        object.count = sum.ok_or(Status::ERROR_INVALID_VALUE)?;
        object.held = Some(kept);
        Ok(())
    }

    /// Releases references of the caller.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub fn release_user_object(&self, caller: &Caller, handle: usize, count: u32) -> Outcome<()> {
        refuse_count(count)?;
        self.lock().release_user_object(caller, handle, count)
    }

    /// Adds references of a graph: new ones, or the caller's.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub fn graph_retain(
        &self,
        caller: &Caller,
        graph: usize,
        handle: usize,
        count: u32,
        moves: bool,
    ) -> Outcome<()> {
        refuse_count(count)?;
        let mut state = self.lock();
        let (_, kept) = state.user_object(caller, handle)?;
        let before = state.graph(caller, graph)?.keeps.get(&handle).map_or(0, |(count, _)| *count);
        let sum = before.checked_add(count).filter(|sum| *sum <= MOST);
        let sum = sum.ok_or(Status::ERROR_INVALID_VALUE)?;
        if moves {
            state.release_user_object(caller, handle, count)?;
        }
        state.graph(caller, graph)?.keeps.insert(handle, (sum, kept));
        Ok(())
    }

    /// Releases references of a graph. Executable graphs keep their own.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub fn graph_release(
        &self,
        caller: &Caller,
        graph: usize,
        handle: usize,
        count: u32,
    ) -> Outcome<()> {
        refuse_count(count)?;
        let mut state = self.lock();
        state.user_object(caller, handle)?;
        let keeps = &mut state.graph(caller, graph)?.keeps;
        let left = keeps.get(&handle).and_then(|(before, _)| before.checked_sub(count));
        match (left, keeps.get_mut(&handle)) {
            (Some(0), _) => {
                keeps.remove(&handle);
            }
            (Some(left), Some((before, _))) => *before = left,
            _ => {
                let what = "release of more references to a user object than the graph has";
                return Err(state.fault(caller, Status::ERROR_INVALID_VALUE, what, handle));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::handle::Kind;
    use super::*;

    #[test]
    fn objects_that_have_ended_are_forgotten() {
        let mut objects = Table::new(Kind::UserObject);
        for _ in 0..10 * SWEEP {
            add(&mut objects, UserObject { held: None, count: 0, kept: Weak::new() });
        }
        assert!(objects.len() as u64 <= SWEEP);
    }
}
