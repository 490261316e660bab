//! The driver: the functions that this library calls, by the symbols that `libcuda.so.1` exports.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::error::{Error, Outcome, say};
use crate::wire::Handle;

/// A function that a stream calls on the host.
pub(crate) type HostFunction = Option<unsafe extern "C" fn(*mut c_void)>;
/// A function that a stream calls on the host, with the stream and its error.
pub(crate) type Callback = Option<unsafe extern "C" fn(Handle, c_int, *mut c_void)>;
/// A handle that another process opens.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Shared(pub [u8; 64]);

/// `CUlaunchConfig`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaunchConfiguration {
    pub(crate) grid: [c_uint; 3],
    pub(crate) block: [c_uint; 3],
    pub(crate) shared: c_uint,
    pub(crate) stream: Handle,
    pub(crate) attributes: *const c_void,
    pub(crate) count: c_uint,
}

/// One side of a `CUDA_MEMCPY2D`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Side2d {
    pub(crate) x: usize,
    pub(crate) y: usize,
    pub(crate) place: c_uint,
    pub(crate) host: usize,
    pub(crate) device: u64,
    pub(crate) array: Handle,
    pub(crate) pitch: usize,
}

/// `CUDA_MEMCPY2D`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Copy2d {
    pub(crate) from: Side2d,
    pub(crate) to: Side2d,
    pub(crate) width: usize,
    pub(crate) height: usize,
}

/// One side of a `CUDA_MEMCPY3D`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Side3d {
    pub(crate) x: usize,
    pub(crate) y: usize,
    pub(crate) z: usize,
    pub(crate) level: usize,
    pub(crate) place: c_uint,
    pub(crate) host: usize,
    pub(crate) device: u64,
    pub(crate) array: Handle,
    pub(crate) reserved: usize,
    pub(crate) pitch: usize,
    pub(crate) height: usize,
}

/// `CUDA_MEMCPY3D`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Copy3d {
    pub(crate) from: Side3d,
    pub(crate) to: Side3d,
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
}

/// `CUDA_KERNEL_NODE_PARAMS_v2`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelNode {
    pub(crate) function: Handle,
    pub(crate) grid: [c_uint; 3],
    pub(crate) block: [c_uint; 3],
    pub(crate) shared: c_uint,
    pub(crate) arguments: *mut *mut c_void,
    pub(crate) extra: *mut *mut c_void,
    pub(crate) kernel: Handle,
    pub(crate) context: Handle,
}

/// `CUDA_MEMSET_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemsetNode {
    pub(crate) address: u64,
    pub(crate) pitch: usize,
    pub(crate) value: c_uint,
    pub(crate) element: c_uint,
    pub(crate) width: usize,
    pub(crate) height: usize,
}

macro_rules! functions {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {
        /// A loaded driver. A function that it lacks is `None`.
        #[allow(non_snake_case, reason = "the names are the driver's symbols")]
        pub(crate) struct Driver {
            $($name: Option<unsafe extern "C" fn($($type),*) -> c_int>,)*
            /// Never closed: the driver's threads outlive us.
            _library: Library,
        }

        impl Driver {
            /// Looks all functions up.
            fn of(library: Library) -> Self {
                Self {
                    // SAFETY: a library of this name has CUDA's driver functions under CUDA's symbols. The library
                    // is kept beside them.
                    $($name: unsafe { library.get(stringify!($name)) }.ok().map(|found| *found),)*
                    _library: library,
                }
            }
        }

        /// The functions as checked calls. One that the driver lacks is not supported.
        ///
        /// # Safety
        ///
        /// Each wants of its caller what CUDA's documentation of the driver function wants of one.
        #[allow(clippy::missing_safety_doc, reason = "said once, above")]
        #[allow(clippy::too_many_arguments, reason = "they are the driver's")]
        #[allow(non_snake_case, reason = "the names are the driver's symbols")]
        impl Driver {
            $(#[inline]
            pub(crate) unsafe fn $name(&self, $($argument: $type),*) -> Outcome<()> {
                let function = self.$name.ok_or(Error::NOT_SUPPORTED)?;
                // SAFETY: the contract.
                Error::of(unsafe { function($($argument),*) })
            })*
        }
    };
}

functions! {
    cuInit(flags: c_uint);
    cuDriverGetVersion(version: *mut c_int);
    cuGetProcAddress_v2(name: *const c_char, address: *mut *mut c_void, version: c_int, flags: u64, found: *mut c_int);
    cuProfilerStart();
    cuProfilerStop();
    cuDeviceGet(device: *mut c_int, index: c_int);
    cuDeviceGetCount(count: *mut c_int);
    cuDeviceGetName(name: *mut c_char, room: c_int, device: c_int);
    cuDeviceGetUuid(uuid: *mut [u8; 16], device: c_int);
    cuDeviceGetLuid(luid: *mut [u8; 8], mask: *mut c_uint, device: c_int);
    cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int);
    cuDeviceGetAttribute(value: *mut c_int, which: c_int, device: c_int);
    cuDeviceGetByPCIBusId(device: *mut c_int, name: *const c_char);
    cuDeviceGetPCIBusId(name: *mut c_char, room: c_int, device: c_int);
    cuDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int);
    cuDeviceGetP2PAttribute(value: *mut c_int, which: c_int, from: c_int, to: c_int);
    cuDeviceGetDefaultMemPool(pool: *mut Handle, device: c_int);
    cuDeviceGetMemPool(pool: *mut Handle, device: c_int);
    cuDeviceSetMemPool(device: c_int, pool: Handle);
    cuDevicePrimaryCtxRetain(context: *mut Handle, device: c_int);
    cuDevicePrimaryCtxRelease_v2(device: c_int);
    cuDevicePrimaryCtxReset_v2(device: c_int);
    cuDevicePrimaryCtxSetFlags_v2(device: c_int, flags: c_uint);
    cuDevicePrimaryCtxGetState(device: c_int, flags: *mut c_uint, active: *mut c_int);
    cuCtxGetCurrent(context: *mut Handle);
    cuCtxSetCurrent(context: Handle);
    cuCtxGetDevice(device: *mut c_int);
    cuCtxGetFlags(flags: *mut c_uint);
    cuCtxSynchronize();
    cuCtxGetLimit(value: *mut usize, which: c_int);
    cuCtxSetLimit(which: c_int, value: usize);
    cuCtxGetCacheConfig(value: *mut c_int);
    cuCtxSetCacheConfig(value: c_int);
    cuCtxGetSharedMemConfig(value: *mut c_int);
    cuCtxSetSharedMemConfig(value: c_int);
    cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int);
    cuCtxResetPersistingL2Cache();
    cuCtxEnablePeerAccess(peer: Handle, flags: c_uint);
    cuCtxDisablePeerAccess(peer: Handle);
    cuModuleLoadDataEx(module: *mut Handle, image: *const c_void, count: c_uint, options: *const c_int, values: *const *mut c_void);
    cuModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char);
    cuModuleGetGlobal_v2(address: *mut u64, bytes: *mut usize, module: Handle, name: *const c_char);
    cuFuncGetAttribute(value: *mut c_int, which: c_int, function: Handle);
    cuFuncSetAttribute(function: Handle, which: c_int, value: c_int);
    cuFuncSetCacheConfig(function: Handle, value: c_int);
    cuFuncSetSharedMemConfig(function: Handle, value: c_int);
    cuFuncGetName(name: *mut *const c_char, function: Handle);
    cuFuncGetParamInfo(function: Handle, index: usize, offset: *mut usize, size: *mut usize);
    cuLaunchKernel(function: Handle, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, shared: c_uint, stream: Handle, arguments: *mut *mut c_void, extra: *mut *mut c_void);
    cuLaunchKernelEx(configuration: *const LaunchConfiguration, function: Handle, arguments: *mut *mut c_void, extra: *mut *mut c_void);
    cuLaunchHostFunc(stream: Handle, function: HostFunction, data: *mut c_void);
    cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut c_int, function: Handle, threads: c_int, shared: usize);
    cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks: *mut c_int, function: Handle, threads: c_int, shared: usize, flags: c_uint);
    cuOccupancyMaxPotentialBlockSizeWithFlags(grid: *mut c_int, block: *mut c_int, function: Handle, shared_of: usize, shared: usize, most: c_int, flags: c_uint);
    cuOccupancyAvailableDynamicSMemPerBlock(bytes: *mut usize, function: Handle, blocks: c_int, threads: c_int);
    cuOccupancyMaxPotentialClusterSize(size: *mut c_int, function: Handle, configuration: *const LaunchConfiguration);
    cuOccupancyMaxActiveClusters(count: *mut c_int, function: Handle, configuration: *const LaunchConfiguration);
    cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
    cuMemAlloc_v2(address: *mut u64, bytes: usize);
    cuMemAllocPitch_v2(address: *mut u64, pitch: *mut usize, width: usize, height: usize, element: c_uint);
    cuMemFree_v2(address: u64);
    cuMemHostAlloc(address: *mut *mut c_void, bytes: usize, flags: c_uint);
    cuMemFreeHost(address: *mut c_void);
    cuMemHostRegister_v2(address: *mut c_void, bytes: usize, flags: c_uint);
    cuMemHostUnregister(address: *mut c_void);
    cuMemHostGetDevicePointer_v2(address: *mut u64, host: *mut c_void, flags: c_uint);
    cuMemHostGetFlags(flags: *mut c_uint, host: *mut c_void);
    cuMemAllocManaged(address: *mut u64, bytes: usize, flags: c_uint);
    cuMemPrefetchAsync(address: u64, bytes: usize, device: c_int, stream: Handle);
    cuMemAdvise(address: u64, bytes: usize, advice: c_int, device: c_int);
    cuMemRangeGetAttribute(data: *mut c_void, room: usize, which: c_int, address: u64, bytes: usize);
    cuMemRangeGetAttributes(data: *mut *mut c_void, rooms: *mut usize, which: *mut c_int, count: usize, address: u64, bytes: usize);
    cuPointerGetAttributes(count: c_uint, which: *const c_int, values: *const *mut c_void, address: u64);
    cuMemAllocAsync(address: *mut u64, bytes: usize, stream: Handle);
    cuMemAllocFromPoolAsync(address: *mut u64, bytes: usize, pool: Handle, stream: Handle);
    cuMemFreeAsync(address: u64, stream: Handle);
    cuMemPoolCreate(pool: *mut Handle, properties: *const c_void);
    cuMemPoolDestroy(pool: Handle);
    cuMemPoolTrimTo(pool: Handle, keep: usize);
    cuMemPoolSetAttribute(pool: Handle, which: c_int, value: *mut c_void);
    cuMemPoolGetAttribute(pool: Handle, which: c_int, value: *mut c_void);
    cuMemPoolSetAccess(pool: Handle, list: *const c_void, count: usize);
    cuMemPoolGetAccess(flags: *mut c_int, pool: Handle, location: *const c_void);
    cuMemPoolExportToShareableHandle(handle: *mut c_void, pool: Handle, kind: c_int, flags: u64);
    cuMemPoolImportFromShareableHandle(pool: *mut Handle, handle: *mut c_void, kind: c_int, flags: u64);
    cuMemPoolExportPointer(data: *mut Shared, address: u64);
    cuMemPoolImportPointer(address: *mut u64, pool: Handle, data: *mut Shared);
    cuMemcpy(to: u64, from: u64, bytes: usize);
    cuMemcpyAsync(to: u64, from: u64, bytes: usize, stream: Handle);
    cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize);
    cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize);
    cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize);
    cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: Handle);
    cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: Handle);
    cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: Handle);
    cuMemcpyPeer(to: u64, to_context: Handle, from: u64, from_context: Handle, bytes: usize);
    cuMemcpyPeerAsync(to: u64, to_context: Handle, from: u64, from_context: Handle, bytes: usize, stream: Handle);
    cuMemcpy2DUnaligned_v2(copy: *const Copy2d);
    cuMemcpy2DAsync_v2(copy: *const Copy2d, stream: Handle);
    cuMemcpy3D_v2(copy: *const Copy3d);
    cuMemcpy3DAsync_v2(copy: *const Copy3d, stream: Handle);
    cuMemsetD8_v2(address: u64, value: u8, count: usize);
    cuMemsetD8Async(address: u64, value: u8, count: usize, stream: Handle);
    cuMemsetD2D8_v2(address: u64, pitch: usize, value: u8, width: usize, height: usize);
    cuMemsetD2D8Async(address: u64, pitch: usize, value: u8, width: usize, height: usize, stream: Handle);
    cuStreamCreate(stream: *mut Handle, flags: c_uint);
    cuStreamCreateWithPriority(stream: *mut Handle, flags: c_uint, priority: c_int);
    cuStreamDestroy_v2(stream: Handle);
    cuStreamQuery(stream: Handle);
    cuStreamSynchronize(stream: Handle);
    cuStreamWaitEvent(stream: Handle, event: Handle, flags: c_uint);
    cuStreamAddCallback(stream: Handle, function: Callback, data: *mut c_void, flags: c_uint);
    cuStreamGetFlags(stream: Handle, flags: *mut c_uint);
    cuStreamGetPriority(stream: Handle, priority: *mut c_int);
    cuStreamGetId(stream: Handle, id: *mut u64);
    cuStreamGetAttribute(stream: Handle, which: c_int, value: *mut c_void);
    cuStreamSetAttribute(stream: Handle, which: c_int, value: *const c_void);
    cuStreamCopyAttributes(to: Handle, from: Handle);
    cuStreamAttachMemAsync(stream: Handle, address: u64, bytes: usize, flags: c_uint);
    cuStreamBeginCapture_v2(stream: Handle, mode: c_int);
    cuStreamEndCapture(stream: Handle, graph: *mut Handle);
    cuStreamIsCapturing(stream: Handle, status: *mut c_int);
    cuStreamGetCaptureInfo_v2(stream: Handle, status: *mut c_int, id: *mut u64, graph: *mut Handle, dependencies: *mut *const Handle, count: *mut usize);
    cuStreamUpdateCaptureDependencies(stream: Handle, dependencies: *mut Handle, count: usize, flags: c_uint);
    cuThreadExchangeStreamCaptureMode(mode: *mut c_int);
    cuEventCreate(event: *mut Handle, flags: c_uint);
    cuEventRecord(event: Handle, stream: Handle);
    cuEventRecordWithFlags(event: Handle, stream: Handle, flags: c_uint);
    cuEventQuery(event: Handle);
    cuEventSynchronize(event: Handle);
    cuEventDestroy_v2(event: Handle);
    cuEventElapsedTime(milliseconds: *mut f32, start: Handle, end: Handle);
    cuIpcGetEventHandle(shared: *mut Shared, event: Handle);
    cuIpcOpenEventHandle(event: *mut Handle, shared: Shared);
    cuIpcGetMemHandle(shared: *mut Shared, address: u64);
    cuIpcOpenMemHandle_v2(address: *mut u64, shared: Shared, flags: c_uint);
    cuIpcCloseMemHandle(address: u64);
    cuGraphCreate(graph: *mut Handle, flags: c_uint);
    cuGraphClone(clone: *mut Handle, graph: Handle);
    cuGraphDestroy(graph: Handle);
    cuGraphInstantiateWithFlags(executable: *mut Handle, graph: Handle, flags: u64);
    cuGraphInstantiateWithParams(executable: *mut Handle, graph: Handle, parameters: *mut c_void);
    cuGraphExecDestroy(executable: Handle);
    cuGraphExecGetFlags(executable: Handle, flags: *mut u64);
    cuGraphExecUpdate_v2(executable: Handle, graph: Handle, result: *mut c_void);
    cuGraphLaunch(executable: Handle, stream: Handle);
    cuGraphUpload(executable: Handle, stream: Handle);
    cuGraphGetNodes(graph: Handle, nodes: *mut Handle, count: *mut usize);
    cuGraphGetRootNodes(graph: Handle, nodes: *mut Handle, count: *mut usize);
    cuGraphGetEdges(graph: Handle, from: *mut Handle, to: *mut Handle, count: *mut usize);
    cuGraphAddDependencies(graph: Handle, from: *const Handle, to: *const Handle, count: usize);
    cuGraphRemoveDependencies(graph: Handle, from: *const Handle, to: *const Handle, count: usize);
    cuGraphNodeGetType(node: Handle, kind: *mut c_int);
    cuGraphNodeGetDependencies(node: Handle, nodes: *mut Handle, count: *mut usize);
    cuGraphNodeGetDependentNodes(node: Handle, nodes: *mut Handle, count: *mut usize);
    cuGraphNodeFindInClone(found: *mut Handle, node: Handle, clone: Handle);
    cuGraphNodeSetEnabled(executable: Handle, node: Handle, on: c_uint);
    cuGraphNodeGetEnabled(executable: Handle, node: Handle, on: *mut c_uint);
    cuGraphDestroyNode(node: Handle);
    cuGraphRetainUserObject(graph: Handle, object: Handle, count: c_uint, flags: c_uint);
    cuGraphReleaseUserObject(graph: Handle, object: Handle, count: c_uint);
    cuUserObjectCreate(object: *mut Handle, data: *mut c_void, destroy: HostFunction, count: c_uint, flags: c_uint);
    cuUserObjectRetain(object: Handle, count: c_uint);
    cuUserObjectRelease(object: Handle, count: c_uint);
    cuGraphDebugDotPrint(graph: Handle, path: *const c_char, flags: c_uint);
    cuGraphAddEmptyNode(node: *mut Handle, graph: Handle, after: *const Handle, count: usize);
    cuGraphAddChildGraphNode(node: *mut Handle, graph: Handle, after: *const Handle, count: usize, child: Handle);
    cuGraphChildGraphNodeGetGraph(node: Handle, graph: *mut Handle);
    cuGraphAddEventRecordNode(node: *mut Handle, graph: Handle, after: *const Handle, count: usize, event: Handle);
    cuGraphAddEventWaitNode(node: *mut Handle, graph: Handle, after: *const Handle, count: usize, event: Handle);
    cuGraphAddHostNode(node: *mut Handle, graph: Handle, after: *const Handle, count: usize, parameters: *const c_void);
    cuGraphHostNodeGetParams(node: Handle, parameters: *mut c_void);
    cuGraphHostNodeSetParams(node: Handle, parameters: *const c_void);
    cuGraphAddKernelNode_v2(node: *mut Handle, graph: Handle, after: *const Handle, count: usize, parameters: *const KernelNode);
    cuGraphKernelNodeSetParams_v2(node: Handle, parameters: *const KernelNode);
    cuGraphExecKernelNodeSetParams_v2(executable: Handle, node: Handle, parameters: *const KernelNode);
    cuGraphAddMemsetNode(node: *mut Handle, graph: Handle, after: *const Handle, count: usize, parameters: *const MemsetNode, context: Handle);
    cuGraphExecMemsetNodeSetParams(executable: Handle, node: Handle, parameters: *const MemsetNode, context: Handle);
    cuGraphAddMemcpyNode(node: *mut Handle, graph: Handle, after: *const Handle, count: usize, parameters: *const Copy3d, context: Handle);
    cuGraphExecMemcpyNodeSetParams(executable: Handle, node: Handle, parameters: *const Copy3d, context: Handle);
}

static DRIVER: OnceLock<Result<Driver, Error>> = OnceLock::new();

fn open() -> Result<Driver, Error> {
    // SAFETY: the initialisers that run are those of a CUDA driver, which programs load like this.
    match unsafe { Library::open(Some("libcuda.so.1"), RTLD_NOW | RTLD_LOCAL) } {
        Ok(library) => Ok(Driver::of(library)),
        Err(error) => {
            use std::error::Error as _;
            let words = error.source().map_or_else(|| error.to_string(), ToString::to_string);
            let reason = words.strip_prefix("libcuda.so.1: ").unwrap_or(&words);
            say(format_args!(
                "there is no CUDA driver (libcuda.so.1: {reason}); to run on the simulated GPU: \
                 gpulend run -- PROGRAM"
            ));
            Err(Error::INSUFFICIENT_DRIVER)
        }
    }
}

/// Returns the driver, which is opened at the first call and not initialised here.
pub(crate) fn opened() -> Outcome<&'static Driver> {
    DRIVER.get_or_init(open).as_ref().map_err(|error| *error)
}
