//! Types and constants of the header.

use std::ffi::{c_char, c_void};

use crate::pointer::Growing;

/// What every function returns: 0, or why it failed. The numbers are those of `error.code` in Python and
/// are listed in docs/errors.md; they never change their meaning. gpulend_last_error() has the words.
pub type Status = i32;
/// A lease: memory, what keeps it alive, and when its bytes are ready. Give it back by gpulend_free().
pub type LeaseHandle = u64;
/// A stream of a GPU. 0 stands for the calling thread's current one. Give it back by gpulend_stream_free().
pub type StreamHandle = u64;
/// A moment in a stream. Give it back by gpulend_event_free().
pub type EventHandle = u64;
/// Compiled kernels and variables of one GPU. Give it back by gpulend_module_free().
pub type ModuleHandle = u64;
/// A kernel of a module. Give it back by gpulend_kernel_free().
pub type KernelHandle = u64;
/// A measure of a GPU's time. Give it back by gpulend_timer_free().
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
/// A handle of something else.
pub const GPULEND_OTHER_KIND: Status = 271;
/// A stream, an event, a module, a kernel or a timer that was freed.
pub const GPULEND_ENDED: Status = 272;
/// There are as many handles as there can be.
pub const GPULEND_TOO_MANY_HANDLES: Status = 273;
/// Another copy of gpulend was used first in this process.
pub const GPULEND_SECOND_COPY: Status = 274;
/// A lease that was freed or released.
pub const GPULEND_RELEASED: Status = 500;
/// A lease that cannot be released yet.
pub const GPULEND_STILL_LENT: Status = 600;
/// The host has no room.
pub const GPULEND_OUT_OF_MEMORY: Status = 1000;
/// A GPU has no room.
pub const GPULEND_OUT_OF_DEVICE_MEMORY: Status = 1020;
/// A bug of gpulend.
pub const GPULEND_BUG: Status = 2000;

/// The version of this interface, as gpulend_abi_version() tells it: the major number grows when a
/// program must be compiled again, the minor one when something is added.
pub const GPULEND_ABI_MAJOR: u32 = 0;
/// See GPULEND_ABI_MAJOR.
pub const GPULEND_ABI_MINOR: u32 = 2;

/// The host, where a device is wanted. GPUs are 0, 1 and so on.
pub const GPULEND_HOST: i32 = -1;
/// No device in particular. To wrap: the driver is asked; to allocate: the device of the thread's
/// current stream.
pub const GPULEND_ANY_DEVICE: i32 = -2;
/// The most axes of an array.
pub const GPULEND_MOST_AXES: i32 = 64;

/// The memory must not be written. In claims and information.
pub const GPULEND_READONLY: u32 = 1;
/// In claims: nobody releases the memory, it outlives the lease.
pub const GPULEND_UNOWNED: u32 = 2;
/// In claims: do not ask whether the memory is there. In launches: do not compare arrays with the
/// types of the parameters.
pub const GPULEND_UNCHECKED: u32 = 4;
/// In claims: the bytes are valid already, whatever streams hold.
pub const GPULEND_READY: u32 = 8;
/// In information: the GPU is the simulated one.
pub const GPULEND_SIMULATED: u32 = 16;
/// In information: each element of less than a byte fills a byte of its own.
pub const GPULEND_PADDED: u32 = 32;
/// In information: elements lie row by row without gaps.
pub const GPULEND_COMPACT: u32 = 64;
/// In information: the host can read the bytes.
pub const GPULEND_HOST_VISIBLE: u32 = 128;
/// For a new stream: it waits for the legacy default stream, and that for it.
pub const GPULEND_BLOCKING: u32 = 256;
/// For DLPack: a simulated GPU's memory is shown as CUDA's, for clients of the simulated driver;
/// else as the host's.
pub const GPULEND_AS_CUDA: u32 = 512;
/// In launches: arrays may have gaps or another order than row by row.
pub const GPULEND_STRIDED: u32 = 1024;

/// Which compiler: on a real GPU NVRTC if it can be loaded and else clang, on the simulated one clang.
pub const GPULEND_COMPILER_ANY: u32 = 0;
/// NVIDIA's NVRTC.
pub const GPULEND_COMPILER_NVRTC: u32 = 1;
/// clang, with gpulend's own headers.
pub const GPULEND_COMPILER_CLANG: u32 = 2;

/// Kinds of arguments: a NULL pointer.
pub const GPULEND_ARGUMENT_NULL: u32 = 0;
/// A lease, for a pointer: `value` is its handle.
pub const GPULEND_ARGUMENT_LEASE: u32 = 1;
/// A whole number with a sign: `value` is its bits, as an int64_t.
pub const GPULEND_ARGUMENT_INT: u32 = 2;
/// A whole number without a sign.
pub const GPULEND_ARGUMENT_UINT: u32 = 3;
/// A number: `value` is the bits of a double, whatever the parameter is.
pub const GPULEND_ARGUMENT_DOUBLE: u32 = 4;
/// A struct by value, or whatever else has no kind: `value` is the address of its `bytes` bytes.
pub const GPULEND_ARGUMENT_BYTES: u32 = 5;

/// Kinds of memory: the host's.
pub const GPULEND_MEMORY_HOST: u32 = 0;
/// The host's, pinned by a GPU driver.
pub const GPULEND_MEMORY_PINNED: u32 = 1;
/// Memory that moves between host and device.
pub const GPULEND_MEMORY_MANAGED: u32 = 2;
/// A device's.
pub const GPULEND_MEMORY_DEVICE: u32 = 3;

/// How much is known about an address: a mapping of the host's, which holds more than one allocation.
pub const GPULEND_KNOWN_HOST: u32 = 0;
/// Exactly one allocation.
pub const GPULEND_KNOWN_ALLOCATION: u32 = 1;
/// A block of one of the driver's own pools.
pub const GPULEND_KNOWN_POOL_BLOCK: u32 = 2;
/// A range of reserved addresses, of which parts may be mapped.
pub const GPULEND_KNOWN_RESERVATION: u32 = 3;

/// Ways to share memory with another process: CUDA's older handles.
pub const GPULEND_SHARE_HANDLE: u32 = 1;
/// As a file descriptor.
pub const GPULEND_SHARE_DESCRIPTOR: u32 = 2;
/// Over a fabric.
pub const GPULEND_SHARE_FABRIC: u32 = 4;

/// Frees memory that was wrapped, with the context, address and bytes it was wrapped with. It is
/// called once, from any thread, when the last lease and export are gone and the GPU's work on the
/// memory is done. It must not throw, nor wait for a thread that waits for gpulend.
pub type Deleter = Option<unsafe extern "C" fn(context: *mut c_void, address: u64, bytes: u64)>;

/// What somebody says about an address. Set `size` to sizeof and what is not said to zero.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// sizeof(gpulend_claim).
    pub size: u64,
    /// Where the first element lies.
    pub address: u64,
    /// `ndim` extents; NULL if there are none.
    pub shape: *const i64,
    /// `ndim` strides, counted in elements; NULL: row by row without gaps.
    pub strides: *const i64,
    /// How many axes.
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

/// What gpulend_info() tells about a lease. Set `size` to sizeof.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Info {
    /// sizeof(gpulend_lease_info).
    pub size: u64,
    /// Where the first element lies. To use it in order, ask gpulend_pointer() or gpulend_host_pointer().
    pub address: u64,
    /// Bytes of the elements themselves.
    pub bytes: u64,
    /// GPULEND_HOST or a GPU's number.
    pub device: i32,
    /// GPULEND_MEMORY_...
    pub memory: u32,
    /// Element type; GPULEND_DTYPE_CODE, _BITS and _LANES take it apart.
    pub dtype: DtypeNumber,
    /// How many axes; gpulend_shape() tells them.
    pub ndim: i32,
    /// GPULEND_READONLY, _SIMULATED, _PADDED, _COMPACT, _HOST_VISIBLE.
    pub flags: u32,
    /// 0.
    pub reserved: u32,
}

/// All that is known about an address. Set `size` to sizeof.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Passport {
    /// sizeof(gpulend_passport).
    pub size: u64,
    /// The address asked for.
    pub address: u64,
    /// The first byte of what holds it.
    pub base: u64,
    /// How many bytes that has.
    pub bytes: u64,
    /// A number that no other allocation of this process has; 0 for memory that no driver knows.
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

/// What gpulend_device() tells about a GPU. Set `size` to sizeof.
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
    /// Its name, as "NVIDIA H200" or "Simulated GPU".
    pub name: [c_char; 256],
}

/// What gpulend_compile() compiles. Set `size` to sizeof and what is not said to zero.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// sizeof(gpulend_source).
    pub size: u64,
    /// CUDA C++, PTX, a cubin or a fatbin: which of them, its first bytes tell.
    pub text: *const c_void,
    /// How many bytes; 0: a text that ends in NUL.
    pub bytes: u64,
    /// What messages call the text; NULL: "kernel.cu".
    pub file: *const c_char,
    /// Options, as nvcc, NVRTC or clang spell them.
    pub options: *const *const c_char,
    /// Instances of templates that shall be in the module, as `scale<float>`.
    pub names: *const *const c_char,
    /// Names of files that the text may include.
    pub header_names: *const *const c_char,
    /// What is in them.
    pub header_texts: *const *const c_char,
    /// How many options.
    pub option_count: u32,
    /// How many names.
    pub name_count: u32,
    /// How many headers.
    pub header_count: u32,
    /// A GPU's number, or GPULEND_ANY_DEVICE.
    pub device: i32,
    /// GPULEND_COMPILER_...
    pub compiler: u32,
    /// 0.
    pub reserved: u32,
}

/// What gpulend_kernel_attributes() tells. Set `size` to sizeof.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KernelInfo {
    /// sizeof(gpulend_kernel_info).
    pub size: u64,
    /// Threads that a block may have.
    pub max_threads_per_block: u32,
    /// Bytes of shared memory that it always has.
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
    /// Bytes of shared memory that a launch may add.
    pub max_dynamic_shared_bytes: u32,
}

/// How large a launch is, and on which stream. Set `size` to sizeof and what is not said to zero; all
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
    /// Bytes of shared memory that are added to the kernel's own.
    pub shared: u32,
    /// GPULEND_STRIDED, _UNCHECKED.
    pub flags: u32,
    /// A stream of the module's GPU; 0: the calling thread's current one.
    pub stream: StreamHandle,
}

/// An argument of a kernel. gpulend_lease_argument() and its neighbours at the end of gpulend.h make
/// them; its size never changes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Argument {
    /// GPULEND_ARGUMENT_...
    pub kind: u32,
    /// Of GPULEND_ARGUMENT_BYTES how many. Of a number 0, or how many bytes its type has: parameters
    /// of machine code, of which no types are known, take a number by that.
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
    Source => 88,
    KernelInfo => 40,
    LaunchShape => 48
);
