//! How a refused call can be put right: what to do is typed here, and each binding words it for its own users.
//!
//! `Display` has words for Rust, in which nothing of another language occurs. A binding matches every hint, without a
//! wildcard, so that a new one does not compile until each binding has decided on its words.
#![forbid(unsafe_code)]

use std::fmt;

/// How to put a refused call right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint<'a> {
    /// Shapes, strides and element types.
    Array(ArrayHint),
    /// Addresses, leases, and what is handed out.
    Memory(MemoryHint<'a>),
    /// Compilers, their headers and images.
    Compile(CompileHint),
    /// Launches and their arguments.
    Launch(LaunchHint<'a>),
    /// Drivers, devices, and the simulated GPU.
    Device(DeviceHint),
    /// Streams that are being captured.
    Capture(CaptureHint),
    /// Tickets for other processes.
    Ticket(TicketHint),
}

impl fmt::Display for Hint<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Array(hint) => hint.fmt(out),
            Self::Memory(hint) => hint.fmt(out),
            Self::Compile(hint) => hint.fmt(out),
            Self::Launch(hint) => hint.fmt(out),
            Self::Device(hint) => hint.fmt(out),
            Self::Capture(hint) => hint.fmt(out),
            Self::Ticket(hint) => hint.fmt(out),
        }
    }
}

/// Hints for shapes, strides and element types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayHint {
    /// Give one stride for each axis.
    StridePerAxis,
    /// Show a vector's lanes as an axis.
    LanesAsAxis,
    /// Element types have names such as these.
    ElementNames,
    /// Convert to this machine's byte order.
    NativeByteOrder,
    /// Start a slice of packed elements at the beginning of a byte.
    StartAtMultiple {
        /// Elements until one begins a byte.
        every: i64,
    },
    /// Copy to a contiguous array first.
    CopyContiguous,
    /// Write to a contiguous array instead.
    WriteContiguous,
    /// Make the array contiguous on its own device first.
    ContiguousOnDevice,
    /// Fill a masked array first.
    FillMask,
}

impl fmt::Display for ArrayHint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match *self {
            Self::StridePerAxis => "give one stride for each axis",
            Self::LanesAsAxis => "export a view with the lanes as a last axis, or as uint8",
            Self::ElementNames => "known are names such as 'float32', 'bfloat16', 'int64', 'bool', 'complex64', and typestrs such as '<f4'",
            Self::NativeByteOrder => "convert the array to this machine's byte order first",
            Self::StartAtMultiple { every } => return write!(out, "start at a multiple of {every}"),
            Self::CopyContiguous => "copy to a contiguous array first",
            Self::WriteContiguous => "write to a contiguous array instead",
            Self::ContiguousOnDevice => "make it contiguous on its device first",
            Self::FillMask => "fill it first",
        })
    }
}

/// Hints for addresses, leases, and what is handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryHint<'a> {
    /// Name no stream.
    OmitStream,
    /// Lend a copy, or accept that the memory could be written.
    CopyOrAlias,
    /// Copy into memory that may be written.
    WritableDestination,
    /// Copy to the other device first.
    CopyToDevice,
    /// Copy to the host first.
    CopyToHost,
    /// Lend a copy, if a copy will do.
    LendCopy,
    /// Lend in the memory's own order, or a copy.
    OwnOrder,
    /// Lend the bits as an integer type.
    LendBits {
        /// An integer type of the same width.
        bits_as: &'a str,
    },
    /// View the memory as bytes, or copy it to an aligned address.
    ViewAsBytes,
    /// Check that the number is an address and still allocated.
    CheckAddress,
    /// Check shape, strides and element type.
    CheckExtents,
    /// Name the device that the memory is on, or none.
    NameDevice {
        /// The device that the memory is on.
        found: &'a str,
    },
    /// Allocate in the device's primary context.
    PrimaryContext,
    /// Keep wrapped memory allocated as long as its lease.
    KeepAllocated,
    /// Borrow or wrap the memory again.
    BorrowAgain,
    /// End first what was lent.
    EndLoans,
    /// Release leases, or have other libraries give memory back.
    FreeDeviceMemory,
}

impl fmt::Display for MemoryHint<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match *self {
            Self::OmitStream => "name no stream",
            Self::CopyOrAlias => "lend a copy",
            Self::WritableDestination => "copy into a writable array instead",
            Self::CopyToDevice => "copy it there first",
            Self::CopyToHost => "copy the array to host memory first",
            Self::LendCopy => "lend a copy if that will do",
            Self::OwnOrder => "lend it in its own order and flip it there, or lend a copy",
            Self::LendBits { bits_as } => return write!(out, "lend a view as {bits_as} and reinterpret the bits there"),
            Self::ViewAsBytes => "take a view as 'uint8', or copy to aligned memory",
            Self::CheckAddress => "check that it is an address and still allocated",
            Self::CheckExtents => "check shape, strides and dtype",
            Self::NameDevice { found } => return write!(out, "name {found} as the device, or none"),
            Self::PrimaryContext => "frameworks use that one only: make it current before you allocate (cuDevicePrimaryCtxRetain instead of cuCtxCreate)",
            Self::KeepAllocated => "keep it allocated as long as the lease",
            Self::BorrowAgain => "borrow or wrap the memory again to use it",
            Self::EndLoans => "drop those objects first, or drop the lease instead of releasing it",
            Self::FreeDeviceMemory => "release leases, or let other libraries give back what their pools keep",
        })
    }
}

/// Hints for compilers, their headers and images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompileHint {
    /// Install a compiler for kernels.
    InstallCompiler,
    /// Name another compiler, or none.
    OtherCompiler,
    /// Take the host code out of the source, and launch through gpulend.
    LaunchApart,
    /// Compile less at once.
    CompileLess,
    /// Name another folder for temporary files.
    OtherFolder,
    /// Install NVIDIA's compiler, or leave the choice to gpulend.
    InstallNvrtc,
    /// Install NVIDIA's compiler, which is then used.
    UseNvrtc,
    /// Install an older NVRTC.
    OlderNvrtc,
    /// Install an NVRTC that knows the device.
    SuitableNvrtc,
    /// Leave the compiler to gpulend, or ask for clang.
    LeaveCompiler,
    /// Install the headers of the CUDA toolkit.
    ToolkitHeaders,
    /// Give PTX, a cubin or a fatbin.
    GiveImage,
}

impl fmt::Display for CompileHint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match *self {
            Self::InstallCompiler => "install clang 14 or newer, or name one in GPULEND_CLANG",
            Self::OtherCompiler => "give another in GPULEND_CLANG, or unset it",
            Self::LaunchApart => "take the host code out, and launch the kernel through gpulend",
            Self::CompileLess => "compile less at once",
            Self::OtherFolder => "TMPDIR names another folder",
            Self::InstallNvrtc => "install NVRTC (libnvrtc), or let gpulend choose the compiler",
            Self::UseNvrtc => "install NVIDIA's compiler NVRTC (libnvrtc), which is then used",
            Self::OlderNvrtc => "install an older one",
            Self::SuitableNvrtc => "install an NVRTC that knows the device",
            Self::LeaveCompiler => "leave the compiler to gpulend, or ask for clang",
            Self::ToolkitHeaders => "install the headers of the CUDA toolkit",
            Self::GiveImage => "give PTX, a cubin or a fatbin",
        })
    }
}

/// Hints for launches and their arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchHint<'a> {
    /// A bug of gpulend, or a changed image: launch unchecked.
    LaunchUnchecked,
    /// Launch before or after the capture.
    OutsideCapture,
    /// Start the process again, where the kernel's line can be seen.
    StartAgain,
    /// Convert the array, or declare the parameter otherwise.
    Convert {
        /// The element types that would do.
        fits: &'a [&'static str],
        /// The parameter's type that would do.
        declare: Option<&'a str>,
    },
    /// Pass an array, or a null pointer as such.
    PassArray,
    /// Pass a value out of the array.
    PassElement,
    /// Copy the host's memory to the device.
    CopyFromHost,
    /// Move the tensor to the device, or copy it there.
    MoveToDevice,
    /// Declare the parameter const, or pass a copy.
    DeclareConst,
    /// Compile from source with a const parameter, pass a copy, or launch unchecked.
    ConstOrUnchecked,
    /// Pass a contiguous copy, or say that the kernel counts with strides.
    CopyOrStrided,
    /// Pass an array at a multiple of the vector's alignment.
    AlignVectors,
    /// Cut or pad the array to whole vectors.
    WholeVectors,
    /// Copy the array to the kernel's device, or compile for the array's.
    SameDevice {
        /// Where the array is.
        found: &'a str,
    },
    /// Pass a value that fits.
    Pass(Fit),
    /// Pass a smaller number, or declare the parameter double.
    SmallerNumber,
    /// Give a struct's fields the types and the padding of C.
    PadStruct,
    /// Launch on a stream of the kernel's device.
    StreamOf {
        /// The kernel's device.
        device: &'a str,
    },
    /// Pass a value of known size, or compile from source.
    SizedValue,
}

impl fmt::Display for LaunchHint<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match *self {
            Self::LaunchUnchecked => "this is a bug of gpulend, or the image was changed: launch without checks, with sizes of your own",
            Self::OutsideCapture => "launch before or after the capture",
            Self::StartAgain => "start it again, with GPULEND_DEVICE=simulated or under compute-sanitizer to see the line",
            Self::Convert { fits, declare } => {
                return write!(out, "convert it to {}{}", fits.join(" or "), or_declare(declare));
            }
            Self::PassArray => "pass an array or a lease, or a null pointer as such",
            Self::PassElement => "pass its value",
            Self::CopyFromHost => "copy it to the device first",
            Self::MoveToDevice => "move it there in its framework first, or copy it to the device",
            Self::DeclareConst => "declare the parameter const if it does not, or pass a copy",
            Self::ConstOrUnchecked => "compile the kernel from source with a const parameter, pass a copy, or launch without checks if it only reads",
            Self::CopyOrStrided => "pass a contiguous copy, or allow strides if the kernel counts with them",
            Self::AlignVectors => "pass an array that begins at a multiple of that, or take the elements one by one",
            Self::WholeVectors => "cut or pad it to whole ones",
            Self::SameDevice { found } => return write!(out, "copy it there, or compile the kernel for {found}"),
            Self::Pass(fit) => return write!(out, "pass {fit}"),
            Self::SmallerNumber => "pass a smaller number, or declare the parameter double",
            Self::PadStruct => "give the fields the types and the padding that C gives them",
            Self::StreamOf { device } => return write!(out, "launch on a stream of {device}"),
            Self::SizedValue => "pass a value of that size, or compile from a source, which has the types",
        })
    }
}

/// Hints for drivers, devices, and the simulated GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceHint {
    /// Name a device as it is written.
    DeviceNames,
    /// Install a driver, or choose the simulated GPU.
    InstallDriver,
    /// Install a newer driver, or this release's simulated GPU.
    NewerDriver,
    /// Install gpulend again, or say where the simulated GPU is.
    InstallSimulator,
    /// Install a driver, or gpulend again.
    InstallEither,
    /// Choose the simulated GPU before anything loads a driver.
    ChooseEarlier,
    /// Choose the simulated GPU before the first use, and once.
    SimulateFirst,
    /// Unset `GPULEND_DEVICE`.
    UnsetDevice,
    /// Start the program without the simulated driver.
    WithoutRun,
    /// Fork before the first use, or start new programs.
    ForkFirst,
    /// Choose the simulated GPU first.
    SimulateNow,
    /// Record both events with their times.
    RecordTime,
}

impl fmt::Display for DeviceHint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match *self {
            Self::DeviceNames => "write 'cpu', 'cuda:0' or 'opencl:0'",
            Self::InstallDriver => "install one, or set GPULEND_DEVICE=simulated",
            Self::NewerDriver => "install a newer driver, or set GPULEND_SIM_LIBRARY to a libgpulend_sim.so of this release",
            Self::InstallSimulator => "install gpulend again, or set GPULEND_SIM_LIBRARY to the path of libgpulend_sim.so",
            Self::InstallEither => "install a driver, or gpulend again",
            Self::ChooseEarlier => "choose it before anything loads the driver, or set GPULEND_DEVICE=cuda",
            Self::SimulateFirst => "choose the simulated GPU before the first use, and again only with the same settings",
            Self::UnsetDevice => "unset it to choose the simulated GPU",
            Self::WithoutRun => "start the program without `gpulend run`",
            Self::ForkFirst => "fork before the first use, or start a new program instead",
            Self::SimulateNow => "choose it first, or start the program by `gpulend run`",
            Self::RecordTime => "record both events with their times",
        })
    }
}

/// Hints for tickets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TicketHint {
    /// Pass on all bytes of a ticket, unchanged.
    WholeTicket,
    /// Use one release of gpulend in all processes.
    SameRelease,
    /// Make a new ticket that lasts longer or may be claimed more often.
    NewTicket,
    /// Keep the lender running until others are done with its memory.
    KeepLender,
    /// Drop the lease: its bytes will never come.
    DropLost,
    /// Have something that reaches the other machine carry the bytes.
    CarryBytes,
    /// Show both processes the same devices.
    ShowDevice,
    /// Make a ticket of a copy, or allocate memory that can be opened.
    MakeShareable,
    /// Run both processes as one user.
    SameUser,
    /// Withdraw tickets, or release what was claimed.
    FewerTickets,
}

impl fmt::Display for TicketHint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match *self {
            Self::WholeTicket => "pass on all bytes of a ticket, as they are",
            Self::SameRelease => "use the same release of gpulend in both processes",
            Self::NewTicket => "make a new one that is kept longer, or may be claimed more often",
            Self::KeepLender => "keep the lender running, in the same container, until others are done with its memory",
            Self::DropLost => "drop the lease, and ask another process for the data",
            Self::CarryBytes => "copy the bytes to the other machine, or let an engine such as Ray, Dask or NIXL carry them",
            Self::ShowDevice => "let both processes see that device (CUDA_VISIBLE_DEVICES), and both use the real or both the simulated GPU",
            Self::MakeShareable => "ask for a ticket of a copy, or allocate shared memory through gpulend and write there",
            Self::SameUser => "run both processes as the same user",
            Self::FewerTickets => "withdraw tickets that are not needed, or release what was claimed",
        })
    }
}

/// Hints for streams that are being captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureHint {
    /// Name the stream that is being captured.
    NameStream,
    /// Do that before or after the capture.
    Outside,
    /// Hand over on a stream of the same capture.
    SameCapture,
    /// Let the consumer's stream wait for the capturing one first, or hand over on that.
    Join,
    /// Wait for the producer before the capture begins.
    WaitBefore,
}

impl fmt::Display for CaptureHint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match *self {
            Self::NameStream => "name the capturing stream",
            Self::Outside => "do that before or after the capture",
            Self::SameCapture => "hand over on a stream of the same capture",
            Self::Join => "let it wait for the capturing stream first, or hand over on that",
            Self::WaitBefore => "wait for it before the capture begins",
        })
    }
}

/// The second half of [`LaunchHint::Convert`], in C++, in which kernels are written whatever launches them.
#[must_use]
pub fn or_declare(kind: Option<&str>) -> String {
    kind.map(|kind| format!(" or declare {kind}")).unwrap_or_default()
}

/// What a parameter takes by value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// Something that is not a null pointer.
    NotNull,
    /// A number.
    Number,
    /// An integer.
    Integer,
    /// A complex number.
    Complex,
    /// A truth value.
    Bool,
    /// The one byte of a number that has no type elsewhere.
    Byte,
    /// The bytes of a struct.
    Struct {
        /// How many.
        size: u32,
    },
}

impl fmt::Display for Fit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match *self {
            Self::NotNull => "a value; a null pointer is for pointers only",
            Self::Number => "a number",
            Self::Integer => "an integer",
            Self::Complex => "a complex number",
            Self::Bool => "true or false",
            Self::Byte => "its one byte",
            Self::Struct { size } => return write!(out, "the {size} bytes of it"),
        })
    }
}
