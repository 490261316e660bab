//! Libraries: images without a context. They become a module in each context that uses them.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use super::image::{Image, Refusal};
use super::{Caller, Machine, State};
use crate::status::{Outcome, Status};

/// A library.
#[derive(Debug)]
pub struct Library {
    /// The image.
    pub image: Image,
    /// Its module in each context that used it.
    pub modules: BTreeMap<usize, usize>,
    /// The handle of each kernel.
    pub kernels: Vec<usize>,
}

/// A kernel of a library.
#[derive(Debug)]
pub struct Kernel {
    /// Its library.
    pub library: usize,
    /// Its index in the program.
    pub kernel: usize,
    /// Its settings for each device: the limit of dynamic shared memory, and the carveout.
    pub settings: BTreeMap<usize, (Option<u32>, i32)>,
}

impl State {
    /// Returns a loaded library.
    ///
    /// # Errors
    ///
    /// `INVALID_HANDLE`.
    pub fn library(&mut self, caller: &Caller, handle: usize) -> Outcome<&mut Library> {
        if self.libraries.was(handle) {
            let what = "use of an unloaded library";
            return Err(self.fault(caller, Status::ERROR_INVALID_HANDLE, what, handle));
        }
        self.libraries.get_mut(handle).ok_or(Status::ERROR_INVALID_HANDLE)
    }

    /// Returns a kernel of a loaded library.
    ///
    /// # Errors
    ///
    /// `INVALID_HANDLE`.
    pub fn kernel(&mut self, caller: &Caller, handle: usize) -> Outcome<&mut Kernel> {
        if self.kernels.was(handle) {
            let what = "use of a kernel whose library was unloaded";
            return Err(self.fault(caller, Status::ERROR_INVALID_HANDLE, what, handle));
        }
        self.kernels.get_mut(handle).ok_or(Status::ERROR_INVALID_HANDLE)
    }

    /// Returns the module of a library in a context. Creates it if needed.
    ///
    /// # Errors
    ///
    /// `INVALID_HANDLE`, `OUT_OF_MEMORY`, or an error of the context.
    pub fn library_module(
        &mut self,
        caller: &Caller,
        handle: usize,
        context: usize,
    ) -> Outcome<usize> {
        self.context(context)?;
        let library = self.library(caller, handle)?;
        if let Some(module) = library.modules.get(&context) {
            return Ok(*module);
        }
        let image = library.image.clone();
        let module = self.instantiate_module(caller, context, image, Some(handle))?;
        self.library(caller, handle)?.modules.insert(context, module);
        Ok(module)
    }

    /// Returns the function of a kernel in a context.
    ///
    /// # Errors
    ///
    /// As [`State::library_module`].
    pub fn kernel_function(
        &mut self,
        caller: &Caller,
        handle: usize,
        context: usize,
    ) -> Outcome<usize> {
        let kernel = self.kernel(caller, handle)?;
        let (library, number) = (kernel.library, kernel.kernel);
        let module = self.library_module(caller, library, context)?;
        let functions = &self.module(caller, module)?.functions;
        functions.get(number).copied().ok_or(Status::ERROR_NOT_FOUND)
    }
}

impl Machine {
    /// Loads an image without a context.
    ///
    /// # Errors
    ///
    /// As [`Image::read`].
    pub fn load_library(&self, caller: &Caller, image: &[u8]) -> Result<usize, Refusal> {
        let image = self.read_image(caller, image)?;
        let kernels = image.program.kernels().len();
        let mut state = self.lock();
        let library = Library { image, modules: BTreeMap::new(), kernels: Vec::new() };
        let handle = state.libraries.add(library);
        let kernels = (0..kernels)
            .map(|kernel| {
                state.kernels.add(Kernel { library: handle, kernel, settings: BTreeMap::new() })
            })
            .collect();
        state.library(caller, handle)?.kernels = kernels;
        Ok(handle)
    }

    /// Unloads a library and its modules once the work that may use them has run.
    ///
    /// # Errors
    ///
    /// `INVALID_HANDLE`.
    pub fn unload_library(&self, caller: &Caller, handle: usize) -> Outcome<()> {
        let mut state = self.lock();
        state.refuse_unsafe(caller)?;
        let modules: Vec<usize> =
            state.library(caller, handle)?.modules.values().copied().collect();
        drop(state);
        for module in modules {
            self.unload_when_idle(caller, module);
        }
        let mut state = self.lock();
        if let Some(library) = state.libraries.remove(handle) {
            for kernel in library.kernels {
                state.kernels.remove(kernel);
            }
        }
        Ok(())
    }

    /// Returns the handle of a kernel of a library.
    ///
    /// # Errors
    ///
    /// `NOT_FOUND`, `INVALID_HANDLE`.
    pub fn library_kernel(&self, caller: &Caller, handle: usize, name: &str) -> Outcome<usize> {
        let mut state = self.lock();
        let library = state.library(caller, handle)?;
        let kernel = library.image.kernel(name).ok_or(Status::ERROR_NOT_FOUND)?;
        library.kernels.get(kernel).copied().ok_or(Status::ERROR_NOT_FOUND)
    }

    /// Returns the handles of all kernels of a library.
    ///
    /// # Errors
    ///
    /// `INVALID_HANDLE`.
    pub fn library_kernels(&self, caller: &Caller, handle: usize) -> Outcome<Vec<usize>> {
        Ok(self.lock().library(caller, handle)?.kernels.clone())
    }
}
