//! Calls through addresses: each becomes a choice between the functions that it may reach.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use super::code::host_function;
use super::program::{LoadError, LoadErrorKind};
use crate::ptx::ast::{
    Body, Compare, Function, Label, Module, Named, Op, Operand, Param, Predicate, Reg, Register,
    Statement, Type,
};
use crate::ptx::visit::{Visitor, visit};

/// The first address of a function. No memory is ever there: processors have fewer address bits.
const FIRST: u64 = 1 << 62;
/// The distance between two functions. C++ uses the lowest bit of pointers to member functions.
const STEP: u64 = 16;
/// The most statements that the choices of a module may add.
const MOST_ADDED: usize = 1_000_000;

/// The addresses of a module's functions. Each module has its own, so that a call with an address of another
/// module is found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Addresses {
    first: u64,
}

impl Addresses {
    fn new(functions: usize) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(FIRST);
        // One more than there are, so that an address after the last is that of no function.
        let bytes = STEP * (functions as u64 + 1);
        Self { first: NEXT.fetch_add(bytes, Ordering::Relaxed) }
    }

    /// The address of a function.
    pub(super) const fn of(self, function: usize) -> u64 {
        self.first + STEP * function as u64
    }

    /// The index of the function at an address; of none in the module if it is beyond them.
    pub(super) fn function(self, address: u64) -> Option<usize> {
        let distance = address.checked_sub(self.first)?;
        let whole = distance.is_multiple_of(STEP);
        whole.then(|| usize::try_from(distance / STEP).ok()).flatten()
    }
}

/// Sizes of results, and of parameters.
type Sizes = (Vec<u32>, Vec<u32>);

fn sizes(returns: &[Param], params: &[Param]) -> Sizes {
    let of = |all: &[Param]| all.iter().map(|param| param.bytes).collect();
    (of(returns), of(params))
}

/// Whether a function can be called: it has a body, or the host has it.
pub(super) fn is_defined(function: &Function) -> bool {
    function.body.is_some() || host_function(&function.name).is_some()
}

/// The functions whose addresses are used, by their sizes.
fn taken(module: &mut Module) -> BTreeMap<Sizes, Vec<usize>> {
    struct Taken(BTreeSet<usize>);
    impl Visitor for Taken {
        fn function(&mut self, function: usize) {
            self.0.insert(function);
        }
    }
    let mut taken = Taken(BTreeSet::new());
    for address in module.variables.iter().flat_map(|variable| &variable.addresses) {
        if let Named::Function(function) = address.of {
            taken.function(function);
        }
    }
    let bodies = module.functions.iter_mut().filter_map(|function| function.body.as_mut());
    for statement in bodies.flat_map(|body| &mut body.statements) {
        visit(statement, &mut taken);
    }
    let mut by_sizes: BTreeMap<Sizes, Vec<usize>> = BTreeMap::new();
    for number in taken.0 {
        let function = &module.functions[number];
        if is_defined(function) {
            let sizes = sizes(&function.returns, &function.params);
            by_sizes.entry(sizes).or_default().push(number);
        }
    }
    by_sizes
}

/// Replaces each indirect call by direct ones: one for each function whose address is used and whose sizes
/// are those of the prototype. The indirect call stays behind them, and now means that it was none of these.
pub(super) fn resolve(module: &mut Module) -> Result<Addresses, LoadError> {
    let by_sizes = taken(module);
    let mut left = MOST_ADDED;
    for function in &mut module.functions {
        let (name, line) = (&function.name, function.line);
        let Some(body) = &mut function.body else { continue };
        let is_indirect = |statement: &Statement| matches!(statement.op, Op::CallIndirect { .. });
        if body.statements.iter().any(is_indirect) && !expand(body, &by_sizes, &mut left) {
            let message = format!(
                "{name} calls through addresses, of more functions than the simulated GPU can choose from"
            );
            return Err(LoadError { kind: LoadErrorKind::Unsupported, line, message });
        }
    }
    Ok(Addresses::new(module.functions.len()))
}

/// Replaces the indirect calls of a body. Returns false if that takes more statements than are left.
fn expand(body: &mut Body, by_sizes: &BTreeMap<Sizes, Vec<usize>>, left: &mut usize) -> bool {
    let old = std::mem::take(&mut body.statements);
    let mut moved = Vec::with_capacity(old.len() + 1);
    let mut choices = Vec::new();
    let first_new = body.labels.len();
    for statement in old {
        moved.push(body.statements.len());
        let Op::CallIndirect { address, prototype, returns, arguments } = &statement.op else {
            body.statements.push(statement);
            continue;
        };
        let Some(wanted) = body.prototypes.get(*prototype) else { return false };
        let found = by_sizes.get(&sizes(&wanted.returns, &wanted.params));
        let targets = found.map_or(&[][..], Vec::as_slice);
        // Each target takes four statements; a guard takes one more.
        let Some(rest) = left.checked_sub(4 * targets.len() + 1) else { return false };
        *left = rest;
        let add = |op: Op, guard: Option<Predicate>| Statement { guard, op, ..statement.clone() };
        let end = new_label(body);
        if let Some(Predicate { value, negated }) = statement.guard {
            let guard = Some(Predicate { value, negated: !negated });
            body.statements.push(add(Op::Branch { to: end }, guard));
        }
        let register = Reg(u32::try_from(body.registers.len()).unwrap_or(u32::MAX));
        body.registers.push(Register { name: "%is_target".to_owned(), ty: Type::Pred });
        let other = Predicate { value: Operand::Register(register), negated: true };
        for &function in targets {
            let next = new_label(body);
            let is_target = Op::SetPredicate {
                compare: Compare::Eq,
                ty: Type::U64,
                flush: false,
                combine: None,
                to: Some(register),
                opposite: None,
                left: *address,
                right: Operand::Function(function),
            };
            let (returns, arguments) = (returns.clone(), arguments.clone());
            body.statements.push(add(is_target, None));
            body.statements.push(add(Op::Branch { to: next }, Some(other)));
            body.statements.push(add(Op::Call { function, returns, arguments }, None));
            body.statements.push(add(Op::Branch { to: end }, None));
            choices.push((next, body.statements.len()));
        }
        let wild = add(statement.op.clone(), None);
        body.statements.push(wild);
        choices.push((end, body.statements.len()));
    }
    moved.push(body.statements.len());
    for label in &mut body.labels[..first_new] {
        *label = moved[*label];
    }
    for (Label(label), at) in choices {
        body.labels[label as usize] = at;
    }
    true
}

/// A label whose place is not known yet.
fn new_label(body: &mut Body) -> Label {
    body.labels.push(usize::MAX);
    Label(u32::try_from(body.labels.len() - 1).unwrap_or(u32::MAX))
}
