//! Linking: turns one PTX text into an image that only this driver loads.
#![forbid(unsafe_code)]

use super::image::{Kind, Refusal};
use super::{Caller, Machine, State};
use crate::status::{Outcome, Status};

/// `CU_JIT_INPUT_PTX`.
const PTX: i32 = 1;

/// A link in progress.
#[derive(Debug)]
pub struct Link {
    /// The context in which it began.
    pub context: usize,
    /// The text with its NUL, once added.
    text: Option<Vec<u8>>,
    /// The caller's log buffers, encoded by `api`.
    pub log: Vec<usize>,
}

impl State {
    /// Returns a link that was not destroyed.
    ///
    /// # Errors
    ///
    /// `INVALID_HANDLE`, or an error of its context.
    pub fn link(&mut self, caller: &Caller, handle: usize) -> Outcome<&mut Link> {
        if self.links.was(handle) {
            let what = "use of a link that was destroyed";
            return Err(self.fault(caller, Status::ERROR_INVALID_HANDLE, what, handle));
        }
        let context = self.links.get(handle).ok_or(Status::ERROR_INVALID_HANDLE)?.context;
        self.context(context)?;
        self.links.get_mut(handle).ok_or(Status::ERROR_INVALID_HANDLE)
    }
}

impl Machine {
    /// Begins a link.
    ///
    /// # Errors
    ///
    /// An error of the context.
    pub fn create_link(&self, context: usize, log: Vec<usize>) -> Outcome<usize> {
        let mut state = self.lock();
        state.context(context)?;
        Ok(state.links.add(Link { context, text: None, log }))
    }

    /// Adds the text to a link.
    ///
    /// # Errors
    ///
    /// `NOT_SUPPORTED` for a second text, `NO_BINARY_FOR_GPU` for anything but PTX, otherwise as for modules.
    pub fn add_to_link(
        &self,
        caller: &Caller,
        handle: usize,
        kind: i32,
        data: &[u8],
    ) -> Result<(), Refusal> {
        let refuse = |status, message: &str| {
            let refusal = Refusal { status, message: message.to_owned(), kind: Kind::Link };
            self.lock().refused(caller, &refusal);
            Err(refusal)
        };
        let is_second = self.lock().link(caller, handle)?.text.is_some();
        match kind {
            PTX if is_second => {
                return refuse(
                    Status::ERROR_NOT_SUPPORTED,
                    "linking: found a second PTX text, wanted one: the simulated GPU joins none",
                );
            }
            PTX => {}
            0 | 2..=4 => {
                return refuse(
                    Status::ERROR_NO_BINARY_FOR_GPU,
                    "linking: found machine code of a real GPU, wanted PTX",
                );
            }
            _ => return refuse(Status::ERROR_INVALID_VALUE, "linking: found no PTX, wanted PTX"),
        }
        let end = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
        self.read_image(caller, &data[..end])?;
        let text = data[..end].iter().copied().chain([0]).collect();
        self.lock().link(caller, handle)?.text = Some(text);
        Ok(())
    }

    /// Returns the address and size of a link's image, valid until the link is destroyed.
    ///
    /// # Errors
    ///
    /// `INVALID_HANDLE`; `INVALID_VALUE` for a link without a text.
    pub fn complete_link(&self, caller: &Caller, handle: usize) -> Outcome<(usize, usize)> {
        let mut state = self.lock();
        let text = state.link(caller, handle)?.text.as_ref().ok_or(Status::ERROR_INVALID_VALUE)?;
        Ok((text.as_ptr().expose_provenance(), text.len()))
    }

    /// Destroys a link.
    ///
    /// # Errors
    ///
    /// `INVALID_HANDLE`.
    pub fn destroy_link(&self, caller: &Caller, handle: usize) -> Outcome<()> {
        let mut state = self.lock();
        if state.links.remove(handle).is_some() {
            return Ok(());
        }
        state.link(caller, handle).map(|_| ())
    }
}
