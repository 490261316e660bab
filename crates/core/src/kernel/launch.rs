//! Launches in one call from Rust: [`Kernel::launch`], or the builder [`Kernel::with`].

use smallvec::SmallVec;

use crate::error::Error;
use crate::kernel::argument::{Argument, Options};
use crate::kernel::{Kernel, Size};
use crate::lease::Lease;
use crate::owner::Owner;
use crate::stream::{Stream, current};

impl Kernel {
    /// Launches on a stream, after the work that the arguments' memory waits for. The memory is held until
    /// the kernel is done. If a host framework uses some of it, this call waits for the kernel.
    ///
    /// # Safety
    ///
    /// (1) and (2) of [`Plan::queue`](crate::kernel::Plan::queue).
    ///
    /// # Errors
    ///
    /// As [`Plan::push`](crate::kernel::Plan::push) and [`Plan::queue`](crate::kernel::Plan::queue). If the
    /// call waits,
    /// also the kernel's own errors.
    pub unsafe fn launch(
        &self,
        size: &Size,
        stream: &Stream,
        arguments: &[Argument<'_>],
        options: Options,
    ) -> Result<(), Error> {
        let mut plan = self.prepare()?.plan(options);
        plan.on(stream.clone());
        for argument in arguments {
            match argument {
                Argument::Lease(lease) => plan.push_lent(lease)?,
                other => plan.push(other)?,
            }
        }
        // SAFETY: (1) and (2) are the contract; (3) only the core's code ran since.
        let wait = unsafe { plan.queue(size) }?;
        let Some(stream) = wait else { return Ok(()) };
        stream.synchronize().inspect_err(|_| plan.keep_until_done(stream, Owner::nobody()))
    }

    /// Starts a launch on the current stream of the kernel's device, without arguments.
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

/// A launch being built.
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
    /// Launches on this stream instead of the current one.
    pub fn on(mut self, stream: &Stream) -> Self {
        self.stream = Some(stream.clone());
        self
    }

    /// Adds a lease.
    pub fn array(self, lease: &'a Lease) -> Self {
        self.argument(Argument::Lease(lease))
    }

    /// Adds an integer.
    pub fn integer(self, value: impl Into<i128>) -> Self {
        self.argument(Argument::Integer(value.into()))
    }

    /// Adds a floating-point number.
    pub fn float(self, value: impl Into<f64>) -> Self {
        self.argument(Argument::Float(value.into(), None))
    }

    /// Adds any argument.
    pub fn argument(mut self, argument: Argument<'a>) -> Self {
        self.arguments.push(argument);
        self
    }

    /// Allows arrays that are not row-major contiguous.
    pub const fn strided(mut self) -> Self {
        self.options.strided = true;
        self
    }

    /// Queues the launch.
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
