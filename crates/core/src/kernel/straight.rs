//! The straight way: a launch of arrays and numbers that suit as they stand, on the only stream that works on the arrays.
//!
//! Most launches are such. What is not goes the long way from its beginning, [`Pending`](crate::kernel::Pending), which
//! knows every case and every error. This way is there for its shortness: a driver's launch leaves little in a processor's
//! cache of instructions, so a launch takes as long as its code is, and not as what that does.

use std::ffi::c_void;
use std::ptr;

use smallvec::SmallVec;

use crate::abi::cuda::{Status, StreamHandle};
use crate::device::Device;
use crate::driver::{Capture, Driver, Extent, driver, note};
use crate::error::{DriverError, Error};
use crate::import::raw::ViewRef;
use crate::kernel::launch::Size;
use crate::kernel::slot::Slot;
use crate::kernel::{Kernel, Prepared, Ready};
use crate::lease::Lease;
use crate::stream::{Open, Stream, Timeline, current, current_handle};

/// How many arguments it takes.
const MOST: usize = 12;
/// No stream has this handle.
const NONE: StreamHandle = StreamHandle(0);

/// A launch that is being put together, as long as all goes the straight way. Where a function answers `false` it does not:
/// nothing was queued, and this is of no more use.
pub struct Straight<'a> {
    kernel: &'a Kernel,
    ready: &'a Ready,
    device: Device,
    /// The stream of the array that came first.
    stream: StreamHandle,
    /// The same, if it is not ours.
    home: Option<Stream>,
    given: usize,
    words: [u64; MOST],
    timelines: SmallVec<[(&'a Timeline, bool); MOST]>,
    extents: SmallVec<[Extent; MOST]>,
}

/// What became of a launch on the straight way.
#[derive(Debug)]
pub enum Queued {
    /// It does not go that way: nothing was queued.
    No,
    /// It was queued.
    Yes,
    /// The same, and somebody lent some of the memory to the host meanwhile: the caller must wait for the stream.
    Shared(Stream),
}

impl<'a> Prepared<'a> {
    /// A launch to be put together the straight way.
    #[inline(always)]
    #[must_use]
    pub fn straight(self) -> Straight<'a> {
        Straight {
            kernel: self.kernel,
            ready: self.ready,
            device: self.kernel.0.module.device(),
            stream: NONE,
            home: None,
            given: 0,
            words: [0; MOST],
            timelines: SmallVec::new(),
            extents: SmallVec::new(),
        }
    }
}

impl<'a> Straight<'a> {
    /// Adds a lease, which stays where it is until the launch is queued.
    #[inline(always)]
    pub fn lease(&mut self, lease: &'a Lease) -> bool {
        if !self.has_stream() {
            return false;
        }
        let taken = self.take(&ViewRef::of(lease.view()));
        let (Some(writes), Some(timeline)) = (taken, lease.timeline()) else { return false };
        self.timelines.push((timeline, writes));
        timeline.is_plain_here(self.stream)
    }

    /// The device of the launch.
    #[must_use]
    pub const fn device(&self) -> u8 {
        self.device.index()
    }

    /// Says on which stream the array is at home that is added next.
    #[inline]
    pub fn on(&mut self, home: Stream) -> bool {
        if self.stream == NONE && home.device() == self.device.index() && home.stays_nameable() {
            self.stream = home.handle();
            self.home = Some(home);
            return true;
        }
        home.handle() == self.stream && home.device() == self.device.index()
    }

    /// Adds an array that its framework frees in the order of the launch's stream, on which its bytes are made too, and returns
    /// whether the kernel may write behind it; nothing where this does not go the straight way.
    #[inline]
    pub fn array(&mut self, view: &ViewRef<'_>) -> Option<bool> {
        self.take(view)
    }

    /// Adds a whole number.
    #[inline(always)]
    pub fn integer(&mut self, value: i64) -> bool {
        self.number(|slot| slot.take_integer(value))
    }

    /// Adds a number.
    #[inline(always)]
    pub fn float(&mut self, value: f64) -> bool {
        self.number(|slot| slot.take_float(value))
    }

    #[inline(always)]
    fn number(&mut self, take: impl FnOnce(Slot) -> Option<u64>) -> bool {
        let Some((slot, place)) = self.next() else { return false };
        let Some(word) = take(slot) else { return false };
        *place = word;
        self.given += 1;
        true
    }

    /// What the next argument is for, and where it goes.
    #[inline(always)]
    fn next(&mut self) -> Option<(Slot, &mut u64)> {
        let slot = *self.ready.slots.get(self.given)?;
        Some((slot, self.words.get_mut(self.given)?))
    }

    /// Adds an array, as its address, and tells whether the kernel may write behind it.
    #[inline(always)]
    fn take(&mut self, view: &ViewRef<'_>) -> Option<bool> {
        let device = self.device;
        let (slot, place) = self.next()?;
        let (writes, bytes) = slot.take_array(device, view)?;
        *place = view.address;
        if self.ready.simulated {
            let position = u32::try_from(self.given).unwrap_or(u32::MAX);
            self.extents.push((position, view.address, bytes));
        }
        self.given += 1;
        Some(writes)
    }

    /// Whether there is a stream that any thread can name: one that was chosen, or the current one.
    #[inline(always)]
    fn has_stream(&mut self) -> bool {
        if self.stream == NONE {
            self.stream = current_handle(self.device.index()).unwrap_or(NONE);
        }
        self.stream != NONE
    }

    /// Queues the launch. The leases' memory is held until the kernel is done.
    ///
    /// # Safety
    ///
    /// 1. As [`Pending::queue`](crate::kernel::Pending::queue).
    /// 2. Nothing that was to be added was answered `false`.
    /// 3. All of it was on this thread, whose current stream has not changed since.
    ///
    /// # Errors
    ///
    /// If the driver refuses: nothing is queued then.
    #[inline(always)]
    pub unsafe fn queue(&mut self, size: &Size) -> Result<Queued, Error> {
        let ready = self.ready;
        let fits = self.given == ready.slots.len() && ready.fits(size) && ready.loaded.is_plain();
        if !self.has_stream() || !fits {
            return Ok(Queued::No);
        }
        let driver = driver()?;
        // A default stream is one of the current context; others bring theirs.
        let default = self.stream.0 <= StreamHandle::PER_THREAD.0;
        let _entered = default.then(|| driver.enter(self.device.index())).transpose()?;
        // SAFETY: the current stream is alive, and so is one that can be named at any time.
        match unsafe { driver.capture(self.stream) } {
            Ok(Capture::No) => {}
            Ok(_) => return Ok(Queued::No),
            Err(error) => return unless_context(error),
        }
        if ready.spans {
            driver.limit(&self.extents);
        }
        let pointers = self.words.each_mut().map(|word| ptr::from_mut(word).cast::<c_void>());
        let configuration = size.on(self.stream);
        // SAFETY: (1) the kernel is loaded, in the primary context, whose stream it is; (2) a pointer for each parameter, to
        // eight bytes, and those that take an array or a number as it stands have no more; (3) the contract's (1), and the leases
        // are noted below.
        let status = unsafe { driver.launch(ready.function, &configuration, pointers.as_ptr()) };
        if status != Status::SUCCESS {
            return self.refused(driver, size, status);
        }
        note(&ready.signature, size.grid, size.block, &self.extents);
        // Once more: another thread may have come between.
        let plain = |(timeline, _): &(&Timeline, bool)| timeline.is_plain_here(self.stream);
        let plain = ready.loaded.is_plain() && self.timelines.iter().all(plain);
        Ok(if plain { Queued::Yes } else { self.note() })
    }

    #[cold]
    fn refused(&self, driver: &Driver, size: &Size, status: Status) -> Result<Queued, Error> {
        match driver.check_launch(status) {
            Ok(()) => Ok(Queued::Yes),
            Err((_, error)) if wants_context(&error) => Ok(Queued::No),
            Err((code, error)) => Err(self.kernel.refused(size, code, error)),
        }
    }

    /// Notes that the stream works on the leases' memory and the module's variables: somebody else's does by now, or the
    /// host. Runs nobody's code.
    #[cold]
    fn note(&mut self) -> Queued {
        let stream = self.home.take().unwrap_or_else(|| current(self.device.index()));
        let mut shared = false;
        let variables = self.ready.loaded.borrowed();
        let variables = variables.iter().map(|one| (&*one.timeline, one.writes));
        for (timeline, writes) in self.timelines.iter().copied().chain(variables) {
            timeline.note(&stream, writes, Open::No);
            shared |= timeline.is_shared_with_host();
        }
        if shared { Queued::Shared(stream) } else { Queued::Yes }
    }
}

/// Whether a driver perhaps wants the stream's context to be current, as the long way makes it.
fn wants_context(error: &DriverError) -> bool {
    const CODES: [Status; 2] = [Status::INVALID_CONTEXT, Status::INVALID_HANDLE];
    matches!(error, DriverError::Call { code, .. } if CODES.contains(&Status(*code)))
}

#[cold]
fn unless_context(error: DriverError) -> Result<Queued, Error> {
    if wants_context(&error) { Ok(Queued::No) } else { Err(error.into()) }
}
