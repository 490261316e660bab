//! Graphs: captured work, and its replay.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::handle::Kind;
use super::operation::{OperationId, Work};
use super::user_object::Kept;
use super::{Caller, Machine, State};
use crate::bytes::Range;
use crate::status::{Outcome, Status};

/// The flags of `cuGraphInstantiate`, except UPLOAD.
const FLAGS: u64 = 1 | 4 | 8;
/// `CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD`: needs the form of the call with a stream.
const UPLOAD: u64 = 2;

/// The action of a node.
#[derive(Clone, Debug)]
pub enum Step {
    /// Work.
    Work(Work),
    /// Records an external event.
    Record(usize),
    /// Waits for an external event.
    Wait(usize),
}

/// A node of a graph.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its action.
    pub step: Step,
    /// The nodes it depends on.
    pub after: Vec<usize>,
    /// The allocations that it accesses: base and buffer id.
    pub touches: Vec<(usize, u64)>,
}

/// Nodes, each of which may depend on earlier ones.
#[derive(Clone, Debug)]
pub struct Graph {
    /// The context in which it was captured.
    pub context: usize,
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The user objects that it keeps, by handle, with the number of references.
    pub keeps: BTreeMap<usize, (u32, Arc<Kept>)>,
}

/// An executable graph.
#[derive(Debug)]
pub struct Executable {
    graph: Arc<Graph>,
    /// The end of its latest launch; the next launch follows it.
    last: Option<OperationId>,
}

impl Node {
    /// Returns an address of the caller's memory that is no longer mapped, if the node copies from or to one.
    fn unmapped(&self) -> Option<usize> {
        let Step::Work(Work::Copy { target, source, .. }) = &self.step else { return None };
        [target, source].into_iter().find(|range| !range.is_mapped()).map(Range::address)
    }

    /// Returns the module of the kernel that the node launches, if any.
    fn launches(&self) -> Option<usize> {
        let Step::Work(Work::Launch(launched)) = &self.step else { return None };
        Some(launched.module)
    }

    /// Returns the node's type in CUDA's numbering.
    #[must_use]
    pub fn kind(&self) -> i32 {
        match &self.step {
            Step::Work(Work::Launch(_)) => 0,
            Step::Work(Work::Copy { .. }) => 1,
            Step::Work(Work::Fill { .. }) => 2,
            Step::Work(Work::Call(_)) => 3,
            Step::Work(Work::Write { .. } | Work::Raise { .. } | Work::Wait { .. }) => 12,
            Step::Work(Work::Mark | Work::End(_) | Work::Acquire { .. } | Work::Release { .. }) => {
                5
            }
            Step::Wait(_) => 6,
            Step::Record(_) => 7,
        }
    }
}

impl Graph {
    /// Returns `ends` and all nodes that they depend on.
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

    /// Refuses a graph that accesses freed memory.
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
        // A kernel's accesses are checked when it runs.
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
                Step::Record(event) => {
                    let (number, work) = self.new_record(*event);
                    (work, Some((*event, number)))
                }
                Step::Wait(event) => {
                    after.extend(
                        self.events
                            .get(*event)
                            .and_then(|event| event.record)
                            .map(|record| record.operation),
                    );
                    (self.foreign_wait(*event).unwrap_or(Work::Mark), None)
                }
            };
            let recorded = event.map(|(event, _)| event);
            let id = self.queue_after(graph.context, work, &touches, recorded, &after);
            if let Some((event, number)) = event {
                self.set_record(event, id, number);
            }
            made.push(id);
        }
        self.queue(stream, Work::End(Arc::clone(graph)), &[], None, &made)
    }
}

impl Machine {
    /// Instantiates a graph.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE` for unknown flags or freed memory.
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

    /// Launches a graph in stream order.
    ///
    /// # Errors
    ///
    /// As `cuGraphLaunch`; `INVALID_VALUE` if memory of the graph was freed.
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

    /// Uploads a graph: nothing to do.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub fn upload_graph(&self, caller: &Caller, handle: usize, stream: usize) -> Outcome<()> {
        let mut state = self.lock();
        state.stream(caller, stream)?;
        state.executables.get(handle).map(|_| ()).ok_or(Status::ERROR_INVALID_VALUE)
    }

    /// Destroys a graph.
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

    /// Destroys an executable graph. Its queued work stays queued.
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

    /// Returns the type of a node in CUDA's numbering.
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
