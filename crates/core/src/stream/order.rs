//! Makes one stream wait for another by an event: the host never waits, and no capture is invalidated.
#![forbid(unsafe_code)]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::abi::cuda::{Status, StreamHandle};
use crate::driver::Capture;
use crate::error::hint::CaptureHint;
use crate::error::{DriverError, Error};
use crate::fork::ProcessLock;
use crate::stream::current;
use crate::stream::event::Event;
use crate::stream::stream::{Stream, own};

/// From this many capturing streams on, those whose captures are over are forgotten.
const MANY_CAPTURING: usize = 8;
/// Streams that were seen capturing: while one of them still is, nothing device-wide may be queued.
static CAPTURING: ProcessLock<Vec<Stream>> = ProcessLock::new(Vec::new());

/// Whether a stream is capturing, or must not be touched because another one is.
///
/// # Errors
///
/// If the driver refuses.
pub fn is_capturing(stream: &Stream) -> Result<bool, Error> {
    Ok(look(stream)? != Capture::No)
}

/// Whether a stream is part of the given capture.
pub(super) fn is_in_capture(stream: &Stream, capture: Option<u64>) -> Result<bool, Error> {
    Ok(matches!(look(stream)?, Capture::Active(found) if Some(found) == capture))
}

/// Whether a capture was ever seen in this process.
static SEEN: AtomicBool = AtomicBool::new(false);

/// Whether a capture was ever seen in this process.
#[inline]
pub(crate) fn was_capture_seen() -> bool {
    SEEN.load(Ordering::Relaxed)
}

/// Asks the driver, and remembers streams that are capturing.
fn look(stream: &Stream) -> Result<Capture, Error> {
    let found = stream.capture()?;
    note_capture(stream, found);
    Ok(found)
}

/// Remembers what a stream was seen doing.
pub(crate) fn note_capture(stream: &Stream, found: Capture) {
    if found != Capture::No {
        SEEN.store(true, Ordering::Relaxed);
    }
    if !stream.is_lasting() {
        note_unnamed(stream, found);
    } else if let Capture::Active(_) = found {
        let mut seen = CAPTURING.lock();
        let many = seen.len() >= MANY_CAPTURING;
        if !seen.iter().any(|known| known.is(stream)) {
            seen.push(stream.kept());
        }
        drop(seen);
        if many {
            forget_over();
        }
    }
}

/// Streams known only by their number that were seen capturing, and when: they cannot be asked again.
static UNNAMED: ProcessLock<Vec<(u8, StreamHandle, Instant)>> = ProcessLock::new(Vec::new());
/// The assumed duration of such a capture, unless its stream is named again.
const LONGEST_CAPTURE: Duration = Duration::from_secs(10);

fn note_unnamed(stream: &Stream, found: Capture) {
    let (device, handle) = (stream.device(), stream.handle());
    let mut unnamed = UNNAMED.lock();
    unnamed.retain(|known| {
        (known.0, known.1) != (device, handle) && known.2.elapsed() < LONGEST_CAPTURE
    });
    if let Capture::Active(_) = found {
        unnamed.push((device, handle, Instant::now()));
    }
}

/// Whether a stream that cannot be asked may still be capturing.
pub(super) fn may_unnamed_be_capturing() -> bool {
    let mut unnamed = UNNAMED.lock();
    unnamed.retain(|(_, _, since)| since.elapsed() < LONGEST_CAPTURE);
    !unnamed.is_empty()
}

/// Whether a stream that was seen capturing still is.
pub(super) fn is_any_capturing() -> bool {
    forget_over() || own().iter().any(is_active)
}

fn is_active(stream: &Stream) -> bool {
    matches!(stream.capture(), Ok(Capture::Active(_)))
}

/// Forgets the streams whose captures are over, and returns whether some are left.
fn forget_over() -> bool {
    let seen = CAPTURING.lock().clone();
    // A stream that cannot be asked any more is destroyed.
    let (active, over): (Vec<_>, Vec<_>) = seen.into_iter().partition(is_active);
    let mut seen = CAPTURING.lock();
    let is_over = |stream: &Stream| over.iter().any(|gone| gone.is(stream));
    let (gone, still): (Vec<_>, Vec<_>) = seen.drain(..).partition(is_over);
    *seen = still;
    drop(seen);
    // A stream's keeper may run foreign code.
    drop(gone);
    !active.is_empty()
}

fn refuse((problem, hint): (&'static str, CaptureHint)) -> Error {
    DriverError::Captured { what: "work or a hand-over on a stream", problem, hint }.into()
}

const LEGACY: (&str, CaptureHint) =
    ("the legacy default stream cannot be part of a capture", CaptureHint::NameStream);
const APART: (&str, CaptureHint) =
    ("its two streams are part of two captures", CaptureHint::SameCapture);
const FORK: (&str, CaptureHint) = (
    "the consumer's stream is not part of the producer's capture, and would be drawn into it and never leave it",
    CaptureHint::Join,
);
const LATE: (&str, CaptureHint) = (
    "the producer's work is not part of the consumer's capture and is not done",
    CaptureHint::WaitBefore,
);

/// Makes later work on `after` wait for the work that `before` has now.
///
/// # Errors
///
/// If the driver refuses, or a capture would be invalidated by it.
pub fn order(before: &Stream, after: &Stream) -> Result<(), Error> {
    order_lasting(before, after).map(|_| ())
}

/// As [`order`], and returns whether the wait is permanent: a wait that is part of a capture is not.
pub(super) fn order_lasting(before: &Stream, after: &Stream) -> Result<bool, Error> {
    if before.is(after) {
        return Ok(true);
    }
    let mut lasts = false;
    match (look(before)?, look(after)?) {
        (Capture::No, Capture::No) => lasts = true,
        (Capture::Implicit, _) | (_, Capture::Implicit) => return Err(refuse(LEGACY)),
        (Capture::Active(one), Capture::Active(other)) if one == other => {}
        (Capture::Active(_), Capture::Active(_)) => return Err(refuse(APART)),
        (Capture::Active(_), Capture::No) => return Err(refuse(FORK)),
        (Capture::No, Capture::Active(_)) => {
            return if before.is_idle()? { Ok(false) } else { Err(refuse(LATE)) };
        }
    }
    let event = before.record()?;
    after.wait_unasked(&event)?;
    Ok(lasts)
}

/// As [`order`] for a caller that named both streams: a stream that waits for a capturing one becomes
/// part of the capture.
///
/// # Errors
///
/// As [`order`].
pub fn order_named(before: &Stream, after: &Stream) -> Result<(), Error> {
    match (look(before)?, look(after)?) {
        (Capture::Active(_), Capture::No) if after.is_legacy() => Err(refuse(LEGACY)),
        (Capture::Active(_), Capture::No) => {
            let event = before.record()?;
            after.wait_unasked(&event)
        }
        _ => order(before, after),
    }
}

/// The error for the legacy stream in a capture.
#[cold]
pub(super) fn legacy_in_capture() -> Error {
    refuse(LEGACY)
}

/// Makes later work on `after` wait for an event.
pub(super) fn order_event(event: &Event, after: &Stream) -> Result<(), Error> {
    match (event.captured(), look(after)?) {
        (_, Capture::Implicit) => Err(refuse(LEGACY)),
        (Some(_), _) if after.is_legacy() => Err(refuse(LEGACY)),
        (Some(one), Capture::Active(other)) if one != other => Err(refuse(APART)),
        (_, Capture::No) | (Some(_), _) => after.wait_unasked(event),
        (None, Capture::Active(_)) if event.has_happened()? => Ok(()),
        (None, Capture::Active(_)) => Err(refuse(LATE)),
    }
}

/// Whether the driver says that a stream is destroyed.
pub(super) fn is_gone(error: &Error) -> bool {
    const GONE: [Status; 3] =
        [Status::INVALID_CONTEXT, Status::INVALID_HANDLE, Status::CONTEXT_IS_DESTROYED];
    matches!(error, Error::Driver(DriverError::Call { code, .. }) if GONE.contains(&Status(*code)))
}

/// Whether the driver says that a device and all work on it are lost.
pub(super) fn is_lost(error: &Error) -> bool {
    match error {
        Error::Driver(DriverError::Call { code, .. }) => {
            *code == Status::DEINITIALIZED.0 || (700..720).contains(code)
        }
        Error::Kernel(error) => error.fault().is_some(),
        // There is no driver any more, as in a forked child.
        error => matches!(error, Error::NoDevice(_)),
    }
}

/// Makes later work on `after` wait for all work that a device has now.
pub(super) fn order_all(device: u8, after: &Stream) -> Result<(), Error> {
    order_event(&all(device)?, after)
}

/// Waits on the host for all work that a device has now.
pub(super) fn wait_for_all(device: u8) -> Result<(), Error> {
    all(device)?.synchronize()
}

/// An event after all work that a device has now.
pub(super) fn all(device: u8) -> Result<Event, Error> {
    const PROBLEM: &str = "it would invalidate the capture";
    if is_any_capturing() {
        let what =
            "all work of a device is to be waited for, because some streams cannot be named,";
        let hint = CaptureHint::Outside;
        return Err(DriverError::Captured { what, problem: PROBLEM, hint }.into());
    }
    let event = Event::take(device)?;
    event.record_all()?;
    Ok(event)
}

/// A blocking stream on each device: an event there happens after the legacy stream's work.
static BESIDE_LEGACY: [OnceLock<Stream>; 64] = [const { OnceLock::new() }; 64];

/// An event after the work that a device's legacy stream has now. Unlike one on that stream itself, it invalidates no capture.
pub(crate) fn record_beside_legacy(device: u8) -> Result<Event, Error> {
    let place = &BESIDE_LEGACY[usize::from(device) % BESIDE_LEGACY.len()];
    match place.get() {
        Some(stream) => stream.record(),
        None => {
            let stream = Stream::create(device, true)?;
            place.get_or_init(|| stream).record()
        }
    }
}

/// Whether the work of a device's legacy stream is done. Unlike a query of that stream, this invalidates no capture.
pub(crate) fn is_legacy_idle(device: u8) -> Result<bool, Error> {
    record_beside_legacy(device)?.has_happened()
}

/// Refuses work on the legacy stream while a stream that blocks on it is capturing.
pub(crate) fn refuse_implicit(stream: &Stream) -> Result<(), Error> {
    match look(stream)? {
        Capture::Implicit => Err(legacy_in_capture()),
        _ => Ok(()),
    }
}

/// Refuses to wait on the host for a stream that is capturing: its work does not run.
pub(crate) fn refuse_capturing(stream: &Stream) -> Result<(), Error> {
    const PROBLEM: &str = "its work is recorded and does not run, so it is never done";
    match look(stream)? {
        Capture::No => Ok(()),
        _ => {
            let (what, hint) = ("the host waits for a stream", CaptureHint::Outside);
            Err(DriverError::Captured { what, problem: PROBLEM, hint }.into())
        }
    }
}

/// Refuses a call that cannot be part of a capture.
///
/// # Errors
///
/// If the stream is capturing: `what` names the call.
pub fn refuse_capture(stream: &Stream, what: &'static str) -> Result<(), Error> {
    const PROBLEM: &str = "it cannot be part of a capture and would end it";
    match look(stream)? {
        Capture::No => Ok(()),
        _ => {
            let hint = CaptureHint::Outside;
            Err(DriverError::Captured { what, problem: PROBLEM, hint }.into())
        }
    }
}

/// Waits on the host for all work of a device.
///
/// # Errors
///
/// If the driver refuses, or a known stream is capturing.
pub fn synchronize(device: u8) -> Result<(), Error> {
    refuse_capturing(&current(device))?;
    wait_for_all(device)
}
