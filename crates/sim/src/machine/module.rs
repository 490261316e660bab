//! Modules: images loaded into a context, with memory for their variables.
#![forbid(unsafe_code)]

use std::io::Write;
use std::sync::Arc;

use super::function::Function;
use super::image::{Image, Refusal};
use super::memory::Kind;
use super::operation::{OperationId, Work};
use super::report::Fault;
use super::{Caller, Machine, State};
use crate::bytes::{self, Pattern, Range, Shape};
use crate::engine::Program;
use crate::ptx::ast::{Linkage, Named, Space, Variable};
use crate::status::{Outcome, Status};

/// A loaded image.
#[derive(Debug)]
pub struct Module {
    /// Its context.
    pub context: usize,
    /// The image.
    pub image: Image,
    /// The address of each variable of the program; 0 if it is not in device memory.
    pub variables: Arc<[u64]>,
    /// The handle of each kernel.
    pub functions: Vec<usize>,
    /// The library that it belongs to, if any.
    pub library: Option<usize>,
}

/// Returns whether a variable needs device memory.
fn wants_memory(variable: &Variable) -> bool {
    matches!(variable.space, Space::Global | Space::Const)
        && variable.linkage != Linkage::Extern
        && variable.bytes > 0
}

/// Converts an address.
pub fn place(address: u64) -> usize {
    usize::try_from(address).unwrap_or(0)
}

impl State {
    /// Adds the reason of a refusal to the report, and returns the status for the caller.
    pub fn refused(&mut self, caller: &Caller, refusal: &Refusal) -> Status {
        if !refusal.message.is_empty() {
            self.report.add(Fault {
                function: caller.function,
                what: refusal.message.clone(),
                address: 0,
                nearest: None,
                status: refusal.status,
            });
        }
        refusal.status
    }

    /// Prints the reason of a refusal on stderr, unless the report goes to a file. Only the first of each
    /// kind, so that repeated attempts do not flood the output.
    pub fn explain(&mut self, refusal: &Refusal) {
        let first = !refusal.message.is_empty() && self.explained.insert(refusal.kind);
        if first && self.config.report.is_none() {
            let code = refusal.status.0;
            let _ = writeln!(
                std::io::stderr(),
                "gpulend: simulated GPU: refused with code {code}: {}",
                refusal.message
            );
        }
    }

    /// Returns a loaded module.
    ///
    /// # Errors
    ///
    /// `INVALID_HANDLE`, or an error of its context.
    pub fn module(&mut self, caller: &Caller, handle: usize) -> Outcome<&mut Module> {
        let Some(context) = self.modules.get(handle).map(|module| module.context) else {
            return Err(if self.modules.was(handle) {
                let what = "use of an unloaded module";
                self.fault(caller, Status::ERROR_INVALID_HANDLE, what, handle)
            } else {
                Status::ERROR_INVALID_HANDLE
            });
        };
        self.context(context)?;
        self.modules.get_mut(handle).ok_or(Status::ERROR_INVALID_HANDLE)
    }

    /// Creates a module from an image in a context.
    ///
    /// # Errors
    ///
    /// `OUT_OF_MEMORY`, or an error of the context.
    pub fn instantiate_module(
        &mut self,
        caller: &Caller,
        context: usize,
        image: Image,
        library: Option<usize>,
    ) -> Outcome<usize> {
        let device = self.context(context)?.device;
        let mut places = Vec::new();
        for variable in image.program.variables() {
            if !wants_memory(variable) {
                places.push(0);
                continue;
            }
            let allocated = usize::try_from(variable.bytes)
                .map_err(|_| Status::ERROR_OUT_OF_MEMORY)
                .and_then(|bytes| self.allocate(Kind::Variable, device, context, bytes));
            match allocated {
                Ok(base) => places.push(base as u64),
                Err(status) => {
                    self.end_variables(caller, &places);
                    return Err(status);
                }
            }
        }
        for (variable, address) in image.program.variables().iter().zip(&places) {
            if let Some(allocation) = self.memory.get(place(*address)) {
                begin(&allocation.range, variable, &image.program, &places);
            }
        }
        let kernels = image.program.kernels().len();
        let variables = places.into();
        let module =
            self.modules.add(Module { context, image, variables, functions: Vec::new(), library });
        let functions =
            (0..kernels).map(|kernel| self.functions.add(Function::new(module, kernel))).collect();
        if let Some(module) = self.modules.get_mut(module) {
            module.functions = functions;
        }
        Ok(module)
    }

    fn end_variables(&mut self, caller: &Caller, places: &[u64]) {
        for address in places.iter().filter(|address| **address != 0) {
            self.end_allocation(caller, place(*address));
        }
    }

    /// Returns the operations that must run before a module is unloaded: launches of its kernels. If it has
    /// variables, all work of its context, as for other device memory.
    fn uses_of_module(&self, handle: usize) -> Vec<OperationId> {
        let Some(module) = self.modules.get(handle) else { return Vec::new() };
        let has_variables = module.variables.iter().any(|address| *address != 0);
        let users = module
            .variables
            .iter()
            .filter_map(|address| self.memory.get(place(*address)))
            .flat_map(|allocation| allocation.users.iter().copied());
        let launches = self.schedule.iter().filter_map(|(id, operation)| match &operation.work {
            Work::Launch(launched) if launched.module == handle => Some(id),
            _ if has_variables && operation.context == module.context => Some(id),
            _ => None,
        });
        users.chain(launches).collect()
    }

    /// Unloads a module. Its work is complete already.
    pub fn end_module(&mut self, caller: &Caller, handle: usize) {
        let Some(module) = self.modules.remove(handle) else { return };
        for function in module.functions {
            self.functions.remove(function);
        }
        self.end_variables(caller, &module.variables);
        if let Some(library) = module.library.and_then(|library| self.libraries.get_mut(library)) {
            library.modules.remove(&module.context);
        }
    }
}

/// Writes the initial value of a variable.
fn begin(target: &Range, variable: &Variable, program: &Program, places: &[u64]) {
    bytes::fill(target, Pattern::Byte(0), target.bytes(), 1, 0);
    let write = |offset: u64, value: &[u8]| {
        let room = usize::try_from(offset).ok().and_then(|offset| target.part(offset, value.len()));
        if let Some(room) = room {
            bytes::copy(&room, &Range::of_bytes(value), &Shape::line(value.len()));
        }
    };
    write(0, &variable.initial);
    for address in &variable.addresses {
        let base = match address.of {
            Named::Variable(variable) => places.get(variable).copied().unwrap_or(0),
            Named::Function(function) => program.function_address(function),
        };
        write(address.at, &base.wrapping_add_signed(address.addend).to_le_bytes());
    }
}

impl Machine {
    /// Parses an image. Adds a refusal to the report.
    ///
    /// # Errors
    ///
    /// As [`Image::read`].
    pub fn read_image(&self, caller: &Caller, image: &[u8]) -> Result<Image, Refusal> {
        self.parse_image(image).inspect_err(|refusal| {
            self.lock().refused(caller, refusal);
        })
    }

    /// Parses an image, and tells nobody of a refusal.
    pub(super) fn parse_image(&self, image: &[u8]) -> Result<Image, Refusal> {
        let (accept_nvvm, arch) = {
            let config = &self.lock().config;
            (config.accept_nvvm, config.arch)
        };
        // Without the lock: parsing a large image takes time.
        Image::read(image, arch, accept_nvvm)
    }

    /// Loads an image into a context.
    ///
    /// # Errors
    ///
    /// As [`Image::read`], `OUT_OF_MEMORY`, or an error of the context.
    pub fn load_module(
        &self,
        caller: &Caller,
        context: usize,
        image: &[u8],
    ) -> Result<usize, Refusal> {
        self.lock().context(context)?;
        let image = self.read_image(caller, image)?;
        Ok(self.lock().instantiate_module(caller, context, image, None)?)
    }

    /// Unloads a module once the work that may use it has run.
    ///
    /// # Errors
    ///
    /// `INVALID_HANDLE`; `NOT_PERMITTED` for a module of a library.
    pub fn unload_module(&self, caller: &Caller, handle: usize) -> Outcome<()> {
        let mut state = self.lock();
        state.refuse_unsafe(caller)?;
        if state.modules.was(handle) {
            let status = Status::ERROR_INVALID_HANDLE;
            return Err(state.fault(caller, status, "module unloaded twice", handle));
        }
        let module = state.modules.get(handle).ok_or(Status::ERROR_INVALID_HANDLE)?;
        if module.library.is_some() {
            return Err(Status::ERROR_NOT_PERMITTED);
        }
        drop(state);
        self.unload_when_idle(caller, handle);
        Ok(())
    }

    /// Runs the work that may use a module, and unloads it.
    pub(super) fn unload_when_idle(&self, caller: &Caller, handle: usize) {
        loop {
            let mut state = self.lock();
            let goals = state.uses_of_module(handle);
            if goals.is_empty() {
                return state.end_module(caller, handle);
            }
            drop(state);
            // On a lost device there is nothing to wait for.
            let _ = self.finish(caller, &goals);
        }
    }

    /// Returns the handle of a kernel of a module.
    ///
    /// # Errors
    ///
    /// `NOT_FOUND`, `INVALID_HANDLE`.
    pub fn module_function(&self, caller: &Caller, handle: usize, name: &str) -> Outcome<usize> {
        let mut state = self.lock();
        let module = state.module(caller, handle)?;
        let kernel = module.image.kernel(name).ok_or(Status::ERROR_NOT_FOUND)?;
        module.functions.get(kernel).copied().ok_or(Status::ERROR_NOT_FOUND)
    }

    /// Returns the handles of all kernels of a module.
    ///
    /// # Errors
    ///
    /// `INVALID_HANDLE`.
    pub fn module_functions(&self, caller: &Caller, handle: usize) -> Outcome<Vec<usize>> {
        Ok(self.lock().module(caller, handle)?.functions.clone())
    }

    /// Returns the address and the size of a variable.
    ///
    /// # Errors
    ///
    /// `NOT_FOUND`; `INVALID_VALUE` for the name of a kernel, as in a real driver; `INVALID_HANDLE`.
    pub fn module_variable(
        &self,
        caller: &Caller,
        handle: usize,
        name: &str,
    ) -> Outcome<(usize, usize)> {
        let mut state = self.lock();
        let module = state.module(caller, handle)?;
        if module.image.kernel(name).is_some() {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        let variables = module.image.program.variables().iter().zip(module.variables.iter());
        variables
            .filter(|(variable, address)| variable.name == name && **address != 0)
            .map(|(variable, address)| (place(*address), place(variable.bytes)))
            .next()
            .ok_or(Status::ERROR_NOT_FOUND)
    }
}
