//! Every CUDA driver function that this library lists: CUDA 12 to 13.2, and those that older programs link.
//!
//! One row for each name that `cuGetProcAddress` knows. It lists for each version: the first CUDA version,
//! the file of `tests/driver` that tests it or `missing`, the exported symbol, and whether stream 0 is the
//! per-thread one.

use std::sync::atomic::AtomicU64;

use super::{
    arrays::*, batches::*, capture::*, contexts::*, copies::*, devices::*, events::*, functions::*,
    graph_memory::*, graphs::*, ipc::*, launches::*, libraries::*, links::*, memory::*, modules::*,
    nodes::*, occupancy::*, pointers::*, pools::*, start::*, streams::*, textures::*,
    user_objects::*, virtual_memory::*,
};

/// One exported symbol.
#[derive(Debug)]
pub struct Function {
    /// Its name for `cuGetProcAddress`.
    pub name: &'static str,
    /// The first CUDA version with this form.
    pub since: i32,
    /// Its exported symbol.
    pub symbol: &'static str,
    /// Whether stream 0 is the calling thread's default stream.
    pub per_thread: bool,
    /// The file that tests it; `None` if it returns `NOT_SUPPORTED`.
    pub test: Option<&'static str>,
    /// Whether it works without a machine, and so also in a forked child.
    pub pure: bool,
    /// Its address.
    pub address: Pointer,
}

/// The address of a function.
#[derive(Clone, Copy, Debug)]
pub struct Pointer(pub *const ());

// SAFETY: the address of a function is the same for every thread.
unsafe impl Sync for Pointer {}

impl Function {
    /// Returns whether a user can mean this function by that name.
    #[must_use]
    pub fn answers_to(&self, name: &str) -> bool {
        self.name == name || self.symbol == name
    }
}

const fn is_same(one: &str, other: &str) -> bool {
    starts_with(one, other) && one.len() == other.len()
}

const fn starts_with(text: &str, start: &str) -> bool {
    let (text, start) = (text.as_bytes(), start.as_bytes());
    let mut index = 0;
    while index < start.len() {
        if index >= text.len() || text[index] != start[index] {
            return false;
        }
        index += 1;
    }
    true
}

/// Returns the row of a symbol. An unlisted symbol does not compile.
#[must_use]
pub const fn row(symbol: &str) -> usize {
    let mut index = 0;
    while index < SYMBOLS.len() {
        if is_same(SYMBOLS[index], symbol) {
            return index;
        }
        index += 1;
    }
    panic!("the symbol is not in the list")
}

macro_rules! missing_functions {
    (missing $symbol:ident) => {
        #[doc = concat!("`", stringify!($symbol), "` is listed and does not behave yet.")]
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "the names are CUDA's")]
        pub extern "C" fn $symbol() -> crate::status::Status {
            const ROW: usize = row(stringify!($symbol));
            super::missing(ROW)
        }
    };
    ($test:ident $symbol:ident) => {};
}

macro_rules! test_of {
    (missing) => {
        None
    };
    ($test:ident) => {
        Some(stringify!($test))
    };
}

macro_rules! functions {
    ($($name:ident { $($since:literal $what:ident $symbol:ident $($per_thread:ident)?),* })*) => {
        const SYMBOLS: &[&str] = &[$($(stringify!($symbol),)*)*];
        /// All functions.
        pub static FUNCTIONS: &[Function] = &[$($(Function {
            name: stringify!($name),
            since: $since,
            symbol: stringify!($symbol),
            per_thread: !is_same(concat!("", $(stringify!($per_thread))?), ""),
            test: test_of!($what),
            pure: starts_with(stringify!($name), "cuGetErr") || starts_with(stringify!($name), "cuGetProc"),
            address: Pointer($symbol as *const ()),
        },)*)*];
        /// The number of calls of each function.
        pub(super) static COUNTS: [AtomicU64; SYMBOLS.len()] = [const { AtomicU64::new(0) }; SYMBOLS.len()];
        $($(missing_functions! { $what $symbol })*)*
    };
}

functions! {
    cuGetErrorString { 6000 start cuGetErrorString }
    cuGetErrorName { 6000 start cuGetErrorName }
    cuInit { 2000 start cuInit }
    cuDriverGetVersion { 2020 start cuDriverGetVersion }
    cuDeviceGet { 2000 devices cuDeviceGet }
    cuDeviceGetCount { 2000 devices cuDeviceGetCount }
    cuDeviceGetName { 2000 devices cuDeviceGetName }
    cuDeviceGetUuid { 9020 devices cuDeviceGetUuid, 11040 devices cuDeviceGetUuid_v2 }
    cuDeviceGetLuid { 10000 missing cuDeviceGetLuid }
    cuDeviceTotalMem { 2000 missing cuDeviceTotalMem, 3020 devices cuDeviceTotalMem_v2 }
    cuDeviceGetTexture1DLinearMaxWidth { 11010 arrays cuDeviceGetTexture1DLinearMaxWidth }
    cuDeviceGetAttribute { 2000 devices cuDeviceGetAttribute }
    cuDeviceGetHostAtomicCapabilities { 13000 missing cuDeviceGetHostAtomicCapabilities }
    cuDeviceGetNvSciSyncAttributes { 10020 missing cuDeviceGetNvSciSyncAttributes }
    cuDeviceSetMemPool { 11020 pools cuDeviceSetMemPool }
    cuDeviceGetMemPool { 11020 pools cuDeviceGetMemPool }
    cuDeviceGetDefaultMemPool { 11020 pools cuDeviceGetDefaultMemPool }
    cuDeviceGetProperties { 2000 devices cuDeviceGetProperties }
    cuDeviceComputeCapability { 2000 devices cuDeviceComputeCapability }
    cuDevicePrimaryCtxRetain { 7000 contexts cuDevicePrimaryCtxRetain }
    cuDevicePrimaryCtxRelease { 7000 contexts cuDevicePrimaryCtxRelease, 11000 contexts cuDevicePrimaryCtxRelease_v2 }
    cuDevicePrimaryCtxSetFlags { 7000 contexts cuDevicePrimaryCtxSetFlags, 11000 contexts cuDevicePrimaryCtxSetFlags_v2 }
    cuDevicePrimaryCtxGetState { 7000 contexts cuDevicePrimaryCtxGetState }
    cuDevicePrimaryCtxReset { 7000 contexts cuDevicePrimaryCtxReset, 11000 contexts cuDevicePrimaryCtxReset_v2 }
    cuDeviceGetExecAffinitySupport { 11040 missing cuDeviceGetExecAffinitySupport }
    cuCtxCreate { 2000 missing cuCtxCreate, 3020 contexts cuCtxCreate_v2, 11040 contexts cuCtxCreate_v3, 12050 contexts cuCtxCreate_v4 }
    cuCtxGetId { 12000 contexts cuCtxGetId }
    cuCtxDestroy { 2000 contexts cuCtxDestroy, 4000 contexts cuCtxDestroy_v2 }
    cuCtxPushCurrent { 2000 contexts cuCtxPushCurrent, 4000 contexts cuCtxPushCurrent_v2 }
    cuCtxPopCurrent { 2000 contexts cuCtxPopCurrent, 4000 contexts cuCtxPopCurrent_v2 }
    cuCtxSetCurrent { 4000 contexts cuCtxSetCurrent }
    cuCtxGetCurrent { 4000 contexts cuCtxGetCurrent }
    cuCtxGetDevice { 2000 contexts cuCtxGetDevice, 13000 contexts cuCtxGetDevice_v2 }
    cuCtxGetFlags { 7000 contexts cuCtxGetFlags }
    cuCtxSetFlags { 12010 contexts cuCtxSetFlags }
    cuCtxSynchronize { 2000 contexts cuCtxSynchronize, 13000 contexts cuCtxSynchronize_v2 }
    cuCtxSetLimit { 3010 contexts cuCtxSetLimit }
    cuCtxGetLimit { 3010 contexts cuCtxGetLimit }
    cuCtxGetCacheConfig { 3020 contexts cuCtxGetCacheConfig }
    cuCtxSetCacheConfig { 3020 contexts cuCtxSetCacheConfig }
    cuCtxGetSharedMemConfig { 4020 missing cuCtxGetSharedMemConfig }
    cuCtxSetSharedMemConfig { 4020 missing cuCtxSetSharedMemConfig }
    cuCtxGetApiVersion { 3020 contexts cuCtxGetApiVersion }
    cuCtxGetStreamPriorityRange { 5050 contexts cuCtxGetStreamPriorityRange }
    cuCtxResetPersistingL2Cache { 11000 missing cuCtxResetPersistingL2Cache }
    cuCtxAttach { 2000 contexts cuCtxAttach }
    cuCtxDetach { 2000 contexts cuCtxDetach }
    cuCtxGetExecAffinity { 11040 missing cuCtxGetExecAffinity }
    cuModuleLoad { 2000 modules cuModuleLoad }
    cuModuleLoadData { 2000 modules cuModuleLoadData }
    cuModuleLoadDataEx { 2010 modules cuModuleLoadDataEx }
    cuModuleLoadFatBinary { 2000 modules cuModuleLoadFatBinary }
    cuModuleUnload { 2000 modules cuModuleUnload }
    cuModuleGetFunction { 2000 modules cuModuleGetFunction }
    cuModuleGetGlobal { 2000 missing cuModuleGetGlobal, 3020 modules cuModuleGetGlobal_v2 }
    cuModuleGetTexRef { 2000 missing cuModuleGetTexRef }
    cuModuleGetSurfRef { 3000 missing cuModuleGetSurfRef }
    cuModuleGetFunctionCount { 12040 modules cuModuleGetFunctionCount }
    cuModuleEnumerateFunctions { 12040 modules cuModuleEnumerateFunctions }
    cuLinkCreate { 5050 modules cuLinkCreate, 6050 modules cuLinkCreate_v2 }
    cuLinkAddData { 5050 modules cuLinkAddData, 6050 modules cuLinkAddData_v2 }
    cuLinkAddFile { 5050 modules cuLinkAddFile, 6050 modules cuLinkAddFile_v2 }
    cuLinkComplete { 5050 modules cuLinkComplete }
    cuLinkDestroy { 5050 modules cuLinkDestroy }
    cuMemGetInfo { 2000 missing cuMemGetInfo, 3020 memory cuMemGetInfo_v2 }
    cuMemAlloc { 2000 missing cuMemAlloc, 3020 memory cuMemAlloc_v2 }
    cuMemAllocPitch { 2000 missing cuMemAllocPitch, 3020 memory cuMemAllocPitch_v2 }
    cuMemFree { 2000 missing cuMemFree, 3020 memory cuMemFree_v2 }
    cuMemGetAddressRange { 2000 missing cuMemGetAddressRange, 3020 memory cuMemGetAddressRange_v2 }
    cuMemAllocHost { 2000 missing cuMemAllocHost, 3020 memory cuMemAllocHost_v2 }
    cuMemFreeHost { 2000 memory cuMemFreeHost }
    cuMemHostAlloc { 2020 memory cuMemHostAlloc }
    cuMemHostGetDevicePointer { 2020 missing cuMemHostGetDevicePointer, 3020 memory cuMemHostGetDevicePointer_v2 }
    cuMemHostGetFlags { 2030 memory cuMemHostGetFlags }
    cuMemAllocManaged { 6000 memory cuMemAllocManaged }
    cuDeviceGetByPCIBusId { 4010 devices cuDeviceGetByPCIBusId }
    cuDeviceGetPCIBusId { 4010 devices cuDeviceGetPCIBusId }
    cuIpcGetEventHandle { 4010 ipc cuIpcGetEventHandle }
    cuIpcOpenEventHandle { 4010 ipc cuIpcOpenEventHandle }
    cuIpcGetMemHandle { 4010 ipc cuIpcGetMemHandle }
    cuIpcOpenMemHandle { 4010 ipc cuIpcOpenMemHandle, 11000 ipc cuIpcOpenMemHandle_v2 }
    cuIpcCloseMemHandle { 4010 ipc cuIpcCloseMemHandle }
    cuMemHostRegister { 4000 memory cuMemHostRegister, 6050 memory cuMemHostRegister_v2 }
    cuMemHostUnregister { 4000 memory cuMemHostUnregister }
    cuMemcpy { 4000 copies cuMemcpy, 7000 copies cuMemcpy_ptds per_thread }
    cuMemcpyPeer { 4000 copies cuMemcpyPeer, 7000 copies cuMemcpyPeer_ptds per_thread }
    cuMemcpyHtoD { 2000 missing cuMemcpyHtoD, 3020 copies cuMemcpyHtoD_v2, 7000 copies cuMemcpyHtoD_v2_ptds per_thread }
    cuMemcpyDtoH { 2000 missing cuMemcpyDtoH, 3020 copies cuMemcpyDtoH_v2, 7000 copies cuMemcpyDtoH_v2_ptds per_thread }
    cuMemcpyDtoD { 2000 missing cuMemcpyDtoD, 3020 copies cuMemcpyDtoD_v2, 7000 copies cuMemcpyDtoD_v2_ptds per_thread }
    cuMemcpyDtoA { 2000 missing cuMemcpyDtoA, 3020 arrays cuMemcpyDtoA_v2, 7000 arrays cuMemcpyDtoA_v2_ptds per_thread }
    cuMemcpyAtoD { 2000 missing cuMemcpyAtoD, 3020 arrays cuMemcpyAtoD_v2, 7000 arrays cuMemcpyAtoD_v2_ptds per_thread }
    cuMemcpyHtoA { 2000 missing cuMemcpyHtoA, 3020 arrays cuMemcpyHtoA_v2, 7000 arrays cuMemcpyHtoA_v2_ptds per_thread }
    cuMemcpyAtoH { 2000 missing cuMemcpyAtoH, 3020 arrays cuMemcpyAtoH_v2, 7000 arrays cuMemcpyAtoH_v2_ptds per_thread }
    cuMemcpyAtoA { 2000 missing cuMemcpyAtoA, 3020 arrays cuMemcpyAtoA_v2, 7000 arrays cuMemcpyAtoA_v2_ptds per_thread }
    cuMemcpy2D { 2000 missing cuMemcpy2D, 3020 copies cuMemcpy2D_v2, 7000 copies cuMemcpy2D_v2_ptds per_thread }
    cuMemcpy2DUnaligned { 2000 missing cuMemcpy2DUnaligned, 3020 copies cuMemcpy2DUnaligned_v2, 7000 copies cuMemcpy2DUnaligned_v2_ptds per_thread }
    cuMemcpy3D { 2000 missing cuMemcpy3D, 3020 copies cuMemcpy3D_v2, 7000 copies cuMemcpy3D_v2_ptds per_thread }
    cuMemcpy3DPeer { 4000 missing cuMemcpy3DPeer, 7000 missing cuMemcpy3DPeer_ptds per_thread }
    cuMemcpyAsync { 4000 copies cuMemcpyAsync, 7000 copies cuMemcpyAsync_ptsz per_thread }
    cuMemcpyPeerAsync { 4000 copies cuMemcpyPeerAsync, 7000 copies cuMemcpyPeerAsync_ptsz per_thread }
    cuMemcpyHtoDAsync { 2000 missing cuMemcpyHtoDAsync, 3020 copies cuMemcpyHtoDAsync_v2, 7000 copies cuMemcpyHtoDAsync_v2_ptsz per_thread }
    cuMemcpyDtoHAsync { 2000 missing cuMemcpyDtoHAsync, 3020 copies cuMemcpyDtoHAsync_v2, 7000 copies cuMemcpyDtoHAsync_v2_ptsz per_thread }
    cuMemcpyDtoDAsync { 3000 missing cuMemcpyDtoDAsync, 3020 copies cuMemcpyDtoDAsync_v2, 7000 copies cuMemcpyDtoDAsync_v2_ptsz per_thread }
    cuMemcpyHtoAAsync { 2000 missing cuMemcpyHtoAAsync, 3020 arrays cuMemcpyHtoAAsync_v2, 7000 arrays cuMemcpyHtoAAsync_v2_ptsz per_thread }
    cuMemcpyAtoHAsync { 2000 missing cuMemcpyAtoHAsync, 3020 arrays cuMemcpyAtoHAsync_v2, 7000 arrays cuMemcpyAtoHAsync_v2_ptsz per_thread }
    cuMemcpy2DAsync { 2000 missing cuMemcpy2DAsync, 3020 copies cuMemcpy2DAsync_v2, 7000 copies cuMemcpy2DAsync_v2_ptsz per_thread }
    cuMemcpy3DAsync { 2000 missing cuMemcpy3DAsync, 3020 copies cuMemcpy3DAsync_v2, 7000 copies cuMemcpy3DAsync_v2_ptsz per_thread }
    cuMemcpy3DPeerAsync { 4000 missing cuMemcpy3DPeerAsync, 7000 missing cuMemcpy3DPeerAsync_ptsz per_thread }
    cuMemcpyBatchAsync { 12080 batches cuMemcpyBatchAsync, 13000 batches cuMemcpyBatchAsync_v2, 12080 batches cuMemcpyBatchAsync_ptsz per_thread, 13000 batches cuMemcpyBatchAsync_v2_ptsz per_thread }
    cuMemcpy3DBatchAsync { 12080 missing cuMemcpy3DBatchAsync, 13000 missing cuMemcpy3DBatchAsync_v2, 12080 missing cuMemcpy3DBatchAsync_ptsz per_thread, 13000 missing cuMemcpy3DBatchAsync_v2_ptsz per_thread }
    cuMemcpyWithAttributesAsync { 13020 batches cuMemcpyWithAttributesAsync, 13020 batches cuMemcpyWithAttributesAsync_ptsz per_thread }
    cuMemcpy3DWithAttributesAsync { 13020 missing cuMemcpy3DWithAttributesAsync, 13020 missing cuMemcpy3DWithAttributesAsync_ptsz per_thread }
    cuMemsetD8 { 2000 missing cuMemsetD8, 3020 copies cuMemsetD8_v2, 7000 copies cuMemsetD8_v2_ptds per_thread }
    cuMemsetD16 { 2000 missing cuMemsetD16, 3020 copies cuMemsetD16_v2, 7000 copies cuMemsetD16_v2_ptds per_thread }
    cuMemsetD32 { 2000 missing cuMemsetD32, 3020 copies cuMemsetD32_v2, 7000 copies cuMemsetD32_v2_ptds per_thread }
    cuMemsetD2D8 { 2000 missing cuMemsetD2D8, 3020 copies cuMemsetD2D8_v2, 7000 copies cuMemsetD2D8_v2_ptds per_thread }
    cuMemsetD2D16 { 2000 missing cuMemsetD2D16, 3020 copies cuMemsetD2D16_v2, 7000 copies cuMemsetD2D16_v2_ptds per_thread }
    cuMemsetD2D32 { 2000 missing cuMemsetD2D32, 3020 copies cuMemsetD2D32_v2, 7000 copies cuMemsetD2D32_v2_ptds per_thread }
    cuMemsetD8Async { 3020 copies cuMemsetD8Async, 7000 copies cuMemsetD8Async_ptsz per_thread }
    cuMemsetD16Async { 3020 copies cuMemsetD16Async, 7000 copies cuMemsetD16Async_ptsz per_thread }
    cuMemsetD32Async { 3020 copies cuMemsetD32Async, 7000 copies cuMemsetD32Async_ptsz per_thread }
    cuMemsetD2D8Async { 3020 copies cuMemsetD2D8Async, 7000 copies cuMemsetD2D8Async_ptsz per_thread }
    cuMemsetD2D16Async { 3020 copies cuMemsetD2D16Async, 7000 copies cuMemsetD2D16Async_ptsz per_thread }
    cuMemsetD2D32Async { 3020 copies cuMemsetD2D32Async, 7000 copies cuMemsetD2D32Async_ptsz per_thread }
    cuArrayCreate { 2000 missing cuArrayCreate, 3020 arrays cuArrayCreate_v2 }
    cuArrayGetDescriptor { 2000 missing cuArrayGetDescriptor, 3020 arrays cuArrayGetDescriptor_v2 }
    cuArrayGetSparseProperties { 11010 missing cuArrayGetSparseProperties }
    cuMipmappedArrayGetSparseProperties { 11010 missing cuMipmappedArrayGetSparseProperties }
    cuArrayGetMemoryRequirements { 11060 missing cuArrayGetMemoryRequirements }
    cuMipmappedArrayGetMemoryRequirements { 11060 missing cuMipmappedArrayGetMemoryRequirements }
    cuArrayGetPlane { 11020 arrays cuArrayGetPlane }
    cuArrayDestroy { 2000 arrays cuArrayDestroy }
    cuArray3DCreate { 2000 missing cuArray3DCreate, 3020 arrays cuArray3DCreate_v2 }
    cuArray3DGetDescriptor { 2000 missing cuArray3DGetDescriptor, 3020 arrays cuArray3DGetDescriptor_v2 }
    cuMipmappedArrayCreate { 5000 arrays cuMipmappedArrayCreate }
    cuMipmappedArrayGetLevel { 5000 arrays cuMipmappedArrayGetLevel }
    cuMipmappedArrayDestroy { 5000 arrays cuMipmappedArrayDestroy }
    cuMemAddressReserve { 10020 virtual_memory cuMemAddressReserve }
    cuMemAddressFree { 10020 virtual_memory cuMemAddressFree }
    cuMemCreate { 10020 virtual_memory cuMemCreate }
    cuMemRelease { 10020 virtual_memory cuMemRelease }
    cuMemMap { 10020 virtual_memory cuMemMap }
    cuMemMapArrayAsync { 11010 missing cuMemMapArrayAsync, 11010 missing cuMemMapArrayAsync_ptsz per_thread }
    cuMemUnmap { 10020 virtual_memory cuMemUnmap }
    cuMemSetAccess { 10020 virtual_memory cuMemSetAccess }
    cuMemGetAccess { 10020 virtual_memory cuMemGetAccess }
    cuMemExportToShareableHandle { 10020 virtual_memory cuMemExportToShareableHandle }
    cuMemImportFromShareableHandle { 10020 virtual_memory cuMemImportFromShareableHandle }
    cuMemGetAllocationGranularity { 10020 virtual_memory cuMemGetAllocationGranularity }
    cuMemGetAllocationPropertiesFromHandle { 10020 virtual_memory cuMemGetAllocationPropertiesFromHandle }
    cuMemRetainAllocationHandle { 11000 virtual_memory cuMemRetainAllocationHandle }
    cuMemFreeAsync { 11020 pools cuMemFreeAsync, 11020 pools cuMemFreeAsync_ptsz per_thread }
    cuMemAllocAsync { 11020 pools cuMemAllocAsync, 11020 pools cuMemAllocAsync_ptsz per_thread }
    cuMemPoolTrimTo { 11020 pools cuMemPoolTrimTo }
    cuMemPoolSetAttribute { 11020 pools cuMemPoolSetAttribute }
    cuMemPoolGetAttribute { 11020 pools cuMemPoolGetAttribute }
    cuMemPoolSetAccess { 11020 pools cuMemPoolSetAccess }
    cuMemPoolGetAccess { 11020 pools cuMemPoolGetAccess }
    cuMemPoolCreate { 11020 pools cuMemPoolCreate }
    cuMemPoolDestroy { 11020 pools cuMemPoolDestroy }
    cuMemGetDefaultMemPool { 13000 pools cuMemGetDefaultMemPool }
    cuMemGetMemPool { 13000 pools cuMemGetMemPool }
    cuMemSetMemPool { 13000 pools cuMemSetMemPool }
    cuMemAllocFromPoolAsync { 11020 pools cuMemAllocFromPoolAsync, 11020 pools cuMemAllocFromPoolAsync_ptsz per_thread }
    cuMemPoolExportToShareableHandle { 11020 pools cuMemPoolExportToShareableHandle }
    cuMemPoolImportFromShareableHandle { 11020 pools cuMemPoolImportFromShareableHandle }
    cuMemPoolExportPointer { 11020 pools cuMemPoolExportPointer }
    cuMemPoolImportPointer { 11020 pools cuMemPoolImportPointer }
    cuPointerGetAttribute { 4000 pointers cuPointerGetAttribute }
    cuMemPrefetchAsync { 8000 memory cuMemPrefetchAsync, 12020 memory cuMemPrefetchAsync_v2, 8000 memory cuMemPrefetchAsync_ptsz per_thread, 12020 memory cuMemPrefetchAsync_v2_ptsz per_thread }
    cuMemAdvise { 8000 memory cuMemAdvise, 12020 memory cuMemAdvise_v2 }
    cuMemPrefetchBatchAsync { 13000 batches cuMemPrefetchBatchAsync, 13000 batches cuMemPrefetchBatchAsync_ptsz per_thread }
    cuMemDiscardBatchAsync { 13000 batches cuMemDiscardBatchAsync, 13000 batches cuMemDiscardBatchAsync_ptsz per_thread }
    cuMemDiscardAndPrefetchBatchAsync { 13000 batches cuMemDiscardAndPrefetchBatchAsync, 13000 batches cuMemDiscardAndPrefetchBatchAsync_ptsz per_thread }
    cuMemRangeGetAttribute { 8000 batches cuMemRangeGetAttribute }
    cuMemRangeGetAttributes { 8000 batches cuMemRangeGetAttributes }
    cuMulticastCreate { 12010 missing cuMulticastCreate }
    cuMulticastAddDevice { 12010 missing cuMulticastAddDevice }
    cuMulticastBindMem { 12010 missing cuMulticastBindMem, 13010 missing cuMulticastBindMem_v2 }
    cuMulticastBindAddr { 12010 missing cuMulticastBindAddr, 13010 missing cuMulticastBindAddr_v2 }
    cuMulticastUnbind { 12010 missing cuMulticastUnbind }
    cuMulticastGetGranularity { 12010 missing cuMulticastGetGranularity }
    cuPointerSetAttribute { 6000 pointers cuPointerSetAttribute }
    cuPointerGetAttributes { 7000 pointers cuPointerGetAttributes }
    cuStreamCreate { 2000 streams cuStreamCreate }
    cuStreamCreateWithPriority { 5050 streams cuStreamCreateWithPriority }
    cuStreamGetId { 12000 streams cuStreamGetId, 12000 streams cuStreamGetId_ptsz per_thread }
    cuStreamGetPriority { 5050 streams cuStreamGetPriority, 7000 streams cuStreamGetPriority_ptsz per_thread }
    cuStreamGetFlags { 5050 streams cuStreamGetFlags, 7000 streams cuStreamGetFlags_ptsz per_thread }
    cuStreamGetCtx { 9020 streams cuStreamGetCtx, 12050 streams cuStreamGetCtx_v2, 9020 streams cuStreamGetCtx_ptsz per_thread, 12050 streams cuStreamGetCtx_v2_ptsz per_thread }
    cuStreamWaitEvent { 3020 streams cuStreamWaitEvent, 7000 streams cuStreamWaitEvent_ptsz per_thread }
    cuStreamAddCallback { 5000 streams cuStreamAddCallback, 7000 streams cuStreamAddCallback_ptsz per_thread }
    cuStreamBeginCapture { 10000 capture cuStreamBeginCapture, 10010 capture cuStreamBeginCapture_v2, 10000 capture cuStreamBeginCapture_ptsz per_thread, 10010 capture cuStreamBeginCapture_v2_ptsz per_thread }
    cuStreamBeginCaptureToGraph { 12030 capture cuStreamBeginCaptureToGraph, 12030 capture cuStreamBeginCaptureToGraph_ptsz per_thread }
    cuThreadExchangeStreamCaptureMode { 10010 capture cuThreadExchangeStreamCaptureMode }
    cuStreamEndCapture { 10000 capture cuStreamEndCapture, 10000 capture cuStreamEndCapture_ptsz per_thread }
    cuStreamIsCapturing { 10000 capture cuStreamIsCapturing, 10000 capture cuStreamIsCapturing_ptsz per_thread }
    cuStreamGetCaptureInfo { 10010 capture cuStreamGetCaptureInfo, 11030 capture cuStreamGetCaptureInfo_v2, 12030 capture cuStreamGetCaptureInfo_v3, 10010 capture cuStreamGetCaptureInfo_ptsz per_thread, 11030 capture cuStreamGetCaptureInfo_v2_ptsz per_thread, 12030 capture cuStreamGetCaptureInfo_v3_ptsz per_thread }
    cuStreamUpdateCaptureDependencies { 11030 capture cuStreamUpdateCaptureDependencies, 12030 capture cuStreamUpdateCaptureDependencies_v2, 11030 capture cuStreamUpdateCaptureDependencies_ptsz per_thread, 12030 capture cuStreamUpdateCaptureDependencies_v2_ptsz per_thread }
    cuStreamBeginCaptureToCig { 13010 missing cuStreamBeginCaptureToCig, 13010 missing cuStreamBeginCaptureToCig_ptsz per_thread }
    cuStreamEndCaptureToCig { 13010 missing cuStreamEndCaptureToCig, 13010 missing cuStreamEndCaptureToCig_ptsz per_thread }
    cuStreamAttachMemAsync { 6000 missing cuStreamAttachMemAsync, 7000 missing cuStreamAttachMemAsync_ptsz per_thread }
    cuStreamQuery { 2000 streams cuStreamQuery, 7000 streams cuStreamQuery_ptsz per_thread }
    cuStreamSynchronize { 2000 streams cuStreamSynchronize, 7000 streams cuStreamSynchronize_ptsz per_thread }
    cuStreamDestroy { 2000 streams cuStreamDestroy, 4000 streams cuStreamDestroy_v2 }
    cuStreamCopyAttributes { 11000 missing cuStreamCopyAttributes, 11000 missing cuStreamCopyAttributes_ptsz per_thread }
    cuStreamGetAttribute { 11000 missing cuStreamGetAttribute, 11000 missing cuStreamGetAttribute_ptsz per_thread }
    cuStreamSetAttribute { 11000 missing cuStreamSetAttribute, 11000 missing cuStreamSetAttribute_ptsz per_thread }
    cuEventCreate { 2000 events cuEventCreate }
    cuEventRecord { 2000 events cuEventRecord, 7000 events cuEventRecord_ptsz per_thread }
    cuEventRecordWithFlags { 11010 events cuEventRecordWithFlags, 11010 events cuEventRecordWithFlags_ptsz per_thread }
    cuEventQuery { 2000 events cuEventQuery }
    cuEventSynchronize { 2000 events cuEventSynchronize }
    cuEventDestroy { 2000 events cuEventDestroy, 4000 events cuEventDestroy_v2 }
    cuEventElapsedTime { 2000 events cuEventElapsedTime, 12080 events cuEventElapsedTime_v2 }
    cuImportExternalMemory { 10000 missing cuImportExternalMemory }
    cuExternalMemoryGetMappedBuffer { 10000 missing cuExternalMemoryGetMappedBuffer }
    cuExternalMemoryGetMappedMipmappedArray { 10000 missing cuExternalMemoryGetMappedMipmappedArray }
    cuDestroyExternalMemory { 10000 missing cuDestroyExternalMemory }
    cuImportExternalSemaphore { 10000 missing cuImportExternalSemaphore }
    cuSignalExternalSemaphoresAsync { 10000 missing cuSignalExternalSemaphoresAsync, 10000 missing cuSignalExternalSemaphoresAsync_ptsz per_thread }
    cuWaitExternalSemaphoresAsync { 10000 missing cuWaitExternalSemaphoresAsync, 10000 missing cuWaitExternalSemaphoresAsync_ptsz per_thread }
    cuDestroyExternalSemaphore { 10000 missing cuDestroyExternalSemaphore }
    cuStreamWaitValue32 { 8000 streams cuStreamWaitValue32, 11070 streams cuStreamWaitValue32_v2, 8000 streams cuStreamWaitValue32_ptsz per_thread, 11070 streams cuStreamWaitValue32_v2_ptsz per_thread }
    cuStreamWaitValue64 { 9000 streams cuStreamWaitValue64, 11070 streams cuStreamWaitValue64_v2, 9000 streams cuStreamWaitValue64_ptsz per_thread, 11070 streams cuStreamWaitValue64_v2_ptsz per_thread }
    cuStreamWriteValue32 { 8000 streams cuStreamWriteValue32, 11070 streams cuStreamWriteValue32_v2, 8000 streams cuStreamWriteValue32_ptsz per_thread, 11070 streams cuStreamWriteValue32_v2_ptsz per_thread }
    cuStreamWriteValue64 { 9000 streams cuStreamWriteValue64, 11070 streams cuStreamWriteValue64_v2, 9000 streams cuStreamWriteValue64_ptsz per_thread, 11070 streams cuStreamWriteValue64_v2_ptsz per_thread }
    cuStreamBatchMemOp { 8000 streams cuStreamBatchMemOp, 11070 streams cuStreamBatchMemOp_v2, 8000 streams cuStreamBatchMemOp_ptsz per_thread, 11070 streams cuStreamBatchMemOp_v2_ptsz per_thread }
    cuFuncGetAttribute { 2020 kernels cuFuncGetAttribute }
    cuFuncSetAttribute { 9000 kernels cuFuncSetAttribute }
    cuFuncSetCacheConfig { 3000 kernels cuFuncSetCacheConfig }
    cuFuncSetSharedMemConfig { 4020 missing cuFuncSetSharedMemConfig }
    cuFuncGetName { 12030 kernels cuFuncGetName }
    cuFuncGetParamInfo { 12040 kernels cuFuncGetParamInfo }
    cuFuncGetParamCount { 13020 kernels cuFuncGetParamCount }
    cuFuncIsLoaded { 12040 kernels cuFuncIsLoaded }
    cuFuncLoad { 12040 kernels cuFuncLoad }
    cuLaunchKernel { 4000 kernels cuLaunchKernel, 7000 kernels cuLaunchKernel_ptsz per_thread }
    cuLaunchKernelEx { 11060 kernels cuLaunchKernelEx, 11060 kernels cuLaunchKernelEx_ptsz per_thread }
    cuLaunchCooperativeKernel { 9000 kernels cuLaunchCooperativeKernel, 9000 kernels cuLaunchCooperativeKernel_ptsz per_thread }
    cuLaunchCooperativeKernelMultiDevice { 9000 missing cuLaunchCooperativeKernelMultiDevice }
    cuLaunchHostFunc { 10000 streams cuLaunchHostFunc, 13010 streams cuLaunchHostFunc_v2, 10000 streams cuLaunchHostFunc_ptsz per_thread, 13010 streams cuLaunchHostFunc_v2_ptsz per_thread }
    cuFuncSetBlockShape { 2000 kernels cuFuncSetBlockShape }
    cuFuncSetSharedSize { 2000 kernels cuFuncSetSharedSize }
    cuParamSetSize { 2000 kernels cuParamSetSize }
    cuParamSeti { 2000 kernels cuParamSeti }
    cuParamSetf { 2000 kernels cuParamSetf }
    cuParamSetv { 2000 kernels cuParamSetv }
    cuLaunch { 2000 kernels cuLaunch }
    cuLaunchGrid { 2000 kernels cuLaunchGrid }
    cuLaunchGridAsync { 2000 kernels cuLaunchGridAsync }
    cuParamSetTexRef { 2000 missing cuParamSetTexRef }
    cuGraphCreate { 10000 graphs cuGraphCreate }
    cuGraphAddKernelNode { 10000 graphs cuGraphAddKernelNode, 12000 graphs cuGraphAddKernelNode_v2 }
    cuGraphKernelNodeGetParams { 10000 graphs cuGraphKernelNodeGetParams, 12000 graphs cuGraphKernelNodeGetParams_v2 }
    cuGraphKernelNodeSetParams { 10000 graphs cuGraphKernelNodeSetParams, 12000 graphs cuGraphKernelNodeSetParams_v2 }
    cuGraphAddMemcpyNode { 10000 graphs cuGraphAddMemcpyNode }
    cuGraphMemcpyNodeGetParams { 10000 graphs cuGraphMemcpyNodeGetParams }
    cuGraphMemcpyNodeSetParams { 10000 graphs cuGraphMemcpyNodeSetParams }
    cuGraphAddMemsetNode { 10000 graphs cuGraphAddMemsetNode }
    cuGraphMemsetNodeGetParams { 10000 graphs cuGraphMemsetNodeGetParams }
    cuGraphMemsetNodeSetParams { 10000 graphs cuGraphMemsetNodeSetParams }
    cuGraphAddHostNode { 10000 graphs cuGraphAddHostNode }
    cuGraphHostNodeGetParams { 10000 graphs cuGraphHostNodeGetParams }
    cuGraphHostNodeSetParams { 10000 graphs cuGraphHostNodeSetParams }
    cuGraphAddChildGraphNode { 10000 graphs cuGraphAddChildGraphNode }
    cuGraphChildGraphNodeGetGraph { 10000 graphs cuGraphChildGraphNodeGetGraph }
    cuGraphAddEmptyNode { 10000 graphs cuGraphAddEmptyNode }
    cuGraphAddEventRecordNode { 11010 graphs cuGraphAddEventRecordNode }
    cuGraphEventRecordNodeGetEvent { 11010 graphs cuGraphEventRecordNodeGetEvent }
    cuGraphEventRecordNodeSetEvent { 11010 graphs cuGraphEventRecordNodeSetEvent }
    cuGraphAddEventWaitNode { 11010 graphs cuGraphAddEventWaitNode }
    cuGraphEventWaitNodeGetEvent { 11010 graphs cuGraphEventWaitNodeGetEvent }
    cuGraphEventWaitNodeSetEvent { 11010 graphs cuGraphEventWaitNodeSetEvent }
    cuGraphAddExternalSemaphoresSignalNode { 11020 missing cuGraphAddExternalSemaphoresSignalNode }
    cuGraphExternalSemaphoresSignalNodeGetParams { 11020 missing cuGraphExternalSemaphoresSignalNodeGetParams }
    cuGraphExternalSemaphoresSignalNodeSetParams { 11020 missing cuGraphExternalSemaphoresSignalNodeSetParams }
    cuGraphAddExternalSemaphoresWaitNode { 11020 missing cuGraphAddExternalSemaphoresWaitNode }
    cuGraphExternalSemaphoresWaitNodeGetParams { 11020 missing cuGraphExternalSemaphoresWaitNodeGetParams }
    cuGraphExternalSemaphoresWaitNodeSetParams { 11020 missing cuGraphExternalSemaphoresWaitNodeSetParams }
    cuGraphAddBatchMemOpNode { 11070 missing cuGraphAddBatchMemOpNode }
    cuGraphBatchMemOpNodeGetParams { 11070 missing cuGraphBatchMemOpNodeGetParams }
    cuGraphBatchMemOpNodeSetParams { 11070 missing cuGraphBatchMemOpNodeSetParams }
    cuGraphExecBatchMemOpNodeSetParams { 11070 missing cuGraphExecBatchMemOpNodeSetParams }
    cuGraphClone { 10000 graphs cuGraphClone }
    cuGraphNodeFindInClone { 10000 graphs cuGraphNodeFindInClone }
    cuGraphNodeGetType { 10000 capture cuGraphNodeGetType }
    cuGraphNodeGetContainingGraph { 13010 graphs cuGraphNodeGetContainingGraph }
    cuGraphNodeGetLocalId { 13010 graphs cuGraphNodeGetLocalId }
    cuGraphNodeGetToolsId { 13010 graphs cuGraphNodeGetToolsId }
    cuGraphGetId { 13010 graphs cuGraphGetId }
    cuGraphExecGetId { 13010 graphs cuGraphExecGetId }
    cuGraphGetNodes { 10000 capture cuGraphGetNodes }
    cuGraphGetRootNodes { 10000 graphs cuGraphGetRootNodes }
    cuGraphGetEdges { 10000 graphs cuGraphGetEdges, 12030 graphs cuGraphGetEdges_v2 }
    cuGraphNodeGetDependencies { 10000 graphs cuGraphNodeGetDependencies, 12030 graphs cuGraphNodeGetDependencies_v2 }
    cuGraphNodeGetDependentNodes { 10000 graphs cuGraphNodeGetDependentNodes, 12030 graphs cuGraphNodeGetDependentNodes_v2 }
    cuGraphAddDependencies { 10000 graphs cuGraphAddDependencies, 12030 graphs cuGraphAddDependencies_v2 }
    cuGraphRemoveDependencies { 10000 graphs cuGraphRemoveDependencies, 12030 graphs cuGraphRemoveDependencies_v2 }
    cuGraphDestroyNode { 10000 graphs cuGraphDestroyNode }
    cuGraphInstantiateWithFlags { 11040 capture cuGraphInstantiateWithFlags }
    cuGraphInstantiateWithParams { 12000 capture cuGraphInstantiateWithParams, 12000 capture cuGraphInstantiateWithParams_ptsz per_thread }
    cuGraphExecGetFlags { 12000 graphs cuGraphExecGetFlags }
    cuGraphExecKernelNodeSetParams { 10010 graphs cuGraphExecKernelNodeSetParams, 12000 graphs cuGraphExecKernelNodeSetParams_v2 }
    cuGraphExecMemcpyNodeSetParams { 10020 graphs cuGraphExecMemcpyNodeSetParams }
    cuGraphExecMemsetNodeSetParams { 10020 graphs cuGraphExecMemsetNodeSetParams }
    cuGraphExecHostNodeSetParams { 10020 graphs cuGraphExecHostNodeSetParams }
    cuGraphExecChildGraphNodeSetParams { 11010 graphs cuGraphExecChildGraphNodeSetParams }
    cuGraphExecEventRecordNodeSetEvent { 11010 graphs cuGraphExecEventRecordNodeSetEvent }
    cuGraphExecEventWaitNodeSetEvent { 11010 graphs cuGraphExecEventWaitNodeSetEvent }
    cuGraphExecExternalSemaphoresSignalNodeSetParams { 11020 missing cuGraphExecExternalSemaphoresSignalNodeSetParams }
    cuGraphExecExternalSemaphoresWaitNodeSetParams { 11020 missing cuGraphExecExternalSemaphoresWaitNodeSetParams }
    cuGraphUpload { 11010 capture cuGraphUpload, 11010 capture cuGraphUpload_ptsz per_thread }
    cuGraphLaunch { 10000 capture cuGraphLaunch, 10000 capture cuGraphLaunch_ptsz per_thread }
    cuGraphExecDestroy { 10000 capture cuGraphExecDestroy }
    cuGraphDestroy { 10000 capture cuGraphDestroy }
    cuGraphExecUpdate { 10020 graphs cuGraphExecUpdate, 12000 graphs cuGraphExecUpdate_v2 }
    cuGraphKernelNodeCopyAttributes { 11000 graphs cuGraphKernelNodeCopyAttributes }
    cuGraphKernelNodeGetAttribute { 11000 graphs cuGraphKernelNodeGetAttribute }
    cuGraphKernelNodeSetAttribute { 11000 graphs cuGraphKernelNodeSetAttribute }
    cuGraphDebugDotPrint { 11030 graphs cuGraphDebugDotPrint }
    cuGraphAddMemAllocNode { 11040 graph_memory cuGraphAddMemAllocNode }
    cuGraphMemAllocNodeGetParams { 11040 graph_memory cuGraphMemAllocNodeGetParams }
    cuGraphAddMemFreeNode { 11040 graph_memory cuGraphAddMemFreeNode }
    cuGraphMemFreeNodeGetParams { 11040 graph_memory cuGraphMemFreeNodeGetParams }
    cuGraphNodeSetEnabled { 11060 graphs cuGraphNodeSetEnabled }
    cuGraphNodeGetEnabled { 11060 graphs cuGraphNodeGetEnabled }
    cuGraphAddNode { 12020 graphs cuGraphAddNode, 12030 graphs cuGraphAddNode_v2 }
    cuGraphNodeSetParams { 12020 graphs cuGraphNodeSetParams }
    cuGraphNodeGetParams { 13020 graphs cuGraphNodeGetParams }
    cuGraphExecNodeSetParams { 12020 graphs cuGraphExecNodeSetParams }
    cuGraphConditionalHandleCreate { 12030 graph_memory cuGraphConditionalHandleCreate }
    cuDeviceGraphMemTrim { 11040 graph_memory cuDeviceGraphMemTrim }
    cuDeviceGetGraphMemAttribute { 11040 graph_memory cuDeviceGetGraphMemAttribute }
    cuDeviceSetGraphMemAttribute { 11040 graph_memory cuDeviceSetGraphMemAttribute }
    cuOccupancyMaxActiveBlocksPerMultiprocessor { 6050 kernels cuOccupancyMaxActiveBlocksPerMultiprocessor }
    cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags { 7000 kernels cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags }
    cuOccupancyMaxPotentialBlockSize { 6050 kernels cuOccupancyMaxPotentialBlockSize }
    cuOccupancyMaxPotentialBlockSizeWithFlags { 7000 kernels cuOccupancyMaxPotentialBlockSizeWithFlags }
    cuOccupancyAvailableDynamicSMemPerBlock { 10020 kernels cuOccupancyAvailableDynamicSMemPerBlock }
    cuOccupancyMaxPotentialClusterSize { 11070 missing cuOccupancyMaxPotentialClusterSize }
    cuOccupancyMaxActiveClusters { 11070 missing cuOccupancyMaxActiveClusters }
    cuTexRefSetArray { 2000 missing cuTexRefSetArray }
    cuTexRefSetMipmappedArray { 5000 missing cuTexRefSetMipmappedArray }
    cuTexRefSetAddress { 2000 missing cuTexRefSetAddress, 3020 missing cuTexRefSetAddress_v2 }
    cuTexRefSetAddress2D { 2020 missing cuTexRefSetAddress2D, 3020 missing cuTexRefSetAddress2D_v2, 4010 missing cuTexRefSetAddress2D_v3 }
    cuTexRefSetFormat { 2000 missing cuTexRefSetFormat }
    cuTexRefSetAddressMode { 2000 missing cuTexRefSetAddressMode }
    cuTexRefSetFilterMode { 2000 missing cuTexRefSetFilterMode }
    cuTexRefSetMipmapFilterMode { 5000 missing cuTexRefSetMipmapFilterMode }
    cuTexRefSetMipmapLevelBias { 5000 missing cuTexRefSetMipmapLevelBias }
    cuTexRefSetMipmapLevelClamp { 5000 missing cuTexRefSetMipmapLevelClamp }
    cuTexRefSetMaxAnisotropy { 5000 missing cuTexRefSetMaxAnisotropy }
    cuTexRefSetBorderColor { 8000 missing cuTexRefSetBorderColor }
    cuTexRefSetFlags { 2000 missing cuTexRefSetFlags }
    cuTexRefGetAddress { 2000 missing cuTexRefGetAddress, 3020 missing cuTexRefGetAddress_v2 }
    cuTexRefGetArray { 2000 missing cuTexRefGetArray }
    cuTexRefGetMipmappedArray { 5000 missing cuTexRefGetMipmappedArray }
    cuTexRefGetAddressMode { 2000 missing cuTexRefGetAddressMode }
    cuTexRefGetFilterMode { 2000 missing cuTexRefGetFilterMode }
    cuTexRefGetFormat { 2000 missing cuTexRefGetFormat }
    cuTexRefGetMipmapFilterMode { 5000 missing cuTexRefGetMipmapFilterMode }
    cuTexRefGetMipmapLevelBias { 5000 missing cuTexRefGetMipmapLevelBias }
    cuTexRefGetMipmapLevelClamp { 5000 missing cuTexRefGetMipmapLevelClamp }
    cuTexRefGetMaxAnisotropy { 5000 missing cuTexRefGetMaxAnisotropy }
    cuTexRefGetBorderColor { 8000 missing cuTexRefGetBorderColor }
    cuTexRefGetFlags { 2000 missing cuTexRefGetFlags }
    cuTexRefCreate { 2000 missing cuTexRefCreate }
    cuTexRefDestroy { 2000 missing cuTexRefDestroy }
    cuSurfRefSetArray { 3000 missing cuSurfRefSetArray }
    cuSurfRefGetArray { 3000 missing cuSurfRefGetArray }
    cuTexObjectCreate { 5000 arrays cuTexObjectCreate }
    cuTexObjectDestroy { 5000 arrays cuTexObjectDestroy }
    cuTexObjectGetResourceDesc { 5000 arrays cuTexObjectGetResourceDesc }
    cuTexObjectGetTextureDesc { 5000 arrays cuTexObjectGetTextureDesc }
    cuTexObjectGetResourceViewDesc { 5000 arrays cuTexObjectGetResourceViewDesc }
    cuSurfObjectCreate { 5000 arrays cuSurfObjectCreate }
    cuSurfObjectDestroy { 5000 arrays cuSurfObjectDestroy }
    cuSurfObjectGetResourceDesc { 5000 arrays cuSurfObjectGetResourceDesc }
    cuTensorMapEncodeTiled { 12000 missing cuTensorMapEncodeTiled }
    cuTensorMapEncodeIm2col { 12000 missing cuTensorMapEncodeIm2col }
    cuTensorMapReplaceAddress { 12000 missing cuTensorMapReplaceAddress }
    cuTensorMapEncodeIm2colWide { 12080 missing cuTensorMapEncodeIm2colWide }
    cuDeviceCanAccessPeer { 4000 devices cuDeviceCanAccessPeer }
    cuCtxEnablePeerAccess { 4000 contexts cuCtxEnablePeerAccess }
    cuCtxDisablePeerAccess { 4000 contexts cuCtxDisablePeerAccess }
    cuDeviceGetP2PAttribute { 8000 devices cuDeviceGetP2PAttribute }
    cuDeviceGetP2PAtomicCapabilities { 13000 missing cuDeviceGetP2PAtomicCapabilities }
    cuGraphicsUnregisterResource { 3000 missing cuGraphicsUnregisterResource }
    cuGraphicsSubResourceGetMappedArray { 3000 missing cuGraphicsSubResourceGetMappedArray }
    cuGraphicsResourceGetMappedMipmappedArray { 5000 missing cuGraphicsResourceGetMappedMipmappedArray }
    cuGraphicsResourceGetMappedPointer { 3000 missing cuGraphicsResourceGetMappedPointer, 3020 missing cuGraphicsResourceGetMappedPointer_v2 }
    cuGraphicsResourceSetMapFlags { 3000 missing cuGraphicsResourceSetMapFlags, 6050 missing cuGraphicsResourceSetMapFlags_v2 }
    cuGraphicsMapResources { 3000 missing cuGraphicsMapResources, 7000 missing cuGraphicsMapResources_ptsz per_thread }
    cuGraphicsUnmapResources { 3000 missing cuGraphicsUnmapResources, 7000 missing cuGraphicsUnmapResources_ptsz per_thread }
    cuGetExportTable { 3000 start cuGetExportTable }
    cuFuncGetModule { 11000 kernels cuFuncGetModule }
    cuGetProcAddress { 11030 start cuGetProcAddress, 12000 start cuGetProcAddress_v2, 12000 start cuGetProcAddress_v2_ptsz per_thread }
    cuStreamGetDevice { 12080 streams cuStreamGetDevice, 12080 streams cuStreamGetDevice_ptsz per_thread }
    cuFlushGPUDirectRDMAWrites { 11030 missing cuFlushGPUDirectRDMAWrites }
    cuUserObjectCreate { 11030 user_objects cuUserObjectCreate }
    cuUserObjectRetain { 11030 user_objects cuUserObjectRetain }
    cuUserObjectRelease { 11030 user_objects cuUserObjectRelease }
    cuGraphRetainUserObject { 11030 user_objects cuGraphRetainUserObject }
    cuGraphReleaseUserObject { 11030 user_objects cuGraphReleaseUserObject }
    cuModuleGetLoadingMode { 11070 modules cuModuleGetLoadingMode }
    cuMemGetHandleForAddressRange { 11070 missing cuMemGetHandleForAddressRange }
    cuLibraryLoadData { 12000 modules cuLibraryLoadData }
    cuLibraryLoadFromFile { 12000 modules cuLibraryLoadFromFile }
    cuLibraryUnload { 12000 modules cuLibraryUnload }
    cuLibraryGetKernel { 12000 modules cuLibraryGetKernel }
    cuLibraryGetModule { 12000 modules cuLibraryGetModule }
    cuLibraryGetKernelCount { 12040 modules cuLibraryGetKernelCount }
    cuLibraryEnumerateKernels { 12040 modules cuLibraryEnumerateKernels }
    cuKernelGetFunction { 12000 kernels cuKernelGetFunction }
    cuKernelGetLibrary { 12050 kernels cuKernelGetLibrary }
    cuLibraryGetGlobal { 12000 modules cuLibraryGetGlobal }
    cuLibraryGetManaged { 12000 modules cuLibraryGetManaged }
    cuKernelGetAttribute { 12000 kernels cuKernelGetAttribute }
    cuKernelSetAttribute { 12000 kernels cuKernelSetAttribute }
    cuKernelSetCacheConfig { 12000 kernels cuKernelSetCacheConfig }
    cuKernelGetName { 12030 kernels cuKernelGetName }
    cuKernelGetParamInfo { 12040 kernels cuKernelGetParamInfo }
    cuKernelGetParamCount { 13020 kernels cuKernelGetParamCount }
    cuLibraryGetUnifiedFunction { 12000 missing cuLibraryGetUnifiedFunction }
    cuCoredumpGetAttribute { 12010 missing cuCoredumpGetAttribute }
    cuCoredumpGetAttributeGlobal { 12010 missing cuCoredumpGetAttributeGlobal }
    cuCoredumpSetAttribute { 12010 missing cuCoredumpSetAttribute }
    cuCoredumpSetAttributeGlobal { 12010 missing cuCoredumpSetAttributeGlobal }
    cuDeviceRegisterAsyncNotification { 12040 missing cuDeviceRegisterAsyncNotification }
    cuDeviceUnregisterAsyncNotification { 12040 missing cuDeviceUnregisterAsyncNotification }
    cuGreenCtxCreate { 12040 missing cuGreenCtxCreate }
    cuGreenCtxDestroy { 12040 missing cuGreenCtxDestroy }
    cuDeviceGetDevResource { 12040 missing cuDeviceGetDevResource }
    cuCtxGetDevResource { 12040 missing cuCtxGetDevResource }
    cuGreenCtxGetDevResource { 12040 missing cuGreenCtxGetDevResource }
    cuStreamGetDevResource { 13010 missing cuStreamGetDevResource, 13010 missing cuStreamGetDevResource_ptsz per_thread }
    cuGreenCtxRecordEvent { 12040 missing cuGreenCtxRecordEvent }
    cuGreenCtxWaitEvent { 12040 missing cuGreenCtxWaitEvent }
    cuDevResourceGenerateDesc { 12040 missing cuDevResourceGenerateDesc }
    cuDevSmResourceSplitByCount { 12040 missing cuDevSmResourceSplitByCount }
    cuDevSmResourceSplit { 13010 missing cuDevSmResourceSplit }
    cuStreamGetGreenCtx { 12040 missing cuStreamGetGreenCtx }
    cuCtxFromGreenCtx { 12040 missing cuCtxFromGreenCtx }
    cuGreenCtxGetId { 12090 missing cuGreenCtxGetId }
    cuCtxRecordEvent { 12050 events cuCtxRecordEvent }
    cuCtxWaitEvent { 12050 events cuCtxWaitEvent }
    cuGreenCtxStreamCreate { 12050 missing cuGreenCtxStreamCreate }
    cuMemBatchDecompressAsync { 12060 missing cuMemBatchDecompressAsync, 12060 missing cuMemBatchDecompressAsync_ptsz per_thread }
    cuLogsRegisterCallback { 12090 missing cuLogsRegisterCallback }
    cuLogsUnregisterCallback { 12090 missing cuLogsUnregisterCallback }
    cuLogsCurrent { 12090 missing cuLogsCurrent }
    cuLogsDumpToFile { 12090 missing cuLogsDumpToFile }
    cuLogsDumpToMemory { 12090 missing cuLogsDumpToMemory }
    cuCoredumpRegisterStartCallback { 13020 missing cuCoredumpRegisterStartCallback }
    cuCoredumpRegisterCompleteCallback { 13020 missing cuCoredumpRegisterCompleteCallback }
    cuCoredumpDeregisterStartCallback { 13020 missing cuCoredumpDeregisterStartCallback }
    cuCoredumpDeregisterCompleteCallback { 13020 missing cuCoredumpDeregisterCompleteCallback }
    cuGraphInstantiate { 10000 capture cuGraphInstantiate, 11000 capture cuGraphInstantiate_v2 }
    cuCheckpointProcessGetRestoreThreadId { 12080 missing cuCheckpointProcessGetRestoreThreadId }
    cuCheckpointProcessGetState { 12080 missing cuCheckpointProcessGetState }
    cuCheckpointProcessLock { 12080 missing cuCheckpointProcessLock }
    cuCheckpointProcessCheckpoint { 12080 missing cuCheckpointProcessCheckpoint }
    cuCheckpointProcessRestore { 12080 missing cuCheckpointProcessRestore }
    cuCheckpointProcessUnlock { 12080 missing cuCheckpointProcessUnlock }
    cuProfilerInitialize { 4000 missing cuProfilerInitialize }
    cuProfilerStart { 4000 start cuProfilerStart }
    cuProfilerStop { 4000 start cuProfilerStop }
}
