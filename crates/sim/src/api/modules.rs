//! Modules: loading, unloading, and lookups.

use std::ffi::c_char;
use std::fs;

use gpulend_common::image::ELF;

use super::jit::Log;
use super::pointer::{In, Out};
use super::{Call, entry};
use crate::status::{Outcome, Status};

/// Returns an image in memory: text that ends in NUL, or the first bytes of an ELF file.
pub(super) fn image_at(image: In<c_char>) -> Outcome<Vec<u8>> {
    let text = image.text()?.to_bytes();
    if !text.starts_with(ELF) {
        return Ok(text.to_vec());
    }
    // An ELF header is longer than this.
    Ok(image.list(20)?.into_iter().flat_map(c_char::to_ne_bytes).collect())
}

/// Reads an image from a file.
pub(super) fn image_in(path: In<c_char>) -> Outcome<Vec<u8>> {
    let path = path.text()?.to_str().map_err(|_| Status::ERROR_FILE_NOT_FOUND)?;
    fs::read(path).map_err(|_| Status::ERROR_FILE_NOT_FOUND)
}

/// Returns a name from the caller. No object has a name that is not UTF-8.
pub(super) fn name_at(name: In<c_char>) -> Outcome<&'static str> {
    name.text()?.to_str().map_err(|_| Status::ERROR_NOT_FOUND)
}

impl Call {
    fn load(self, module: Out<usize>, image: &[u8], log: Log) -> Outcome<()> {
        let context = self.context()?;
        let loaded = self.machine()?.load_module(&self.caller(), context, image);
        module.put(log.deliver(loaded)?)
    }
}

entry! {
    /// Loads an image from a file.
    fn cuModuleLoad(module: Out<usize>, path: In<c_char>) |call| {
        call.context()?;
        module.required()?;
        call.load(module, &image_in(path)?, Log::default())
    }
}

entry! {
    /// Loads an image from memory.
    fn cuModuleLoadData(module: Out<usize>, image: In<c_char>) |call| {
        call.context()?;
        module.required()?;
        call.load(module, &image_at(image)?, Log::default())
    }
}

entry! {
    /// Loads an image from memory; errors go to the log in the options.
    fn cuModuleLoadDataEx(
        module: Out<usize>,
        image: In<c_char>,
        count: u32,
        options: In<i32>,
        values: Out<usize>,
    ) |call| {
        call.context()?;
        module.required()?;
        let image = image_at(image)?;
        call.load(module, &image, Log::read(count, options, values)?)
    }
}

entry! {
    /// Refuses a fat binary: it contains no code for this machine.
    fn cuModuleLoadFatBinary(module: Out<usize>, image: In<c_char>) |call| {
        let context = call.context()?;
        call.machine()?.lock().context(context)?;
        module.required()?;
        if image.is_null() { Err(Status::ERROR_INVALID_VALUE) } else { Err(Status::ERROR_NO_BINARY_FOR_GPU) }
    }
}

entry! {
    /// Unloads a module.
    fn cuModuleUnload(module: usize) |call| { call.machine()?.unload_module(&call.caller(), module) }
}

entry! {
    /// Returns the loading mode: eager.
    fn cuModuleGetLoadingMode(mode: Out<i32>) |call| {
        call.machine()?;
        mode.put(1)
    }
}

entry! {
    /// Finds a kernel.
    fn cuModuleGetFunction(function: Out<usize>, module: usize, name: In<c_char>) |call| {
        call.context()?;
        function.required()?;
        let name = name_at(name)?;
        function.put(call.machine()?.module_function(&call.caller(), module, name)?)
    }
}

entry! {
    /// Finds a variable in device memory.
    fn cuModuleGetGlobal_v2(address: Out<usize>, bytes: Out<usize>, module: usize, name: In<c_char>) |call| {
        call.context()?;
        let name = name_at(name)?;
        if address.is_null() && bytes.is_null() {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        let (place, length) = call.machine()?.module_variable(&call.caller(), module, name)?;
        address.offer(place);
        bytes.offer(length);
        Ok(())
    }
}

entry! {
    /// Returns the number of kernels of a module.
    fn cuModuleGetFunctionCount(count: Out<u32>, module: usize) |call| {
        count.required()?;
        let functions = call.machine()?.module_functions(&call.caller(), module)?;
        count.put(u32::try_from(functions.len()).unwrap_or(u32::MAX))
    }
}

entry! {
    /// Lists the kernels of a module.
    fn cuModuleEnumerateFunctions(functions: Out<usize>, room: u32, module: usize) |call| {
        functions.required()?;
        let found = call.machine()?.module_functions(&call.caller(), module)?;
        functions.put_list(found.into_iter().take(room as usize));
        Ok(())
    }
}
