//! CUDA's driver API as far as it is called: codes and constants, no behaviour.
#![forbid(unsafe_code)]

use std::ffi::{c_int, c_uint, c_void};
use std::mem::offset_of;

/// `CUresult`: an integer in a coat, because every driver may add codes.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Status(pub c_int);

impl Status {
    /// It worked.
    pub const SUCCESS: Self = Self(0);
    /// No room.
    pub const OUT_OF_MEMORY: Self = Self(2);
    /// Not initialised, or initialised before a fork.
    pub const NOT_INITIALIZED: Self = Self(3);
    /// A library that is there to be linked against, and no driver.
    pub const STUB_LIBRARY: Self = Self(34);
    /// The driver is shutting down.
    pub const DEINITIALIZED: Self = Self(4);
    /// No GPU is visible.
    pub const NO_DEVICE: Self = Self(100);
    /// A context that is none, or is not current.
    pub const INVALID_CONTEXT: Self = Self(201);
    /// Code that cannot be compiled or loaded for the device.
    pub const INVALID_IMAGE: Self = Self(200);
    /// A name that is not there.
    pub const NOT_FOUND: Self = Self(500);
    /// A handle that is none any more.
    pub const INVALID_HANDLE: Self = Self(400);
    /// A context that was destroyed.
    pub const CONTEXT_IS_DESTROYED: Self = Self(709);
    /// Library and kernel module are of different drivers.
    pub const SYSTEM_DRIVER_MISMATCH: Self = Self(803);
    /// What was asked for has not happened yet.
    pub const NOT_READY: Self = Self(600);
    /// The legacy stream, while a stream that blocks on it is capturing.
    pub const STREAM_CAPTURE_IMPLICIT: Self = Self(906);
    /// Anything else.
    pub const UNKNOWN: Self = Self(999);
}

/// `CUdevice`: a device as the driver's functions take it.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceHandle(pub c_int);

macro_rules! handles {
    ($($(#[$about:meta])* $name:ident;)*) => {
        $($(#[$about])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $name(pub usize);)*
    };
}

handles! {
    /// `CUcontext`.
    ContextHandle;
    /// `CUstream`.
    StreamHandle;
    /// `CUevent`.
    EventHandle;
    /// `CUmemoryPool`.
    PoolHandle;
    /// `CUmodule`.
    ModuleHandle;
    /// `CUfunction`.
    FunctionHandle;
}

impl ContextHandle {
    /// None.
    pub const NULL: Self = Self(0);
}

impl StreamHandle {
    /// The default stream that blocks and is blocked by others.
    pub const LEGACY: Self = Self(1);
    /// The default stream of the calling thread.
    pub const PER_THREAD: Self = Self(2);

    /// The stream of a number: 0 is another name of the legacy one.
    #[must_use]
    pub const fn of(number: usize) -> Self {
        if number == 0 { Self::LEGACY } else { Self(number) }
    }
}

/// `CU_STREAM_NON_BLOCKING`.
pub const STREAM_NON_BLOCKING: c_uint = 1;
/// `CU_EVENT_DISABLE_TIMING`.
pub const EVENT_DISABLE_TIMING: c_uint = 2;
/// `CU_STREAM_CAPTURE_MODE_RELAXED`.
pub const CAPTURE_MODE_RELAXED: c_int = 2;
/// `CU_STREAM_CAPTURE_STATUS_NONE`.
pub const CAPTURE_STATUS_NONE: c_int = 0;
/// `CU_MEMPOOL_ATTR_RELEASE_THRESHOLD`.
pub const POOL_RELEASE_THRESHOLD: c_int = 4;

/// `CUmemPoolProps`, with room for what later drivers read of it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PoolProperties {
    /// `CUmemAllocationType`: 1 is pinned, which is what device memory is.
    pub allocation_type: c_int,
    /// `CUmemAllocationHandleType`: 0 is none.
    pub handle_types: c_int,
    /// `CUmemLocationType`: 1 is a device.
    pub location_type: c_int,
    /// Which device.
    pub location_id: c_int,
    /// For Windows.
    pub security_attributes: usize,
    /// 0 is as much as the system allows.
    pub max_size: usize,
    /// How the memory is used.
    pub usage: u16,
    /// Zero.
    pub reserved: [u8; 54],
}

/// `CUlaunchConfig`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LaunchConfiguration {
    /// Blocks along each axis.
    pub grid: [c_uint; 3],
    /// Threads of a block along each axis.
    pub block: [c_uint; 3],
    /// Bytes of shared memory that are added to the kernel's own.
    pub shared: c_uint,
    /// Where.
    pub stream: StreamHandle,
    /// None.
    pub attributes: *const c_void,
    /// How many.
    pub count: c_uint,
}

const _: () = {
    assert!(size_of::<LaunchConfiguration>() == 56);
    assert!(offset_of!(LaunchConfiguration, stream) == 32);
    assert!(offset_of!(LaunchConfiguration, count) == 48);
};

/// `CUDA_MEMCPY2D`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Copy2d {
    /// Bytes to skip in each row of the source.
    pub source_x: usize,
    /// Rows to skip.
    pub source_y: usize,
    /// `CUmemorytype`.
    pub source_type: u32,
    /// Its address, if it is the host's.
    pub source_host: usize,
    /// Its address, if it is a device's.
    pub source_device: u64,
    /// None.
    pub source_array: usize,
    /// Bytes from row to row.
    pub source_pitch: usize,
    /// As for the source.
    pub target_x: usize,
    /// As for the source.
    pub target_y: usize,
    /// As for the source.
    pub target_type: u32,
    /// As for the source.
    pub target_host: usize,
    /// As for the source.
    pub target_device: u64,
    /// As for the source.
    pub target_array: usize,
    /// As for the source.
    pub target_pitch: usize,
    /// Bytes of a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

/// `CUdevice_attribute`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceAttribute(pub c_int);

impl DeviceAttribute {
    /// Threads of a block.
    pub const MAX_THREADS_PER_BLOCK: Self = Self(1);
    /// Threads of a block along x; those along y and z follow.
    pub const MAX_BLOCK_DIM_X: Self = Self(2);
    /// Blocks of a grid along x; those along y and z follow.
    pub const MAX_GRID_DIM_X: Self = Self(5);
    /// Bytes of shared memory that a block may have if it is asked for.
    pub const MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: Self = Self(97);
    /// The 7 of compute capability 7.5.
    pub const COMPUTE_CAPABILITY_MAJOR: Self = Self(75);
    /// The 5 of compute capability 7.5.
    pub const COMPUTE_CAPABILITY_MINOR: Self = Self(76);
}

/// `CUfunction_attribute`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FunctionAttribute(pub c_int);

impl FunctionAttribute {
    /// Threads of a block.
    pub const MAX_THREADS_PER_BLOCK: Self = Self(0);
    /// Bytes of shared memory that it always has.
    pub const SHARED_SIZE_BYTES: Self = Self(1);
    /// Bytes of constant memory of its module.
    pub const CONST_SIZE_BYTES: Self = Self(2);
    /// Bytes of local memory of each thread.
    pub const LOCAL_SIZE_BYTES: Self = Self(3);
    /// Registers of each thread.
    pub const NUM_REGS: Self = Self(4);
    /// 63 for PTX 6.3.
    pub const PTX_VERSION: Self = Self(5);
    /// 90 for sm_90.
    pub const BINARY_VERSION: Self = Self(6);
    /// Bytes of shared memory that a launch may add.
    pub const MAX_DYNAMIC_SHARED_SIZE_BYTES: Self = Self(8);
}

/// `CU_JIT_ERROR_LOG_BUFFER`.
pub const JIT_ERROR_LOG_BUFFER: c_int = 5;
/// `CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES`.
pub const JIT_ERROR_LOG_BUFFER_SIZE: c_int = 6;

/// `CUpointer_attribute`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PointerAttribute(pub c_int);

impl PointerAttribute {
    /// `CUcontext`: where it was allocated; null for pools and reservations.
    pub const CONTEXT: Self = Self(1);
    /// `CUmemorytype`, 32 bits: 0 where nothing is known.
    pub const MEMORY_TYPE: Self = Self(2);
    /// 64 bits that no other allocation has.
    pub const BUFFER_ID: Self = Self(7);
    /// 32 bits, 0 or 1.
    pub const IS_MANAGED: Self = Self(8);
    /// 32 bits.
    pub const DEVICE_ORDINAL: Self = Self(9);
    /// 32 bits, 0 or 1.
    pub const IS_LEGACY_CUDA_IPC_CAPABLE: Self = Self(10);
    /// An address.
    pub const RANGE_START_ADDR: Self = Self(11);
    /// `size_t`.
    pub const RANGE_SIZE: Self = Self(12);
    /// 64 bits of `CUmemAllocationHandleType`.
    pub const ALLOWED_HANDLE_TYPES: Self = Self(14);
    /// `CUmemoryPool`.
    pub const MEMPOOL_HANDLE: Self = Self(17);
}

/// `CU_MEMORYTYPE_HOST`.
pub const MEMORY_TYPE_HOST: u32 = 1;
/// `CU_MEMORYTYPE_DEVICE`.
pub const MEMORY_TYPE_DEVICE: u32 = 2;
/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`.
pub const HANDLE_TYPE_FILE_DESCRIPTOR: u64 = 1;
/// `CU_MEM_HANDLE_TYPE_FABRIC`.
pub const HANDLE_TYPE_FABRIC: u64 = 8;
