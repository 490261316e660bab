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
