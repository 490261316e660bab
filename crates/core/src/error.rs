//! Every way a call can be refused, and the stable code of each.
//!
//! Messages may change between releases; codes may not.
#![forbid(unsafe_code)]

use thiserror::Error;

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
    /// There is no such device here.
    #[error(transparent)]
    NoDevice(#[from] DeviceError),
    /// A driver call failed.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// The host has no room.
    #[error("cannot allocate {bytes} bytes of host memory")]
    OutOfMemory {
        /// How much was asked for.
        bytes: u64,
    },
}

/// Shape, strides or element type describe no tensor.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// Shape and strides disagree on the rank.
    #[error("shape has {shape} axes but strides has {strides}; give one stride for each axis")]
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
    /// A byte stride that is no whole number of elements.
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
    #[error(
        "elements are vectors of {lanes} lanes; only 1 lane is supported: \
         export a view with the lanes as a last axis, or as uint8 (torch: `tensor.view(torch.uint8)`)"
    )]
    Lanes {
        /// Lanes found.
        lanes: u16,
    },
    /// A name or typestr that names no type.
    #[error(
        "{found:?} names no element type; known are names such as 'float32', 'bfloat16', 'int64', 'bool', 'complex64', \
         NumPy typestrs such as '<f4', and dtype objects of NumPy, ml_dtypes, torch and ctypes"
    )]
    UnknownName {
        /// The name.
        found: Box<str>,
    },
    /// Bytes in the other order.
    #[error(
        "{found:?} is big-endian; convert the array first (`array.astype(array.dtype.newbyteorder('='))`)"
    )]
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
    /// A slice that stands still.
    #[error("a slice step cannot be zero")]
    ZeroStep,
    /// A slice of packed elements that begins inside a byte.
    #[error(
        "element {element} of packed {bits}-bit data begins inside a byte; start at a multiple of {every}"
    )]
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
    #[error(
        "shape {from:?} with strides {strides:?} cannot be viewed as {shape:?} without a copy; \
         copy to a contiguous array first"
    )]
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
    #[error(
        "elements of the destination overlap in memory, or may because its strides interleave; \
         write to a contiguous array instead"
    )]
    Overlap,
    /// Two ellipses.
    #[error("an index can have one ellipsis only")]
    TwoEllipses,
}

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
    #[error("the memory is on {found}, but {wanted} was asked for; copy it there first")]
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

/// An address is not what it was said to be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AddressError {
    /// Null, with elements behind it.
    #[error("the address is null but the shape has {elements} elements")]
    Null {
        /// How many.
        elements: i64,
    },
    /// The first element lies askew.
    #[error(
        "address {address:#x} is not a multiple of {alignment}, which {dtype} needs; \
         take a view as 'uint8', or copy to aligned memory"
    )]
    Misaligned {
        /// Where.
        address: u64,
        /// What it should be a multiple of.
        alignment: u64,
        /// For which element type.
        dtype: Box<str>,
    },
    /// The elements run over an end of the address space.
    #[error("{bytes} bytes at {address:#x} run past the end of the address space")]
    OutOfRange {
        /// First element.
        address: u64,
        /// Bytes spanned.
        bytes: u64,
    },
    /// Nothing is mapped there.
    #[error(
        "host address {address:#x} is not mapped in this process ({nearest}); \
         check that it is an address and still allocated"
    )]
    NotMapped {
        /// The first byte that is not there.
        address: u64,
        /// What lies nearest, in words.
        nearest: Box<str>,
    },
    /// In the simulated GPU's memory, but in no allocation.
    #[error(
        "address {address:#x} lies in the simulated GPU's memory, but in no allocation; \
         it was freed, or it lies past the end of its array"
    )]
    NotAllocated {
        /// Where.
        address: u64,
    },
    /// The mapping ends too early.
    #[error(
        "{needed} bytes from {address:#x} are needed, but the mapping that holds it ends after {found}; \
         check shape, strides and dtype"
    )]
    TooShort {
        /// The first byte.
        address: u64,
        /// Bytes spanned by shape and strides.
        needed: u64,
        /// Bytes there.
        found: u64,
    },
}

/// There is no such device here.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// A name that is no device.
    #[error("{found:?} names no device; write 'cpu', 'cuda:0' or 'opencl:0'")]
    UnknownName {
        /// The name.
        found: Box<str>,
    },
    /// Memory that this release cannot reach.
    #[error("the memory is on {device}; this release of gpulend lends host memory only")]
    HostOnly {
        /// Where it is.
        device: Box<str>,
    },
    /// A code DLPack may know and we do not.
    #[error("DLPack device type {code} is not supported; copy the array to host memory first")]
    UnknownCode {
        /// The code.
        code: i32,
    },
    /// A choice that is none.
    #[error("GPULEND_DEVICE is {found:?}; wanted is auto, cuda or simulated")]
    UnknownChoice {
        /// What it says.
        found: Box<str>,
    },
    /// A real driver was asked for and there is none.
    #[error(
        "GPULEND_DEVICE=cuda wants a real driver, but none can be loaded ({reason}); \
         install one, or set GPULEND_DEVICE=simulated"
    )]
    NoDriver {
        /// The loader's words.
        reason: Box<str>,
    },
    /// A driver that does not start.
    #[error("{library} was loaded, but cuInit answered {name} ({code}): {advice}")]
    Refused {
        /// Which file.
        library: Box<str>,
        /// The code's name.
        name: Box<str>,
        /// The code.
        code: i32,
        /// Why, or what usually helps.
        advice: Box<str>,
    },
    /// A library that is not what its name says.
    #[error(
        "{library} has no function {function}; install a newer driver, \
         or set GPULEND_SIM_LIBRARY to a libgpulend_sim.so of this release"
    )]
    Incomplete {
        /// Which file.
        library: Box<str>,
        /// What it lacks.
        function: Box<str>,
    },
    /// The simulated GPU's files are not there.
    #[error(
        "the simulated GPU cannot be loaded ({reason}); install gpulend again, \
         or set GPULEND_SIM_LIBRARY to the path of libgpulend_sim.so"
    )]
    NoSimulator {
        /// The loader's words.
        reason: Box<str>,
    },
    /// Neither kind of driver is there.
    #[error(
        "no CUDA driver can be loaded ({reason}), and no simulated GPU ({other}); \
         install a driver, or gpulend again"
    )]
    Nothing {
        /// Why there is no driver.
        reason: Box<str>,
        /// Why there is no simulated GPU.
        other: Box<str>,
    },
    /// The simulated GPU beside a real driver.
    #[error(
        "the simulated GPU is refused because this process has a real driver mapped ({library}); \
         choose it before anything loads the driver, or set GPULEND_DEVICE=cuda"
    )]
    Mapped {
        /// Which file.
        library: Box<str>,
    },
    /// A choice that comes too late.
    #[error(
        "{chosen} is in use already; call gpulend.simulate() before the first use, \
         and again only with the same settings"
    )]
    AlreadyChosen {
        /// What is in use.
        chosen: Box<str>,
    },
    /// The environment and the program disagree.
    #[error("GPULEND_DEVICE=cuda allows real GPUs only; unset it to call gpulend.simulate()")]
    Forbidden,
    /// A real driver was asked for, and the loader finds ours.
    #[error(
        "GPULEND_DEVICE=cuda wants a real driver, but the loader finds the simulated GPU ({library}); \
         start the program without `gpulend run`"
    )]
    Exposed {
        /// Which file.
        library: Box<str>,
    },
    /// A driver does not cross a fork.
    #[error(
        "this process was forked after its parent had begun to use a GPU; fork before the first use, \
         or start processes by multiprocessing's 'spawn' or 'forkserver'"
    )]
    Forked,
    /// The simulated GPU was spoken to, and there is none.
    #[error(
        "this process has no simulated GPU; call gpulend.simulate() first, \
         or start the program by `gpulend run`"
    )]
    NotSimulated,
}

/// A driver call failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DriverError {
    /// A function of the driver answered an error.
    #[error("{call} answered {name} ({code})")]
    Call {
        /// Which function.
        call: &'static str,
        /// The code.
        code: i32,
        /// Its name.
        name: Box<str>,
    },
    /// Settings or rules that the simulated GPU does not take.
    #[error("the simulated GPU refuses {found}: {problem}")]
    Settings {
        /// What it was told.
        found: Box<str>,
        /// Its own words.
        problem: Box<str>,
    },
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
            Self::NoDevice(error) => 900 + error.number(),
            Self::Driver(error) => 1000 + error.number(),
            Self::OutOfMemory { .. } => 1000,
        }
    }
}

impl LayoutError {
    fn number(&self) -> u32 {
        match self {
            Self::Rank { .. } => 1,
            Self::TooManyAxes { .. } => 2,
            Self::NegativeExtent { .. } => 3,
            Self::Overflow { .. } => 4,
            Self::BrokenStride { .. } => 5,
            Self::UnknownType { .. } => 6,
            Self::Lanes { .. } => 7,
            Self::UnknownName { .. } => 8,
            Self::BigEndian { .. } => 9,
            Self::Index { .. } => 10,
            Self::TooManyIndices { .. } => 11,
            Self::ZeroStep => 12,
            Self::InsideByte { .. } => 13,
            Self::ReshapeSize { .. } => 14,
            Self::ReshapeCopies { .. } => 15,
            Self::View { .. } => 16,
            Self::Mismatch { .. } => 17,
            Self::Overlap => 18,
            Self::TwoEllipses => 19,
        }
    }
}

impl ProtocolError {
    fn number(&self) -> u32 {
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
    fn number(&self) -> u32 {
        match self {
            Self::ReadOnly { .. } => 1,
            Self::WriteReadOnly => 2,
            Self::Device { .. } => 3,
            Self::Type { .. } => 5,
            Self::NegativeStrides { .. } => 6,
        }
    }
}

impl AddressError {
    fn number(&self) -> u32 {
        match self {
            Self::Null { .. } => 1,
            Self::Misaligned { .. } => 2,
            Self::OutOfRange { .. } => 3,
            Self::NotMapped { .. } => 4,
            Self::TooShort { .. } => 5,
            Self::NotAllocated { .. } => 6,
        }
    }
}

impl DeviceError {
    fn number(&self) -> u32 {
        match self {
            Self::UnknownName { .. } => 1,
            Self::HostOnly { .. } => 2,
            Self::UnknownCode { .. } => 3,
            Self::UnknownChoice { .. } => 4,
            Self::NoDriver { .. } => 5,
            Self::Refused { .. } => 6,
            Self::Incomplete { .. } => 7,
            Self::NoSimulator { .. } => 8,
            Self::Nothing { .. } => 9,
            Self::Mapped { .. } => 10,
            Self::AlreadyChosen { .. } => 11,
            Self::Forbidden => 12,
            Self::Exposed { .. } => 13,
            Self::Forked => 14,
            Self::NotSimulated => 15,
        }
    }
}

impl DriverError {
    fn number(&self) -> u32 {
        match self {
            Self::Call { .. } => 1,
            Self::Settings { .. } => 2,
        }
    }
}
