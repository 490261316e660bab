//! The lender's side: what is offered, and the thread that answers borrowers.
//!
//! The thread starts with the first ticket. It owns its connections and what was claimed over them; offers are in a table that
//! other threads fill. It never waits for a borrower: sockets do not block, and what a borrower does not read ends its connection.
//!
//! An offer ends when its time is over, when it is withdrawn, or when all its claims were made. A claim ends when the borrower says
//! so, or when its process has ended: its socket may close before the driver has let go of the memory, so the
//! thread waits for the process too.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::ErrorKind;
use std::mem;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};
use sha2::{Digest, Sha256};

use crate::error::{Error, TicketError};
use crate::fork::ProcessLock;
use crate::lease::{Export, Lease};
use crate::ledger::FixedName;
use crate::ticket::board::Board;
use crate::ticket::bytes::{Origin, Parsed, Place, are_equal};
use crate::ticket::flags::Flag;
use crate::ticket::folder::{self, failed};
use crate::ticket::message::{Grant, Refusal};
use crate::ticket::noted::{self, Books};
use crate::ticket::peer::{Peer, Turn};
use crate::ticket::socket;
use crate::ticket::source::Source;

/// The most offers of a process.
const MOST_OFFERS: usize = 1 << 16;
/// The most connections of a process.
const MOST_PEERS: usize = 1024;
/// How long to wait for descriptors when there are none.
const PAUSE: Duration = Duration::from_millis(10);

/// Memory that a ticket stands for.
pub(super) struct Offer {
    ticket: Box<[u8]>,
    pub(super) secret: [u8; 16],
    /// Keeps the lease, and is its line in the ledger.
    export: Export,
    source: Arc<Source>,
    place: Place,
    /// What says when the bytes are ready, if they were not.
    flag: Option<Arc<Flag>>,
    deadline: Instant,
    /// Claims that can still be made; none if there is no limit.
    claims: Option<u32>,
    /// Whether borrowers see it on the board.
    posted: bool,
    /// It cannot be claimed any more, and stays until the claims that borrowers noted are entered.
    ended: bool,
}

impl Offer {
    /// What a claim gets.
    pub(super) fn granted(&self) -> Granted {
        Granted {
            lease: self.export.lease().clone(),
            source: Arc::clone(&self.source),
            place: self.place.clone(),
            flag: self.flag.clone(),
        }
    }
}

/// How long an offer lasts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) claims: Option<u32>,
    pub(super) keep: Duration,
    /// Whether a later offer of the same memory may be this one, which then lasts longer.
    pub(super) again: bool,
}

pub(super) struct Table {
    lender: [u8; 16],
    boot: [u8; 16],
    /// What secrets are made of.
    master: [u8; 32],
    path: PathBuf,
    /// Only here, so that a forked child can close its copy: nobody must connect to that after the parent's death.
    listener: UnixListener,
    wake: Arc<EventFd>,
    pub(super) offers: BTreeMap<u64, Offer>,
    pub(super) books: Books,
    board: Option<Arc<Board>>,
    /// Offers that the next message with the same memory uses again, by allocation and offset.
    reused: HashMap<(u64, u64), u64>,
    last: u64,
    /// When the thread looks for offers that are over.
    looks_at: Option<Instant>,
    thread: Option<JoinHandle<()>>,
}

pub(super) enum State {
    Idle,
    Running(Box<Table>),
    /// The process is about to end.
    Ended,
}

pub(super) static STATE: ProcessLock<State> = ProcessLock::with(State::Idle, |state| {
    let State::Running(table) = mem::replace(state, State::Idle) else { return };
    // The thread, the offers and the socket's file are the parent's; only the copy of the listening socket is closed.
    let Table { listener, wake, offers, books, board, path, thread, .. } = *table;
    mem::forget((wake, offers, books, board, path, thread));
    drop(listener);
});

const LISTENER: u64 = 0;
const WAKE: u64 = 1;

impl Table {
    /// Listens, and starts the thread.
    fn start() -> Result<Box<Self>, Error> {
        let (lender, boot) = (folder::random()?, folder::boot()?);
        let master = folder::random()?;
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let wake = EventFd::from_flags(flags).map_err(|error| failed("making an event", &error))?;
        let wake = Arc::new(wake);
        let (listener, path) = socket::listen_as(&lender)?;
        let unlink = |error: Error| {
            let _ = fs::remove_file(&path);
            error
        };
        let watched = watch(&listener, &wake).map_err(unlink)?;
        let woken = Arc::clone(&wake);
        let thread = thread::Builder::new().name("gpulend-broker".into());
        let thread = thread.spawn(move || serve(&watched, &woken));
        let thread = thread.map_err(|error| unlink(failed("starting a thread", &error)))?;
        let (offers, last, looks_at) = (BTreeMap::new(), 0, None);
        let (books, board) = (Books::default(), Board::new().map(Arc::new));
        let reused = HashMap::new();
        let thread = Some(thread);
        Ok(Box::new(Self {
            lender,
            boot,
            master,
            path,
            listener,
            wake,
            offers,
            books,
            board,
            reused,
            last,
            looks_at,
            thread,
        }))
    }

    /// The secret of an offer, which nobody can guess who has not seen it.
    fn secret(&self, offer: u64) -> [u8; 16] {
        let hash = Sha256::new().chain_update(self.master).chain_update(offer.to_le_bytes());
        let hash = hash.finalize();
        std::array::from_fn(|index| hash[index])
    }
}

fn watch(listener: &UnixListener, wake: &EventFd) -> Result<Epoll, Error> {
    let watched = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC);
    let watched = watched.and_then(|watched| {
        watched.add(listener, EpollEvent::new(EpollFlags::EPOLLIN, LISTENER))?;
        watched.add(wake, EpollEvent::new(EpollFlags::EPOLLIN, WAKE))?;
        Ok(watched)
    });
    watched.map_err(|error| failed("watching a socket", &error))
}

/// Offers memory. The first offer starts the thread.
pub(super) fn offer(
    lease: &Lease,
    place: Place,
    (source, flag): (Arc<Source>, Option<Arc<Flag>>),
    span: Span,
) -> Result<Box<[u8]>, Error> {
    static WHO: FixedName = FixedName::new("a ticket");
    let deadline = Instant::now() + span.keep;
    if span.again
        && flag.is_none()
        && let Some(ticket) = prolong(lease, &place, (deadline, span.keep))
    {
        return Ok(ticket);
    }
    if place.readonly {
        source.prepare_readers()?;
    }
    let export = lease.export(WHO.get());
    let mut state = STATE.lock();
    if matches!(*state, State::Idle) {
        super::exit::end_at_exit();
        folder::sweep();
        *state = State::Running(Table::start()?);
    }
    let State::Running(table) = &mut *state else {
        return Err(failed("making a ticket", &"the process is ending"));
    };
    if table.offers.len() >= MOST_OFFERS {
        return Err(TicketError::TooMany { what: "offers", count: MOST_OFFERS }.into());
    }
    table.last += 1;
    let number = table.last;
    let secret = table.secret(number);
    let origin = Origin { boot: table.boot, lender: table.lender, offer: number, secret };
    let ticket = Parsed { origin, place: place.clone() }.encode();
    let claims = span.claims;
    let posted = claims.is_none()
        && table.board.as_ref().is_some_and(|board| {
            let pending = flag.as_ref().and_then(|flag| flag.pending());
            let grant = Grant { flag: pending, ..source.grant() };
            board.post(number, (&ticket, secret), span.keep, &grant)
        });
    let (made, ended) = (ticket.clone(), false);
    let made = Offer {
        ticket: made,
        secret,
        export,
        source,
        place,
        flag,
        deadline,
        claims,
        posted,
        ended,
    };
    if span.again {
        table.reused.insert((made.place.allocation, made.place.offset), number);
    }
    table.offers.insert(number, made);
    if table.looks_at.is_none_or(|time| deadline < time) {
        table.looks_at = Some(deadline);
        // Full only if the thread is about to wake anyway.
        let _ = table.wake.write(1);
    }
    Ok(ticket)
}

/// The ticket of an offer of the same memory, which lasts longer from now on. None if there is none, or its bytes are still to come.
fn prolong(
    lease: &Lease,
    place: &Place,
    (deadline, keep): (Instant, Duration),
) -> Option<Box<[u8]>> {
    let mut state = STATE.lock();
    let State::Running(table) = &mut *state else { return None };
    let number = *table.reused.get(&(place.allocation, place.offset))?;
    let offer = table.offers.get_mut(&number)?;
    let same = offer.place == *place && offer.export.lease().is_ordered_as(lease);
    let ready = offer.flag.as_ref().is_none_or(|flag| flag.pending().is_none());
    if offer.ended || !same || !ready || offer.deadline <= Instant::now() {
        return None;
    }
    offer.deadline = offer.deadline.max(deadline);
    if let Some(board) = table.board.as_ref().filter(|_| offer.posted) {
        board.prolong(number, keep);
    }
    Some(offer.ticket.clone())
}

/// The lender that this process is, if it has made a ticket.
pub(super) fn lender() -> Option<[u8; 16]> {
    match &*STATE.lock() {
        State::Running(table) => Some(table.lender),
        State::Idle | State::Ended => None,
    }
}

/// The board of this process, for a borrower.
pub(super) fn board() -> Option<Arc<Board>> {
    match &*STATE.lock() {
        State::Running(table) => table.board.clone(),
        State::Idle | State::Ended => None,
    }
}

/// What a claim gets.
pub(super) struct Granted {
    pub(super) lease: Lease,
    pub(super) source: Arc<Source>,
    pub(super) place: Place,
    pub(super) flag: Option<Arc<Flag>>,
}

/// Uses a ticket once.
pub(super) fn take(ticket: &[u8]) -> Result<Granted, Refusal> {
    let parsed = Parsed::read(ticket).map_err(|_| Refusal::Unknown)?;
    let number = parsed.origin.offer;
    let mut state = STATE.lock();
    let State::Running(table) = &mut *state else { return Err(Refusal::Expired) };
    let is_ours = are_equal(&table.secret(number), &parsed.origin.secret);
    let offer = table.offers.get_mut(&number).filter(|offer| is_ours && !offer.ended);
    let Some(offer) = offer else {
        // Only who has seen a ticket learns that there was one.
        return Err(if is_ours { Refusal::Expired } else { Refusal::Unknown });
    };
    if !are_equal(&offer.ticket, ticket) {
        return Err(Refusal::Unknown);
    }
    if offer.deadline <= Instant::now() {
        return Err(Refusal::Expired);
    }
    let granted = offer.granted();
    let used_up = offer.claims.as_mut().is_some_and(|left| {
        *left = left.saturating_sub(1);
        *left == 0
    });
    let ended = if used_up { table.offers.remove(&number) } else { None };
    drop(state);
    // Its export is not the last: the lease was cloned. Without the lock, because the ledger has its own.
    drop(ended);
    Ok(granted)
}

/// Ends an offer of this process. Returns whether there was one.
pub(super) fn withdraw(parsed: &Parsed) -> bool {
    let number = parsed.origin.offer;
    match &mut *STATE.lock() {
        State::Running(table) if table.lender == parsed.origin.lender => {
            if table.end_offers(|other, _| other == number) == 0 {
                return false;
            }
        }
        _ => return false,
    }
    remove_ended();
    true
}

impl Table {
    /// Has offers end: nobody can claim them any more. Returns how many. [`remove_ended`] comes next, without the lock.
    fn end_offers(&mut self, wanted: impl Fn(u64, &Offer) -> bool) -> usize {
        let mut count = 0;
        for (number, offer) in &mut self.offers {
            if !offer.ended && wanted(*number, offer) {
                offer.ended = true;
                count += 1;
                if let Some(board) = self.board.as_ref().filter(|_| offer.posted) {
                    board.end(*number);
                }
            }
        }
        count
    }
}

/// Lets go of the offers that have ended, after their claims are entered.
fn remove_ended() {
    let ended: Vec<u64> = match &*STATE.lock() {
        State::Running(table) => {
            let ended = table.offers.iter().filter(|(_, offer)| offer.ended && offer.posted);
            ended.map(|(number, _)| *number).collect()
        }
        State::Idle | State::Ended => return,
    };
    if !ended.is_empty() {
        noted::enter(|_, noted| ended.binary_search(&noted.offer).is_ok());
    }
    let mut over = Vec::new();
    if let State::Running(table) = &mut *STATE.lock() {
        let over_now = |(number, offer): (&u64, &Offer)| {
            (offer.ended && (!offer.posted || ended.binary_search(number).is_ok()))
                .then_some(*number)
        };
        let numbers: Vec<u64> = table.offers.iter().filter_map(over_now).collect();
        over.extend(numbers.iter().filter_map(|number| table.offers.remove(number)));
        let Table { reused, offers, .. } = &mut **table;
        reused.retain(|_, number| offers.contains_key(number));
    }
    // Without the lock, because the ledger has its own.
    drop(over);
}

/// Ends the thread and all offers, and removes the socket. What others have claimed is left to the end of the process: freeing
/// memory that they have open would take it from under them.
pub(super) fn end() {
    if let State::Running(table) = &mut *STATE.lock() {
        table.end_offers(|_, _| true);
    }
    noted::enter(|_, _| true);
    let State::Running(table) = mem::replace(&mut *STATE.lock(), State::Ended) else { return };
    let _ = fs::remove_file(&table.path);
    let _ = table.wake.write(1);
    let Table { offers, books, thread, listener, .. } = *table;
    mem::forget(books);
    if let Some(thread) = thread {
        // A panic of its own has been printed already.
        let _ = thread.join();
    }
    drop((listener, offers));
}

/// Answers borrowers until the process ends.
fn serve(watched: &Epoll, wake: &EventFd) {
    let mut peers: HashMap<u64, Peer> = HashMap::new();
    let mut last = 0;
    let mut events = [EpollEvent::empty(); 64];
    let mut room = vec![0; socket::MOST_BYTES];
    while let Some(limit) = next_look() {
        let count = watched.wait(&mut events, limit).unwrap_or(0);
        for event in &events[..count] {
            match event.data() {
                LISTENER => accept(watched, &mut peers, &mut last),
                WAKE => drop(wake.read()),
                of => {
                    let Some(peer) = peers.get_mut(&(of / 2)) else { continue };
                    let turn =
                        if of % 2 == 1 { Turn::Ended } else { peer.answer(watched, &mut room) };
                    if turn == Turn::Ended
                        && let Some(peer) = peers.remove(&(of / 2))
                    {
                        noted::forget(of / 2);
                        peer.forget(watched);
                    }
                }
            }
        }
    }
    // Other processes have it open.
    peers.into_values().for_each(mem::forget);
}

/// Ends the offers whose time is over, and says how long to wait for the next. `None` at the end of the process.
fn next_look() -> Option<EpollTimeout> {
    let now = Instant::now();
    let mut over = 0;
    let limit = match &mut *STATE.lock() {
        State::Running(table) => {
            if table.looks_at.is_some_and(|time| time <= now) {
                over = table.end_offers(|_, offer| offer.deadline <= now);
                let rest = table.offers.values().filter(|offer| !offer.ended);
                table.looks_at = rest.map(|offer| offer.deadline).min();
            }
            let left = table.looks_at.map(|time| time.saturating_duration_since(now));
            // Rounded up, so that the time is over when the thread wakes.
            let left = left.map(|left| left + Duration::from_millis(1));
            left.map_or(EpollTimeout::NONE, |left| {
                EpollTimeout::try_from(left).unwrap_or(EpollTimeout::MAX)
            })
        }
        // The table is filled in when this thread has started.
        State::Idle => EpollTimeout::NONE,
        State::Ended => return None,
    };
    if over > 0 {
        remove_ended();
    }
    Some(limit)
}

fn accept(watched: &Epoll, peers: &mut HashMap<u64, Peer>, last: &mut u64) {
    loop {
        let came = match &*STATE.lock() {
            State::Running(table) => table.listener.accept(),
            State::Idle | State::Ended => return,
        };
        let stream = match came {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(_) => {
                // There is no descriptor left: without a pause the thread would ask again and again.
                thread::sleep(PAUSE);
                return;
            }
        };
        // Others, and more than there may be, find their connection closed.
        if peers.len() >= MOST_PEERS {
            continue;
        }
        *last += 1;
        let Ok(mut peer) = Peer::new(stream.into(), *last) else { continue };
        if peer.watch(watched, 2 * *last).is_ok() {
            peers.insert(*last, peer);
        }
    }
}
