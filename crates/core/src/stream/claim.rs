//! What may become of memory that is not ours: each hand-over asks again.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::driver::driver;
use crate::error::{AddressError, Error, TicketError};

/// What is known about somebody else's memory.
#[derive(Debug)]
pub(super) enum Claim {
    /// Nothing that could change.
    None,
    /// It was wrapped: an address, and the allocation's buffer id.
    Buffer(u64, u64),
    /// Another process was to write it, and may have ended before: its id then, or 0.
    Lender(Arc<AtomicI32>),
}

impl Claim {
    /// Checks that wrapped memory is still the same allocation, and that a lender has not ended too early.
    #[inline]
    pub(super) fn check(&self) -> Result<(), Error> {
        let &Self::Buffer(address, wanted) = self else { return self.check_lender() };
        match driver()?.buffer_id(address)? {
            Some(found) if found == wanted => Ok(()),
            Some(_) => {
                let reused = ", and something else was allocated there";
                Err(AddressError::Gone { address, reused }.into())
            }
            None => Err(AddressError::Gone { address, reused: "" }.into()),
        }
    }

    /// Checks that a lender has not ended too early.
    #[inline]
    pub(super) fn check_lender(&self) -> Result<(), Error> {
        let Self::Lender(lost) = self else { return Ok(()) };
        match lost.load(Ordering::Acquire) {
            0 => Ok(()),
            lender => Err(TicketError::LenderLost { lender }.into()),
        }
    }
}
