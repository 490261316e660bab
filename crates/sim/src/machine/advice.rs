//! Advice about managed memory: stored, and returned. It has no effect here.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;

use super::{Caller, Machine, State};
use crate::status::{Outcome, Status};

/// Advice is for whole pages.
const PAGE: usize = 4096;

/// A place of memory in CUDA's numbering: the type and the id of a `CUmemLocation`.
pub type Spot = (i32, i32);

/// What a program says about managed memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Whether it is mostly read.
    ReadMostly(bool),
    /// Where it should be.
    Preferred(Option<Spot>),
    /// That a place accesses it, or does not any more.
    AccessedBy(Spot, bool),
    /// Where it was prefetched to.
    Prefetched(Spot),
}

/// Advice for the addresses from a start to an end.
#[derive(Clone, Copy, Debug)]
pub struct Advised {
    start: usize,
    end: usize,
    advice: Advice,
}

/// What holds for a range of managed memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Whether all of it is mostly read.
    pub read_mostly: bool,
    /// Where all of it should be, if it should be anywhere.
    pub preferred: Option<Spot>,
    /// The places that access all of it.
    pub accessed_by: BTreeSet<Spot>,
    /// Where all of it was last prefetched to.
    pub prefetched: Option<Spot>,
}

impl Facts {
    fn take(&mut self, advice: Advice) {
        match advice {
            Advice::ReadMostly(on) => self.read_mostly = on,
            Advice::Preferred(spot) => self.preferred = spot,
            Advice::AccessedBy(spot, true) => {
                self.accessed_by.insert(spot);
            }
            Advice::AccessedBy(spot, false) => {
                self.accessed_by.remove(&spot);
            }
            Advice::Prefetched(spot) => self.prefetched = Some(spot),
        }
    }

    /// Keeps what holds for both.
    fn meet(self, other: &Self) -> Self {
        let same = |one: Option<Spot>, other: Option<Spot>| one.filter(|_| one == other);
        Self {
            read_mostly: self.read_mostly && other.read_mostly,
            preferred: same(self.preferred, other.preferred),
            accessed_by: self.accessed_by.intersection(&other.accessed_by).copied().collect(),
            prefetched: same(self.prefetched, other.prefetched),
        }
    }
}

/// Adds advice to what is disjoint for each subject. What it replaces is dropped, and equal neighbours become one, so there
/// is at most one for each page and subject.
fn put(list: &mut Vec<Advised>, mut new: Advised) {
    let subject = |advice: &Advice| match advice {
        Advice::ReadMostly(_) => (0, None),
        Advice::Preferred(_) => (1, None),
        Advice::AccessedBy(spot, _) => (2, Some(*spot)),
        Advice::Prefetched(_) => (3, None),
    };
    let mut kept = Vec::with_capacity(list.len() + 2);
    for old in list.drain(..) {
        let touches = old.start <= new.end && new.start <= old.end;
        if subject(&old.advice) != subject(&new.advice) || !touches {
            kept.push(old);
        } else if old.advice == new.advice {
            (new.start, new.end) = (new.start.min(old.start), new.end.max(old.end));
        } else {
            let parts = [Advised { end: new.start, ..old }, Advised { start: new.end, ..old }];
            kept.extend(parts.into_iter().filter(|part| part.start < part.end));
        }
    }
    kept.push(new);
    *list = kept;
}

impl State {
    /// Returns the allocation of managed memory that contains a range.
    fn managed(&self, address: usize, bytes: usize) -> Outcome<usize> {
        let found = self.passport(address).filter(|found| found.kind.is_managed());
        let fits = |found: &super::allocate::Passport| {
            bytes > 0 && bytes <= found.base + found.bytes - address
        };
        found.filter(fits).map(|found| found.base).ok_or(Status::ERROR_INVALID_VALUE)
    }

    /// Stores advice for the pages of a range.
    pub fn advise(&mut self, address: usize, bytes: usize, advice: Option<Advice>) -> Outcome<()> {
        let base = self.managed(address, bytes)?;
        let Some(advice) = advice else { return Ok(()) };
        // Managed memory need not begin with a page of the host's: its own begin with it.
        let offset = address - base;
        let (start, end) = (offset & !(PAGE - 1), (offset + bytes).next_multiple_of(PAGE));
        let (start, end) = (base + start, base + end);
        put(self.advice.entry(base).or_default(), Advised { start, end, advice });
        Ok(())
    }
}

impl Machine {
    /// Returns what holds for all of a range of managed memory.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE` for other memory.
    pub fn facts(&self, caller: &Caller, address: usize, bytes: usize) -> Outcome<Facts> {
        let mut state = self.lock();
        let what = "attributes of a range that is not managed memory";
        let base = state
            .managed(address, bytes)
            .map_err(|status| state.fault(caller, status, what, address))?;
        let empty = Vec::new();
        let list = state.advice.get(&base).unwrap_or(&empty);
        let end = address + bytes;
        let edges = list.iter().flat_map(|advised| [advised.start, advised.end]);
        let mut starts: BTreeSet<usize> =
            edges.filter(|edge| (address..end).contains(edge)).collect();
        starts.insert(address);
        let of = |start: usize| {
            let mut facts = Facts::default();
            for advised in list.iter().filter(|one| (one.start..one.end).contains(&start)) {
                facts.take(advised.advice);
            }
            facts
        };
        let mut parts = starts.into_iter().map(of);
        let first = parts.next().unwrap_or_default();
        Ok(parts.fold(first, |all, part| all.meet(&part)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_for_neighbours_becomes_one_and_a_part_splits_it() {
        let mut list = Vec::new();
        let pages = |first: usize, last: usize, advice| Advised {
            start: first * PAGE,
            end: last * PAGE,
            advice,
        };
        let near = Advice::Prefetched((1, 0));
        for page in 0..1000 {
            put(&mut list, pages(page, page + 1, near));
            put(&mut list, pages(page, page + 1, Advice::ReadMostly(true)));
        }
        assert_eq!(list.len(), 2);
        put(&mut list, pages(10, 20, Advice::Prefetched((2, 0))));
        let mut found: Vec<_> = list
            .iter()
            .filter(|one| matches!(one.advice, Advice::Prefetched(_)))
            .map(|one| (one.start / PAGE, one.end / PAGE, one.advice == near))
            .collect();
        found.sort_unstable();
        assert_eq!(found, [(0, 10, true), (10, 20, false), (20, 1000, true)]);
        put(&mut list, pages(5, 30, near));
        assert_eq!(list.len(), 2);
    }
}
