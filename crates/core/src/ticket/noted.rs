//! Claims that borrowers made by themselves, as the lender enters them: see the [board](crate::ticket::board).
//!
//! As long as an offer lives, it keeps the memory, and nobody looks into the logs. They are looked into before an offer ends, when
//! a borrower's connection ends, and when somebody wants to see the ledger.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::sync::Arc;

use crate::ledger::Name;
use crate::ticket::board::{Log, Noted};
use crate::ticket::broker::{Granted, STATE, State};
use crate::ticket::bytes::are_equal;
use crate::ticket::message::MOST_CLAIMS;
use crate::ticket::peer::Held;

/// What the table of a lender knows of the claims that borrowers make by themselves.
#[derive(Default)]
pub(super) struct Books {
    /// The logs, by borrower, and what the ledger calls the borrower.
    logs: HashMap<u64, (Arc<Log>, Name)>,
    /// Claims that were entered, by borrower, with the borrower's number, until the thread fetches them.
    entered: HashMap<u64, Vec<(u64, Held)>>,
}

/// Has a borrower note its claims in a log.
pub(super) fn add(peer: u64, log: Arc<Log>, name: Name) {
    if let State::Running(table) = &mut *STATE.lock() {
        table.books.logs.insert(peer, (log, name));
    }
}

/// Forgets a borrower that has ended, and its claims with it.
pub(super) fn forget(peer: u64) {
    let gone = match &mut *STATE.lock() {
        State::Running(table) => {
            (table.books.logs.remove(&peer), table.books.entered.remove(&peer))
        }
        State::Idle | State::Ended => return,
    };
    // Without the lock: leases end.
    drop(gone);
}

/// The claims of a borrower that were entered since the last call.
pub(super) fn fetch(peer: u64) -> Vec<(u64, Held)> {
    match &mut *STATE.lock() {
        State::Running(table) => table.books.entered.remove(&peer).unwrap_or_default(),
        State::Idle | State::Ended => Vec::new(),
    }
}

struct Found {
    peer: u64,
    name: Name,
    log: Arc<Log>,
    noted: Noted,
    granted: Granted,
}

/// Enters the claims of some offers, or of some borrowers, so that the ledger shows them and they outlive the offer.
///
/// The offers stay in the table until this is done: another thread that reads the same log meanwhile finds the same claims, and each is
/// entered by the one that marks it.
pub(super) fn enter(wanted: impl Fn(u64, &Noted) -> bool) {
    let found = find(wanted);
    if found.is_empty() {
        return;
    }
    // Without the lock, because the ledger has its own.
    let held: Vec<_> = found
        .into_iter()
        .map(|Found { peer, name, log, noted, granted }| {
            (peer, log, noted, Held::new(granted, name))
        })
        .collect();
    let mut late = Vec::new();
    {
        let mut state = STATE.lock();
        for (peer, log, noted, held) in held {
            let State::Running(table) = &mut *state else {
                late.push(held);
                continue;
            };
            let books = &mut table.books;
            let entered = books.entered.entry(peer).or_default();
            // Marked and listed under one lock: the borrower's word that the claim has ended comes after both.
            let known = books.logs.contains_key(&peer) && entered.len() < MOST_CLAIMS;
            if known && log.take_over(&noted) {
                entered.push((noted.number, held));
            } else {
                late.push(held);
            }
        }
    }
    drop(late);
}

fn find(wanted: impl Fn(u64, &Noted) -> bool) -> Vec<Found> {
    let mut found = Vec::new();
    if let State::Running(table) = &*STATE.lock() {
        for (peer, (log, name)) in &table.books.logs {
            for noted in log.claims().filter(|noted| wanted(*peer, noted)) {
                let offer = table.offers.get(&noted.offer);
                let offer = offer.filter(|offer| are_equal(&offer.secret, &noted.secret));
                let Some(offer) = offer else { continue };
                let (log, granted) = (Arc::clone(log), offer.granted());
                found.push(Found { peer: *peer, name: *name, log, noted, granted });
            }
        }
    }
    found
}
