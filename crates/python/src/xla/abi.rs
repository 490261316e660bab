//! XLA's foreign function interface as bytes: the layouts of `xla/ffi/api/c_api.h`, version 0.3. No behaviour.
//!
//! Each struct begins with its size as its maker knows it. Enums of C are integers here: newer versions add values.
#![forbid(unsafe_code)]

use std::ffi::{c_char, c_void};
use std::mem::offset_of;

/// The version of the header that these layouts are of. A new major version may change any of them.
pub(super) const MAJOR: i32 = 0;
pub(super) const MINOR: i32 = 3;

/// `XLA_FFI_Extension_Metadata`.
pub(super) const METADATA: i32 = 1;
/// `XLA_FFI_ExecutionStage_EXECUTE`.
pub(super) const EXECUTE: i32 = 3;
/// `XLA_FFI_ArgType_BUFFER` and `XLA_FFI_RetType_BUFFER`.
pub(super) const BUFFER: i32 = 1;
/// `XLA_FFI_AttrType_SCALAR`.
pub(super) const SCALAR: i32 = 3;
/// `XLA_FFI_DataType_S64`.
pub(super) const S64: i32 = 5;
/// `XLA_FFI_Error_Code_INVALID_ARGUMENT`.
pub(super) const INVALID_ARGUMENT: i32 = 3;
/// `XLA_FFI_Error_Code_INTERNAL`.
pub(super) const INTERNAL: i32 = 13;

/// `XLA_FFI_Error`, which XLA alone knows.
#[repr(C)]
pub(super) struct XlaError {
    _opaque: [u8; 0],
}

/// `XLA_FFI_ExecutionContext`, which XLA alone knows.
#[repr(C)]
pub(super) struct Context {
    _opaque: [u8; 0],
}

/// `XLA_FFI_Extension_Base`.
#[repr(C)]
pub(super) struct Extension {
    pub(super) struct_size: usize,
    pub(super) kind: i32,
    pub(super) next: *mut Extension,
}

/// `XLA_FFI_Api_Version`.
#[repr(C)]
pub(super) struct Version {
    pub(super) struct_size: usize,
    pub(super) extension: *mut Extension,
    pub(super) major: i32,
    pub(super) minor: i32,
}

/// `XLA_FFI_Metadata`, without what came after the first version.
#[repr(C)]
pub(super) struct Metadata {
    pub(super) struct_size: usize,
    pub(super) version: Version,
    pub(super) traits: u32,
}

/// `XLA_FFI_Metadata_Extension`.
#[repr(C)]
pub(super) struct MetadataExtension {
    pub(super) base: Extension,
    pub(super) metadata: *mut Metadata,
}

/// `XLA_FFI_Buffer`.
#[repr(C)]
pub(super) struct Buffer {
    pub(super) struct_size: usize,
    pub(super) extension: *mut Extension,
    pub(super) dtype: i32,
    pub(super) data: *mut c_void,
    pub(super) rank: i64,
    pub(super) dims: *const i64,
}

/// `XLA_FFI_Args` and `XLA_FFI_Rets`, which are alike.
#[repr(C)]
pub(super) struct Buffers {
    pub(super) struct_size: usize,
    pub(super) extension: *mut Extension,
    pub(super) size: i64,
    pub(super) types: *const i32,
    pub(super) buffers: *const *const Buffer,
}

/// `XLA_FFI_ByteSpan`.
#[repr(C)]
pub(super) struct ByteSpan {
    pub(super) start: *const u8,
    pub(super) length: usize,
}

/// `XLA_FFI_Scalar`.
#[repr(C)]
pub(super) struct ScalarAttribute {
    pub(super) dtype: i32,
    pub(super) value: *const c_void,
}

/// `XLA_FFI_Attrs`.
#[repr(C)]
pub(super) struct Attributes {
    pub(super) struct_size: usize,
    pub(super) extension: *mut Extension,
    pub(super) size: i64,
    pub(super) types: *const i32,
    pub(super) names: *const *const ByteSpan,
    pub(super) values: *const *const c_void,
}

/// `XLA_FFI_CallFrame`, up to its attributes.
#[repr(C)]
pub(super) struct CallFrame {
    pub(super) struct_size: usize,
    pub(super) extension: *mut Extension,
    pub(super) api: *const Api,
    pub(super) context: *mut Context,
    pub(super) stage: i32,
    pub(super) arguments: Buffers,
    pub(super) results: Buffers,
    pub(super) attributes: Attributes,
}

/// `XLA_FFI_Error_Create_Args`.
#[repr(C)]
pub(super) struct ErrorCreate {
    pub(super) struct_size: usize,
    pub(super) extension: *mut Extension,
    pub(super) message: *const c_char,
    pub(super) code: i32,
}

/// `XLA_FFI_Error_Destroy_Args`.
#[repr(C)]
pub(super) struct ErrorDestroy {
    pub(super) struct_size: usize,
    pub(super) extension: *mut Extension,
    pub(super) error: *mut XlaError,
}

/// `XLA_FFI_Stream_Get_Args`.
#[repr(C)]
pub(super) struct StreamGet {
    pub(super) struct_size: usize,
    pub(super) extension: *mut Extension,
    pub(super) context: *mut Context,
    pub(super) stream: *mut c_void,
}

/// `XLA_FFI_DeviceOrdinal_Get_Args`.
#[repr(C)]
pub(super) struct DeviceOrdinalGet {
    pub(super) struct_size: usize,
    pub(super) extension: *mut Extension,
    pub(super) context: *mut Context,
    pub(super) ordinal: i32,
}

/// A function of XLA's that is not called here.
pub(super) type Other = Option<unsafe extern "C" fn()>;

/// `XLA_FFI_Api`.
#[repr(C)]
pub(super) struct Api {
    pub(super) struct_size: usize,
    pub(super) extension: *mut Extension,
    pub(super) version: Version,
    pub(super) internal: *const c_void,
    pub(super) error_create: Option<unsafe extern "C" fn(*mut ErrorCreate) -> *mut XlaError>,
    pub(super) error_get_message: Other,
    pub(super) error_destroy: Option<unsafe extern "C" fn(*mut ErrorDestroy)>,
    pub(super) handler_register: Other,
    pub(super) stream_get: Option<unsafe extern "C" fn(*mut StreamGet) -> *mut XlaError>,
    pub(super) others: [Other; 12],
    pub(super) device_ordinal_get:
        Option<unsafe extern "C" fn(*mut DeviceOrdinalGet) -> *mut XlaError>,
}

/// Where a struct ends, as the header counts: without padding after its last field.
pub(super) const CALL_FRAME: usize = offset_of!(CallFrame, attributes) + size_of::<Attributes>();
pub(super) const FRAME_API: usize = offset_of!(CallFrame, api) + size_of::<usize>();
pub(super) const METADATA_END: usize = offset_of!(Metadata, traits) + size_of::<u32>();
pub(super) const ERROR_CREATE: usize = offset_of!(ErrorCreate, code) + size_of::<i32>();
pub(super) const DEVICE_ORDINAL: usize = offset_of!(DeviceOrdinalGet, ordinal) + size_of::<i32>();
/// What the interface must have for errors, for a launch on the host, and for one on a GPU.
pub(super) const API_ERRORS: usize = offset_of!(Api, error_create) + size_of::<usize>();
pub(super) const API_ON_HOST: usize = offset_of!(Api, stream_get) + size_of::<usize>();
pub(super) const API_ON_GPU: usize = offset_of!(Api, device_ordinal_get) + size_of::<usize>();

// As a C compiler lays the header out on 64-bit machines.
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<Extension>() == 24);
    assert!(size_of::<Version>() == 24);
    assert!(size_of::<Metadata>() == 40 && METADATA_END == 36);
    assert!(size_of::<MetadataExtension>() == 32);
    assert!(size_of::<Buffer>() == 48 && offset_of!(Buffer, dims) == 40);
    assert!(size_of::<Buffers>() == 40);
    assert!(size_of::<Attributes>() == 48);
    assert!(size_of::<ScalarAttribute>() == 16);
    assert!(offset_of!(CallFrame, stage) == 32 && offset_of!(CallFrame, arguments) == 40);
    assert!(offset_of!(CallFrame, attributes) == 120 && CALL_FRAME == 168);
    assert!(ERROR_CREATE == 28 && size_of::<ErrorDestroy>() == 24);
    assert!(size_of::<StreamGet>() == 32 && DEVICE_ORDINAL == 28);
    assert!(offset_of!(Api, error_create) == 48 && offset_of!(Api, stream_get) == 80);
    assert!(offset_of!(Api, device_ordinal_get) == 184 && size_of::<Api>() == 192);
};
