//! Modules: loaded and kept. Their kernels do not run yet.

use std::ffi::c_char;
use std::fs;

use super::pointer::{Address, In, Out};
use super::{Call, entry};
use crate::status::{Outcome, Status};

impl Call {
    fn load(self, module: Out<usize>, image: In<c_char>) -> Outcome<()> {
        let context = self.context()?;
        module.required()?;
        // An image is text that ends in NUL, or ELF, whose header says for which machine.
        let text = image.text()?.to_bytes();
        let elf = || {
            (0..20)
                .map(|index| {
                    // SAFETY: (1): it begins as ELF does, and such a header is longer than that.
                    unsafe { image.at(index) }.map(c_char::cast_unsigned)
                })
                .collect::<Outcome<Vec<u8>>>()
        };
        let image = if text.starts_with(b"\x7fELF") { elf()? } else { text.to_vec() };
        module.put(self.machine()?.load_module(context, image)?)
    }
}

entry! {
    /// Loads an image from a file.
    fn cuModuleLoad(module: Out<usize>, path: In<c_char>) |call| {
        let context = call.context()?;
        module.required()?;
        let path = path.text()?.to_str().map_err(|_| Status::ERROR_FILE_NOT_FOUND)?;
        let image = fs::read(path).map_err(|_| Status::ERROR_FILE_NOT_FOUND)?;
        module.put(call.machine()?.load_module(context, image)?)
    }
}

entry! {
    /// Loads an image from memory.
    fn cuModuleLoadData(module: Out<usize>, image: In<c_char>) |call| { call.load(module, image) }
}

entry! {
    /// Loads an image from memory; options are for a compiler that does not run yet.
    fn cuModuleLoadDataEx(
        module: Out<usize>,
        image: In<c_char>,
        _count: u32,
        _options: Address,
        _values: Address,
    ) |call| { call.load(module, image) }
}

entry! {
    /// Ends a module.
    fn cuModuleUnload(module: usize) |call| { call.machine()?.unload_module(&call.caller(), module) }
}

entry! {
    /// Tells that modules are loaded whole.
    fn cuModuleGetLoadingMode(mode: Out<i32>) |call| {
        call.machine()?;
        mode.put(1)
    }
}
