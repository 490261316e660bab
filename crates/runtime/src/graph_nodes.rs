//! Nodes of graphs.

use std::ffi::{c_int, c_uint, c_void};

use crate::driver::{KernelNode, MemsetNode};
use crate::error::Outcome;
use crate::launch::Dim3;
use crate::registry;
use crate::slices::{Copy3dParameters, copy_of};
use crate::state::{Here, here};
use crate::wire::{Handle, In, Out, forward, runtime};

/// `cudaKernelNodeParams`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KernelNodeParameters {
    function: *const c_void,
    grid: Dim3,
    block: Dim3,
    shared: c_uint,
    arguments: *mut *mut c_void,
    extra: *mut *mut c_void,
}

impl KernelNodeParameters {
    /// Returns the driver's form of it.
    fn for_driver(&self, here: Here) -> Outcome<KernelNode> {
        Ok(KernelNode {
            function: registry::kernel(here, self.function)?,
            grid: self.grid.list(),
            block: self.block.list(),
            shared: self.shared,
            arguments: self.arguments,
            extra: self.extra,
            // The function says what to launch, and the current context where.
            kernel: 0,
            context: 0,
        })
    }
}

/// `cudaMemsetParams`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MemsetParameters {
    address: u64,
    pitch: usize,
    value: c_uint,
    element: c_uint,
    width: usize,
    height: usize,
}

impl MemsetParameters {
    /// Returns the driver's form of it.
    fn for_driver(&self) -> MemsetNode {
        MemsetNode {
            address: self.address,
            pitch: self.pitch,
            value: self.value,
            element: self.element,
            width: self.width,
            height: self.height,
        }
    }
}

runtime! {
    /// Adds a launch to a graph.
    fn cudaGraphAddKernelNode(node: Out<Handle>, graph: Handle, after: *const Handle, count: usize, parameters: In<KernelNodeParameters>) {
        node.required()?;
        let here = here()?;
        let passed = parameters.get()?.for_driver(here)?;
        // SAFETY: there is a place for one node; the caller's lists are as documented; the kernel is loaded.
        unsafe { here.driver.cuGraphAddKernelNode_v2(node.raw(), graph, after, count, &raw const passed) }
    }

    /// Changes a launch of a graph.
    fn cudaGraphKernelNodeSetParams(node: Handle, parameters: In<KernelNodeParameters>) {
        let here = here()?;
        let passed = parameters.get()?.for_driver(here)?;
        // SAFETY: the caller's node is alive; the kernel is loaded.
        unsafe { here.driver.cuGraphKernelNodeSetParams_v2(node, &raw const passed) }
    }

    /// Changes a launch of an executable graph.
    fn cudaGraphExecKernelNodeSetParams(executable: Handle, node: Handle, parameters: In<KernelNodeParameters>) {
        let here = here()?;
        let passed = parameters.get()?.for_driver(here)?;
        // SAFETY: the caller's handles are alive; the kernel is loaded.
        unsafe { here.driver.cuGraphExecKernelNodeSetParams_v2(executable, node, &raw const passed) }
    }

    /// Adds a fill to a graph.
    fn cudaGraphAddMemsetNode(node: Out<Handle>, graph: Handle, after: *const Handle, count: usize, parameters: In<MemsetParameters>) {
        node.required()?;
        let here = here()?;
        let passed = parameters.get()?.for_driver();
        // SAFETY: there is a place for one node; the caller's lists are as documented.
        unsafe {
            here.driver.cuGraphAddMemsetNode(
                node.raw(), graph, after, count, &raw const passed, here.context,
            )
        }
    }

    /// Changes a fill of an executable graph.
    fn cudaGraphExecMemsetNodeSetParams(executable: Handle, node: Handle, parameters: In<MemsetParameters>) {
        let here = here()?;
        let passed = parameters.get()?.for_driver();
        // SAFETY: the caller's handles are alive.
        unsafe {
            here.driver.cuGraphExecMemsetNodeSetParams(executable, node, &raw const passed, here.context)
        }
    }

    /// Adds a copy to a graph.
    fn cudaGraphAddMemcpyNode(node: Out<Handle>, graph: Handle, after: *const Handle, count: usize, parameters: In<Copy3dParameters>) {
        node.required()?;
        let here = here()?;
        let passed = copy_of(&parameters.get()?)?;
        // SAFETY: there is a place for one node; the caller's lists and host addresses are as documented.
        unsafe {
            here.driver.cuGraphAddMemcpyNode(
                node.raw(), graph, after, count, &raw const passed, here.context,
            )
        }
    }

    /// Adds a copy of bytes to a graph.
    fn cudaGraphAddMemcpyNode1D(node: Out<Handle>, graph: Handle, after: *const Handle, count: usize, to: u64, from: u64, bytes: usize, kind: c_int) {
        node.required()?;
        let here = here()?;
        let passed = copy_of(&Copy3dParameters::of_bytes(to, from, bytes, kind))?;
        // SAFETY: there is a place for one node; the caller's lists and host addresses are as documented.
        unsafe {
            here.driver.cuGraphAddMemcpyNode(
                node.raw(), graph, after, count, &raw const passed, here.context,
            )
        }
    }

    /// Changes a copy of bytes of an executable graph.
    fn cudaGraphExecMemcpyNodeSetParams1D(executable: Handle, node: Handle, to: u64, from: u64, bytes: usize, kind: c_int) {
        let here = here()?;
        let passed = copy_of(&Copy3dParameters::of_bytes(to, from, bytes, kind))?;
        // SAFETY: the caller's handles are alive, and host addresses are as documented.
        unsafe {
            here.driver.cuGraphExecMemcpyNodeSetParams(executable, node, &raw const passed, here.context)
        }
    }
}

forward! {
    /// Adds a node that does nothing.
    fn cudaGraphAddEmptyNode(node: Out<Handle>, graph: Handle, after: *const Handle, count: usize)
        = cuGraphAddEmptyNode(node, graph, after, count);
    /// Adds a graph as one node.
    fn cudaGraphAddChildGraphNode(node: Out<Handle>, graph: Handle, after: *const Handle, count: usize, child: Handle)
        = cuGraphAddChildGraphNode(node, graph, after, count, child);
    /// Returns the graph of a node.
    fn cudaGraphChildGraphNodeGetGraph(node: Handle, graph: Out<Handle>) = cuGraphChildGraphNodeGetGraph(node, graph);
    /// Adds the record of an event.
    fn cudaGraphAddEventRecordNode(node: Out<Handle>, graph: Handle, after: *const Handle, count: usize, event: Handle)
        = cuGraphAddEventRecordNode(node, graph, after, count, event);
    /// Adds a wait for an event.
    fn cudaGraphAddEventWaitNode(node: Out<Handle>, graph: Handle, after: *const Handle, count: usize, event: Handle)
        = cuGraphAddEventWaitNode(node, graph, after, count, event);
    /// Adds the call of a host function.
    fn cudaGraphAddHostNode(node: Out<Handle>, graph: Handle, after: *const Handle, count: usize, parameters: In<c_void>)
        = cuGraphAddHostNode(node, graph, after, count, parameters);
    /// Returns the host function of a node.
    fn cudaGraphHostNodeGetParams(node: Handle, parameters: Out<c_void>) = cuGraphHostNodeGetParams(node, parameters);
    /// Changes the host function of a node.
    fn cudaGraphHostNodeSetParams(node: Handle, parameters: In<c_void>) = cuGraphHostNodeSetParams(node, parameters);
}
