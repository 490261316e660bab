//! Linking: joins PTX texts into an image that only this driver loads.
#![forbid(unsafe_code)]

use super::image::{Kind, Refusal};
use super::join::join;
use super::{Caller, Machine, State};
use crate::status::{Outcome, Status};

/// `CU_JIT_INPUT_PTX`.
const PTX: i32 = 1;

/// What a link that cannot succeed is answered, as by an H200.
const FAILED: Status = Status::ERROR_INVALID_SOURCE;

fn joined(texts: &[String]) -> String {
    join(&texts.iter().map(String::as_str).collect::<Vec<&str>>())
}

fn failure(status: Status, message: &str) -> Refusal {
    Refusal { status, message: message.to_owned(), kind: Kind::Link }
}

/// A link in progress.
#[derive(Debug)]
pub struct Link {
    /// The context in which it began.
    pub context: usize,
    /// The texts.
    texts: Vec<String>,
    /// The images with their NULs, one for each time that it was completed: the program may read all of them.
    images: Vec<Vec<u8>>,
    /// After a failure: what a further text is answered, and what the log says.
    failed: Option<(Status, String)>,
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
        Ok(state.links.add(Link {
            context,
            texts: Vec::new(),
            images: Vec::new(),
            failed: None,
            log,
        }))
    }

    /// Adds a text to a link.
    ///
    /// # Errors
    ///
    /// `NO_BINARY_FOR_GPU` for anything but PTX; `INVALID_SOURCE` for a text that defines a name again; otherwise as for modules.
    pub fn add_to_link(
        &self,
        caller: &Caller,
        handle: usize,
        kind: i32,
        data: &[u8],
    ) -> Result<(), Refusal> {
        let refuse = |status, message: &str| {
            let refusal = failure(status, message);
            self.lock().refused(caller, &refusal);
            Err(refusal)
        };
        self.lock().link(caller, handle)?;
        match kind {
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
        // What it does not define may come with the next text.
        match self.parse_image(&data[..end]) {
            Ok(_) => {}
            Err(refusal) if refusal.kind == Kind::Unresolved => {}
            Err(refusal) => {
                self.lock().refused(caller, &refusal);
                return Err(refusal);
            }
        }
        let text = String::from_utf8_lossy(&data[..end]).into_owned();
        let texts = {
            let mut state = self.lock();
            let link = state.link(caller, handle)?;
            if let Some((status, message)) = &link.failed {
                return Err(failure(*status, message));
            }
            link.texts.push(text);
            link.texts.clone()
        };
        if texts.len() > 1
            && let Err(refusal) = self.parse_image(joined(&texts).as_bytes())
            && refusal.kind != Kind::Unresolved
        {
            return Err(self.fail_link(caller, handle, refusal, FAILED));
        }
        Ok(())
    }

    /// Has a link fail: `later` is what a further text is answered.
    fn fail_link(
        &self,
        caller: &Caller,
        handle: usize,
        refusal: Refusal,
        later: Status,
    ) -> Refusal {
        let refusal = Refusal { status: FAILED, ..refusal };
        let mut state = self.lock();
        state.refused(caller, &refusal);
        if let Ok(link) = state.link(caller, handle) {
            link.failed = Some((later, refusal.message.clone()));
        }
        refusal
    }

    /// Returns the address and size of a link's image, valid until the link is destroyed.
    ///
    /// # Errors
    ///
    /// `INVALID_HANDLE`; `INVALID_VALUE` for a link without a text; `INVALID_SOURCE` if a name is not defined, or twice.
    pub fn complete_link(&self, caller: &Caller, handle: usize) -> Result<(usize, usize), Refusal> {
        let (texts, failed) = {
            let mut state = self.lock();
            let link = state.link(caller, handle)?;
            (link.texts.clone(), link.failed.clone())
        };
        if let Some((_, message)) = failed {
            return Err(failure(FAILED, &message));
        }
        if texts.is_empty() {
            return Err(Status::ERROR_INVALID_VALUE.into());
        }
        let joined = joined(&texts);
        if let Err(refusal) = self.parse_image(joined.as_bytes()) {
            return Err(self.fail_link(caller, handle, refusal, Status::ERROR_INVALID_VALUE));
        }
        let mut image = joined.into_bytes();
        image.push(0);
        let found = (image.as_ptr().expose_provenance(), image.len());
        self.lock().link(caller, handle)?.images.push(image);
        Ok(found)
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
