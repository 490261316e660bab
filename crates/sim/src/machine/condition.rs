//! Conditions: values that kernels set, and nodes that run a graph or not by such a value.
//!
//! A condition is a word of device memory, and its handle is the address of the word: `cudaGraphSetConditional` in a
//! kernel is a store (`BUILTIN` in `link.rs`).
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::sync::Arc;

use super::graph::{Draft, Frozen, Graph, Step};
use super::memory::Kind;
use super::{Caller, Machine, State};
use crate::bytes::{self, Range};
use crate::status::{Outcome, Status};

/// `CU_GRAPH_COND_ASSIGN_DEFAULT`: each launch begins with the default value.
const ASSIGN_DEFAULT: u32 = 1;

/// The kinds of nodes that the graphs of conditional nodes may have: kernels, copies, fills, other graphs, empty and
/// conditional nodes.
const ALLOWED: [i32; 6] = [KERNEL, 1, 2, 4, 5, 13];
const KERNEL: i32 = 0;

/// The most graphs of a conditional node.
const MOST_GRAPHS: u32 = 1 << 16;

/// A value that kernels set.
#[derive(Debug)]
pub struct Condition {
    /// Where it is.
    pub range: Range,
    /// Its value when a launch begins, if it has one.
    pub default: Option<u32>,
}

/// How a condition decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Not zero: the first graph runs; zero: the second, if there is one.
    If,
    /// The graph runs as long as the value is not zero.
    While,
    /// The graph with this number runs, if there is one.
    Switch,
}

impl Form {
    /// Returns CUDA's number of it.
    #[must_use]
    pub fn number(self) -> i32 {
        match self {
            Self::If => 0,
            Self::While => 1,
            Self::Switch => 2,
        }
    }

    /// Returns the form with CUDA's number for so many graphs.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub fn new(number: i32, graphs: u32) -> Outcome<Self> {
        match (number, graphs) {
            (0, 1 | 2) => Ok(Self::If),
            (1, 1) => Ok(Self::While),
            (2, 1..) => Ok(Self::Switch),
            _ => Err(Status::ERROR_INVALID_VALUE),
        }
    }
}

/// The action of a conditional node.
#[derive(Clone, Debug)]
pub struct Branch<B> {
    /// The condition.
    pub condition: Arc<Condition>,
    /// How it decides.
    pub form: Form,
    /// The graphs.
    pub bodies: Vec<B>,
}

impl Branch<Arc<Frozen>> {
    /// Returns the graph to run now, if any, and whether to decide again afterwards.
    #[must_use]
    pub fn choose(&self) -> Option<(&Arc<Frozen>, bool)> {
        let value =
            usize::try_from(bytes::load(&self.condition.range, false)).unwrap_or(usize::MAX);
        let number = match self.form {
            Form::If | Form::While => usize::from(value == 0),
            Form::Switch => value,
        };
        self.bodies.get(number).map(|body| (body, self.form == Form::While))
    }
}

impl Frozen {
    /// Returns a node that cannot be in the graphs of conditional nodes, at any depth: of another kind, or a kernel of
    /// another context. `inside` is the context of the conditional node that this graph is inside of, if it is.
    #[must_use]
    pub fn misplaced(&self, inside: Option<usize>) -> Option<usize> {
        self.nodes.iter().find_map(|node| {
            let kind = node.step.kind();
            let elsewhere = kind == KERNEL && node.context != inside;
            if inside.is_some() && (elsewhere || !ALLOWED.contains(&kind)) {
                return Some(node.origin);
            }
            let branch = node.context.filter(|_| matches!(node.step, Step::Branch(_)));
            node.step.bodies().iter().find_map(|body| body.misplaced(inside.or(branch)))
        })
    }

    /// Returns whether a condition has no node, also in the graphs inside.
    #[must_use]
    pub fn has_unused_condition(&self) -> bool {
        let used: BTreeSet<usize> = self
            .nodes
            .iter()
            .filter_map(|node| match &node.step {
                Step::Branch(branch) => Some(branch.condition.range.address()),
                _ => None,
            })
            .collect();
        let mut own = self.conditions.iter().map(|condition| condition.range.address());
        let mut inside = self.nodes.iter().flat_map(|node| node.step.bodies());
        own.any(|handle| !used.contains(&handle)) || inside.any(|body| body.has_unused_condition())
    }
}

impl State {
    /// Frees the conditions that no graph uses any more.
    pub(super) fn sweep_conditions(&mut self, caller: &Caller) {
        let unused = |condition: &Arc<Condition>| Arc::strong_count(condition) == 1;
        let gone: Vec<usize> = self
            .conditions
            .iter()
            .filter(|(_, condition)| unused(condition))
            .map(|(base, _)| *base)
            .collect();
        for base in gone {
            self.end_allocation(caller, base);
        }
    }
}

impl Machine {
    /// Creates a condition for a graph, and returns its handle.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`, `OUT_OF_MEMORY`, or an error of the context.
    pub fn create_condition(
        &self,
        caller: &Caller,
        (graph, context): (usize, usize),
        default: u32,
        flags: u32,
    ) -> Outcome<usize> {
        let mut state = self.lock();
        state.graph(caller, graph)?;
        let device = state.context(context)?.device;
        if flags & !ASSIGN_DEFAULT != 0 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        let base = state.allocate(Kind::Variable, device, context, 4)?;
        let range = state.memory.get(base).ok_or(Status::ERROR_UNKNOWN)?.range.clone();
        bytes::store(&range, 0, false);
        let default = (flags == ASSIGN_DEFAULT).then_some(default);
        let condition = Arc::new(Condition { range, default });
        state.conditions.insert(base, Arc::clone(&condition));
        state.graph(caller, graph)?.conditions.push(condition);
        Ok(base)
    }

    /// Adds a conditional node with new graphs. Returns the node, and the address of the handles of its graphs. A context
    /// of 0 is that of the condition.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`, also for a condition of another graph or context; `OUT_OF_MEMORY` for too many graphs.
    pub fn add_branch(
        &self,
        caller: &Caller,
        (graph, after): (usize, &[usize]),
        (condition, context): (usize, usize),
        (form, count): (Form, u32),
    ) -> Outcome<(usize, usize)> {
        let mut state = self.lock();
        let owner = state.memory.get(condition).map(|found| found.context);
        let found = state.conditions.get(&condition).cloned();
        let condition = found.ok_or(Status::ERROR_INVALID_VALUE)?;
        if context != 0 && owner != Some(context) {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        // A condition belongs to one node, which is in the graph that it was made for.
        let own = state.graph(caller, graph)?;
        let known = own.conditions.iter().any(|own| Arc::ptr_eq(own, &condition));
        let used = own.has(|step| match step {
            Step::Branch(branch) => Arc::ptr_eq(&branch.condition, &condition),
            _ => false,
        });
        if !known || used {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        if count > MOST_GRAPHS {
            return Err(Status::ERROR_OUT_OF_MEMORY);
        }
        state.check_dependencies(caller, graph, after)?;
        state.refuse_deep(caller, graph, 1)?;
        let bodies: Vec<usize> = (0..count).map(|_| state.graphs.add(Graph::default())).collect();
        let branch = Branch { condition, form, bodies: bodies.clone() };
        let draft = Draft { context: owner, ..Draft::of(Step::Branch(branch)) };
        let node = state.add_node(caller, graph, after, draft)?;
        for body in &bodies {
            state.graph(caller, *body)?.inside = node;
        }
        let exposed = &mut state.node(caller, node)?.exposed;
        *exposed = bodies;
        Ok((node, exposed.as_ptr().expose_provenance()))
    }
}
