//! Executable graphs: instantiation and launches.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::graph::{Frozen, FrozenNode, Step};
use super::operation::{OperationId, Work};
use super::{Caller, Machine, State};
use crate::status::{Outcome, Status};

/// The flags of `cuGraphInstantiate`, except UPLOAD.
const FLAGS: u64 = 1 | 4 | 8;
/// `CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH`.
const AUTO_FREE: u64 = 1;
/// `CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD`: needs the form of the call with a stream.
const UPLOAD: u64 = 2;
/// `CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH`.
const DEVICE_LAUNCH: u64 = 4;

/// `CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED`.
const UNUSED: i32 = 5;

/// An executable graph.
#[derive(Debug)]
pub struct Executable {
    /// What it runs.
    pub graph: Arc<Frozen>,
    /// The graph that it was made from.
    pub source: usize,
    /// As given.
    pub flags: u64,
    /// The end of its latest launch; the next launch follows it.
    last: Option<OperationId>,
}

/// Why a graph was not instantiated.
#[derive(Clone, Copy, Debug)]
pub struct Refused {
    /// The status for the caller.
    pub status: Status,
    /// The node, or 0.
    pub node: usize,
    /// `CUgraphInstantiateResult`.
    pub result: i32,
}

impl From<Status> for Refused {
    fn from(status: Status) -> Self {
        Self { status, node: 0, result: 1 }
    }
}

impl State {
    /// Returns an executable graph.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub fn executable(
        &mut self,
        caller: &Caller,
        handle: usize,
        what: &str,
    ) -> Outcome<&mut Executable> {
        if self.executables.was(handle) {
            return Err(self.fault(caller, Status::ERROR_INVALID_VALUE, what, handle));
        }
        self.executables.get_mut(handle).ok_or(Status::ERROR_INVALID_VALUE)
    }

    /// Returns an executable graph in which a node is changed; refuses a node that was removed from the graph that it
    /// was made from. That graph may have ended.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub(super) fn changed_executable(
        &mut self,
        caller: &Caller,
        handle: usize,
        node: usize,
    ) -> Outcome<&mut Executable> {
        let source = self.executable(caller, handle, "use of a destroyed graph")?.source;
        if self.nodes.was(node) && self.graphs.get(source).is_some() {
            let what = "change of a node that was removed from its graph";
            return Err(self.fault(caller, Status::ERROR_INVALID_VALUE, what, node));
        }
        self.executable(caller, handle, "use of a destroyed graph")
    }

    /// Refuses a graph that accesses freed memory.
    fn refuse_stale(&mut self, caller: &Caller, graph: &Frozen) -> Outcome<()> {
        let found = graph.find(&mut |node| self.stale(node));
        found.map_or(Ok(()), |(what, address)| {
            Err(self.fault(caller, Status::ERROR_INVALID_VALUE, what, address))
        })
    }

    /// Returns what a node uses that is gone, if anything.
    fn stale(&self, node: &FrozenNode) -> Option<(&'static str, usize)> {
        if let Some(address) = node.unmapped() {
            return Some(("graph over memory that is not mapped", address));
        }
        if let Some(module) = node.launches() {
            // A kernel's accesses are checked when it runs.
            let what = "graph over a kernel whose module was unloaded";
            return self.modules.get(module).is_none().then_some((what, module));
        }
        if let Step::Record(event) | Step::Wait(event) = node.step {
            let what = "graph over an event that was destroyed";
            return self.events.get(event).is_none().then_some((what, event));
        }
        if let Step::Branch(branch) = &node.step {
            let handle = branch.condition.range.address();
            let known = self.conditions.get(&handle);
            if !known.is_some_and(|found| Arc::ptr_eq(found, &branch.condition)) {
                return Some(("graph over a condition whose context was destroyed", handle));
            }
        }
        // Those of the nodes inside are looked at one by one.
        let own = if node.step.bodies().is_empty() { &node.touches[..] } else { &[] };
        let gone = own.iter().find(|(base, buffer_id)| {
            self.memory.get(*base).is_none_or(|allocation| allocation.buffer_id != *buffer_id)
        });
        gone.map(|(base, _)| ("graph over memory that was freed", *base))
    }

    /// Queues the nodes of a graph in a stream.
    fn queue_graph(
        &mut self,
        stream: usize,
        graph: &Arc<Frozen>,
        before: Option<OperationId>,
    ) -> OperationId {
        let context = self.streams.get(stream).map_or(0, |stream| stream.context);
        let mut start = self.queue(stream, Work::Mark, &[], None, before.as_slice());
        for condition in graph.all_conditions() {
            let Some(default) = condition.default else { continue };
            let target = condition.range.clone();
            let work = Work::Write { target, value: u64::from(default), wide: false };
            start = self.queue(stream, work, &[], None, &[]);
        }
        let made = self.queue_nodes(context, graph, Some(start));
        self.queue(stream, Work::End(Arc::clone(graph)), &[], None, &made)
    }

    /// Queues the nodes of a graph after `start`. Returns their operations.
    pub(super) fn queue_nodes(
        &mut self,
        default: usize,
        graph: &Frozen,
        start: Option<OperationId>,
    ) -> Vec<OperationId> {
        let mut made: Vec<OperationId> = Vec::with_capacity(graph.nodes.len());
        for node in &graph.nodes {
            let mut after: Vec<OperationId> = node.after.iter().map(|other| made[*other]).collect();
            after.extend(start);
            made.push(self.queue_node(default, node, after));
        }
        made
    }

    fn queue_node(
        &mut self,
        default: usize,
        node: &FrozenNode,
        mut after: Vec<OperationId>,
    ) -> OperationId {
        let context = node.context.unwrap_or(default);
        let touches: Vec<usize> = node.touches.iter().map(|(base, _)| *base).collect();
        let (work, event) = match &node.step {
            _ if !node.enabled => (Work::Mark, None),
            Step::Work(work) => (work.clone(), None),
            Step::Record(event) => {
                let (number, work) = self.new_record(*event);
                (work, Some((*event, number)))
            }
            Step::Wait(event) => {
                let record = self.events.get(*event).and_then(|event| event.record);
                after.extend(record.map(|record| record.operation));
                (self.foreign_wait(*event).unwrap_or(Work::Mark), None)
            }
            Step::Child(body) => {
                let start = self.queue_after(context, Work::Mark, &[], None, &after);
                after.push(start);
                after.extend(self.queue_nodes(default, body, Some(start)));
                (Work::Mark, None)
            }
            Step::Acquire(memory) => (Work::Acquire { base: memory.base }, None),
            Step::Release(memory) => {
                let base = memory.base;
                let buffer_id = self.memory.get(base).map_or(0, |found| found.buffer_id);
                (Work::Release { base, buffer_id }, None)
            }
            Step::Branch(branch) => (Work::Branch(Arc::new(branch.clone())), None),
        };
        let recorded = event.map(|(event, _)| event);
        let id = self.queue_after(context, work, &touches, recorded, &after);
        if let Some((event, number)) = event {
            self.set_record(event, id, number);
        }
        id
    }
}

impl Machine {
    /// Instantiates a graph.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE` for unknown flags, freed memory, a cycle or wrong conditions; `NOT_SUPPORTED` for launches by a device, and for a
    /// second instance of a graph that allocates memory.
    pub fn instantiate(
        &self,
        caller: &Caller,
        handle: usize,
        flags: u64,
        may_upload: bool,
    ) -> Result<usize, Refused> {
        let mut state = self.lock();
        state.refuse_unsafe(caller)?;
        let known = if may_upload { FLAGS | UPLOAD } else { FLAGS };
        if flags & !known != 0 {
            return Err(Status::ERROR_INVALID_VALUE.into());
        }
        state.own_graph(caller, handle)?;
        if flags & DEVICE_LAUNCH != 0 {
            return Err(Status::ERROR_NOT_SUPPORTED.into());
        }
        let frozen = state.freeze(handle).map_err(|node| {
            let what = "instantiation of a graph with a cycle";
            let status = state.fault(caller, Status::ERROR_INVALID_VALUE, what, node);
            Refused { status, node, result: 2 }
        })?;
        if let Some(node) = frozen.misplaced(None) {
            let what = "instantiation of a conditional node over work that cannot be in one";
            let status = state.fault(caller, Status::ERROR_INVALID_VALUE, what, node);
            return Err(Refused { status, node, result: 1 });
        }
        if frozen.has_unused_condition() {
            let what = "instantiation of a graph with a condition that has no node";
            let status = state.fault(caller, Status::ERROR_INVALID_VALUE, what, handle);
            return Err(Refused { status, node: 0, result: UNUSED });
        }
        state.refuse_stale(caller, &frozen)?;
        let again = |executable: &Executable| executable.source == handle;
        if !frozen.memory(false).is_empty() && state.executables.iter().any(|(_, one)| again(one)) {
            let what = "second instantiation of a graph that allocates memory";
            return Err(state.fault(caller, Status::ERROR_NOT_SUPPORTED, what, handle).into());
        }
        let graph = Arc::new(frozen);
        Ok(state.executables.add(Executable { graph, source: handle, flags, last: None }))
    }

    /// Launches a graph in stream order.
    ///
    /// # Errors
    ///
    /// As `cuGraphLaunch`; `INVALID_VALUE` if memory of the graph was freed, or is still allocated.
    pub fn launch_graph(&self, caller: &Caller, handle: usize, stream: usize) -> Outcome<()> {
        let mut state = self.lock();
        state.stream(caller, stream)?;
        let found = state.executable(caller, handle, "launch of a destroyed graph")?;
        let (graph, last, flags) = (Arc::clone(&found.graph), found.last, found.flags);
        state.refuse_captured_stream(stream)?;
        state.refuse_legacy(stream)?;
        state.refuse_stale(caller, &graph)?;
        state.begin_memory(caller, stream, &graph, (flags & AUTO_FREE != 0, last))?;
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

    /// Destroys an executable graph. Its queued work stays queued.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub fn destroy_executable(&self, caller: &Caller, handle: usize) -> Outcome<()> {
        let mut state = self.lock();
        state.refuse_unsafe(caller)?;
        state.executable(caller, handle, "graph destroyed twice")?;
        state.executables.remove(handle);
        state.sweep_graph_memory(caller);
        Ok(())
    }

    /// Returns the flags and the number of an executable graph.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub fn executable_facts(&self, caller: &Caller, handle: usize) -> Outcome<(u64, u64)> {
        let mut state = self.lock();
        let flags = state.executable(caller, handle, "use of a destroyed graph")?.flags;
        Ok((flags, state.executables.number(handle)))
    }

    /// Sets whether a node of an executable graph does anything.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE` for a node that is not in it, or is no kernel, copy or fill.
    pub fn enable(&self, caller: &Caller, handle: usize, node: usize, on: bool) -> Outcome<()> {
        let mut state = self.lock();
        let executable = state.changed_executable(caller, handle, node)?;
        let changed = Arc::make_mut(&mut executable.graph).change(node, &mut |node| {
            if node.step.kind() > 2 {
                return Err(Status::ERROR_INVALID_VALUE);
            }
            node.enabled = on;
            Ok(())
        });
        changed.unwrap_or(Err(Status::ERROR_INVALID_VALUE))
    }

    /// Returns whether a node of an executable graph does anything.
    ///
    /// # Errors
    ///
    /// As [`Machine::enable`].
    pub fn is_enabled(&self, caller: &Caller, handle: usize, node: usize) -> Outcome<bool> {
        let mut state = self.lock();
        let executable = state.executable(caller, handle, "use of a destroyed graph")?;
        let fits = |found: &FrozenNode| found.origin == node && found.step.kind() <= 2;
        let found = executable.graph.find(&mut |found| fits(found).then_some(found.enabled));
        found.ok_or(Status::ERROR_INVALID_VALUE)
    }
}
