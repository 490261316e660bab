//! Graphs: whole ones, and the order of their nodes.

use std::ffi::{c_char, c_int, c_uint, c_void};

use crate::driver::HostFunction;
use crate::wire::{Handle, In, Maybe, Out, forward};

forward! {
    /// Creates an empty graph.
    fn cudaGraphCreate(graph: Out<Handle>, flags: c_uint) = cuGraphCreate(graph, flags);
    /// Copies a graph.
    fn cudaGraphClone(clone: Out<Handle>, graph: Handle) = cuGraphClone(clone, graph);
    /// Destroys a graph.
    fn cudaGraphDestroy(graph: Handle) = cuGraphDestroy(graph);
    /// Makes an executable graph.
    fn cudaGraphInstantiate(executable: Out<Handle>, graph: Handle, flags: u64)
        = cuGraphInstantiateWithFlags(executable, graph, flags);
    /// Makes an executable graph, with flags.
    fn cudaGraphInstantiateWithFlags(executable: Out<Handle>, graph: Handle, flags: u64)
        = cuGraphInstantiateWithFlags(executable, graph, flags);
    /// Makes an executable graph, and says what went wrong.
    fn cudaGraphInstantiateWithParams(executable: Out<Handle>, graph: Handle, parameters: Out<c_void>)
        = cuGraphInstantiateWithParams(executable, graph, parameters);
    /// Destroys an executable graph.
    fn cudaGraphExecDestroy(executable: Handle) = cuGraphExecDestroy(executable);
    /// Returns the flags of an executable graph.
    fn cudaGraphExecGetFlags(executable: Handle, flags: Out<u64>) = cuGraphExecGetFlags(executable, flags);
    /// Updates an executable graph from a graph of the same form.
    fn cudaGraphExecUpdate(executable: Handle, graph: Handle, result: Out<c_void>)
        = cuGraphExecUpdate_v2(executable, graph, result);
    /// Launches an executable graph.
    fn cudaGraphLaunch(executable: Handle, stream: Handle) = cuGraphLaunch(executable, stream);
    /// Prepares the launch of an executable graph.
    fn cudaGraphUpload(executable: Handle, stream: Handle) = cuGraphUpload(executable, stream);
    /// Returns the nodes of a graph, or their number.
    fn cudaGraphGetNodes(graph: Handle, nodes: Maybe<Handle>, count: Out<usize>) = cuGraphGetNodes(graph, nodes, count);
    /// Returns the nodes of a graph that wait for no other, or their number.
    fn cudaGraphGetRootNodes(graph: Handle, nodes: Maybe<Handle>, count: Out<usize>)
        = cuGraphGetRootNodes(graph, nodes, count);
    /// Returns which nodes wait for which, or how many such pairs there are.
    fn cudaGraphGetEdges(graph: Handle, from: Maybe<Handle>, to: Maybe<Handle>, count: Out<usize>)
        = cuGraphGetEdges(graph, from, to, count);
    /// Makes nodes wait for others.
    fn cudaGraphAddDependencies(graph: Handle, from: *const Handle, to: *const Handle, count: usize)
        = cuGraphAddDependencies(graph, from, to, count);
    /// Makes nodes no longer wait for others.
    fn cudaGraphRemoveDependencies(graph: Handle, from: *const Handle, to: *const Handle, count: usize)
        = cuGraphRemoveDependencies(graph, from, to, count);
    /// Returns the type of a node.
    fn cudaGraphNodeGetType(node: Handle, kind: Out<c_int>) = cuGraphNodeGetType(node, kind);
    /// Returns the nodes that a node waits for, or their number.
    fn cudaGraphNodeGetDependencies(node: Handle, nodes: Maybe<Handle>, count: Out<usize>)
        = cuGraphNodeGetDependencies(node, nodes, count);
    /// Returns the nodes that wait for a node, or their number.
    fn cudaGraphNodeGetDependentNodes(node: Handle, nodes: Maybe<Handle>, count: Out<usize>)
        = cuGraphNodeGetDependentNodes(node, nodes, count);
    /// Returns the copy of a node in a copied graph.
    fn cudaGraphNodeFindInClone(found: Out<Handle>, node: Handle, clone: Handle)
        = cuGraphNodeFindInClone(found, node, clone);
    /// Switches a node of an executable graph on or off.
    fn cudaGraphNodeSetEnabled(executable: Handle, node: Handle, on: c_uint)
        = cuGraphNodeSetEnabled(executable, node, on);
    /// Returns whether a node of an executable graph is on.
    fn cudaGraphNodeGetEnabled(executable: Handle, node: Handle, on: Out<c_uint>)
        = cuGraphNodeGetEnabled(executable, node, on);
    /// Removes a node.
    fn cudaGraphDestroyNode(node: Handle) = cuGraphDestroyNode(node);
    /// Writes a graph to a file, as text for Graphviz.
    fn cudaGraphDebugDotPrint(graph: Handle, path: In<c_char>, flags: c_uint)
        = cuGraphDebugDotPrint(graph, path, flags);
    /// Counts references to data of the caller, and destroys it with the last.
    fn cudaUserObjectCreate(object: Out<Handle>, data: *mut c_void, destroy: HostFunction, count: c_uint, flags: c_uint)
        = cuUserObjectCreate(object, data, destroy, count, flags);
    /// Adds references to a user object.
    fn cudaUserObjectRetain(object: Handle, count: c_uint) = cuUserObjectRetain(object, count);
    /// Drops references to a user object.
    fn cudaUserObjectRelease(object: Handle, count: c_uint) = cuUserObjectRelease(object, count);
    /// Gives references to a user object to a graph.
    fn cudaGraphRetainUserObject(graph: Handle, object: Handle, count: c_uint, flags: c_uint)
        = cuGraphRetainUserObject(graph, object, count, flags);
    /// Drops references of a graph to a user object.
    fn cudaGraphReleaseUserObject(graph: Handle, object: Handle, count: c_uint)
        = cuGraphReleaseUserObject(graph, object, count);
}
