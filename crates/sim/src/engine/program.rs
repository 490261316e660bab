//! A parsed module and its kernels.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::code::{Code, compile, host_function, waits};
use super::compiled::{Compiled, NotCompiled};
use super::inline::{Flat, Room, flatten, recursive};
use super::launch::Checks;
use super::lower::Callee;
use super::pointers::{self, Addresses};
use super::shared::SharedLayout;
use crate::ptx::ast::{
    Address, Base, Body, Function, Linkage, Module, Op, Operand, Param, Place, Space, Special,
    Strength, Type, Variable,
};
use crate::ptx::{ParseErrorKind, parse};

/// The stack size of a thread that loads a module.
const LOAD_STACK: usize = 8 << 20;

/// Why a module was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadErrorKind {
    /// It is not PTX, or invalid PTX.
    Syntax,
    /// It needs a feature that the simulated GPU does not have: an instruction, a target, a newer PTX
    /// version.
    Unsupported,
    /// It names an undefined function or variable.
    Unresolved,
    /// It comes from NVIDIA's compilers.
    ForeignCompiler,
}

/// Why a module was refused, with the line of the PTX text, or 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    /// The kind of the error.
    pub kind: LoadErrorKind,
    /// The line.
    pub line: u32,
    /// The message: what was found, what was expected, and what to do.
    pub message: String,
}

/// A kernel's properties.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    /// Its name.
    pub name: String,
    /// Its parameters, with offsets.
    pub params: Vec<Param>,
    /// The size of all parameters.
    pub param_bytes: u32,
    /// Static shared memory in bytes.
    pub shared_bytes: u32,
    /// Local memory of a thread in bytes.
    pub local_bytes: u32,
    /// Roughly how many 32-bit registers it would use on hardware.
    pub registers: u32,
    /// The maximum block size that it was compiled for.
    pub max_threads: Option<[u32; 3]>,
    /// The number of instructions after inlining.
    pub statements: usize,
}

/// A loaded module.
#[derive(Debug)]
pub struct Program {
    module: Module,
    kernels: Vec<Kernel>,
    flats: Vec<Flat>,
    functions: BTreeMap<usize, Flat>,
    layouts: Vec<SharedLayout>,
    addresses: Addresses,
    allocates: bool,
    /// The code of each kernel, by the enabled checks.
    codes: Vec<[Arc<Compiled>; 4]>,
}

impl Program {
    /// Parses PTX and refuses unsupported code.
    ///
    /// # Errors
    ///
    /// The error, with its line.
    pub fn load(text: &str) -> Result<Self, LoadError> {
        // Inlining recurses as deep as the calls, and the caller's stack may be small.
        thread::scope(|scope| {
            let builder = thread::Builder::new().name("gpulend-load".to_owned());
            let loading = builder.stack_size(LOAD_STACK).spawn_scoped(scope, || Self::read(text));
            let refuse = |message: String| {
                Err(LoadError { kind: LoadErrorKind::Unsupported, line: 0, message })
            };
            match loading {
                Ok(loading) => loading.join().unwrap_or_else(|_| {
                    refuse("a bug of the simulated GPU: reading it panicked".to_owned())
                }),
                Err(error) => refuse(format!("the host has no thread to read it: {error}")),
            }
        })
    }

    fn read(text: &str) -> Result<Self, LoadError> {
        let module = parse(text).map_err(|error| LoadError {
            kind: match error.kind {
                ParseErrorKind::Syntax => LoadErrorKind::Syntax,
                ParseErrorKind::Unsupported => LoadErrorKind::Unsupported,
                ParseErrorKind::Unresolved => LoadErrorKind::Unresolved,
            },
            line: error.line,
            message: error.message,
        })?;
        Self::of(module)
    }

    fn of(mut module: Module) -> Result<Self, LoadError> {
        prefer_own_mathematics(&mut module);
        recognise_grid_functions(&mut module);
        // First, so that all that follows sees the functions that indirect calls may reach.
        let addresses = pointers::resolve(&mut module)?;
        let recursive = recursive(&module);
        check_variables(&module)?;
        check_calls(&module)?;
        check_slots(&module)?;
        let (mut functions, mut room) = (BTreeMap::new(), Room::default());
        for &number in &recursive {
            let flat = flatten(&module, number, &recursive, &mut room)?;
            if waits(&flat) {
                let message = format!(
                    "{} calls itself, perhaps through an address, and waits for other threads; the simulated GPU cannot \
                     do both in one function",
                    flat.name
                );
                let line = module.functions[number].line;
                return Err(LoadError { kind: LoadErrorKind::Unsupported, line, message });
            }
            functions.insert(number, flat);
        }
        let (mut kernels, mut flats, mut layouts) = (Vec::new(), Vec::new(), Vec::new());
        for (number, function) in module.functions.iter().enumerate() {
            if !function.entry || function.body.is_none() {
                continue;
            }
            let flat = flatten(&module, number, &recursive, &mut room)?;
            let layout = SharedLayout::new(&module, functions.values().chain([&flat]))?;
            kernels.push(describe(function, &flat, layout.bytes));
            layouts.push(layout);
            flats.push(flat);
        }
        let codes = kernels.iter().map(|_| Default::default()).collect();
        let allocates = allocates(&module);
        Ok(Self { module, kernels, flats, functions, layouts, addresses, allocates, codes })
    }

    /// The module's variables. Global and constant ones need memory that lasts as long as the module.
    /// [`crate::engine::Launch::variables`] has its addresses, in this order, with 0 for the other variables.
    #[must_use]
    pub fn variables(&self) -> &[Variable] {
        &self.module.variables
    }

    /// Its kernels.
    #[must_use]
    pub fn kernels(&self) -> &[Kernel] {
        &self.kernels
    }

    /// The address of a function, by its index: a number that is no address of memory.
    #[must_use]
    pub const fn function_address(&self, function: usize) -> u64 {
        self.addresses.of(function)
    }

    /// The function at an address.
    pub(super) fn function_at(&self, address: u64) -> Option<&Function> {
        self.module.functions.get(self.addresses.function(address)?)
    }

    /// Whether its functions allocate or free memory.
    #[must_use]
    pub const fn allocates(&self) -> bool {
        self.allocates
    }

    /// The user's source files, by number.
    pub(super) fn files(&self) -> &BTreeMap<u32, String> {
        &self.module.files
    }

    /// The offset of a kernel's dynamic shared memory.
    pub(super) fn dynamic_start(&self, kernel: usize) -> u32 {
        self.layouts[kernel].dynamic
    }

    /// Whether some function is recursive.
    pub(super) fn calls_itself(&self) -> bool {
        !self.functions.is_empty()
    }

    /// The code of a kernel, compiled at its first use. Waits at most `limit`.
    pub(super) fn code(
        self: &Arc<Self>,
        kernel: usize,
        checks: Checks,
        limit: Duration,
    ) -> Result<Arc<Code>, NotCompiled> {
        let place = usize::from(checks.memory) + 2 * usize::from(checks.shared);
        let program = Arc::clone(self);
        let make = move || {
            let (flat, shared) = (&program.flats[kernel], &program.layouts[kernel]);
            compile(&program.module, flat, &program.functions, shared, program.addresses, checks)
        };
        self.codes[kernel][place].get(limit, make)
    }
}

fn describe(function: &Function, flat: &Flat, shared_bytes: u32) -> Kernel {
    let end = |param: &Param| param.offset + param.bytes;
    let held: u32 = flat.body.registers.len().try_into().unwrap_or(u32::MAX);
    Kernel {
        name: function.name.clone(),
        params: function.params.clone(),
        param_bytes: function.params.iter().map(end).max().unwrap_or(0),
        shared_bytes,
        local_bytes: flat.frame_bytes,
        registers: held.clamp(16, most_registers(function.max_threads)),
        max_threads: function.max_threads,
        statements: flat.body.statements.len(),
    }
}

/// The most registers of a thread with which a block of so many threads still runs. Compilers see to that for a kernel that names
/// its largest block. Others are given as few here, because PTX declares many more registers than a compiler takes.
fn most_registers(max_threads: Option<[u32; 3]>) -> u32 {
    let said = max_threads.map_or(1024, |axes| axes.into_iter().fold(1, u32::saturating_mul));
    let each = 65_536 / said.clamp(1, 1024).next_multiple_of(32);
    // They are given to warps in units, which makes eight of a thread.
    (each - each % 8).min(255)
}

/// Whether some function calls `malloc` or `free` of the host.
fn allocates(module: &Module) -> bool {
    let bodies = module.functions.iter().filter_map(|function| function.body.as_ref());
    let calls = bodies.flat_map(|body| &body.statements).filter_map(|one| match &one.op {
        Op::Call { function, .. } => Some(&module.functions[*function]),
        _ => None,
    });
    calls
        .filter(|callee| callee.body.is_none())
        .any(|callee| matches!(host_function(&callee.name), Some(Callee::Allocate | Callee::Free)))
}

/// Removes weak definitions of C's mathematics: programs bring those for drivers that have none.
fn prefer_own_mathematics(module: &mut Module) {
    for function in module.functions.iter_mut().filter(|one| one.linkage == Linkage::Weak) {
        let own = host_function(&function.name);
        if own.is_some_and(|own| matches!(own, Callee::Host(_)) && declared_as(function, own)) {
            function.body = None;
        }
    }
}

/// The functions of gpulend's `cooperative_groups.h` about the grid. On a GPU, blocks that wait look in a loop at what others
/// write when they arrive, which needs blocks that run at the same time.
const GRID_ARRIVE: &str = "__gpulend_grid_arrive";
const GRID_WAIT: &str = "__gpulend_grid_wait";
const IS_COOPERATIVE: &str = "__gpulend_is_cooperative";

/// Replaces calls of these functions by what they mean.
fn recognise_grid_functions(module: &mut Module) {
    let number = |name: &str, results: &[u32]| {
        module.functions.iter().position(|one| {
            let returns = one.returns.iter().map(|param| param.bytes);
            let is_ours = one.linkage == Linkage::Weak && one.name == name;
            is_ours && one.params.is_empty() && returns.eq(results.iter().copied())
        })
    };
    let [arrive, wait] = [GRID_ARRIVE, GRID_WAIT].map(|name| number(name, &[]));
    let question = number(IS_COOPERATIVE, &[4]);
    let bodies = module.functions.iter_mut().filter_map(|function| function.body.as_mut());
    for statement in bodies.flat_map(|body| &mut body.statements) {
        let Op::Call { function, returns, .. } = &statement.op else { continue };
        if Some(*function) == arrive {
            // Nobody needs to know before all wait.
            statement.op = Op::Nothing;
        } else if Some(*function) == wait {
            statement.op = Op::GridBarrier;
        } else if Some(*function) == question
            && let Some(place) = returns.first()
        {
            let (space, ty, strength) = (Space::Param, Type::U32, Strength::Weak);
            let to = Address { base: Base::Place(*place), offset: 0 };
            let from = vec![Operand::Special(Special::Cooperative)];
            statement.op = Op::Store { space, ty, strength, to, from };
        }
    }
}

/// Refuses variables that are declared and not defined. The size of `.extern .shared` is the launch's.
fn check_variables(module: &Module) -> Result<(), LoadError> {
    let lacks = |variable: &&Variable| {
        variable.linkage == Linkage::Extern && variable.space != Space::Shared
    };
    let Some(variable) = module.variables.iter().find(lacks) else { return Ok(()) };
    let message = format!("variable {} is declared and defined nowhere", variable.name);
    Err(LoadError { kind: LoadErrorKind::Unresolved, line: variable.line, message })
}

/// Refuses calls of undefined functions, and calls of host functions with wrong types.
fn check_calls(module: &Module) -> Result<(), LoadError> {
    let bodies = module.functions.iter().filter_map(|function| function.body.as_ref());
    for statement in bodies.flat_map(|body| &body.statements) {
        let Op::Call { function, .. } = &statement.op else { continue };
        let callee = &module.functions[*function];
        if callee.body.is_some() {
            continue;
        }
        let refuse = |message: String| {
            Err(LoadError { kind: LoadErrorKind::Unresolved, line: statement.line, message })
        };
        match host_function(&callee.name) {
            None => {
                return refuse(format!(
                    "{} is called and defined nowhere; the simulated GPU has C's mathematics, vprintf, __assertfail, malloc and free",
                    callee.name
                ));
            }
            Some(known) if !declared_as(callee, known) => {
                let wanted = match known {
                    Callee::Print => {
                        "two addresses, and a number of 32 bits or nothing as its result"
                    }
                    Callee::Assert => {
                        "addresses of message and file, a line of 32 bits, the address of the function and perhaps the \
                         length of a character, and no result"
                    }
                    Callee::Allocate => "a size of 64 bits, and an address as its result",
                    Callee::Free => "an address, and no result",
                    _ => "the types of C's function of that name",
                };
                let message = format!(
                    "{} is declared with other parameters or results than it has; it wants {wanted}",
                    callee.name
                );
                let (kind, line) = (LoadErrorKind::Syntax, statement.line);
                return Err(LoadError { kind, line, message });
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether a declaration matches the sizes of a host function's parameters and results: compiled code reads
/// and writes that many bytes, whatever was declared.
fn declared_as(callee: &Function, known: Callee) -> bool {
    let are = |found: &[Param], wanted: &[u32]| {
        found.iter().map(|param| param.bytes).eq(wanted.iter().copied())
    };
    let (params, returns) = (&callee.params, &callee.returns);
    match known {
        Callee::Host(found) => {
            let wanted: Vec<u32> = found.params.iter().map(|ty| ty.bytes()).collect();
            are(params, &wanted) && are(returns, &[found.result.bytes()])
        }
        Callee::Print => are(params, &[8, 8]) && (returns.is_empty() || are(returns, &[4])),
        Callee::Assert => {
            returns.is_empty() && (are(params, &[8, 8, 4, 8]) || are(params, &[8, 8, 4, 8, 8]))
        }
        Callee::Allocate => are(params, &[8]) && are(returns, &[8]),
        Callee::Free => are(params, &[8]) && returns.is_empty(),
        // A recursive function has a body.
        Callee::Compiled(_) => true,
    }
}

/// Refuses accesses past the end of parameters and call slots, writes to a kernel's parameters, and calls
/// whose slots are smaller than their arguments.
fn check_slots(module: &Module) -> Result<(), LoadError> {
    for function in &module.functions {
        let Some(body) = &function.body else { continue };
        for statement in &body.statements {
            let refuse = |message: &str| {
                let message = format!("{message}, in {}", function.name);
                Err(LoadError { kind: LoadErrorKind::Syntax, line: statement.line, message })
            };
            match &statement.op {
                op if function.entry && writes_param(op) => {
                    return refuse("a kernel's parameters cannot be written");
                }
                op if !accesses_fit(function, body, op) => {
                    return refuse("an access reaches beyond the end of a parameter");
                }
                Op::Call { function: callee, returns, arguments } => {
                    let callee = &module.functions[*callee];
                    let pairs = callee
                        .params
                        .iter()
                        .zip(arguments)
                        .chain(callee.returns.iter().zip(returns));
                    let same = callee.params.len() == arguments.len()
                        && callee.returns.len() == returns.len();
                    let long = |(param, place): (&Param, &Place)| {
                        slot(function, body, *place)
                            .is_some_and(|bytes| bytes >= param.bytes.into())
                    };
                    if !same || !pairs.into_iter().all(long) {
                        return refuse("a call passes less than its function takes");
                    }
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Whether an instruction writes to a parameter by name.
fn writes_param(op: &Op) -> bool {
    match op {
        Op::Store { to: at, .. } | Op::Atomic { at, .. } => {
            matches!(at.base, Base::Place(Place::Param(_)))
        }
        Op::Call { returns, .. } => returns.iter().any(|place| matches!(place, Place::Param(_))),
        _ => false,
    }
}

/// The size of a parameter, a result or a call slot.
fn slot(function: &Function, body: &Body, place: Place) -> Option<u64> {
    match place {
        Place::Param(index) => Some(function.params.get(index)?.bytes.into()),
        Place::Return(index) => Some(function.returns.get(index)?.bytes.into()),
        Place::Body(index) => {
            let variable = body.variables.get(index)?;
            (variable.space == Space::Param).then_some(variable.bytes)
        }
        Place::Module(_) => None,
    }
}

/// Whether an instruction's accesses to named slots are inside them.
fn accesses_fit(function: &Function, body: &Body, op: &Op) -> bool {
    let (at, bytes) = match op {
        Op::Load { ty, to, from: at, .. } => (at, ty.bytes() as usize * to.len()),
        Op::Store { ty, to: at, from, .. } => (at, ty.bytes() as usize * from.len()),
        Op::Atomic { ty, at, .. } => (at, ty.bytes() as usize),
        _ => return true,
    };
    fits(function, body, at, bytes)
}

/// Whether an access to a named slot is inside it. Other accesses are checked at run time.
fn fits(function: &Function, body: &Body, at: &Address, bytes: usize) -> bool {
    let Base::Place(place) = at.base else { return true };
    let Some(length) = slot(function, body, place) else { return true };
    let start = u64::try_from(at.offset).ok();
    start.and_then(|start| start.checked_add(bytes as u64)).is_some_and(|end| end <= length)
}
