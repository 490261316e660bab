//! Memory of graphs, and conditions.

use super::entry;
use super::nodes::{MEM_ALLOC, MEM_FREE, words};
use super::pointer::{In, Out};
use crate::status::Status;

entry! {
    /// Adds a node that allocates memory of the graph.
    fn cuGraphAddMemAllocNode(node: Out<usize>, graph: usize, after: In<usize>, count: usize, parameters: Out<[u64; 15]>) |call| {
        let mut given = words(&parameters.take()?);
        call.add(node, (graph, after, count), MEM_ALLOC, &mut given)?;
        parameters.put(std::array::from_fn(|index| given[index]))
    }
}

entry! {
    /// Returns what a node allocates.
    fn cuGraphMemAllocNodeGetParams(node: usize, parameters: Out<[u64; 15]>) |call| {
        let found = call.words_of(node, MEM_ALLOC)?;
        parameters.put(std::array::from_fn(|index| found[index]))
    }
}

entry! {
    /// Adds a node that frees memory of a graph.
    fn cuGraphAddMemFreeNode(node: Out<usize>, graph: usize, after: In<usize>, count: usize, address: usize) |call| {
        call.add(node, (graph, after, count), MEM_FREE, &mut words(&[address as u64]))
    }
}

entry! {
    /// Returns what a node frees.
    fn cuGraphMemFreeNodeGetParams(node: usize, address: Out<u64>) |call| {
        address.put(call.words_of(node, MEM_FREE)?[0])
    }
}

entry! {
    /// Creates a condition for a graph.
    fn cuGraphConditionalHandleCreate(handle: Out<u64>, graph: usize, context: usize, default: u32, flags: u32) |call| {
        let machine = call.machine()?;
        handle.required()?;
        let context = call.context_or_current(context)?;
        let made = machine.create_condition(&call.caller(), (graph, context), default, flags)?;
        handle.put(made as u64)
    }
}

/// `CU_GRAPH_MEM_ATTR_*`.
const USED_MEM_CURRENT: i32 = 0;
const USED_MEM_HIGH: i32 = 1;
const RESERVED_MEM_CURRENT: i32 = 2;
const RESERVED_MEM_HIGH: i32 = 3;

entry! {
    /// Returns how much memory graphs use on a device.
    fn cuDeviceGetGraphMemAttribute(device: i32, attribute: i32, value: Out<u64>) |call| {
        let device = call.device(device)?;
        let usage = call.machine()?.graph_usage(device);
        let found = match attribute {
            USED_MEM_CURRENT => usage.used.0,
            USED_MEM_HIGH => usage.used.1,
            RESERVED_MEM_CURRENT => usage.reserved.0,
            RESERVED_MEM_HIGH => usage.reserved.1,
            _ => return Err(Status::ERROR_INVALID_VALUE),
        };
        value.put(found as u64)
    }
}

entry! {
    /// Sets a maximum of the memory that graphs used to that of now.
    fn cuDeviceSetGraphMemAttribute(device: i32, attribute: i32, value: Out<u64>) |call| {
        let device = call.device(device)?;
        match (attribute, value.take()?) {
            (USED_MEM_HIGH | RESERVED_MEM_HIGH, 0) => {
                call.machine()?.reset_graph_usage(device, attribute == RESERVED_MEM_HIGH);
                Ok(())
            }
            _ => Err(Status::ERROR_INVALID_VALUE),
        }
    }
}

entry! {
    /// Returns memory of graphs that is not allocated now to the device.
    fn cuDeviceGraphMemTrim(device: i32) |call| {
        let device = call.device(device)?;
        call.machine()?.trim_graphs(&call.caller(), device);
        Ok(())
    }
}
