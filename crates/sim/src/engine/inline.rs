//! Calls put in place: one body for each kernel, and one for each function that calls itself.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;

use super::program::{LoadError, LoadErrorKind};
use super::sink::sink_loads;
use crate::ptx::ast::{
    Body, Function, Label, Module, Op, Param, Place, Predicate, Reg, Space, Statement,
};
use crate::ptx::visit::{Visitor, visit};

/// A body longer than this is refused, so that calls of calls of calls cannot take all memory.
const LONGEST: usize = 400_000;
/// Calls deeper than this are refused, so that putting them in place needs little stack.
const DEEPEST: usize = 200;
/// More calls than this are refused.
const MOST_CALLS: usize = 100_000;
/// The most memory that CUDA gives to a thread.
const MOST_LOCAL: u32 = 512 << 10;

/// A kernel or function whose calls are put in place.
#[derive(Clone, Debug)]
pub(super) struct Flat {
    /// Its name.
    pub name: String,
    /// What it does. Calls that are left go to functions of the host and to functions that call themselves.
    pub body: Body,
    /// Where each variable of the body lies in the frame, if it does.
    pub offsets: Vec<u32>,
    /// The function that declares each variable of the body, and its number there.
    pub origins: Vec<(usize, usize)>,
    /// Its parameters; those of a function lie at the beginning of its frame, then what it returns.
    pub params: Vec<Param>,
    /// Where what it returns lies in its frame, and how long it is.
    pub returns: Vec<(u32, u32)>,
    /// How long its frame is.
    pub frame_bytes: u32,
    /// The shared variables of the module that it names.
    pub shared: BTreeSet<usize>,
    /// Whether it is a kernel.
    pub entry: bool,
}

fn refuse(line: u32, message: String) -> LoadError {
    LoadError { kind: LoadErrorKind::Unsupported, line, message }
}

/// The functions that call themselves, straight or by others.
pub(super) fn recursive(module: &Module) -> BTreeSet<usize> {
    let calls: Vec<BTreeSet<usize>> = module.functions.iter().map(callees).collect();
    let reaches_itself = |start: usize| {
        let (mut seen, mut left) = (BTreeSet::new(), vec![start]);
        while let Some(next) = left.pop() {
            for &callee in &calls[next] {
                if callee == start {
                    return true;
                }
                if seen.insert(callee) {
                    left.push(callee);
                }
            }
        }
        false
    };
    (0..calls.len()).filter(|function| reaches_itself(*function)).collect()
}

fn callees(function: &Function) -> BTreeSet<usize> {
    let statements = function.body.iter().flat_map(|body| &body.statements);
    let callee = |statement: &Statement| match statement.op {
        Op::Call { function, .. } => Some(function),
        _ => None,
    };
    statements.filter_map(callee).collect()
}

/// Puts the calls of a function in place.
pub(super) fn flatten(
    module: &Module,
    number: usize,
    recursive: &BTreeSet<usize>,
) -> Result<Flat, LoadError> {
    let function = &module.functions[number];
    let mut emitter = Emitter {
        module,
        recursive,
        body: Body::default(),
        origins: Vec::new(),
        shared: BTreeSet::new(),
        calls: 0,
    };
    emitter.emit(number, None, 0)?;
    let Emitter { mut body, shared, origins, .. } = emitter;
    sink_loads(&mut body);
    let mut frame = Allotter::default();
    let mut returns = Vec::new();
    if !function.entry {
        for param in &function.params {
            frame.take(u64::from(param.bytes), param.align, function.line)?;
        }
        for param in &function.returns {
            let place = frame.take(u64::from(param.bytes), param.align, function.line)?;
            returns.push((place, param.bytes));
        }
    }
    let mut offsets = Vec::with_capacity(body.variables.len());
    for variable in &body.variables {
        let bytes = if variable.space == Space::Shared { 0 } else { variable.bytes };
        offsets.push(frame.take(bytes, variable.align, variable.line)?);
    }
    if frame.used > MOST_LOCAL {
        let message = format!(
            "{} wants {} bytes of memory for each thread; a thread has at most {MOST_LOCAL}",
            function.name, frame.used
        );
        return Err(refuse(function.line, message));
    }
    Ok(Flat {
        name: function.name.clone(),
        offsets,
        origins,
        params: function.params.clone(),
        returns,
        frame_bytes: frame.used.next_multiple_of(16),
        shared,
        body,
        entry: function.entry,
    })
}

/// Gives out places one after another.
#[derive(Default)]
pub(super) struct Allotter {
    /// How much is taken.
    pub used: u32,
}

impl Allotter {
    /// Gives the next place.
    pub(super) fn take(&mut self, bytes: u64, align: u32, line: u32) -> Result<u32, LoadError> {
        let start = self.used.next_multiple_of(align.max(1));
        let end = u32::try_from(bytes).ok().and_then(|bytes| start.checked_add(bytes));
        let Some(end) = end.filter(|end| *end <= 1 << 28) else {
            let message =
                "its variables take more than 256 MiB; a thread's and a block's memory is smaller";
            return Err(refuse(line, message.to_owned()));
        };
        self.used = end;
        Ok(start)
    }
}

struct Emitter<'a> {
    module: &'a Module,
    recursive: &'a BTreeSet<usize>,
    body: Body,
    origins: Vec<(usize, usize)>,
    shared: BTreeSet<usize>,
    calls: usize,
}

/// What the parameters and results of a call are in its caller, and where it goes on.
struct Site {
    arguments: Vec<Place>,
    returns: Vec<Place>,
    end: Label,
}

fn number(count: usize) -> u32 {
    // No more than `LONGEST` of anything is ever kept.
    u32::try_from(count).unwrap_or(u32::MAX)
}

impl Emitter<'_> {
    fn emit(
        &mut self,
        function: usize,
        site: Option<&Site>,
        depth: usize,
    ) -> Result<(), LoadError> {
        let source = &self.module.functions[function];
        let Some(body) = &source.body else { return Ok(()) };
        self.calls += 1;
        if self.body.statements.len() + body.statements.len() > LONGEST
            || self.calls > MOST_CALLS
            || depth > DEEPEST
        {
            let message =
                format!("{} is too long once all its calls are put in place", source.name);
            return Err(refuse(source.line, message));
        }
        let mut moved = Moved {
            registers: number(self.body.registers.len()),
            labels: number(self.body.labels.len()),
            variables: self.body.variables.len(),
            site,
            named: BTreeSet::new(),
        };
        self.body.registers.extend(body.registers.iter().cloned());
        self.body.variables.extend(body.variables.iter().cloned());
        self.origins.extend((0..body.variables.len()).map(|index| (function, index)));
        let first_label = self.body.labels.len();
        self.body.labels.resize(first_label + body.labels.len(), usize::MAX);
        // Labels by the statement they stand before.
        let mut at: Vec<(usize, usize)> =
            body.labels.iter().enumerate().map(|(label, at)| (*at, first_label + label)).collect();
        at.sort_unstable();
        let mut next_label = at.into_iter().peekable();
        for (index, statement) in body.statements.iter().enumerate() {
            while let Some((_, label)) = next_label.next_if(|(before, _)| *before <= index) {
                self.body.labels[label] = self.body.statements.len();
            }
            let mut statement = statement.clone();
            visit(&mut statement, &mut moved);
            self.statement(statement, site, depth)?;
        }
        for (_, label) in next_label {
            self.body.labels[label] = self.body.statements.len();
        }
        let is_shared = |place: &usize| self.module.variables[*place].space == Space::Shared;
        self.shared.extend(moved.named.into_iter().filter(is_shared));
        Ok(())
    }

    fn statement(
        &mut self,
        mut statement: Statement,
        site: Option<&Site>,
        depth: usize,
    ) -> Result<(), LoadError> {
        match (&mut statement.op, site) {
            (Op::Return, Some(site)) => statement.op = Op::Branch { to: site.end },
            (Op::Call { function, returns, arguments }, _)
                if self.module.functions[*function].body.is_some()
                    && !self.recursive.contains(function) =>
            {
                let end = self.label();
                let inner = Site {
                    arguments: std::mem::take(arguments),
                    returns: std::mem::take(returns),
                    end,
                };
                let function = *function;
                if let Some(Predicate { value, negated }) = statement.guard {
                    let guard = Some(Predicate { value, negated: !negated });
                    self.body.statements.push(Statement {
                        guard,
                        op: Op::Branch { to: end },
                        ..statement
                    });
                }
                self.emit(function, Some(&inner), depth + 1)?;
                let Label(end) = end;
                self.body.labels[end as usize] = self.body.statements.len();
                return Ok(());
            }
            _ => {}
        }
        self.body.statements.push(statement);
        Ok(())
    }

    fn label(&mut self) -> Label {
        self.body.labels.push(usize::MAX);
        Label(number(self.body.labels.len() - 1))
    }
}

/// Numbers of a body that was appended to others.
struct Moved<'a> {
    registers: u32,
    labels: u32,
    variables: usize,
    site: Option<&'a Site>,
    named: BTreeSet<usize>,
}

impl Visitor for Moved<'_> {
    fn read(&mut self, register: &mut Reg) {
        register.0 += self.registers;
    }

    fn write(&mut self, register: &mut Reg) {
        register.0 += self.registers;
    }

    fn label(&mut self, label: &mut Label) {
        label.0 += self.labels;
    }

    fn place(&mut self, place: &mut Place) {
        match (*place, self.site) {
            (Place::Module(variable), _) => {
                self.named.insert(variable);
            }
            (Place::Body(variable), _) => *place = Place::Body(variable + self.variables),
            (Place::Param(index), Some(site)) => {
                *place = site.arguments.get(index).copied().unwrap_or(*place);
            }
            (Place::Return(index), Some(site)) => {
                *place = site.returns.get(index).copied().unwrap_or(*place);
            }
            (Place::Param(_) | Place::Return(_), None) => {}
        }
    }
}
