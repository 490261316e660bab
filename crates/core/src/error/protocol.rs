//! What crosses the border between libraries and should not, or cannot.
#![forbid(unsafe_code)]

use thiserror::Error;

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
    /// A field that cannot be.
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
    #[error(
        "{protocol}: the array has a mask; fill it first, because a plain array would show the masked bytes"
    )]
    Mask {
        /// Which protocol.
        protocol: &'static str,
    },
    /// A stream named for memory that has none.
    #[error("{found} names a stream, but host memory has no streams; leave it out")]
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
    #[error(
        "the memory is read-only and {consumer} cannot carry that; \
         lend a copy (`copy=True`), or accept a writable alias (`allow_writable_alias=True`)"
    )]
    ReadOnly {
        /// Who asked.
        consumer: Box<str>,
    },
    /// Somebody asked us to write read-only memory.
    #[error("the destination is read-only; copy into a writable array instead")]
    WriteReadOnly,
    /// The consumer wants another device.
    #[error(
        "the memory is on {found}, but {wanted} was asked for; copy it there first \
         (`lease.to_host()`, `gpulend.from_host(array)`)"
    )]
    Device {
        /// Where it is.
        found: Box<str>,
        /// Where it was wanted.
        wanted: Box<str>,
    },
    /// The consumer's arrays only run forwards.
    #[error(
        "{consumer} has no negative strides, and the memory is seen with {strides:?}; lend it in its own \
         order and flip it there, or lend a copy (`copy=True`)"
    )]
    NegativeStrides {
        /// Who asked.
        consumer: Box<str>,
        /// The strides.
        strides: Box<[i64]>,
    },
    /// The protocol has no name for the element type.
    #[error(
        "{consumer} has no element type {dtype}; lend `lease.view({bits_as:?})` and reinterpret the bits there"
    )]
    Type {
        /// Who asked.
        consumer: Box<str>,
        /// The element type.
        dtype: Box<str>,
        /// An integer type of the same width.
        bits_as: &'static str,
    },
}

impl ProtocolError {
    pub(super) fn number(&self) -> u32 {
        match self {
            Self::Null => 1,
            Self::Version { .. } => 2,
            Self::Field { .. } => 3,
            Self::Mask { .. } => 4,
            Self::HostStream { .. } => 5,
        }
    }
}

impl ExportError {
    pub(super) fn number(&self) -> u32 {
        match self {
            Self::ReadOnly { .. } => 1,
            Self::WriteReadOnly => 2,
            Self::Device { .. } => 3,
            Self::Type { .. } => 5,
            Self::NegativeStrides { .. } => 6,
        }
    }
}
