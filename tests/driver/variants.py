"""The symbols that `cuda.py` leaves out: per-thread variants, and old forms of functions.

They exist for programs that were compiled with other options or long ago.
"""

from __future__ import annotations

import ctypes
import re
from ctypes import c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p

from .control import BEHAVING
from .cuda import SIGNATURES, SIMULATED
from .cuda import cu as plain

# Old form: a form with the same arguments.
ALIASES = {
    "cuCtxDestroy": "cuCtxDestroy_v2",
    "cuCtxPopCurrent": "cuCtxPopCurrent_v2",
    "cuCtxPushCurrent": "cuCtxPushCurrent_v2",
    "cuDevicePrimaryCtxRelease": "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxReset": "cuDevicePrimaryCtxReset_v2",
    "cuDevicePrimaryCtxSetFlags": "cuDevicePrimaryCtxSetFlags_v2",
    "cuEventDestroy": "cuEventDestroy_v2",
    "cuIpcOpenMemHandle": "cuIpcOpenMemHandle_v2",
    "cuGraphAddKernelNode": "cuGraphAddKernelNode_v2",
    "cuGraphExecKernelNodeSetParams": "cuGraphExecKernelNodeSetParams_v2",
    "cuGraphKernelNodeGetParams": "cuGraphKernelNodeGetParams_v2",
    "cuGraphKernelNodeSetParams": "cuGraphKernelNodeSetParams_v2",
    "cuLinkAddData": "cuLinkAddData_v2",
    "cuLinkAddFile": "cuLinkAddFile_v2",
    "cuLinkCreate": "cuLinkCreate_v2",
    "cuMemHostRegister": "cuMemHostRegister_v2",
    "cuStreamBatchMemOp": "cuStreamBatchMemOp_v2",
    "cuStreamDestroy": "cuStreamDestroy_v2",
    "cuStreamWaitValue32": "cuStreamWaitValue32_v2",
    "cuStreamWaitValue64": "cuStreamWaitValue64_v2",
    "cuStreamWriteValue32": "cuStreamWriteValue32_v2",
    "cuStreamWriteValue64": "cuStreamWriteValue64_v2",
}

_OTHERS: dict[str, list[type]] = {
    "cuCtxGetDevice_v2": [c_void_p, c_void_p],
    "cuCtxSynchronize_v2": [c_void_p],
    "cuFuncGetParamCount": [c_void_p, c_void_p],
    "cuFuncSetBlockShape": [c_void_p, c_int, c_int, c_int],
    "cuFuncSetSharedSize": [c_void_p, c_uint],
    "cuGraphAddDependencies": [c_void_p, c_void_p, c_void_p, c_size_t],
    "cuGraphAddNode": [c_void_p, c_void_p, c_void_p, c_size_t, c_void_p],
    "cuGraphExecGetId": [c_void_p, c_void_p],
    "cuGraphExecUpdate": [c_void_p, c_void_p, c_void_p, c_void_p],
    "cuGraphGetEdges": [c_void_p, c_void_p, c_void_p, c_void_p],
    "cuGraphGetId": [c_void_p, c_void_p],
    "cuGraphNodeGetContainingGraph": [c_void_p, c_void_p],
    "cuGraphNodeGetDependencies": [c_void_p, c_void_p, c_void_p],
    "cuGraphNodeGetDependentNodes": [c_void_p, c_void_p, c_void_p],
    "cuGraphNodeGetLocalId": [c_void_p, c_void_p],
    "cuGraphNodeGetParams": [c_void_p, c_void_p],
    "cuGraphNodeGetToolsId": [c_void_p, c_void_p],
    "cuGraphRemoveDependencies": [c_void_p, c_void_p, c_void_p, c_size_t],
    "cuGraphInstantiate": [c_void_p, c_void_p, c_void_p, c_void_p, c_size_t],
    "cuGraphInstantiate_v2": [c_void_p, c_void_p, c_void_p, c_void_p, c_size_t],
    "cuGraphInstantiateWithParams": [c_void_p, c_void_p, c_void_p],
    "cuGraphUpload": [c_void_p, c_void_p],
    "cuKernelGetParamCount": [c_void_p, c_void_p],
    "cuLaunch": [c_void_p],
    "cuLaunchGrid": [c_void_p, c_int, c_int],
    "cuLaunchGridAsync": [c_void_p, c_int, c_int, c_void_p],
    "cuLaunchHostFunc_v2": [c_void_p, c_void_p, c_void_p, c_uint],
    "cuMemAdvise": [c_uint64, c_size_t, c_int, c_int],
    "cuMemcpyBatchAsync": [
        *[c_void_p, c_void_p, c_void_p, c_size_t, c_void_p, c_void_p, c_size_t, c_void_p, c_void_p]
    ],
    "cuMemcpyWithAttributesAsync": [c_uint64, c_uint64, c_size_t, c_void_p, c_void_p],
    "cuMemPrefetchAsync": [c_uint64, c_size_t, c_int, c_void_p],
    "cuModuleGetLoadingMode": [c_void_p],
    "cuModuleLoad": [c_void_p, c_char_p],
    "cuParamSetSize": [c_void_p, c_uint],
    "cuParamSetf": [c_void_p, c_int, c_float],
    "cuParamSeti": [c_void_p, c_int, c_uint],
    "cuParamSetv": [c_void_p, c_int, c_void_p, c_uint],
    "cuProfilerStart": [],
    "cuProfilerStop": [],
    "cuStreamBeginCapture": [c_void_p],
    "cuStreamGetCaptureInfo": [c_void_p, c_void_p, c_void_p],
    "cuStreamGetCtx_v2": [c_void_p, c_void_p, c_void_p],
    "cuStreamUpdateCaptureDependencies": [c_void_p, c_void_p, c_size_t, c_uint],
}


class InstantiateParameters(ctypes.Structure):
    """CUDA_GRAPH_INSTANTIATE_PARAMS."""

    _fields_ = [
        *[("flags", c_uint64), ("upload", c_void_p), ("failed", c_void_p)],
        *[("result", c_int)],
    ]


def base(symbol: str) -> str:
    """Return the symbol whose stream 0 is the legacy one."""
    return re.sub("_pt(ds|sz)$", "", symbol)


def signature(symbol: str) -> list[type]:
    """Return the types of a behaving function's arguments."""
    known = base(symbol)
    known = ALIASES.get(known, known)
    return SIGNATURES[known] if known in SIGNATURES else _OTHERS[known]


def _complete() -> ctypes.CDLL:
    """Give every function that behaves its signature."""
    for row in BEHAVING if SIMULATED else []:
        function = getattr(plain, row.symbol)
        function.argtypes = signature(row.symbol)
        function.restype = c_int
    return plain


cu = _complete()
