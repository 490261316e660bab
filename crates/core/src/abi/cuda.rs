//! The part of CUDA's driver API that gpulend uses: codes and constants.
#![forbid(unsafe_code)]

use std::ffi::{c_int, c_uint, c_void};
use std::mem::offset_of;

/// `CUresult`. A struct rather than an enum, because drivers may add codes.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Status(pub c_int);

impl Status {
    /// Success.
    pub const SUCCESS: Self = Self(0);
    /// Not enough memory.
    pub const OUT_OF_MEMORY: Self = Self(2);
    /// Not initialised, or initialised before a fork.
    pub const NOT_INITIALIZED: Self = Self(3);
    /// The library is a stub for linking, not a driver.
    pub const STUB_LIBRARY: Self = Self(34);
    /// The driver is shutting down.
    pub const DEINITIALIZED: Self = Self(4);
    /// No GPU is visible.
    pub const NO_DEVICE: Self = Self(100);
    /// The context is invalid or not current.
    pub const INVALID_CONTEXT: Self = Self(201);
    /// The code cannot be compiled or loaded for the device.
    pub const INVALID_IMAGE: Self = Self(200);
    /// The name does not exist.
    pub const NOT_FOUND: Self = Self(500);
    /// The handle is not valid any more.
    pub const INVALID_HANDLE: Self = Self(400);
    /// The context was destroyed.
    pub const CONTEXT_IS_DESTROYED: Self = Self(709);
    /// The library and the kernel module are from different drivers.
    pub const SYSTEM_DRIVER_MISMATCH: Self = Self(803);
    /// The work is not complete yet.
    pub const NOT_READY: Self = Self(600);
    /// The legacy stream, while a blocking stream is capturing.
    pub const STREAM_CAPTURE_IMPLICIT: Self = Self(906);
    /// Anything else.
    pub const UNKNOWN: Self = Self(999);
}

/// `CUdevice`.
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
    /// `CUgraph`.
    GraphHandle;
    /// `CUgraphExec`.
    GraphExecHandle;
}

impl ContextHandle {
    /// The null handle.
    pub const NULL: Self = Self(0);
}

impl StreamHandle {
    /// The legacy default stream, which synchronises with blocking streams.
    pub const LEGACY: Self = Self(1);
    /// The per-thread default stream.
    pub const PER_THREAD: Self = Self(2);

    /// The stream with this number; 0 also means the legacy one.
    #[must_use]
    pub const fn of(number: usize) -> Self {
        if number == 0 { Self::LEGACY } else { Self(number) }
    }
}

/// `CU_STREAM_NON_BLOCKING`.
pub const STREAM_NON_BLOCKING: c_uint = 1;
/// `CU_EVENT_DISABLE_TIMING`.
pub const EVENT_DISABLE_TIMING: c_uint = 2;
/// `CU_STREAM_CAPTURE_MODE_GLOBAL`.
pub const CAPTURE_MODE_GLOBAL: c_int = 0;
/// `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`.
pub const CAPTURE_MODE_THREAD_LOCAL: c_int = 1;
/// `CU_STREAM_CAPTURE_MODE_RELAXED`.
pub const CAPTURE_MODE_RELAXED: c_int = 2;
/// `CU_STREAM_CAPTURE_STATUS_NONE`.
pub const CAPTURE_STATUS_NONE: c_int = 0;
/// `CU_MEMPOOL_ATTR_RELEASE_THRESHOLD`.
pub const POOL_RELEASE_THRESHOLD: c_int = 4;

/// `CUmemPoolProps`, including its reserved bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PoolProperties {
    /// `CUmemAllocationType`: 1 means pinned, as for device memory.
    pub allocation_type: c_int,
    /// `CUmemAllocationHandleType`: 0 means none.
    pub handle_types: c_int,
    /// `CUmemLocationType`: 1 is a device.
    pub location_type: c_int,
    /// The device.
    pub location_id: c_int,
    /// For Windows.
    pub security_attributes: usize,
    /// 0 means no limit.
    pub max_size: usize,
    /// Usage flags.
    pub usage: u16,
    /// Zero.
    pub reserved: [u8; 54],
}

/// `CUipcMemHandle`: by which another process opens an allocation.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryHandle(pub [u8; 64]);

/// `CUmemPoolPtrExportData`: by which another process finds memory of a pool that it imported.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolPointer(pub [u8; 64]);

/// `CUmemAccessDesc`: what a device may do with mapped memory.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// `CUmemLocationType`: 1 is a device.
    pub location_type: c_int,
    /// The device.
    pub location_id: c_int,
    /// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE` is 3.
    pub flags: c_int,
}

const _: () = assert!(size_of::<Access>() == 12);

/// `CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS`.
pub const IPC_LAZY_PEER_ACCESS: c_uint = 1;

/// `CUlaunchConfig`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LaunchConfiguration {
    /// Blocks along each axis.
    pub grid: [c_uint; 3],
    /// Threads per block along each axis.
    pub block: [c_uint; 3],
    /// Bytes of dynamic shared memory.
    pub shared: c_uint,
    /// The stream.
    pub stream: StreamHandle,
    /// Null: no attributes.
    pub attributes: *const c_void,
    /// The number of attributes.
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
    /// Its address, if it is host memory.
    pub source_host: usize,
    /// Its address, if it is device memory.
    pub source_device: u64,
    /// Null.
    pub source_array: usize,
    /// Row pitch in bytes.
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
    /// Bytes in a row.
    pub width: usize,
    /// Number of rows.
    pub height: usize,
}

/// `CUdevice_attribute`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceAttribute(pub c_int);

impl DeviceAttribute {
    /// Maximum threads per block.
    pub const MAX_THREADS_PER_BLOCK: Self = Self(1);
    /// Maximum block size along x; y and z follow.
    pub const MAX_BLOCK_DIM_X: Self = Self(2);
    /// Maximum grid size along x; y and z follow.
    pub const MAX_GRID_DIM_X: Self = Self(5);
    /// Maximum threads that a multiprocessor runs at once.
    pub const MAX_THREADS_PER_MULTIPROCESSOR: Self = Self(39);
    /// Bytes of shared memory per block, after opting in.
    pub const MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: Self = Self(97);
    /// The handle types that pools can have, as bits of `CUmemAllocationHandleType`.
    pub const MEMPOOL_SUPPORTED_HANDLE_TYPES: Self = Self(119);
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
    /// Maximum threads per block.
    pub const MAX_THREADS_PER_BLOCK: Self = Self(0);
    /// Bytes of static shared memory.
    pub const SHARED_SIZE_BYTES: Self = Self(1);
    /// Bytes of constant memory of its module.
    pub const CONST_SIZE_BYTES: Self = Self(2);
    /// Bytes of local memory per thread.
    pub const LOCAL_SIZE_BYTES: Self = Self(3);
    /// Registers per thread.
    pub const NUM_REGS: Self = Self(4);
    /// 63 for PTX 6.3.
    pub const PTX_VERSION: Self = Self(5);
    /// 90 for sm_90.
    pub const BINARY_VERSION: Self = Self(6);
    /// Maximum bytes of dynamic shared memory of a launch.
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
    /// `CUcontext` of the allocation; null for pools and reservations.
    pub const CONTEXT: Self = Self(1);
    /// `CUmemorytype`, 32 bits: 0 for unknown memory.
    pub const MEMORY_TYPE: Self = Self(2);
    /// 64 bits, unique to the allocation.
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
