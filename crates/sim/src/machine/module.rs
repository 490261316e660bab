//! Modules: images that were loaded. Their kernels do not run yet.
#![forbid(unsafe_code)]

use super::{Caller, Machine};
use crate::status::{Outcome, Status};

/// A loaded image.
#[derive(Debug)]
pub struct Module {
    /// The context it belongs to.
    pub context: usize,
    /// The PTX text.
    pub image: Vec<u8>,
}

impl Machine {
    /// Keeps an image.
    ///
    /// # Errors
    ///
    /// `INVALID_IMAGE` for what is no PTX text, `NO_BINARY_FOR_GPU` for machine code of a real GPU.
    pub fn load_module(&self, context: usize, image: Vec<u8>) -> Outcome<usize> {
        let mut state = self.lock();
        state.context(context)?;
        // ELF and fat binaries hold code for NVIDIA's processors.
        if image.starts_with(b"\x7fELF") || image.starts_with(&0xBA55_ED50_u32.to_le_bytes()) {
            return Err(Status::ERROR_NO_BINARY_FOR_GPU);
        }
        let text = std::str::from_utf8(&image).map_err(|_| Status::ERROR_INVALID_IMAGE)?;
        if !text.contains(".version") {
            return Err(Status::ERROR_INVALID_IMAGE);
        }
        if !text.contains(".target") {
            return Err(Status::ERROR_INVALID_PTX);
        }
        Ok(state.modules.add(Module { context, image }))
    }

    /// Ends a module.
    ///
    /// # Errors
    ///
    /// `INVALID_HANDLE`.
    pub fn unload_module(&self, caller: &Caller, handle: usize) -> Outcome<()> {
        let mut state = self.lock();
        state.refuse_unsafe(caller)?;
        if state.modules.remove(handle).is_some() {
            return Ok(());
        }
        Err(if state.modules.was(handle) {
            state.fault(caller, Status::ERROR_INVALID_HANDLE, "module unloaded twice", handle)
        } else {
            Status::ERROR_INVALID_HANDLE
        })
    }
}
