//! Launches, and the stack of configurations between `<<<…>>>` and the kernel's host function.

use std::cell::RefCell;
use std::ffi::{c_int, c_uint, c_void};

use crate::driver::{HostFunction, LaunchConfiguration};
use crate::error::{self, Error, Outcome};
use crate::registry;
use crate::state::{Here, device, here, index};
use crate::wire::{Handle, In, Out, forward, runtime};

/// `dim3`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dim3 {
    /// The first dimension.
    pub x: c_uint,
    /// The second dimension.
    pub y: c_uint,
    /// The third dimension.
    pub z: c_uint,
}

impl Dim3 {
    pub(crate) fn list(self) -> [c_uint; 3] {
        [self.x, self.y, self.z]
    }
}

/// `cudaLaunchConfig_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LaunchConfig {
    grid: Dim3,
    block: Dim3,
    shared: usize,
    stream: Handle,
    attributes: *const c_void,
    count: c_uint,
}

impl LaunchConfig {
    /// Returns it with another stream.
    pub(crate) fn on(self, other: impl Fn(Handle) -> Handle) -> Self {
        Self { stream: other(self.stream), ..self }
    }

    /// Returns the driver's form of it.
    pub(crate) fn for_driver(&self) -> Outcome<LaunchConfiguration> {
        Ok(LaunchConfiguration {
            grid: self.grid.list(),
            block: self.block.list(),
            shared: c_uint::try_from(self.shared).map_err(|_| Error::INVALID_VALUE)?,
            stream: self.stream,
            attributes: self.attributes,
            count: self.count,
        })
    }
}

#[derive(Clone, Copy)]
struct Configuration {
    grid: Dim3,
    block: Dim3,
    shared: usize,
    stream: Handle,
}

thread_local! {
    /// A kernel's arguments may themselves launch kernels, so a stack.
    static CONFIGURATIONS: RefCell<Vec<Configuration>> = const { RefCell::new(Vec::new()) };
}

/// Notes the configuration of `<<<…>>>`. Zero means that the kernel's host function is called next.
///
/// # Safety
///
/// There are no pointers that are read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaPushCallConfiguration(
    grid: Dim3,
    block: Dim3,
    shared: usize,
    stream: Handle,
) -> c_uint {
    let configuration = Configuration { grid, block, shared, stream };
    let pushed = CONFIGURATIONS.try_with(|stack| {
        stack.try_borrow_mut().map(|mut stack| stack.push(configuration)).is_ok()
    });
    c_uint::from(!matches!(pushed, Ok(true)))
}

runtime! {
    /// Takes the configuration that was noted last.
    fn __cudaPopCallConfiguration(grid: Out<Dim3>, block: Out<Dim3>, shared: Out<usize>, stream: Out<Handle>) {
        let top = CONFIGURATIONS
            .try_with(|stack| stack.try_borrow_mut().ok().and_then(|mut stack| stack.pop()));
        let top = top.ok().flatten().ok_or(Error::MISSING_CONFIGURATION)?;
        grid.put(top.grid)?;
        block.put(top.block)?;
        shared.put(top.shared)?;
        stream.put(top.stream)
    }

    /// Launches a kernel.
    fn cudaLaunchKernel(function: *const c_void, grid: Dim3, block: Dim3, arguments: *mut *mut c_void, shared: usize, stream: Handle) {
        let here = here()?;
        let kernel = registry::kernel(here, function)?;
        let bytes = c_uint::try_from(shared).map_err(|_| Error::INVALID_VALUE)?;
        // SAFETY: the caller's arguments are those of the kernel; the kernel is loaded in this context.
        let launched = unsafe {
            here.driver.cuLaunchKernel(
                kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z, bytes, stream, arguments,
                std::ptr::null_mut(),
            )
        };
        launched.map_err(|error| explain(here, error, grid.list(), block.list()))
    }

    /// Launches a kernel whose blocks wait for each other.
    fn cudaLaunchCooperativeKernel(function: *const c_void, grid: Dim3, block: Dim3, arguments: *mut *mut c_void, shared: usize, stream: Handle) {
        /// `CUlaunchAttribute` that says cooperative.
        #[repr(C, align(8))]
        struct Cooperative([c_uint; 18]);
        let mut attribute = Cooperative([0; 18]);
        // The attribute's number and, after eight bytes, its value.
        (attribute.0[0], attribute.0[2]) = (2, 1);
        let configuration = LaunchConfig {
            grid, block, shared, stream, attributes: (&raw const attribute).cast(), count: 1,
        };
        launch(function, &configuration, arguments)
    }

    /// Launches a kernel with attributes.
    fn cudaLaunchKernelExC(configuration: In<LaunchConfig>, function: *const c_void, arguments: *mut *mut c_void) {
        launch(function, &configuration.get()?, arguments)
    }
}

forward! {
    /// Queues a call of a host function.
    fn cudaLaunchHostFunc(stream: Handle, function: HostFunction, data: *mut c_void)
        = cuLaunchHostFunc(stream, function, data);
}

/// Launches with attributes.
pub(crate) fn launch(
    function: *const c_void,
    configuration: &LaunchConfig,
    arguments: *mut *mut c_void,
) -> Outcome<()> {
    let here = here()?;
    let kernel = registry::kernel(here, function)?;
    let passed = configuration.for_driver()?;
    // SAFETY: the caller's arguments and attributes are as documented; the kernel is loaded in this context.
    let launched = unsafe {
        here.driver.cuLaunchKernelEx(&raw const passed, kernel, arguments, std::ptr::null_mut())
    };
    launched.map_err(|error| explain(here, error, passed.grid, passed.block))
}

/// The driver calls every wrong value invalid; the runtime has an error of its own for grids and blocks.
#[cold]
fn explain(here: Here, error: Error, grid: [c_uint; 3], block: [c_uint; 3]) -> Error {
    let is_shape = || {
        Ok::<_, Error>(!fits(here, 5, grid)? || !fits(here, 2, block)? || !is_small(here, block)?)
    };
    if error == error::Error::INVALID_VALUE && is_shape().unwrap_or(false) {
        return Error::INVALID_CONFIGURATION;
    }
    error
}

/// Returns whether all three numbers are between one and the device's limits, which begin at an attribute.
fn fits(here: Here, first: c_int, numbers: [c_uint; 3]) -> Outcome<bool> {
    for (which, number) in (first..).zip(numbers) {
        if number == 0 || number > limit(here, which)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_small(here: Here, block: [c_uint; 3]) -> Outcome<bool> {
    let threads: u64 = block.iter().map(|number| u64::from(*number)).product();
    Ok(threads <= u64::from(limit(here, 1)?))
}

fn limit(here: Here, which: c_int) -> Outcome<c_uint> {
    let device = device(here.driver, index(here.driver)?)?;
    let mut value = 0;
    // SAFETY: one int is written.
    unsafe { here.driver.cuDeviceGetAttribute(&raw mut value, which, device) }?;
    Ok(c_uint::try_from(value).unwrap_or(0))
}
