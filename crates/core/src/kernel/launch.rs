//! A launch: checked, ordered, queued, remembered. No heap is touched once a kernel was launched before,
//! with up to twelve arrays.

use std::ptr;

use smallvec::SmallVec;

use crate::abi::cuda::{LaunchConfiguration, StreamHandle};
use crate::device::{Device, DeviceKind};
use crate::driver::{Extent, MOST_EXTENTS, driver, note};
use crate::error::{DriverError, Error, KernelError, Place, Shape, SignatureError};
use crate::host;
use crate::import::raw::ViewRef;
use crate::kernel::argument::{Argument, Checker, Given, Keep, Options};
use crate::kernel::frame::Frame;
use crate::kernel::leases::Leases;
use crate::kernel::{Kernel, Prepared, Ready};
use crate::layout::Measure;
use crate::lease::Lease;
use crate::ledger::{FixedName, Name};
use crate::module::Borrowed;
use crate::stream::{Stream, Timeline, current, is_capturing_here};

static LEASE: FixedName = FixedName::new("gpulend.Lease");

/// Blocks, threads, and shared memory that is added to the kernel's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Blocks along each axis.
    pub grid: [u32; 3],
    /// Threads of a block along each axis.
    pub block: [u32; 3],
    /// Bytes of shared memory of each block.
    pub shared: u32,
}

impl Size {
    /// That many blocks of that many threads, along one axis.
    #[must_use]
    pub const fn of(blocks: u32, threads: u32) -> Self {
        Self { grid: [blocks, 1, 1], block: [threads, 1, 1], shared: 0 }
    }

    /// The same, and where, as the driver takes it.
    #[inline]
    pub(super) const fn on(&self, stream: StreamHandle) -> LaunchConfiguration {
        let Self { grid, block, shared } = *self;
        LaunchConfiguration { grid, block, shared, stream, attributes: ptr::null(), count: 0 }
    }
}

impl Ready {
    /// Whether device and kernel allow it, as far as can be told without asking.
    #[inline]
    pub(super) fn fits(&self, size: &Size) -> bool {
        let fits = |found: [u32; 3], most: [u32; 3]| {
            (0..3).all(|axis| found[axis].wrapping_sub(1) < most[axis])
        };
        fits(size.grid, self.limits.grid)
            && fits(size.block, self.limits.block)
            && threads(size) <= u64::from(self.threads.min(self.limits.threads))
            && size.shared <= self.dynamic
    }

    /// Refuses what the device or the kernel does not allow.
    #[inline]
    pub(super) fn check(&self, size: &Size) -> Result<(), Error> {
        if self.fits(size) { Ok(()) } else { self.explain(size) }
    }

    #[cold]
    fn explain(&self, size: &Size) -> Result<(), Error> {
        let fits = |found: [u32; 3], most: [u32; 3]| {
            found.into_iter().zip(most).all(|(found, most)| (1..=most).contains(&found))
        };
        let threads = threads(size) <= u64::from(self.threads.min(self.limits.threads));
        let shared =
            u64::from(size.shared) + u64::from(self.shared) <= u64::from(self.limits.shared);
        let fits = fits(size.grid, self.limits.grid) && fits(size.block, self.limits.block);
        if !(threads && shared && fits) {
            let wide = |extents: [u32; 3]| extents.map(i64::from);
            return Err(self.outsized(wide(size.grid), wide(size.block), size.shared.into()));
        }
        // More than launches have without asking, and the device has it. Asked for the most at once: then never again.
        let most = self.limits.shared - self.shared;
        // SAFETY: the module of the function is loaded, and held.
        Ok(unsafe { driver()?.allow_shared(self.function, most) }?)
    }

    /// Which of the limits a launch is past.
    #[cold]
    pub(super) fn outsized(&self, grid: [i64; 3], block: [i64; 3], shared: i64) -> Error {
        const AXES: [&str; 3] = ["x", "y", "z"];
        let shape = || Box::new(Shape { kernel: self.signature.name.clone(), grid, block });
        for (what, extents, limits) in
            [("grid", grid, self.limits.grid), ("block", block, self.limits.block)]
        {
            for ((found, most), axis) in extents.into_iter().zip(limits).zip(AXES) {
                if !(1..=i64::from(most)).contains(&found) {
                    return KernelError::Extent { shape: shape(), what, axis, found, most }.into();
                }
            }
        }
        let found = block.iter().map(|extent| extent.unsigned_abs()).product();
        for (most, whose) in [
            (self.limits.threads, "the device"),
            (self.threads, "this kernel (its registers or __launch_bounds__)"),
        ] {
            if found > u64::from(most) {
                return KernelError::Threads { shape: shape(), found, most, whose }.into();
            }
        }
        let (own, most) = (self.shared, self.limits.shared);
        KernelError::Shared { shape: shape(), found: shared, own, most }.into()
    }
}

fn threads(size: &Size) -> u64 {
    size.block.iter().map(|extent| u64::from(*extent)).product()
}

/// A launch that is being put together, argument by argument. Nothing is queued before [`Pending::queue`].
pub struct Pending<'a> {
    kernel: &'a Kernel,
    ready: &'a Ready,
    checker: Checker<'a>,
    frame: Frame,
    /// How many arguments came.
    given: usize,
    leases: Leases<'a>,
    /// The variables of the kernel's module that were borrowed: it may touch them all.
    variables: Vec<Borrowed>,
    /// Memory of the host that the simulated GPU is let at.
    hosts: SmallVec<[(u64, u64); 4]>,
    extents: SmallVec<[Extent; MOST_EXTENTS]>,
    /// How many of the arguments were arrays.
    arrays: usize,
    waits: bool,
}

impl<'a> Pending<'a> {
    /// Adds an argument.
    ///
    /// # Errors
    ///
    /// If it does not suit the next parameter.
    pub fn push(&mut self, argument: &Argument<'_>) -> Result<(), Error> {
        match argument {
            Argument::Lease(lease) => return self.push_lease((*lease).clone(), LEASE.get(), false),
            Argument::Array { view, keep, what } => return self.push_view(view, *keep, *what),
            other => {
                // What no parameter is for is only counted.
                if let Some(start) = self.next() {
                    match self.checker.take(self.given, other)? {
                        Given::Word(word) => self.frame.set(start, word),
                        Given::Bytes(bytes) => self.frame.set_bytes(start, bytes),
                    }
                }
                self.given += 1;
            }
        }
        Ok(())
    }

    /// Adds an array that is not leased: as [`Argument::Array`].
    ///
    /// # Errors
    ///
    /// If it does not suit the next parameter.
    #[inline]
    pub fn push_view(&mut self, view: &ViewRef<'_>, keep: Keep, what: Name) -> Result<(), Error> {
        self.push_array(view, matches!(keep, Keep::Host), what).map(|_| ())
    }

    /// Adds a whole number.
    ///
    /// # Errors
    ///
    /// If it does not suit the next parameter.
    #[inline]
    pub fn push_integer(&mut self, value: i64) -> Result<(), Error> {
        if let Some(start) = self.next()
            && let Some(word) = self.ready.slots[self.given].take_integer(value)
        {
            self.frame.set(start, word.into());
            self.given += 1;
            return Ok(());
        }
        self.push(&Argument::Integer(value.into()))
    }

    /// Adds a lease, which is held until the kernel is done. `host`: it is a CPU framework's, a stand-in for an array of a
    /// GPU. `what` is the type that its caller has, for messages.
    ///
    /// # Errors
    ///
    /// If it does not suit the next parameter.
    pub fn push_lease(&mut self, lease: Lease, what: Name, host: bool) -> Result<(), Error> {
        let writes = self.take_lease(&lease, what, host)?;
        self.leases.push_own(lease, writes);
        Ok(())
    }

    /// As [`Pending::push_lease`] of a lease that stays where it is until the launch is queued.
    ///
    /// # Errors
    ///
    /// If it does not suit the next parameter.
    #[inline]
    pub fn push_lent(&mut self, lease: &'a Lease) -> Result<(), Error> {
        let writes = self.take_lease(lease, LEASE.get(), false)?;
        self.leases.push_lent(lease, writes);
        Ok(())
    }

    /// Whether the kernel only reads behind the argument that comes next.
    #[must_use]
    pub fn only_reads(&self) -> bool {
        !self.ready.written.contains(&self.given)
    }

    /// Which argument comes next, for messages; none if all parameters have one.
    #[cold]
    #[must_use]
    pub fn place(&self) -> Option<Box<Place>> {
        self.next().map(|_| self.checker.place(self.given))
    }

    /// Keeps all leases from now on, whatever becomes of those that were only lent.
    pub fn keep(&mut self) {
        self.leases.keep();
    }

    #[inline(always)]
    fn take_lease(&mut self, lease: &Lease, what: Name, host: bool) -> Result<bool, Error> {
        self.push_array(&ViewRef::of(lease.view()), host, what)
    }

    /// Where the next argument begins; none if all parameters have one.
    #[inline(always)]
    fn next(&self) -> Option<u32> {
        self.ready.places.starts().get(self.given).copied()
    }

    /// Adds an array, as its address, and tells whether the kernel may write behind it. The memory is remembered, to say
    /// whose it is if a kernel misses it.
    #[inline(always)]
    fn push_array(&mut self, view: &ViewRef<'_>, host: bool, what: Name) -> Result<bool, Error> {
        let position = self.given;
        let Some(start) = self.next() else {
            self.given += 1;
            return Ok(false);
        };
        let plain = self.ready.slots[position].take_array(self.checker.device, view);
        let (writes, extent) = match plain {
            Some((writes, bytes)) => (writes, (view.address, bytes)),
            None => self.take_array(position, view, host, what)?,
        };
        self.frame.set(start, view.address.into());
        self.arrays += 1;
        // A real GPU does not tell what a kernel missed.
        if self.ready.simulated && self.extents.len() < MOST_EXTENTS {
            self.extents.push((u32::try_from(position).unwrap_or(u32::MAX), extent.0, extent.1));
        }
        self.given += 1;
        Ok(writes)
    }

    #[inline(never)]
    fn take_array(
        &mut self,
        position: usize,
        view: &ViewRef<'_>,
        host: bool,
        what: Name,
    ) -> Result<(bool, (u64, u64)), Error> {
        let writes = self.checker.take_array(position, view, host, what)?;
        let measure = Measure::take(view.shape, view.strides, view.dtype)?;
        let start = view.address.wrapping_add_signed(measure.span.low);
        let extent = (start, measure.span.bytes());
        if host {
            self.waits = true;
            self.hosts.push(extent);
        }
        Ok((writes, extent))
    }

    /// Queues the launch on a stream, after whatever the arguments' memory waits for, which is held until the kernel is done.
    /// Tells whether the caller must wait for the stream before anything else, and before this goes: a framework of the host
    /// holds some of the memory.
    ///
    /// # Safety
    ///
    /// 1. What the kernel does is right: it stays inside its arguments' memory, and nobody works on that meanwhile whom
    ///    the leases do not know of.
    /// 2. The memory of an array that no lease keeps is there, and of the kind that its `Keep` says, until the kernel is
    ///    done.
    ///
    /// # Errors
    ///
    /// If arguments are missing, sizes do not suit the kernel, the driver refuses, or a capture stands against it: nothing
    /// is queued then.
    #[inline]
    pub unsafe fn queue(&mut self, size: &Size, stream: &Stream) -> Result<bool, Error> {
        let (kernel, ready) = (self.kernel, self.ready);
        let driver = driver()?;
        let _entered = driver.enter(stream.device())?;
        ready.check(size)?;
        let starts = ready.places.starts();
        if stream.device() != kernel.device() {
            return Err(kernel.elsewhere(stream));
        }
        if self.given != starts.len() {
            return Err(kernel.miscounted(self.given));
        }
        // Not sooner: what took later arguments may have lent those before to a framework of the host.
        let plain =
            |found: Option<&Timeline>| found.is_some_and(|found| found.is_plain_for(stream));
        let plain = !self.waits && self.leases.timelines().all(|(found, _)| plain(found));
        self.variables = ready.loaded.borrowed();
        if is_capturing_here(stream)? {
            self.wait_if_shared();
            kernel.enter_capture(ready, stream, self.waits)?;
        }
        if !plain || !self.variables.is_empty() {
            self.order(stream)?;
        }
        // All before any: what is admitted stays so until the next launch.
        for (start, bytes) in &self.hosts {
            host::check_mapped(*start, *bytes)?;
        }
        for (start, bytes) in self.hosts.iter().filter(|(_, bytes)| *bytes > 0) {
            driver.admit(*start, *bytes)?;
        }
        if ready.spans && self.checker.options.check && self.arrays <= MOST_EXTENTS {
            driver.limit(&self.extents);
        }
        let (handle, function) = (stream.handle(), ready.function);
        let pointers = self.frame.pointers(&ready.places);
        // SAFETY: (1) the kernel is loaded, and the context entered; (2) a pointer for each parameter, to bytes that the
        // checker made as many as it has; (3) the contract, and the leases are noted below.
        let queued = unsafe { driver.launch(function, &size.on(handle), pointers) };
        if let Err((code, error)) = driver.check_launch(queued) {
            return Err(kernel.refused(size, code, error));
        }
        note(&ready.signature, size.grid, size.block, &self.extents);
        let known =
            |found: Option<&Timeline>| found.is_some_and(|found| found.is_noted_for(stream));
        let known =
            ready.loaded.is_plain() && self.leases.timelines().all(|(found, _)| known(found));
        let noted = known || self.note(stream);
        // Another thread may have lent some of it to the host meanwhile: it waited for what was queued before.
        self.wait_if_shared();
        // What cannot be noted must be over: the launch is queued, and its memory must not go before.
        if !noted {
            stream.synchronize()?;
        }
        Ok(self.waits)
    }

    /// Whoever shares memory with a framework of the host waits for the kernel.
    fn wait_if_shared(&mut self) {
        let shared = |found: Option<&Timeline>| found.is_none_or(Timeline::is_shared_with_host);
        self.waits |= self.leases.timelines().any(|(found, _)| shared(found));
        self.waits |= self.variables.iter().any(|one| one.timeline.is_shared_with_host());
    }

    /// Notes that a stream works on the arguments' memory, and tells whether that was possible.
    #[inline(never)]
    fn note(&mut self, stream: &Stream) -> bool {
        // As below.
        self.keep();
        // Once more: some may have been borrowed meanwhile.
        self.variables = self.ready.loaded.borrowed();
        let mut noted = true;
        let variables = self.variables.iter().map(|one| (Some(&*one.timeline), one.writes));
        for (found, writes) in self.leases.timelines().chain(variables) {
            let used = found.map(|timeline| timeline.used_once_on(stream, writes));
            noted &= used.is_none_or(|used| used.is_ok());
        }
        noted
    }

    /// Has a stream wait for whatever the arguments' memory waits for.
    #[inline(never)]
    fn order(&mut self, stream: &Stream) -> Result<(), Error> {
        // The streams that are forgotten here may run code of others.
        self.keep();
        self.wait_if_shared();
        for (found, writes) in self.leases.timelines() {
            if let Some(timeline) = found {
                timeline.check_live()?;
                timeline.ready_for(stream, writes)?;
            }
        }
        for variable in &self.variables {
            variable.timeline.ready_for(stream, variable.writes)?;
        }
        Ok(())
    }
}

impl<'a> Prepared<'a> {
    /// A launch to be put together.
    #[inline(always)]
    #[must_use]
    pub fn pending(self, options: Options) -> Pending<'a> {
        let Self { kernel, ready } = self;
        Pending {
            kernel,
            ready,
            checker: Checker {
                signature: &ready.signature,
                device: kernel.0.module.device(),
                options,
            },
            frame: Frame::of(&ready.places),
            given: 0,
            leases: Leases::default(),
            variables: Vec::new(),
            hosts: SmallVec::new(),
            extents: SmallVec::new(),
            arrays: 0,
            waits: false,
        }
    }
}

impl Kernel {
    /// Launches on a stream, after whatever the arguments' memory waits for, and holds that until the kernel is done. Where a
    /// framework of the host holds some of it, the host waits for that.
    ///
    /// # Safety
    ///
    /// As [`Pending::queue`].
    ///
    /// # Errors
    ///
    /// As [`Pending::push`] and [`Pending::queue`]. Where the launch is waited for, also what the kernel did wrong.
    pub unsafe fn launch(
        &self,
        size: &Size,
        stream: &Stream,
        arguments: &[Argument<'_>],
        options: Options,
    ) -> Result<(), Error> {
        let mut pending = self.prepare()?.pending(options);
        for argument in arguments {
            match argument {
                Argument::Lease(lease) => pending.push_lent(lease)?,
                other => pending.push(other)?,
            }
        }
        // SAFETY: the contract.
        let waits = unsafe { pending.queue(size, stream) }?;
        if waits { stream.synchronize() } else { Ok(()) }
    }

    #[cold]
    fn miscounted(&self, found: usize) -> Error {
        let signature = self.signature();
        let wanted = signature.parameters.len();
        let signature = signature.to_string().into();
        SignatureError::Count { signature, wanted, found }.into()
    }

    #[cold]
    fn elsewhere(&self, stream: &Stream) -> Error {
        let found = Device::new(DeviceKind::Cuda, stream.device()).to_string().into();
        let wanted = self.0.module.device().to_string().into();
        SignatureError::Stream { kernel: self.signature().name.clone(), found, wanted }.into()
    }

    /// The launch becomes part of a graph, or is refused.
    #[cold]
    fn enter_capture(&self, ready: &Ready, stream: &Stream, waits: bool) -> Result<(), Error> {
        crate::stream::refuse_implicit(stream)?;
        if waits {
            let kernel = self.signature().name.clone();
            return Err(KernelError::Captured { kernel }.into());
        }
        ready.loaded.note_captured();
        Ok(())
    }

    #[cold]
    pub(super) fn refused(&self, size: &Size, code: i32, error: DriverError) -> Error {
        let DriverError::Call { name, .. } = error else { return error.into() };
        let kernel = self.signature().name.clone();
        let wide = |extents: [u32; 3]| extents.map(i64::from);
        let shape = Box::new(Shape { kernel, grid: wide(size.grid), block: wide(size.block) });
        KernelError::Refused { shape, code, name }.into()
    }

    /// A launch to be filled in: the current stream of the kernel's device, no arguments yet.
    pub fn with(&self, size: Size) -> Launch<'_> {
        Launch {
            kernel: self,
            size,
            stream: None,
            arguments: SmallVec::new(),
            options: Options::default(),
        }
    }
}

/// A launch that is being filled in.
///
/// ```
/// # use std::env::var_os;
/// # // Only where there is a simulated GPU and a compiler for it.
/// # let (Some(_), Some(zig)) = (var_os("GPULEND_SIM_LIBRARY"), var_os("GPULEND_TEST_ZIGLANG")) else { return Ok(()) };
/// # gpulend::driver::simulate(&gpulend::driver::Settings::default())?;
/// use gpulend::kernel::{Kernel, Size};
/// use gpulend::module::{Module, Recipe};
/// use gpulend::{Dtype, copy, pool};
///
/// let source = "__global__ void raise(float *x, float y, int n) { if (threadIdx.x < n) x[threadIdx.x] += y; }";
/// let mut recipe = Recipe::new(source);
/// # recipe.ziglang = Some(zig.into());
/// let raise = Kernel::new(Module::compile(recipe, 0)?.find("raise")?);
/// let array = pool::empty(&[3], Dtype::FLOAT32, "cuda:0".parse()?)?;
/// // The memory is new, the kernel stays inside it, and nobody else knows it.
/// unsafe { copy::fill(&array, &1.0_f32.to_ne_bytes()) }?;
/// unsafe { raise.with(Size::of(1, 128)).array(&array).float(0.5).integer(3).launch() }?;
/// assert_eq!(unsafe { copy::to_vec::<f32>(&array) }?, [1.5; 3]);
///
/// // Every argument is compared with the parameter that it is for, and nothing is launched that does not suit.
/// let refused = unsafe { raise.with(Size::of(1, 128)).integer(7).float(0.5).integer(3).launch() };
/// assert!(refused.unwrap_err().to_string().starts_with("raise: argument 1 (x) is the int 7"));
/// # Ok::<(), gpulend::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "nothing is launched before `launch`"]
pub struct Launch<'a> {
    kernel: &'a Kernel,
    size: Size,
    stream: Option<Stream>,
    arguments: SmallVec<[Argument<'a>; 16]>,
    options: Options,
}

impl<'a> Launch<'a> {
    /// On another stream than the current one.
    pub fn on(mut self, stream: &Stream) -> Self {
        self.stream = Some(stream.clone());
        self
    }

    /// Adds a lease.
    pub fn array(self, lease: &'a Lease) -> Self {
        self.argument(Argument::Lease(lease))
    }

    /// Adds a whole number.
    pub fn integer(self, value: impl Into<i128>) -> Self {
        self.argument(Argument::Integer(value.into()))
    }

    /// Adds a number.
    pub fn float(self, value: impl Into<f64>) -> Self {
        self.argument(Argument::Float(value.into(), None))
    }

    /// Adds any argument.
    pub fn argument(mut self, argument: Argument<'a>) -> Self {
        self.arguments.push(argument);
        self
    }

    /// Takes arrays with gaps or in another order.
    pub const fn strided(mut self) -> Self {
        self.options.strided = true;
        self
    }

    /// Queues it.
    ///
    /// # Safety
    ///
    /// As [`Kernel::launch`].
    ///
    /// # Errors
    ///
    /// As [`Kernel::launch`].
    pub unsafe fn launch(self) -> Result<(), Error> {
        let stream = self.stream.unwrap_or_else(|| current(self.kernel.device()));
        // SAFETY: the contract.
        unsafe { self.kernel.launch(&self.size, &stream, &self.arguments, self.options) }
    }
}
