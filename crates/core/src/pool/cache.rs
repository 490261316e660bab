//! gpulend's own pool: what an allocation does when no free block of its stream fits.
//!
//! The steps, from cheap to dear. The books (`blocks`) are never locked during a call of the driver, so each step looks again.
//!
//! 1. A free block of the stream, or one on which no work is left.
//! 2. Blocks of other streams that are idle by now.
//! 3. An error, if the device is smaller than what is asked for. A new segment, within the limit.
//! 4. A block of a busy stream: this stream waits for that one's work, by an event.
//! 5. The host waits for all streams that have free blocks, merges, and gives whole segments back to the driver.
//! 6. The host waits for memory that the reaper is about to release.
//!
//! Then it is an error that says who holds what.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::blocks::{
    self, Arena, COMMON, DEVICES, Kind, PAGE, Taken, User, Waiting, arena, rounded,
};
use crate::driver::driver;
use crate::error::Error;
use crate::ledger;
use crate::pool::block::Block;
use crate::pool::exhausted;
use crate::stream::{
    Event, Stream, hurry, is_capturing, is_legacy_idle, is_reaper, record_beside_legacy,
    synchronize,
};

/// How often an allocation looks again while the reaper is about to release memory, and how long it waits each time.
const RETRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(1);
/// Requests of so many bytes are compared with the device's memory first.
const LARGE: u64 = 1 << 30;
/// Before a new segment for so many bytes the reaper is asked for what is done by now, and this long waited for.
const WORTH_A_LOOK: u64 = PAGE / 2;
const LOOK: Duration = Duration::from_millis(1);
/// How often it looks at least.
const OTHERS: u32 = 8;

/// What is asked for.
#[derive(Clone, Copy)]
struct Request<'a> {
    bytes: u64,
    kind: Kind,
    user: User,
    home: &'a Stream,
}

impl Request<'_> {
    fn size(&self) -> (u64, Kind) {
        (self.bytes, self.kind)
    }

    /// Whether free blocks wait for the stream that asks.
    fn is_of(&self, waiting: &Waiting) -> bool {
        waiting.stream == self.home.handle()
    }
}

/// Allocates in the order of a stream, which is not capturing.
#[inline]
pub(super) fn allocate(bytes: u64, home: &Stream) -> Result<Block, Error> {
    allocate_as(User::Lease, bytes, home)
}

/// The queue that a stream takes blocks from and gives them to. A stream that nobody can name later has none: it takes and gives only blocks on
/// which no work is left.
#[inline]
fn queue_of(arena: &mut Arena, home: &Stream) -> u32 {
    match home.life() {
        Some(life) => arena.queue(home.handle(), life),
        None => {
            arena.begin();
            COMMON
        }
    }
}

/// As [`allocate`], for another user than a lease.
#[inline]
pub(super) fn allocate_as(user: User, bytes: u64, home: &Stream) -> Result<Block, Error> {
    let Some(size) = rounded(bytes) else { return Err(exhausted(home.device(), bytes)?) };
    let kind = Kind::of(bytes);
    let taken = match hit((size, kind), home, user) {
        Some(taken) => taken,
        None => search(Request { bytes: size, kind, user, home })?,
    };
    Ok(Block::new(taken, home))
}

/// As [`allocate`] if a free block fits: nothing is asked of the driver.
#[inline]
pub(super) fn allocate_at_once(bytes: u64, home: &Stream) -> Option<Block> {
    let taken = hit((rounded(bytes)?, Kind::of(bytes)), home, User::Lease)?;
    Some(Block::new(taken, home))
}

/// A free block of a stream that fits.
#[inline]
fn hit(size: (u64, Kind), home: &Stream, user: User) -> Option<Taken> {
    let mut arena = arena(home.device());
    let queue = queue_of(&mut arena, home);
    arena.hit(queue, size, user).or_else(|| arena.fit(queue, size, user))
}

/// One thread at a time makes and gives back segments of a device: what one has in hand is in nobody's books.
///
/// No `ProcessLock`: others are taken while it is held, and a forking thread that had one of them would wait for ever. A forked
/// child never comes here, because it has no driver.
static SEGMENTS: [Mutex<()>; DEVICES] = [const { Mutex::new(()) }; DEVICES];

fn segments(device: u8) -> MutexGuard<'static, ()> {
    let segments = &SEGMENTS[usize::from(device) % DEVICES];
    segments.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The steps after the first.
#[cold]
fn search(request: Request<'_>) -> Result<Taken, Error> {
    let device = request.home.device();
    let driver = driver()?;
    let _alone = segments(device);
    let _entered = driver.enter(device)?;
    let _relaxed = driver.relax()?;
    if let Some(taken) = fit(request) {
        return Ok(taken);
    }
    if settle_idle(request)
        && let Some(taken) = fit(request)
    {
        return Ok(taken);
    }
    // What the device can never have is no reason to ask it again and again, nor to give its cache back. Small requests are
    // not worth the question.
    let limit = arena(device).limit();
    if request.bytes > limit || request.bytes >= LARGE && request.bytes > driver.room()?.1 {
        return Err(exhausted(device, request.bytes)?);
    }
    // What the reaper is about to give back may be enough, and takes no memory.
    if request.bytes >= WORTH_A_LOOK && ledger::waiting() > 0 && !is_reaper() {
        hurry(LOOK);
        if let Some(taken) = fit(request) {
            return Ok(taken);
        }
    }
    if let Some(taken) = grow(request)? {
        return Ok(taken);
    }
    if let Some(taken) = take_busy(request) {
        return Ok(taken);
    }
    for attempt in 0..RETRIES {
        // Asked first: what comes back in between is found.
        let wait = !is_reaper() && may_come_back(device);
        if let Some(taken) = reclaim(request)? {
            return Ok(taken);
        }
        if !wait {
            // Another thread that frees and takes blocks meanwhile may have had in hand what fits.
            if attempt < OTHERS {
                thread::yield_now();
                continue;
            }
            break;
        }
        // A simulated GPU goes on with its work while somebody waits for it. A real one needs no push, and waiting for all of
        // it would invalidate captures.
        if driver.is_simulated() {
            let _ = synchronize(device);
        }
        thread::sleep(PAUSE);
    }
    Err(exhausted(device, request.bytes)?)
}

/// Whether the reaper has memory to release, or a stream to destroy that has free blocks.
fn may_come_back(device: u8) -> bool {
    let (waiting, _) = arena(device).waiting();
    ledger::waiting() > 0 || waiting.iter().any(|one| stream(device, one).is_none())
}

fn fit(request: Request<'_>) -> Option<Taken> {
    let mut arena = arena(request.home.device());
    let queue = queue_of(&mut arena, request.home);
    arena.fit(queue, request.size(), request.user)
}

/// Makes blocks of idle streams common. Returns whether there were any.
fn settle_idle(request: Request<'_>) -> bool {
    let device = request.home.device();
    let (waiting, moment) = arena(device).waiting();
    let mut settled = false;
    for one in waiting.iter().filter(|one| !request.is_of(one)) {
        if stream(device, one).is_some_and(|stream| is_idle(&stream)) {
            arena(device).settle(one.queue, moment);
            settled = true;
        }
    }
    settled
}

/// Whether a stream has no work left. The legacy stream itself is not touched: that would invalidate captures.
fn is_idle(stream: &Stream) -> bool {
    match stream.is_legacy() {
        true => is_legacy_idle(stream.device()).unwrap_or(false),
        false => stream.is_idle_now(),
    }
}

/// An event after the work that a stream has now, likewise.
fn record_after(stream: &Stream) -> Result<Event, Error> {
    match stream.is_legacy() {
        true => record_beside_legacy(stream.device()),
        false => stream.record(),
    }
}

fn stream(device: u8, waiting: &Waiting) -> Option<Stream> {
    Stream::again(device, waiting.stream, waiting.life)
}

/// Takes a block from a new segment.
fn grow(request: Request<'_>) -> Result<Option<Taken>, Error> {
    let device = request.home.device();
    let driver = driver()?;
    let least = request.bytes.next_multiple_of(PAGE);
    // Where there is no room for the usual segment, there may be for a smaller one.
    for bytes in [request.kind.segment(request.bytes), least] {
        if !arena(device).has_room_for(bytes) {
            continue;
        }
        if let Some(address) = driver.allocate_segment(bytes)? {
            blocks::note_use();
            let mut arena = arena(device);
            arena.grow(address, bytes, request.kind);
            let queue = queue_of(&mut arena, request.home);
            return Ok(arena.fit(queue, request.size(), request.user));
        }
    }
    Ok(None)
}

/// Takes a block of a stream that is busy: the request's stream waits for it.
fn take_busy(request: Request<'_>) -> Option<Taken> {
    let device = request.home.device();
    let (waiting, _) = arena(device).waiting();
    for one in waiting.iter().filter(|one| !request.is_of(one)) {
        let Some(busy) = stream(device, one) else { continue };
        if !matches!(is_capturing(&busy), Ok(false)) {
            continue;
        }
        let taken = {
            let mut arena = arena(device);
            let to = queue_of(&mut arena, request.home);
            arena.take_from(one.queue, to, request.size(), request.user)
        };
        let Some(taken) = taken else { continue };
        // Recorded after the block was freed, so the event comes after all work on it.
        let ordered = record_after(&busy).and_then(|event| {
            // A capture that began in between has the event, and would get the stream that waits for it.
            let captured = is_capturing(&busy)?;
            if captured { Ok(false) } else { request.home.wait(&event).map(|()| true) }
        });
        if matches!(ordered, Ok(true)) {
            return Some(taken);
        }
        let mut arena = arena(device);
        arena.rehome(taken.piece, one.queue);
        arena.give(taken.piece);
    }
    None
}

/// Waits for the streams that have free blocks, and takes one, or gives the driver what it needs for a new segment.
fn reclaim(request: Request<'_>) -> Result<Option<Taken>, Error> {
    let device = request.home.device();
    settle_all(device)?;
    if let Some(taken) = fit(request) {
        return Ok(Some(taken));
    }
    give_back(device, 0)?;
    grow(request)
}

/// Waits on the host for the streams that have free blocks, and makes these common. Capturing streams are left alone.
fn settle_all(device: u8) -> Result<(), Error> {
    let simulated = driver()?.is_simulated();
    let (waiting, moment) = arena(device).waiting();
    for one in &waiting {
        match stream(device, one) {
            Some(stream) if !matches!(is_capturing(&stream), Ok(false)) => continue,
            Some(stream) if stream.is_legacy() => record_after(&stream)?.synchronize()?,
            Some(stream) => stream.synchronize()?,
            // The reaper is about to destroy it, and settles it. To wait for a real device would invalidate captures.
            None if !simulated || synchronize(device).is_err() => continue,
            None => {}
        }
        arena(device).settle(one.queue, moment);
    }
    Ok(())
}

/// Gives whole segments back to the driver, until at most `keep` bytes are cached. Returns how many bytes went.
fn give_back(device: u8, keep: u64) -> Result<u64, Error> {
    let driver = driver()?;
    let mut surplus = arena(device).surplus(keep).into_iter();
    let mut given = 0;
    while let Some((address, bytes, kind)) = surplus.next() {
        // SAFETY: the segment is in no list any more; no block of it is live, and none has work left.
        if let Err(error) = unsafe { driver.free_segment(address) } {
            // Nothing is lost: this segment and the others can be used again.
            let mut arena = arena(device);
            arena.restore(address, bytes, kind);
            surplus.for_each(|(address, bytes, kind)| arena.restore(address, bytes, kind));
            return Err(error.into());
        }
        arena(device).drop_segment(address);
        given += bytes;
    }
    Ok(given)
}

/// Gives cached memory back to the driver, until at most `keep` bytes are left. Waits for the streams that freed it.
pub(super) fn trim(device: u8, keep: u64) -> Result<u64, Error> {
    if arena(device).usage().cached <= keep {
        return Ok(0);
    }
    let driver = driver()?;
    let _alone = segments(device);
    let _entered = driver.enter(device)?;
    let _relaxed = driver.relax()?;
    settle_all(device)?;
    give_back(device, keep)
}
