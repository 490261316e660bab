//! The table of the driver functions that gpulend calls.

use std::ffi::{c_char, c_int, c_uint, c_void};

use libloading::os::unix::Library;

use crate::abi::cuda::{
    Access, ContextHandle, Copy2d, DeviceAttribute, DeviceHandle, EventHandle, FunctionAttribute,
    FunctionHandle, GraphExecHandle, GraphHandle, LaunchConfiguration, MemoryHandle, ModuleHandle,
    PointerAttribute, PoolHandle, PoolPointer, PoolProperties, Status, StreamHandle,
};
use crate::driver::cuda::Driver;
use crate::error::DriverError;

macro_rules! functions {
    ($($field:ident = $name:literal ($($argument:ident: $type:ty),*);)*
     @newer $($late:ident = $late_name:literal ($($late_type:ty),*);)*) => {
        /// One pointer for each function that is called, named as in `cuda.h`.
        pub(super) struct Functions {
            $(pub(super) $field: unsafe extern "C" fn($($type),*) -> Status,)*
            $(/// Older drivers have none.
            pub(super) $late: Option<unsafe extern "C" fn($($late_type),*) -> Status>,)*
        }

        impl Functions {
            /// Looks all of them up, or names the first that is missing.
            ///
            /// # Safety
            ///
            /// 1. If `library` has functions of these names, they are those of `cuda.h`.
            /// 2. It stays loaded as long as one of them may be called.
            pub(super) unsafe fn of(library: &Library) -> Result<Self, &'static str> {
                Ok(Self {
                    // SAFETY: (1): the type is that of `cuda.h`; (2) is passed on.
                    $($field: *unsafe { library.get($name) }.map_err(|_| $name)?,)*
                    // SAFETY: as above.
                    $($late: unsafe { library.get($late_name) }.ok().map(|found| *found),)*
                })
            }
        }

        /// The functions as calls that are checked.
        ///
        /// # Safety
        ///
        /// Each wants of its caller what `cuda.h` wants of one: pointers to room for what is
        /// written, and handles that are alive.
        #[allow(clippy::missing_safety_doc, reason = "said once, above")]
        #[allow(clippy::too_many_arguments, reason = "they are cuda.h's")]
        impl Driver {
            $(#[inline]
            #[allow(dead_code, reason = "where a refusal is an answer, the pointer itself is called")]
            pub(super) unsafe fn $field(&self, $($argument: $type),*) -> Result<(), DriverError> {
                // SAFETY: the contract.
                let status = unsafe { (self.functions.$field)($($argument),*) };
                self.check($name, status)
            })*
        }
    };
}

functions! {
    init = "cuInit"(flags: c_uint);
    driver_version = "cuDriverGetVersion"(version: *mut c_int);
    error_name = "cuGetErrorName"(status: Status, name: *mut *const c_char);
    device_count = "cuDeviceGetCount"(count: *mut c_int);
    device_get = "cuDeviceGet"(device: *mut DeviceHandle, index: c_int);
    device_get_name = "cuDeviceGetName"(name: *mut c_char, room: c_int, device: DeviceHandle);
    device_memory = "cuDeviceTotalMem_v2"(bytes: *mut usize, device: DeviceHandle);
    device_attribute = "cuDeviceGetAttribute"(value: *mut c_int, which: DeviceAttribute, device: DeviceHandle);
    device_uuid = "cuDeviceGetUuid_v2"(uuid: *mut [u8; 16], device: DeviceHandle);
    pointer_get_attributes = "cuPointerGetAttributes"(
        count: c_uint, which: *const PointerAttribute, values: *const *mut c_void, address: u64);
    primary_retain = "cuDevicePrimaryCtxRetain"(context: *mut ContextHandle, device: DeviceHandle);
    primary_state = "cuDevicePrimaryCtxGetState"(device: DeviceHandle, flags: *mut c_uint, active: *mut c_int);
    context_current = "cuCtxGetCurrent"(context: *mut ContextHandle);
    context_push = "cuCtxPushCurrent_v2"(context: ContextHandle);
    context_pop = "cuCtxPopCurrent_v2"(context: *mut ContextHandle);
    context_synchronize = "cuCtxSynchronize"();
    exchange_capture_mode = "cuThreadExchangeStreamCaptureMode"(mode: *mut c_int);
    priority_range = "cuCtxGetStreamPriorityRange"(least: *mut c_int, greatest: *mut c_int);
    stream_create = "cuStreamCreateWithPriority"(
        stream: *mut StreamHandle, flags: c_uint, priority: c_int);
    stream_priority = "cuStreamGetPriority"(stream: StreamHandle, priority: *mut c_int);
    stream_destroy = "cuStreamDestroy_v2"(stream: StreamHandle);
    stream_synchronize = "cuStreamSynchronize"(stream: StreamHandle);
    stream_query = "cuStreamQuery"(stream: StreamHandle);
    stream_wait_event = "cuStreamWaitEvent"(stream: StreamHandle, event: EventHandle, flags: c_uint);
    stream_capture_info = "cuStreamGetCaptureInfo_v2"(
        stream: StreamHandle, status: *mut c_int, id: *mut u64, graph: *mut usize,
        dependencies: *mut usize, count: *mut usize);
    capture_begin = "cuStreamBeginCapture_v2"(stream: StreamHandle, mode: c_int);
    capture_end = "cuStreamEndCapture"(stream: StreamHandle, graph: *mut GraphHandle);
    graph_instantiate = "cuGraphInstantiateWithFlags"(
        executable: *mut GraphExecHandle, graph: GraphHandle, flags: u64);
    graph_launch = "cuGraphLaunch"(executable: GraphExecHandle, stream: StreamHandle);
    graph_destroy = "cuGraphDestroy"(graph: GraphHandle);
    executable_destroy = "cuGraphExecDestroy"(executable: GraphExecHandle);
    event_create = "cuEventCreate"(event: *mut EventHandle, flags: c_uint);
    event_record = "cuEventRecord"(event: EventHandle, stream: StreamHandle);
    event_query = "cuEventQuery"(event: EventHandle);
    event_synchronize = "cuEventSynchronize"(event: EventHandle);
    pool_create = "cuMemPoolCreate"(pool: *mut PoolHandle, properties: *const PoolProperties);
    pool_set = "cuMemPoolSetAttribute"(pool: PoolHandle, which: c_int, value: *const u64);
    pool_set_access = "cuMemPoolSetAccess"(pool: PoolHandle, access: *const Access, count: usize);
    can_access_peer = "cuDeviceCanAccessPeer"(can: *mut c_int, device: c_int, peer: c_int);
    pool_trim = "cuMemPoolTrimTo"(pool: PoolHandle, keep: usize);
    memory_allocate = "cuMemAllocFromPoolAsync"(
        address: *mut u64, bytes: usize, pool: PoolHandle, stream: StreamHandle);
    memory_free = "cuMemFreeAsync"(address: u64, stream: StreamHandle);
    host_allocate = "cuMemHostAlloc"(address: *mut usize, bytes: usize, flags: c_uint);
    host_free = "cuMemFreeHost"(address: usize);
    segment_allocate = "cuMemAlloc_v2"(address: *mut u64, bytes: usize);
    segment_free = "cuMemFree_v2"(address: u64);
    ipc_get = "cuIpcGetMemHandle"(handle: *mut MemoryHandle, address: u64);
    ipc_open = "cuIpcOpenMemHandle_v2"(address: *mut u64, handle: MemoryHandle, flags: c_uint);
    ipc_close = "cuIpcCloseMemHandle"(address: u64);
    host_register = "cuMemHostRegister_v2"(address: usize, bytes: usize, flags: c_uint);
    host_unregister = "cuMemHostUnregister"(address: usize);
    host_device_pointer = "cuMemHostGetDevicePointer_v2"(
        device: *mut u64, address: usize, flags: c_uint);
    stream_wait_value = "cuStreamWaitValue32_v2"(
        stream: StreamHandle, address: u64, value: u32, flags: c_uint);
    stream_write_value = "cuStreamWriteValue32_v2"(
        stream: StreamHandle, address: u64, value: u32, flags: c_uint);
    pool_export = "cuMemPoolExportToShareableHandle"(
        shared: *mut c_int, pool: PoolHandle, kind: c_uint, flags: u64);
    pool_import = "cuMemPoolImportFromShareableHandle"(
        pool: *mut PoolHandle, shared: usize, kind: c_uint, flags: u64);
    pool_export_pointer = "cuMemPoolExportPointer"(exported: *mut PoolPointer, address: u64);
    pool_import_pointer = "cuMemPoolImportPointer"(
        address: *mut u64, pool: PoolHandle, exported: *const PoolPointer);
    pool_destroy = "cuMemPoolDestroy"(pool: PoolHandle);
    address_range = "cuMemGetAddressRange_v2"(base: *mut u64, bytes: *mut usize, address: u64);
    physical_retain = "cuMemRetainAllocationHandle"(handle: *mut u64, address: usize);
    physical_release = "cuMemRelease"(handle: u64);
    physical_export = "cuMemExportToShareableHandle"(
        shared: *mut c_int, handle: u64, kind: c_uint, flags: u64);
    physical_import = "cuMemImportFromShareableHandle"(
        handle: *mut u64, shared: usize, kind: c_uint);
    addresses_reserve = "cuMemAddressReserve"(
        address: *mut u64, bytes: usize, align: usize, hint: u64, flags: u64);
    addresses_free = "cuMemAddressFree"(address: u64, bytes: usize);
    physical_map = "cuMemMap"(address: u64, bytes: usize, offset: usize, handle: u64, flags: u64);
    physical_unmap = "cuMemUnmap"(address: u64, bytes: usize);
    access_set = "cuMemSetAccess"(address: u64, bytes: usize, access: *const Access, count: usize);
    memory_info = "cuMemGetInfo_v2"(free: *mut usize, total: *mut usize);
    copy_up = "cuMemcpyHtoDAsync_v2"(to: u64, from: usize, bytes: usize, stream: StreamHandle);
    copy_down = "cuMemcpyDtoHAsync_v2"(to: usize, from: u64, bytes: usize, stream: StreamHandle);
    copy_across = "cuMemcpyDtoDAsync_v2"(to: u64, from: u64, bytes: usize, stream: StreamHandle);
    copy_peer = "cuMemcpyPeerAsync"(
        to: u64, to_context: ContextHandle, from: u64, from_context: ContextHandle, bytes: usize,
        stream: StreamHandle);
    copy_2d = "cuMemcpy2DAsync_v2"(copy: *const Copy2d, stream: StreamHandle);
    fill_8 = "cuMemsetD8Async"(address: u64, value: u8, count: usize, stream: StreamHandle);
    fill_16 = "cuMemsetD16Async"(address: u64, value: u16, count: usize, stream: StreamHandle);
    fill_column = "cuMemsetD2D32Async"(
        address: u64, pitch: usize, value: c_uint, width: usize, height: usize, stream: StreamHandle);
    fill_32 = "cuMemsetD32Async"(address: u64, value: c_uint, count: usize, stream: StreamHandle);
    event_elapsed = "cuEventElapsedTime"(milliseconds: *mut f32, start: EventHandle, end: EventHandle);
    module_load = "cuModuleLoadDataEx"(
        module: *mut ModuleHandle, image: *const c_void, count: c_uint, options: *const c_int,
        values: *const *mut c_void);
    module_unload = "cuModuleUnload"(module: ModuleHandle);
    module_function = "cuModuleGetFunction"(
        function: *mut FunctionHandle, module: ModuleHandle, name: *const c_char);
    module_global = "cuModuleGetGlobal_v2"(
        address: *mut u64, bytes: *mut usize, module: ModuleHandle, name: *const c_char);
    function_attribute = "cuFuncGetAttribute"(
        value: *mut c_int, which: FunctionAttribute, function: FunctionHandle);
    function_set = "cuFuncSetAttribute"(
        function: FunctionHandle, which: FunctionAttribute, value: c_int);
    occupancy_block = "cuOccupancyMaxPotentialBlockSize"(
        grid: *mut c_int, block: *mut c_int, function: FunctionHandle, shared_of_block: usize,
        shared: usize, most: c_int);
    occupancy_blocks = "cuOccupancyMaxActiveBlocksPerMultiprocessor"(
        blocks: *mut c_int, function: FunctionHandle, threads: c_int, shared: usize);
    kernel_launch = "cuLaunchKernelEx"(
        configuration: *const LaunchConfiguration, function: FunctionHandle,
        parameters: *const *mut c_void, extra: *const *mut c_void);
    @newer
    context_record = "cuCtxRecordEvent"(ContextHandle, EventHandle);
    parameter_info = "cuFuncGetParamInfo"(FunctionHandle, usize, *mut usize, *mut usize);
    function_count = "cuModuleGetFunctionCount"(*mut c_uint, ModuleHandle);
    function_list = "cuModuleEnumerateFunctions"(*mut FunctionHandle, c_uint, ModuleHandle);
    function_name = "cuFuncGetName"(*mut *const c_char, FunctionHandle);
}
