//! Why calls of C fail: errors of the core with C's hints, and what is refused before the core is asked.
#![forbid(unsafe_code)]

use gpulend::Error;
use gpulend::codes::{self, Code};
use thiserror::Error;

use crate::hints;
use crate::types::Status;

/// Why a call failed.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// What the core refused.
    #[error("{}", .0.explained(hints::words))]
    Core(#[from] Error),
    /// An argument has an impossible value.
    #[error("{name} {problem}")]
    Argument {
        /// Which one.
        name: &'static str,
        /// What is wrong with it, and what would be valid.
        problem: Box<str>,
    },
    /// A number that was never a handle.
    #[error("{handle:#x} is not a handle of gpulend; pass {wanted} that a gpulend_ function gave")]
    NoHandle {
        /// The number.
        handle: u64,
        /// What it should be.
        wanted: &'static str,
    },
    /// A handle of another kind.
    #[error("{handle:#x} is the handle of {found}, and {wanted} is wanted")]
    OtherKind {
        /// The handle.
        handle: u64,
        /// What it is.
        found: &'static str,
        /// What it should be.
        wanted: &'static str,
    },
    /// A freed handle, other than a lease's.
    #[error("{handle:#x} was {wanted} and has been freed; use handles before they are freed, once")]
    Ended {
        /// The handle.
        handle: u64,
        /// What it was.
        wanted: &'static str,
    },
    /// There are as many handles as there can be.
    #[error("there are {count} handles already; free those that are no longer needed")]
    TooManyHandles {
        /// How many there are.
        count: usize,
    },
    /// Another copy of gpulend was used first.
    #[error(
        "this process uses the copy of gpulend in {first}, and the one in {second} would keep a ledger of its own; \
         use one: inside Python that of `python -m gpulend.config --library`"
    )]
    SecondCopy {
        /// The copy in use.
        first: Box<str>,
        /// The copy that was called.
        second: Box<str>,
    },
    /// A bug of gpulend.
    #[error("a bug in gpulend, please report it: {said}")]
    Panic {
        /// The message of the panic.
        said: Box<str>,
    },
}

impl Refusal {
    /// The status that the caller gets.
    #[must_use]
    pub fn code(&self) -> Status {
        // Codes have four digits.
        Status::try_from(self.entry().number).unwrap_or(Status::MAX)
    }

    /// The row in the table of codes.
    #[must_use]
    pub const fn entry(&self) -> Code {
        match self {
            Self::Core(error) => error.entry(),
            Self::Argument { .. } => codes::BAD_ARGUMENT,
            Self::NoHandle { .. } => codes::NO_HANDLE,
            Self::OtherKind { .. } => codes::OTHER_KIND,
            Self::Ended { .. } => codes::ENDED,
            Self::TooManyHandles { .. } => codes::TOO_MANY_HANDLES,
            Self::SecondCopy { .. } => codes::SECOND_COPY,
            Self::Panic { .. } => codes::BUG,
        }
    }

    pub(crate) fn argument(name: &'static str, problem: impl Into<Box<str>>) -> Self {
        Self::Argument { name, problem: problem.into() }
    }
}

/// Turns the errors of the core's rooms into refusals.
macro_rules! from_rooms {
    ($($error:ident),*) => {
        $(impl From<gpulend::$error> for Refusal {
            fn from(error: gpulend::$error) -> Self {
                Self::Core(error.into())
            }
        })*
    };
}

from_rooms!(LayoutError, ProtocolError, ExportError, AddressError, DeviceError, DriverError);
