//! `Kernel`: launched on arrays of any framework. Every argument is checked against the signature.

mod argument;
mod choice;
mod elements;
mod frame;
mod launch;
mod leases;
pub mod plan;
mod queue;
mod size;
mod slot;
mod timing;

use std::sync::{Arc, OnceLock};

use crate::abi::cuda::{FunctionAttribute, FunctionHandle};
use crate::driver::{Limits, driver};
use crate::error::{Error, KernelError};
use crate::module::{Found, Loaded, Module};
use crate::signature::{Parameter, Signature, Type};

pub use crate::error::{Number, Place, Shape};
pub use argument::{Argument, Keep, Options, add_stand_in, stands_in};
pub use elements::elements_of;
use frame::Places;
pub use launch::Launch;
pub use plan::Plan;
pub use size::Size;
use slot::Slot;
pub use timing::Timer;

/// A kernel of a module. Clones refer to the same kernel.
///
/// It is loaded at its first launch, or when a query needs the device.
#[derive(Clone, Debug)]
pub struct Kernel(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    module: Module,
    declared: Arc<Signature>,
    ready: OnceLock<Ready>,
}

/// A loaded kernel.
#[derive(Debug)]
struct Ready {
    loaded: Arc<Loaded>,
    function: FunctionHandle,
    /// With parameter sizes confirmed by the driver.
    signature: Arc<Signature>,
    /// The parameters in the compact form of the fast path.
    slots: Box<[Slot]>,
    /// The arguments that the kernel may write to.
    written: Box<[usize]>,
    /// The offset of each argument in a frame.
    places: Places,
    limits: Limits,
    /// Whether the device is simulated.
    simulated: bool,
    /// Whether only array arguments carry addresses, so that the kernel must stay inside those arrays.
    spans: bool,
    /// Maximum threads per block for this kernel.
    threads: u32,
    /// Static shared memory in bytes.
    shared: u32,
    /// Dynamic shared memory in bytes that launches may use without raising the limit.
    dynamic: u32,
    /// The size of highest occupancy without dynamic shared memory, asked once: it does not change.
    best: OnceLock<Size>,
}

/// Whether a parameter is a value or a pointer to values, so that only arrays carry addresses.
fn holds_no_address(parameter: &Parameter) -> bool {
    let is_value = |kind: &Type| {
        matches!(kind, Type::Void | Type::Scalar(_) | Type::Vector { .. } | Type::Complex(_))
    };
    match &parameter.kind {
        Some(Type::Pointer { to, .. }) => is_value(to),
        Some(kind) => is_value(kind),
        None => false,
    }
}

/// A loaded kernel, ready to launch.
#[derive(Clone, Copy, Debug)]
pub struct Prepared<'a> {
    kernel: &'a Kernel,
    ready: &'a Ready,
}

impl<'a> Prepared<'a> {
    /// The indices of arguments that the kernel may write to: pointers that are not `const`, and parameters of unknown
    /// type with the size of a pointer.
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

/// A kernel's attributes, from the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Maximum threads per block.
    pub max_threads_per_block: u32,
    /// Static shared memory in bytes.
    pub shared_bytes: u32,
    /// Bytes of constant memory of its module.
    pub constant_bytes: u32,
    /// Bytes of local memory per thread.
    pub local_bytes: u32,
    /// Registers per thread.
    pub registers: u32,
    /// 63 for PTX 6.3.
    pub ptx_version: u32,
    /// 90 for sm_90.
    pub binary_version: u32,
    /// Maximum dynamic shared memory of a launch in bytes.
    pub max_dynamic_shared_bytes: u32,
}

impl Kernel {
    /// The kernel found in a module.
    #[must_use]
    pub fn new(found: Found) -> Self {
        let Found { module, signature, .. } = found;
        Self(Arc::new(Inner { module, declared: signature, ready: OnceLock::new() }))
    }

    /// Its module.
    #[must_use]
    pub fn module(&self) -> &Module {
        &self.0.module
    }

    /// Its name and its parameters, as far as they are known.
    #[must_use]
    pub fn signature(&self) -> &Signature {
        self.0.ready.get().map_or(&self.0.declared, |ready| &ready.signature)
    }

    /// Loads the kernel now, so that its first launch does not have to.
    ///
    /// # Errors
    ///
    /// If the module cannot be loaded.
    pub fn prepare(&self) -> Result<Prepared<'_>, Error> {
        Ok(Prepared { kernel: self, ready: self.ready()? })
    }

    /// The loaded kernel, if it is loaded already.
    #[inline]
    #[must_use]
    pub fn prepared(&self) -> Option<Prepared<'_>> {
        self.0.ready.get().map(|ready| Prepared { kernel: self, ready })
    }

    fn device(&self) -> u8 {
        self.0.module.device().index()
    }

    /// The loaded kernel. Loads its module if needed.
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
        let function = self.0.module.function(&loaded, &self.0.declared)?;
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
            spans: driver.is_simulated() && signature.parameters.iter().all(holds_no_address),
            signature: Arc::new(signature),
            limits: driver.limits(device)?,
            simulated: driver.is_simulated(),
            threads: ask(FunctionAttribute::MAX_THREADS_PER_BLOCK)?,
            shared: ask(FunctionAttribute::SHARED_SIZE_BYTES)?,
            dynamic: ask(FunctionAttribute::MAX_DYNAMIC_SHARED_SIZE_BYTES)?,
            best: OnceLock::new(),
            loaded,
        };
        Ok(self.0.ready.get_or_init(|| ready))
    }

    /// The signature with the driver's parameter sizes, which must match those of its types.
    fn agreed(&self, function: FunctionHandle) -> Result<Signature, Error> {
        let driver = driver()?;
        let mut signature = (*self.0.declared).clone();
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

    /// Its attributes.
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

    /// The error for a size that no device supports. Negative or huge extents are shown as given.
    #[must_use]
    pub fn outsized(&self, grid: [i64; 3], block: [i64; 3], shared: i64) -> Error {
        match self.ready() {
            Ok(ready) => ready.outsized(grid, block, shared),
            Err(error) => error,
        }
    }

    /// The block size of highest occupancy, and the fewest blocks of it that fill the device: enough for a kernel whose
    /// threads take several elements each.
    ///
    /// # Errors
    ///
    /// If the module cannot be loaded, or a block cannot have so much shared memory.
    pub fn best_size(&self, shared: u32) -> Result<Size, Error> {
        let ready = self.ready()?;
        if let Some(best) = ready.best.get()
            && shared == 0
        {
            return Ok(*best);
        }
        let driver = driver()?;
        let _entered = driver.enter(self.device())?;
        // First: the occupancy query fails for more shared memory than the current limit.
        ready.check(&Size { grid: [1; 3], block: [1; 3], shared })?;
        // SAFETY: the module of the function is loaded, and held.
        let (grid, block) = unsafe { driver.best_size(ready.function, shared) }?;
        let best = Size { grid: [grid, 1, 1], block: [block, 1, 1], shared };
        Ok(if shared == 0 { *ready.best.get_or_init(|| best) } else { best })
    }

    /// How many blocks of this size a multiprocessor runs at once, and how many threads it could.
    ///
    /// # Errors
    ///
    /// If the module cannot be loaded, or no launch can have such blocks.
    pub fn occupancy(&self, size: &Size) -> Result<(u32, u32), Error> {
        let ready = self.ready()?;
        let driver = driver()?;
        let _entered = driver.enter(self.device())?;
        ready.check(size)?;
        let threads = size.block.iter().product();
        // SAFETY: the module of the function is loaded, and held.
        let blocks = unsafe { driver.active_blocks(ready.function, threads, size.shared) }?;
        Ok((blocks, driver.resident_threads(self.device())?))
    }

    /// Grid and block for `count` elements, one thread each, with the block size of highest occupancy.
    ///
    /// # Errors
    ///
    /// As [`Kernel::size_over`].
    pub fn size_for(&self, count: u64, shared: u32) -> Result<Size, Error> {
        self.size_over([count, 1, 1], shared)
    }

    /// Grid and block for elements along x, y and z, one thread each, with the block size of highest occupancy.
    ///
    /// # Errors
    ///
    /// If the module cannot be loaded, or the grid would have too many blocks.
    pub fn size_over(&self, extents: [u64; 3], shared: u32) -> Result<Size, Error> {
        let ready = self.ready()?;
        let block = size::block_over(extents, self.best_size(shared)?.block[0]);
        let [x, y, z] = [0, 1, 2].map(|axis| extents[axis].div_ceil(block[axis].into()));
        let narrow = |blocks: u64, most: u32| u32::try_from(blocks).ok().filter(|it| *it <= most);
        let [most_x, most_y, most_z] = ready.limits.grid;
        match (narrow(x, most_x), narrow(y, most_y), narrow(z, most_z)) {
            (Some(x), Some(y), Some(z)) => Ok(Size { grid: [x, y, z], block, shared }),
            _ => {
                let wide = |blocks| i64::try_from(blocks).unwrap_or(i64::MAX);
                Err(self.outsized([x, y, z].map(wide), block.map(i64::from), 0))
            }
        }
    }
}
