//! Libraries: images without a context.

use std::ffi::c_char;

use super::jit::Log;
use super::modules::{image_at, image_in, name_at};
use super::pointer::{Address, In, Out};
use super::{Call, entry};
use crate::status::{Outcome, Status};

impl Call {
    fn load_library(self, library: Out<usize>, image: &[u8], log: Log) -> Outcome<()> {
        let loaded = self.machine()?.load_library(&self.caller(), image);
        library.put(log.deliver(loaded)?)
    }
}

entry! {
    /// Loads a library from memory. Library options have no effect.
    fn cuLibraryLoadData(
        library: Out<usize>,
        image: In<c_char>,
        options: In<i32>,
        values: Out<usize>,
        count: u32,
        _library_options: Address,
        _library_values: Address,
        _library_count: u32,
    ) |call| {
        call.machine()?;
        library.required()?;
        let image = image_at(image)?;
        call.load_library(library, &image, Log::read(count, options, values)?)
    }
}

entry! {
    /// Loads a library from a file.
    fn cuLibraryLoadFromFile(
        library: Out<usize>,
        path: In<c_char>,
        options: In<i32>,
        values: Out<usize>,
        count: u32,
        _library_options: Address,
        _library_values: Address,
        _library_count: u32,
    ) |call| {
        call.machine()?;
        library.required()?;
        let image = image_in(path)?;
        call.load_library(library, &image, Log::read(count, options, values)?)
    }
}

entry! {
    /// Unloads a library and its modules.
    fn cuLibraryUnload(library: usize) |call| { call.machine()?.unload_library(&call.caller(), library) }
}

entry! {
    /// Finds a kernel.
    fn cuLibraryGetKernel(kernel: Out<usize>, library: usize, name: In<c_char>) |call| {
        call.machine()?;
        kernel.required()?;
        let name = name_at(name)?;
        kernel.put(call.machine()?.library_kernel(&call.caller(), library, name)?)
    }
}

impl Call {
    fn library_module(self, library: usize) -> Outcome<usize> {
        let context = self.context()?;
        self.machine()?.lock().library_module(&self.caller(), library, context)
    }
}

entry! {
    /// Returns the module of a library in the current context.
    fn cuLibraryGetModule(module: Out<usize>, library: usize) |call| {
        call.machine()?;
        module.required()?;
        module.put(call.library_module(library)?)
    }
}

entry! {
    /// Finds a variable of a library on the current device.
    fn cuLibraryGetGlobal(address: Out<usize>, bytes: Out<usize>, library: usize, name: In<c_char>) |call| {
        call.machine()?;
        let name = name_at(name)?;
        if address.is_null() && bytes.is_null() {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        let module = call.library_module(library)?;
        let (place, length) = call.machine()?.module_variable(&call.caller(), module, name)?;
        address.offer(place);
        bytes.offer(length);
        Ok(())
    }
}

entry! {
    /// Finds no managed variable: PTX with one is refused.
    fn cuLibraryGetManaged(_address: Out<usize>, _bytes: Out<usize>, library: usize, name: In<c_char>) |call| {
        call.machine()?;
        name_at(name)?;
        call.machine()?.lock().library(&call.caller(), library)?;
        Err(Status::ERROR_NOT_FOUND)
    }
}

entry! {
    /// Returns the number of kernels of a library.
    fn cuLibraryGetKernelCount(count: Out<u32>, library: usize) |call| {
        count.required()?;
        let kernels = call.machine()?.library_kernels(&call.caller(), library)?;
        count.put(u32::try_from(kernels.len()).unwrap_or(u32::MAX))
    }
}

entry! {
    /// Lists the kernels of a library.
    fn cuLibraryEnumerateKernels(kernels: Out<usize>, room: u32, library: usize) |call| {
        kernels.required()?;
        let found = call.machine()?.library_kernels(&call.caller(), library)?;
        kernels.put_list(found.into_iter().take(room as usize));
        Ok(())
    }
}
