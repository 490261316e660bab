//! User objects, which graphs keep.

use super::pointer::{Address, Out};
use super::{Call, entry};
use crate::foreign::{Function, HostFunction};
use crate::status::{Outcome, Status};

/// `CU_USER_OBJECT_NO_DESTRUCTOR_SYNC`: calls cannot wait for the destructor. The flag is required.
const NO_DESTRUCTOR_SYNC: u32 = 1;
/// `CU_GRAPH_USER_OBJECT_MOVE`: the caller's references are transferred.
const MOVE: u32 = 1;

impl Call {
    fn create_user_object(
        self,
        object: Out<usize>,
        argument: Address,
        function: Option<Function>,
        count: u32,
        flags: u32,
    ) -> Outcome<()> {
        let machine = self.machine()?;
        object.required()?;
        let function = function.ok_or(Status::ERROR_INVALID_VALUE)?;
        if flags != NO_DESTRUCTOR_SYNC {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        // SAFETY: (1) of the function that calls this: the caller guarantees function and argument.
        let function = unsafe { HostFunction::plain(function, argument.number()) };
        object.put(machine.create_user_object(function, count)?)
    }
}

entry! {
    /// Creates an object. Dropping its last reference calls a function.
    fn cuUserObjectCreate(
        object: Out<usize>,
        argument: Address,
        function: Option<Function>,
        count: u32,
        flags: u32,
    ) |call| { call.create_user_object(object, argument, function, count, flags) }
}

entry! {
    /// Adds references of the caller to an object.
    fn cuUserObjectRetain(object: usize, count: u32) |call| {
        call.machine()?.retain_user_object(&call.caller(), object, count)
    }
}

entry! {
    /// Releases references of the caller to an object.
    fn cuUserObjectRelease(object: usize, count: u32) |call| {
        call.machine()?.release_user_object(&call.caller(), object, count)
    }
}

entry! {
    /// Adds references of a graph to an object.
    fn cuGraphRetainUserObject(graph: usize, object: usize, count: u32, flags: u32) |call| {
        let machine = call.machine()?;
        if flags & !MOVE != 0 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        machine.graph_retain(&call.caller(), graph, object, count, flags == MOVE)
    }
}

entry! {
    /// Releases references of a graph to an object.
    fn cuGraphReleaseUserObject(graph: usize, object: usize, count: u32) |call| {
        call.machine()?.graph_release(&call.caller(), graph, object, count)
    }
}
