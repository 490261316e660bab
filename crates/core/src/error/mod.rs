//! Every way a call can be refused, and the stable code of each.
//!
//! Messages may change between releases; codes may not.
#![forbid(unsafe_code)]

mod compile;
mod device;
mod kernel;
mod layout;
mod protocol;

use thiserror::Error;

pub use compile::{CompileError, Diagnostic, Severity};
pub use device::{AddressError, DeviceError, DriverError};
pub use kernel::{KernelError, Number, Place, Shape, SignatureError};
pub use layout::LayoutError;
pub use protocol::{ExportError, ProtocolError};

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
    #[error("this lease was released; borrow or wrap the memory again to use it")]
    Released,
    /// The lease cannot end yet.
    #[error(
        "this lease is still lent to {holders}; drop those objects first, \
         or let the lease go out of scope instead of releasing it"
    )]
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
    /// The host has no room.
    #[error("cannot allocate {bytes} bytes of host memory")]
    OutOfMemory {
        /// How much was asked for.
        bytes: u64,
    },
    /// A device has no room.
    #[error(
        "{device} has no room for {bytes} bytes: {free} of its {total} bytes are free, and gpulend \
         holds {ours}; release leases, or let other libraries give back what their pools keep \
         (torch.cuda.empty_cache(), cupy.get_default_memory_pool().free_all_blocks())"
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
    ///
    /// The hundreds name the class, as the C and Python interfaces show it.
    #[must_use]
    pub fn code(&self) -> u32 {
        match self {
            Self::Layout(error) => 100 + error.number(),
            Self::Protocol(error) => 200 + error.number(),
            Self::Export(error) => 300 + error.number(),
            Self::Address(error) => 400 + error.number(),
            Self::Released => 500,
            Self::StillLent { .. } => 600,
            Self::Compile(error) => 700 + error.number(),
            Self::Kernel(error) => 800 + error.number(),
            Self::Signature(error) => 800 + error.number(),
            Self::NoDevice(error) => 900 + error.number(),
            Self::Driver(error) => 1000 + error.number(),
            Self::OutOfMemory { .. } => 1000,
            Self::OutOfDeviceMemory { .. } => 1020,
        }
    }
}
