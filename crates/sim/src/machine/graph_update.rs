//! Updates of executable graphs by other graphs.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::graph::{Frozen, FrozenNode, Step};
use super::operation::Work;
use super::{Caller, Machine};
use crate::status::{Outcome, Status};

/// `CUgraphExecUpdateResult`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was updated.
    Success = 0,
    /// Other nodes or edges.
    TopologyChanged = 2,
    /// A node of another type.
    NodeTypeChanged = 3,
    /// What a node does differs in a way that cannot be updated.
    NotSupported = 6,
}

/// Why an update failed.
#[derive(Clone, Copy, Debug)]
pub struct Failed {
    /// The reason.
    pub verdict: Verdict,
    /// The node of the new graph, or 0.
    pub node: usize,
}

fn fail<T>(verdict: Verdict, node: usize) -> Result<T, Failed> {
    Err(Failed { verdict, node })
}

/// Returns `new`, as the update of `old`: the nodes keep the names by which the program knows them.
fn updated(old: &Frozen, new: &Frozen) -> Result<Frozen, Failed> {
    if old.nodes.len() != new.nodes.len() {
        let extra = new.nodes.get(old.nodes.len()).map_or(0, |node| node.origin);
        return fail(Verdict::TopologyChanged, extra);
    }
    let mut nodes = Vec::with_capacity(new.nodes.len());
    for (old, new) in old.nodes.iter().zip(&new.nodes) {
        nodes.push(updated_node(old, new)?);
    }
    Ok(Frozen { nodes, keeps: new.keeps.clone(), conditions: new.conditions.clone() })
}

fn updated_node(old: &FrozenNode, new: &FrozenNode) -> Result<FrozenNode, Failed> {
    let name = new.origin;
    if old.step.kind() != new.step.kind() {
        return fail(Verdict::NodeTypeChanged, name);
    }
    let sorted = |node: &FrozenNode| {
        let mut after = node.after.clone();
        after.sort_unstable();
        after
    };
    if sorted(old) != sorted(new) {
        return fail(Verdict::TopologyChanged, name);
    }
    let step = match (&old.step, &new.step) {
        (Step::Child(old), Step::Child(new)) => Step::Child(Arc::new(updated(old, new)?)),
        (Step::Branch(old), Step::Branch(new)) => {
            if old.form != new.form || old.bodies.len() != new.bodies.len() {
                return fail(Verdict::NotSupported, name);
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
            return fail(Verdict::NotSupported, name);
        }
        (_, new) => new.clone(),
    };
    Ok(FrozenNode { origin: old.origin, step, enabled: old.enabled, ..new.clone() })
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
        let found = state.executable(caller, handle, "update of a destroyed graph")?;
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
