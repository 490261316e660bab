//! Graphs made by hand: nodes, edges, copies, updates.

use std::ffi::c_char;
use std::fs;

use super::pointer::{In, Out};
use super::{Call, entry};
use crate::machine::graph_update::{Failed, Verdict};
use crate::status::{Outcome, Status};

/// Reads handles of nodes.
pub(super) fn handles(nodes: In<usize>, count: usize) -> Outcome<Vec<usize>> {
    nodes.list(count)
}

/// Refuses edges with data: ports, and kernels that begin before the one before them has ended.
pub(super) fn check_edges(edges: In<u64>, count: usize) -> Outcome<()> {
    if edges.is_null() || edges.list(count)?.iter().all(|data| *data == 0) {
        return Ok(());
    }
    Err(Status::ERROR_NOT_SUPPORTED)
}

/// Writes as many values as there is room for, or the number of them if the caller gave no place for any.
fn put_some(found: &[usize], nodes: Out<usize>, count: Out<usize>) -> Outcome<()> {
    if nodes.is_null() {
        return count.put(found.len());
    }
    let room = count.take()?;
    // SAFETY: (1): the caller has room for as many nodes as it said.
    unsafe { nodes.put_all(found.iter().copied().chain(std::iter::repeat(0)).take(room)) };
    count.put(room.min(found.len()))
}

/// Writes zeros, the data of edges without any.
fn put_zeros(edges: Out<u64>, count: usize) {
    edges.put_list(std::iter::repeat_n(0, count));
}

entry! {
    /// Creates an empty graph.
    fn cuGraphCreate(graph: Out<usize>, flags: u32) |call| {
        let machine = call.machine()?;
        graph.required()?;
        if flags != 0 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        graph.put(machine.create_graph())
    }
}

entry! {
    /// Destroys a graph.
    fn cuGraphDestroy(graph: usize) |call| { call.machine()?.destroy_graph(&call.caller(), graph) }
}

entry! {
    /// Copies a graph.
    fn cuGraphClone(copy: Out<usize>, graph: usize) |call| {
        let machine = call.machine()?;
        copy.required()?;
        copy.put(machine.copy_graph(&call.caller(), graph)?)
    }
}

entry! {
    /// Returns the copy of a node in a copy of its graph.
    fn cuGraphNodeFindInClone(copy: Out<usize>, original: usize, graph: usize) |call| {
        let machine = call.machine()?;
        copy.required()?;
        copy.put(machine.find_copy(&call.caller(), original, graph)?)
    }
}

entry! {
    /// Destroys an executable graph.
    fn cuGraphExecDestroy(executable: usize) |call| {
        call.machine()?.destroy_executable(&call.caller(), executable)
    }
}

entry! {
    /// Returns up to `count` nodes of a graph, or the number of nodes.
    fn cuGraphGetNodes(graph: usize, nodes: Out<usize>, count: Out<usize>) |call| {
        put_some(&call.machine()?.graph_nodes(&call.caller(), graph, false)?, nodes, count)
    }
}

entry! {
    /// Returns up to `count` nodes without dependencies, or the number of them.
    fn cuGraphGetRootNodes(graph: usize, nodes: Out<usize>, count: Out<usize>) |call| {
        put_some(&call.machine()?.graph_nodes(&call.caller(), graph, true)?, nodes, count)
    }
}

impl Call {
    fn put_edges(
        self,
        graph: usize,
        (from, to): (Out<usize>, Out<usize>),
        edges: Out<u64>,
        count: Out<usize>,
    ) -> Outcome<()> {
        let found = self.machine()?.graph_edges(&self.caller(), graph)?;
        count.required()?;
        if from.is_null() != to.is_null() {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        if from.is_null() {
            return count.put(found.len());
        }
        let room = count.take()?;
        let (starts, ends): (Vec<usize>, Vec<usize>) = found.into_iter().unzip();
        put_some(&starts, from, count)?;
        count.put(room)?;
        put_some(&ends, to, count)?;
        put_zeros(edges, room);
        Ok(())
    }

    fn put_neighbours(
        self,
        node: usize,
        before: bool,
        (nodes, edges): (Out<usize>, Out<u64>),
        count: Out<usize>,
    ) -> Outcome<()> {
        let found = self.machine()?.neighbours(&self.caller(), node, before)?;
        count.required()?;
        let room = if nodes.is_null() { 0 } else { count.take()? };
        put_some(&found, nodes, count)?;
        put_zeros(edges, room);
        Ok(())
    }

    fn change_edges(
        self,
        graph: usize,
        (from, to): (In<usize>, In<usize>),
        count: usize,
        adds: bool,
    ) -> Outcome<()> {
        let machine = self.machine()?;
        let edges: Vec<(usize, usize)> =
            handles(from, count)?.into_iter().zip(handles(to, count)?).collect();
        if adds {
            machine.add_edges(&self.caller(), graph, &edges)
        } else {
            machine.remove_edges(&self.caller(), graph, &edges)
        }
    }
}

entry! {
    /// Returns up to `count` edges of a graph, or the number of edges.
    fn cuGraphGetEdges(graph: usize, from: Out<usize>, to: Out<usize>, count: Out<usize>) |call| {
        call.put_edges(graph, (from, to), Out::nowhere(), count)
    }
}

entry! {
    /// Returns up to `count` edges of a graph, or the number of edges. No edge has data.
    fn cuGraphGetEdges_v2(graph: usize, from: Out<usize>, to: Out<usize>, edges: Out<u64>, count: Out<usize>) |call| {
        call.put_edges(graph, (from, to), edges, count)
    }
}

entry! {
    /// Returns what a node depends on.
    fn cuGraphNodeGetDependencies(node: usize, nodes: Out<usize>, count: Out<usize>) |call| {
        call.put_neighbours(node, true, (nodes, Out::nowhere()), count)
    }
}

entry! {
    /// Returns what a node depends on.
    fn cuGraphNodeGetDependencies_v2(node: usize, nodes: Out<usize>, edges: Out<u64>, count: Out<usize>) |call| {
        call.put_neighbours(node, true, (nodes, edges), count)
    }
}

entry! {
    /// Returns what depends on a node.
    fn cuGraphNodeGetDependentNodes(node: usize, nodes: Out<usize>, count: Out<usize>) |call| {
        call.put_neighbours(node, false, (nodes, Out::nowhere()), count)
    }
}

entry! {
    /// Returns what depends on a node.
    fn cuGraphNodeGetDependentNodes_v2(node: usize, nodes: Out<usize>, edges: Out<u64>, count: Out<usize>) |call| {
        call.put_neighbours(node, false, (nodes, edges), count)
    }
}

entry! {
    /// Adds edges.
    fn cuGraphAddDependencies(graph: usize, from: In<usize>, to: In<usize>, count: usize) |call| {
        call.change_edges(graph, (from, to), count, true)
    }
}

entry! {
    /// Adds edges.
    fn cuGraphAddDependencies_v2(graph: usize, from: In<usize>, to: In<usize>, edges: In<u64>, count: usize) |call| {
        check_edges(edges, count)?;
        call.change_edges(graph, (from, to), count, true)
    }
}

entry! {
    /// Removes edges.
    fn cuGraphRemoveDependencies(graph: usize, from: In<usize>, to: In<usize>, count: usize) |call| {
        call.change_edges(graph, (from, to), count, false)
    }
}

entry! {
    /// Removes edges.
    fn cuGraphRemoveDependencies_v2(graph: usize, from: In<usize>, to: In<usize>, edges: In<u64>, count: usize) |call| {
        check_edges(edges, count)?;
        call.change_edges(graph, (from, to), count, false)
    }
}

entry! {
    /// Removes a node.
    fn cuGraphDestroyNode(node: usize) |call| { call.machine()?.destroy_node(&call.caller(), node) }
}

entry! {
    /// Returns the type of a node.
    fn cuGraphNodeGetType(node: usize, kind: Out<i32>) |call| {
        kind.put(call.machine()?.node_kind(&call.caller(), node)?)
    }
}

entry! {
    /// Returns the graph of a node.
    fn cuGraphNodeGetContainingGraph(node: usize, graph: Out<usize>) |call| {
        graph.put(call.machine()?.graph_of(&call.caller(), node)?)
    }
}

entry! {
    /// Returns the number of a node in its graph.
    fn cuGraphNodeGetLocalId(node: usize, number: Out<u32>) |call| {
        number.put(call.machine()?.node_numbers(&call.caller(), node)?.0)
    }
}

entry! {
    /// Returns the number of a node among all nodes.
    fn cuGraphNodeGetToolsId(node: usize, number: Out<u64>) |call| {
        number.put(call.machine()?.node_numbers(&call.caller(), node)?.1)
    }
}

entry! {
    /// Returns the number of a graph.
    fn cuGraphGetId(graph: usize, number: Out<u32>) |call| {
        let found = call.machine()?.graph_number(&call.caller(), graph)?;
        number.put(u32::try_from(found).unwrap_or(u32::MAX))
    }
}

entry! {
    /// Returns the number of an executable graph.
    fn cuGraphExecGetId(executable: usize, number: Out<u32>) |call| {
        let (_, found) = call.machine()?.executable_facts(&call.caller(), executable)?;
        number.put(u32::try_from(found).unwrap_or(u32::MAX))
    }
}

entry! {
    /// Returns the flags with which a graph was instantiated.
    fn cuGraphExecGetFlags(executable: usize, flags: Out<u64>) |call| {
        flags.put(call.machine()?.executable_facts(&call.caller(), executable)?.0)
    }
}

entry! {
    /// Sets whether a node of an executable graph does anything.
    fn cuGraphNodeSetEnabled(executable: usize, node: usize, on: u32) |call| {
        call.machine()?.enable(&call.caller(), executable, node, on != 0)
    }
}

entry! {
    /// Returns whether a node of an executable graph does anything.
    fn cuGraphNodeGetEnabled(executable: usize, node: usize, on: Out<u32>) |call| {
        on.put(u32::from(call.machine()?.is_enabled(&call.caller(), executable, node)?))
    }
}

/// `CUgraphExecUpdateResultInfo`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct UpdateResult {
    result: i32,
    node: usize,
    from: usize,
}

impl Call {
    /// Updates an executable graph. Returns the status, and what the result says.
    fn update(self, executable: usize, graph: usize) -> Outcome<(Outcome<()>, Failed)> {
        let updated = self.machine()?.update_executable(&self.caller(), executable, graph);
        let said = |verdict| Failed { verdict, node: 0, before: 0 };
        Ok(match updated {
            Ok(Ok(())) => (Ok(()), said(Verdict::Success)),
            Ok(Err(failed)) => (Err(Status::ERROR_GRAPH_EXEC_UPDATE_FAILURE), failed),
            Err(status) => (Err(status), said(Verdict::Error)),
        })
    }
}

entry! {
    /// Makes an executable graph do what another graph of the same shape does.
    fn cuGraphExecUpdate(executable: usize, graph: usize, node: Out<usize>, result: Out<i32>) |call| {
        let (status, failed) = call.update(executable, graph)?;
        node.offer(failed.node);
        result.offer(failed.verdict as i32);
        status
    }
}

entry! {
    /// Makes an executable graph do what another graph of the same shape does.
    fn cuGraphExecUpdate_v2(executable: usize, graph: usize, info: Out<UpdateResult>) |call| {
        info.required()?;
        let (status, failed) = call.update(executable, graph)?;
        let Failed { verdict, node, before } = failed;
        info.offer(UpdateResult { result: verdict as i32, node, from: before });
        status
    }
}

entry! {
    /// Writes a graph to a file in the language of Graphviz.
    fn cuGraphDebugDotPrint(graph: usize, path: In<c_char>, flags: u32) |call| {
        let text = call.machine()?.draw(&call.caller(), graph, flags)?;
        let path = path.text()?.to_str().map_err(|_| Status::ERROR_INVALID_VALUE)?;
        fs::write(path, text).map_err(|_| Status::ERROR_OPERATING_SYSTEM)
    }
}
