//! Inlining: one body for each kernel, and one for each recursive function.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};

use super::program::{LoadError, LoadErrorKind};
use super::sink::sink_loads;
use crate::ptx::ast::{
    Address, Base, Body, Function, Label, Linkage, Module, Op, Operand, Param, Place, Predicate,
    Reg, Register, Source, Space, Statement, Strength, Type, Variable,
};
use crate::ptx::visit::{Visitor, visit};

/// A longer body is refused, so that nested calls cannot exhaust memory.
const LONGEST: usize = 400_000;
/// The limit for all bodies of a module together.
const LONGEST_OF_ALL: usize = 5 * LONGEST;
/// Deeper calls are refused, so that inlining needs little stack.
const DEEPEST: usize = 200;
/// More calls than this are refused.
const MOST_CALLS: usize = 100_000;
/// The most local memory that CUDA gives to a thread.
const MOST_LOCAL: u32 = 512 << 10;

/// A kernel or function with its calls inlined.
#[derive(Clone, Debug)]
pub(super) struct Flat {
    /// Its name.
    pub name: String,
    /// Its statements. The remaining calls are to host functions and to recursive functions.
    pub body: Body,
    /// The offset of each variable of the body in the frame, if it is in the frame.
    pub offsets: Vec<u32>,
    /// The function that declares each variable of the body, and the variable's index there.
    pub origins: Vec<(usize, usize)>,
    /// Its parameters. A function's are at the start of its frame, followed by its results.
    pub params: Vec<Param>,
    /// The offset and size of its results in its frame.
    pub returns: Vec<(u32, u32)>,
    /// The size of its frame.
    pub frame_bytes: u32,
    /// The module's shared variables that it uses.
    pub shared: BTreeSet<usize>,
    /// Whether it is a kernel.
    pub entry: bool,
}

fn refuse(line: u32, message: String) -> LoadError {
    LoadError { kind: LoadErrorKind::Unsupported, line, message }
}

fn too_long(function: &Function) -> LoadError {
    let message = format!("{} is too long once all its calls are put in place", function.name);
    refuse(function.line, message)
}

/// The parameters that a function changes: by name, as results of calls, or by address.
fn changed(function: &Function) -> BTreeSet<usize> {
    struct Named(BTreeSet<usize>);
    impl Visitor for Named {
        fn place(&mut self, place: &mut Place) {
            if let Place::Param(index) = place {
                self.0.insert(*index);
            }
        }
    }
    let mut named = Named(BTreeSet::new());
    for statement in function.body.iter().flat_map(|body| &body.statements) {
        match &statement.op {
            Op::Load { .. } => {}
            Op::Call { returns, .. } | Op::CallIndirect { returns, .. } => {
                returns.clone().iter_mut().for_each(|place| named.place(place));
            }
            _ => visit(&mut statement.clone(), &mut named),
        }
    }
    named.0
}

/// The functions that are directly or indirectly recursive: those on a cycle of calls.
pub(super) fn recursive(module: &Module) -> BTreeSet<usize> {
    let calls: Vec<Vec<usize>> =
        module.functions.iter().map(|function| callees(function).into_iter().collect()).collect();
    let mut recursive = BTreeSet::new();
    // Tarjan's algorithm visits each call once. A number is the order of the first visit; the least one is
    // what it reaches.
    let (mut met, mut least) = (vec![None; calls.len()], vec![0; calls.len()]);
    let (mut count, mut open, mut is_open) = (0, Vec::new(), vec![false; calls.len()]);
    for start in 0..calls.len() {
        // A function, and how many of its calls were visited.
        let mut path = vec![(start, 0)];
        while let Some((function, followed)) = path.last_mut() {
            let function = *function;
            if *followed == 0 {
                if met[function].is_some() {
                    path.pop();
                    continue;
                }
                (met[function], least[function]) = (Some(count), count);
                count += 1;
                open.push(function);
                is_open[function] = true;
            } else {
                let callee = calls[function][*followed - 1];
                if is_open[callee] {
                    least[function] = least[function].min(least[callee]);
                }
            }
            let next = calls[function].get(*followed).copied();
            *followed += 1;
            match next {
                Some(callee) if met[callee].is_none() => path.push((callee, 0)),
                Some(_) => {}
                None => {
                    path.pop();
                    if met[function] == Some(least[function]) {
                        let from = open.iter().rposition(|one| *one == function).unwrap_or(0);
                        let circle = open.split_off(from);
                        circle.iter().for_each(|one| is_open[*one] = false);
                        if circle.len() > 1 || calls[function].contains(&function) {
                            recursive.extend(circle);
                        }
                    }
                }
            }
        }
    }
    recursive
}

fn callees(function: &Function) -> BTreeSet<usize> {
    let statements = function.body.iter().flat_map(|body| &body.statements);
    let callee = |statement: &Statement| match statement.op {
        Op::Call { function, .. } => Some(function),
        _ => None,
    };
    statements.filter_map(callee).collect()
}

/// Inlines the calls of a function. `room` is shared by all functions of a module.
pub(super) fn flatten(
    module: &Module,
    number: usize,
    recursive: &BTreeSet<usize>,
    room: &mut Room,
) -> Result<Flat, LoadError> {
    let function = &module.functions[number];
    let mut emitter = Emitter {
        module,
        recursive,
        body: Body::default(),
        origins: Vec::new(),
        shared: BTreeSet::new(),
        calls: 0,
        changed: BTreeMap::new(),
        targets: 0,
    };
    emitter.emit(number, None, 0)?;
    let Emitter { mut body, shared, origins, targets, .. } = emitter;
    let taken = body.statements.len() + targets;
    let message = || {
        format!(
            "{} and what comes before it is too long once all calls are put in place",
            function.name
        )
    };
    room.0 = room.0.checked_sub(taken).ok_or_else(|| refuse(function.line, message()))?;
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

/// Allocates offsets one after another.
#[derive(Default)]
pub(super) struct Allotter {
    /// The bytes allocated so far.
    pub used: u32,
}

impl Allotter {
    /// Allocates the next offset.
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
    /// The parameters that functions change.
    changed: BTreeMap<usize, BTreeSet<usize>>,
    /// The number of branch table targets.
    targets: usize,
}

/// How many statements the functions of a module may still add.
#[derive(Debug)]
pub(super) struct Room(usize);

impl Default for Room {
    fn default() -> Self {
        Self(LONGEST_OF_ALL)
    }
}

/// The parameters and results of a call in its caller, and where the caller continues.
struct Site {
    arguments: Vec<Place>,
    returns: Vec<Place>,
    end: Label,
}

fn number(count: usize) -> u32 {
    // No count ever exceeds `LONGEST`.
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
        if self.body.statements.len() + self.targets + body.statements.len() > LONGEST
            || self.calls > MOST_CALLS
            || depth > DEEPEST
        {
            return Err(too_long(source));
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
        // Labels by the statement they precede.
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
            (Op::BranchTable { to, .. }, _) => self.targets += to.len(),
            (Op::Call { function, returns, arguments }, _)
                if self.module.functions[*function].body.is_some()
                    && !self.recursive.contains(function) =>
            {
                let end = self.label();
                let mut inner = Site {
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
                self.copy_changed(function, &mut inner, statement.line, statement.source)?;
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

    /// Copies the arguments that the callee changes, so that the caller keeps its own. Other arguments are
    /// read in place.
    fn copy_changed(
        &mut self,
        function: usize,
        site: &mut Site,
        line: u32,
        source: Option<Source>,
    ) -> Result<(), LoadError> {
        let module = self.module;
        let callee = &module.functions[function];
        let changed = self.changed.entry(function).or_insert_with(|| changed(callee)).clone();
        for (index, param) in callee.params.iter().enumerate() {
            let Some(place) = site.arguments.get(index).copied() else { continue };
            if !changed.contains(&index) && !site.returns.contains(&place) {
                continue;
            }
            let ty = match param.align {
                8.. => Type::B64,
                4.. => Type::B32,
                2.. => Type::B16,
                _ => Type::B8,
            };
            // The rest after the last whole unit is copied byte by byte.
            let whole = param.bytes - param.bytes % ty.bytes();
            let pieces = (0..whole).step_by(ty.bytes() as usize).map(|offset| (ty, offset));
            let rest = (whole..param.bytes).map(|offset| (Type::B8, offset));
            let count = (param.bytes / ty.bytes()) as usize;
            if self.body.statements.len().saturating_add(2 * count) > LONGEST {
                return Err(too_long(callee));
            }
            let copy = Place::Body(self.body.variables.len());
            self.body.variables.push(Variable {
                name: param.name.clone(),
                space: Space::Param,
                ty: param.ty,
                align: param.align,
                bytes: u64::from(param.bytes),
                initial: Vec::new(),
                addresses: Vec::new(),
                linkage: Linkage::Private,
                line,
            });
            // Only shared variables are looked up by their origin.
            self.origins.push((function, usize::MAX));
            for (ty, offset) in pieces.chain(rest) {
                let register = Reg(number(self.body.registers.len()));
                self.body.registers.push(Register { name: param.name.clone(), ty });
                let at = |place| Address { base: Base::Place(place), offset: offset.into() };
                let (space, strength) = (Space::Param, Strength::Weak);
                let load =
                    Op::Load { space, ty, strength, to: vec![Some(register)], from: at(place) };
                let value = vec![Operand::Register(register)];
                let store = Op::Store { space, ty, strength, to: at(copy), from: value };
                let done = [load, store].map(|op| Statement { guard: None, op, line, source });
                self.body.statements.extend(done);
            }
            site.arguments[index] = copy;
        }
        Ok(())
    }

    fn label(&mut self) -> Label {
        self.body.labels.push(usize::MAX);
        Label(number(self.body.labels.len() - 1))
    }
}

/// The renumbering of a body that is appended to others.
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
