//! What a protocol between libraries forbids, or cannot express.
#![forbid(unsafe_code)]

use thiserror::Error;

use crate::error::codes::{self, Code};
use crate::error::hint::{ArrayHint, Hint, MemoryHint};

/// An object or struct does not keep to its protocol.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// A null where a tensor should be.
    #[error("the producer handed over a null tensor")]
    Null,
    /// Another major version.
    #[error("the producer speaks DLPack {major}.{minor}; versions 1.x are understood")]
    Version {
        /// Major found.
        major: u32,
        /// Minor found.
        minor: u32,
    },
    /// A field has an impossible value.
    #[error("{protocol}: {field} {problem}")]
    Field {
        /// Which protocol.
        protocol: &'static str,
        /// Which field.
        field: &'static str,
        /// What is wrong with it.
        problem: Box<str>,
    },
    /// A masked array.
    #[error("{protocol}: the array has a mask, and a plain array would show the masked bytes")]
    Mask {
        /// Which protocol.
        protocol: &'static str,
    },
    /// A stream named for memory that has none.
    #[error("{found} names a stream, but host memory has no streams")]
    HostStream {
        /// Which argument.
        found: Box<str>,
    },
}

/// What is asked for cannot be handed out.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The consumer could write what must not be written.
    #[error("the memory is read-only, and {consumer} cannot mark it so")]
    ReadOnly {
        /// The consumer.
        consumer: Box<str>,
    },
    /// Read-only memory was to be written.
    #[error("the destination is read-only")]
    WriteReadOnly,
    /// The consumer wants another device.
    #[error("the memory is on {found}, but {wanted} was asked for")]
    Device {
        /// Where it is.
        found: Box<str>,
        /// Where it was wanted.
        wanted: Box<str>,
    },
    /// The consumer's arrays only run forwards.
    #[error("{consumer} has no negative strides, and the memory is seen with {strides:?}")]
    NegativeStrides {
        /// The consumer.
        consumer: Box<str>,
        /// The strides.
        strides: Box<[i64]>,
    },
    /// The protocol has no name for the element type.
    #[error("{consumer} has no element type {dtype}")]
    Type {
        /// The consumer.
        consumer: Box<str>,
        /// The element type.
        dtype: Box<str>,
        /// An integer type of the same width.
        bits_as: &'static str,
    },
    /// What the consumer made is other memory.
    #[error("{consumer} copied the memory: its array is at {found:#x} instead of {wanted:#x}")]
    NotZeroCopy {
        /// Who made it.
        consumer: Box<str>,
        /// Where its array is.
        found: u64,
        /// The address that was lent.
        wanted: u64,
    },
}

impl ProtocolError {
    pub(super) const fn code(&self) -> Code {
        match self {
            Self::Null => codes::NULL_TENSOR,
            Self::Version { .. } => codes::DLPACK_VERSION,
            Self::Field { .. } => codes::BAD_FIELD,
            Self::Mask { .. } => codes::MASKED,
            Self::HostStream { .. } => codes::HOST_STREAM,
        }
    }

    pub(super) const fn hint(&self) -> Option<Hint<'_>> {
        Some(match self {
            Self::Mask { .. } => Hint::Array(ArrayHint::FillMask),
            Self::HostStream { .. } => Hint::Memory(MemoryHint::OmitStream),
            Self::Null | Self::Version { .. } | Self::Field { .. } => return None,
        })
    }
}

impl ExportError {
    pub(super) const fn code(&self) -> Code {
        match self {
            Self::ReadOnly { .. } => codes::READ_ONLY,
            Self::WriteReadOnly => codes::WRITE_READ_ONLY,
            Self::Device { .. } => codes::OTHER_DEVICE_WANTED,
            Self::Type { .. } => codes::NO_ELEMENT_TYPE,
            Self::NegativeStrides { .. } => codes::NEGATIVE_STRIDES,
            Self::NotZeroCopy { .. } => codes::NOT_ZERO_COPY,
        }
    }

    pub(super) const fn hint(&self) -> MemoryHint<'_> {
        match self {
            Self::ReadOnly { .. } => MemoryHint::CopyOrAlias,
            Self::WriteReadOnly => MemoryHint::WritableDestination,
            Self::Device { .. } => MemoryHint::CopyToDevice,
            Self::NegativeStrides { .. } => MemoryHint::OwnOrder,
            Self::Type { bits_as, .. } => MemoryHint::LendBits { bits_as },
            Self::NotZeroCopy { .. } => MemoryHint::LendCopy,
        }
    }
}
