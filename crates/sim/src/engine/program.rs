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
use super::shared::SharedLayout;
use crate::ptx::ast::{Address, Base, Body, Function, Module, Op, Param, Place, Space, Variable};
use crate::ptx::{ParseErrorKind, parse};

/// The stack of a thread that reads a module.
const LOAD_STACK: usize = 8 << 20;

/// Why a module was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadErrorKind {
    /// It is no PTX, or wrong PTX.
    Syntax,
    /// It wants what the simulated GPU does not have: an instruction, a processor, a newer language.
    Unsupported,
    /// It names an undefined function or variable.
    Unresolved,
    /// It says that it was made by NVIDIA's compilers.
    ForeignCompiler,
}

/// Why a module was refused, with the line of the PTX text (0: none in particular).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    /// What kind.
    pub kind: LoadErrorKind,
    /// The line.
    pub line: u32,
    /// In words: what was found, what was wanted, and what to do.
    pub message: String,
}

/// What is known of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    /// Its name.
    pub name: String,
    /// Its parameters, with offsets.
    pub params: Vec<Param>,
    /// How long all of them are together.
    pub param_bytes: u32,
    /// Its shared memory, without what a launch adds.
    pub shared_bytes: u32,
    /// The memory of a thread's own.
    pub local_bytes: u32,
    /// How many registers of 32 bits it would take on hardware, roughly.
    pub registers: u32,
    /// The most threads of a block that it was compiled for.
    pub max_threads: Option<[u32; 3]>,
    /// How many instructions it has once its calls are put in place.
    pub statements: usize,
}

/// A module that was read.
#[derive(Debug)]
pub struct Program {
    module: Module,
    kernels: Vec<Kernel>,
    flats: Vec<Flat>,
    functions: BTreeMap<usize, Flat>,
    layouts: Vec<SharedLayout>,
    /// The code of each kernel, by the enabled checks.
    codes: Vec<[Arc<Compiled>; 4]>,
}

impl Program {
    /// Parses PTX and refuses unsupported code.
    ///
    /// # Errors
    ///
    /// What is wrong, by name and line.
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

    fn of(module: Module) -> Result<Self, LoadError> {
        let recursive = recursive(&module);
        check_calls(&module)?;
        check_slots(&module)?;
        let (mut functions, mut room) = (BTreeMap::new(), Room::default());
        for &number in &recursive {
            let flat = flatten(&module, number, &recursive, &mut room)?;
            if waits(&flat) {
                let message = format!(
                    "{} calls itself and waits for other threads; the simulated GPU cannot do both in one function",
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
        Ok(Self { module, kernels, flats, functions, layouts, codes })
    }

    /// The module's variables. Those in global and constant memory want memory that lasts as long as the module;
    /// [`crate::engine::Launch::variables`] says where, in this order (0 for the others).
    #[must_use]
    pub fn variables(&self) -> &[Variable] {
        &self.module.variables
    }

    /// Its kernels.
    #[must_use]
    pub fn kernels(&self) -> &[Kernel] {
        &self.kernels
    }

    /// The user's source files, by number.
    pub(super) fn files(&self) -> &BTreeMap<u32, String> {
        &self.module.files
    }

    /// Where a kernel's dynamic shared memory begins.
    pub(super) fn dynamic_start(&self, kernel: usize) -> u32 {
        self.layouts[kernel].dynamic
    }

    /// Whether some function calls itself.
    pub(super) fn calls_itself(&self) -> bool {
        !self.functions.is_empty()
    }

    /// The code of a kernel, compiled when it is first asked for; it is waited for no longer than `limit`.
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
            compile(&program.module, flat, &program.functions, shared, checks)
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
        registers: held.clamp(16, 255),
        max_threads: function.max_threads,
        statements: flat.body.statements.len(),
    }
}

/// Refuses calls of undefined functions, and host functions that are called with other types.
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
                    "{} is called and defined nowhere; the simulated GPU has C's mathematics, vprintf and __assertfail",
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

/// Whether a declaration has the lengths of what a function of the host takes and writes: compiled code reads and writes
/// that much of the slots, whatever was declared.
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
        // One that calls itself has a body.
        Callee::Compiled(_) => true,
    }
}

/// Refuses accesses beyond the end of parameters and of the slots of calls, writes to a kernel's parameters, and calls
/// whose slots are shorter than their arguments.
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

/// Whether an instruction writes a parameter by its name.
fn writes_param(op: &Op) -> bool {
    match op {
        Op::Store { to: at, .. } | Op::Atomic { at, .. } => {
            matches!(at.base, Base::Place(Place::Param(_)))
        }
        Op::Call { returns, .. } => returns.iter().any(|place| matches!(place, Place::Param(_))),
        _ => false,
    }
}

/// How long a parameter, a result or the slot of a call is.
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

/// Whether the accesses of an instruction to slots that it names are within them.
fn accesses_fit(function: &Function, body: &Body, op: &Op) -> bool {
    let (at, bytes) = match op {
        Op::Load { ty, to, from: at, .. } => (at, ty.bytes() as usize * to.len()),
        Op::Store { ty, to: at, from, .. } => (at, ty.bytes() as usize * from.len()),
        Op::Atomic { ty, at, .. } => (at, ty.bytes() as usize),
        _ => return true,
    };
    fits(function, body, at, bytes)
}

/// Whether an access to a named slot is within it; others are checked when they happen.
fn fits(function: &Function, body: &Body, at: &Address, bytes: usize) -> bool {
    let Base::Place(place) = at.base else { return true };
    let Some(length) = slot(function, body, place) else { return true };
    let start = u64::try_from(at.offset).ok();
    start.and_then(|start| start.checked_add(bytes as u64)).is_some_and(|end| end <= length)
}
