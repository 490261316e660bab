//! Updates of executable graphs by other graphs.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::sync::Arc;

use super::graph::{Frozen, FrozenNode, Step};
use super::memory::{Found, Kind};
use super::operation::Work;
use super::{Caller, Machine, State};
use crate::bytes::Range;
use crate::status::{Outcome, Status};

/// `CUgraphExecUpdateResult`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was updated.
    Success = 0,
    /// A wrong argument.
    Error = 1,
    /// Other nodes or edges.
    TopologyChanged = 2,
    /// A node of another type.
    NodeTypeChanged = 3,
    /// What a node does differs in a way that cannot be updated.
    ParametersChanged = 5,
    /// A node that cannot be updated.
    NotSupported = 6,
    /// A kernel of another context.
    UnsupportedFunctionChange = 7,
    /// A cooperative kernel instead of a plain one, or the other way round.
    AttributesChanged = 8,
}

/// Where an operand of a copy or a fill is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In host memory.
    Host,
    /// In memory of a device.
    Device(usize),
    /// In an array of a device.
    Array(usize),
}

/// Why an update failed.
#[derive(Clone, Copy, Debug)]
pub struct Failed {
    /// The reason.
    pub verdict: Verdict,
    /// The node of the new graph, or 0.
    pub node: usize,
    /// The dependency of that node which the old one does not have, or 0.
    pub before: usize,
}

fn fail<T>(verdict: Verdict, node: usize) -> Result<T, Failed> {
    Err(Failed { verdict, node, before: 0 })
}

/// Returns `new`, as the update of `old`: the nodes keep the names by which the program knows them.
fn updated(old: &Frozen, new: &Frozen) -> Result<Frozen, Failed> {
    if old.nodes.len() != new.nodes.len() {
        return fail(Verdict::TopologyChanged, 0);
    }
    let mut nodes = Vec::with_capacity(new.nodes.len());
    for (old, node) in old.nodes.iter().zip(&new.nodes) {
        compare_dependencies(old, node, new)?;
        nodes.push(updated_node(old, node)?);
    }
    Ok(Frozen { nodes, keeps: new.keeps.clone(), conditions: new.conditions.clone() })
}

/// Refuses a node of `graph` whose dependencies differ from those of the old node.
fn compare_dependencies(old: &FrozenNode, new: &FrozenNode, graph: &Frozen) -> Result<(), Failed> {
    let known: BTreeSet<usize> = old.after.iter().copied().collect();
    let stranger = new.after.iter().find(|index| !known.contains(index));
    let before = stranger.and_then(|index| graph.nodes.get(*index)).map_or(0, |node| node.origin);
    if old.after.len() != new.after.len() {
        return fail(Verdict::TopologyChanged, new.origin);
    }
    if stranger.is_some() {
        return Err(Failed { verdict: Verdict::TopologyChanged, node: new.origin, before });
    }
    Ok(())
}

/// Returns whether a copy or a fill can be replaced by another: by one between the same devices and kinds of memory,
/// and a fill of several rows by one of the same rows.
#[must_use]
pub fn can_replace<B, C>(
    (old, from): (&Step<B>, &[Place]),
    (new, to): (&Step<C>, &[Place]),
) -> bool {
    let rows = |work: &Work| match work {
        Work::Fill { pattern, width, height, pitch, .. } if *height > 1 => {
            Some((pattern.size(), *width, *height, *pitch))
        }
        _ => None,
    };
    match (old, new) {
        (Step::Work(old @ Work::Fill { .. }), Step::Work(new)) => {
            let moves = |(from, to): (&Place, &Place)| matches!((from, to), (Place::Device(from), Place::Device(to)) if from != to);
            rows(old) == rows(new) && !from.iter().zip(to).any(moves)
        }
        _ => from == to,
    }
}

fn updated_node(old: &FrozenNode, new: &FrozenNode) -> Result<FrozenNode, Failed> {
    let name = new.origin;
    if old.step.kind() != new.step.kind() {
        return fail(Verdict::NodeTypeChanged, name);
    }
    if !can_replace((&old.step, &old.places), (&new.step, &new.places)) {
        return fail(Verdict::ParametersChanged, name);
    }
    let step = match (&old.step, &new.step) {
        (Step::Child(old), Step::Child(new)) => Step::Child(Arc::new(updated(old, new)?)),
        (Step::Branch(old), Step::Branch(new)) => {
            if old.form != new.form || old.bodies.len() != new.bodies.len() {
                return fail(Verdict::ParametersChanged, name);
            }
            let mut branch = new.clone();
            for (body, old) in branch.bodies.iter_mut().zip(&old.bodies) {
                *body = Arc::new(updated(old, body)?);
            }
            Step::Branch(branch)
        }
        // The memory of a graph is its own.
        (Step::Acquire(old), Step::Acquire(new)) | (Step::Release(old), Step::Release(new))
            if !Arc::ptr_eq(old, new) =>
        {
            return fail(Verdict::NotSupported, name);
        }
        // A kernel stays in its context.
        (Step::Work(Work::Launch(_)), _) if old.context != new.context => {
            return fail(Verdict::UnsupportedFunctionChange, name);
        }
        (old, new) if old.is_cooperative() != new.is_cooperative() => {
            return fail(Verdict::AttributesChanged, name);
        }
        (_, new) => new.clone(),
    };
    Ok(FrozenNode { origin: old.origin, step, enabled: old.enabled, ..new.clone() })
}

impl State {
    fn place_of(&self, range: &Range) -> Place {
        match self.memory.find(range.address()) {
            Found::Allocation(_, found) if found.kind == Kind::Array => Place::Array(found.device),
            Found::Allocation(_, found) if found.kind.is_device() || found.kind.is_managed() => {
                Place::Device(found.device)
            }
            _ => Place::Host,
        }
    }

    /// Returns where the operands of a copy or a fill are: of a copy, the target first.
    pub(super) fn places_of<B>(&self, step: &Step<B>) -> Vec<Place> {
        match step {
            Step::Work(Work::Copy { target, source, .. }) => {
                vec![self.place_of(target), self.place_of(source)]
            }
            Step::Work(Work::Fill { target, .. }) => vec![self.place_of(target)],
            _ => Vec::new(),
        }
    }
}

impl Machine {
    /// Makes an executable graph do what another graph of the same shape does.
    ///
    /// # Errors
    ///
    /// `GRAPH_EXEC_UPDATE_FAILURE` with the reason; otherwise `INVALID_VALUE`.
    pub fn update_executable(
        &self,
        caller: &Caller,
        handle: usize,
        graph: usize,
    ) -> Outcome<Result<(), Failed>> {
        let mut state = self.lock();
        state.own_graph(caller, graph)?;
        let frozen = match state.freeze(graph) {
            Ok(frozen) => frozen,
            Err(node) => return Ok(fail(Verdict::TopologyChanged, node)),
        };
        let found = state.executable(caller, handle, "update of a destroyed graph")?;
        match updated(&found.graph, &frozen) {
            Ok(graph) => {
                found.graph = Arc::new(graph);
                drop(frozen);
                state.sweep_graph_memory(caller);
                Ok(Ok(()))
            }
            Err(failed) => Ok(Err(failed)),
        }
    }

    /// Makes a child node of an executable graph run another graph of the same shape.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub fn update_child(
        &self,
        caller: &Caller,
        handle: usize,
        node: usize,
        child: usize,
    ) -> Outcome<()> {
        let mut state = self.lock();
        state.graph(caller, child)?;
        let frozen = state.freeze(child).map_err(|_| Status::ERROR_INVALID_VALUE)?;
        let found = state.changed_executable(caller, handle, node)?;
        let changed = Arc::make_mut(&mut found.graph).change(node, &mut |node| {
            let Step::Child(body) = &mut node.step else { return false };
            match updated(body, &frozen) {
                Ok(graph) => *body = Arc::new(graph),
                Err(_) => return false,
            }
            true
        });
        if changed == Some(true) { Ok(()) } else { Err(Status::ERROR_INVALID_VALUE) }
    }
}
