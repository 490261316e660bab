//! Hints of the core in C's words. No match has a wildcard: a new hint does not compile until it is worded here.
#![forbid(unsafe_code)]

use gpulend::hint::{
    ArrayHint, CaptureHint, CompileHint, DeviceHint, Fit, Hint, LaunchHint, MemoryHint, TicketHint,
};

/// How to put a call right, as C says it.
pub(crate) fn words(hint: Hint<'_>) -> String {
    match hint {
        Hint::Array(hint) => of_arrays(hint),
        Hint::Memory(hint) => of_memory(hint),
        Hint::Compile(hint) => of_compilers(hint),
        Hint::Launch(hint) => of_launches(hint),
        Hint::Device(hint) => of_devices(hint),
        Hint::Capture(hint) => of_captures(hint),
        Hint::Ticket(hint) => of_tickets(hint),
    }
}

fn of_arrays(hint: ArrayHint) -> String {
    match hint {
        ArrayHint::ElementNames => {
            "known are names such as \"float32\", \"bfloat16\", \"int64\", \"bool\", \"complex64\", \
             and GPULEND_DTYPE(code, bits) has the rest"
                .to_owned()
        }
        ArrayHint::StridePerAxis
        | ArrayHint::LanesAsAxis
        | ArrayHint::NativeByteOrder
        | ArrayHint::StartAtMultiple { .. }
        | ArrayHint::CopyContiguous
        | ArrayHint::WriteContiguous
        | ArrayHint::ContiguousOnDevice
        | ArrayHint::FillMask => hint.to_string(),
    }
}

fn of_memory(hint: MemoryHint<'_>) -> String {
    let own = match hint {
        MemoryHint::OmitStream => "pass 0",
        MemoryHint::CopyOrAlias => {
            "lend a copy made by gpulend_copy(), or call gpulend_to_dlpack_versioned(), which carries it"
        }
        MemoryHint::WritableDestination => "copy into a lease without GPULEND_READONLY instead",
        MemoryHint::CopyToDevice => {
            "copy it there first: gpulend_copy_from_host(), gpulend_copy_to_host()"
        }
        MemoryHint::CopyToHost => "copy the array to host memory first, by gpulend_copy_to_host()",
        MemoryHint::LendCopy => "lend a copy made by gpulend_copy() if that will do",
        MemoryHint::OwnOrder => {
            "lend it in its own order and flip it there, or lend a copy made by gpulend_copy()"
        }
        MemoryHint::LendBits { bits_as } => {
            return format!(
                "lend a gpulend_view() as {bits_as}, and cast the bits back to their type there"
            );
        }
        MemoryHint::ViewAsBytes => "claim it as GPULEND_UINT8, or copy to aligned memory",
        MemoryHint::CheckExtents => "check the claim's shape, strides and dtype",
        MemoryHint::NameDevice { .. } => {
            "give that device's number, or GPULEND_ANY_DEVICE to ask the driver"
        }
        MemoryHint::KeepAllocated => {
            "free it in the claim's deleter, which is called after the last use"
        }
        MemoryHint::BorrowAgain => "wrap the memory or take the tensor again to use it",
        MemoryHint::EndLoans => {
            "end those loans first (free their handles, call their deleters), \
             or call gpulend_free(): the memory then goes with the last of them"
        }
        MemoryHint::CheckAddress | MemoryHint::PrimaryContext | MemoryHint::FreeDeviceMemory => {
            return hint.to_string();
        }
    };
    own.to_owned()
}

fn of_compilers(hint: CompileHint) -> String {
    let own = match hint {
        CompileHint::LaunchApart => "take the host code out, and launch by gpulend_launch()",
        CompileHint::InstallNvrtc => {
            "install NVRTC (libnvrtc) where the loader finds it, or ask for GPULEND_COMPILER_ANY"
        }
        CompileHint::UseNvrtc => {
            "install NVRTC (libnvrtc) where the loader finds it, which is then used"
        }
        CompileHint::LeaveCompiler => "ask for GPULEND_COMPILER_ANY or GPULEND_COMPILER_CLANG",
        CompileHint::ToolkitHeaders => {
            "install the headers of the CUDA toolkit, and name their folder by an option \"-I...\""
        }
        CompileHint::InstallCompiler
        | CompileHint::OtherCompiler
        | CompileHint::CompileLess
        | CompileHint::OtherFolder
        | CompileHint::OlderNvrtc
        | CompileHint::SuitableNvrtc
        | CompileHint::GiveImage => return hint.to_string(),
    };
    own.to_owned()
}

fn of_launches(hint: LaunchHint<'_>) -> String {
    let own = match hint {
        LaunchHint::LaunchUnchecked => {
            "this is a bug of gpulend, or the image was changed: launch with GPULEND_UNCHECKED, \
             each argument by gpulend_bytes_argument()"
        }
        LaunchHint::PassArray => {
            "pass gpulend_lease_argument() of a lease (gpulend_wrap() makes one of an address), \
             or gpulend_null_argument() for a NULL"
        }
        LaunchHint::PassElement => "read the element by gpulend_copy_to_host() and pass that",
        LaunchHint::CopyFromHost | LaunchHint::MoveToDevice => {
            "pass a lease of the GPU, filled by gpulend_copy_from_host()"
        }
        LaunchHint::ConstOrUnchecked => {
            "compile the kernel from source with a const parameter, pass a copy, \
             or launch with GPULEND_UNCHECKED if it only reads"
        }
        LaunchHint::CopyOrStrided => {
            "pass a contiguous copy, or GPULEND_STRIDED if the kernel counts with the strides"
        }
        LaunchHint::SameDevice { .. } => {
            "copy it there by gpulend_copy(), or compile the kernel for its device"
        }
        LaunchHint::Pass(fit) => return format!("pass {}", fitting(fit)),
        LaunchHint::PadStruct => "pass sizeof the struct that the kernel declares",
        LaunchHint::SizedValue => {
            "pass its bytes by gpulend_bytes_argument(), or compile from a source, which has the types"
        }
        LaunchHint::OutsideCapture
        | LaunchHint::StartAgain
        | LaunchHint::Convert { .. }
        | LaunchHint::DeclareConst
        | LaunchHint::AlignVectors
        | LaunchHint::WholeVectors
        | LaunchHint::SmallerNumber
        | LaunchHint::StreamOf { .. } => return hint.to_string(),
    };
    own.to_owned()
}

fn fitting(fit: Fit) -> String {
    let own = match fit {
        Fit::NotNull => "a value; gpulend_null_argument() is for pointers",
        Fit::Number => "a number, by gpulend_double_argument() or gpulend_int_argument()",
        Fit::Integer => "an integer, by gpulend_int_argument() or gpulend_uint_argument()",
        Fit::Complex => "its two numbers, by gpulend_bytes_argument()",
        Fit::Bool => "0 or 1, by gpulend_int_argument()",
        Fit::Byte => "its one byte, by gpulend_bytes_argument()",
        Fit::Struct { size } => {
            return format!("its {size} bytes, by gpulend_bytes_argument()");
        }
    };
    own.to_owned()
}

fn of_devices(hint: DeviceHint) -> String {
    let own = match hint {
        DeviceHint::DeviceNames => "GPUs are 0, 1 and so on, and the host is GPULEND_HOST",
        DeviceHint::SimulateFirst => {
            "call gpulend_simulate() before the first use, and again only with the same settings"
        }
        DeviceHint::UnsetDevice => "unset it to call gpulend_simulate()",
        DeviceHint::ForkFirst => "fork before the first use, or call exec after the fork",
        DeviceHint::SimulateNow => {
            "call gpulend_simulate() first, or start the program by `gpulend run`"
        }
        DeviceHint::InstallDriver
        | DeviceHint::NewerDriver
        | DeviceHint::InstallSimulator
        | DeviceHint::InstallEither
        | DeviceHint::ChooseEarlier
        | DeviceHint::RecordTime
        | DeviceHint::WithoutRun => return hint.to_string(),
    };
    own.to_owned()
}

fn of_captures(hint: CaptureHint) -> String {
    match hint {
        CaptureHint::NameStream => {
            "pass the capturing stream, or make it current by gpulend_stream_enter()".to_owned()
        }
        CaptureHint::Outside
        | CaptureHint::SameCapture
        | CaptureHint::Join
        | CaptureHint::WaitBefore => hint.to_string(),
    }
}

fn of_tickets(hint: TicketHint) -> String {
    match hint {
        TicketHint::WholeTicket
        | TicketHint::SameRelease
        | TicketHint::NewTicket
        | TicketHint::KeepLender
        | TicketHint::DropLost
        | TicketHint::CarryBytes
        | TicketHint::ShowDevice
        | TicketHint::MakeShareable
        | TicketHint::SameUser
        | TicketHint::FewerTickets => hint.to_string(),
    }
}
