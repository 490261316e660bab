//! One borrower's connection, as the lender has it.
#![forbid(unsafe_code)]

use std::collections::{HashMap, VecDeque};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};
use smallvec::SmallVec;

use crate::error::Error;
use crate::lease::Export;
use crate::ledger::Name;
use crate::ticket::board::{Board, Log};
use crate::ticket::broker::{self, Granted, Span};
use crate::ticket::bytes::{Parsed, Place};
use crate::ticket::flags::{Flag, Page};
use crate::ticket::message::{Answer, Grant, MOST_CLAIMS, Refusal, Request};
use crate::ticket::noted;
use crate::ticket::socket;
use crate::ticket::source::Source;

/// How many messages of one borrower are answered before the others have their turn.
const TURN: usize = 64;
/// How many answers may wait for a borrower to read them.
const MOST_UNREAD: usize = 64;

/// Memory that a borrower has claimed.
pub(super) struct Held {
    /// Keeps the lease, and is its line in the ledger.
    export: Export,
    source: Arc<Source>,
    place: Place,
    /// What the borrower may be waiting for.
    _flag: Option<Arc<Flag>>,
}

impl Held {
    /// Enters a claim in the ledger, under the borrower's name.
    pub(super) fn new(granted: Granted, name: Name) -> Self {
        let Granted { lease, source, place, flag } = granted;
        Self { export: lease.export(name), source, place, _flag: flag }
    }
}

/// An answer that waits for room, with what holds its descriptors.
struct Unread {
    bytes: Vec<u8>,
    /// The claim that it grants.
    grants: Option<u64>,
    /// Also whether the borrower may only read.
    source: Option<(Arc<Source>, bool)>,
    page: Option<Arc<Page>>,
    /// By which the borrower makes its next claims.
    shared: Option<(Arc<Board>, Arc<Log>)>,
}

/// Whether a borrower is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Goes,
    Ended,
}

/// A borrower.
pub(super) struct Peer {
    id: u64,
    socket: OwnedFd,
    /// Readable when its process has ended.
    process: Option<OwnedFd>,
    name: Name,
    claims: HashMap<u64, Held>,
    /// The claims that it makes by itself.
    log: Option<Arc<Log>>,
    unread: VecDeque<Unread>,
    /// Under which number its socket is watched, and whether for room too.
    watched: (u64, bool),
}

impl Peer {
    /// A borrower that connected, if it belongs to this user.
    pub(super) fn new(socket: OwnedFd, id: u64) -> Result<Self, Error> {
        let (pid, process) = socket::peer(&socket)?;
        let name = Name::intern_passing(&format!("process {pid}"));
        let (claims, unread) = (HashMap::new(), VecDeque::new());
        let log = None;
        Ok(Self { id, socket, process, name, claims, log, unread, watched: (0, false) })
    }

    /// Watches its socket under a number, and its process under the next.
    pub(super) fn watch(&mut self, watched: &Epoll, number: u64) -> Result<(), Errno> {
        self.watched = (number, false);
        watched.add(&self.socket, EpollEvent::new(EpollFlags::EPOLLIN, number))?;
        self.process.as_ref().map_or(Ok(()), |process| {
            watched.add(process, EpollEvent::new(EpollFlags::EPOLLIN, number + 1))
        })
    }

    /// Ends its claims. A forked child may have copies of the descriptors, so closing them would not end the watch.
    pub(super) fn forget(self, watched: &Epoll) {
        let _ = watched.delete(&self.socket);
        self.process.as_ref().map(|process| watched.delete(process));
    }

    /// Answers what has come.
    pub(super) fn answer(&mut self, watched: &Epoll, room: &mut [u8]) -> Turn {
        if !self.flush(watched) {
            return self.close(watched);
        }
        for _ in 0..TURN {
            match socket::receive(&self.socket, room) {
                Ok(Some(came)) if came.bytes.is_empty() => return self.close(watched),
                Ok(Some(came)) => {
                    let done = match Request::read(&came.bytes) {
                        Some(request) => self.handle(request),
                        None => false,
                    };
                    if !done || !self.flush(watched) {
                        return self.close(watched);
                    }
                }
                Ok(None) => return Turn::Goes,
                // It closed without having read every answer. What it sent before comes next.
                Err(Errno::ECONNRESET) => {}
                Err(_) => return self.close(watched),
            }
        }
        Turn::Goes
    }

    /// The connection is over. What the operating system or nobody needs to keep is free now; memory of a device when the
    /// process has ended.
    fn close(&mut self, watched: &Epoll) -> Turn {
        if let Some(log) = self.log.take() {
            log.close();
            noted::enter(|peer, _| peer == self.id);
            self.fetch();
        }
        // Nobody has opened what was never sent.
        for unread in self.unread.drain(..) {
            unread.grants.map(|number| self.claims.remove(&number));
        }
        self.claims.retain(|_, held| !held.source.is_counted_by_system());
        if self.claims.is_empty() || self.process.is_none() {
            return Turn::Ended;
        }
        let _ = watched.delete(&self.socket);
        socket::shut(&self.socket);
        Turn::Goes
    }

    /// Whether the connection may go on.
    fn handle(&mut self, request: Request<'_>) -> bool {
        match request {
            Request::Claim { number, mapped, knows, ticket } => {
                self.claim(number, (mapped, knows), ticket)
            }
            Request::Release { numbers } => {
                self.fetch();
                for number in numbers {
                    self.claims.remove(&number);
                }
                true
            }
            Request::Forward { number, claims, keep, place } => {
                let span = Span {
                    claims: (claims > 0).then_some(claims),
                    keep: Duration::from_millis(keep),
                    again: false,
                };
                if !self.claims.contains_key(&number) {
                    noted::enter(|peer, noted| (peer, noted.number) == (self.id, number));
                    self.fetch();
                }
                let answer = self.forward(number, span, place);
                self.say(&answer.unwrap_or_else(Answer::Refused))
            }
        }
    }

    /// Takes over the claims that it made by itself and that were entered.
    fn fetch(&mut self) {
        self.claims.extend(noted::fetch(self.id));
    }

    /// What the borrower makes its next claims by. It is made once: with the first grant.
    fn share(&mut self) -> Option<(Arc<Board>, Arc<Log>)> {
        let board = broker::board()?;
        let log = match &self.log {
            Some(log) => Arc::clone(log),
            None => {
                let log = Arc::new(Log::new()?);
                noted::add(self.id, Arc::clone(&log), self.name);
                Arc::clone(self.log.insert(log))
            }
        };
        Some((board, log))
    }

    fn claim(&mut self, number: u64, (mapped, knows): (bool, bool), ticket: &[u8]) -> bool {
        if self.claims.contains_key(&number) {
            return false;
        }
        if self.claims.len() >= MOST_CLAIMS {
            return self.say(&Answer::Refused(Refusal::TooMany));
        }
        let granted = match broker::take(ticket) {
            Ok(granted) => granted,
            Err(refusal) => return self.say(&Answer::Refused(refusal)),
        };
        let shared = if knows { None } else { self.share() };
        let Granted { source, flag, place, .. } = &granted;
        let pending = flag.as_ref().and_then(|flag| flag.pending());
        let page = flag.as_ref().filter(|_| pending.is_some()).map(|flag| Arc::clone(flag.page()));
        let grant = Grant { flag: pending, shares: shared.is_some(), ..source.grant() };
        let (bytes, grants) = (Answer::Granted(grant).encode(), Some(number));
        let source = (!mapped).then(|| (Arc::clone(source), place.readonly));
        // Entered before the borrower can open it.
        self.claims.insert(number, Held::new(granted, self.name));
        self.queue(Unread { bytes, grants, source, page, shared })
    }

    /// A ticket for a third process, of memory that this borrower holds.
    fn forward(&self, number: u64, span: Span, place: &[u8]) -> Result<Answer, Refusal> {
        let held = self.claims.get(&number).ok_or(Refusal::Unknown)?;
        let place = Parsed::read(place).map_err(|_| Refusal::Unknown)?.place;
        let (inner, outer) = (place.extent(), held.place.extent());
        let inside = inner.zip(outer).is_some_and(|((low, bytes), (start, length))| {
            start <= low && low + bytes <= start + length
        });
        let same = (place.device, place.allocation) == (held.place.device, held.place.allocation);
        if !inside || !same || (held.place.readonly && !place.readonly) {
            return Err(Refusal::Unknown);
        }
        // The bytes that the borrower sends on are ready for it, so they are for others.
        let source = (Arc::clone(&held.source), None);
        let ticket = broker::offer(held.export.lease(), place, source, span);
        ticket.map(Answer::Ticket).map_err(|_| Refusal::TooMany)
    }

    /// Queues an answer without descriptors, as [`Peer::queue`].
    fn say(&mut self, answer: &Answer) -> bool {
        let bytes = answer.encode();
        self.queue(Unread { bytes, grants: None, source: None, page: None, shared: None })
    }

    /// Queues an answer. False if too many wait already.
    fn queue(&mut self, unread: Unread) -> bool {
        self.unread.push_back(unread);
        self.unread.len() <= MOST_UNREAD
    }

    /// Sends what waits. False if the connection is over.
    fn flush(&mut self, watched: &Epoll) -> bool {
        while let Some(next) = self.unread.front() {
            let sent = {
                let source = next.source.as_ref();
                let source = source.map(|(source, readonly)| source.descriptors(*readonly));
                let source = source.unwrap_or_default();
                let page = next.page.as_ref().map(|page| page.descriptor());
                let shared = next.shared.as_ref();
                let shared = shared.map(|(board, log)| [board.descriptor(), log.descriptor()]);
                let all: SmallVec<[BorrowedFd<'_>; 4]> =
                    source.into_iter().chain(page).chain(shared.into_iter().flatten()).collect();
                socket::send(&self.socket, &next.bytes, &all)
            };
            match sent {
                Ok(true) => drop(self.unread.pop_front()),
                Ok(false) => return self.watch_for_room(watched, true).is_ok(),
                Err(_) => return false,
            }
        }
        self.watch_for_room(watched, false).is_ok()
    }

    /// Has the thread woken when there is room for answers, or no longer.
    fn watch_for_room(&mut self, watched: &Epoll, wanted: bool) -> Result<(), Errno> {
        if self.watched.1 == wanted {
            return Ok(());
        }
        self.watched.1 = wanted;
        let read = EpollFlags::EPOLLIN;
        let flags = if wanted { read | EpollFlags::EPOLLOUT } else { read };
        watched.modify(&self.socket, &mut EpollEvent::new(flags, self.watched.0))
    }
}
