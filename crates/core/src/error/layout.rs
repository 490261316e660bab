//! Shapes, strides and element types that describe no array.
#![forbid(unsafe_code)]

use thiserror::Error;

use crate::error::codes::{self, Code};
use crate::error::hint::ArrayHint;

/// Shape, strides or element type describe no tensor.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// Shape and strides disagree on the rank.
    #[error("shape has {shape} axes but strides has {strides}")]
    Rank {
        /// Axes of the shape.
        shape: usize,
        /// Axes of the strides.
        strides: usize,
    },
    /// More axes than any framework takes.
    #[error("the array has {rank} axes; at most {most} are supported")]
    TooManyAxes {
        /// Axes found.
        rank: i64,
        /// Axes allowed.
        most: usize,
    },
    /// An extent below zero.
    #[error("axis {axis} has extent {extent}; an extent is zero or more")]
    NegativeExtent {
        /// Which axis.
        axis: usize,
        /// What it said.
        extent: i64,
    },
    /// The elements span more than an address can say.
    #[error("axis {axis} reaches past what 64 bits can address")]
    Overflow {
        /// Where the sum overflowed.
        axis: usize,
    },
    /// A byte stride that is not a multiple of the element's size.
    #[error(
        "axis {axis} has a stride of {stride} bytes, which is not a multiple of the {itemsize}-byte element"
    )]
    BrokenStride {
        /// Which axis.
        axis: usize,
        /// The stride in bytes.
        stride: i64,
        /// Bytes of an element.
        itemsize: usize,
    },
    /// A type code DLPack does not list, or with bits it does not allow.
    #[error("element type with DLPack code {code} and {bits} bits is unknown")]
    UnknownType {
        /// Type code.
        code: u8,
        /// Bits.
        bits: u8,
    },
    /// A vector type.
    #[error("elements are vectors of {lanes} lanes; only 1 lane is supported")]
    Lanes {
        /// Lanes found.
        lanes: u16,
    },
    /// A name or typestr that names no type.
    #[error("{found:?} names no element type")]
    UnknownName {
        /// The name.
        found: Box<str>,
    },
    /// Bytes in the other order.
    #[error("{found:?} is big-endian")]
    BigEndian {
        /// The typestr.
        found: Box<str>,
    },
    /// An index outside its axis.
    #[error("index {index} is outside axis {axis} of extent {extent}")]
    Index {
        /// Which axis.
        axis: usize,
        /// The index.
        index: i64,
        /// How long the axis is.
        extent: i64,
    },
    /// More indices than axes.
    #[error("{given} indices for an array of {rank} axes")]
    TooManyIndices {
        /// Indices given.
        given: usize,
        /// Axes there.
        rank: usize,
    },
    /// A slice whose step is 0.
    #[error("a slice step cannot be zero")]
    ZeroStep,
    /// A slice of packed elements that begins inside a byte.
    #[error("element {element} of packed {bits}-bit data begins inside a byte")]
    InsideByte {
        /// The first element.
        element: i64,
        /// Bits of an element.
        bits: u8,
        /// Elements until one begins a byte.
        every: i64,
    },
    /// Another number of elements.
    #[error("cannot reshape {size} elements into {shape:?}")]
    ReshapeSize {
        /// Elements there.
        size: i64,
        /// Shape wanted.
        shape: Box<[i64]>,
    },
    /// The strides allow no such view.
    #[error("shape {from:?} with strides {strides:?} cannot be viewed as {shape:?} without a copy")]
    ReshapeCopies {
        /// Shape there.
        from: Box<[i64]>,
        /// Strides there.
        strides: Box<[i64]>,
        /// Shape wanted.
        shape: Box<[i64]>,
    },
    /// The bits cannot be read as the other type.
    #[error("cannot view {from} as {to}: {reason}")]
    View {
        /// Type there.
        from: Box<str>,
        /// Type wanted.
        to: Box<str>,
        /// Which rule.
        reason: &'static str,
    },
    /// Two arrays that must match do not.
    #[error(
        "the source is {source_is} but the destination is {destination_is}; copies convert and broadcast nothing"
    )]
    Mismatch {
        /// What the source is.
        source_is: Box<str>,
        /// What the destination is.
        destination_is: Box<str>,
    },
    /// Elements of the destination share bytes, or may.
    #[error("elements of the destination overlap in memory, or may because its strides interleave")]
    Overlap,
    /// More pieces than a device should be asked to copy.
    #[error("the array is in so many pieces that it would take {copies} copies")]
    Scattered {
        /// How many.
        copies: i64,
    },
    /// Two ellipses.
    #[error("an index can have one ellipsis only")]
    TwoEllipses,
}

impl LayoutError {
    pub(super) const fn code(&self) -> Code {
        match self {
            Self::Rank { .. } => codes::STRIDE_COUNT,
            Self::TooManyAxes { .. } => codes::TOO_MANY_AXES,
            Self::NegativeExtent { .. } => codes::NEGATIVE_EXTENT,
            Self::Overflow { .. } => codes::SPAN_OVERFLOW,
            Self::BrokenStride { .. } => codes::BROKEN_STRIDE,
            Self::UnknownType { .. } => codes::UNKNOWN_ELEMENT_CODE,
            Self::Lanes { .. } => codes::VECTOR_ELEMENTS,
            Self::UnknownName { .. } => codes::UNKNOWN_ELEMENT_NAME,
            Self::BigEndian { .. } => codes::BIG_ENDIAN,
            Self::Index { .. } => codes::INDEX_OUTSIDE,
            Self::TooManyIndices { .. } => codes::TOO_MANY_INDICES,
            Self::ZeroStep => codes::ZERO_STEP,
            Self::InsideByte { .. } => codes::INSIDE_BYTE,
            Self::ReshapeSize { .. } => codes::RESHAPE_SIZE,
            Self::ReshapeCopies { .. } => codes::RESHAPE_COPIES,
            Self::View { .. } => codes::VIEW_REFUSED,
            Self::Mismatch { .. } => codes::MISMATCH,
            Self::Overlap => codes::OVERLAP,
            Self::TwoEllipses => codes::TWO_ELLIPSES,
            Self::Scattered { .. } => codes::SCATTERED,
        }
    }

    pub(super) const fn hint(&self) -> Option<ArrayHint> {
        Some(match self {
            Self::Rank { .. } => ArrayHint::StridePerAxis,
            Self::Lanes { .. } => ArrayHint::LanesAsAxis,
            Self::UnknownName { .. } => ArrayHint::ElementNames,
            Self::BigEndian { .. } => ArrayHint::NativeByteOrder,
            Self::InsideByte { every, .. } => ArrayHint::StartAtMultiple { every: *every },
            Self::ReshapeCopies { .. } => ArrayHint::CopyContiguous,
            Self::Overlap => ArrayHint::WriteContiguous,
            Self::Scattered { .. } => ArrayHint::ContiguousOnDevice,
            Self::TooManyAxes { .. }
            | Self::NegativeExtent { .. }
            | Self::Overflow { .. }
            | Self::BrokenStride { .. }
            | Self::UnknownType { .. }
            | Self::Index { .. }
            | Self::TooManyIndices { .. }
            | Self::ZeroStep
            | Self::ReshapeSize { .. }
            | Self::View { .. }
            | Self::Mismatch { .. }
            | Self::TwoEllipses => return None,
        })
    }
}
