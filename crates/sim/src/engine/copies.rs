//! Asynchronous copies to shared memory: those that a thread has begun and not yet waited for.
//!
//! A copy takes effect as late as PTX allows: when its thread waits for it, or has begun too many.
#![forbid(unsafe_code)]

use std::collections::VecDeque;

/// The most copies, and groups, that a thread has begun: hardware ends them by itself, so a kernel need not wait.
const MOST: usize = 1024;

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

    /// Takes the oldest half of a thread's copies if it has begun too many.
    pub(super) fn surplus(&mut self, thread: usize) -> Vec<Copy> {
        let begun = self.of(thread);
        if begun.copies.len() < MOST && begun.groups.len() < MOST {
            return Vec::new();
        }
        let mut count = 0;
        while begun.groups.len() > MOST / 2 {
            count += begun.groups.pop_front().unwrap_or(0);
        }
        let mut more = begun.copies.len().saturating_sub(MOST / 2 + count);
        count += more;
        while let Some(group) = begun.groups.front_mut().filter(|_| more > 0) {
            let ended = more.min(*group);
            *group -= ended;
            more -= ended;
            if *group == 0 {
                begun.groups.pop_front();
            }
        }
        begun.open -= more;
        begun.copies.drain(..count).collect()
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

    #[test]
    fn what_nobody_waits_for_does_not_grow() {
        let mut copies = Copies::default();
        let copy = |to| Copy { to, from: 0, bytes: 16, taken: 16 };
        let mut ended = Vec::new();
        for to in 0..3 * MOST {
            ended.extend(copies.surplus(0));
            copies.add(0, copy(to));
            if to % 7 == 0 {
                copies.commit(0);
            }
            assert!(copies.of(0).copies.len() <= MOST);
        }
        // In order; what is left belongs to the last groups, and to none.
        let left = copies.take(0, Some(1));
        let open = copies.take(0, None);
        ended.extend(left);
        assert_eq!(open.len(), 7 + (3 * MOST - 1) % 7);
        ended.extend(open);
        assert_eq!(offsets(&ended), (0..3 * MOST).collect::<Vec<_>>());
        for _ in 0..3 * MOST {
            copies.commit(0);
            assert!(copies.surplus(0).is_empty());
            assert!(copies.of(0).groups.len() <= MOST);
        }
    }
}
