//! CUDA's result codes, their names and descriptions.
#![forbid(unsafe_code)]

use std::ffi::CStr;

/// A `CUresult`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Status(pub i32);

/// The result of the machine's functions: a value, or the code for the caller.
pub type Outcome<T> = Result<T, Status>;

macro_rules! statuses {
    ($($constant:ident = $code:literal, $meaning:literal;)*) => {
        #[allow(missing_docs, reason = "the names and meanings are CUDA's")]
        impl Status {
            $(pub const $constant: Self = Self($code);)*

            /// Every code with its name after `CUDA_`, and its description.
            const ALL: &'static [(i32, &'static CStr, &'static CStr)] = &[$((
                $code,
                c_string(concat!("CUDA_", stringify!($constant), "\0")),
                c_string(concat!($meaning, "\0")),
            ),)*];
        }
    };
}

/// Makes a C string from a literal that ends in NUL.
const fn c_string(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("a literal of this file has a NUL inside"),
    }
}

statuses! {
    SUCCESS = 0, "no error";
    ERROR_INVALID_VALUE = 1, "invalid argument";
    ERROR_OUT_OF_MEMORY = 2, "out of memory";
    ERROR_NOT_INITIALIZED = 3, "initialization error";
    ERROR_DEINITIALIZED = 4, "driver shutting down";
    ERROR_PROFILER_DISABLED = 5, "profiler disabled";
    ERROR_PROFILER_NOT_INITIALIZED = 6, "profiler not initialized";
    ERROR_PROFILER_ALREADY_STARTED = 7, "profiler already started";
    ERROR_PROFILER_ALREADY_STOPPED = 8, "profiler already stopped";
    ERROR_STUB_LIBRARY = 34, "the loaded library is a stub";
    ERROR_CALL_REQUIRES_NEWER_DRIVER = 36, "the call needs a newer driver";
    ERROR_DEVICE_UNAVAILABLE = 46, "the device cannot be used now";
    ERROR_NO_DEVICE = 100, "no CUDA-capable device is detected";
    ERROR_INVALID_DEVICE = 101, "invalid device ordinal";
    ERROR_DEVICE_NOT_LICENSED = 102, "the device is not licensed";
    ERROR_INVALID_IMAGE = 200, "device kernel image is invalid";
    ERROR_INVALID_CONTEXT = 201, "invalid device context";
    ERROR_CONTEXT_ALREADY_CURRENT = 202, "context already current";
    ERROR_MAP_FAILED = 205, "mapping failed";
    ERROR_UNMAP_FAILED = 206, "unmapping failed";
    ERROR_ARRAY_IS_MAPPED = 207, "array is mapped";
    ERROR_ALREADY_MAPPED = 208, "already mapped";
    ERROR_NO_BINARY_FOR_GPU = 209, "no kernel image is available for the device";
    ERROR_ALREADY_ACQUIRED = 210, "already acquired";
    ERROR_NOT_MAPPED = 211, "not mapped";
    ERROR_NOT_MAPPED_AS_ARRAY = 212, "not mapped as an array";
    ERROR_NOT_MAPPED_AS_POINTER = 213, "not mapped as a pointer";
    ERROR_ECC_UNCORRECTABLE = 214, "uncorrectable ECC error";
    ERROR_UNSUPPORTED_LIMIT = 215, "limit is not supported by the device";
    ERROR_CONTEXT_ALREADY_IN_USE = 216, "context is in use by another thread";
    ERROR_PEER_ACCESS_UNSUPPORTED = 217, "peer access is not supported between these devices";
    ERROR_INVALID_PTX = 218, "PTX compilation failed";
    ERROR_INVALID_GRAPHICS_CONTEXT = 219, "invalid graphics context";
    ERROR_NVLINK_UNCORRECTABLE = 220, "uncorrectable NVLink error";
    ERROR_JIT_COMPILER_NOT_FOUND = 221, "no PTX compiler was found";
    ERROR_UNSUPPORTED_PTX_VERSION = 222, "unsupported version of PTX";
    ERROR_JIT_COMPILATION_DISABLED = 223, "PTX compilation is disabled";
    ERROR_UNSUPPORTED_EXEC_AFFINITY = 224, "execution affinity is not supported";
    ERROR_UNSUPPORTED_DEVSIDE_SYNC = 225, "synchronizing on the device is not supported";
    ERROR_CONTAINED = 226, "contained error";
    ERROR_INVALID_SOURCE = 300, "device kernel source is invalid";
    ERROR_FILE_NOT_FOUND = 301, "file not found";
    ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND = 302, "symbol of a shared object was not found";
    ERROR_SHARED_OBJECT_INIT_FAILED = 303, "shared object failed to initialize";
    ERROR_OPERATING_SYSTEM = 304, "a call to the operating system failed";
    ERROR_INVALID_HANDLE = 400, "invalid resource handle";
    ERROR_ILLEGAL_STATE = 401, "a resource is not in the state that the call needs";
    ERROR_LOSSY_QUERY = 402, "the answer would lose information";
    ERROR_NOT_FOUND = 500, "named symbol not found";
    ERROR_NOT_READY = 600, "device not ready";
    ERROR_ILLEGAL_ADDRESS = 700, "an illegal memory access was encountered";
    ERROR_LAUNCH_OUT_OF_RESOURCES = 701, "too many resources requested for launch";
    ERROR_LAUNCH_TIMEOUT = 702, "the launch timed out";
    ERROR_LAUNCH_INCOMPATIBLE_TEXTURING = 703, "launch uses incompatible texturing";
    ERROR_PEER_ACCESS_ALREADY_ENABLED = 704, "peer access is already enabled";
    ERROR_PEER_ACCESS_NOT_ENABLED = 705, "peer access has not been enabled";
    ERROR_PRIMARY_CONTEXT_ACTIVE = 708, "the primary context is active";
    ERROR_CONTEXT_IS_DESTROYED = 709, "the context is destroyed";
    ERROR_ASSERT = 710, "device-side assert triggered";
    ERROR_TOO_MANY_PEERS = 711, "peer mappings are exhausted";
    ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712, "memory is already registered";
    ERROR_HOST_MEMORY_NOT_REGISTERED = 713, "memory is not registered";
    ERROR_HARDWARE_STACK_ERROR = 714, "hardware stack error";
    ERROR_ILLEGAL_INSTRUCTION = 715, "an illegal instruction was encountered";
    ERROR_MISALIGNED_ADDRESS = 716, "misaligned address";
    ERROR_INVALID_ADDRESS_SPACE = 717, "address of another address space";
    ERROR_INVALID_PC = 718, "invalid program counter";
    ERROR_LAUNCH_FAILED = 719, "unspecified launch failure";
    ERROR_COOPERATIVE_LAUNCH_TOO_LARGE = 720, "too many blocks in cooperative launch";
    ERROR_TENSOR_MEMORY_LEAK = 721, "tensor memory was not freed";
    ERROR_NOT_PERMITTED = 800, "operation not permitted";
    ERROR_NOT_SUPPORTED = 801, "operation not supported";
    ERROR_SYSTEM_NOT_READY = 802, "system not yet initialized";
    ERROR_SYSTEM_DRIVER_MISMATCH = 803, "another CUDA driver is in this process";
    ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE = 804, "compatibility mode is not supported here";
    ERROR_MPS_CONNECTION_FAILED = 805, "MPS client failed to connect";
    ERROR_MPS_RPC_FAILURE = 806, "MPS remote call failed";
    ERROR_MPS_SERVER_NOT_READY = 807, "MPS server is not ready";
    ERROR_MPS_MAX_CLIENTS_REACHED = 808, "MPS has too many clients";
    ERROR_MPS_MAX_CONNECTIONS_REACHED = 809, "MPS has too many connections";
    ERROR_MPS_CLIENT_TERMINATED = 810, "MPS client was terminated";
    ERROR_CDP_NOT_SUPPORTED = 811, "launches by kernels are not supported";
    ERROR_CDP_VERSION_MISMATCH = 812, "launches by kernels have another version";
    ERROR_STREAM_CAPTURE_UNSUPPORTED = 900, "operation not permitted when stream is capturing";
    ERROR_STREAM_CAPTURE_INVALIDATED = 901, "a previous error invalidated the capture";
    ERROR_STREAM_CAPTURE_MERGE = 902, "operation would merge two captures";
    ERROR_STREAM_CAPTURE_UNMATCHED = 903, "capture was not begun in this stream";
    ERROR_STREAM_CAPTURE_UNJOINED = 904, "work of another stream was not joined to the capture";
    ERROR_STREAM_CAPTURE_ISOLATION = 905, "operation would depend on work outside the capture";
    ERROR_STREAM_CAPTURE_IMPLICIT = 906, "operation would depend on the legacy stream in a capture";
    ERROR_CAPTURED_EVENT = 907, "event was last recorded in a capturing stream";
    ERROR_STREAM_CAPTURE_WRONG_THREAD = 908, "another thread began this capture";
    ERROR_TIMEOUT = 909, "the wait timed out";
    ERROR_GRAPH_EXEC_UPDATE_FAILURE = 910, "graph update failed";
    ERROR_EXTERNAL_DEVICE = 911, "a device that is not CUDA's failed";
    ERROR_INVALID_CLUSTER_SIZE = 912, "invalid cluster size";
    ERROR_FUNCTION_NOT_LOADED = 913, "function is not loaded";
    ERROR_INVALID_RESOURCE_TYPE = 914, "invalid resource type";
    ERROR_INVALID_RESOURCE_CONFIGURATION = 915, "invalid resource configuration";
    ERROR_KEY_ROTATION = 916, "a key is being rotated";
    ERROR_STREAM_DETACHED = 917, "stream is detached";
    ERROR_UNKNOWN = 999, "unknown error";
}

impl Status {
    /// Returns the name of the code, if CUDA has one.
    #[must_use]
    pub fn name(self) -> Option<&'static CStr> {
        Self::ALL.iter().find(|row| row.0 == self.0).map(|row| row.1)
    }

    /// Returns CUDA's description of the code, if it has one.
    #[must_use]
    pub fn meaning(self) -> Option<&'static CStr> {
        Self::ALL.iter().find(|row| row.0 == self.0).map(|row| row.2)
    }

    /// Parses a code that a user wrote as a number or a name, with or without `CUDA_ERROR_`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Ok(code) = text.parse() {
            return Self(code).name().map(|_| Self(code));
        }
        let wanted = text.to_ascii_uppercase();
        let short = wanted.strip_prefix("CUDA_").unwrap_or(&wanted);
        let short = short.strip_prefix("ERROR_").unwrap_or(short);
        let named = |row: &&(i32, &CStr, &CStr)| {
            row.1.to_str().is_ok_and(|name| name.strip_prefix("CUDA_ERROR_") == Some(short))
        };
        Self::ALL.iter().find(named).map(|row| Self(row.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_found_by_number_and_by_name() {
        for text in ["2", "CUDA_ERROR_OUT_OF_MEMORY", "out_of_memory", " ERROR_OUT_OF_MEMORY "] {
            assert_eq!(Status::parse(text), Some(Status::ERROR_OUT_OF_MEMORY), "{text}");
        }
        assert_eq!(Status::parse("17"), None);
        assert_eq!(Status::parse("nonsense"), None);
    }

    #[test]
    fn names_are_cudas() {
        assert_eq!(Status::SUCCESS.name(), Some(c"CUDA_SUCCESS"));
        assert_eq!(Status::ERROR_NOT_READY.name(), Some(c"CUDA_ERROR_NOT_READY"));
        assert_eq!(Status(12345).name(), None);
    }
}
