//! Tickets: leases for other processes of this machine.
//!
//! A ticket is a short byte string that any program can carry: in a pickle, through a pipe, in a message of Ray or Dask. Another
//! process of the same user claims it and has a lease of the same memory. Nothing is copied.
//!
//! ```
//! use std::time::Duration;
//! use gpulend::ledger::Name;
//! use gpulend::ticket::{self, Terms};
//! use gpulend::{Dtype, Lease};
//!
//! let lease = Lease::shared(&[2, 3], Dtype::FLOAT32, Name::intern("an example"))?;
//! let bytes = ticket::offer(&lease, &Terms::default())?;
//!
//! // In this process a claim is a sub-lease; in another one the memory is opened there.
//! let claimed = ticket::claim(&bytes)?;
//! assert_eq!(claimed.view().address(), lease.view().address());
//!
//! // Each ticket can be claimed as often, and as long, as its terms say.
//! let once = Terms { claims: Some(1), keep: Duration::from_secs(5), ..Terms::default() };
//! let bytes = ticket::offer(&lease, &once)?;
//! assert!(ticket::claim(&bytes).is_ok());
//! assert_eq!(ticket::claim(&bytes).unwrap_err().code(), 1104);
//! # Ok::<(), gpulend::Error>(())
//! ```
//!
//! # Who does what
//!
//! | file | does |
//! |---|---|
//! | `bytes.rs` | what a ticket says |
//! | `source.rs` | how memory can be opened elsewhere |
//! | `broker.rs`, `peer.rs` | the lender: its offers, its thread, its borrowers |
//! | `board.rs`, `noted.rs` | claims without a question: offers and claims in shared memory, and how the lender enters them |
//! | `borrower.rs`, `connection.rs`, `mapping.rs` | the borrower: its claims, its connections, and what it has open |
//! | `flags.rs`, `watch.rs` | the order of their streams, and the borrower's watch over a lender that may die |
//! | `message.rs`, `socket.rs`, `folder.rs` | what both say, over what, and where |

mod board;
mod borrower;
mod broker;
mod bytes;
mod connection;
mod exit;
mod flags;
mod folder;
mod mapping;
mod message;
mod noted;
mod peer;
mod socket;
mod source;
mod watch;

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::copy;
use crate::error::{Error, TicketError};
use crate::lease::Lease;
use crate::view::View;

use borrower::{claim_all, claim_of};
use broker::{Granted, Span};
use bytes::{Parsed, Place};
use flags::flag;
use source::Source;

pub use bytes::MOST_BYTES;

/// What a ticket allows.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// How often it can be claimed; none for any number.
    pub claims: Option<u32>,
    /// How long it can be claimed.
    pub keep: Duration,
    /// Whether claims are read-only.
    pub readonly: bool,
}

impl Default for Terms {
    fn default() -> Self {
        Self { claims: None, keep: Duration::from_secs(60), readonly: false }
    }
}

/// The longest that a ticket is kept: a year.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// Makes a ticket of a lease. The memory stays as long as the ticket can be claimed, and then as long as a claim lives.
///
/// The first ticket starts a thread, which answers other processes.
///
/// # Errors
///
/// If other processes cannot open the memory, or the operating system refuses a socket.
pub fn offer(lease: &Lease, terms: &Terms) -> Result<Box<[u8]>, Error> {
    make(lease, terms, false)
}

/// As [`offer`] with the default terms, for messages that carry the same memory again and again: as long as there is such an offer of the
/// same array, its ticket is returned once more, and lasts as long as a new one would.
///
/// # Errors
///
/// As [`offer`].
pub fn offer_again(lease: &Lease) -> Result<Box<[u8]>, Error> {
    make(lease, &Terms::default(), true)
}

fn make(lease: &Lease, terms: &Terms, again: bool) -> Result<Box<[u8]>, Error> {
    lease.check_live()?;
    let keep = terms.keep.min(LONGEST);
    if terms.claims == Some(0) {
        return Err(TicketError::Expired.into());
    }
    let view = lease.view();
    if let Some(claim) = claim_of(view) {
        // The lender cannot wait for streams of this process.
        lease.wait_until_ready()?;
        let keep = u64::try_from(keep.as_millis()).unwrap_or(u64::MAX);
        return claim.forward(view, terms.readonly, (terms.claims.unwrap_or(0), keep));
    }
    let source = Source::of(view)?;
    let at = (source.number, source.base);
    let place = Place::of(view, at, source.device, terms.readonly);
    let flag = flag(lease, !place.readonly)?;
    broker::offer(lease, place, (source, flag), Span { claims: terms.claims, keep, again })
}

/// Makes a ticket of a copy of a lease: for memory that other processes cannot open. The copy lives as long as the ticket or a
/// claim.
///
/// # Safety
///
/// As (1) of [`copy::copy`].
///
/// # Errors
///
/// As [`offer`], or if there is not enough memory.
pub unsafe fn offer_copy(lease: &Lease, terms: &Terms) -> Result<Box<[u8]>, Error> {
    lease.check_live()?;
    // SAFETY: the contract.
    let copied = unsafe { copy::shared_twin(lease) }?;
    COPIES.fetch_add(1, Ordering::Relaxed);
    offer(&copied, terms)
}

/// How many tickets of copies were made.
static COPIES: AtomicU64 = AtomicU64::new(0);

/// How many tickets of copies this process made, by [`offer_copy`].
#[must_use]
pub fn copies() -> u64 {
    COPIES.load(Ordering::Relaxed)
}

/// Claims a ticket: a lease of the lender's memory, which is opened here.
///
/// # Errors
///
/// If the bytes are not a ticket, or not one of this machine, or its lender refuses it or has gone.
pub fn claim(ticket: &[u8]) -> Result<Lease, Error> {
    claims(&[ticket]).pop().unwrap_or(Err(TicketError::Expired.into()))
}

/// Claims several tickets: for those of one lender, few messages are sent.
///
/// Each is granted or refused by itself.
pub fn claims(tickets: &[&[u8]]) -> Vec<Result<Lease, Error>> {
    let here = folder::boot();
    let own = broker::lender();
    let mut results: Vec<Option<Result<Lease, Error>>> = Vec::new();
    let mut foreign: Vec<(usize, Parsed)> = Vec::new();
    for (index, ticket) in tickets.iter().enumerate() {
        let read = here.clone().and_then(|boot| {
            let parsed = Parsed::read(ticket)?;
            if parsed.origin.boot != boot {
                return Err(TicketError::WrongMachine.into());
            }
            Ok(parsed)
        });
        results.push(match read {
            Ok(parsed) if Some(parsed.origin.lender) == own => Some(claim_here(ticket)),
            Ok(parsed) => {
                foreign.push((index, parsed));
                None
            }
            Err(error) => Some(Err(error)),
        });
    }
    // Tickets of one lender together, whatever their order.
    foreign.sort_by_key(|(_, parsed)| parsed.origin.lender);
    let groups: Vec<_> =
        foreign.chunk_by(|(_, one), (_, other)| one.origin.lender == other.origin.lender).collect();
    let ask = |group: &[(usize, Parsed)]| {
        let asked: Vec<_> =
            group.iter().map(|(index, parsed)| (parsed.clone(), tickets[*index])).collect();
        claim_all(&asked)
    };
    // Lenders are asked at once: one that does not answer holds nobody up but the caller.
    let answers: Vec<_> = match &*groups {
        [only] => vec![ask(only)],
        _ => thread::scope(|scope| {
            let asked: Vec<_> =
                groups.iter().map(|group| scope.spawn(move || ask(group))).collect();
            asked.into_iter().map(|one| one.join().unwrap_or_default()).collect()
        }),
    };
    for (group, answers) in groups.iter().zip(answers) {
        let mut answers = answers.into_iter();
        let mut last = None;
        for (index, _) in *group {
            // An error before the first claim is that of all.
            let answer = answers.next().or_else(|| last.clone());
            last = answer.clone().filter(Result::is_err);
            results[*index] = answer;
        }
    }
    results.into_iter().map(|one| one.unwrap_or(Err(TicketError::Expired.into()))).collect()
}

/// A claim of the process's own ticket is a sub-lease: the driver is not asked.
fn claim_here(ticket: &[u8]) -> Result<Lease, Error> {
    let granted = broker::take(ticket);
    let lender = i32::try_from(std::process::id()).unwrap_or(0);
    let Granted { lease, source, place, .. } = granted.map_err(|refusal| refusal.error(lender))?;
    let at = (lease.view().device(), lease.view().memory());
    let address = source.base.wrapping_add(place.offset);
    let view = View::new(address, at, place.dtype, place.layout, place.readonly)?;
    Ok(lease.viewing(view))
}

/// Ends a ticket that this process made: it can no longer be claimed. Returns whether it could before.
///
/// # Errors
///
/// If the bytes are not a ticket.
pub fn withdraw(ticket: &[u8]) -> Result<bool, Error> {
    Ok(broker::withdraw(&Parsed::read(ticket)?))
}

/// Checks that bytes are a ticket, without asking its lender.
///
/// # Errors
///
/// If they are not.
pub fn check(ticket: &[u8]) -> Result<(), Error> {
    Parsed::read(ticket).map(drop)
}

/// Enters the claims that borrowers made without asking this process, so that the [ledger](crate::ledger) shows them. Until then it
/// shows their ticket.
pub fn settle() {
    noted::enter(|_, _| true);
}

/// Ends all offers, and removes this process's socket. It runs at the end of the process; a runtime that ends earlier calls it
/// before.
pub fn end() {
    broker::end();
}
