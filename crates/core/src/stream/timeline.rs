//! `Timeline`: which work made the bytes of a lease, and which work may still use them.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use smallvec::SmallVec;

use crate::abi::cuda::StreamHandle;
use crate::driver::driver;
use crate::error::{AddressError, DriverError, Error};
use crate::stream::event::Event;
use crate::stream::lane::Stream;
use crate::stream::order::{is_gone, is_in_capture, order, order_all, order_event, wait_for_all};
use crate::stream::{current, is_capturing};

/// When the bytes of a lease are valid.
#[derive(Clone, Debug)]
pub enum Ready {
    /// Already.
    Now,
    /// After what a stream holds now.
    On(Stream),
    /// After an event.
    After(Arc<Event>),
}

/// One stream that worked on the memory, or will.
#[derive(Clone, Debug)]
struct Use {
    stream: Stream,
    /// Whether whoever comes next must wait for it.
    writes: bool,
}

/// A moment that is fixed, because its stream cannot be named later, or from elsewhere.
#[derive(Clone, Debug)]
struct Moment {
    event: Arc<Event>,
    of: Origin,
}

/// Whose moment it is; a later one of the same replaces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// Somebody told an event.
    Told,
    /// The default stream of a thread.
    Thread(ThreadId),
    /// A stream that may be gone by now.
    Stream(StreamHandle),
}

impl Moment {
    /// What a stream holds now.
    fn now(stream: &Stream) -> Result<Self, Error> {
        let of = if stream.is_per_thread() {
            Origin::Thread(thread::current().id())
        } else {
            Origin::Stream(stream.handle())
        };
        Ok(Self { event: Arc::new(stream.record()?), of })
    }

    /// Whether its stream is this thread's own, which can be named for what it holds by now.
    fn is_here(&self) -> bool {
        self.of == Origin::Thread(thread::current().id())
    }

    /// Whether it counts for somebody outside of its capture: such a moment never comes.
    fn is_real(&self) -> bool {
        self.event.captured().is_none()
    }

    fn order(&self, device: u8, after: &Stream) -> Result<(), Error> {
        if self.is_here() {
            return order(&Stream::per_thread(device), after);
        }
        if self.is_real() || is_in_capture(after, self.event.captured())? {
            return order_event(&self.event, after);
        }
        Ok(())
    }

    fn wait(&self, device: u8) -> Result<(), Error> {
        match (self.is_here(), self.is_real()) {
            (true, _) => Stream::per_thread(device).synchronize(),
            (false, true) => self.event.synchronize(),
            (false, false) => Ok(()),
        }
    }

    fn has_come(&self, device: u8) -> Result<bool, Error> {
        match (self.is_here(), self.is_real()) {
            (true, _) => Stream::per_thread(device).is_idle(),
            (false, true) => self.event.has_happened(),
            (false, false) => Ok(true),
        }
    }
}

#[derive(Debug, Default)]
struct State {
    uses: SmallVec<[Use; 2]>,
    moments: Vec<Moment>,
    /// Whether some work goes to streams that nobody told us.
    hidden: bool,
}

/// What the memory of a lease waits for, at the entry and at the exit. Slices share their lease's.
#[derive(Debug)]
pub(crate) struct Timeline {
    device: u8,
    /// The producer's own stream: what it frees is free for whatever comes after on this one.
    home: Option<Stream>,
    /// Where the allocation is and its number, to be asked for again, if it was wrapped.
    claim: Option<(u64, u64)>,
    /// Whether a framework of the host works on the memory, and knows no streams.
    shared_with_host: AtomicBool,
    state: Mutex<State>,
}

impl Timeline {
    pub(crate) fn new(device: u8, ready: Ready, claim: Option<(u64, u64)>) -> Result<Self, Error> {
        let mut state = State::default();
        let home = match ready {
            Ready::Now => None,
            // Named from another thread it would be another stream, named later it may be none.
            Ready::On(stream) if stream.is_per_thread() || !stream.is_lasting() => {
                state.moments.push(Moment::now(&stream)?);
                None
            }
            Ready::On(stream) => {
                state.uses.push(Use { stream: stream.clone(), writes: true });
                Some(stream)
            }
            Ready::After(event) => {
                state.moments.push(Moment { event, of: Origin::Told });
                None
            }
        };
        let shared_with_host = AtomicBool::new(false);
        Ok(Self { device, home, claim, shared_with_host, state: Mutex::new(state) })
    }

    pub(crate) const fn device(&self) -> u8 {
        self.device
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks whether wrapped memory is still the allocation it was.
    pub(crate) fn check_live(&self) -> Result<(), Error> {
        let Some((address, wanted)) = self.claim else { return Ok(()) };
        match driver()?.buffer_id(address)? {
            Some(found) if found == wanted => Ok(()),
            Some(_) => {
                let reused = ", and something else was allocated there";
                Err(AddressError::Gone { address, reused }.into())
            }
            None => Err(AddressError::Gone { address, reused: "" }.into()),
        }
    }

    /// Has a stream wait for the work that made the bytes; one that will write waits for readers too.
    pub(crate) fn ready_for(&self, after: &Stream, writes: bool) -> Result<(), Error> {
        // No driver call under the lock: deleters take it.
        let (before, moments) = {
            let state = self.state();
            let before: SmallVec<[Stream; 2]> = state
                .uses
                .iter()
                .filter(|one| (one.writes || writes) && !one.stream.is(after))
                .map(|one| one.stream.clone())
                .collect();
            (before, state.moments.clone())
        };
        for stream in &before {
            match order(stream, after) {
                // Destroyed since: its work is caught with all of the device's, once.
                Err(error) if is_gone(&error) => {
                    order_all(self.device, after)?;
                    self.state().uses.retain(|one| !one.stream.is(stream));
                }
                other => other?,
            }
        }
        moments.iter().try_for_each(|moment| moment.order(self.device, after))
    }

    /// Waits on the host for the work on the bytes.
    pub(crate) fn ready_for_host(&self) -> Result<(), Error> {
        let state = self.state();
        let before: SmallVec<[Stream; 2]> =
            state.uses.iter().map(|one| one.stream.clone()).collect();
        let moments = state.moments.clone();
        drop(state);
        moments.iter().try_for_each(|moment| moment.wait(self.device))?;
        for stream in &before {
            match stream.synchronize() {
                Err(error) if is_gone(&error) => {
                    wait_for_all(self.device)?;
                    self.state().uses.retain(|one| !one.stream.is(stream));
                }
                other => other?,
            }
        }
        Ok(())
    }

    /// Whether the bytes are ready already, so that nobody needs to wait.
    pub(crate) fn is_ready(&self) -> Result<bool, Error> {
        let state = self.state();
        let writers = state.uses.iter().filter(|one| one.writes);
        let before: SmallVec<[Stream; 2]> = writers.map(|one| one.stream.clone()).collect();
        let moments = state.moments.clone();
        drop(state);
        for stream in &before {
            if is_capturing(stream)? || !stream.is_idle()? {
                return Ok(false);
            }
        }
        for moment in &moments {
            if !moment.has_come(self.device)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// As [`Timeline::ready_for_host`], and from now on every call that works on the memory waits.
    pub(crate) fn share_with_host(&self) -> Result<(), Error> {
        self.ready_for_host()?;
        self.shared_with_host.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Whether work on the memory must be done when the call that queued it returns.
    pub(crate) fn is_shared_with_host(&self) -> bool {
        self.shared_with_host.load(Ordering::Relaxed)
    }

    /// Notes that a stream works on the memory, so that it is not freed before.
    pub(crate) fn used_on(&self, stream: &Stream, writes: bool) -> Result<(), Error> {
        let known = || self.state().uses.iter().any(|one| one.stream.is(stream));
        if stream.is_per_thread() || !(stream.is_lasting() || known()) {
            let moment = Moment::now(stream)?;
            let mut state = self.state();
            state.moments.retain(|old| old.of != moment.of || old.of == Origin::Told);
            state.moments.push(moment);
            // By whoever releases the memory, the stream could not be named.
            state.hidden = true;
            return Ok(());
        }
        self.note(stream, writes);
        Ok(())
    }

    /// As [`Timeline::used_on`] for a stream that any thread can name: no call of the driver's.
    pub(crate) fn note(&self, stream: &Stream, writes: bool) {
        let mut state = self.state();
        match state.uses.iter_mut().find(|one| one.stream.is(stream)) {
            Some(one) => one.writes |= writes,
            None => state.uses.push(Use { stream: stream.clone(), writes }),
        }
    }

    /// Notes that work goes to streams that nobody names.
    pub(crate) fn note_hidden(&self) {
        self.state().hidden = true;
    }

    /// Whether only the producer's own stream works on the memory.
    pub(crate) fn is_at_home(&self) -> bool {
        let state = self.state();
        let home = |one: &Use| self.home.as_ref().is_some_and(|home| home.is(&one.stream));
        !state.hidden && state.uses.iter().all(home)
    }

    /// What must be done before the memory may go: the streams, and whether there are hidden ones.
    pub(crate) fn pending(&self) -> (Vec<Stream>, bool) {
        let state = self.state();
        (state.uses.iter().map(|one| one.stream.clone()).collect(), state.hidden)
    }

    /// The one stream after which the bytes are valid, having others wait if need be.
    pub(crate) fn one_stream(&self) -> Result<Stream, Error> {
        let single = {
            let state = self.state();
            let mut writers = state.uses.iter().filter(|one| one.writes);
            match (writers.next(), writers.next(), state.moments.is_empty()) {
                (Some(one), None, true) if !one.stream.is_per_thread() => Some(one.stream.clone()),
                _ => None,
            }
        };
        if let Some(stream) = single {
            return Ok(stream);
        }
        let stream = current(self.device);
        self.ready_for(&stream, false)?;
        Ok(stream)
    }

    /// Orders the entry of a consumer that did not say its stream, where no capture stands against it.
    pub(crate) fn enter(&self, stream: &Stream) -> Result<(), Error> {
        match self.ready_for(stream, false) {
            Err(Error::Driver(DriverError::Captured { .. })) => Ok(()),
            other => other,
        }
    }
}
