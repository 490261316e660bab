//! `Kernel`: launched on arrays of any framework, every argument checked against its own signature.

mod argument;
mod elements;
mod frame;
mod launch;
mod leases;
mod slot;
mod straight;
mod timing;

use std::sync::{Arc, OnceLock};

use crate::abi::cuda::{FunctionAttribute, FunctionHandle};
use crate::driver::{Limits, driver};
use crate::error::{Error, KernelError};
use crate::module::{Found, Loaded, Module};
use crate::signature::{Parameter, Signature, Type};

pub use crate::error::{Number, Place, Shape};
pub use argument::{Argument, Keep, Options};
use frame::Places;
pub use launch::{Launch, Pending, Size};
use slot::Slot;
pub use straight::{Queued, Straight};
pub use timing::Timer;

/// A kernel of a module. Clones name the same one.
///
/// It is found in its device when it is first launched or asked for what only the device knows.
#[derive(Clone, Debug)]
pub struct Kernel(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    module: Module,
    told: Arc<Signature>,
    ready: OnceLock<Ready>,
}

/// A kernel in its device.
#[derive(Debug)]
struct Ready {
    loaded: Arc<Loaded>,
    function: FunctionHandle,
    /// With sizes that the driver agrees to.
    signature: Arc<Signature>,
    /// The parameters as far as most arguments need them.
    slots: Box<[Slot]>,
    /// Which arguments the kernel may write behind.
    written: Box<[usize]>,
    /// Where each begins in a frame.
    places: Places,
    limits: Limits,
    /// Whether the device is simulated.
    simulated: bool,
    /// Whether the arrays are all that it is told of memory, so that it has no business beside them.
    spans: bool,
    /// Threads that a block of this kernel may have.
    threads: u32,
    /// Bytes of shared memory that it always has.
    shared: u32,
    /// Bytes of shared memory that launches may add without asking.
    dynamic: u32,
}

/// Whether a parameter is a value, or a pointer to values: no address comes in by it but that of an array.
fn tells_no_address(parameter: &Parameter) -> bool {
    let is_value = |kind: &Type| {
        matches!(kind, Type::Void | Type::Scalar(_) | Type::Vector { .. } | Type::Complex(_))
    };
    match &parameter.kind {
        Some(Type::Pointer { to, .. }) => is_value(to),
        Some(kind) => is_value(kind),
        None => false,
    }
}

/// A kernel that is in its device, to be launched.
#[derive(Clone, Copy, Debug)]
pub struct Prepared<'a> {
    kernel: &'a Kernel,
    ready: &'a Ready,
}

impl<'a> Prepared<'a> {
    /// The positions, from 0, of the arguments that the kernel may write behind: pointers that are not `const`, and whatever could
    /// be one where only sizes are known.
    #[inline]
    #[must_use]
    pub fn written(self) -> &'a [usize] {
        &self.ready.written
    }
}

fn written(parameters: &[Parameter]) -> Box<[usize]> {
    let is_written = |parameter: &Parameter| match &parameter.kind {
        Some(Type::Pointer { constant, .. }) => !constant,
        Some(_) => false,
        None => parameter.size == 8,
    };
    (0..parameters.len()).filter(|position| is_written(&parameters[*position])).collect()
}

/// What a kernel needs and allows, as its device tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Threads that a block may have.
    pub max_threads_per_block: u32,
    /// Bytes of shared memory that it always has.
    pub shared_bytes: u32,
    /// Bytes of constant memory of its module.
    pub constant_bytes: u32,
    /// Bytes of local memory of each thread.
    pub local_bytes: u32,
    /// Registers of each thread.
    pub registers: u32,
    /// 63 for PTX 6.3.
    pub ptx_version: u32,
    /// 90 for sm_90.
    pub binary_version: u32,
    /// Bytes of shared memory that a launch may add.
    pub max_dynamic_shared_bytes: u32,
}

impl Kernel {
    /// The kernel that was found in a module.
    #[must_use]
    pub fn new(found: Found) -> Self {
        let Found { module, signature, .. } = found;
        Self(Arc::new(Inner { module, told: signature, ready: OnceLock::new() }))
    }

    /// The module that it is in.
    #[must_use]
    pub fn module(&self) -> &Module {
        &self.0.module
    }

    /// Its name and parameters, as far as they are known.
    #[must_use]
    pub fn signature(&self) -> &Signature {
        self.0.ready.get().map_or(&self.0.told, |ready| &ready.signature)
    }

    /// Loads its module and finds it there, so that no launch has to.
    ///
    /// # Errors
    ///
    /// If the module cannot be loaded.
    pub fn prepare(&self) -> Result<Prepared<'_>, Error> {
        Ok(Prepared { kernel: self, ready: self.ready()? })
    }

    /// The same if it is in its device already.
    #[inline]
    #[must_use]
    pub fn prepared(&self) -> Option<Prepared<'_>> {
        self.0.ready.get().map(|ready| Prepared { kernel: self, ready })
    }

    fn device(&self) -> u8 {
        self.0.module.device().index()
    }

    /// The kernel in its device; its module is loaded if it is not.
    #[inline]
    fn ready(&self) -> Result<&Ready, Error> {
        match self.0.ready.get() {
            Some(ready) => Ok(ready),
            None => self.make_ready(),
        }
    }

    #[cold]
    fn make_ready(&self) -> Result<&Ready, Error> {
        let loaded = self.0.module.load()?;
        let function = self.0.module.function(&loaded, &self.0.told)?;
        loaded.note_launches();
        let driver = driver()?;
        let device = self.device();
        let _entered = driver.enter(device)?;
        let _relaxed = driver.relax()?;
        let signature = self.agreed(function)?;
        // SAFETY: the module of the function is loaded, and held.
        let ask = |which| unsafe { driver.kernel_attribute(function, which) };
        let ready = Ready {
            function,
            slots: signature.parameters.iter().map(Slot::of).collect(),
            written: written(&signature.parameters),
            places: Places::of(&signature.parameters),
            spans: driver.is_simulated() && signature.parameters.iter().all(tells_no_address),
            signature: Arc::new(signature),
            limits: driver.limits(device)?,
            simulated: driver.is_simulated(),
            threads: ask(FunctionAttribute::MAX_THREADS_PER_BLOCK)?,
            shared: ask(FunctionAttribute::SHARED_SIZE_BYTES)?,
            dynamic: ask(FunctionAttribute::MAX_DYNAMIC_SHARED_SIZE_BYTES)?,
            loaded,
        };
        Ok(self.0.ready.get_or_init(|| ready))
    }

    /// The signature with the sizes that the driver tells, which those of its types must be.
    fn agreed(&self, function: FunctionHandle) -> Result<Signature, Error> {
        let driver = driver()?;
        let mut signature = (*self.0.told).clone();
        let mut position = 0;
        // SAFETY: the module of the function is loaded.
        while let Some((_, size)) = unsafe { driver.parameter(function, position) } {
            match signature.parameters.get_mut(position) {
                Some(known) if known.size == size || known.size == 0 => known.size = size,
                Some(known) => {
                    let kind = known.kind.as_ref().map_or("?".to_owned(), ToString::to_string);
                    return Err(KernelError::Disagreement {
                        kernel: signature.name.clone(),
                        position: position + 1,
                        kind: kind.into(),
                        typed: known.size,
                        driver: size,
                    }
                    .into());
                }
                None => signature.parameters.push(Parameter {
                    name: None,
                    kind: None,
                    size,
                    align: size.next_power_of_two().min(16),
                }),
            }
            position += 1;
        }
        Ok(signature)
    }

    /// What it needs and allows.
    ///
    /// # Errors
    ///
    /// If the module cannot be loaded.
    pub fn attributes(&self) -> Result<Attributes, Error> {
        let ready = self.ready()?;
        let driver = driver()?;
        let _entered = driver.enter(self.device())?;
        // SAFETY: the module of the function is loaded, and held.
        let ask = |which| unsafe { driver.kernel_attribute(ready.function, which) };
        Ok(Attributes {
            max_threads_per_block: ask(FunctionAttribute::MAX_THREADS_PER_BLOCK)?,
            shared_bytes: ask(FunctionAttribute::SHARED_SIZE_BYTES)?,
            constant_bytes: ask(FunctionAttribute::CONST_SIZE_BYTES)?,
            local_bytes: ask(FunctionAttribute::LOCAL_SIZE_BYTES)?,
            registers: ask(FunctionAttribute::NUM_REGS)?,
            ptx_version: ask(FunctionAttribute::PTX_VERSION)?,
            binary_version: ask(FunctionAttribute::BINARY_VERSION)?,
            max_dynamic_shared_bytes: ready.limits.shared.saturating_sub(ready.shared),
        })
    }

    /// The error for a launch that no device has: extents below one or past what 32 bits hold are told as they are.
    #[must_use]
    pub fn outsized(&self, grid: [i64; 3], block: [i64; 3], shared: i64) -> Error {
        match self.ready() {
            Ok(ready) => ready.outsized(grid, block, shared),
            Err(error) => error,
        }
    }

    /// Blocks and threads for `count` elements, one thread each: blocks of the size that fills the device best.
    ///
    /// # Errors
    ///
    /// If the module cannot be loaded, or a grid cannot have so many blocks.
    pub fn size_for(&self, count: u64, shared: u32) -> Result<Size, Error> {
        let ready = self.ready()?;
        let driver = driver()?;
        let _entered = driver.enter(self.device())?;
        // First, because a driver tells no size for more shared memory than launches have without asking.
        ready.check(&Size { grid: [1; 3], block: [1; 3], shared })?;
        // SAFETY: the module of the function is loaded, and held.
        let block = unsafe { driver.best_block(ready.function, shared) }?;
        let blocks = count.div_ceil(block.into());
        let most = ready.limits.grid[0];
        let found = u32::try_from(blocks).unwrap_or(u32::MAX);
        if blocks > u64::from(most) {
            let found = i64::try_from(blocks).unwrap_or(i64::MAX);
            return Err(self.outsized([found, 1, 1], [block.into(), 1, 1], 0));
        }
        Ok(Size { grid: [found, 1, 1], block: [block, 1, 1], shared })
    }
}
