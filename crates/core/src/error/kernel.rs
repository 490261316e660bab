//! Launches that are refused, and kernels that went wrong.
#![forbid(unsafe_code)]

use std::fmt;

use thiserror::Error;

use crate::error::codes::{self, Code};
use crate::error::hint::{Fit, LaunchHint};

/// How a kernel was launched, as `vectorAdd<<<(4, 1, 1), (256, 1, 1)>>>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The kernel.
    pub kernel: Box<str>,
    /// Blocks along each axis.
    pub grid: [i64; 3],
    /// Threads of a block along each axis.
    pub block: [i64; 3],
}

impl fmt::Display for Shape {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([gx, gy, gz], [bx, by, bz]) = (self.grid, self.block);
        write!(out, "{}<<<({gx}, {gy}, {gz}), ({bx}, {by}, {bz})>>>", self.kernel)
    }
}

/// A kernel that cannot be launched, or that went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum KernelError {
    /// No kernel of that name.
    #[error("the module has no kernel {name:?}; it has {known}")]
    Unknown {
        /// Which was asked for.
        name: Box<str>,
        /// Those that there are, in words.
        known: Box<str>,
    },
    /// Several kernels of that name.
    #[error("{name:?} names several kernels; say which: {candidates}")]
    Ambiguous {
        /// Which was asked for.
        name: Box<str>,
        /// What they are.
        candidates: Box<str>,
    },
    /// No variable of that name.
    #[error("the module has no variable {name:?}; it has {known}")]
    NoVariable {
        /// Which was asked for.
        name: Box<str>,
        /// Those that there are, in words.
        known: Box<str>,
    },
    /// A grid or a block that the device does not have.
    #[error("{shape}: the {what} has {found} along {axis}, and it must be 1 to {most}")]
    Extent {
        /// The launch.
        shape: Box<Shape>,
        /// `grid` or `block`.
        what: &'static str,
        /// `x`, `y` or `z`.
        axis: &'static str,
        /// How many.
        found: i64,
        /// How many there may be.
        most: u32,
    },
    /// More threads than a block may have.
    #[error("{shape}: the block has {found} threads, and {whose} allows {most}")]
    Threads {
        /// The launch.
        shape: Box<Shape>,
        /// How many.
        found: u64,
        /// How many there may be.
        most: u32,
        /// Whether the device or the kernel sets that limit, in words.
        whose: &'static str,
    },
    /// More shared memory than a block may have.
    #[error(
        "{shape}: shared is {found} bytes beside the kernel's own {own}, and a block of this device may have 0 to {most} in all"
    )]
    Shared {
        /// The launch.
        shape: Box<Shape>,
        /// What was asked for.
        found: i64,
        /// What the kernel declares.
        own: u32,
        /// How much there is.
        most: u32,
    },
    /// The driver refused the launch.
    #[error("{shape}: cuLaunchKernelEx returned {name} ({code}); nothing was queued")]
    Refused {
        /// The launch.
        shape: Box<Shape>,
        /// The code.
        code: i32,
        /// Its name.
        name: Box<str>,
    },
    /// The parameters are not as the compiler said.
    #[error(
        "{kernel}: the driver says that parameter {position} has {driver} bytes, and its type {kind} has {typed}"
    )]
    Disagreement {
        /// The kernel.
        kernel: Box<str>,
        /// Which, from 1.
        position: usize,
        /// Its type.
        kind: Box<str>,
        /// What the type says.
        typed: u32,
        /// What the driver says.
        driver: u32,
    },
    /// A launch that must be waited for, in a capture.
    #[error(
        "{kernel}: an argument is memory that a CPU framework holds, so the launch must be waited for, \
         and on a stream that is being captured it cannot be"
    )]
    Captured {
        /// The kernel.
        kernel: Box<str>,
    },
    /// A mistake of a kernel on the simulated GPU.
    #[error("{}{what}{}", launch_words(.shape.as_deref()), argument_words(.argument.as_deref()))]
    Fault {
        /// The launch, if it was one of ours.
        shape: Option<Box<Shape>>,
        /// What happened, and where.
        what: Box<str>,
        /// The argument whose memory lies nearest, in words.
        argument: Option<Box<str>>,
        /// The driver's code.
        code: i32,
    },
    /// A mistake of a kernel on a real GPU.
    #[error(
        "{call} returned {name} ({code}), which a kernel caused that ran before{}; the device's context is lost for this process",
        after_words(.shape.as_deref())
    )]
    Sticky {
        /// The call that saw it.
        call: &'static str,
        /// The newest launch of ours before, if there was one.
        shape: Option<Box<Shape>>,
        /// The driver's code.
        code: i32,
        /// Its name.
        name: Box<str>,
    },
    /// A variable whose size in the module is not that of its type.
    #[error(
        "the variable {name:?} has {bytes} bytes in the module, and its type {kind} has {typed}"
    )]
    VariableSize {
        /// The variable.
        name: Box<str>,
        /// What the driver says.
        bytes: u64,
        /// Its type.
        kind: Box<str>,
        /// What that says.
        typed: u64,
    },
}

fn launch_words(shape: Option<&Shape>) -> String {
    shape.map(|shape| format!("{shape}: ")).unwrap_or_default()
}

fn argument_words(argument: Option<&str>) -> String {
    argument.map(|argument| format!("; {argument}")).unwrap_or_default()
}

fn after_words(shape: Option<&Shape>) -> String {
    shape.map_or_else(
        || ": none of gpulend's".to_owned(),
        |shape| format!("; it was first seen after {shape}"),
    )
}

impl KernelError {
    /// The driver's code, where a kernel went wrong.
    #[must_use]
    pub const fn fault(&self) -> Option<i32> {
        match self {
            Self::Fault { code, .. } | Self::Sticky { code, .. } => Some(*code),
            _ => None,
        }
    }

    pub(super) const fn code(&self) -> Code {
        match self {
            Self::Unknown { .. } => codes::NO_KERNEL,
            Self::Ambiguous { .. } => codes::SEVERAL_KERNELS,
            Self::NoVariable { .. } => codes::NO_VARIABLE,
            Self::Extent { .. } => codes::BAD_EXTENT,
            Self::Threads { .. } => codes::TOO_MANY_THREADS,
            Self::Shared { .. } => codes::TOO_MUCH_SHARED,
            Self::Refused { .. } => codes::LAUNCH_REFUSED,
            Self::Disagreement { .. } => codes::SIZES_DISAGREE,
            Self::Captured { .. } => codes::LAUNCH_CAPTURED,
            Self::Fault { .. } => codes::FAULT,
            Self::Sticky { .. } => codes::CONTEXT_LOST,
            Self::VariableSize { .. } => codes::VARIABLE_SIZE,
        }
    }

    pub(super) const fn hint(&self) -> Option<LaunchHint<'_>> {
        Some(match self {
            Self::Disagreement { .. } => LaunchHint::LaunchUnchecked,
            Self::Captured { .. } => LaunchHint::OutsideCapture,
            Self::Sticky { .. } => LaunchHint::StartAgain,
            Self::Unknown { .. }
            | Self::Ambiguous { .. }
            | Self::NoVariable { .. }
            | Self::Extent { .. }
            | Self::Threads { .. }
            | Self::Shared { .. }
            | Self::Refused { .. }
            | Self::Fault { .. }
            | Self::VariableSize { .. } => return None,
        })
    }
}

/// Which argument of which kernel, and what the kernel wants there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The kernel.
    pub kernel: Box<str>,
    /// Which, from 1.
    pub position: usize,
    /// The parameter's name, if it is known.
    pub name: Option<Box<str>>,
    /// The parameter's type.
    pub wanted: Box<str>,
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: argument {}", self.kernel, self.position)?;
        match &self.name {
            Some(name) => write!(out, " ({name})"),
            None => Ok(()),
        }
    }
}

/// An argument, or their number, that does not suit the kernel's parameters.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SignatureError {
    /// Too few or too many.
    #[error("{signature} takes {wanted} arguments, and got {found}")]
    Count {
        /// The kernel and its parameters.
        signature: Box<str>,
        /// How many there are.
        wanted: usize,
        /// How many there were.
        found: usize,
    },
    /// An array of other elements.
    #[error(
        "{place} is {} {found} array, and the kernel wants {}", article(found), place.wanted
    )]
    Dtype {
        /// Where.
        place: Box<Place>,
        /// The array's type.
        found: Box<str>,
        /// The types that would do.
        fits: Box<[&'static str]>,
        /// The parameter's type that would do.
        declare: Option<Box<str>>,
    },
    /// A number where an array should be.
    #[error("{place} is {found}, and the kernel wants {}", place.wanted)]
    NoArray {
        /// Where.
        place: Box<Place>,
        /// What it is.
        found: Box<str>,
    },
    /// An array where a value should be.
    #[error("{place} is an array ({found}), and the kernel wants {} by value", place.wanted)]
    NoValue {
        /// Where.
        place: Box<Place>,
        /// What it is.
        found: Box<str>,
    },
    /// Memory of the host.
    #[error("{place} is on cpu ({found}), and kernels do not reach the host's memory")]
    Host {
        /// Where.
        place: Box<Place>,
        /// What it is.
        found: Box<str>,
    },
    /// A tensor of the host, where the GPU is real.
    #[error("{place} is on cpu ({found}), and {device} is a real GPU")]
    HostTensor {
        /// Where.
        place: Box<Place>,
        /// What it is.
        found: Box<str>,
        /// The kernel's device.
        device: Box<str>,
    },
    /// An array that may not be written.
    #[error("{place} is read-only, and the kernel could write through {}", place.wanted)]
    ReadOnly {
        /// Where.
        place: Box<Place>,
    },
    /// A read-only array for a kernel of which it is unknown what it writes.
    #[error(
        "{place} is read-only, and the image does not say whether the kernel writes through this parameter"
    )]
    ReadOnlyUntyped {
        /// Where.
        place: Box<Place>,
    },
    /// An array with gaps or in another order.
    #[error(
        "{place} has shape {shape} and strides {strides} and is not contiguous in row-major order, so the kernel would read \
         other elements"
    )]
    Strided {
        /// Where.
        place: Box<Place>,
        /// The extents.
        shape: Box<str>,
        /// The strides, in elements.
        strides: Box<str>,
    },
    /// An array whose address is not aligned for a vector type.
    #[error("{place} begins at {address:#x}, and {} must be aligned to {align} bytes", place.wanted)]
    Misaligned {
        /// Where.
        place: Box<Place>,
        /// The array's beginning.
        address: u64,
        /// What it should be a multiple of.
        align: u32,
    },
    /// An array that ends inside a vector.
    #[error("{place} has {bytes} bytes, which is not a multiple of what {} points to ({size} bytes each)", place.wanted)]
    Ragged {
        /// Where.
        place: Box<Place>,
        /// The array's bytes.
        bytes: u64,
        /// Those of a vector.
        size: u32,
    },
    /// An array of another device.
    #[error("{place} is on {found}, and the kernel was compiled for {wanted}")]
    Device {
        /// Where.
        place: Box<Place>,
        /// Where the array is.
        found: Box<str>,
        /// Where it should be.
        wanted: Box<str>,
    },
    /// A number that does not fit.
    #[error("{place} is {value}, and {} holds {low} to {high}", place.wanted)]
    Range {
        /// Where.
        place: Box<Place>,
        /// The number.
        value: Box<str>,
        /// The least.
        low: i128,
        /// The most.
        high: i128,
    },
    /// A value of another kind.
    #[error("{place} is {found}, and the kernel wants {} by value", place.wanted)]
    Value {
        /// Where.
        place: Box<Place>,
        /// What it is.
        found: Box<str>,
        /// What would do.
        fit: Fit,
    },
    /// A number that would become infinite.
    #[error("{place} is {value:e}, which is infinite as {}", place.wanted)]
    Overflow {
        /// Where.
        place: Box<Place>,
        /// The number.
        value: Number,
    },
    /// A struct of another size.
    #[error("{place} has {found} bytes, and {} has {size}", place.wanted)]
    Size {
        /// Where.
        place: Box<Place>,
        /// How many there are.
        found: usize,
        /// How many there should be.
        size: u32,
    },
    /// A grid, a block, the shared memory or a count is not an integer.
    #[error("{kernel}: {what} is {found}; give {fit}")]
    Shape {
        /// The kernel.
        kernel: Box<str>,
        /// `grid`, `block`, `shared` or `forall`.
        what: &'static str,
        /// What it is.
        found: Box<str>,
        /// What would do.
        fit: &'static str,
    },
    /// A stream of another device.
    #[error("{kernel}: the stream is of {found}, and the kernel was compiled for {wanted}")]
    Stream {
        /// The kernel.
        kernel: Box<str>,
        /// The stream's device.
        found: Box<str>,
        /// The kernel's device.
        wanted: Box<str>,
    },
    /// A value of unknown size.
    #[error("{place} is {found}, and of the parameter only its {size} bytes are known")]
    Untyped {
        /// Where.
        place: Box<Place>,
        /// What it is.
        found: Box<str>,
        /// The parameter's bytes.
        size: u32,
    },
}

fn article(word: &str) -> &'static str {
    if word.starts_with('i') { "an" } else { "a" }
}

/// A number of which equality asks for the same bits.
#[derive(Clone, Copy, Debug)]
pub struct Number(pub f64);

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Eq for Number {}

impl fmt::LowerExp for Number {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl SignatureError {
    pub(super) const fn code(&self) -> Code {
        match self {
            Self::Count { .. } => codes::ARGUMENT_COUNT,
            Self::Dtype { .. } => codes::ELEMENT_TYPE,
            Self::NoArray { .. } => codes::NOT_AN_ARRAY,
            Self::NoValue { .. } => codes::NOT_A_VALUE,
            Self::Host { .. } => codes::HOST_MEMORY,
            Self::HostTensor { .. } => codes::HOST_TENSOR,
            Self::ReadOnly { .. } => codes::READ_ONLY_ARGUMENT,
            Self::Strided { .. } => codes::NOT_CONTIGUOUS,
            Self::Misaligned { .. } => codes::VECTOR_MISALIGNED,
            Self::Ragged { .. } => codes::VECTOR_CUT,
            Self::Device { .. } => codes::ARGUMENT_DEVICE,
            Self::Range { .. } => codes::INTEGER_RANGE,
            Self::Value { .. } => codes::VALUE_KIND,
            Self::Overflow { .. } => codes::NUMBER_RANGE,
            Self::Size { .. } => codes::STRUCT_SIZE,
            Self::Untyped { .. } => codes::UNTYPED,
            Self::Shape { .. } => codes::LAUNCH_NUMBER,
            Self::Stream { .. } => codes::STREAM_DEVICE,
            Self::ReadOnlyUntyped { .. } => codes::READ_ONLY_UNTYPED,
        }
    }

    pub(super) fn hint(&self) -> Option<LaunchHint<'_>> {
        Some(match self {
            Self::Dtype { fits, declare, .. } => {
                LaunchHint::Convert { fits, declare: declare.as_deref() }
            }
            Self::NoArray { .. } => LaunchHint::PassArray,
            Self::NoValue { .. } => LaunchHint::PassElement,
            Self::Host { .. } => LaunchHint::CopyFromHost,
            Self::HostTensor { .. } => LaunchHint::MoveToDevice,
            Self::ReadOnly { .. } => LaunchHint::DeclareConst,
            Self::ReadOnlyUntyped { .. } => LaunchHint::ConstOrUnchecked,
            Self::Strided { .. } => LaunchHint::CopyOrStrided,
            Self::Misaligned { .. } => LaunchHint::AlignVectors,
            Self::Ragged { .. } => LaunchHint::WholeVectors,
            Self::Device { found, .. } => LaunchHint::SameDevice { found },
            Self::Value { fit, .. } => LaunchHint::Pass(*fit),
            Self::Overflow { .. } => LaunchHint::SmallerNumber,
            Self::Size { .. } => LaunchHint::PadStruct,
            Self::Stream { wanted, .. } => LaunchHint::StreamOf { device: wanted },
            Self::Untyped { .. } => LaunchHint::SizedValue,
            Self::Count { .. } | Self::Range { .. } | Self::Shape { .. } => return None,
        })
    }
}
