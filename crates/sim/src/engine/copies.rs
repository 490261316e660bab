//! Asynchronous copies to shared memory: those that a thread has begun and not yet waited for.
//!
//! A copy takes effect as late as PTX allows: when its thread waits for it.
#![forbid(unsafe_code)]

use std::collections::VecDeque;

/// A copy that has begun.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copy {
    /// The offset in shared memory.
    pub to: usize,
    /// The host address that it reads.
    pub from: u64,
    /// The bytes that it writes.
    pub bytes: u32,
    /// The bytes that it reads; the rest are zeros.
    pub taken: u32,
}

/// The copies of one thread, in order.
#[derive(Debug, Default)]
struct Begun {
    copies: VecDeque<Copy>,
    /// The number of copies of each group, in order.
    groups: VecDeque<usize>,
    /// The number of copies that are in no group yet.
    open: usize,
}

/// The copies of a block.
#[derive(Debug, Default)]
pub(super) struct Copies {
    threads: Vec<Begun>,
}

impl Copies {
    /// Begins a block.
    pub(super) fn begin(&mut self) {
        self.threads.clear();
    }

    fn of(&mut self, thread: usize) -> &mut Begun {
        if self.threads.len() <= thread {
            self.threads.resize_with(thread + 1, Begun::default);
        }
        &mut self.threads[thread]
    }

    /// Adds a copy of a thread.
    pub(super) fn add(&mut self, thread: usize, copy: Copy) {
        let begun = self.of(thread);
        begun.copies.push_back(copy);
        begun.open += 1;
    }

    /// Makes a group of the copies that are in none. It may be empty.
    pub(super) fn commit(&mut self, thread: usize) {
        let begun = self.of(thread);
        begun.groups.push_back(begun.open);
        begun.open = 0;
    }

    /// Takes the copies of all groups but the last few; without a number, all copies.
    pub(super) fn take(&mut self, thread: usize, left: Option<usize>) -> Vec<Copy> {
        let begun = self.of(thread);
        let mut count = 0;
        while begun.groups.len() > left.unwrap_or(0) {
            count += begun.groups.pop_front().unwrap_or(0);
        }
        if left.is_none() {
            count += std::mem::take(&mut begun.open);
        }
        begun.copies.drain(..count).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offsets(copies: &[Copy]) -> Vec<usize> {
        copies.iter().map(|copy| copy.to).collect()
    }

    #[test]
    fn groups_end_in_order_and_the_last_few_are_left() {
        let mut copies = Copies::default();
        let copy = |to| Copy { to, from: 0, bytes: 16, taken: 16 };
        copies.add(3, copy(0));
        copies.add(3, copy(16));
        copies.commit(3);
        copies.commit(3);
        copies.add(3, copy(32));
        copies.commit(3);
        copies.add(3, copy(48));
        assert!(copies.take(3, Some(3)).is_empty());
        assert_eq!(offsets(&copies.take(3, Some(2))), [0, 16]);
        assert!(copies.take(3, Some(1)).is_empty());
        assert_eq!(offsets(&copies.take(3, Some(0))), [32]);
        // A copy of no group is left by a wait for groups.
        assert_eq!(offsets(&copies.take(3, None)), [48]);
        assert!(copies.take(0, None).is_empty());
    }
}
