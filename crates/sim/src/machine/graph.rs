//! Graphs: captured work, and running it again.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::handle::Kind;
use super::operation::{OperationId, Work};
use super::user_object::Kept;
use super::{Caller, Machine, State};
use crate::bytes::Range;
use crate::status::{Outcome, Status};

/// The flags of `cuGraphInstantiate` but for the one that asks to upload.
const FLAGS: u64 = 1 | 4 | 8;
/// `CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD`: needs the form of the call that names a stream.
const UPLOAD: u64 = 2;

/// What a node does.
#[derive(Clone, Debug)]
pub enum Step {
    /// Work.
    Work(Work),
    /// Records an event, for those outside.
    Record(usize),
    /// Waits for an event of those outside.
    Wait(usize),
}

/// A node of a graph.
#[derive(Clone, Debug)]
pub struct Node {
    /// What it does.
    pub step: Step,
    /// The nodes before it.
    pub after: Vec<usize>,
    /// Allocations that it reads or writes: base and buffer id.
    pub touches: Vec<(usize, u64)>,
}

/// Nodes, each after some before it.
#[derive(Clone, Debug)]
pub struct Graph {
    /// The context it was captured in.
    pub context: usize,
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The caller's objects that it keeps, by handle, and how many times each.
    pub keeps: BTreeMap<usize, (u32, Arc<Kept>)>,
}

/// A graph that can be launched.
#[derive(Debug)]
pub struct Executable {
    graph: Arc<Graph>,
    /// The end of its newest launch, which the next one comes after.
    last: Option<OperationId>,
}

impl Node {
    /// Returns the address of memory of the caller's that is not there any more, if the node copies such.
    fn unmapped(&self) -> Option<usize> {
        let Step::Work(Work::Copy { target, source, .. }) = &self.step else { return None };
        [target, source].into_iter().find(|range| !range.is_mapped()).map(Range::address)
    }

    /// Returns the module whose kernel the node launches, if it does.
    fn launches(&self) -> Option<usize> {
        let Step::Work(Work::Launch(launched)) = &self.step else { return None };
        Some(launched.module)
    }

    /// Returns CUDA's number for what it does.
    #[must_use]
    pub fn kind(&self) -> i32 {
        match &self.step {
            Step::Work(Work::Launch(_)) => 0,
            Step::Work(Work::Copy { .. }) => 1,
            Step::Work(Work::Fill { .. }) => 2,
            Step::Work(Work::Call(_)) => 3,
            Step::Work(Work::Write { .. } | Work::Wait { .. }) => 12,
            Step::Work(Work::Mark | Work::End(_) | Work::Acquire { .. } | Work::Release { .. }) => {
                5
            }
            Step::Wait(_) => 6,
            Step::Record(_) => 7,
        }
    }
}

impl Graph {
    /// Returns the nodes that lead to `ends`, and `ends` themselves.
    #[must_use]
    pub fn reached_from(&self, ends: &[usize]) -> BTreeSet<usize> {
        let mut reached = BTreeSet::new();
        let mut left = ends.to_vec();
        while let Some(node) = left.pop() {
            if reached.insert(node) {
                left.extend(&self.nodes[node].after);
            }
        }
        reached
    }
}

/// Returns the handle of a node.
#[must_use]
pub fn node_handle(graph: u64, node: usize) -> usize {
    let graph = usize::try_from(graph).unwrap_or(0);
    (Kind::Node as usize) << 48 | graph << 28 | (node + 1) << 4
}

impl State {
    pub(super) fn graph(&mut self, caller: &Caller, handle: usize) -> Outcome<&mut Graph> {
        if self.graphs.was(handle) {
            return Err(self.fault(
                caller,
                Status::ERROR_INVALID_VALUE,
                "use of a destroyed graph",
                handle,
            ));
        }
        self.graphs.get_mut(handle).ok_or(Status::ERROR_INVALID_VALUE)
    }

    /// Refuses a graph that reads or writes memory which is gone.
    fn refuse_stale(&mut self, caller: &Caller, graph: &Graph) -> Outcome<()> {
        let unmapped = graph.nodes.iter().find_map(Node::unmapped);
        if let Some(address) = unmapped {
            return Err(self.fault(
                caller,
                Status::ERROR_INVALID_VALUE,
                "graph over memory that is not mapped",
                address,
            ));
        }
        let mut launched = graph.nodes.iter().filter_map(Node::launches);
        if let Some(module) = launched.find(|module| self.modules.get(*module).is_none()) {
            let what = "graph over a kernel whose module was unloaded";
            return Err(self.fault(caller, Status::ERROR_INVALID_VALUE, what, module));
        }
        // What a kernel does with its parameters is seen when it runs.
        let others = graph.nodes.iter().filter(|node| node.launches().is_none());
        let gone = others.flat_map(|node| &node.touches).find(|(base, buffer_id)| {
            self.memory.get(*base).is_none_or(|allocation| allocation.buffer_id != *buffer_id)
        });
        match gone {
            Some(&(base, _)) => Err(self.fault(
                caller,
                Status::ERROR_INVALID_VALUE,
                "graph over memory that was freed",
                base,
            )),
            None => Ok(()),
        }
    }

    /// Queues the nodes of a graph in a stream.
    fn queue_graph(
        &mut self,
        stream: usize,
        graph: &Arc<Graph>,
        before: Option<OperationId>,
    ) -> OperationId {
        let start = self.queue(stream, Work::Mark, &[], None, before.as_slice());
        let mut made: Vec<OperationId> = Vec::with_capacity(graph.nodes.len());
        for node in &graph.nodes {
            let mut after: Vec<OperationId> = node.after.iter().map(|other| made[*other]).collect();
            after.push(start);
            let touches: Vec<usize> = node.touches.iter().map(|(base, _)| *base).collect();
            let (work, event) = match &node.step {
                Step::Work(work) => (work.clone(), None),
                Step::Record(event) => (Work::Mark, Some(*event)),
                Step::Wait(event) => {
                    after.extend(
                        self.events
                            .get(*event)
                            .and_then(|event| event.record)
                            .map(|record| record.operation),
                    );
                    (Work::Mark, None)
                }
            };
            let id = self.queue_after(graph.context, work, &touches, event, &after);
            if let Some(event) = event {
                self.set_record(event, id);
            }
            made.push(id);
        }
        self.queue(stream, Work::End(Arc::clone(graph)), &[], None, &made)
    }
}

impl Machine {
    /// Makes a graph ready to be launched.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE` for unknown flags or a graph over memory that is gone.
    pub fn instantiate(
        &self,
        caller: &Caller,
        handle: usize,
        flags: u64,
        may_upload: bool,
    ) -> Outcome<usize> {
        let mut state = self.lock();
        state.refuse_unsafe(caller)?;
        let known = if may_upload { FLAGS | UPLOAD } else { FLAGS };
        if flags & !known != 0 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        let graph = state.graph(caller, handle)?.clone();
        state.refuse_stale(caller, &graph)?;
        Ok(state.executables.add(Executable { graph: Arc::new(graph), last: None }))
    }

    /// Runs a graph in the order of a stream.
    ///
    /// # Errors
    ///
    /// As `cuGraphLaunch`; `INVALID_VALUE` where memory of the graph was freed.
    pub fn launch_graph(&self, caller: &Caller, handle: usize, stream: usize) -> Outcome<()> {
        let mut state = self.lock();
        state.stream(caller, stream)?;
        if state.executables.was(handle) {
            return Err(state.fault(
                caller,
                Status::ERROR_INVALID_VALUE,
                "launch of a destroyed graph",
                handle,
            ));
        }
        let found = state.executables.get(handle).ok_or(Status::ERROR_INVALID_VALUE)?;
        let (graph, last) = (Arc::clone(&found.graph), found.last);
        state.refuse_captured_stream(stream)?;
        state.refuse_legacy(stream)?;
        state.refuse_stale(caller, &graph)?;
        let end = state.queue_graph(stream, &graph, last);
        if let Some(executable) = state.executables.get_mut(handle) {
            executable.last = Some(end);
        }
        Ok(())
    }

    /// Says that a graph shall be ready where it will run; here it always is.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub fn upload_graph(&self, caller: &Caller, handle: usize, stream: usize) -> Outcome<()> {
        let mut state = self.lock();
        state.stream(caller, stream)?;
        state.executables.get(handle).map(|_| ()).ok_or(Status::ERROR_INVALID_VALUE)
    }

    /// Ends a graph.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub fn destroy_graph(&self, caller: &Caller, handle: usize) -> Outcome<()> {
        let mut state = self.lock();
        state.graph(caller, handle)?;
        if state.captures.values().any(|capture| capture.builds(handle)) {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        state.graphs.remove(handle);
        Ok(())
    }

    /// Ends a graph that was made ready. What is queued of it stays queued.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub fn destroy_executable(&self, caller: &Caller, handle: usize) -> Outcome<()> {
        let mut state = self.lock();
        state.refuse_unsafe(caller)?;
        if state.executables.was(handle) {
            return Err(state.fault(
                caller,
                Status::ERROR_INVALID_VALUE,
                "graph destroyed twice",
                handle,
            ));
        }
        state.executables.remove(handle).map(|_| ()).ok_or(Status::ERROR_INVALID_VALUE)
    }

    /// Returns the handles of the nodes of a graph.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub fn graph_nodes(&self, caller: &Caller, handle: usize) -> Outcome<Vec<usize>> {
        let mut state = self.lock();
        let number = state.graphs.number(handle);
        let count = state.graph(caller, handle)?.nodes.len();
        Ok((0..count).map(|node| node_handle(number, node)).collect())
    }

    /// Returns CUDA's number for what a node does.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub fn node_kind(&self, node: usize) -> Outcome<i32> {
        let state = self.lock();
        state
            .graphs
            .iter()
            .flat_map(|(handle, graph)| {
                graph.nodes.iter().enumerate().map(move |(index, found)| (handle, index, found))
            })
            .find(|(handle, index, _)| node_handle(state.graphs.number(*handle), *index) == node)
            .map(|(.., found)| found.kind())
            .ok_or(Status::ERROR_INVALID_VALUE)
    }
}
