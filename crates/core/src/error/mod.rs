//! Why calls are refused: an error says what was found and what was wanted, in words of no language in particular.
//!
//! Each error has a code from the one [table](codes), which never changes its meaning, and most have a typed
//! [hint](hint) that says how to put the call right. Bindings word the hints for their users. Messages may change
//! between releases; codes may not.
#![forbid(unsafe_code)]

pub mod codes;
mod compile;
mod device;
pub mod hint;
mod kernel;
mod layout;
mod protocol;
mod report;
#[cfg(test)]
mod tests;
mod ticket;

use thiserror::Error;

use codes::{Class, Code};
use hint::{Hint, MemoryHint};

pub use compile::{CompileError, Diagnostic, Severity};
pub use device::{AddressError, DeviceError, DriverError};
pub use kernel::{KernelError, Number, Place, Shape, SignatureError};
pub use layout::LayoutError;
pub use protocol::{ExportError, ProtocolError};
pub use report::Report;
pub use ticket::TicketError;

/// What any function of this crate can fail with.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    /// Shape, strides or element type describe no tensor.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// An object or struct does not keep to its protocol.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// What is asked for cannot be handed out.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// An address is not what it was said to be.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The lease has ended.
    #[error("this lease was released")]
    Released,
    /// The lease cannot end yet.
    #[error("this lease is still lent to {holders}")]
    StillLent {
        /// Who holds it, in words.
        holders: Box<str>,
    },
    /// A kernel cannot be compiled.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// A kernel cannot be launched, or went wrong.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// An argument does not suit a kernel.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// There is no such device here.
    #[error(transparent)]
    NoDevice(#[from] DeviceError),
    /// A driver call failed.
    #[error(transparent)]
    Driver(DriverError),
    /// A ticket cannot be made or claimed.
    #[error(transparent)]
    Ticket(#[from] TicketError),
    /// The host has not enough memory.
    #[error("cannot allocate {bytes} bytes of host memory")]
    OutOfMemory {
        /// How much was asked for.
        bytes: u64,
    },
    /// A device has not enough memory.
    #[error(
        "{device} has not enough memory for {bytes} bytes: {free} of its {total} bytes are free, and gpulend holds {ours}{held}"
    )]
    OutOfDeviceMemory {
        /// Which device.
        device: Box<str>,
        /// How much was asked for.
        bytes: u64,
        /// How much the driver says is free.
        free: u64,
        /// How much there is.
        total: u64,
        /// How much of it was allocated through gpulend.
        ours: u64,
        /// The limit of gpulend's pool, if it has one, and who holds what was allocated through it. One text, because large
        /// errors make every call slower.
        held: Box<str>,
    },
}

/// A call that only saw what a kernel did is that kernel's error.
impl From<DriverError> for Error {
    fn from(error: DriverError) -> Self {
        match error {
            DriverError::Kernel(error) => Self::Kernel(*error),
            error => Self::Driver(error),
        }
    }
}

impl Error {
    /// A number for this kind of failure that never changes its meaning.
    #[must_use]
    pub const fn code(&self) -> u32 {
        self.entry().number
    }

    /// The kind of failure, by which Python chooses an exception class.
    #[must_use]
    pub const fn class(&self) -> Class {
        self.entry().class
    }

    /// Its row in the table of codes.
    #[must_use]
    pub const fn entry(&self) -> Code {
        match self {
            Self::Layout(error) => error.code(),
            Self::Protocol(error) => error.code(),
            Self::Export(error) => error.code(),
            Self::Address(error) => error.code(),
            Self::Released => codes::RELEASED,
            Self::StillLent { .. } => codes::STILL_LENT,
            Self::Compile(error) => error.code(),
            Self::Kernel(error) => error.code(),
            Self::Signature(error) => error.code(),
            Self::NoDevice(error) => error.code(),
            Self::Driver(error) => error.code(),
            Self::Ticket(error) => error.code(),
            Self::OutOfMemory { .. } => codes::OUT_OF_MEMORY,
            Self::OutOfDeviceMemory { .. } => codes::OUT_OF_DEVICE_MEMORY,
        }
    }

    /// How to put the call right, for a binding to word; `to_string` of it has words for Rust.
    ///
    /// ```
    /// let error = gpulend::Error::Released;
    /// assert_eq!(error.to_string(), "this lease was released");
    /// assert_eq!(error.hint().unwrap().to_string(), "borrow or wrap the memory again to use it");
    /// ```
    #[must_use]
    pub fn hint(&self) -> Option<Hint<'_>> {
        match self {
            Self::Layout(error) => error.hint().map(Hint::Array),
            Self::Protocol(error) => error.hint(),
            Self::Export(error) => Some(Hint::Memory(error.hint())),
            Self::Address(error) => error.hint().map(Hint::Memory),
            Self::Released => Some(Hint::Memory(MemoryHint::BorrowAgain)),
            Self::StillLent { .. } => Some(Hint::Memory(MemoryHint::EndLoans)),
            Self::Compile(error) => error.hint().map(Hint::Compile),
            Self::Kernel(error) => error.hint().map(Hint::Launch),
            Self::Signature(error) => error.hint().map(Hint::Launch),
            Self::NoDevice(error) => error.hint(),
            Self::Driver(error) => error.hint(),
            Self::Ticket(error) => error.hint().map(Hint::Ticket),
            Self::OutOfMemory { .. } => None,
            Self::OutOfDeviceMemory { .. } => Some(Hint::Memory(MemoryHint::FreeDeviceMemory)),
        }
    }

    /// The message, followed by the hint as `words` says it: the whole text that a binding shows.
    #[must_use]
    pub fn explained(&self, words: impl FnOnce(Hint<'_>) -> String) -> String {
        let mut text = self.to_string();
        if let Some(hint) = self.hint() {
            // What a compiler reported ends in a line of its own.
            text += if text.contains('\n') { "\n" } else { "; " };
            text += &words(hint);
        }
        text
    }
}
