//! `Module`: compiled kernels and variables of one device, loaded on demand.
//!
//! ```
//! # use std::env::var_os;
//! # // Only where there is a simulated GPU and a compiler for it.
//! # let (Some(_), Some(zig)) = (var_os("GPULEND_SIM_LIBRARY"), var_os("GPULEND_TEST_ZIGLANG")) else { return Ok(()) };
//! # gpulend::driver::simulate(&gpulend::driver::Settings::default())?;
//! use gpulend::copy;
//! use gpulend::module::{Module, Recipe};
//!
//! let source = "__device__ int seed = 7;\ntemplate <class T> __global__ void scale(T *x, T by) { *x *= by; }";
//! let mut recipe = Recipe::new(source);
//! # recipe.ziglang = Some(zig.into());
//! recipe.names = vec!["scale<float>".to_owned()];
//! let module = Module::compile(recipe, 0)?;
//! assert_eq!(module.find("scale<float>")?.signature.to_string(), "scale<float>(float* x, float by)");
//! // A variable is an array of its own type; no kernel works on it now.
//! assert_eq!(unsafe { copy::to_vec::<i32>(&module.variable("seed")?) }?, [7]);
//!
//! let mut mistaken = Recipe::new("__global__ void broken(int *x) { *x = seed; }");
//! # mistaken.ziglang = var_os("GPULEND_TEST_ZIGLANG").map(Into::into);
//! assert!(Module::compile(mistaken, 0).unwrap_err().to_string().contains("kernel.cu:1:39: error"));
//! # Ok::<(), gpulend::Error>(())
//! ```

mod loaded;

use std::ffi::CString;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::abi::cuda::FunctionHandle;
use crate::compiler::{self, Program, Target, listed, squeezed};
use crate::device::{Device, DeviceKind, Memory};
use crate::driver::driver;
use crate::dtype::Dtype;
use crate::error::{CompileError, Diagnostic, Error, KernelError};
use crate::import::raw::{ViewRef, enter_sharing};
use crate::layout::Layout;
use crate::lease::Lease;
use crate::ledger::Name;
use crate::owner::Owner;
use crate::signature::{Signature, Type, Variable};

pub use crate::compiler::Recipe;
pub(crate) use loaded::{Borrowed, Loaded};

/// Compiles for a device of this process.
fn compile(recipe: &Recipe, device: u8) -> Result<Program, Error> {
    let driver = driver()?;
    driver.require_device(device)?;
    let target =
        Target { simulated: driver.is_simulated(), capability: driver.capability(device)? };
    Ok(compiler::compile(recipe, target)?)
}

/// Compiled kernels and variables of one device. Clones refer to the same module.
///
/// It is loaded at the first launch or query that needs the device. It is unloaded after the last reference
/// to it or its parts is dropped and the device's work is done. After a captured launch it stays loaded,
/// because the graph may outlive it unnoticed.
#[derive(Clone, Debug)]
pub struct Module(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    device: u8,
    recipe: Option<Recipe>,
    state: Mutex<State>,
    /// Held while a template instance is compiled, so that no two threads compile the same one.
    compiling: Mutex<()>,
}

#[derive(Debug)]
struct State {
    program: Arc<Program>,
    loaded: Option<Arc<Loaded>>,
    /// Modules compiled for instances requested after this one was loaded.
    others: Vec<Module>,
}

/// A kernel found in a module.
#[derive(Clone, Debug)]
pub struct Found {
    /// The module searched, or one compiled for this kernel.
    pub module: Module,
    /// Its parameters.
    pub signature: Arc<Signature>,
    /// Whether it was just compiled into a separate module, which has its own variables.
    pub apart: bool,
}

impl Module {
    /// Compiles a source for a device.
    ///
    /// # Errors
    ///
    /// If the device or the compiler is missing, or the source does not compile.
    pub fn compile(recipe: Recipe, device: u8) -> Result<Self, Error> {
        let program = compile(&recipe, device)?;
        Ok(Self::of(program, device, Some(recipe)))
    }

    /// Makes a module from PTX, a cubin or a fatbin.
    ///
    /// # Errors
    ///
    /// If the bytes have another format, or the device does not exist.
    pub fn from_image(image: &[u8], device: u8) -> Result<Self, Error> {
        driver()?.require_device(device)?;
        let program = compiler::read_image(image)?;
        let module = Self::of(program, device, None);
        if !module.program().complete {
            module.list_kernels()?;
        }
        Ok(module)
    }

    fn of(program: Program, device: u8, recipe: Option<Recipe>) -> Self {
        let state = State { program: Arc::new(program), loaded: None, others: Vec::new() };
        Self(Arc::new(Inner {
            device,
            recipe,
            state: Mutex::new(state),
            compiling: Mutex::new(()),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn program(&self) -> Arc<Program> {
        Arc::clone(&self.state().program)
    }

    /// Its device.
    #[must_use]
    pub fn device(&self) -> Device {
        Device::new(DeviceKind::Cuda, self.0.device)
    }

    /// What compiled it: `clang`, `nvrtc`, or `image` for a precompiled image.
    #[must_use]
    pub fn compiler(&self) -> &'static str {
        self.program().compiler
    }

    /// The compiler's warnings.
    #[must_use]
    pub fn warnings(&self) -> Vec<Diagnostic> {
        self.program().warnings.clone()
    }

    /// The kernels.
    #[must_use]
    pub fn kernels(&self) -> Vec<Signature> {
        self.program().kernels.clone()
    }

    /// The variables.
    #[must_use]
    pub fn variables(&self) -> Vec<Variable> {
        self.program().variables.clone()
    }

    /// A kernel by its name, its name with types, or its symbol. Compiles a template instance if needed.
    ///
    /// # Errors
    ///
    /// If no kernel or several match, or the instance does not compile.
    pub fn find(&self, name: &str) -> Result<Found, Error> {
        // First: a forked child has no driver, and must not wait for locks that its parent's threads held.
        driver()?;
        let name = name.trim();
        if let Some(found) = self.known(name)? {
            return Ok(found);
        }
        let _compiling = self.0.compiling.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have compiled it in the meantime.
        if let Some(found) = self.known(name)? {
            return Ok(found);
        }
        let program = self.program();
        let Some(recipe) = self.0.recipe.as_ref().filter(|recipe| recipe.may_have(name)) else {
            let (name, known) = (name.into(), listed(program.kernels.iter().map(|one| &one.name)));
            return Err(KernelError::Unknown { name, known }.into());
        };
        if self.state().loaded.is_some() {
            return self.compile_apart(recipe, name);
        }
        let expressions = program.expressions.iter().map(|(name, _)| name.to_string());
        let names = expressions.chain([name.to_owned()]).collect();
        let wider = compile(&Recipe { names, ..recipe.clone() }, self.0.device)?;
        let signature = instance(&wider, name)?;
        let mut state = self.state();
        // Another thread may have loaded it in the meantime.
        if state.loaded.is_some() {
            drop(state);
            return self.compile_apart(recipe, name);
        }
        state.program = Arc::new(wider);
        drop(state);
        Ok(Found { module: self.clone(), signature: Arc::new(signature), apart: false })
    }

    /// Compiles an instance into a separate module, because this one is loaded.
    fn compile_apart(&self, recipe: &Recipe, name: &str) -> Result<Found, Error> {
        let recipe = Recipe { names: vec![name.to_owned()], ..recipe.clone() };
        let module = Self::compile(recipe, self.0.device)?;
        let signature = Arc::new(instance(&module.program(), name)?);
        self.state().others.push(module.clone());
        Ok(Found { module, signature, apart: true })
    }

    /// A kernel that is already compiled, here or in a separate module.
    fn known(&self, name: &str) -> Result<Option<Found>, Error> {
        let (program, others) = {
            let state = self.state();
            (Arc::clone(&state.program), state.others.clone())
        };
        let found = |signature: Signature, module: &Self| {
            Some(Found { module: module.clone(), signature: Arc::new(signature), apart: false })
        };
        if let Some(signature) = look(&program, name)? {
            return Ok(found(signature, self));
        }
        for other in &others {
            if let Some(signature) = look(&other.program(), name)? {
                return Ok(found(signature, other));
            }
        }
        Ok(None)
    }

    /// Whether at least one compiled kernel matches the name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.known(name.trim()).map_or(true, |found| found.is_some())
    }

    /// The loaded module. Loads it if needed.
    pub(crate) fn load(&self) -> Result<Arc<Loaded>, Error> {
        let driver = driver()?;
        let mut state = self.state();
        if let Some(loaded) = &state.loaded {
            return Ok(Arc::clone(loaded));
        }
        let device = self.0.device;
        let _entered = driver.enter(device)?;
        let _relaxed = driver.relax()?;
        let handle = driver.load(&state.program.image).map_err(|(error, log)| {
            let error = Error::from(error).to_string();
            let log = if log.is_empty() { String::new() } else { format!(":\n{log}") };
            CompileError::Load { reason: format!("{error}{log}").into() }
        })?;
        let loaded = Arc::new(Loaded::new(device, handle));
        state.loaded = Some(Arc::clone(&loaded));
        Ok(loaded)
    }

    /// Asks the driver for the kernels of an image that does not list them.
    fn list_kernels(&self) -> Result<(), Error> {
        let loaded = self.load()?;
        let driver = driver()?;
        let _entered = driver.enter(self.0.device)?;
        // SAFETY: it is loaded, and held.
        let symbols = unsafe { driver.symbols(loaded.handle()) }?;
        let mut program = (*self.program()).clone();
        for symbol in symbols {
            if !program.kernels.iter().any(|known| *known.symbol == *symbol) {
                program.kernels.push(Signature::of_symbol(&symbol));
            }
        }
        self.state().program = Arc::new(program);
        Ok(())
    }

    /// A kernel's handle in the loaded module.
    pub(crate) fn function(
        &self,
        loaded: &Loaded,
        signature: &Signature,
    ) -> Result<FunctionHandle, Error> {
        let driver = driver()?;
        let _entered = driver.enter(self.0.device)?;
        let unknown = || KernelError::Unknown {
            name: signature.symbol.clone(),
            known: listed(self.program().kernels.iter().map(|one| &one.symbol)),
        };
        let symbol = CString::new(&*signature.symbol).map_err(|_| unknown())?;
        // SAFETY: the module is loaded.
        Ok(unsafe { driver.kernel(loaded.handle(), &symbol) }?.ok_or_else(unknown)?)
    }

    /// A variable, as an array of its declared type and extents, or of bytes if the type is unknown.
    ///
    /// # Errors
    ///
    /// If the module has no such variable, or cannot be loaded.
    pub fn variable(&self, name: &str) -> Result<Lease, Error> {
        let driver = driver()?;
        let program = self.program();
        let named = |one: &&Variable| *one.name == *name || *one.symbol == *name;
        let described = program.variables.iter().find(named);
        let loaded = self.load()?;
        let entered = driver.enter(self.0.device)?;
        let unknown = || KernelError::NoVariable {
            name: name.into(),
            known: listed(program.variables.iter().map(|one| &one.name)),
        };
        if described.is_none() && (program.complete || name.is_empty()) {
            return Err(unknown().into());
        }
        let symbol = described.map_or(name, |one| &*one.symbol);
        let symbol = CString::new(symbol).map_err(|_| unknown())?;
        // SAFETY: the module is loaded.
        let found = unsafe { driver.variable(loaded.handle(), &symbol) }?;
        let (address, bytes) = found.ok_or_else(unknown)?;
        drop(entered);
        // A kernel can write to any variable outside constant memory.
        let writes = described.is_none_or(|one| !one.constant);
        let (dtype, shape) = elements(name, described.and_then(|one| one.kind.as_ref()), bytes)?;
        let layout = Layout::compact(&shape, dtype)?;
        let view = ViewRef {
            address,
            place: (self.device(), Memory::Device),
            dtype,
            shape: layout.shape(),
            strides: layout.strides(),
            readonly: false,
        };
        let who = Name::intern("a variable of a module");
        let timeline = loaded.timeline(symbol, writes)?;
        // From now on one event stands for earlier launches. A capture can wait for an event, but not for
        // hidden work.
        timeline.reveal_hidden();
        // SAFETY: the driver says that the bytes are there, and they are as long as the module is loaded.
        unsafe { enter_sharing(view, Owner::keep(loaded), timeline, who) }
    }
}

/// The element type and extents of a variable.
fn elements(name: &str, kind: Option<&Type>, bytes: u64) -> Result<(Dtype, Vec<i64>), Error> {
    let whole = || vec![i64::try_from(bytes).unwrap_or(i64::MAX)];
    let Some(kind) = kind else { return Ok((Dtype::UINT8, whole())) };
    let (element, mut extents) = match kind {
        Type::Array { of, extents } => (&**of, extents.clone()),
        other => (other, Vec::new()),
    };
    let dtype = match element {
        Type::Vector { element, lanes } => {
            extents.push(u64::from(*lanes));
            Type::Scalar(*element).dtype()
        }
        // On the host, a device address is just a number.
        Type::Pointer { .. } => Some(Dtype::UINT64),
        other => other.dtype(),
    };
    let Some(dtype) = dtype else { return Ok((Dtype::UINT8, whole())) };
    let count = extents.iter().try_fold(1_u64, |count, extent| count.checked_mul(*extent));
    let typed = count.and_then(|count| count.checked_mul(dtype.itemsize().into()));
    if typed != Some(bytes) {
        let (name, kind) = (name.into(), kind.to_string().into());
        let typed = typed.unwrap_or(u64::MAX);
        return Err(KernelError::VariableSize { name, bytes, kind, typed }.into());
    }
    Ok((dtype, extents.iter().map(|extent| i64::try_from(*extent).unwrap_or(i64::MAX)).collect()))
}

/// A kernel of a program by any of its names.
fn look(program: &Program, name: &str) -> Result<Option<Signature>, KernelError> {
    let wanted = squeezed(name);
    let symbol = program.expressions.iter().find(|(asked, _)| squeezed(asked) == wanted);
    let symbol = symbol.map_or(name, |(_, symbol)| symbol);
    if let Some(exact) = program.kernels.iter().find(|one| *one.symbol == *symbol) {
        return Ok(Some(exact.clone()));
    }
    let fits = |one: &&Signature| {
        let whole = squeezed(&one.name);
        // `scale` does not name a template instance, but `kernel` does name one in a namespace.
        let last = || whole.rsplit("::").next().is_some_and(|last| last == wanted);
        whole == wanted || (!whole.contains('<') && last()) || squeezed(&one.types()) == wanted
    };
    let found: Vec<&Signature> = program.kernels.iter().filter(fits).collect();
    match found[..] {
        [] => Ok(None),
        [one] => Ok(Some(one.clone())),
        _ => Err(KernelError::Ambiguous {
            name: name.into(),
            candidates: listed(found.iter().map(|one| one.types())),
        }),
    }
}

/// The instance requested by this name.
fn instance(program: &Program, name: &str) -> Result<Signature, Error> {
    let known = || listed(program.kernels.iter().map(|one| &one.name));
    let found = look(program, name)?;
    Ok(found.ok_or_else(|| KernelError::Unknown { name: name.into(), known: known() })?)
}
