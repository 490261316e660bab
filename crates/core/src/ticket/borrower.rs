//! The borrower's side: connections to lenders, and the claims made there.
//!
//! A process has one connection for each lender. A claim ends when the lease that it made ends, which is after the GPU work on it: the
//! mapping is closed first, and then the lender is told. Telling it never waits.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::mem;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use std::{fs, process};

use crate::device::{Device, DeviceKind, Memory};
use crate::driver::driver;
use crate::error::{Error, TicketError};
use crate::fork::ProcessLock;
use crate::lease::Lease;
use crate::ledger::FixedName;
use crate::owner::Owner;
use crate::stream::{Ready, Timeline, is_reaper, release_elsewhere};
use crate::ticket::bytes::{Origin, Parsed, Place};
use crate::ticket::mapping::{self, Key};
use crate::ticket::message::{Answer, Grant, MOST_RELEASED, Request};
use crate::ticket::{folder, socket};
use crate::view::View;

/// How long a lender may take to answer.
const PATIENCE: Duration = Duration::from_secs(4);
/// So many connections are kept although nothing is claimed there.
const MOST_IDLE: usize = 64;

/// A connection to a lender.
#[derive(Debug)]
pub(super) struct Connection {
    lender: [u8; 16],
    pub(super) pid: i32,
    socket: OwnedFd,
    /// Readable when the lender has ended.
    process: OwnedFd,
    /// Held from a question to its answer.
    talk: Mutex<()>,
    /// Ends of claims that the lender's queue had no room for.
    unsent: Mutex<Vec<u64>>,
    /// Set when the lender has gone, or answered oddly.
    broken: AtomicBool,
    last: AtomicU64,
    /// The process that made the connection: a forked child must not use it.
    owner: u32,
}

/// The connections of this process. A forked child has none.
static CONNECTIONS: ProcessLock<Option<HashMap<[u8; 16], Arc<Connection>>>> =
    ProcessLock::with(None, |all| mem::forget(all.take()));
/// The claims of this process, to find the one that memory came by.
static CLAIMS: ProcessLock<Vec<Weak<Claim>>> = ProcessLock::with(Vec::new(), |all| {
    mem::forget(mem::take(all));
});

fn gone(problem: &str) -> Error {
    TicketError::LenderGone { problem: problem.into() }.into()
}

fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
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
        })
    }

    /// Sends a message; waits for room in the lender's queue.
    fn say(&self, request: &Request<'_>, deadline: Instant) -> Result<(), Error> {
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
    fn hear(&self, deadline: Instant) -> Result<(Answer, Vec<OwnedFd>), Error> {
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
    fn give_up(&self, problem: &str) -> Error {
        self.broken.store(true, Ordering::Relaxed);
        gone(problem)
    }

    /// Asks for a ticket for a third process.
    pub(super) fn forward(
        &self,
        number: u64,
        (claims, keep): (u32, u64),
        place: &Parsed,
    ) -> Result<Box<[u8]>, Error> {
        let deadline = Instant::now() + PATIENCE;
        let place = place.encode();
        let _talk = open(&self.talk);
        self.say(&Request::Forward { number, claims, keep, place: &place }, deadline)?;
        match self.hear(deadline)?.0 {
            Answer::Ticket(ticket) => Ok(ticket),
            Answer::Refused(refusal) => Err(refusal.error(self.pid).into()),
            Answer::Granted(_) => Err(self.give_up("it answered oddly")),
        }
    }

    /// Tells the lender that claims have ended. Never waits: what its queue has no room for goes with the next message.
    fn release(&self, number: u64) {
        let mut unsent = open(&self.unsent);
        unsent.push(number);
        while !unsent.is_empty() {
            let count = unsent.len().min(MOST_RELEASED);
            let numbers = unsent[..count].to_vec();
            match socket::send(&self.socket, &Request::Release { numbers }.encode(), &[]) {
                Ok(false) => return,
                // If the lender has gone, so have its claims.
                Ok(true) | Err(_) => drop(unsent.drain(..count)),
            }
        }
    }
}

/// A claim, which keeps the lender's memory. It ends when dropped.
#[derive(Debug)]
pub(super) struct Claim {
    connection: Arc<Connection>,
    number: u64,
    key: Key,
    /// The memory that was claimed: its lowest byte here and how many there are; and where the allocation begins.
    extent: (u64, u64),
    base: u64,
    device: Option<[u8; 16]>,
    on_device: bool,
}

/// What is left to do when a claim ends.
struct End {
    connection: Arc<Connection>,
    number: u64,
    key: Key,
}

impl Drop for End {
    fn drop(&mut self) {
        // The mapping first: a lender that frees memory which others have open frees it under them.
        mapping::leave(self.key);
        self.connection.release(self.number);
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let end =
            End { connection: Arc::clone(&self.connection), number: self.number, key: self.key };
        // The claim is the parent's, and so are the connection and the driver's mapping.
        if self.connection.owner != process::id() {
            return mem::forget(end);
        }
        // Closing memory of a device calls the driver, which a deleter must not.
        if self.on_device && !is_reaper() {
            release_elsewhere(Owner::keep(end));
        }
    }
}

/// The claim by which the memory of a view came, if it did.
pub(super) fn claim_of(view: &View) -> Option<Arc<Claim>> {
    let (low, bytes) = view.extent();
    let claims: Vec<_> = CLAIMS.lock().iter().filter_map(Weak::upgrade).collect();
    claims.into_iter().find(|claim| {
        let (start, length) = claim.extent;
        start <= low && low.saturating_add(bytes) <= start.saturating_add(length)
    })
}

impl Claim {
    /// A ticket for a third process, which claims at the lender.
    pub(super) fn forward(
        &self,
        view: &View,
        readonly: bool,
        terms: (u32, u64),
    ) -> Result<Box<[u8]>, Error> {
        let place = Place::of(view, (self.key.allocation, self.base), self.device, readonly);
        let origin =
            Origin { boot: [0; 16], lender: self.connection.lender, offer: 0, secret: [0; 16] };
        self.connection.forward(self.number, terms, &Parsed { origin, place })
    }
}

/// Claims several tickets of one lender. The result has as many as there are, up to the first error.
pub(super) fn claim_all(tickets: &[(Parsed, &[u8])]) -> Vec<Result<Lease, Error>> {
    /// So many questions may be without an answer.
    const WINDOW: usize = 32;
    let Some((first, _)) = tickets.first() else { return Vec::new() };
    let connection = match Connection::to(first.origin.lender) {
        Ok(connection) => connection,
        Err(error) => return vec![Err(error)],
    };
    let mut results = Vec::new();
    let _talk = open(&connection.talk);
    for window in tickets.chunks(WINDOW) {
        let deadline = Instant::now() + PATIENCE;
        let asked: Vec<_> = window
            .iter()
            .map(|(parsed, bytes)| ask(&connection, parsed, bytes, deadline))
            .collect();
        for (asked, (parsed, _)) in asked.into_iter().zip(window) {
            results.push(asked.and_then(|asked| finish(&connection, parsed, asked, deadline)));
        }
    }
    results
}

/// A question that was sent.
struct Asked {
    number: u64,
    device: Option<u8>,
    key: Key,
    /// The allocation, if it was open before.
    opened: Option<mapping::Opened>,
}

fn ask(
    connection: &Arc<Connection>,
    parsed: &Parsed,
    bytes: &[u8],
    deadline: Instant,
) -> Result<Asked, Error> {
    let place = &parsed.place;
    let device = place.device.map(find_device).transpose()?;
    let key = Key {
        lender: parsed.origin.lender,
        allocation: place.allocation,
        writable: !place.readonly || place.device.is_some(),
    };
    let opened = mapping::enter(key, deadline);
    let number = connection.last.fetch_add(1, Ordering::Relaxed) + 1;
    let request = Request::Claim { number, mapped: opened.is_some(), ticket: bytes };
    if let Err(error) = connection.say(&request, deadline) {
        opened.map(|_| mapping::leave(key));
        return Err(error);
    }
    Ok(Asked { number, device, key, opened })
}

fn finish(
    connection: &Arc<Connection>,
    parsed: &Parsed,
    asked: Asked,
    deadline: Instant,
) -> Result<Lease, Error> {
    let Asked { number, device, key, opened } = asked;
    let granted = connection.hear(deadline).and_then(|(answer, descriptors)| match answer {
        Answer::Granted(grant) => Ok((grant, descriptors)),
        Answer::Refused(refusal) => Err(refusal.error(connection.pid).into()),
        Answer::Ticket(_) => Err(connection.give_up("it answered oddly")),
    });
    let (grant, descriptors) = match granted {
        Ok(granted) => granted,
        Err(error) => {
            opened.map(|_| mapping::leave(key));
            // Where no answer came, the lender may grant it later: it reads this after the claim.
            connection.release(number);
            return Err(error);
        }
    };
    // Of one window, the first claim of an allocation opens it, and the others find it open.
    let opened = match opened.or_else(|| mapping::enter(key, deadline)) {
        Some(opened) => Ok(opened),
        None => mapping::open(key, device, &grant, descriptors),
    };
    let opened = opened.inspect_err(|_| connection.release(number))?;
    lease(connection, parsed, (number, key), device, opened, &grant)
}

/// Makes a lease of a claim whose memory is open. From here on the claim ends with its owner.
fn lease(
    connection: &Arc<Connection>,
    parsed: &Parsed,
    (number, key): (u64, Key),
    device: Option<u8>,
    opened: mapping::Opened,
    _grant: &Grant,
) -> Result<Lease, Error> {
    static WHO: FixedName = FixedName::new("gpulend.claim");
    let place = &parsed.place;
    let address = opened.base.wrapping_add(place.offset);
    let span = place.layout.byte_span(place.dtype);
    let extent = (address.wrapping_add_signed(span.low), span.bytes());
    let claim = Arc::new(Claim {
        connection: Arc::clone(connection),
        number,
        key,
        extent,
        base: opened.base,
        device: place.device,
        on_device: device.is_some(),
    });
    let inside = place.extent().is_some_and(|(low, bytes)| low + bytes <= opened.bytes);
    if !inside && extent.1 > 0 {
        return Err(gone("its allocation is smaller than the ticket says"));
    }
    let at = match device {
        None => (Device::CPU, Memory::Host),
        Some(index) => (Device::new(DeviceKind::Cuda, index), Memory::Device),
    };
    let view = View::new(address, at, place.dtype, place.layout.clone(), place.readonly)?;
    let timeline = match device {
        None => None,
        Some(index) => Some(Timeline::new(index, Ready::Now, None)?),
    };
    let mut claims = CLAIMS.lock();
    if claims.len() == claims.capacity() {
        claims.retain(|claim| claim.strong_count() > 0);
    }
    claims.push(Arc::downgrade(&claim));
    drop(claims);
    Ok(Lease::entered(view, extent, Owner::keep_shared(claim), WHO.get(), timeline))
}

/// The index of the device with a UUID.
fn find_device(wanted: [u8; 16]) -> Result<u8, Error> {
    let driver = driver()?;
    let mut seen = Vec::new();
    for index in 0..u8::try_from(driver.count()?).unwrap_or(u8::MAX) {
        let uuid = driver.known_uuid(index)?;
        if uuid == wanted {
            return Ok(index);
        }
        seen.push(folder::hex(&uuid));
    }
    let found = if seen.is_empty() { "none".into() } else { seen.join(", ").into() };
    Err(TicketError::DeviceNotVisible { wanted: folder::hex(&wanted).into(), found }.into())
}
