//! Addresses, devices and drivers that are not what they were said to be.
#![forbid(unsafe_code)]

use thiserror::Error;

use crate::error::kernel::KernelError;

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
    /// No driver knows it.
    #[error(
        "{address:#x} is not an address of {device} ({nearest}); \
         it was never allocated there, or it was freed"
    )]
    Unknown {
        /// Where.
        address: u64,
        /// Whose memory it should be.
        device: Box<str>,
        /// What lies nearest, in words.
        nearest: Box<str>,
    },
    /// The allocation ends too early, or begins too late.
    #[error(
        "{needed} bytes from {address:#x} are needed, but the allocation that holds it has {size} from \
         {base:#x}, so {found} are there; check shape, strides and dtype"
    )]
    PastEnd {
        /// The first byte needed.
        address: u64,
        /// Bytes spanned by shape and strides.
        needed: u64,
        /// Where the allocation begins.
        base: u64,
        /// How long it is.
        size: u64,
        /// Bytes of it from the first one needed.
        found: u64,
    },
    /// Memory of another device.
    #[error(
        "{address:#x} is memory of {found}, not of {wanted}; say device={found:?}, or leave it out"
    )]
    OtherDevice {
        /// Where.
        address: u64,
        /// Whose it is.
        found: Box<str>,
        /// Whose it was said to be.
        wanted: Box<str>,
    },
    /// Memory of a context that frameworks do not use.
    #[error(
        "{address:#x} was allocated in context {context:#x}, which is not the primary context of {device}; \
         frameworks use that one only: make it current before you allocate (cuDevicePrimaryCtxRetain \
         instead of cuCtxCreate, pycuda.autoprimaryctx instead of pycuda.autoinit)"
    )]
    OtherContext {
        /// Where.
        address: u64,
        /// Whose it is.
        context: u64,
        /// Of which device.
        device: Box<str>,
    },
    /// Freed since it was wrapped.
    #[error(
        "the memory at {address:#x} was freed since it was wrapped{reused}; \
         keep it allocated as long as the lease, by owner= or deleter="
    )]
    Gone {
        /// Where.
        address: u64,
        /// Words for a new allocation in its place, or none.
        reused: &'static str,
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
    /// Memory of a device that this process does not use.
    #[error("the memory is said to be on {device}, but {problem}")]
    OutOfReach {
        /// Where it is.
        device: Box<str>,
        /// Why it cannot be reached.
        problem: &'static str,
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
    /// More devices than there are.
    #[error("there is no cuda:{device}; the driver shows {count}, counted from 0")]
    NoSuchDevice {
        /// Which was asked for.
        device: u8,
        /// How many there are.
        count: i32,
    },
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
    /// A function of the driver told what a kernel did.
    #[error(transparent)]
    Kernel(Box<KernelError>),
    /// What was asked for cannot be ordered without harm to a capture.
    #[error("{what} while a CUDA graph is being captured: {problem}")]
    Captured {
        /// What was asked for.
        what: &'static str,
        /// Why it cannot be, and what to do.
        problem: &'static str,
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

impl AddressError {
    pub(super) fn number(&self) -> u32 {
        match self {
            Self::Null { .. } => 1,
            Self::Misaligned { .. } => 2,
            Self::OutOfRange { .. } => 3,
            Self::NotMapped { .. } => 4,
            Self::TooShort { .. } => 5,
            Self::NotAllocated { .. } => 6,
            Self::Unknown { .. } => 7,
            Self::PastEnd { .. } => 8,
            Self::OtherDevice { .. } => 9,
            Self::OtherContext { .. } => 10,
            Self::Gone { .. } => 11,
        }
    }
}

impl DeviceError {
    pub(super) fn number(&self) -> u32 {
        match self {
            Self::UnknownName { .. } => 1,
            Self::OutOfReach { .. } => 2,
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
            Self::NoSuchDevice { .. } => 16,
        }
    }
}

impl DriverError {
    pub(super) fn number(&self) -> u32 {
        match self {
            Self::Call { .. } => 1,
            Self::Settings { .. } => 2,
            Self::Captured { .. } => 3,
            Self::Kernel(_) => 4,
        }
    }
}
