//! How a plan is queued: the capture check, the order with other work, the launch, and the notes afterwards.

use std::mem;
use std::sync::Arc;

use crate::abi::cuda::{Status, StreamHandle};
use crate::device::{Device, DeviceKind};
use crate::driver::{Capture, Driver, MOST_EXTENTS, driver, note};
use crate::error::{DriverError, Error, KernelError, Shape, SignatureError};
use crate::host;
use crate::kernel::{Kernel, Plan, Size};
use crate::module::Borrowed;
use crate::owner::Owner;
use crate::stream::{Recording, Stream, Timeline, note_capture, refuse_implicit, release_after};

impl Plan<'_> {
    /// Checks what [`Plan::queue`] checks first, the number of arguments and the size, and queues nothing.
    ///
    /// # Errors
    ///
    /// If arguments are missing, or the size does not suit the kernel.
    pub fn check(&self, size: &Size) -> Result<(), Error> {
        self.ready.check(size)?;
        if self.given == self.ready.slots.len() {
            return Ok(());
        }
        Err(self.kernel.miscounted(self.given))
    }

    /// Queues the launch after the work that the arguments' memory waits for. Leased memory is held until the
    /// kernel is done.
    ///
    /// Returns a stream if a host framework uses some of the memory, or if the use of the memory could not be
    /// noted. The caller must then wait for that stream at once, before dropping the plan. If the wait fails,
    /// the kernel may still run, and the caller must call [`Plan::keep_until_done`].
    ///
    /// # Safety
    ///
    /// 1. What the kernel does is right: it stays inside its arguments' memory, and nobody works on that meanwhile whom
    ///    the leases do not know of.
    /// 2. The memory of an array that no lease keeps is there, and of the kind that its [`Keep`](crate::kernel::Keep) says, until
    ///    the kernel is done.
    /// 3. The plan was filled on this thread. Since then nothing else ran on it that enters a stream or works on the leases'
    ///    memory, or [`Plan::before_others`] was called before.
    ///
    /// # Errors
    ///
    /// If arguments are missing, sizes do not suit the kernel, the driver refuses, or a capture forbids it.
    /// Then nothing is queued.
    #[inline(always)]
    pub unsafe fn queue(&mut self, size: &Size) -> Result<Option<Stream>, Error> {
        let (ready, driver) = (self.ready, driver()?);
        let stream = self.choice.handle();
        let fits = self.given == ready.slots.len() && ready.fits(size);
        let plain = fits && self.plain && self.choice.is_plain() && ready.loaded.is_plain();
        // A default stream is one of the current context. Other streams have a context of their own.
        let brings = plain && stream.0 > StreamHandle::PER_THREAD.0;
        let _entered = if brings { None } else { Some(driver.enter(self.choice.device())?) };
        // SAFETY: the stream is alive: it is kept, or the current one, or can be named at any time.
        let capture = match unsafe { driver.capture(stream) } {
            Ok(capture) => capture,
            Err(error) if brings && wants_context(&error) => {
                // SAFETY: the contract.
                return unsafe { self.enter_and_queue(size) };
            }
            Err(error) => return Err(error.into()),
        };
        if !plain || capture != Capture::No {
            self.settle(driver, size, capture)?;
        }
        if ready.spans && self.options.check && self.arrays <= MOST_EXTENTS {
            driver.limit(&self.extents);
        }
        let pointers = self.frame.pointers(&ready.places);
        // SAFETY: (1) the kernel is loaded, in the primary context, whose stream it is; (2) a pointer for each parameter, to
        // bytes that the slot or the checker made as many as it has; (3) the contract, and the leases are noted below.
        let status = unsafe { driver.launch(ready.function, &size.on(stream), pointers) };
        if status != Status::SUCCESS {
            let Err((code, error)) = driver.check_launch(status) else { return Ok(None) };
            if brings && wants_context(&error) {
                // SAFETY: the contract.
                return unsafe { self.enter_and_queue(size) };
            }
            return Err(self.kernel.refused(size, code, error));
        }
        note(&ready.signature, size.grid, size.block, &self.extents);
        // Checked again: another thread may have used the memory in between.
        if plain && ready.loaded.is_plain() && self.leases.are_plain_on(stream) {
            return Ok(None);
        }
        self.note()
    }

    /// Queues the launch again with the context current: some drivers require that for every stream.
    ///
    /// # Safety
    ///
    /// As [`Plan::queue`].
    #[cold]
    #[inline(never)]
    unsafe fn enter_and_queue(&mut self, size: &Size) -> Result<Option<Stream>, Error> {
        self.plain = false;
        // SAFETY: the contract.
        unsafe { self.queue(size) }
    }

    /// The steps for a launch that is not plain or is captured: checks, order, host memory.
    #[inline(never)]
    fn settle(&mut self, driver: &Driver, size: &Size, capture: Capture) -> Result<(), Error> {
        let (kernel, ready) = (self.kernel, self.ready);
        ready.check(size)?;
        let stream = self.choice.stream();
        if stream.device() != kernel.device() {
            return Err(kernel.elsewhere(&stream));
        }
        if self.given != ready.slots.len() {
            return Err(kernel.miscounted(self.given));
        }
        let variables = ready.loaded.borrowed();
        // Checked last: converting a later argument can lend an earlier lease to the host.
        self.wait_if_shared(&variables);
        note_capture(&stream, capture);
        if capture != Capture::No {
            refuse_implicit(&stream)?;
            if self.waits {
                return Err(
                    KernelError::Captured { kernel: kernel.signature().name.clone() }.into()
                );
            }
        }
        // Forgetting streams below may run foreign code.
        self.keep();
        if capture != Capture::No {
            self.record(capture);
        }
        for (found, writes) in self.leases.timelines() {
            if let Some(timeline) = found {
                timeline.check_live()?;
                timeline.ready_for(&stream, writes)?;
            }
        }
        for variable in &variables {
            variable.timeline.ready_for(&stream, variable.writes)?;
        }
        // Check all before admitting any: an admitted range stays admitted until the next launch.
        for (start, bytes) in &self.hosts {
            host::check_mapped(*start, *bytes)?;
        }
        for (start, bytes) in self.hosts.iter().filter(|(_, bytes)| *bytes > 0) {
            driver.admit(*start, *bytes)?;
        }
        Ok(())
    }

    /// Has the graph that is being captured keep the module and the leases. Who captures by other means keeps the leases;
    /// the module then stays loaded.
    #[cold]
    fn record(&mut self, capture: Capture) {
        let loaded = &self.ready.loaded;
        let Some(recording) = Recording::of(capture) else { return loaded.note_captured() };
        self.recorded = true;
        let kept = Arc::clone(loaded);
        recording.keep_module(Arc::as_ptr(loaded).addr(), move || {
            kept.borrowed().into_iter().map(|one| (one.timeline, one.writes)).collect()
        });
        for (lease, writes) in self.leases.kept() {
            lease.keep_in(&recording, *writes);
        }
    }

    /// Notes the stream in the timelines of the arguments, where needed. Returns the stream if the caller
    /// must wait for it.
    #[inline(never)]
    fn note(&mut self) -> Result<Option<Stream>, Error> {
        let stream = self.choice.stream();
        // Read again: variables may have been borrowed in between.
        let variables = self.ready.loaded.borrowed();
        // As above: this may run foreign code.
        self.keep();
        let mut noted = true;
        let used = variables.iter().map(|one| (Some(&*one.timeline), one.writes));
        for (found, writes) in self.leases.timelines().chain(used) {
            let used = found.map(|timeline| timeline.used_once_on(&stream, writes));
            noted &= used.is_none_or(|used| used.is_ok());
        }
        // Another thread may have lent memory to the host in between; it waited only for work queued before.
        self.wait_if_shared(&variables);
        // Without a note the memory could be freed too early, so the kernel is waited for.
        Ok((self.waits || !noted).then_some(stream))
    }

    /// Keeps the leases of a queued launch, and `others` for arrays without a lease, until its stream is done
    /// with it. For a launch whose wait failed.
    #[cold]
    pub fn keep_until_done(&mut self, stream: Stream, others: Owner) {
        self.keep();
        release_after(stream, Owner::keep((mem::take(&mut self.leases).into_kept(), others)));
    }

    /// Makes the caller wait for the kernel if a host framework uses some of the memory.
    fn wait_if_shared(&mut self, variables: &[Borrowed]) {
        let shared = |found: Option<&Timeline>| found.is_none_or(Timeline::is_shared_with_host);
        self.waits |= self.leases.timelines().any(|(found, _)| shared(found));
        self.waits |= variables.iter().any(|one| one.timeline.is_shared_with_host());
    }
}

/// Whether the error may mean that the stream's context must be current.
#[cold]
fn wants_context(error: &DriverError) -> bool {
    const CODES: [Status; 2] = [Status::INVALID_CONTEXT, Status::INVALID_HANDLE];
    matches!(error, DriverError::Call { code, .. } if CODES.contains(&Status(*code)))
}

impl Kernel {
    #[cold]
    pub(super) fn miscounted(&self, found: usize) -> Error {
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

    #[cold]
    fn refused(&self, size: &Size, code: i32, error: DriverError) -> Error {
        let DriverError::Call { name, .. } = error else { return error.into() };
        let kernel = self.signature().name.clone();
        let wide = |extents: [u32; 3]| extents.map(i64::from);
        let shape = Box::new(Shape { kernel, grid: wide(size.grid), block: wide(size.block) });
        KernelError::Refused { shape, code, name }.into()
    }
}
