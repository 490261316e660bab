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
/// An element type: DLPack's code, bits << 8 and lanes << 16. GPULEND_FLOAT32 and others below, or
/// GPULEND_DTYPE(code, bits), or gpulend_dtype_parse().
pub type DtypeNumber = u32;

/// Success.
pub const GPULEND_OK: Status = 0;
/// An argument that cannot be: a NULL, a size, a flag.
pub const GPULEND_BAD_ARGUMENT: Status = 253;
/// A number that was never a handle.
pub const GPULEND_NO_HANDLE: Status = 270;
/// A handle of something else.
pub const GPULEND_OTHER_KIND: Status = 271;
/// A stream or an event that was freed.
pub const GPULEND_ENDED: Status = 272;
/// More handles than can be told apart.
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
/// A mistake of gpulend's own.
pub const GPULEND_BUG: Status = 2000;

/// The version of this interface, as gpulend_abi_version() tells it: the major number grows when a
/// program must be compiled again, the minor one when something is added.
pub const GPULEND_ABI_MAJOR: u32 = 0;
/// See GPULEND_ABI_MAJOR.
pub const GPULEND_ABI_MINOR: u32 = 1;

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
/// In claims: do not ask whether the memory is there.
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

sized!(Claim => 56, Info => 48, Passport => 88, DeviceInfo => 288);
