"""The CUDA driver API through ctypes: which library, the signatures, structures, one check.

GPULEND_TEST_DRIVER says which library is tested: `real`, a path, or `simulated` (the default).
"""

from __future__ import annotations

import ctypes
import os
from ctypes import c_char_p, c_float, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_ushort, c_void_p

CHOICE = os.environ.get("GPULEND_TEST_DRIVER") or "simulated"
SIMULATED = CHOICE != "real"


class Location(ctypes.Structure):
    """CUmemLocation."""

    _fields_ = [("type", c_int), ("id", c_int)]


class IpcMemoryHandle(ctypes.Structure):
    """CUipcMemHandle."""

    _fields_ = [("reserved", c_ubyte * 64)]


class IpcEventHandle(ctypes.Structure):
    """CUipcEventHandle."""

    _fields_ = [("reserved", c_ubyte * 64)]


# One letter an argument. Handles and out-pointers are both `p`: ctypes passes integers, byref(),
# arrays and None for it, always 64 bits wide.
_LETTERS = {
    "i": c_int,
    "u": c_uint,
    "b": c_ubyte,
    "h": c_ushort,
    "z": c_size_t,
    "a": c_uint64,  # CUdeviceptr and other 64-bit values
    "p": c_void_p,
    "s": c_char_p,
    "L": Location,  # by value
    "M": IpcMemoryHandle,  # by value
    "E": IpcEventHandle,  # by value
}

_SIGNATURES = """
cuInit u | cuDriverGetVersion p | cuGetErrorName ip | cuGetErrorString ip
cuGetProcAddress spia | cuGetProcAddress_v2 spiap | cuGetExportTable pp

cuDeviceGetCount p | cuDeviceGet pi | cuDeviceGetName pii | cuDeviceGetUuid pi
cuDeviceGetUuid_v2 pi | cuDeviceTotalMem_v2 pi | cuDeviceGetAttribute pii | cuDeviceGetPCIBusId pii
cuDeviceGetByPCIBusId ps | cuDeviceCanAccessPeer pii | cuDeviceComputeCapability ppi
cuDeviceGetProperties pi | cuDeviceGetP2PAttribute piii | cuDeviceGetDefaultMemPool pi
cuDeviceGetMemPool pi | cuDeviceSetMemPool ip

cuDevicePrimaryCtxRetain pi | cuDevicePrimaryCtxRelease_v2 i | cuDevicePrimaryCtxReset_v2 i
cuDevicePrimaryCtxGetState ipp | cuDevicePrimaryCtxSetFlags_v2 iu
cuCtxCreate_v2 pui | cuCtxCreate_v3 ppiui | cuCtxCreate_v4 ppui | cuCtxDestroy_v2 p
cuCtxPushCurrent_v2 p | cuCtxPopCurrent_v2 p | cuCtxSetCurrent p | cuCtxGetCurrent p
cuCtxGetDevice p | cuCtxGetId pp | cuCtxGetApiVersion pp | cuCtxGetFlags p | cuCtxSetFlags u
cuCtxGetLimit pi | cuCtxSetLimit iz | cuCtxGetStreamPriorityRange pp | cuCtxSynchronize -
cuCtxGetCacheConfig p | cuCtxSetCacheConfig i | cuCtxAttach pu | cuCtxDetach p
cuCtxEnablePeerAccess pu | cuCtxDisablePeerAccess p | cuCtxRecordEvent pp | cuCtxWaitEvent pp

cuMemAlloc_v2 pz | cuMemFree_v2 a | cuMemAllocPitch_v2 ppzzu | cuMemGetInfo_v2 pp
cuMemGetAddressRange_v2 ppa | cuMemAllocHost_v2 pz | cuMemHostAlloc pzu | cuMemFreeHost p
cuMemHostGetDevicePointer_v2 ppu | cuMemHostGetFlags pp | cuMemHostRegister_v2 pzu
cuMemHostUnregister p | cuMemAllocManaged pzu | cuMemAdvise_v2 aziL
cuMemPrefetchAsync_v2 azLup | cuPointerGetAttribute pia | cuPointerGetAttributes uppa
cuPointerSetAttribute pia

cuMemcpy aaz | cuMemcpyAsync aazp | cuMemcpyPeer apapz | cuMemcpyPeerAsync apapzp
cuMemcpyHtoD_v2 apz | cuMemcpyDtoH_v2 paz | cuMemcpyDtoD_v2 aaz
cuMemcpyHtoDAsync_v2 apzp | cuMemcpyDtoHAsync_v2 pazp | cuMemcpyDtoDAsync_v2 aazp
cuMemcpy2D_v2 p | cuMemcpy2DUnaligned_v2 p | cuMemcpy2DAsync_v2 pp
cuMemcpy3D_v2 p | cuMemcpy3DAsync_v2 pp
cuMemcpyDtoA_v2 pzaz | cuMemcpyAtoD_v2 apzz | cuMemcpyHtoA_v2 pzpz | cuMemcpyAtoH_v2 ppzz
cuMemcpyAtoA_v2 pzpzz | cuMemcpyHtoAAsync_v2 pzpzp | cuMemcpyAtoHAsync_v2 ppzzp
cuMemcpyBatchAsync_v2 pppzppzp | cuMemPrefetchBatchAsync ppzppzap
cuMemDiscardBatchAsync ppzap | cuMemDiscardAndPrefetchBatchAsync ppzppzap
cuMemRangeGetAttribute pziaz | cuMemRangeGetAttributes pppzaz
cuMemsetD8_v2 abz | cuMemsetD16_v2 ahz | cuMemsetD32_v2 auz
cuMemsetD8Async abzp | cuMemsetD16Async ahzp | cuMemsetD32Async auzp
cuMemsetD2D8_v2 azbzz | cuMemsetD2D16_v2 azhzz | cuMemsetD2D32_v2 azuzz
cuMemsetD2D8Async azbzzp | cuMemsetD2D16Async azhzzp | cuMemsetD2D32Async azuzzp

cuArrayCreate_v2 pp | cuArray3DCreate_v2 pp | cuArrayGetDescriptor_v2 pp | cuArrayDestroy p
cuArray3DGetDescriptor_v2 pp | cuArrayGetPlane ppu | cuMipmappedArrayCreate ppu
cuMipmappedArrayGetLevel ppu | cuMipmappedArrayDestroy p | cuTexObjectCreate pppp
cuTexObjectDestroy a | cuTexObjectGetResourceDesc pa | cuTexObjectGetTextureDesc pa
cuTexObjectGetResourceViewDesc pa | cuSurfObjectCreate pp | cuSurfObjectDestroy a
cuSurfObjectGetResourceDesc pa | cuDeviceGetTexture1DLinearMaxWidth piui

cuStreamCreate pu | cuStreamCreateWithPriority pui | cuStreamDestroy_v2 p | cuStreamQuery p
cuStreamSynchronize p | cuStreamWaitEvent ppu | cuStreamGetPriority pp | cuStreamGetFlags pp
cuStreamGetId pp | cuStreamGetCtx pp | cuStreamGetDevice pp | cuStreamAddCallback pppu
cuLaunchHostFunc ppp | cuStreamAttachMemAsync pazu
cuStreamWriteValue32_v2 pauu | cuStreamWaitValue32_v2 pauu | cuStreamWriteValue64_v2 paau
cuStreamWaitValue64_v2 paau | cuStreamBatchMemOp_v2 pupu

cuEventCreate pu | cuEventDestroy_v2 p | cuEventRecord pp | cuEventRecordWithFlags ppu
cuEventQuery p | cuEventSynchronize p | cuEventElapsedTime ppp | cuEventElapsedTime_v2 ppp

cuMemAllocAsync pzp | cuMemFreeAsync ap | cuMemAllocFromPoolAsync pzpp | cuMemPoolCreate pp
cuMemPoolDestroy p | cuMemPoolGetAttribute pip | cuMemPoolSetAttribute pip | cuMemPoolTrimTo pz
cuMemGetDefaultMemPool ppi | cuMemGetMemPool ppi | cuMemSetMemPool pip
cuMemPoolGetAccess ppp | cuMemPoolSetAccess ppz | cuMemPoolExportToShareableHandle ppia
cuMemPoolImportFromShareableHandle ppia | cuMemPoolExportPointer pa | cuMemPoolImportPointer ppp

cuIpcGetMemHandle pa | cuIpcOpenMemHandle_v2 pMu | cuIpcCloseMemHandle a
cuIpcGetEventHandle pp | cuIpcOpenEventHandle pE

cuMemAddressReserve pzzaa | cuMemAddressFree az | cuMemCreate pzpa | cuMemRelease a
cuMemMap azzaa | cuMemUnmap az | cuMemSetAccess azpz | cuMemGetAccess ppa
cuMemGetAllocationGranularity ppi | cuMemExportToShareableHandle paia
cuMemImportFromShareableHandle ppi | cuMemRetainAllocationHandle pp
cuMemGetAllocationPropertiesFromHandle pa

cuStreamBeginCapture_v2 pi | cuStreamEndCapture pp | cuStreamIsCapturing pp
cuStreamGetCaptureInfo_v2 pppppp | cuStreamGetCaptureInfo_v3 ppppppp
cuThreadExchangeStreamCaptureMode p
cuGraphInstantiateWithFlags ppa | cuGraphLaunch pp | cuGraphExecDestroy p | cuGraphDestroy p
cuGraphGetNodes ppp | cuGraphNodeGetType pp
cuGraphCreate pu | cuGraphClone pp | cuGraphNodeFindInClone ppp | cuGraphGetRootNodes ppp
cuGraphGetEdges_v2 ppppp | cuGraphNodeGetDependencies_v2 pppp | cuGraphNodeGetDependentNodes_v2 pppp
cuGraphAddDependencies_v2 ppppz | cuGraphRemoveDependencies_v2 ppppz | cuGraphDestroyNode p
cuGraphAddKernelNode_v2 pppzp | cuGraphKernelNodeGetParams_v2 pp | cuGraphKernelNodeSetParams_v2 pp
cuGraphKernelNodeGetAttribute pip | cuGraphKernelNodeSetAttribute pip
cuGraphKernelNodeCopyAttributes pp | cuGraphExecKernelNodeSetParams_v2 ppp
cuGraphAddMemcpyNode pppzpp | cuGraphMemcpyNodeGetParams pp | cuGraphMemcpyNodeSetParams pp
cuGraphExecMemcpyNodeSetParams pppp | cuGraphAddMemsetNode pppzpp | cuGraphMemsetNodeGetParams pp
cuGraphMemsetNodeSetParams pp | cuGraphExecMemsetNodeSetParams pppp | cuGraphAddHostNode pppzp
cuGraphHostNodeGetParams pp | cuGraphHostNodeSetParams pp | cuGraphExecHostNodeSetParams ppp
cuGraphAddChildGraphNode pppzp | cuGraphChildGraphNodeGetGraph pp
cuGraphExecChildGraphNodeSetParams ppp | cuGraphAddEmptyNode pppz | cuGraphAddEventRecordNode pppzp
cuGraphAddEventWaitNode pppzp | cuGraphEventRecordNodeGetEvent pp | cuGraphEventWaitNodeGetEvent pp
cuGraphEventRecordNodeSetEvent pp | cuGraphEventWaitNodeSetEvent pp
cuGraphExecEventRecordNodeSetEvent ppp | cuGraphExecEventWaitNodeSetEvent ppp
cuGraphAddNode_v2 ppppzp | cuGraphNodeSetParams pp | cuGraphExecNodeSetParams ppp
cuGraphExecGetFlags pp | cuGraphNodeSetEnabled ppu | cuGraphNodeGetEnabled ppp
cuGraphExecUpdate_v2 ppp | cuGraphDebugDotPrint psu
cuGraphAddMemAllocNode pppzp | cuGraphMemAllocNodeGetParams pp | cuGraphAddMemFreeNode pppza
cuGraphMemFreeNodeGetParams pp | cuGraphConditionalHandleCreate pppuu
cuDeviceGetGraphMemAttribute iip | cuDeviceSetGraphMemAttribute iip | cuDeviceGraphMemTrim i
cuStreamBeginCaptureToGraph ppppzi | cuStreamUpdateCaptureDependencies_v2 pppzu
cuUserObjectCreate pppuu | cuUserObjectRetain pu | cuUserObjectRelease pu
cuGraphRetainUserObject ppuu | cuGraphReleaseUserObject ppu

cuModuleLoadData pp | cuModuleLoadDataEx ppupp | cuModuleUnload p | cuModuleGetFunction pps
cuModuleGetGlobal_v2 ppps | cuModuleGetFunctionCount pp | cuModuleEnumerateFunctions pup
cuModuleLoadFatBinary pp
cuLinkCreate_v2 uppp | cuLinkAddData_v2 pipzsupp | cuLinkAddFile_v2 pisupp
cuLinkComplete ppp | cuLinkDestroy p
cuLibraryLoadData ppppuppu | cuLibraryLoadFromFile psppuppu | cuLibraryUnload p
cuLibraryGetKernel pps | cuLibraryGetModule pp | cuLibraryGetKernelCount pp
cuLibraryEnumerateKernels pup | cuLibraryGetGlobal ppps | cuLibraryGetManaged ppps

cuFuncGetAttribute pip | cuFuncSetAttribute pii | cuFuncSetCacheConfig pi | cuFuncGetName pp
cuFuncGetParamInfo pzpp | cuFuncIsLoaded pp | cuFuncLoad p | cuFuncGetModule pp
cuKernelGetFunction pp | cuKernelGetLibrary pp | cuKernelGetAttribute pipi
cuKernelSetAttribute iipi | cuKernelSetCacheConfig pii | cuKernelGetName pp
cuKernelGetParamInfo pzpp
cuLaunchKernel puuuuuuuppp | cuLaunchKernelEx pppp | cuLaunchCooperativeKernel puuuuuuupp
cuOccupancyMaxActiveBlocksPerMultiprocessor ppiz
cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags ppizu
cuOccupancyMaxPotentialBlockSize ppppzi | cuOccupancyMaxPotentialBlockSizeWithFlags ppppziu
cuOccupancyAvailableDynamicSMemPerBlock ppii
"""


def _signatures() -> dict[str, list[type]]:
    entries = _SIGNATURES.replace("|", "\n").splitlines()
    pairs = (entry.split() for entry in entries if entry.strip())
    return {name: [_LETTERS[letter] for letter in kinds.strip("-")] for name, kinds in pairs}


SIGNATURES = _signatures()


def library_path() -> str:
    """Name the library under test, as `dlopen` takes it."""
    if CHOICE == "real":
        return "libcuda.so.1"
    if CHOICE == "simulated":
        from gpulend import simulator  # not needed, and perhaps not installed, for the real one

        return simulator.library()
    return CHOICE


def load() -> ctypes.CDLL:
    """Load the library under test and give each function of the table its signature."""
    library = ctypes.CDLL(library_path())
    for name, arguments in SIGNATURES.items():
        function = getattr(library, name)
        function.argtypes = arguments
        function.restype = c_int
    return library


cu = load()


class DriverError(Exception):
    """A call of the driver that should have succeeded did not."""

    def __init__(self, code: int) -> None:
        super().__init__(f"{error_name(code)} ({code})")
        self.code = code


def error_name(code: int) -> str:
    """Spell a result code as cuda.h does."""
    text = c_char_p()
    cu.cuGetErrorName(code, ctypes.byref(text))
    return (text.value or b"an unknown code").decode()


def check(code: int) -> None:
    """Raise unless `code` says success."""
    if code != 0:
        raise DriverError(code)


HOST_FUNCTION = ctypes.CFUNCTYPE(None, c_void_p)
STREAM_CALLBACK = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_void_p)


class Copy2D(ctypes.Structure):
    """CUDA_MEMCPY2D."""

    _fields_ = [
        *[("srcXInBytes", c_size_t), ("srcY", c_size_t), ("srcMemoryType", c_int)],
        *[("srcHost", c_void_p), ("srcDevice", c_uint64), ("srcArray", c_void_p)],
        *[("srcPitch", c_size_t), ("dstXInBytes", c_size_t), ("dstY", c_size_t)],
        *[("dstMemoryType", c_int), ("dstHost", c_void_p), ("dstDevice", c_uint64)],
        *[("dstArray", c_void_p), ("dstPitch", c_size_t)],
        *[("WidthInBytes", c_size_t), ("Height", c_size_t)],
    ]


class Copy3D(ctypes.Structure):
    """CUDA_MEMCPY3D."""

    _fields_ = [
        *[("srcXInBytes", c_size_t), ("srcY", c_size_t), ("srcZ", c_size_t), ("srcLOD", c_size_t)],
        *[("srcMemoryType", c_int), ("srcHost", c_void_p), ("srcDevice", c_uint64)],
        *[("srcArray", c_void_p), ("reserved0", c_void_p), ("srcPitch", c_size_t)],
        *[("srcHeight", c_size_t)],
        *[("dstXInBytes", c_size_t), ("dstY", c_size_t), ("dstZ", c_size_t), ("dstLOD", c_size_t)],
        *[("dstMemoryType", c_int), ("dstHost", c_void_p), ("dstDevice", c_uint64)],
        *[("dstArray", c_void_p), ("reserved1", c_void_p), ("dstPitch", c_size_t)],
        *[("dstHeight", c_size_t)],
        *[("WidthInBytes", c_size_t), ("Height", c_size_t), ("Depth", c_size_t)],
    ]


class ArrayDescription(ctypes.Structure):
    """CUDA_ARRAY3D_DESCRIPTOR."""

    _fields_ = [
        *[("width", c_size_t), ("height", c_size_t), ("depth", c_size_t), ("format", c_int)],
        *[("channels", c_uint), ("flags", c_uint)],
    ]


class FlatDescription(ctypes.Structure):
    """CUDA_ARRAY_DESCRIPTOR."""

    _fields_ = [
        *[("width", c_size_t), ("height", c_size_t), ("format", c_int), ("channels", c_uint)],
    ]


class ResourceDescription(ctypes.Structure):
    """CUDA_RESOURCE_DESC, its union as words."""

    _fields_ = [("type", c_int), ("words", c_uint64 * 16), ("flags", c_uint)]


class TextureDescription(ctypes.Structure):
    """CUDA_TEXTURE_DESC."""

    _fields_ = [
        *[("modes", c_int * 3), ("filter", c_int), ("flags", c_uint), ("anisotropy", c_uint)],
        *[("levels", c_int), ("bias", c_float), ("clamps", c_float * 2), ("border", c_float * 4)],
        ("reserved", c_int * 12),
    ]


class ViewDescription(ctypes.Structure):
    """CUDA_RESOURCE_VIEW_DESC."""

    _fields_ = [
        *[("format", c_int), ("sizes", c_size_t * 3), ("levels", c_uint * 2)],
        *[("layers", c_uint * 2), ("reserved", c_uint * 16)],
    ]


class PoolProperties(ctypes.Structure):
    """CUmemPoolProps."""

    _fields_ = [
        *[("allocType", c_int), ("handleTypes", c_int), ("location", Location)],
        *[("win32SecurityAttributes", c_void_p), ("maxSize", c_size_t)],
        *[("usage", c_ushort), ("reserved", c_ubyte * 54)],
    ]


class AccessDescription(ctypes.Structure):
    """CUmemAccessDesc."""

    _fields_ = [("location", Location), ("flags", c_int)]


class AllocationProperties(ctypes.Structure):
    """CUmemAllocationProp."""

    _fields_ = [
        *[("type", c_int), ("requestedHandleTypes", c_int), ("location", Location)],
        *[("win32HandleMetaData", c_void_p), ("compressionType", c_ubyte)],
        *[("gpuDirectRDMACapable", c_ubyte), ("usage", c_ushort), ("reserved", c_ubyte * 4)],
    ]


class PointerExport(ctypes.Structure):
    """CUmemPoolPtrExportData."""

    _fields_ = [("reserved", c_ubyte * 64)]


class NodeParameters(ctypes.Structure):
    """CUgraphNodeParams, its union as words."""

    _fields_ = [
        *[("type", c_int), ("reserved", c_int * 3), ("words", c_uint64 * 29)],
        ("reserved_too", c_uint64),
    ]


class KernelParameters(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS."""

    _fields_ = [
        *[("function", c_void_p), ("grid", c_uint * 3), ("block", c_uint * 3), ("shared", c_uint)],
        *[("parameters", c_void_p), ("extra", c_void_p), ("kernel", c_void_p)],
        ("context", c_void_p),
    ]


class FillParameters(ctypes.Structure):
    """CUDA_MEMSET_NODE_PARAMS."""

    _fields_ = [
        *[("target", c_uint64), ("pitch", c_size_t), ("value", c_uint), ("size", c_uint)],
        *[("width", c_size_t), ("height", c_size_t)],
    ]


class HostParameters(ctypes.Structure):
    """CUDA_HOST_NODE_PARAMS."""

    _fields_ = [("function", c_void_p), ("argument", c_void_p)]


class AllocationParameters(ctypes.Structure):
    """CUDA_MEM_ALLOC_NODE_PARAMS."""

    _fields_ = [
        *[("pool", PoolProperties), ("access", c_void_p), ("count", c_size_t)],
        *[("bytes", c_size_t), ("address", c_uint64)],
    ]


class UpdateResult(ctypes.Structure):
    """CUgraphExecUpdateResultInfo."""

    _fields_ = [("result", c_int), ("node", c_void_p), ("before", c_void_p)]


class InstantiateParameters(ctypes.Structure):
    """CUDA_GRAPH_INSTANTIATE_PARAMS."""

    _fields_ = [
        *[("flags", c_uint64), ("upload", c_void_p), ("node", c_void_p), ("result", c_int)],
    ]


class CopyAttributes(ctypes.Structure):
    """CUmemcpyAttributes."""

    _fields_ = [
        *[("order", c_int), ("source", Location), ("target", Location), ("flags", c_uint)],
    ]


class BatchOperation(ctypes.Structure):
    """CUstreamBatchMemOpParams, as its wait and write members lay it out."""

    _fields_ = [
        *[("operation", c_int), ("address", c_uint64), ("value", c_uint64)],
        *[("flags", c_uint), ("alias", c_uint64), ("padding", c_uint64)],
    ]


class CreateParameters(ctypes.Structure):
    """CUctxCreateParams."""

    _fields_ = [("affinity", c_void_p), ("affinities", c_int), ("graphics", c_void_p)]


assert ctypes.sizeof(Copy2D) == 128
assert ctypes.sizeof(Copy3D) == 200
assert ctypes.sizeof(PoolProperties) == 88
assert ctypes.sizeof(AllocationProperties) == 32
assert ctypes.sizeof(BatchOperation) == 48
assert ctypes.sizeof(NodeParameters) == 256
assert ctypes.sizeof(KernelParameters) == 72
assert ctypes.sizeof(FillParameters) == 40
assert ctypes.sizeof(AllocationParameters) == 120
assert ctypes.sizeof(CopyAttributes) == 24
