//! A launch as a plan: filled argument by argument, then queued.
//!
//! ```
//! # use std::env::var_os;
//! # // Only where there is a simulated GPU and a compiler for it.
//! # let (Some(_), Some(zig)) = (var_os("GPULEND_SIM_LIBRARY"), var_os("GPULEND_TEST_ZIGLANG")) else { return Ok(()) };
//! # gpulend::driver::simulate(&gpulend::driver::Settings::default())?;
//! use gpulend::kernel::{Argument, Kernel, Options, Size};
//! use gpulend::module::{Module, Recipe};
//! use gpulend::{Dtype, copy, pool};
//!
//! let source = "__global__ void raise(float *x, float y, int n) { if (threadIdx.x < n) x[threadIdx.x] += y; }";
//! # let mut recipe = Recipe::new(source);
//! # recipe.ziglang = Some(zig.into());
//! # let module = Module::compile(recipe, 0)?;
//! # /*
//! let module = Module::compile(Recipe::new(source), 0)?;
//! # */
//! let raise = Kernel::new(module.find("raise")?);
//! let array = pool::empty(&[3], Dtype::FLOAT32, "cuda:0".parse()?)?;
//! // Here and below: the memory is new, the kernel stays inside it, and nobody else knows it.
//! unsafe { copy::fill(&array, &1.0_f32.to_ne_bytes()) }?;
//!
//! let mut plan = raise.prepare()?.plan(Options::default());
//! // A lease of floats fits a `float *`, and a float a `float`: the fast path takes both.
//! assert!(plan.fit_lease(&array) && plan.fit_float(0.5));
//! // A bool does not fit an `int`. The plan is as it was, and the general path takes the same argument.
//! plan.push(&Argument::Bool(true))?;
//! let wait = unsafe { plan.queue(&Size::of(1, 128)) }?;
//! assert!(wait.is_none());
//! assert_eq!(unsafe { copy::to_vec::<f32>(&array) }?, [1.5, 1.0, 1.0]);
//! # Ok::<(), gpulend::Error>(())
//! ```
//!
//! # Two paths into one plan
//!
//! The *fast path* is the functions `fit_…`. Each compares an argument with its parameter in a few
//! instructions. If it fits unchanged, the function takes it and returns true; otherwise the plan is
//! unchanged. The *general path* is the functions `push…`: it takes the same argument or returns the error.
//! It knows every parameter type, non-contiguous arrays and host memory. A caller tries `fit_…` for each
//! argument and falls back to `push…` for that argument only. `push…` itself tries the fast path first.
//!
//! Both paths end in one [`Plan::queue`]. Each of these is decided in one place:
//!
//! - the stream: [`Plan::on`], else the first [`Plan::prefer`], else the thread's current one (`choice.rs`);
//! - the capture check, the order with other work, host memory, and the notes afterwards (`queue.rs`);
//! - which CPU arrays a launch accepts: [`stands_in`];
//! - who waits: `queue` returns the stream if the caller must wait.
//!
//! # Why there is a fast path
//!
//! A driver's launch evicts most other code from the instruction cache. So the cost of our part is dominated
//! by instruction-cache misses, and this path minimises code size. It is short and inlined into its caller;
//! errors and rare cases are cold functions. It copies nothing: leases are used in place, no reference is
//! counted, and the stream is a handle.
//!
//! A plan is *plain* while its launch needs no wait and no note: every array is on the launch's device, and
//! only the launch's stream uses it. Then `queue` is a few comparisons between two driver calls. A plan is
//! not plain
//!
//! - with memory that another stream or the host uses, or wrapped memory that must be checked again;
//! - if variables of the kernel's module were borrowed;
//! - on a stream that other threads cannot name later;
//! - after [`Plan::before_others`], because foreign code may have changed any of that.
//!
//! # Limits
//!
//! - A repeated launch with up to twelve arrays does not touch the heap. With more arguments, each thread reuses
//!   its buffers.
//! - On the simulated GPU, the first twelve arrays are recorded, to name the nearest one in a kernel's error.
//! - A plan belongs to one thread, and is queued once.
#![forbid(unsafe_code)]

use smallvec::SmallVec;

use crate::device::{Device, DeviceKind};
use crate::driver::{Extent, MOST_EXTENTS};
use crate::error::{Error, Place};
use crate::import::raw::ViewRef;
use crate::kernel::argument::{Argument, Checker, Given, Keep, Options, stands_in};
use crate::kernel::choice::Choice;
use crate::kernel::frame::Frame;
use crate::kernel::leases::Leases;
use crate::kernel::{Kernel, Prepared, Ready};
use crate::layout::Measure;
use crate::lease::Lease;
use crate::ledger::{FixedName, Name};
use crate::stream::{Stream, Timeline};

static LEASE: FixedName = FixedName::new("gpulend.Lease");

/// A launch being filled, argument by argument. Nothing is queued before [`Plan::queue`].
pub struct Plan<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) ready: &'a Ready,
    device: Device,
    pub(super) options: Options,
    pub(super) choice: Choice,
    /// The number of arguments so far.
    pub(super) given: usize,
    pub(super) frame: Frame,
    pub(super) leases: Leases<'a>,
    /// The arrays' memory, for the simulated GPU.
    pub(super) extents: SmallVec<[Extent; MOST_EXTENTS]>,
    /// The number of arrays, for the simulated GPU.
    pub(super) arrays: usize,
    /// Host memory that the simulated GPU may access.
    pub(super) hosts: SmallVec<[(u64, u64); 4]>,
    /// Whether no argument so far needs a wait or a note.
    pub(super) plain: bool,
    /// Whether the caller must wait for the launch.
    pub(super) waits: bool,
    /// Whether a graph of gpulend's captures the launch.
    pub(super) recorded: bool,
}

impl<'a> Prepared<'a> {
    /// Starts an empty plan.
    #[inline(always)]
    #[must_use]
    pub fn plan(self, options: Options) -> Plan<'a> {
        let Self { kernel, ready } = self;
        let device = kernel.0.module.device();
        Plan {
            kernel,
            ready,
            device,
            options,
            choice: Choice::new(device.index()),
            given: 0,
            frame: Frame::of(&ready.places),
            leases: Leases::default(),
            extents: SmallVec::new(),
            arrays: 0,
            hosts: SmallVec::new(),
            plain: true,
            waits: false,
            recorded: false,
        }
    }
}

/// The fast path: arguments that fit unchanged.
impl<'a> Plan<'a> {
    /// Takes a lease by reference if it fits. Returns whether it did.
    #[inline(always)]
    #[must_use]
    pub fn fit_lease(&mut self, lease: &'a Lease) -> bool {
        let Some(writes) = self.fit_array(&ViewRef::of(lease.view())) else { return false };
        self.look_at(lease);
        self.leases.lend(lease, writes);
        true
    }

    /// Takes an array without a lease if it fits, as [`Keep::InOrder`]. Returns whether the kernel may write
    /// to it.
    #[inline(always)]
    #[must_use]
    pub fn fit_array(&mut self, view: &ViewRef<'_>) -> Option<bool> {
        let slot = self.ready.slots.get(self.given)?;
        let (writes, bytes) = slot.take_array(self.device, view)?;
        self.add_array(view.address, (view.address, bytes));
        Some(writes)
    }

    /// Takes an integer if it fits. Returns whether it did.
    #[inline(always)]
    #[must_use]
    pub fn fit_integer(&mut self, value: i64) -> bool {
        let slot = self.ready.slots.get(self.given);
        self.fit_word(slot.and_then(|slot| slot.take_integer(value)))
    }

    /// Takes a floating-point number if it fits. Returns whether it did.
    #[inline(always)]
    #[must_use]
    pub fn fit_float(&mut self, value: f64) -> bool {
        let slot = self.ready.slots.get(self.given);
        self.fit_word(slot.and_then(|slot| slot.take_float(value)))
    }

    #[inline(always)]
    fn fit_word(&mut self, word: Option<u64>) -> bool {
        let Some(word) = word else { return false };
        self.frame.push(word.into());
        self.given += 1;
        true
    }

    /// Adds an array's address, and records its memory for error messages.
    #[inline(always)]
    fn add_array(&mut self, address: u64, extent: (u64, u64)) {
        self.frame.push(address.into());
        // A real GPU does not report the address of a bad access.
        if self.ready.simulated {
            self.arrays += 1;
            if self.extents.len() < MOST_EXTENTS {
                let position = u32::try_from(self.given).unwrap_or(u32::MAX);
                self.extents.push((position, extent.0, extent.1));
            }
        }
        self.given += 1;
    }

    /// Checks that only the launch's stream uses a lease's memory. Host memory has no stream, and chooses
    /// none.
    #[inline(always)]
    fn look_at(&mut self, lease: &Lease) {
        let choice = &mut self.choice;
        let plain = |timeline: &Timeline| timeline.is_plain_here(choice.handle());
        self.plain &= lease.timeline().is_some_and(plain);
    }
}

/// The stream of the launch, and what the plan keeps alive.
impl Plan<'_> {
    /// Sets the stream of the launch. Call it before the first argument.
    pub fn on(&mut self, stream: Stream) {
        self.choice.set(stream);
    }

    /// Names the stream of the framework of the next array. The first such stream becomes the launch's, if
    /// none was set. Returns whether the launch is on this stream and any thread can name it later. Then
    /// memory that the framework frees in the order of this stream needs no lease.
    #[inline]
    pub fn prefer(&mut self, home: &Stream) -> bool {
        self.choice.prefer(home)
    }

    /// The stream of the launch, or `None` if none was set and no array has come.
    pub fn stream(&mut self) -> Option<Stream> {
        self.choice.fix().cloned()
    }

    /// Whether a graph of gpulend's captured the launch. It keeps the leases; arrays without one are the caller's to keep.
    #[inline(always)]
    #[must_use]
    pub const fn is_recorded(&self) -> bool {
        self.recorded
    }

    /// The index of the launch's device.
    #[inline]
    #[must_use]
    pub const fn device(&self) -> u8 {
        self.device.index()
    }

    /// Clones the leases held by reference, and fixes the stream, so that they outlive foreign code.
    pub fn keep(&mut self) {
        self.leases.keep();
        self.choice.fix();
    }

    /// Call this before foreign code runs: it may drop leases, use their memory or enter other streams. Keeps
    /// them, and makes [`Plan::queue`] check all of them again.
    pub fn before_others(&mut self) {
        self.keep();
        self.plain = false;
    }

    /// Whether the kernel only reads through the next argument.
    #[must_use]
    pub fn only_reads(&self) -> bool {
        !self.ready.written.contains(&self.given)
    }

    /// The next argument, for messages. `None` if all parameters have one.
    #[cold]
    #[must_use]
    pub fn place(&self) -> Option<Box<Place>> {
        (self.given < self.ready.slots.len()).then(|| self.checker().place(self.given))
    }
}

/// The general path: any argument.
impl<'a> Plan<'a> {
    /// Takes an argument. Leases are cloned.
    ///
    /// # Errors
    ///
    /// If it does not suit the next parameter.
    pub fn push(&mut self, argument: &Argument<'_>) -> Result<(), Error> {
        match argument {
            Argument::Lease(lease) => return self.push_lease((*lease).clone(), LEASE.get(), false),
            Argument::Array { view, keep, what } => return self.push_view(view, *keep, *what),
            Argument::Integer(value)
                if i64::try_from(*value).is_ok_and(|value| self.fit_integer(value)) =>
            {
                return Ok(());
            }
            Argument::Float(value, _) if self.fit_float(*value) => return Ok(()),
            _ => {}
        }
        // An argument without a parameter is only counted.
        if self.given < self.ready.slots.len() {
            match self.checker().take(self.given, argument)? {
                Given::Word(word) => self.frame.push(word),
                Given::Bytes(bytes) => self.frame.push_bytes(bytes),
            }
        }
        self.given += 1;
        Ok(())
    }

    /// Takes an array without a lease, like [`Argument::Array`].
    ///
    /// # Errors
    ///
    /// If it does not suit the next parameter.
    pub fn push_view(&mut self, view: &ViewRef<'_>, keep: Keep, what: Name) -> Result<(), Error> {
        self.push_array(view, matches!(keep, Keep::Host), what).map(|_| ())
    }

    /// Takes a lease and keeps it. `what` is the caller's type name, for messages. Host memory stands in for
    /// GPU memory if `host` is true or its origin allows it: see [`stands_in`].
    ///
    /// # Errors
    ///
    /// If it does not suit the next parameter.
    pub fn push_lease(&mut self, lease: Lease, what: Name, host: bool) -> Result<(), Error> {
        let writes = self.take_lease(&lease, what, host)?;
        self.leases.keep_one(lease, writes);
        Ok(())
    }

    /// Like [`Plan::push_lease`] for a lease that lives until the launch is queued.
    ///
    /// # Errors
    ///
    /// If it does not suit the next parameter.
    #[inline]
    pub fn push_lent(&mut self, lease: &'a Lease) -> Result<(), Error> {
        if self.fit_lease(lease) {
            return Ok(());
        }
        let writes = self.take_lease(lease, LEASE.get(), false)?;
        self.leases.lend(lease, writes);
        Ok(())
    }

    #[inline(never)]
    fn take_lease(&mut self, lease: &Lease, what: Name, host: bool) -> Result<bool, Error> {
        let view = ViewRef::of(lease.view());
        let on_host = view.place.0.kind() == DeviceKind::Cpu;
        let host = host || on_host && stands_in(&lease.origin());
        let writes = self.push_array(&view, host, what)?;
        self.look_at(lease);
        Ok(writes)
    }

    /// Takes an array. Returns whether the kernel may write to it.
    #[inline(never)]
    fn push_array(&mut self, view: &ViewRef<'_>, host: bool, what: Name) -> Result<bool, Error> {
        if let Some(writes) = self.fit_array(view) {
            return Ok(writes);
        }
        if self.given >= self.ready.slots.len() {
            self.given += 1;
            return Ok(false);
        }
        let writes = self.checker().take_array(self.given, view, host, what)?;
        let measure = Measure::take(view.shape, view.strides, view.dtype)?;
        let start = view.address.wrapping_add_signed(measure.span.low);
        let extent = (start, measure.span.bytes());
        if view.place.0.kind() == DeviceKind::Cpu {
            // Its framework has no streams.
            (self.waits, self.plain) = (true, false);
            self.hosts.push(extent);
        }
        self.add_array(view.address, extent);
        Ok(writes)
    }

    fn checker(&self) -> Checker<'a> {
        let ready: &'a Ready = self.ready;
        Checker { signature: &ready.signature, device: self.device, options: self.options }
    }
}
