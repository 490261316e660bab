//! Nodes of graphs: what they do, by type and by `CUgraphNodeParams`.

use super::copies::{Copy3, span};
use super::graphs::{check_edges, handles};
use super::launches::{Attribute, gather};
use super::pointer::{Address, In, Out};
use super::{Call, entry};
use crate::bytes::Pattern;
use crate::foreign::HostFunction;
use crate::machine::condition::Form;
use crate::machine::graph::{Draft, Given, Step};
use crate::machine::launch::Request;
use crate::machine::node_words::{Words, halves};
use crate::machine::operation::Work;
use crate::status::{Outcome, Status};

const KERNEL: i32 = 0;
const MEMCPY: i32 = 1;
const MEMSET: i32 = 2;
const HOST: i32 = 3;
const GRAPH: i32 = 4;
const EMPTY: i32 = 5;
const WAIT_EVENT: i32 = 6;
const EVENT_RECORD: i32 = 7;
/// `CU_GRAPH_NODE_TYPE_MEM_ALLOC` and `CU_GRAPH_NODE_TYPE_MEM_FREE`.
pub(super) const MEM_ALLOC: i32 = 10;
pub(super) const MEM_FREE: i32 = 11;
const CONDITIONAL: i32 = 13;

/// `CU_GRAPH_CHILD_GRAPH_OWNERSHIP_*`.
const CLONED: u32 = 0;
const MOVED: u32 = 1;

const INVALID: Status = Status::ERROR_INVALID_VALUE;

/// `CUgraphNodeParams`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Parameters {
    kind: i32,
    reserved: [i32; 3],
    words: Words,
    reserved_too: i64,
}

const _: () = {
    assert!(size_of::<Parameters>() == 256);
    assert!(std::mem::offset_of!(Parameters, words) == 16);
};

pub(super) fn number(word: u64) -> usize {
    usize::try_from(word).unwrap_or(0)
}

fn address(word: u64) -> Address {
    Address::at(number(word))
}

/// Returns words that begin with some, and are zero otherwise.
pub(super) fn words(first: &[u64]) -> Words {
    let mut words = [0; 29];
    words[..first.len()].copy_from_slice(first);
    words
}

/// Returns the words of a copy in a context.
fn copy_words(copy: &[u64; 25], context: usize) -> Words {
    let mut words = [0; 29];
    words[1] = context as u64;
    words[2..27].copy_from_slice(copy);
    words
}

/// Returns the words of a fill in a context.
fn fill_words(fill: [u64; 5], context: usize) -> Words {
    let mut words = words(&fill);
    words[5] = context as u64;
    words
}

impl Call {
    /// Makes a draft of a node from the words of its parameters. Nodes with graphs or memory of their own have none.
    fn draft(self, kind: i32, words: &Words) -> Outcome<Draft> {
        let machine = self.machine()?;
        match kind {
            KERNEL => self.draft_kernel(words),
            MEMCPY => {
                let given: [u64; 25] = std::array::from_fn(|index| words[index + 2]);
                let context = self.context_or_current(number(words[1]))?;
                let (target, source, shape) = Copy3::of_words(&given).operands(self)?;
                let both = (&target, &source);
                let draft = machine.draft_copy(&self.caller(), context, both, shape)?;
                Ok(Draft { given: Given::Copy(Box::new(given)), ..draft })
            }
            MEMSET => {
                let context = self.context_or_current(number(words[5]))?;
                let [value, size] = halves(words[2]);
                let pattern = match size {
                    1 => Pattern::Byte(u8::try_from(value & 0xFF).map_err(|_| INVALID)?),
                    2 => Pattern::Half(u16::try_from(value & 0xFFFF).map_err(|_| INVALID)?),
                    4 => Pattern::Word(value),
                    _ => return Err(INVALID),
                };
                let (pitch, width, height) = (number(words[1]), number(words[3]), number(words[4]));
                let bytes = span(width.saturating_mul(pattern.size()), height, pitch)?;
                let target = address(words[0]).device(bytes);
                let rows = (width, height, pitch);
                machine.draft_fill(&self.caller(), context, &target, pattern, rows)
            }
            HOST => {
                // SAFETY: (1) of the function that was called: the caller guarantees function and argument.
                let function = unsafe { HostFunction::at(number(words[0]), number(words[1])) };
                Ok(Draft::of(Step::Work(Work::Call(function.ok_or(INVALID)?))))
            }
            EMPTY => Ok(Draft::of(Step::Work(Work::Mark))),
            WAIT_EVENT | EVENT_RECORD => {
                let event = number(words[0]);
                let context = Some(machine.lock().event(&self.caller(), event)?.context);
                let step = if kind == WAIT_EVENT { Step::Wait(event) } else { Step::Record(event) };
                Ok(Draft { context, ..Draft::of(step) })
            }
            8 | 9 | 12 => Err(Status::ERROR_NOT_SUPPORTED),
            _ => Err(INVALID),
        }
    }

    fn draft_kernel(self, words: &Words) -> Outcome<Draft> {
        let machine = self.machine()?;
        // The kernel of a library counts only without a function.
        let (function, kernel) = (number(words[0]), number(words[7]));
        let handle = if function == 0 { kernel } else { function };
        let context = self.context_or_current(if function == 0 { number(words[8]) } else { 0 });
        if handle == 0 {
            return Err(Status::ERROR_INVALID_HANDLE);
        }
        let (x, y) = (halves(words[1]), halves(words[2]));
        let z = halves(words[3]);
        let (grid, block) = ([x[0], x[1], y[0]], [y[1], z[0], z[1]]);
        let [shared, _] = halves(words[4]);
        let context = machine.context_of_kernel(&self.caller(), handle, context)?;
        let kernel = machine.describe_in(&self.caller(), handle, context)?;
        let params = gather(&kernel, address(words[5]).as_in(), address(words[6]).as_in())?;
        let (admitted, spans) = (Vec::new(), Vec::new());
        // A node becomes cooperative by its attribute.
        let cooperative = false;
        let request = Request { kernel, grid, block, shared, cooperative, params, admitted, spans };
        machine.draft_launch(&self.caller(), handle, context, request)
    }

    /// Adds a node. Writes what the call returns in the words.
    pub(super) fn add(
        self,
        out: Out<usize>,
        (graph, after, count): (usize, In<usize>, usize),
        kind: i32,
        words: &mut Words,
    ) -> Outcome<()> {
        let machine = self.machine()?;
        out.required()?;
        let after = handles(after, count)?;
        let place = (graph, &after[..]);
        let node = match kind {
            GRAPH => {
                let moves = match halves(words[1]) {
                    [CLONED, _] => false,
                    [MOVED, _] => true,
                    _ => return Err(INVALID),
                };
                machine.add_child(&self.caller(), place, number(words[0]), moves)?
            }
            MEM_ALLOC => {
                let (node, base) = self.add_allocation(place, words)?;
                words[14] = base as u64;
                node
            }
            MEM_FREE => machine.add_release(&self.caller(), place, number(words[0]))?,
            CONDITIONAL => {
                let [form, count] = halves(words[1]);
                let form = Form::new(form.cast_signed(), count)?;
                let condition = (number(words[0]), number(words[3]));
                let (node, bodies) =
                    machine.add_branch(&self.caller(), place, condition, (form, count))?;
                words[2] = bodies as u64;
                node
            }
            _ => machine.add_node(&self.caller(), place, self.draft(kind, words)?)?,
        };
        out.put(node)
    }

    fn add_allocation(self, place: (usize, &[usize]), words: &Words) -> Outcome<(usize, usize)> {
        let [allocation, handles] = halves(words[0]);
        let [location, device] = halves(words[1]);
        match (allocation, location) {
            (1, 1) if handles == 0 => {}
            (1 | 2, 0..=4) => return Err(Status::ERROR_NOT_SUPPORTED),
            _ => return Err(INVALID),
        }
        let device = self.device(device.cast_signed()).map_err(|_| INVALID)?;
        let descriptions: In<[u32; 3]> = address(words[11]).as_in();
        let mut peers = Vec::new();
        for [kind, peer, flags] in descriptions.list(number(words[12]))? {
            if (kind, flags) != (1, 3) {
                return Err(INVALID);
            }
            peers.push(self.device(peer.cast_signed()).map_err(|_| INVALID)?);
        }
        let owner = (device, self.context()?);
        self.machine()?.add_allocation(&self.caller(), place, owner, number(words[13]), peers)
    }

    /// Returns the words of a node of this type.
    pub(super) fn words_of(self, node: usize, kind: i32) -> Outcome<Words> {
        match self.machine()?.node_words(&self.caller(), node)? {
            (found, words) if found == kind => Ok(words),
            _ => Err(INVALID),
        }
    }

    fn set(self, node: usize, kind: i32, words: &Words) -> Outcome<()> {
        let machine = self.machine()?;
        if machine.node_kind(&self.caller(), node)? != kind {
            return Err(INVALID);
        }
        match kind {
            GRAPH => machine.set_child(&self.caller(), node, number(words[0])),
            MEM_ALLOC | MEM_FREE | CONDITIONAL => Err(Status::ERROR_NOT_SUPPORTED),
            _ => machine.set_node(&self.caller(), node, self.draft(kind, words)?),
        }
    }

    fn set_executable(
        self,
        executable: usize,
        node: usize,
        kind: i32,
        words: &Words,
    ) -> Outcome<()> {
        let machine = self.machine()?;
        match kind {
            GRAPH => machine.update_child(&self.caller(), executable, node, number(words[0])),
            MEM_ALLOC | MEM_FREE | CONDITIONAL => Err(Status::ERROR_NOT_SUPPORTED),
            _ => {
                let draft = self.draft(kind, words)?;
                machine.set_executable_node(&self.caller(), executable, node, draft)
            }
        }
    }
}

entry! {
    /// Adds a node that launches a kernel.
    fn cuGraphAddKernelNode(node: Out<usize>, graph: usize, after: In<usize>, count: usize, parameters: In<[u64; 7]>) |call| {
        call.add(node, (graph, after, count), KERNEL, &mut words(&parameters.get()?))
    }
}

entry! {
    /// Adds a node that launches a kernel.
    fn cuGraphAddKernelNode_v2(node: Out<usize>, graph: usize, after: In<usize>, count: usize, parameters: In<[u64; 9]>) |call| {
        call.add(node, (graph, after, count), KERNEL, &mut words(&parameters.get()?))
    }
}

entry! {
    /// Returns what a kernel node launches.
    fn cuGraphKernelNodeGetParams(node: usize, parameters: Out<[u64; 7]>) |call| {
        let found = call.words_of(node, KERNEL)?;
        parameters.put(std::array::from_fn(|index| found[index]))
    }
}

entry! {
    /// Returns what a kernel node launches.
    fn cuGraphKernelNodeGetParams_v2(node: usize, parameters: Out<[u64; 9]>) |call| {
        let found = call.words_of(node, KERNEL)?;
        parameters.put(std::array::from_fn(|index| found[index]))
    }
}

entry! {
    /// Sets what a kernel node launches.
    fn cuGraphKernelNodeSetParams(node: usize, parameters: In<[u64; 7]>) |call| {
        call.set(node, KERNEL, &words(&parameters.get()?))
    }
}

entry! {
    /// Sets what a kernel node launches.
    fn cuGraphKernelNodeSetParams_v2(node: usize, parameters: In<[u64; 9]>) |call| {
        call.set(node, KERNEL, &words(&parameters.get()?))
    }
}

entry! {
    /// Sets what a kernel node of an executable graph launches.
    fn cuGraphExecKernelNodeSetParams(executable: usize, node: usize, parameters: In<[u64; 7]>) |call| {
        call.set_executable(executable, node, KERNEL, &words(&parameters.get()?))
    }
}

entry! {
    /// Sets what a kernel node of an executable graph launches.
    fn cuGraphExecKernelNodeSetParams_v2(executable: usize, node: usize, parameters: In<[u64; 9]>) |call| {
        call.set_executable(executable, node, KERNEL, &words(&parameters.get()?))
    }
}

/// The value of an attribute.
type Value = [u32; 16];

entry! {
    /// Sets an attribute of a kernel node. All but one are only stored.
    fn cuGraphKernelNodeSetAttribute(node: usize, id: i32, value: In<Value>) |call| {
        let value = value.get()?;
        call.machine()?.with_node(&call.caller(), node, KERNEL, |_| Ok(()))?;
        call.check_attribute(&Attribute::new(id, value))?;
        call.machine()?.with_node(&call.caller(), node, KERNEL, |node| {
            node.set_attribute(id, value)
        })
    }
}

entry! {
    /// Returns an attribute of a kernel node: zeros, unless it was set.
    fn cuGraphKernelNodeGetAttribute(node: usize, id: i32, value: Out<Value>) |call| {
        value.required()?;
        let found = call.machine()?.with_node(&call.caller(), node, KERNEL, |node| {
            if !(0..=64).contains(&id) {
                return Err(INVALID);
            }
            Ok(node.attribute(id))
        })?;
        value.put(found)
    }
}

entry! {
    /// Copies the attributes of a kernel node to another.
    fn cuGraphKernelNodeCopyAttributes(target: usize, source: usize) |call| {
        let (machine, caller) = (call.machine()?, call.caller());
        let source = machine.with_node(&caller, source, KERNEL, |node| Ok(node.clone()))?;
        machine.with_node(&caller, target, KERNEL, |node| node.copy_attributes(&source))
    }
}

entry! {
    /// Adds a node that copies.
    fn cuGraphAddMemcpyNode(
        node: Out<usize>,
        graph: usize,
        after: In<usize>,
        count: usize,
        copy: In<[u64; 25]>,
        context: usize,
    ) |call| {
        call.add(node, (graph, after, count), MEMCPY, &mut copy_words(&copy.get()?, context))
    }
}

entry! {
    /// Returns what a node copies.
    fn cuGraphMemcpyNodeGetParams(node: usize, copy: Out<[u64; 25]>) |call| {
        let found = call.words_of(node, MEMCPY)?;
        copy.put(std::array::from_fn(|index| found[index + 2]))
    }
}

entry! {
    /// Sets what a node copies.
    fn cuGraphMemcpyNodeSetParams(node: usize, copy: In<[u64; 25]>) |call| {
        let context = number(call.words_of(node, MEMCPY)?[1]);
        call.set(node, MEMCPY, &copy_words(&copy.get()?, context))
    }
}

entry! {
    /// Sets what a node of an executable graph copies.
    fn cuGraphExecMemcpyNodeSetParams(executable: usize, node: usize, copy: In<[u64; 25]>, context: usize) |call| {
        call.set_executable(executable, node, MEMCPY, &copy_words(&copy.get()?, context))
    }
}

entry! {
    /// Adds a node that fills.
    fn cuGraphAddMemsetNode(
        node: Out<usize>,
        graph: usize,
        after: In<usize>,
        count: usize,
        fill: In<[u64; 5]>,
        context: usize,
    ) |call| {
        call.add(node, (graph, after, count), MEMSET, &mut fill_words(fill.get()?, context))
    }
}

entry! {
    /// Returns what a node fills.
    fn cuGraphMemsetNodeGetParams(node: usize, fill: Out<[u64; 5]>) |call| {
        let found = call.words_of(node, MEMSET)?;
        fill.put(std::array::from_fn(|index| found[index]))
    }
}

entry! {
    /// Sets what a node fills.
    fn cuGraphMemsetNodeSetParams(node: usize, fill: In<[u64; 5]>) |call| {
        let context = number(call.words_of(node, MEMSET)?[5]);
        call.set(node, MEMSET, &fill_words(fill.get()?, context))
    }
}

entry! {
    /// Sets what a node of an executable graph fills.
    fn cuGraphExecMemsetNodeSetParams(executable: usize, node: usize, fill: In<[u64; 5]>, context: usize) |call| {
        call.set_executable(executable, node, MEMSET, &fill_words(fill.get()?, context))
    }
}

entry! {
    /// Adds a node that calls a host function.
    fn cuGraphAddHostNode(node: Out<usize>, graph: usize, after: In<usize>, count: usize, function: In<[u64; 2]>) |call| {
        call.add(node, (graph, after, count), HOST, &mut words(&function.get()?))
    }
}

entry! {
    /// Returns the function that a node calls.
    fn cuGraphHostNodeGetParams(node: usize, function: Out<[u64; 2]>) |call| {
        let found = call.words_of(node, HOST)?;
        function.put([found[0], found[1]])
    }
}

entry! {
    /// Sets the function that a node calls.
    fn cuGraphHostNodeSetParams(node: usize, function: In<[u64; 2]>) |call| {
        call.set(node, HOST, &words(&function.get()?))
    }
}

entry! {
    /// Sets the function that a node of an executable graph calls.
    fn cuGraphExecHostNodeSetParams(executable: usize, node: usize, function: In<[u64; 2]>) |call| {
        call.set_executable(executable, node, HOST, &words(&function.get()?))
    }
}

entry! {
    /// Adds a node that runs a copy of a graph.
    fn cuGraphAddChildGraphNode(node: Out<usize>, graph: usize, after: In<usize>, count: usize, child: usize) |call| {
        call.add(node, (graph, after, count), GRAPH, &mut words(&[child as u64]))
    }
}

entry! {
    /// Returns the graph of a child node.
    fn cuGraphChildGraphNodeGetGraph(node: usize, graph: Out<usize>) |call| {
        graph.put(number(call.words_of(node, GRAPH)?[0]))
    }
}

entry! {
    /// Sets the graph of a child node of an executable graph, to one of the same shape.
    fn cuGraphExecChildGraphNodeSetParams(executable: usize, node: usize, child: usize) |call| {
        call.set_executable(executable, node, GRAPH, &words(&[child as u64]))
    }
}

entry! {
    /// Adds a node that does nothing.
    fn cuGraphAddEmptyNode(node: Out<usize>, graph: usize, after: In<usize>, count: usize) |call| {
        call.add(node, (graph, after, count), EMPTY, &mut words(&[]))
    }
}

entry! {
    /// Adds a node that records an event.
    fn cuGraphAddEventRecordNode(node: Out<usize>, graph: usize, after: In<usize>, count: usize, event: usize) |call| {
        call.add(node, (graph, after, count), EVENT_RECORD, &mut words(&[event as u64]))
    }
}

entry! {
    /// Adds a node that waits for an event.
    fn cuGraphAddEventWaitNode(node: Out<usize>, graph: usize, after: In<usize>, count: usize, event: usize) |call| {
        call.add(node, (graph, after, count), WAIT_EVENT, &mut words(&[event as u64]))
    }
}

entry! {
    /// Returns the event that a node records.
    fn cuGraphEventRecordNodeGetEvent(node: usize, event: Out<usize>) |call| {
        event.put(number(call.words_of(node, EVENT_RECORD)?[0]))
    }
}

entry! {
    /// Returns the event that a node waits for.
    fn cuGraphEventWaitNodeGetEvent(node: usize, event: Out<usize>) |call| {
        event.put(number(call.words_of(node, WAIT_EVENT)?[0]))
    }
}

entry! {
    /// Sets the event that a node records.
    fn cuGraphEventRecordNodeSetEvent(node: usize, event: usize) |call| {
        call.set(node, EVENT_RECORD, &words(&[event as u64]))
    }
}

entry! {
    /// Sets the event that a node waits for.
    fn cuGraphEventWaitNodeSetEvent(node: usize, event: usize) |call| {
        call.set(node, WAIT_EVENT, &words(&[event as u64]))
    }
}

entry! {
    /// Sets the event that a node of an executable graph records.
    fn cuGraphExecEventRecordNodeSetEvent(executable: usize, node: usize, event: usize) |call| {
        call.set_executable(executable, node, EVENT_RECORD, &words(&[event as u64]))
    }
}

entry! {
    /// Sets the event that a node of an executable graph waits for.
    fn cuGraphExecEventWaitNodeSetEvent(executable: usize, node: usize, event: usize) |call| {
        call.set_executable(executable, node, WAIT_EVENT, &words(&[event as u64]))
    }
}

impl Call {
    fn add_by_parameters(
        self,
        node: Out<usize>,
        place: (usize, In<usize>, usize),
        parameters: Out<Parameters>,
    ) -> Outcome<()> {
        let mut changed = parameters.take()?;
        self.add(node, place, changed.kind, &mut changed.words)?;
        parameters.put(changed)
    }
}

entry! {
    /// Adds a node of any type.
    fn cuGraphAddNode(node: Out<usize>, graph: usize, after: In<usize>, count: usize, parameters: Out<Parameters>) |call| {
        call.add_by_parameters(node, (graph, after, count), parameters)
    }
}

entry! {
    /// Adds a node of any type.
    fn cuGraphAddNode_v2(
        node: Out<usize>,
        graph: usize,
        after: In<usize>,
        edges: In<u64>,
        count: usize,
        parameters: Out<Parameters>,
    ) |call| {
        check_edges(edges, count)?;
        call.add_by_parameters(node, (graph, after, count), parameters)
    }
}

entry! {
    /// Sets what a node does.
    fn cuGraphNodeSetParams(node: usize, parameters: In<Parameters>) |call| {
        let given = parameters.get()?;
        call.set(node, given.kind, &given.words)
    }
}

entry! {
    /// Returns what a node does.
    fn cuGraphNodeGetParams(node: usize, parameters: Out<Parameters>) |call| {
        parameters.required()?;
        let (kind, words) = call.machine()?.node_words(&call.caller(), node)?;
        parameters.put(Parameters { kind, reserved: [0; 3], words, reserved_too: 0 })
    }
}

entry! {
    /// Sets what a node of an executable graph does.
    fn cuGraphExecNodeSetParams(executable: usize, node: usize, parameters: In<Parameters>) |call| {
        let given = parameters.get()?;
        call.set_executable(executable, node, given.kind, &given.words)
    }
}
