//! What tickets need of a lease.
#![forbid(unsafe_code)]

use crate::driver::driver;
use crate::dtype::Dtype;
use crate::error::Error;
use crate::host;
use crate::layout::Layout;
use crate::lease::Lease;
use crate::ledger::Name;
use crate::stream::{Timeline, is_reaper};
use crate::view::View;

impl Lease {
    /// Allocates host memory that other processes can open by a [ticket](crate::ticket), zeroed. A forked child shares it.
    ///
    /// # Errors
    ///
    /// As [`Lease::zeros`], or if no file descriptor is left.
    pub fn shared(shape: &[i64], dtype: Dtype, who: Name) -> Result<Self, Error> {
        let layout = Layout::compact(shape, dtype)?;
        let (address, owner) = host::allocate_shared(layout.nbytes(dtype))?;
        let view = View::host(address, dtype, layout, false)?;
        Ok(Self::new(view, owner, who))
    }

    /// A part of the same memory, as a sub-lease; it must be inside this lease's extent.
    pub(crate) fn viewing(&self, view: View) -> Self {
        self.sub(view)
    }

    /// Like [`Lease::is_ready`]. A simulated GPU begins no queued work because it is asked.
    pub(crate) fn looks_ready(&self) -> Result<bool, Error> {
        self.looks_ready_for(false)
    }

    /// As [`Lease::looks_ready`]. Who will write waits for readers too.
    pub(crate) fn looks_ready_for(&self, writes: bool) -> Result<bool, Error> {
        let Some(timeline) = self.driven()? else { return Ok(true) };
        let driver = driver()?;
        driver.only_look(true);
        let ready = timeline.is_ready_for(writes);
        driver.only_look(is_reaper());
        ready
    }

    /// Whether the work on both is one: they are slices of one lease, or memory of the host.
    pub(crate) fn is_ordered_as(&self, other: &Self) -> bool {
        match (self.timeline(), other.timeline()) {
            (None, None) => true,
            (Some(one), Some(other)) => std::ptr::eq(one, other),
            _ => false,
        }
    }

    /// Waits on the host until the bytes are ready.
    pub(crate) fn wait_until_ready(&self) -> Result<(), Error> {
        self.driven()?.map_or(Ok(()), Timeline::ready_for_host)
    }

    /// Checks that the process which lends the memory has not ended before it had written it.
    pub(crate) fn check_lender(&self) -> Result<(), Error> {
        self.timeline().map_or(Ok(()), Timeline::check_lender)
    }
}
