//! CUDA's driver API as far as it is called: codes and constants, no behaviour.
#![forbid(unsafe_code)]

use std::ffi::c_int;

/// `CUresult`: an integer in a coat, because every driver may add codes.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Status(pub c_int);

impl Status {
    /// It worked.
    pub const SUCCESS: Self = Self(0);
    /// Not initialised, or initialised before a fork.
    pub const NOT_INITIALIZED: Self = Self(3);
    /// A library that is there to be linked against, and no driver.
    pub const STUB_LIBRARY: Self = Self(34);
    /// No GPU is visible.
    pub const NO_DEVICE: Self = Self(100);
    /// Library and kernel module are of different drivers.
    pub const SYSTEM_DRIVER_MISMATCH: Self = Self(803);
    /// Anything else.
    pub const UNKNOWN: Self = Self(999);
}

/// `CUdevice`: a device as the driver's functions take it.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceHandle(pub c_int);

/// `CUdevice_attribute`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceAttribute(pub c_int);

impl DeviceAttribute {
    /// The 7 of compute capability 7.5.
    pub const COMPUTE_CAPABILITY_MAJOR: Self = Self(75);
    /// The 5 of compute capability 7.5.
    pub const COMPUTE_CAPABILITY_MINOR: Self = Self(76);
}

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
/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`.
pub const HANDLE_TYPE_FILE_DESCRIPTOR: u64 = 1;
/// `CU_MEM_HANDLE_TYPE_FABRIC`.
pub const HANDLE_TYPE_FABRIC: u64 = 8;
