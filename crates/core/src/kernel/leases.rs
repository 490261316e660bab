//! The leases of a launch: looked at where they lie, and kept where that may not last.
#![forbid(unsafe_code)]

use smallvec::SmallVec;

use crate::lease::Lease;
use crate::stream::Timeline;

/// A lease of a launch.
#[derive(Clone, Copy)]
enum Hold<'a> {
    /// One of those that are kept.
    Own(usize),
    Lent(&'a Lease),
}

/// The leases of a launch, and whether the kernel may write behind them. What is kept lies apart, so that most launches have
/// nothing to let go.
#[derive(Default)]
pub(super) struct Leases<'a> {
    holds: SmallVec<[(Hold<'a>, bool); 12]>,
    kept: SmallVec<[Lease; 12]>,
}

impl<'a> Leases<'a> {
    pub(super) fn push_own(&mut self, lease: Lease, writes: bool) {
        self.holds.push((Hold::Own(self.kept.len()), writes));
        self.kept.push(lease);
    }

    #[inline(always)]
    pub(super) fn push_lent(&mut self, lease: &'a Lease, writes: bool) {
        self.holds.push((Hold::Lent(lease), writes));
    }

    pub(super) fn keep(&mut self) {
        for (hold, _) in &mut self.holds {
            if let Hold::Lent(lease) = *hold {
                *hold = Hold::Own(self.kept.len());
                self.kept.push(lease.clone());
            }
        }
    }

    /// The timelines; none for memory of the host.
    #[inline(always)]
    pub(super) fn timelines(&self) -> impl Iterator<Item = (Option<&Timeline>, bool)> {
        self.holds.iter().map(|(hold, writes)| match *hold {
            Hold::Own(index) => (self.kept[index].timeline(), *writes),
            Hold::Lent(lease) => (lease.timeline(), *writes),
        })
    }
}
