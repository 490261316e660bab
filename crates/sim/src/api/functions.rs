//! Attributes and settings of kernels.

use super::pointer::Out;
use super::{Call, entry};
use crate::machine::function::Description;
use crate::status::{Outcome, Status};

/// `CU_FUNCTION_LOADING_STATE_LOADED`.
const LOADED: i32 = 1;

impl Call {
    /// Describes a function, or a library's kernel in the current context.
    pub(super) fn describe(self, function: usize) -> Outcome<Description> {
        let (machine, context) = (self.machine()?, self.context());
        let mut state = machine.lock();
        let function = state.resolve_function(&self.caller(), function, context)?;
        state.describe(&self.caller(), function)
    }

    /// Describes a library's kernel on a device.
    fn describe_kernel(self, kernel: usize, device: i32) -> Outcome<Description> {
        let device = self.device(device)?;
        self.machine()?.lock().describe_kernel(&self.caller(), kernel, device)
    }
}

/// Refuses unknown cache configurations. Known ones have no effect.
fn check_cache(configuration: i32) -> Outcome<()> {
    if (0..=3).contains(&configuration) { Ok(()) } else { Err(Status::ERROR_INVALID_VALUE) }
}

/// Refuses null, as CUDA's documentation of the names wants it.
fn named(handle: usize) -> Outcome<()> {
    if handle == 0 { Err(Status::ERROR_INVALID_VALUE) } else { Ok(()) }
}

fn put_parameter(
    found: &Description,
    index: usize,
    offset: Out<usize>,
    bytes: Out<usize>,
) -> Outcome<()> {
    let (place, length) = found.parameter(index)?;
    offset.put(place)?;
    bytes.offer(length);
    Ok(())
}

entry! {
    /// Returns an attribute of a function.
    fn cuFuncGetAttribute(value: Out<i32>, attribute: i32, function: usize) |call| {
        value.required()?;
        value.put(call.describe(function)?.attribute(attribute)?)
    }
}

entry! {
    /// Sets the maximum of dynamic shared memory, or the carveout, which is only stored.
    fn cuFuncSetAttribute(function: usize, attribute: i32, value: i32) |call| {
        let (machine, context) = (call.machine()?, call.context());
        let function = machine.lock().resolve_function(&call.caller(), function, context)?;
        machine.set_function(&call.caller(), function, attribute, value)
    }
}

entry! {
    /// Sets the cache configuration, which has no effect.
    fn cuFuncSetCacheConfig(function: usize, configuration: i32) |call| {
        call.describe(function)?;
        check_cache(configuration)
    }
}

entry! {
    /// Returns the name of a function.
    fn cuFuncGetName(name: Out<usize>, function: usize) |call| {
        call.machine()?;
        name.required()?;
        named(function)?;
        name.put(call.describe(function)?.name())
    }
}

entry! {
    /// Returns the offset and the size of a parameter.
    fn cuFuncGetParamInfo(function: usize, index: usize, offset: Out<usize>, bytes: Out<usize>) |call| {
        put_parameter(&call.describe(function)?, index, offset, bytes)
    }
}

entry! {
    /// Returns the number of parameters of a function.
    fn cuFuncGetParamCount(function: usize, count: Out<usize>) |call| {
        count.required()?;
        count.put(call.describe(function)?.kernel()?.params.len())
    }
}

entry! {
    /// Returns that a function is loaded: all are, with their module.
    fn cuFuncIsLoaded(state: Out<i32>, function: usize) |call| {
        state.required()?;
        call.describe(function)?;
        state.put(LOADED)
    }
}

entry! {
    /// Does nothing: every function is loaded.
    fn cuFuncLoad(function: usize) |call| { call.describe(function).map(|_| ()) }
}

entry! {
    /// Returns the module of a function.
    fn cuFuncGetModule(module: Out<usize>, function: usize) |call| {
        module.required()?;
        module.put(call.describe(function)?.module)
    }
}

entry! {
    /// Returns the function of a kernel in the current context.
    fn cuKernelGetFunction(function: Out<usize>, kernel: usize) |call| {
        let (machine, context) = (call.machine()?, call.context()?);
        function.required()?;
        let found = machine.lock().kernel_function(&call.caller(), kernel, context)?;
        function.put(found)
    }
}

entry! {
    /// Returns the library of a kernel.
    fn cuKernelGetLibrary(library: Out<usize>, kernel: usize) |call| {
        let machine = call.machine()?;
        library.required()?;
        let found = machine.lock().kernel(&call.caller(), kernel)?.library;
        library.put(found)
    }
}

entry! {
    /// Returns an attribute of a kernel on a device.
    fn cuKernelGetAttribute(value: Out<i32>, attribute: i32, kernel: usize, device: i32) |call| {
        value.required()?;
        value.put(call.describe_kernel(kernel, device)?.attribute(attribute)?)
    }
}

entry! {
    /// Sets an attribute of a kernel on a device; an attribute of its function there takes precedence.
    fn cuKernelSetAttribute(attribute: i32, value: i32, kernel: usize, device: i32) |call| {
        let device = call.device(device)?;
        call.machine()?.set_kernel(&call.caller(), kernel, device, (attribute, value))
    }
}

entry! {
    /// Sets the cache configuration, which has no effect.
    fn cuKernelSetCacheConfig(kernel: usize, configuration: i32, device: i32) |call| {
        call.describe_kernel(kernel, device)?;
        check_cache(configuration)
    }
}

entry! {
    /// Returns the name of a kernel.
    fn cuKernelGetName(name: Out<usize>, kernel: usize) |call| {
        call.machine()?;
        name.required()?;
        named(kernel)?;
        name.put(call.describe_kernel(kernel, 0)?.name())
    }
}

entry! {
    /// Returns the offset and the size of a parameter.
    fn cuKernelGetParamInfo(kernel: usize, index: usize, offset: Out<usize>, bytes: Out<usize>) |call| {
        call.context()?;
        put_parameter(&call.describe_kernel(kernel, 0)?, index, offset, bytes)
    }
}

entry! {
    /// Returns the number of parameters of a kernel.
    fn cuKernelGetParamCount(kernel: usize, count: Out<usize>) |call| {
        count.required()?;
        count.put(call.describe_kernel(kernel, 0)?.kernel()?.params.len())
    }
}
