//! DLPack 1.x as bytes: layouts and constants, no behaviour.
//!
//! Foreign integers stay integers: minor releases of DLPack add device and
//! type codes, and a Rust enum that holds an unlisted value is undefined
//! behaviour before anyone has looked at it.
#![forbid(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};
use std::mem::{offset_of, size_of};

/// The version this crate writes.
pub const VERSION: Version = Version { major: 1, minor: 3 };

/// `DLPackVersion`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Another major is another memory layout.
    pub major: u32,
    /// Another minor only adds codes and meanings.
    pub minor: u32,
}

/// `DLDeviceType`: an integer in a coat.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceCode(pub i32);

impl DeviceCode {
    /// Plain host memory.
    pub const CPU: Self = Self(1);
    /// CUDA device memory.
    pub const CUDA: Self = Self(2);
    /// Host memory pinned by CUDA.
    pub const CUDA_HOST: Self = Self(3);
    /// An OpenCL buffer; `data` is a handle, not an address.
    pub const OPENCL: Self = Self(4);
    /// CUDA managed memory.
    pub const CUDA_MANAGED: Self = Self(13);
}

/// `DLDevice`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// What kind of device.
    pub code: DeviceCode,
    /// Which one; 0 for host, pinned and managed memory.
    pub index: i32,
}

/// `DLDataType`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataType {
    /// One of the `CODE_*` constants, or a newer one.
    pub code: u8,
    /// Bits of one element.
    pub bits: u8,
    /// Elements of one vector.
    pub lanes: u16,
}

/// Signed integer.
pub const CODE_INT: u8 = 0;
/// Unsigned integer.
pub const CODE_UINT: u8 = 1;
/// IEEE floating point.
pub const CODE_FLOAT: u8 = 2;
/// Opaque handle.
pub const CODE_HANDLE: u8 = 3;
/// bfloat16.
pub const CODE_BFLOAT: u8 = 4;
/// Complex of IEEE floats; bits count both parts.
pub const CODE_COMPLEX: u8 = 5;
/// Boolean, one byte each.
pub const CODE_BOOL: u8 = 6;
/// The first of the eight 8-bit floats, in DLPack's order.
pub const CODE_FLOAT8_FIRST: u8 = 7;
/// 6-bit float, 2 exponent bits.
pub const CODE_FLOAT6_E2M3FN: u8 = 15;
/// 6-bit float, 3 exponent bits.
pub const CODE_FLOAT6_E3M2FN: u8 = 16;
/// 4-bit float.
pub const CODE_FLOAT4_E2M1FN: u8 = 17;
/// Complex of bfloat16.
pub const CODE_BCOMPLEX: u8 = 18;

/// `DLTensor`.
#[repr(C)]
#[derive(Debug)]
pub struct Tensor {
    /// Address or handle; the first element lies `byte_offset` further on.
    pub data: *mut c_void,
    /// Where.
    pub device: Device,
    /// Rank.
    pub ndim: i32,
    /// Element type.
    pub dtype: DataType,
    /// `ndim` extents.
    pub shape: *mut i64,
    /// `ndim` strides in elements; null meant compact before 1.2.
    pub strides: *mut i64,
    /// Bytes from `data` to the first element.
    pub byte_offset: u64,
}

/// `DLManagedTensor`: the layout before versions.
#[repr(C)]
#[derive(Debug)]
pub struct ManagedTensor {
    /// The tensor.
    pub tensor: Tensor,
    /// The producer's.
    pub manager_ctx: *mut c_void,
    /// Releases the tensor and this struct.
    pub deleter: Option<unsafe extern "C" fn(*mut ManagedTensor)>,
}

/// The first fields of `DLManagedTensorVersioned`: all that may be read
/// before the major version is known to be ours.
#[repr(C)]
#[derive(Debug)]
pub struct Header {
    /// What the producer wrote.
    pub version: Version,
    /// The producer's.
    pub manager_ctx: *mut c_void,
    /// Releases the tensor and this struct.
    pub deleter: Option<unsafe extern "C" fn(*mut ManagedTensorVersioned)>,
    /// `FLAG_*`.
    pub flags: u64,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
#[derive(Debug)]
pub struct ManagedTensorVersioned {
    /// Version, context, deleter, flags.
    pub header: Header,
    /// The tensor, if the major version is ours.
    pub tensor: Tensor,
}

/// The consumer must not write.
pub const FLAG_READ_ONLY: u64 = 1;
/// The producer made a copy for this consumer.
pub const FLAG_IS_COPIED: u64 = 2;
/// Each sub-byte element fills a byte of its own.
pub const FLAG_SUBBYTE_PADDED: u64 = 4;

/// `DLPackExchangeAPIHeader`.
#[repr(C)]
#[derive(Debug)]
pub struct ExchangeHeader {
    /// Version of the table that begins with this header.
    pub version: Version,
    /// An older table of the same producer, or null.
    pub prev_api: *const ExchangeHeader,
}

/// Reports an allocator's error: context, kind, message.
pub type SetError = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char);

/// `DLPackManagedTensorAllocator`.
pub type Allocator = unsafe extern "C" fn(
    *mut Tensor,
    *mut *mut ManagedTensorVersioned,
    *mut c_void,
    Option<SetError>,
) -> c_int;
/// `DLPackManagedTensorFromPyObjectNoSync`.
pub type FromPyObject =
    unsafe extern "C" fn(*mut c_void, *mut *mut ManagedTensorVersioned) -> c_int;
/// `DLPackManagedTensorToPyObjectNoSync`.
pub type ToPyObject = unsafe extern "C" fn(*mut ManagedTensorVersioned, *mut *mut c_void) -> c_int;
/// `DLPackDLTensorFromPyObjectNoSync`.
pub type TensorFromPyObject = unsafe extern "C" fn(*mut c_void, *mut Tensor) -> c_int;
/// `DLPackCurrentWorkStream`.
pub type CurrentWorkStream = unsafe extern "C" fn(DeviceCode, i32, *mut *mut c_void) -> c_int;

/// `DLPackExchangeAPI`: a producer's table of C functions.
#[repr(C)]
#[derive(Debug)]
pub struct ExchangeApi {
    /// Version and older tables.
    pub header: ExchangeHeader,
    /// Makes a fresh tensor of the framework's own kind.
    pub managed_tensor_allocator: Option<Allocator>,
    /// Exports an object, owned by the receiver.
    pub managed_tensor_from_py_object_no_sync: Option<FromPyObject>,
    /// Imports a tensor, taking it over.
    pub managed_tensor_to_py_object_no_sync: Option<ToPyObject>,
    /// Describes an object for as long as control has not returned to it.
    pub dltensor_from_py_object_no_sync: Option<TensorFromPyObject>,
    /// The framework's current stream.
    pub current_work_stream: Option<CurrentWorkStream>,
}

#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<Tensor>() == 48);
    assert!(offset_of!(Tensor, shape) == 24);
    assert!(offset_of!(Tensor, byte_offset) == 40);
    assert!(size_of::<ManagedTensor>() == 64);
    assert!(offset_of!(ManagedTensor, deleter) == 56);
    assert!(size_of::<Header>() == 32);
    assert!(offset_of!(ManagedTensorVersioned, tensor) == 32);
    assert!(size_of::<ManagedTensorVersioned>() == 80);
    assert!(size_of::<ExchangeApi>() == 56);
    assert!(offset_of!(ExchangeApi, current_work_stream) == 48);
};
