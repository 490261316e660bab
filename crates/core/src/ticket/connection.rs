//! A borrower's connections: one for each lender.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::mem;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, process};

use crate::error::{Error, TicketError};
use crate::fork::ProcessLock;
use crate::host::SharedFile;
use crate::stream::Ready;
use crate::ticket::board::{Notes, Posted};
use crate::ticket::bytes::Parsed;
use crate::ticket::flags::{self, Page};
use crate::ticket::message::{Answer, MOST_RELEASED, Request};
use crate::ticket::watch::{send_later, watch};
use crate::ticket::{folder, socket};

/// How long a lender may take to answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(4);
/// How long a killed process may take from losing its descriptors to its end.
const DYING: Duration = Duration::from_millis(100);
/// So many connections are kept although nothing is claimed there.
const MOST_IDLE: usize = 64;

/// A connection to a lender.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) lender: [u8; 16],
    pub(super) pid: i32,
    socket: OwnedFd,
    /// Readable when the lender has ended.
    process: OwnedFd,
    /// Held from a question to its answer.
    pub(super) talk: Mutex<()>,
    /// Ends of claims that the lender's queue had no room for.
    unsent: Mutex<Vec<u64>>,
    /// Set when the lender has gone, or answered oddly.
    broken: AtomicBool,
    pub(super) last: AtomicU64,
    /// The process that made the connection: a forked child must not use it.
    pub(super) owner: u32,
    /// The lender's page of numbers, once one of them was waited for.
    page: OnceLock<Arc<Page>>,
    /// By which claims are made without asking, once the lender has sent it.
    shared: OnceLock<(Posted, Notes)>,
}

/// The connections of this process. A forked child has none.
static CONNECTIONS: ProcessLock<Option<HashMap<[u8; 16], Arc<Connection>>>> =
    ProcessLock::with(None, |all| mem::forget(all.take()));
pub(super) fn gone(problem: &str) -> Error {
    TicketError::LenderGone { problem: problem.into() }.into()
}

pub(super) fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Connection {
    /// The connection to a lender.
    pub(super) fn to(lender: [u8; 16]) -> Result<Arc<Self>, Error> {
        let known = CONNECTIONS.lock().as_ref().and_then(|all| all.get(&lender).cloned());
        if let Some(known) = known.filter(|known| !known.broken.load(Ordering::Relaxed)) {
            return Ok(known);
        }
        let made = Arc::new(Self::make(lender)?);
        let mut all = CONNECTIONS.lock();
        let all = all.get_or_insert_default();
        let mut old = Vec::new();
        if all.len() >= MOST_IDLE {
            let idle = |one: &Arc<Self>| Arc::strong_count(one) == 1;
            let keys: Vec<_> =
                all.iter().filter(|(_, one)| idle(one)).map(|(key, _)| *key).collect();
            old.extend(keys.iter().filter_map(|key| all.remove(key)));
        }
        old.extend(all.insert(lender, Arc::clone(&made)));
        Ok(made)
    }

    fn make(lender: [u8; 16]) -> Result<Self, Error> {
        let path = folder::path_of(&lender)?;
        let Some(socket) = socket::connect_to(&path, Instant::now() + PATIENCE)? else {
            // It was killed before it could remove its socket.
            if socket::is_dead(&path) {
                let _ = fs::remove_file(&path);
            }
            return Err(gone("nobody listens on its socket"));
        };
        let (pid, process) = socket::peer(&socket)?;
        let process = process.ok_or_else(|| gone("its process has ended"))?;
        Ok(Self {
            lender,
            pid,
            socket,
            process,
            talk: Mutex::new(()),
            unsent: Mutex::new(Vec::new()),
            broken: AtomicBool::new(false),
            last: AtomicU64::new(0),
            owner: process::id(),
            page: OnceLock::new(),
            shared: OnceLock::new(),
        })
    }

    /// Sends a message; waits for room in the lender's queue.
    pub(super) fn say(&self, request: &Request<'_>, deadline: Instant) -> Result<(), Error> {
        let bytes = request.encode();
        if self.broken.load(Ordering::Relaxed) {
            return Err(gone("the connection broke"));
        }
        loop {
            match socket::send(&self.socket, &bytes, &[]) {
                Ok(true) => return Ok(()),
                Ok(false) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Ok(false) => return Err(self.give_up("it does not read what it is sent")),
                Err(error) => return Err(self.give_up(error.desc())),
            }
        }
    }

    /// The next answer, and what came with it.
    pub(super) fn hear(&self, deadline: Instant) -> Result<(Answer, Vec<OwnedFd>), Error> {
        let mut room = [0; 4096];
        if self.broken.load(Ordering::Relaxed) {
            return Err(gone("the connection broke"));
        }
        loop {
            match socket::receive(&self.socket, &mut room) {
                Ok(Some(came)) if came.bytes.is_empty() => {
                    return Err(self.give_up("it closed the connection"));
                }
                Ok(Some(came)) => {
                    let answer = Answer::read(&came.bytes);
                    let answer = answer.ok_or_else(|| self.give_up("it answered oddly"))?;
                    return Ok((answer, came.descriptors));
                }
                Ok(None) => {}
                Err(error) => return Err(self.give_up(error.desc())),
            }
            let ready = socket::wait([self.socket.as_fd(), self.process.as_fd()], deadline);
            match ready {
                [true, _] => {}
                [false, true] => return Err(self.give_up("its process has ended")),
                [false, false] => return Err(self.give_up("it does not answer")),
            }
        }
    }

    /// An answer that comes later would be taken for that to another question: the connection is not used again.
    pub(super) fn give_up(&self, problem: &str) -> Error {
        self.broken.store(true, Ordering::Relaxed);
        gone(problem)
    }

    /// The lender's board and our log there, if they have come.
    pub(super) fn shared(&self) -> Option<&(Posted, Notes)> {
        self.shared.get().filter(|_| !self.broken.load(Ordering::Relaxed))
    }

    /// Takes over what came with an answer.
    pub(super) fn share(&self, board: OwnedFd, log: OwnedFd) -> Result<(), Error> {
        let made = (Posted::received(board)?, Notes::received(log)?);
        // The same log twice would be written by two.
        let _ = self.shared.set(made);
        Ok(())
    }

    /// Why memory that the lender granted could not be opened: its end says more than the driver's error.
    pub(super) fn explain(&self, error: Error) -> Error {
        // A process that is killed loses what it shares some time before it has ended.
        let process = self.process.as_fd();
        let [ended] = socket::wait([process], Instant::now() + DYING);
        if ended { self.give_up("its process has ended") } else { error }
    }

    /// Whether the lender's process is still there.
    pub(super) fn is_alive(&self) -> bool {
        !socket::is_readable(self.process.as_fd())
    }

    /// Whether numbers of the lender can be waited for.
    pub(super) fn has_page(&self) -> bool {
        self.page.get().is_some()
    }

    pub(super) const fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// What becomes readable when the lender has ended.
    pub(super) const fn process(&self) -> &OwnedFd {
        &self.process
    }

    /// When the bytes of a claim are ready: a number of the lender's says so. And what says whether the lender ended before.
    pub(super) fn ready(
        self: &Arc<Self>,
        device: u8,
        (slot, value): (u32, u32),
        page: Option<OwnedFd>,
    ) -> Result<(Ready, Option<Arc<AtomicI32>>), Error> {
        let known = match self.page.get() {
            Some(known) => known,
            None => {
                let page = page.ok_or_else(|| gone("it sent no page"))?;
                let file = SharedFile::received(page, flags::BYTES)?;
                let made = Arc::new(Page::new(file, device)?);
                // Questions to one lender come one after another.
                self.page.get_or_init(|| made)
            }
        };
        if known.has(slot, value) {
            return Ok((Ready::Now, None));
        }
        let lost = Arc::new(AtomicI32::new(0));
        watch(self, Arc::clone(known), (slot, value), Arc::clone(&lost))?;
        let event = known.event(device, slot, value)?;
        Ok((Ready::After(event), Some(lost)))
    }

    /// Asks for a ticket for a third process.
    pub(super) fn forward(
        &self,
        number: u64,
        (claims, keep): (u32, u64),
        place: &Parsed,
    ) -> Result<Box<[u8]>, Error> {
        let place = place.encode();
        let _talk = open(&self.talk);
        // Not before: another question may have taken its time.
        let deadline = Instant::now() + PATIENCE;
        self.say(&Request::Forward { number, claims, keep, place: &place }, deadline)?;
        match self.hear(deadline)?.0 {
            Answer::Ticket(ticket) => Ok(ticket),
            Answer::Refused(refusal) => Err(refusal.error(self.pid).into()),
            Answer::Granted(_) => Err(self.give_up("it answered oddly")),
        }
    }

    /// Ends a claim: one that was made without the lender ends in the log, and it is told only if it has entered it.
    pub(super) fn end(self: &Arc<Self>, number: u64, place: Option<usize>) {
        let noted = place.and_then(|place| Some(self.shared.get()?.1.leave(place)));
        if noted != Some(false) {
            self.release(number);
        }
    }

    /// Tells the lender that a claim has ended. Never waits: what its queue has no room for is sent when there is room.
    pub(super) fn release(self: &Arc<Self>, number: u64) {
        open(&self.unsent).push(number);
        if !self.send_unsent() {
            // Without a thread for it, it goes with the next message.
            let _ = send_later(self);
        }
    }

    /// Sends the ends of claims that wait. False if the lender's queue is full.
    pub(super) fn send_unsent(&self) -> bool {
        let mut unsent = open(&self.unsent);
        while !unsent.is_empty() {
            let count = unsent.len().min(MOST_RELEASED);
            let numbers = unsent[..count].to_vec();
            match socket::send(&self.socket, &Request::Release { numbers }.encode(), &[]) {
                Ok(false) => return false,
                // If the lender has gone, so have its claims.
                Ok(true) | Err(_) => drop(unsent.drain(..count)),
            }
        }
        true
    }
}
