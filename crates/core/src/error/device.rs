//! Addresses, devices and drivers that are not what they should be.
#![forbid(unsafe_code)]

use thiserror::Error;

use crate::abi::cuda::Status;
use crate::error::codes::{self, Code};
use crate::error::hint::{CaptureHint, DeviceHint, Hint, MemoryHint};
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
    /// The address is not aligned for the element type.
    #[error("address {address:#x} is not a multiple of {alignment}, as {dtype} needs")]
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
    #[error("host address {address:#x} is not mapped in this process ({nearest})")]
    NotMapped {
        /// The first byte that is not there.
        address: u64,
        /// What lies nearest, in words.
        nearest: Box<str>,
    },
    /// In the simulated GPU's memory, but in no allocation.
    #[error(
        "address {address:#x} is in {place}, but in no allocation; \
         it was freed, or it is past the end of its array"
    )]
    NotAllocated {
        /// In whose memory.
        place: &'static str,
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
        /// The device whose memory it should be.
        device: Box<str>,
        /// What lies nearest, in words.
        nearest: Box<str>,
    },
    /// The allocation ends too early, or begins too late.
    #[error(
        "{needed} bytes from {address:#x} are needed, but the allocation that holds it has {size} from \
         {base:#x}, so {found} are there"
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
    #[error("{address:#x} is memory of {found}, not of {wanted}")]
    OtherDevice {
        /// Where.
        address: u64,
        /// The device that it belongs to.
        found: Box<str>,
        /// The device that was named.
        wanted: Box<str>,
    },
    /// Memory of a context that frameworks do not use.
    #[error(
        "{address:#x} was allocated in context {context:#x}, which is not the primary context of {device}"
    )]
    OtherContext {
        /// Where.
        address: u64,
        /// The context that it belongs to.
        context: u64,
        /// The device of that context.
        device: Box<str>,
    },
    /// Freed since it was wrapped.
    #[error("the memory at {address:#x} was freed since it was wrapped{reused}")]
    Gone {
        /// Where.
        address: u64,
        /// Words for a new allocation in its place, or nothing.
        reused: &'static str,
    },
    /// The mapping ends too early.
    #[error(
        "{needed} bytes from {address:#x} are needed, but the mapping that holds it ends after {found}"
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
    /// A name that is not a device's.
    #[error("{found:?} names no device")]
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
    #[error("DLPack device type {code} is not supported")]
    UnknownCode {
        /// The code.
        code: i32,
    },
    /// An environment variable has an unknown value.
    #[error("{variable} is {found:?}; wanted is {wanted}")]
    UnknownChoice {
        /// Its name.
        variable: &'static str,
        /// The values that it may have.
        wanted: &'static str,
        /// What it says.
        found: Box<str>,
    },
    /// A real driver was asked for and there is none.
    #[error("GPULEND_DEVICE=cuda wants a real driver, but none can be loaded ({reason})")]
    NoDriver {
        /// The loader's words.
        reason: Box<str>,
    },
    /// A driver that does not start.
    #[error("{library} was loaded, but cuInit returned {name} ({code}): {advice}")]
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
    #[error("{library} has no function {function}")]
    Incomplete {
        /// Which file.
        library: Box<str>,
        /// What it lacks.
        function: Box<str>,
    },
    /// The simulated GPU's files are not there.
    #[error("the simulated GPU cannot be loaded ({reason})")]
    NoSimulator {
        /// The loader's words.
        reason: Box<str>,
    },
    /// Neither kind of driver is there.
    #[error("no CUDA driver can be loaded ({reason}), and no simulated GPU ({other})")]
    Nothing {
        /// Why there is no driver.
        reason: Box<str>,
        /// Why there is no simulated GPU.
        other: Box<str>,
    },
    /// The simulated GPU beside a real driver.
    #[error(
        "the simulated GPU is refused because this process has a real driver mapped ({library})"
    )]
    Mapped {
        /// Which file.
        library: Box<str>,
    },
    /// A choice that comes too late.
    #[error("{chosen} is in use already")]
    AlreadyChosen {
        /// What is in use.
        chosen: Box<str>,
    },
    /// The environment and the program disagree.
    #[error("GPULEND_DEVICE=cuda allows real GPUs only")]
    Forbidden,
    /// A real driver was asked for, and the loader finds ours.
    #[error(
        "GPULEND_DEVICE=cuda wants a real driver, but the loader finds the simulated GPU ({library})"
    )]
    Exposed {
        /// Which file.
        library: Box<str>,
    },
    /// A driver does not cross a fork.
    #[error("this process was forked after its parent had begun to use a GPU")]
    Forked,
    /// More devices than there are.
    #[error("there is no cuda:{device}; the driver shows {count}, counted from 0")]
    NoSuchDevice {
        /// Which was asked for.
        device: u8,
        /// How many there are.
        count: i32,
    },
    /// There is no simulated GPU.
    #[error("this process has no simulated GPU")]
    NotSimulated,
}

/// A driver call failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DriverError {
    /// A function of the driver returned an error.
    #[error("{call} returned {name} ({code})")]
    Call {
        /// Which function.
        call: &'static str,
        /// The code.
        code: i32,
        /// Its name.
        name: Box<str>,
    },
    /// A function of the driver reported what a kernel did.
    #[error(transparent)]
    Kernel(Box<KernelError>),
    /// What was asked for cannot be ordered without harm to a capture.
    #[error("{what} while a CUDA graph is being captured: {problem}")]
    Captured {
        /// What was asked for.
        what: &'static str,
        /// Why it cannot be.
        problem: &'static str,
        /// What to do instead.
        hint: CaptureHint,
    },
    /// The time between two events was asked for, and one of them has none.
    #[error("an event was recorded without its time")]
    Untimed,
    /// Settings or rules that the simulated GPU does not take.
    #[error("the simulated GPU refuses {found}: {problem}")]
    Settings {
        /// What was asked for.
        found: Box<str>,
        /// Its own words.
        problem: Box<str>,
    },
}

impl AddressError {
    pub(super) const fn code(&self) -> Code {
        match self {
            Self::Null { .. } => codes::NULL_ADDRESS,
            Self::Misaligned { .. } => codes::MISALIGNED,
            Self::OutOfRange { .. } => codes::ADDRESS_OVERFLOW,
            Self::NotMapped { .. } => codes::NOT_MAPPED,
            Self::TooShort { .. } => codes::MAPPING_TOO_SHORT,
            Self::NotAllocated { .. } => codes::NOT_ALLOCATED,
            Self::Unknown { .. } => codes::UNKNOWN_ADDRESS,
            Self::PastEnd { .. } => codes::PAST_END,
            Self::OtherDevice { .. } => codes::OTHER_DEVICE,
            Self::OtherContext { .. } => codes::OTHER_CONTEXT,
            Self::Gone { .. } => codes::GONE,
        }
    }

    pub(super) const fn hint(&self) -> Option<MemoryHint<'_>> {
        Some(match self {
            Self::Misaligned { .. } => MemoryHint::ViewAsBytes,
            Self::NotMapped { .. } => MemoryHint::CheckAddress,
            Self::PastEnd { .. } | Self::TooShort { .. } => MemoryHint::CheckExtents,
            Self::OtherDevice { found, .. } => MemoryHint::NameDevice { found },
            Self::OtherContext { .. } => MemoryHint::PrimaryContext,
            Self::Gone { .. } => MemoryHint::KeepAllocated,
            Self::Null { .. }
            | Self::OutOfRange { .. }
            | Self::NotAllocated { .. }
            | Self::Unknown { .. } => return None,
        })
    }
}

impl DeviceError {
    pub(super) const fn code(&self) -> Code {
        match self {
            Self::UnknownName { .. } => codes::UNKNOWN_DEVICE_NAME,
            Self::OutOfReach { .. } => codes::OUT_OF_REACH,
            Self::UnknownCode { .. } => codes::UNKNOWN_DEVICE_CODE,
            Self::UnknownChoice { .. } => codes::UNKNOWN_CHOICE,
            Self::NoDriver { .. } => codes::NO_DRIVER,
            Self::Refused { .. } => codes::DRIVER_REFUSED,
            Self::Incomplete { .. } => codes::INCOMPLETE_LIBRARY,
            Self::NoSimulator { .. } => codes::NO_SIMULATOR,
            Self::Nothing { .. } => codes::NO_DRIVER_AT_ALL,
            Self::Mapped { .. } => codes::REAL_DRIVER_MAPPED,
            Self::AlreadyChosen { .. } => codes::ALREADY_CHOSEN,
            Self::Forbidden => codes::SIMULATION_FORBIDDEN,
            Self::Exposed { .. } => codes::SIMULATOR_EXPOSED,
            Self::Forked => codes::FORKED,
            Self::NotSimulated => codes::NOT_SIMULATED,
            Self::NoSuchDevice { .. } => codes::NO_SUCH_DEVICE,
        }
    }

    pub(super) fn hint(&self) -> Option<Hint<'_>> {
        Some(Hint::Device(match self {
            Self::UnknownName { .. } => DeviceHint::DeviceNames,
            Self::UnknownCode { .. } => return Some(Hint::Memory(MemoryHint::CopyToHost)),
            Self::NoDriver { .. } => DeviceHint::InstallDriver,
            Self::Incomplete { .. } => DeviceHint::NewerDriver,
            Self::NoSimulator { .. } => DeviceHint::InstallSimulator,
            Self::Nothing { .. } => DeviceHint::InstallEither,
            Self::Mapped { .. } => DeviceHint::ChooseEarlier,
            Self::AlreadyChosen { .. } => DeviceHint::SimulateFirst,
            Self::Forbidden => DeviceHint::UnsetDevice,
            Self::Exposed { .. } => DeviceHint::WithoutRun,
            Self::Forked => DeviceHint::ForkFirst,
            Self::Refused { code, .. } if *code == Status::NOT_INITIALIZED.0 => {
                DeviceHint::ForkFirst
            }
            Self::NotSimulated => DeviceHint::SimulateNow,
            Self::OutOfReach { .. }
            | Self::UnknownChoice { .. }
            | Self::Refused { .. }
            | Self::NoSuchDevice { .. } => return None,
        }))
    }
}

impl DriverError {
    pub(super) const fn code(&self) -> Code {
        match self {
            Self::Call { .. } => codes::DRIVER_CALL,
            Self::Settings { .. } => codes::BAD_SETTINGS,
            Self::Captured { .. } => codes::CAPTURED,
            Self::Kernel(_) => codes::KERNEL_SEEN,
            Self::Untimed => codes::UNTIMED_EVENT,
        }
    }

    pub(super) fn hint(&self) -> Option<Hint<'_>> {
        match self {
            Self::Captured { hint, .. } => Some(Hint::Capture(*hint)),
            Self::Kernel(error) => error.hint().map(Hint::Launch),
            Self::Untimed => Some(Hint::Device(DeviceHint::RecordTime)),
            Self::Call { .. } | Self::Settings { .. } => None,
        }
    }
}
