//! The borrower's side: claims, made over a [connection](crate::ticket::connection) to their lender.
//!
//! A claim ends when the lease that it made ends, which is after the GPU work on it: the
//! mapping is closed first, and then the lender is told. Telling it never waits.
#![forbid(unsafe_code)]

use std::mem;
use std::os::fd::OwnedFd;
use std::process;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Instant;

use crate::device::{Device, DeviceKind, Memory};
use crate::driver::driver;
use crate::error::{Error, TicketError};
use crate::fork::ProcessLock;
use crate::lease::Lease;
use crate::ledger::FixedName;
use crate::owner::Owner;
use crate::stream::{Ready, Timeline, is_reaper, release_elsewhere};
use crate::ticket::bytes::{Origin, Parsed, Place};
use crate::ticket::connection::{Connection, PATIENCE, gone, open};
use crate::ticket::folder;
use crate::ticket::mapping::{self, Key};
use crate::ticket::message::{Answer, Request};
use crate::view::View;

/// The claims of this process, to find the one that memory came by.
static CLAIMS: ProcessLock<Vec<Weak<Claim>>> = ProcessLock::with(Vec::new(), |all| {
    mem::forget(mem::take(all));
});

/// A claim, which keeps the lender's memory. It ends when dropped.
#[derive(Debug)]
pub(super) struct Claim {
    connection: Arc<Connection>,
    number: u64,
    /// Its place in the log, if the lender was not asked.
    place: Option<usize>,
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
    place: Option<usize>,
    key: Key,
}

impl Drop for End {
    fn drop(&mut self) {
        // The mapping first: a lender that frees memory which others have open frees it under them.
        mapping::leave(self.key);
        self.connection.end(self.number, self.place);
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let connection = Arc::clone(&self.connection);
        let end = End { connection, number: self.number, place: self.place, key: self.key };
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
    let mut results = Vec::with_capacity(tickets.len());
    let _talk = open(&connection.talk);
    for window in tickets.chunks(WINDOW) {
        let deadline = Instant::now() + PATIENCE;
        let alive = connection.shared().is_some() && connection.is_alive();
        let asked: Vec<_> = window
            .iter()
            .map(|(parsed, bytes)| {
                let found =
                    if alive { help_oneself(&connection, parsed, bytes, deadline) } else { None };
                match found {
                    Some(lease) => Ok(Step::Done(lease)),
                    None => ask(&connection, parsed, bytes, deadline).map(Step::Asked),
                }
            })
            .collect();
        for (asked, (parsed, _)) in asked.into_iter().zip(window) {
            results.push(match asked {
                Ok(Step::Done(lease)) => Ok(lease),
                Ok(Step::Asked(asked)) => finish(&connection, parsed, asked, deadline),
                Err(error) => Err(error),
            });
        }
    }
    results
}

/// How far a claim is.
enum Step {
    Done(Lease),
    Asked(Asked),
}

/// Claims an offer that is on the lender's board. `None` if the lender must be asked: it may have a descriptor to send, or says why not.
fn help_oneself(
    connection: &Arc<Connection>,
    parsed: &Parsed,
    bytes: &[u8],
    deadline: Instant,
) -> Option<Lease> {
    let (board, log) = connection.shared()?;
    let Origin { offer, secret, .. } = parsed.origin;
    let device = parsed.place.device.map(find_device).transpose().ok()?;
    let key = key_of(parsed);
    let number = connection.last.fetch_add(1, Ordering::Relaxed) + 1;
    let place = log.enter(offer, number, secret)?;
    let grant = board.find(offer, (bytes, secret));
    let grant = grant.filter(|grant| grant.flag.is_none() || connection.has_page());
    let opened = grant.as_ref().and_then(|grant| {
        mapping::enter(key, deadline).or_else(|| {
            let known = mapping::needs_no_descriptor(grant);
            known.then(|| mapping::open(key, device, grant, Vec::new()).ok())?
        })
    });
    let Some((grant, opened)) = grant.zip(opened) else {
        connection.end(number, Some(place));
        return None;
    };
    let place = (number, Some(place), key);
    lease(connection, parsed, place, device, opened, (grant.flag, None)).ok()
}

fn key_of(parsed: &Parsed) -> Key {
    let place = &parsed.place;
    Key {
        lender: parsed.origin.lender,
        allocation: place.allocation,
        writable: !place.readonly || place.device.is_some(),
    }
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
    let device = parsed.place.device.map(find_device).transpose()?;
    let key = key_of(parsed);
    let opened = mapping::enter(key, deadline);
    let number = connection.last.fetch_add(1, Ordering::Relaxed) + 1;
    let (mapped, knows) = (opened.is_some(), connection.shared().is_some());
    let request = Request::Claim { number, mapped, knows, ticket: bytes };
    if let Err(error) = connection.say(&request, deadline) {
        if opened.is_some() {
            mapping::leave(key);
        }
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
    let (grant, mut descriptors) = match granted {
        Ok(granted) => granted,
        Err(error) => {
            if opened.is_some() {
                mapping::leave(key);
            }
            // Where no answer came, the lender may grant it later: it reads this after the claim.
            connection.release(number);
            return Err(error);
        }
    };
    if grant.shares
        && let (Some(log), Some(board)) = (descriptors.pop(), descriptors.pop())
    {
        // Without them every claim is asked for.
        let _ = connection.share(board, log);
    }
    let page = grant.flag.and_then(|_| descriptors.pop());
    // Of one window, the first claim of an allocation opens it, and the others find it open.
    let opened = match opened.or_else(|| mapping::enter(key, deadline)) {
        Some(opened) => Ok(opened),
        None => mapping::open(key, device, &grant, descriptors),
    };
    let opened = opened.map_err(|error| {
        connection.release(number);
        connection.explain(error)
    })?;
    lease(connection, parsed, (number, None, key), device, opened, (grant.flag, page))
}

/// Makes a lease of a claim whose memory is open. From here on the claim ends with its owner.
fn lease(
    connection: &Arc<Connection>,
    parsed: &Parsed,
    (number, log, key): (u64, Option<usize>, Key),
    device: Option<u8>,
    opened: mapping::Opened,
    (flag, page): (Option<(u32, u32)>, Option<OwnedFd>),
) -> Result<Lease, Error> {
    static WHO: FixedName = FixedName::new("gpulend.claim");
    let place = &parsed.place;
    let address = opened.base.wrapping_add(place.offset);
    let span = place.layout.byte_span(place.dtype);
    let extent = (address.wrapping_add_signed(span.low), span.bytes());
    let claim = Arc::new(Claim {
        connection: Arc::clone(connection),
        number,
        place: log,
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
    let timeline = match (device, flag) {
        (None, _) => None,
        (Some(index), None) => Some(Timeline::new(index, Ready::Now, None)?),
        (Some(index), Some(flag)) => Some(match connection.ready(index, flag, page)? {
            (ready, None) => Timeline::new(index, ready, None)?,
            (ready, Some(lost)) => Timeline::lent(index, ready, lost)?,
        }),
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
