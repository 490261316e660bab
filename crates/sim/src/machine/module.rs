//! Modules: images that were loaded. Their kernels do not run yet.
#![forbid(unsafe_code)]

use super::device::CAPABILITY;
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

/// The newest PTX that CUDA 13.2 knows.
const NEWEST: u32 = 9;

/// Refuses what is no PTX, or PTX of a newer language or processor. What it says is not read yet.
fn check_image(image: &[u8]) -> Outcome<()> {
    // Binary code for NVIDIA's processors: a fat binary, or ELF for their machine (190).
    let elf = image.starts_with(b"\x7fELF");
    if image.starts_with(&0xBA55_ED50_u32.to_le_bytes())
        || (elf && image.get(18..20) == Some(&190_u16.to_le_bytes()))
    {
        return Err(Status::ERROR_NO_BINARY_FOR_GPU);
    }
    let text = std::str::from_utf8(image).map_err(|_| Status::ERROR_INVALID_IMAGE)?;
    let mut words = text.split_ascii_whitespace().skip_while(|word| *word != ".version").skip(1);
    let version = words.next().and_then(|version| version.split('.').next()?.parse::<u32>().ok());
    match version {
        None => return Err(Status::ERROR_INVALID_IMAGE),
        Some(version) if version > NEWEST => return Err(Status::ERROR_UNSUPPORTED_PTX_VERSION),
        Some(_) => {}
    }
    let target = words.skip_while(|word| *word != ".target").nth(1).unwrap_or_default();
    let processor = target
        .strip_prefix("sm_")
        .and_then(|number| number.trim_end_matches([',', 'a', 'f']).parse().ok());
    if processor.is_none_or(|processor: i32| processor > CAPABILITY.0 * 10 + CAPABILITY.1) {
        return Err(Status::ERROR_INVALID_PTX);
    }
    Ok(())
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
        check_image(&image)?;
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
