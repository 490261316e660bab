//! Functions: kernels of a module, their attributes and settings.
#![forbid(unsafe_code)]

use super::device::Processor;
use super::image::Image;
use super::{Caller, Machine, State};
use crate::engine;
use crate::ptx::ast::Space;
use crate::status::{Outcome, Status};

/// The maximum number of threads of a block.
pub const THREADS: u32 = 1024;
/// The default limit of shared memory of a block.
pub const SHARED: u32 = 48 << 10;
/// The maximum size of parameters.
const PARAMETERS: u32 = 4096;

/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
const MAX_DYNAMIC: i32 = 8;
/// `CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT`.
const CARVEOUT: i32 = 9;

/// A kernel of a module.
#[derive(Debug)]
pub struct Function {
    /// Its module.
    pub module: usize,
    /// Its index in the program.
    pub kernel: usize,
    /// The limit of dynamic shared memory of a launch, if set.
    pub max_dynamic: Option<u32>,
    /// The carveout in percent, only stored.
    pub carveout: i32,
    /// The parameters set so far for the old launch functions.
    pub prepared: Prepared,
}

/// A launch that several calls set up, as programs did before `cuLaunchKernel`.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The block size.
    pub block: [u32; 3],
    /// Dynamic shared memory.
    pub shared: u32,
    /// The parameters.
    pub params: Vec<u8>,
}

impl Function {
    /// Makes a function with default settings.
    #[must_use]
    pub fn new(module: usize, kernel: usize) -> Self {
        let prepared = Prepared { block: [1; 3], shared: 0, params: Vec::new() };
        Self { module, kernel, max_dynamic: None, carveout: -1, prepared }
    }
}

/// A kernel's attributes and settings.
#[derive(Clone, Debug)]
pub struct Description {
    /// Its image.
    pub image: Image,
    /// Its index in the program.
    pub number: usize,
    /// Its module; 0 for a library's kernel outside of any context.
    pub module: usize,
    /// The context of its module, or 0.
    pub context: usize,
    /// The limit of dynamic shared memory of a launch.
    pub max_dynamic: u32,
    /// The carveout in percent.
    pub carveout: i32,
}

impl Description {
    /// Returns the engine's description of it.
    ///
    /// # Errors
    ///
    /// `INVALID_HANDLE`; this does not happen.
    pub fn kernel(&self) -> Outcome<&engine::Kernel> {
        self.image.program.kernels().get(self.number).ok_or(Status::ERROR_INVALID_HANDLE)
    }

    /// Returns the address of its name as a C string, valid while it is loaded.
    #[must_use]
    pub fn name(&self) -> usize {
        self.image.names.get(self.number).map_or(0, |name| name.as_ptr().expose_provenance())
    }

    /// Returns the maximum number of threads of a block.
    ///
    /// # Errors
    ///
    /// As [`Description::kernel`].
    pub fn most_threads(&self) -> Outcome<u32> {
        let said =
            self.kernel()?.max_threads.map(|axes| axes.into_iter().fold(1, u32::saturating_mul));
        Ok(said.unwrap_or(THREADS).min(THREADS))
    }

    /// Returns the offset and the size of a parameter.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE` past the last one.
    pub fn parameter(&self, index: usize) -> Outcome<(usize, usize)> {
        let param = self.kernel()?.params.get(index).ok_or(Status::ERROR_INVALID_VALUE)?;
        Ok((param.offset as usize, param.bytes as usize))
    }

    /// Returns an attribute, by CUDA's number.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE` for an unknown attribute.
    pub fn attribute(&self, number: i32) -> Outcome<i32> {
        let kernel = self.kernel()?;
        let value = match number {
            0 => u64::from(self.most_threads()?),
            1 => u64::from(kernel.shared_bytes),
            2 => {
                let constant =
                    |variable: &&crate::ptx::ast::Variable| variable.space == Space::Const;
                self.image
                    .program
                    .variables()
                    .iter()
                    .filter(constant)
                    .map(|found| found.bytes)
                    .sum()
            }
            3 => u64::from(kernel.local_bytes),
            4 => u64::from(kernel.registers),
            5 => return Ok(self.image.target),
            6 => return Ok(self.image.processor.number()),
            MAX_DYNAMIC => u64::from(self.max_dynamic),
            CARVEOUT => return Ok(self.carveout),
            // The cache mode, and everything about clusters.
            7 | 10..=15 => 0,
            _ => return Err(Status::ERROR_INVALID_VALUE),
        };
        Ok(i32::try_from(value).unwrap_or(i32::MAX))
    }
}

/// A setting of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Setting {
    MaxDynamic(u32),
    Carveout(i32),
}

/// Parses an attribute with CUDA's number as a setting.
fn setting(number: i32, value: i32, own_shared: u32, processor: Processor) -> Outcome<Setting> {
    let invalid = Status::ERROR_INVALID_VALUE;
    match number {
        MAX_DYNAMIC => {
            let bytes = u32::try_from(value).map_err(|_| invalid)?;
            if bytes > processor.most_shared.saturating_sub(own_shared) {
                return Err(invalid);
            }
            Ok(Setting::MaxDynamic(bytes))
        }
        CARVEOUT if (-1..=100).contains(&value) => Ok(Setting::Carveout(value)),
        // There are no clusters.
        11..=15 => Err(Status::ERROR_NOT_SUPPORTED),
        _ => Err(invalid),
    }
}

impl State {
    /// Returns a function of a loaded module.
    ///
    /// # Errors
    ///
    /// `INVALID_HANDLE`, or an error of its context.
    pub fn function(&mut self, caller: &Caller, handle: usize) -> Outcome<&mut Function> {
        if self.functions.was(handle) {
            let what = "use of a function whose module was unloaded";
            return Err(self.fault(caller, Status::ERROR_INVALID_HANDLE, what, handle));
        }
        let module = self.functions.get(handle).ok_or(Status::ERROR_INVALID_HANDLE)?.module;
        self.module(caller, module)?;
        self.functions.get_mut(handle).ok_or(Status::ERROR_INVALID_HANDLE)
    }

    /// Returns the function of a handle, which may be that of a library's kernel.
    ///
    /// # Errors
    ///
    /// As [`State::function`] and [`State::kernel_function`].
    pub fn resolve_function(
        &mut self,
        caller: &Caller,
        handle: usize,
        context: Outcome<usize>,
    ) -> Outcome<usize> {
        if self.kernels.get(handle).is_some() || self.kernels.was(handle) {
            return self.kernel_function(caller, handle, context?);
        }
        self.function(caller, handle).map(|_| handle)
    }

    /// Describes a function.
    ///
    /// # Errors
    ///
    /// As [`State::function`].
    pub fn describe(&mut self, caller: &Caller, handle: usize) -> Outcome<Description> {
        let function = self.function(caller, handle)?;
        let (module, number) = (function.module, function.kernel);
        let (max_dynamic, carveout) = (function.max_dynamic, function.carveout);
        let found = self.module(caller, module)?;
        let (image, context, library) = (found.image.clone(), found.context, found.library);
        // The library kernel's setting applies if the function has none.
        let device = self.context(context)?.device;
        let kernel = library
            .and_then(|library| self.libraries.get(library)?.kernels.get(number).copied())
            .and_then(|kernel| self.kernels.get(kernel)?.settings.get(&device).copied());
        let own = image.program.kernels().get(number).map_or(0, |kernel| kernel.shared_bytes);
        let max_dynamic = max_dynamic.or(kernel.and_then(|(bytes, _)| bytes));
        Ok(Description {
            image,
            number,
            module,
            context,
            max_dynamic: max_dynamic.unwrap_or(SHARED.saturating_sub(own)),
            carveout: kernel.map_or(carveout, |(_, of_kernel)| carveout.max(of_kernel)),
        })
    }

    /// Describes a library's kernel on a device.
    ///
    /// # Errors
    ///
    /// `INVALID_HANDLE`.
    pub fn describe_kernel(
        &mut self,
        caller: &Caller,
        handle: usize,
        device: usize,
    ) -> Outcome<Description> {
        let kernel = self.kernel(caller, handle)?;
        let (library, number) = (kernel.library, kernel.kernel);
        let (max_dynamic, carveout) = kernel.settings.get(&device).copied().unwrap_or((None, -1));
        let image = self.library(caller, library)?.image.clone();
        let own = image.program.kernels().get(number).map_or(0, |kernel| kernel.shared_bytes);
        let max_dynamic = max_dynamic.unwrap_or(SHARED.saturating_sub(own));
        Ok(Description { image, number, module: 0, context: 0, max_dynamic, carveout })
    }
}

impl Machine {
    /// Changes a setting of a function.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`, `INVALID_HANDLE`.
    pub fn set_function(
        &self,
        caller: &Caller,
        handle: usize,
        number: i32,
        value: i32,
    ) -> Outcome<()> {
        let mut state = self.lock();
        let described = state.describe(caller, handle)?;
        let (own, processor) = (described.kernel()?.shared_bytes, described.image.processor);
        let function = state.function(caller, handle)?;
        match setting(number, value, own, processor)? {
            Setting::MaxDynamic(bytes) => function.max_dynamic = Some(bytes),
            Setting::Carveout(percent) => function.carveout = percent,
        }
        Ok(())
    }

    /// Changes a setting of a library's kernel on a device.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`, `INVALID_HANDLE`.
    pub fn set_kernel(
        &self,
        caller: &Caller,
        handle: usize,
        device: usize,
        (number, value): (i32, i32),
    ) -> Outcome<()> {
        let mut state = self.lock();
        let described = state.describe_kernel(caller, handle, device)?;
        let (own, processor) = (described.kernel()?.shared_bytes, described.image.processor);
        let settings = state.kernel(caller, handle)?.settings.entry(device).or_insert((None, -1));
        match setting(number, value, own, processor)? {
            Setting::MaxDynamic(bytes) => settings.0 = Some(bytes),
            Setting::Carveout(percent) => settings.1 = percent,
        }
        Ok(())
    }

    /// Sets up a part of a launch, for the functions from before `cuLaunchKernel`.
    ///
    /// # Errors
    ///
    /// `INVALID_HANDLE`, or an error of the body.
    pub fn prepare(
        &self,
        caller: &Caller,
        handle: usize,
        body: impl FnOnce(&mut Prepared) -> Outcome<()>,
    ) -> Outcome<()> {
        body(&mut self.lock().function(caller, handle)?.prepared)
    }
}

impl Prepared {
    /// Sets the size of the parameters.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE` if it is too large.
    pub fn resize(&mut self, bytes: u32) -> Outcome<()> {
        if bytes > PARAMETERS {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        self.params.resize(bytes as usize, 0);
        Ok(())
    }

    /// Writes a part of the parameters, which grow as needed.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE` past the maximum size.
    pub fn write(&mut self, offset: i32, value: &[u8]) -> Outcome<()> {
        let invalid = Status::ERROR_INVALID_VALUE;
        let start = usize::try_from(offset).map_err(|_| invalid)?;
        let end = start.checked_add(value.len()).filter(|end| *end <= PARAMETERS as usize);
        let end = end.ok_or(invalid)?;
        if end > self.params.len() {
            self.params.resize(end, 0);
        }
        self.params[start..end].copy_from_slice(value);
        Ok(())
    }
}
