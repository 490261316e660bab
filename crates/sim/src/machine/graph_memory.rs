//! Memory that graphs allocate: its address is fixed when the node is made, and it holds bytes only between the
//! allocation and the release in launches.
//!
//! [`Life`] is what the program may assume when it makes a call; `awake` is what queued work has reached.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::sync::Arc;

use super::graph::{Draft, Frozen, Step};
use super::memory::{Found, Kind, Life, POISON};
use super::operation::{OperationId, Work};
use super::{Caller, Machine, State};
use crate::bytes;
use crate::config::Check;
use crate::status::{Outcome, Status};

/// Physical memory of graphs is counted in pieces of this size.
const PIECE: usize = 2 << 20;

/// Memory of a graph.
#[derive(Debug)]
pub struct Reserved {
    /// Its address.
    pub base: usize,
    /// Its size.
    pub bytes: usize,
    /// Its device.
    pub device: usize,
    /// The devices that may access it, apart from its own.
    pub peers: Vec<usize>,
}

/// The bytes that graphs use on a device: now, and at most so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// In allocations.
    pub used: (usize, usize),
    /// In whole pieces: what ended stays reserved for other graphs until it is trimmed.
    pub reserved: (usize, usize),
    /// The pieces of what is used now.
    pieces: usize,
}

impl Usage {
    fn add(&mut self, bytes: usize) {
        self.used.0 += bytes;
        self.pieces += bytes.next_multiple_of(PIECE);
        self.used.1 = self.used.1.max(self.used.0);
        self.reserved.0 = self.reserved.0.max(self.pieces);
        self.reserved.1 = self.reserved.1.max(self.reserved.0);
    }

    fn remove(&mut self, bytes: usize) {
        self.used.0 -= bytes;
        self.pieces -= bytes.next_multiple_of(PIECE);
    }
}

impl State {
    /// Returns whether launches may access an allocation now: memory of a graph only while it is allocated.
    pub(super) fn is_awake(&self, base: usize, kind: Kind) -> bool {
        kind != Kind::Graph || self.awake.contains(&base)
    }

    /// Begins the life of a graph's memory in queued work.
    pub(super) fn wake(&mut self, base: usize) {
        if self.memory.get(base).is_some_and(|found| found.kind == Kind::Graph) {
            self.awake.insert(base);
        }
    }

    /// Ends the life of a graph's memory in queued work; its address stays. Returns whether it is such memory.
    pub(super) fn sleep(&mut self, caller: &Caller, base: usize) -> bool {
        let Some(found) = self.memory.get(base).filter(|found| found.kind == Kind::Graph) else {
            return false;
        };
        if self.config.check != Check::Off {
            bytes::fill_resident(&found.range, POISON);
        }
        self.awake.remove(&base);
        self.end_unused(caller, base);
        true
    }

    /// Sets whether the program may use a graph's memory from now on.
    pub(super) fn set_life(&mut self, base: usize, life: Life) {
        if let Some(allocation) = self.memory.get_mut(base) {
            allocation.life = life;
        }
    }

    /// Frees what no graph can allocate any more.
    pub(super) fn sweep_graph_memory(&mut self, caller: &Caller) {
        self.sweep_conditions(caller);
        let gone: Vec<usize> =
            self.reserved.keys().filter(|base| self.is_unused(**base)).copied().collect();
        for base in gone {
            self.end_allocation(caller, base);
        }
    }

    /// Frees memory that no graph can allocate any more.
    fn end_unused(&mut self, caller: &Caller, base: usize) {
        if self.is_unused(base) {
            self.end_allocation(caller, base);
        }
    }

    /// Returns whether no graph can allocate memory any more, and neither the program nor queued work has it.
    fn is_unused(&self, base: usize) -> bool {
        let asleep = |life| life == Life::Asleep && !self.awake.contains(&base);
        self.reserved.get(&base).is_some_and(|memory| Arc::strong_count(memory) == 1)
            && self.memory.get(base).is_some_and(|found| asleep(found.life))
    }

    /// Forgets memory of a graph, or a condition, that has ended: with its graphs, or with its context.
    pub(super) fn forget_graph_memory(&mut self, base: usize) {
        self.conditions.remove(&base);
        self.awake.remove(&base);
        if let Some(memory) = self.reserved.remove(&base)
            && self.counted.remove(&base)
        {
            self.devices[memory.device].graphs.remove(memory.bytes);
        }
    }

    /// Returns the memory of a graph at an address.
    fn memory_of_graph(&mut self, caller: &Caller, address: usize) -> Outcome<Arc<Reserved>> {
        let what = match self.memory.find(address) {
            Found::Allocation(base, found) if base == address && found.kind == Kind::Graph => {
                return self.reserved.get(&base).cloned().ok_or(Status::ERROR_INVALID_VALUE);
            }
            Found::Allocation(..) => "a node frees memory that no graph allocated",
            Found::Nothing | Found::Elsewhere => "a node frees an address that was never allocated",
        };
        Err(self.fault(caller, Status::ERROR_INVALID_VALUE, what, address))
    }

    /// Refuses to free memory of a graph by two nodes of a graph.
    fn refuse_second_release(
        &mut self,
        caller: &Caller,
        graph: usize,
        address: usize,
    ) -> Outcome<()> {
        if self.graph(caller, graph)?.frees(address) {
            let what = "two nodes of a graph free the same memory";
            return Err(self.fault(caller, Status::ERROR_INVALID_VALUE, what, address));
        }
        Ok(())
    }

    /// Reserves an address for memory of a graph.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE` for zero bytes, `OUT_OF_MEMORY`.
    pub(super) fn reserve(
        &mut self,
        device: usize,
        context: usize,
        bytes: usize,
        peers: Vec<usize>,
    ) -> Outcome<Arc<Reserved>> {
        self.context(context)?;
        if bytes == 0 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        let base = self.allocate(Kind::Graph, device, context, bytes)?;
        self.set_life(base, Life::Asleep);
        let memory = Arc::new(Reserved { base, bytes, device, peers });
        self.reserved.insert(base, Arc::clone(&memory));
        Ok(memory)
    }

    /// Refuses to launch a graph whose memory is still allocated by an earlier launch, or frees it if `frees`. Then
    /// counts its memory. `last` is the end of the launch before.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub(super) fn begin_memory(
        &mut self,
        caller: &Caller,
        stream: usize,
        graph: &Frozen,
        (frees, last): (bool, Option<OperationId>),
    ) -> Outcome<()> {
        let (allocated, freed) = (graph.memory(false), graph.memory(true));
        let life = |state: &Self, base| state.memory.get(base).map(|found| found.life);
        let mut left = allocated.clone();
        left.retain(|memory| life(self, memory.base) == Some(Life::Live));
        if let (Some(memory), false) = (left.first(), frees) {
            let what = "launch of a graph whose memory of the launch before is not freed";
            return Err(self.fault(caller, Status::ERROR_INVALID_VALUE, what, memory.base));
        }
        let own: BTreeSet<usize> = allocated.iter().map(|memory| memory.base).collect();
        for memory in &freed {
            if !own.contains(&memory.base) && life(self, memory.base) != Some(Life::Live) {
                let what = "launch of a graph that frees memory which is not allocated";
                return Err(self.fault(caller, Status::ERROR_INVALID_VALUE, what, memory.base));
            }
        }
        // Nothing refuses the launch any more.
        for memory in left {
            self.queue_release(stream, memory.base, last);
        }
        for memory in &allocated {
            if !self.counted.contains(&memory.base) {
                self.counted.insert(memory.base);
                self.devices[memory.device].graphs.add(memory.bytes);
            }
            self.set_life(memory.base, Life::Live);
        }
        for memory in &freed {
            self.set_life(memory.base, Life::Asleep);
        }
        Ok(())
    }

    /// Queues the release of memory in a stream, after the launch that used it.
    fn queue_release(&mut self, stream: usize, base: usize, last: Option<OperationId>) {
        let buffer_id = self.memory.get(base).map_or(0, |found| found.buffer_id);
        self.queue(stream, Work::Release { base, buffer_id }, &[base], None, last.as_slice());
    }

    /// Captures an allocation or a release.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`, or an error of the capture.
    pub(super) fn capture_allocation(
        &mut self,
        caller: &Caller,
        stream: usize,
        bytes: usize,
    ) -> Outcome<usize> {
        let context = self.stream(caller, stream)?.context;
        let device = self.context(context)?.device;
        if bytes == 0 {
            return Ok(0);
        }
        self.refuse_captured_memory(caller, stream)?;
        let memory = self.reserve(device, context, bytes, Vec::new())?;
        let base = memory.base;
        let captured = self.capture_step(stream, Step::Acquire(memory), &[base]);
        self.end_unused(caller, base);
        captured.map(|()| base)
    }

    /// Captures the release of memory that a graph allocates.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE` for other memory, or an error of the capture.
    pub(super) fn capture_release(
        &mut self,
        caller: &Caller,
        stream: usize,
        address: usize,
    ) -> Outcome<()> {
        let memory = self.memory_of_graph(caller, address)?;
        let graph = self.refuse_captured_memory(caller, stream)?;
        self.refuse_second_release(caller, graph, address)?;
        self.capture_step(stream, Step::Release(memory), &[address])
    }
}

impl Machine {
    /// Adds a node that allocates. Returns the node and the address.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`, `OUT_OF_MEMORY`; `NOT_SUPPORTED` in a graph inside another.
    pub fn add_allocation(
        &self,
        caller: &Caller,
        (graph, after): (usize, &[usize]),
        (device, context): (usize, usize),
        bytes: usize,
        peers: Vec<usize>,
    ) -> Outcome<(usize, usize)> {
        let mut state = self.lock();
        state.check_dependencies(caller, graph, after)?;
        state.refuse_memory_inside(caller, graph)?;
        let memory = state.reserve(device, context, bytes, peers)?;
        let base = memory.base;
        let touches = state.touches(&[base]);
        let draft = Draft { touches, ..Draft::of(Step::Acquire(memory)) };
        let added = state.add_node(caller, graph, after, draft);
        state.end_unused(caller, base);
        Ok((added?, base))
    }

    /// Adds a node that frees memory of a graph.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`, also for memory that the graph frees already; `NOT_SUPPORTED` in a graph inside another.
    pub fn add_release(
        &self,
        caller: &Caller,
        (graph, after): (usize, &[usize]),
        address: usize,
    ) -> Outcome<usize> {
        let mut state = self.lock();
        state.check_dependencies(caller, graph, after)?;
        state.refuse_memory_inside(caller, graph)?;
        let memory = state.memory_of_graph(caller, address)?;
        state.refuse_second_release(caller, graph, address)?;
        let touches = state.touches(&[address]);
        let draft = Draft { touches, ..Draft::of(Step::Release(memory)) };
        state.add_node(caller, graph, after, draft)
    }

    /// Returns what graphs use on a device.
    #[must_use]
    pub fn graph_usage(&self, device: usize) -> Usage {
        self.lock().devices[device].graphs
    }

    /// Sets the highest use so far to that of now.
    pub fn reset_graph_usage(&self, device: usize, reserved: bool) {
        let usage = &mut self.lock().devices[device].graphs;
        let pair = if reserved { &mut usage.reserved } else { &mut usage.used };
        pair.1 = pair.0;
    }

    /// Counts memory of graphs that is not allocated now as returned to the device.
    pub fn trim_graphs(&self, caller: &Caller, device: usize) {
        let mut state = self.lock();
        state.sweep_graph_memory(caller);
        let asleep: Vec<(usize, usize)> = state
            .reserved
            .values()
            .filter(|memory| memory.device == device && !state.awake.contains(&memory.base))
            .map(|memory| (memory.base, memory.bytes))
            .collect();
        for (base, bytes) in asleep {
            if state.counted.remove(&base) {
                state.devices[device].graphs.remove(bytes);
            }
        }
        let usage = &mut state.devices[device].graphs;
        usage.reserved.0 = usage.pieces;
    }
}
