//! Hints of the core in Python's words. No match has a wildcard: a new hint does not compile until it is worded here.

use gpulend::driver;
use gpulend::hint::{
    ArrayHint, CaptureHint, CompileHint, DeviceHint, Fit, Hint, LaunchHint, MemoryHint, TicketHint,
    or_declare,
};
use pyo3::prelude::*;

/// How to put a call right, as Python says it.
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

/// As [`words`], where the call is known that converts the array.
pub(crate) fn converting(hint: Hint<'_>, call: &str) -> String {
    match hint {
        Hint::Launch(LaunchHint::Convert { declare, .. }) => {
            format!("{call}{}", or_declare(declare))
        }
        other => words(other),
    }
}

fn of_arrays(hint: ArrayHint) -> String {
    let own = match hint {
        ArrayHint::LanesAsAxis => {
            "export a view with the lanes as a last axis, or as uint8 (torch: `tensor.view(torch.uint8)`)"
        }
        ArrayHint::ElementNames => {
            "known are names such as 'float32', 'bfloat16', 'int64', 'bool', 'complex64', \
             NumPy typestrs such as '<f4', and dtype objects of NumPy, ml_dtypes, torch and ctypes"
        }
        ArrayHint::ContiguousOnDevice => {
            "make it contiguous on its device first (torch: `t.contiguous()`, CuPy: `cupy.ascontiguousarray(a)`)"
        }
        ArrayHint::StridePerAxis
        | ArrayHint::NativeByteOrder
        | ArrayHint::StartAtMultiple { .. }
        | ArrayHint::CopyContiguous
        | ArrayHint::WriteContiguous
        | ArrayHint::FillMask => return hint.to_string(),
    };
    own.to_owned()
}

fn of_memory(hint: MemoryHint<'_>) -> String {
    let own = match hint {
        MemoryHint::OmitStream => "leave it out",
        MemoryHint::CopyOrAlias => {
            "lend a copy (`copy=True`), or accept a writable alias (`allow_writable_alias=True`)"
        }
        MemoryHint::CopyToDevice => {
            "copy it there first (`lease.to_host()`, `gpulend.from_host(array)`)"
        }
        MemoryHint::LendCopy => "lend a copy (`copy=True`) if that will do",
        MemoryHint::OwnOrder => {
            "lend it in its own order and flip it there, or lend a copy (`copy=True`)"
        }
        MemoryHint::LendBits { bits_as } => {
            return format!("lend `lease.view({bits_as:?})` and reinterpret the bits there");
        }
        MemoryHint::NameDevice { found } => {
            return format!("say device={found:?}, or leave it out");
        }
        MemoryHint::PrimaryContext => {
            "frameworks use that one only: make it current before you allocate (cuDevicePrimaryCtxRetain \
             instead of cuCtxCreate, pycuda.autoprimaryctx instead of pycuda.autoinit)"
        }
        MemoryHint::KeepAllocated => {
            "keep it allocated as long as the lease, by owner= or deleter="
        }
        MemoryHint::EndLoans => {
            "drop those objects first, or let the lease go out of scope instead of releasing it"
        }
        MemoryHint::FreeDeviceMemory => {
            "release leases, or let other libraries give back what their pools keep \
             (torch.cuda.empty_cache(), cupy.get_default_memory_pool().free_all_blocks())"
        }
        MemoryHint::WritableDestination
        | MemoryHint::CopyToHost
        | MemoryHint::ViewAsBytes
        | MemoryHint::CheckAddress
        | MemoryHint::CheckExtents
        | MemoryHint::BorrowAgain => return hint.to_string(),
    };
    own.to_owned()
}

fn of_compilers(hint: CompileHint) -> String {
    let own = match hint {
        CompileHint::InstallCompiler => {
            "install one with `pip install gpulend[sim]`, which brings the Python package ziglang"
        }
        CompileHint::LaunchApart => {
            "take the host code out, and launch with `gpulend.compile(source)[\"kernel\"][grid, block](...)`"
        }
        CompileHint::InstallNvrtc => {
            let nvrtc = nvidia_package("nvidia-cuda-nvrtc", real_cuda());
            return format!(
                "install it with `pip install {nvrtc}`, or let gpulend choose the compiler"
            );
        }
        CompileHint::UseNvrtc => {
            let nvrtc = nvidia_package("nvidia-cuda-nvrtc", real_cuda());
            return format!(
                "install NVIDIA's compiler with `pip install {nvrtc}`, which is then used"
            );
        }
        CompileHint::OlderNvrtc => {
            "install an older one, as `pip install \"nvidia-cuda-nvrtc-cu12\"`"
        }
        CompileHint::LeaveCompiler => {
            "leave the compiler to gpulend (\"auto\"), or ask for \"clang\""
        }
        CompileHint::ToolkitHeaders => {
            let [runtime, cccl] = ["nvidia-cuda-runtime", "nvidia-cuda-cccl"]
                .map(|name| nvidia_package(name, real_cuda()));
            return format!("headers of the CUDA toolkit come with `pip install {runtime} {cccl}`");
        }
        CompileHint::OtherCompiler
        | CompileHint::CompileLess
        | CompileHint::OtherFolder
        | CompileHint::SuitableNvrtc
        | CompileHint::GiveImage => return hint.to_string(),
    };
    own.to_owned()
}

/// The name under which PyPI has one of NVIDIA's packages for a driver's CUDA version: since 13 it has no suffix.
#[pyfunction]
#[pyo3(signature = (name, major, /))]
pub(crate) fn nvidia_package(name: &str, major: Option<i32>) -> String {
    match major {
        Some(major @ (11 | 12)) => format!("{name}-cu{major}"),
        _ => name.to_owned(),
    }
}

/// The major version of CUDA that the real driver of this process supports, if it has one already.
fn real_cuda() -> Option<i32> {
    let driver = driver::present().ok()??;
    if driver.is_simulated() { None } else { Some(driver.version().ok()?.0) }
}

fn of_launches(hint: LaunchHint<'_>) -> String {
    let own = match hint {
        LaunchHint::LaunchUnchecked => {
            "this is a bug of gpulend, or the image was changed: launch with check=False and sizes of your own"
        }
        LaunchHint::PassArray => {
            "pass an array or a lease (of a bare address: \
             gpulend.wrap(address, shape=..., dtype=..., ...)), or None for a null pointer"
        }
        LaunchHint::PassElement => "pass its value, as by .item()",
        LaunchHint::CopyFromHost => "pass gpulend.from_host(array)",
        LaunchHint::MoveToDevice => {
            "move it there in its framework first, or pass gpulend.from_host(tensor)"
        }
        LaunchHint::ConstOrUnchecked => {
            "compile the kernel from source with a const parameter, pass a copy, \
             or launch without checks (check=False) if it only reads"
        }
        LaunchHint::CopyOrStrided => {
            "pass a contiguous copy, or strided=True if the kernel counts with the strides"
        }
        LaunchHint::SameDevice { found } => {
            return format!("copy it there, or compile with device={found:?}");
        }
        LaunchHint::Pass(fit) => return format!("pass {}", fitting(fit)),
        LaunchHint::SizedValue => {
            "pass a NumPy or ctypes scalar of that size (numpy.float32(x)), \
             or compile from a source, which has the types"
        }
        LaunchHint::OutsideCapture
        | LaunchHint::StartAgain
        | LaunchHint::Convert { .. }
        | LaunchHint::DeclareConst
        | LaunchHint::AlignVectors
        | LaunchHint::WholeVectors
        | LaunchHint::SmallerNumber
        | LaunchHint::PadStruct
        | LaunchHint::StreamOf { .. } => return hint.to_string(),
    };
    own.to_owned()
}

fn fitting(fit: Fit) -> String {
    let own = match fit {
        Fit::NotNull => "a value; None is for pointers",
        Fit::Integer => "an integer, as int(x)",
        Fit::Bool => "True or False",
        Fit::Byte => "its one byte, as bytes([b])",
        Fit::Struct { size } => {
            return format!("a NumPy record, a ctypes structure or bytes, of its {size} bytes");
        }
        Fit::Number | Fit::Complex => return fit.to_string(),
    };
    own.to_owned()
}

fn of_devices(hint: DeviceHint) -> String {
    let own = match hint {
        DeviceHint::SimulateFirst => {
            "call gpulend.simulate() before the first use, and again only with the same settings"
        }
        DeviceHint::UnsetDevice => "unset it to call gpulend.simulate()",
        DeviceHint::ForkFirst => {
            "fork before the first use, or start processes by multiprocessing's 'spawn' or 'forkserver'"
        }
        DeviceHint::SimulateNow => {
            "call gpulend.simulate() first, or start the program by `gpulend run`"
        }
        DeviceHint::RecordTime => "record both by `stream.record(timing=True)`",
        DeviceHint::DeviceNames
        | DeviceHint::InstallDriver
        | DeviceHint::NewerDriver
        | DeviceHint::InstallSimulator
        | DeviceHint::InstallEither
        | DeviceHint::ChooseEarlier
        | DeviceHint::WithoutRun => return hint.to_string(),
    };
    own.to_owned()
}

fn of_captures(hint: CaptureHint) -> String {
    match hint {
        CaptureHint::NameStream => "name the capturing stream (stream=)".to_owned(),
        CaptureHint::Outside
        | CaptureHint::SameCapture
        | CaptureHint::Join
        | CaptureHint::WaitBefore => hint.to_string(),
    }
}

fn of_tickets(hint: TicketHint) -> String {
    let own = match hint {
        TicketHint::NewTicket => {
            "make a new one that lasts longer (`lease.ticket(keep=600)`) or may be claimed more often (`claims=`)"
        }
        TicketHint::MakeShareable => {
            "make a ticket of a copy (`lease.ticket(copy=True)`), or write into memory \
             that gpulend allocates to be shared (`gpulend.empty(shape, dtype, device, shared=True)`)"
        }
        TicketHint::FewerTickets => {
            "withdraw tickets that are not needed (`ticket.withdraw()`), or release what was claimed"
        }
        TicketHint::WholeTicket
        | TicketHint::SameRelease
        | TicketHint::KeepLender
        | TicketHint::DropLost
        | TicketHint::CarryBytes
        | TicketHint::ShowDevice
        | TicketHint::SameUser => return hint.to_string(),
    };
    own.to_owned()
}
