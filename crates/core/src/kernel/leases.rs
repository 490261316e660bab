//! The leases of a launch: used in place, and cloned only if they may not live long enough.
#![forbid(unsafe_code)]

use smallvec::SmallVec;

use crate::abi::cuda::StreamHandle;
use crate::lease::Lease;
use crate::stream::Timeline;

/// This many are held without the heap.
const FEW: usize = 12;

/// The leases of a launch in argument order, each with whether the kernel may write to it. Kept ones come
/// first, then borrowed ones. Most launches keep none and have nothing to drop.
#[derive(Default)]
pub(super) struct Leases<'a> {
    kept: SmallVec<[(Lease, bool); FEW]>,
    lent: SmallVec<[(&'a Lease, bool); FEW]>,
}

impl<'a> Leases<'a> {
    /// Adds a lease and keeps it.
    pub(super) fn keep_one(&mut self, lease: Lease, writes: bool) {
        // First the borrowed ones, to preserve the order.
        self.keep();
        self.kept.push((lease, writes));
    }

    /// Adds a lease by reference.
    #[inline(always)]
    pub(super) fn lend(&mut self, lease: &'a Lease, writes: bool) {
        self.lent.push((lease, writes));
    }

    /// Clones the leases that are only borrowed.
    pub(super) fn keep(&mut self) {
        for (lease, writes) in self.lent.drain(..) {
            self.kept.push((lease.clone(), writes));
        }
    }

    /// The kept leases. Borrowed ones must have been kept.
    pub(super) fn kept(&self) -> &[(Lease, bool)] {
        &self.kept
    }

    /// The same, without the rest.
    pub(super) fn into_kept(self) -> impl Send + 'static {
        self.kept
    }

    /// The timelines; `None` for host memory.
    #[inline(always)]
    pub(super) fn timelines(&self) -> impl Iterator<Item = (Option<&Timeline>, bool)> {
        let kept = self.kept.iter().map(|(lease, writes)| (lease.timeline(), *writes));
        kept.chain(self.lent.iter().map(|(lease, writes)| (lease.timeline(), *writes)))
    }

    /// Whether all the memory is used only by this stream of the kernel's device, and not by the host.
    #[inline(always)]
    pub(super) fn are_plain_on(&self, stream: StreamHandle) -> bool {
        self.timelines().all(|(found, _)| found.is_some_and(|found| found.is_plain_here(stream)))
    }
}
