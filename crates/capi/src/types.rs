//! Types and constants of the header.

use std::ffi::{c_char, c_void};

use crate::pointer::Growing;

/// The result of every function: 0, or the reason of the failure. The numbers are those of `error.code` in
/// Python and are listed in docs/errors.md; they never change their meaning. gpulend_last_error() returns the
/// message.
pub type Status = i32;
/// A lease: validated memory, its owner, and the work that it waits for. Free it with gpulend_free().
pub type LeaseHandle = u64;
/// A stream of a GPU. 0 is the calling thread's current stream. Free it with gpulend_stream_free().
pub type StreamHandle = u64;
/// An event. Free it with gpulend_event_free().
pub type EventHandle = u64;
/// Compiled kernels and variables for one GPU. Free it with gpulend_module_free().
pub type ModuleHandle = u64;
/// A kernel of a module. Free it with gpulend_kernel_free().
pub type KernelHandle = u64;
/// Measures GPU time. Free it with gpulend_timer_free().
pub type TimerHandle = u64;
/// An element type: DLPack's code, bits << 8 and lanes << 16. GPULEND_FLOAT32 and others below, or
/// GPULEND_DTYPE(code, bits), or gpulend_dtype_parse().
pub type DtypeNumber = u32;

/// Success.
pub const GPULEND_OK: Status = 0;
/// An argument or a field cannot be read, or has an impossible value: a NULL, a size, a flag.
pub const GPULEND_BAD_ARGUMENT: Status = 253;
/// A number that was never a handle.
pub const GPULEND_NO_HANDLE: Status = 270;
/// A handle of another kind.
pub const GPULEND_OTHER_KIND: Status = 271;
/// A stream, an event, a module, a kernel or a timer that was freed.
pub const GPULEND_ENDED: Status = 272;
/// There are as many handles as there can be.
pub const GPULEND_TOO_MANY_HANDLES: Status = 273;
/// Another copy of gpulend was used first in this process.
pub const GPULEND_SECOND_COPY: Status = 274;
/// A lease that was freed or released.
pub const GPULEND_RELEASED: Status = 500;
/// A lease that has slices or exports, and cannot be released yet.
pub const GPULEND_STILL_LENT: Status = 600;
/// The host has not enough memory.
pub const GPULEND_OUT_OF_MEMORY: Status = 1000;
/// A GPU has not enough memory.
pub const GPULEND_OUT_OF_DEVICE_MEMORY: Status = 1020;
/// A bug of gpulend.
pub const GPULEND_BUG: Status = 2000;

/// The version of this interface, as gpulend_abi_version() returns it: the major number grows when
/// programs must be recompiled, the minor one when something is added.
pub const GPULEND_ABI_MAJOR: u32 = 0;
/// See GPULEND_ABI_MAJOR.
pub const GPULEND_ABI_MINOR: u32 = 3;

/// The host, as a device number. GPUs are 0, 1 and so on.
pub const GPULEND_HOST: i32 = -1;
/// Any device. gpulend_wrap() asks the driver; allocations use the device of the thread's current
/// stream.
pub const GPULEND_ANY_DEVICE: i32 = -2;
/// The most axes of an array.
pub const GPULEND_MOST_AXES: i32 = 64;

/// The most bytes of a ticket.
pub const GPULEND_TICKET_BYTES: u64 = 1128;

/// In claims and information: the memory must not be written.
pub const GPULEND_READONLY: u32 = 1;
/// In claims: the memory has no deleter and outlives the lease.
pub const GPULEND_UNOWNED: u32 = 2;
/// In claims: do not check that the memory exists. In launches: do not compare arrays with the
/// types of the parameters.
pub const GPULEND_UNCHECKED: u32 = 4;
/// In claims: the bytes are valid now; wait for no stream.
pub const GPULEND_READY: u32 = 8;
/// In information: the GPU is the simulated one.
pub const GPULEND_SIMULATED: u32 = 16;
/// In information: each element of less than a byte fills a byte of its own.
pub const GPULEND_PADDED: u32 = 32;
/// In information: the elements are row-major without gaps.
pub const GPULEND_COMPACT: u32 = 64;
/// In information: the host can read the bytes.
pub const GPULEND_HOST_VISIBLE: u32 = 128;
/// For a new stream: it and the legacy default stream wait for each other.
pub const GPULEND_BLOCKING: u32 = 256;
/// For DLPack: export a simulated GPU's memory as CUDA memory, for clients of the simulated driver;
/// otherwise it is exported as host memory.
pub const GPULEND_AS_CUDA: u32 = 512;
/// In launches: arrays need not be row-major without gaps.
pub const GPULEND_STRIDED: u32 = 1024;

/// Compiler: for a real GPU NVRTC if it can be loaded, otherwise clang; for the simulated GPU clang.
pub const GPULEND_COMPILER_ANY: u32 = 0;
/// NVIDIA's NVRTC.
pub const GPULEND_COMPILER_NVRTC: u32 = 1;
/// clang, with gpulend's own headers.
pub const GPULEND_COMPILER_CLANG: u32 = 2;

/// Argument kinds: a NULL pointer.
pub const GPULEND_ARGUMENT_NULL: u32 = 0;
/// A lease, for a pointer: `value` is its handle.
pub const GPULEND_ARGUMENT_LEASE: u32 = 1;
/// A signed integer: `value` is its bits, as an int64_t.
pub const GPULEND_ARGUMENT_INT: u32 = 2;
/// An unsigned integer.
pub const GPULEND_ARGUMENT_UINT: u32 = 3;
/// A floating-point number: `value` is the bits of a double, for a parameter of any width.
pub const GPULEND_ARGUMENT_DOUBLE: u32 = 4;
/// A struct by value, or any other type: `value` is the address of its `bytes` bytes.
pub const GPULEND_ARGUMENT_BYTES: u32 = 5;

/// Kinds of memory: host memory.
pub const GPULEND_MEMORY_HOST: u32 = 0;
/// Host memory, pinned by a GPU driver.
pub const GPULEND_MEMORY_PINNED: u32 = 1;
/// Managed memory, which moves between host and device.
pub const GPULEND_MEMORY_MANAGED: u32 = 2;
/// Device memory.
pub const GPULEND_MEMORY_DEVICE: u32 = 3;

/// What is known about an address: a mapping of the host, which may contain several allocations.
pub const GPULEND_KNOWN_HOST: u32 = 0;
/// Exactly one allocation.
pub const GPULEND_KNOWN_ALLOCATION: u32 = 1;
/// A block of one of the driver's own pools.
pub const GPULEND_KNOWN_POOL_BLOCK: u32 = 2;
/// A range of reserved addresses, of which parts may be mapped.
pub const GPULEND_KNOWN_RESERVATION: u32 = 3;

/// How memory can be shared with another process: by CUDA's older handles.
pub const GPULEND_SHARE_HANDLE: u32 = 1;
/// As a file descriptor.
pub const GPULEND_SHARE_DESCRIPTOR: u32 = 2;
/// Over a fabric.
pub const GPULEND_SHARE_FABRIC: u32 = 4;

/// Frees wrapped memory; the arguments are its context, address and bytes. It is called once, from any
/// thread, when the last lease and export are freed and the GPU work on the memory is done. It must
/// neither throw nor wait for a thread that waits for gpulend.
pub type Deleter = Option<unsafe extern "C" fn(context: *mut c_void, address: u64, bytes: u64)>;

/// A description of the memory at an address. Set `size` to sizeof and unused fields to zero.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// sizeof(gpulend_claim).
    pub size: u64,
    /// The address of the first element.
    pub address: u64,
    /// `ndim` extents; NULL if there are none.
    pub shape: *const i64,
    /// `ndim` strides, counted in elements; NULL: row by row without gaps.
    pub strides: *const i64,
    /// Number of axes.
    pub ndim: i32,
    /// GPULEND_HOST, a GPU's number, or GPULEND_ANY_DEVICE.
    pub device: i32,
    /// Element type.
    pub dtype: DtypeNumber,
    /// GPULEND_READONLY, _UNOWNED, _UNCHECKED, _READY.
    pub flags: u32,
    /// The stream or event after which the bytes are valid. 0: the legacy default stream of the device.
    pub ready_on: u64,
}

/// The result of gpulend_info(). Set `size` to sizeof.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Info {
    /// sizeof(gpulend_lease_info).
    pub size: u64,
    /// The address of the first element. To use it in stream order, call gpulend_pointer() or
    /// gpulend_host_pointer().
    pub address: u64,
    /// Bytes of the elements themselves.
    pub bytes: u64,
    /// GPULEND_HOST or a GPU's number.
    pub device: i32,
    /// GPULEND_MEMORY_...
    pub memory: u32,
    /// Element type; GPULEND_DTYPE_CODE, _BITS and _LANES return its parts.
    pub dtype: DtypeNumber,
    /// Number of axes; gpulend_shape() returns them.
    pub ndim: i32,
    /// GPULEND_READONLY, _SIMULATED, _PADDED, _COMPACT, _HOST_VISIBLE.
    pub flags: u32,
    /// 0.
    pub reserved: u32,
}

/// What is known about an address. Set `size` to sizeof.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Passport {
    /// sizeof(gpulend_passport).
    pub size: u64,
    /// The given address.
    pub address: u64,
    /// The first address of the allocation or mapping that contains it.
    pub base: u64,
    /// The size of that in bytes.
    pub bytes: u64,
    /// The unique buffer id of the allocation; 0 for memory that no driver knows.
    pub buffer_id: u64,
    /// The driver's context; 0: none.
    pub context: u64,
    /// The driver's pool; 0: none.
    pub pool: u64,
    /// The GPU's UUID.
    pub uuid: [u8; 16],
    /// GPULEND_HOST or a GPU's number.
    pub device: i32,
    /// GPULEND_MEMORY_...
    pub memory: u32,
    /// GPULEND_KNOWN_...
    pub known: u32,
    /// GPULEND_SHARE_..., several.
    pub shareable: u32,
}

/// The result of gpulend_device(). Set `size` to sizeof.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DeviceInfo {
    /// sizeof(gpulend_device_info).
    pub size: u64,
    /// Bytes of memory.
    pub memory: u64,
    /// Compute capability: 9 of sm_90.
    pub major: i32,
    /// Compute capability: 0 of sm_90.
    pub minor: i32,
    /// GPULEND_SIMULATED.
    pub flags: u32,
    /// 0.
    pub reserved: u32,
    /// Its name, such as "NVIDIA H200" or "Simulated GPU".
    pub name: [c_char; 256],
}

/// The result of gpulend_pool(), in bytes. Set `size` to sizeof.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PoolInfo {
    /// sizeof(gpulend_pool_info).
    pub size: u64,
    /// In use.
    pub live: u64,
    /// Kept for later.
    pub cached: u64,
    /// The most that was in use at one time.
    pub peak: u64,
    /// From the driver: `live` and `cached` together.
    pub reserved: u64,
    /// The largest array that the cached memory has room for.
    pub largest: u64,
    /// The number of blocks in use.
    pub blocks: u64,
    /// The number of segments from the driver.
    pub segments: u64,
    /// The most that the pool may have from the driver; 0: no limit.
    pub limit: u64,
}

/// The input of gpulend_compile(). Set `size` to sizeof and unused fields to zero.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// sizeof(gpulend_source).
    pub size: u64,
    /// CUDA C++, PTX, a cubin or a fatbin; its first bytes show which.
    pub text: *const c_void,
    /// Number of bytes; 0: a string that ends in NUL.
    pub bytes: u64,
    /// The name of the source in messages; NULL: "kernel.cu".
    pub file: *const c_char,
    /// Options in the spelling of nvcc, NVRTC or clang.
    pub options: *const *const c_char,
    /// Template instances to put into the module, such as `scale<float>`.
    pub names: *const *const c_char,
    /// Names of files that the source may include.
    pub header_names: *const *const c_char,
    /// Their contents.
    pub header_texts: *const *const c_char,
    /// Number of options.
    pub option_count: u32,
    /// Number of names.
    pub name_count: u32,
    /// Number of headers.
    pub header_count: u32,
    /// A GPU's number, or GPULEND_ANY_DEVICE.
    pub device: i32,
    /// GPULEND_COMPILER_...
    pub compiler: u32,
    /// 0.
    pub reserved: u32,
}

/// The result of gpulend_kernel_attributes(). Set `size` to sizeof.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KernelInfo {
    /// sizeof(gpulend_kernel_info).
    pub size: u64,
    /// The most threads of a block.
    pub max_threads_per_block: u32,
    /// Bytes of static shared memory.
    pub shared_bytes: u32,
    /// Bytes of constant memory of its module.
    pub constant_bytes: u32,
    /// Bytes of local memory of each thread.
    pub local_bytes: u32,
    /// Registers of each thread.
    pub registers: u32,
    /// 63 for PTX 6.3.
    pub ptx_version: u32,
    /// 90 for sm_90.
    pub binary_version: u32,
    /// The most bytes of dynamic shared memory.
    pub max_dynamic_shared_bytes: u32,
}

/// Grid, block and stream of a launch. Set `size` to sizeof and unused fields to zero; all
/// extents are 1 or more.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LaunchShape {
    /// sizeof(gpulend_launch_shape).
    pub size: u64,
    /// Blocks along x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block along x, y and z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// GPULEND_STRIDED, _UNCHECKED.
    pub flags: u32,
    /// A stream of the module's GPU; 0: the calling thread's current stream.
    pub stream: StreamHandle,
}

/// An argument of a kernel. Make it with gpulend_lease_argument() and its neighbours at the end of
/// gpulend.h; its size never changes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Argument {
    /// GPULEND_ARGUMENT_...
    pub kind: u32,
    /// For GPULEND_ARGUMENT_BYTES: their number. For a number: 0, or the size of its type, which
    /// parameters of machine code need, because their types are not known.
    pub bytes: u32,
    /// A handle, the bits of a number, or an address.
    pub value: u64,
}

macro_rules! sized {
    ($($type:ty => $first:literal),*) => {
        $(
            // The first version of a struct never changes; a later one has its new fields at the end.
            const _: () = assert!(size_of::<$type>() >= $first);
            // SAFETY: (1) and (2): integers, and pointers that may be null, after `size`, in a `repr(C)` struct.
            unsafe impl Growing for $type {
                const FIRST: u64 = $first;
                fn set_size(&mut self, size: u64) {
                    self.size = size;
                }
            }
        )*
    };
}

sized!(
    Claim => 56,
    Info => 48,
    Passport => 88,
    DeviceInfo => 288,
    PoolInfo => 72,
    Source => 88,
    KernelInfo => 40,
    LaunchShape => 48
);
