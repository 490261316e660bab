//! `Stream`: a CUDA stream, gpulend's own or a foreign one.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use crate::abi::cuda::StreamHandle;
use crate::blocks::Life;
use crate::driver::{Capture, driver};
use crate::error::Error;
use crate::fork::ProcessLock;
use crate::owner::Owner;
use crate::stream::event::Event;
use crate::stream::{order, reaper};

/// A CUDA stream of a device. Clones name the same stream.
///
/// As in CUDA, the per-thread default stream is that of the thread that uses it.
#[derive(Clone)]
pub struct Stream {
    device: u8,
    handle: StreamHandle,
    /// Keeps the stream alive, unless its creator does.
    _keeper: Option<Arc<Owner>>,
    name: Name,
    /// Whether the stream lives as long as this value; otherwise only until the call that named it returns.
    lasting: bool,
}

/// Who can still queue work on a stream.
#[derive(Clone)]
enum Name {
    /// Anyone: it is a foreign stream.
    Foreign,
    /// The holders of this and of its clones.
    Held(Arc<()>),
    /// Other holders, if there are any: this value is only waited for.
    Kept(Weak<()>),
}

/// A stream that gpulend created.
struct Own {
    device: u8,
    handle: StreamHandle,
    keeper: Weak<Owner>,
    name: Weak<()>,
}

/// The streams that gpulend created, until they are destroyed.
static OWN: ProcessLock<Vec<Own>> = ProcessLock::new(Vec::new());

/// The known streams that frameworks never destroy: a few dozen at most.
static LASTING: ProcessLock<Vec<(u8, usize)>> = ProcessLock::new(Vec::new());

/// The last of them for each device: every launch asks for it.
static LATEST: [AtomicUsize; 16] = [const { AtomicUsize::new(0) }; 16];

/// The streams that gpulend created and that are alive.
pub(super) fn own() -> Vec<Stream> {
    let own = OWN.lock();
    let alive = own.iter().filter_map(|own| {
        let keeper = Some(own.keeper.upgrade()?);
        let name = own.name.upgrade().map_or(Name::Kept(Weak::new()), Name::Held);
        let (device, handle) = (own.device, own.handle);
        Some(Stream { device, handle, _keeper: keeper, name, lasting: true })
    });
    alive.collect()
}

impl Stream {
    /// The legacy default stream of a device.
    #[must_use]
    pub const fn legacy(device: u8) -> Self {
        Self {
            device,
            handle: StreamHandle::LEGACY,
            _keeper: None,
            name: Name::Foreign,
            lasting: true,
        }
    }

    /// The default stream of the calling thread on a device.
    #[must_use]
    pub const fn per_thread(device: u8) -> Self {
        Self {
            device,
            handle: StreamHandle::PER_THREAD,
            _keeper: None,
            name: Name::Foreign,
            lasting: true,
        }
    }

    /// Creates a stream on a device; a blocking stream and the legacy stream wait for each other.
    ///
    /// # Errors
    ///
    /// If there is no such device, or the driver refuses.
    pub fn create(device: u8, blocking: bool) -> Result<Self, Error> {
        Self::with_priority(device, blocking, 0)
    }

    /// As [`Stream::create`]; work on a stream with a lower number begins first. The driver takes the nearest priority that
    /// the device has.
    ///
    /// # Errors
    ///
    /// As [`Stream::create`].
    pub fn with_priority(device: u8, blocking: bool, priority: i32) -> Result<Self, Error> {
        let handle = driver()?.new_stream(device, blocking, priority)?;
        let keeper = Arc::new(Owner::call(move || reaper::destroy(device, handle)));
        let name = Arc::new(());
        let mut own = OWN.lock();
        own.retain(|own| own.keeper.strong_count() > 0);
        let (weak, weak_name) = (Arc::downgrade(&keeper), Arc::downgrade(&name));
        own.push(Own { device, handle, keeper: weak, name: weak_name });
        drop(own);
        Ok(Self { device, handle, _keeper: Some(keeper), name: Name::Held(name), lasting: true })
    }

    /// The same stream, to be waited for and not to queue work on.
    pub(crate) fn kept(&self) -> Self {
        let name = match &self.name {
            Name::Held(name) => Name::Kept(Arc::downgrade(name)),
            name => name.clone(),
        };
        // Not from a clone of all: each count that goes up and down again takes as long as the rest.
        let Self { device, handle, lasting, .. } = *self;
        Self { device, handle, _keeper: self._keeper.clone(), name, lasting }
    }

    /// Whether it is a foreign stream that only this value may keep alive.
    pub(super) fn is_kept_for_us(&self) -> bool {
        matches!(self.name, Name::Foreign) && self._keeper.is_some()
    }

    /// Whether a holder may still queue work on it.
    pub(super) fn is_named(&self) -> bool {
        match &self.name {
            Name::Foreign | Name::Held(_) => true,
            Name::Kept(name) => name.strong_count() > 0,
        }
    }

    /// A foreign stream that lasts, by its number. 0 is the legacy stream.
    ///
    /// # Safety
    ///
    /// 1. The stream exists, and belongs to that device's primary context.
    /// 2. It lives as long as the process, or until `keeper` is released, if there is one.
    #[must_use]
    pub unsafe fn foreign(device: u8, number: usize, keeper: Option<Owner>) -> Self {
        let handle = StreamHandle::of(number);
        let keeper = keeper.map(Arc::new);
        Self { device, handle, _keeper: keeper, name: Name::Foreign, lasting: true }
    }

    /// A stream that is known only by its number: one of gpulend's, a default one, or a foreign one that may
    /// be destroyed as soon as the call that names it returns, and is not touched later. `keeper` is
    /// its object, if it has one that need not own the stream.
    ///
    /// # Safety
    ///
    /// As (1) of [`Stream::foreign`], until the call returns that the result was made for.
    #[must_use]
    pub unsafe fn named(device: u8, number: usize, keeper: Option<Owner>) -> Self {
        let handle = StreamHandle::of(number);
        let own = own().into_iter().find(|own| (own.device, own.handle) == (device, handle));
        let keeper = keeper.map(Arc::new);
        let lasting = handle.0 <= 2;
        own.unwrap_or(Self { device, handle, _keeper: keeper, name: Name::Foreign, lasting })
    }

    /// A stream that is known to last: a default one, or one passed to [`Stream::remember`].
    #[inline]
    #[must_use]
    pub fn known(device: u8, number: usize) -> Option<Self> {
        let handle = StreamHandle::of(number);
        let latest = LATEST.get(usize::from(device));
        let is_latest = latest.is_some_and(|latest| latest.load(Ordering::Relaxed) == handle.0);
        let stays = handle.0 <= 2 || is_latest || Self::is_remembered(device, handle.0);
        let name = Name::Foreign;
        stays.then_some(Self { device, handle, _keeper: None, name, lasting: true })
    }

    fn is_remembered(device: u8, number: usize) -> bool {
        let is = LASTING.lock().contains(&(device, number));
        if is && let Some(latest) = LATEST.get(usize::from(device)) {
            latest.store(number, Ordering::Relaxed);
        }
        is
    }

    /// Remembers that a framework never destroys this stream.
    ///
    /// # Safety
    ///
    /// The framework never does.
    pub unsafe fn remember(device: u8, number: usize) {
        let mut lasting = LASTING.lock();
        if !lasting.contains(&(device, number)) {
            lasting.push((device, number));
        }
    }

    /// Whether it lives as long as this value, so that it can be waited for later.
    #[must_use]
    pub const fn is_lasting(&self) -> bool {
        self.lasting
    }

    /// The device.
    #[must_use]
    pub const fn device(&self) -> u8 {
        self.device
    }

    /// The driver's handle.
    #[must_use]
    pub const fn handle(&self) -> StreamHandle {
        self.handle
    }

    /// Whether any thread can use it at any later time, for the work that it has then.
    #[must_use]
    pub const fn stays_nameable(&self) -> bool {
        self.lasting && !self.is_per_thread()
    }

    /// How long it lives, if memory can be freed in its order, so that its later work may use that memory. None if no thread
    /// can name it later.
    #[inline]
    pub(crate) const fn life(&self) -> Option<Life> {
        if !self.stays_nameable() {
            return None;
        }
        Some(match self.name {
            Name::Foreign if self._keeper.is_some() => Life::Kept,
            Name::Foreign => Life::Lasting,
            Name::Held(_) | Name::Kept(_) => Life::Own,
        })
    }

    /// A stream in whose order memory was freed, by its handle. None if it is about to be destroyed, or may be.
    pub(crate) fn again(device: u8, handle: StreamHandle, life: Life) -> Option<Self> {
        match life {
            Life::Lasting => {
                Some(Self { device, handle, _keeper: None, name: Name::Foreign, lasting: true })
            }
            Life::Own => own().into_iter().find(|own| (own.device, own.handle) == (device, handle)),
            Life::Kept => None,
        }
    }

    /// Whether it is the legacy default stream.
    #[must_use]
    pub const fn is_legacy(&self) -> bool {
        self.handle.0 == StreamHandle::LEGACY.0
    }

    /// Whether it is the per-thread default stream.
    #[must_use]
    pub const fn is_per_thread(&self) -> bool {
        self.handle.0 == StreamHandle::PER_THREAD.0
    }

    /// Whether both are the same stream, used on one thread.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        (self.device, self.handle) == (other.device, other.handle)
    }

    /// Its priority.
    ///
    /// # Errors
    ///
    /// If the driver refuses.
    pub fn priority(&self) -> Result<i32, Error> {
        let driver = driver()?;
        let _entered = driver.enter(self.device)?;
        // SAFETY: alive: (2) of `foreign`.
        Ok(unsafe { driver.priority(self.handle) }?)
    }

    /// Records an event after the work that is queued now.
    ///
    /// # Errors
    ///
    /// If the driver refuses, as for the legacy stream inside a capture.
    pub fn record(&self) -> Result<Event, Error> {
        let event = Event::take(self.device)?;
        event.record(self)?;
        Ok(event)
    }

    /// As [`Stream::record`], an event that knows when it happens: see [`Event::elapsed`].
    ///
    /// # Errors
    ///
    /// As [`Stream::record`], and inside a capture, where an event never happens by itself.
    pub fn record_time(&self) -> Result<Event, Error> {
        order::refuse_capturing(self)?;
        let event = Event::timed(self.device)?;
        event.record(self)?;
        Ok(event)
    }

    /// Makes later work wait for an event. By waiting for an event of a capture the stream
    /// becomes part of the capture.
    ///
    /// # Errors
    ///
    /// If the driver refuses, or a capture would be invalidated.
    pub fn wait(&self, event: &Event) -> Result<(), Error> {
        order::order_event(event, self)
    }

    /// As [`Stream::wait`], for a caller that knows that this invalidates no capture.
    pub(super) fn wait_unasked(&self, event: &Event) -> Result<(), Error> {
        let driver = driver()?;
        event.pass_gate();
        let _entered = driver.enter(self.device)?;
        // SAFETY: both are alive: (2) of `foreign`, and `Event` keeps its own.
        Ok(unsafe { driver.wait(self.handle, event.handle()) }?)
    }

    /// Waits on the host until all queued work is done.
    ///
    /// # Errors
    ///
    /// If the driver refuses, as it does for a stream that is capturing.
    pub fn synchronize(&self) -> Result<(), Error> {
        order::refuse_capturing(self)?;
        let driver = driver()?;
        let _entered = driver.enter(self.device)?;
        let _relaxed = driver.relax()?;
        // SAFETY: alive: (2) of `foreign`.
        Ok(unsafe { driver.wait_for(self.handle) }?)
    }

    /// Whether all queued work is done.
    ///
    /// # Errors
    ///
    /// If the driver refuses, as it does for a stream that is capturing.
    pub fn is_idle(&self) -> Result<bool, Error> {
        order::refuse_capturing(self)?;
        let driver = driver()?;
        let _entered = driver.enter(self.device)?;
        let _relaxed = driver.relax()?;
        // SAFETY: alive: (2) of `foreign`.
        Ok(unsafe { driver.is_idle(self.handle) }?)
    }

    /// Whether all queued work is done, as far as that can be asked now. The query does not advance the simulated GPU, and an
    /// error stays for a caller that waits.
    pub(crate) fn is_idle_now(&self) -> bool {
        let Ok(driver) = driver() else { return false };
        driver.only_look(true);
        let idle = self.is_idle().unwrap_or(false);
        driver.only_look(reaper::is_reaper());
        idle
    }

    /// Whether the stream is capturing.
    pub(crate) fn capture(&self) -> Result<Capture, Error> {
        let driver = driver()?;
        // Only a default stream is that of the current context. Every allocation asks, so it is worth to leave the rest out.
        let default = self.is_legacy() || self.is_per_thread();
        let _entered = default.then(|| driver.enter(self.device)).transpose()?;
        // SAFETY: alive: (2) of `foreign`.
        Ok(unsafe { driver.capture(self.handle) }?)
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Stream({:#x} on cuda:{})", self.handle.0, self.device)
    }
}
