//! What is refused before the core is asked, and everything's code.
#![forbid(unsafe_code)]

use gpulend::Error;
use thiserror::Error;

use crate::types::{
    GPULEND_BAD_ARGUMENT, GPULEND_BUG, GPULEND_ENDED, GPULEND_NO_HANDLE, GPULEND_OTHER_KIND,
    GPULEND_SECOND_COPY, GPULEND_TOO_MANY_HANDLES, Status,
};

/// Why a call failed.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// What the core refused.
    #[error(transparent)]
    Core(#[from] Error),
    /// An argument that cannot be.
    #[error("{name} {problem}")]
    Argument {
        /// Which one.
        name: &'static str,
        /// What is wrong with it, and what would do.
        problem: Box<str>,
    },
    /// A number that was never a handle.
    #[error("{handle:#x} is no handle of gpulend's; pass {wanted} that a gpulend_ function gave")]
    NoHandle {
        /// The number.
        handle: u64,
        /// What it should be.
        wanted: &'static str,
    },
    /// A handle of something else.
    #[error("{handle:#x} is the handle of {found}, and {wanted} is wanted")]
    OtherKind {
        /// The handle.
        handle: u64,
        /// What it is.
        found: &'static str,
        /// What it should be.
        wanted: &'static str,
    },
    /// Anything but a lease that was freed.
    #[error("{handle:#x} was {wanted} and has been freed; use handles before they are freed, once")]
    Ended {
        /// The handle.
        handle: u64,
        /// What it was.
        wanted: &'static str,
    },
    /// More handles than can be told apart.
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
    /// A mistake of gpulend's own.
    #[error("a bug in gpulend, please report it: {said}")]
    Panic {
        /// What it said.
        said: Box<str>,
    },
}

impl Refusal {
    /// The status that the caller gets: the core's codes, and those of C below.
    #[must_use]
    pub fn code(&self) -> Status {
        match self {
            // Codes have four digits.
            Self::Core(error) => Status::try_from(error.code()).unwrap_or(Status::MAX),
            Self::Argument { .. } => GPULEND_BAD_ARGUMENT,
            Self::NoHandle { .. } => GPULEND_NO_HANDLE,
            Self::OtherKind { .. } => GPULEND_OTHER_KIND,
            Self::Ended { .. } => GPULEND_ENDED,
            Self::TooManyHandles { .. } => GPULEND_TOO_MANY_HANDLES,
            Self::SecondCopy { .. } => GPULEND_SECOND_COPY,
            Self::Panic { .. } => GPULEND_BUG,
        }
    }

    pub(crate) fn argument(name: &'static str, problem: impl Into<Box<str>>) -> Self {
        Self::Argument { name, problem: problem.into() }
    }
}

/// Has the errors of the core's rooms go straight to ours.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{
        GPULEND_OUT_OF_DEVICE_MEMORY, GPULEND_OUT_OF_MEMORY, GPULEND_RELEASED, GPULEND_STILL_LENT,
    };

    #[test]
    fn the_header_has_the_cores_codes() {
        let codes = [
            (Error::Released, GPULEND_RELEASED),
            (Error::StillLent { holders: "".into() }, GPULEND_STILL_LENT),
            (Error::OutOfMemory { bytes: 1 }, GPULEND_OUT_OF_MEMORY),
            (
                Error::OutOfDeviceMemory {
                    device: "".into(),
                    bytes: 1,
                    free: 0,
                    total: 0,
                    ours: 0,
                },
                GPULEND_OUT_OF_DEVICE_MEMORY,
            ),
        ];
        for (error, code) in codes {
            assert_eq!(Refusal::Core(error).code(), code);
        }
    }
}
