"""Start: initialisation, version, names of errors, and how functions are found."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_char_p, c_int, c_uint64, c_void_p

import pytest

from .cuda import CreateParameters, PoolProperties, cu
from .differences import answer
from .resources import alone, value

FOUND, NOT_FOUND, TOO_OLD = 0, 1, 2  # CUdriverProcAddressQueryResult
UNTOUCHED = 99


def _codes_before_init() -> dict[str, int]:
    out = (c_uint64 * 32)()
    more = byref(out, 128)
    calls = {
        "cuDriverGetVersion": (out,),
        "cuGetErrorName": (0, out),
        "cuGetProcAddress_v2": (b"cuInit", out, 12000, 0, None),
        "cuDeviceGetCount": (out,),
        "cuDeviceGet": (out, 0),
        "cuDeviceGetName": (out, 10, 0),
        "cuDeviceGetAttribute": (out, 1, 0),
        "cuDeviceTotalMem_v2": (out, 0),
        "cuDeviceGetUuid_v2": (out, 0),
        "cuDeviceGetByPCIBusId": (out, b"0000:00:00.0"),
        "cuDeviceCanAccessPeer": (out, 0, 0),
        "cuDeviceComputeCapability": (out, more, 0),
        "cuDeviceGetDefaultMemPool": (out, 0),
        "cuDevicePrimaryCtxRetain": (out, 0),
        "cuDevicePrimaryCtxGetState": (0, out, more),
        "cuDevicePrimaryCtxRelease_v2": (0,),
        "cuCtxCreate_v2": (out, 0, 0),
        "cuCtxCreate_v4": (out, byref(CreateParameters()), 0, 0),
        "cuCtxGetCurrent": (out,),
        "cuCtxSetCurrent": (None,),
        "cuCtxPopCurrent_v2": (out,),
        "cuCtxGetDevice": (out,),
        "cuCtxSynchronize": (),
        "cuCtxGetLimit": (out, 0),
        "cuCtxGetFlags": (out,),
        "cuMemAlloc_v2": (out, 16),
        "cuMemFree_v2": (0,),
        "cuMemGetInfo_v2": (out, more),
        "cuMemGetAddressRange_v2": (out, more, 0),
        "cuMemAllocHost_v2": (out, 16),
        "cuMemFreeHost": (None,),
        "cuMemHostRegister_v2": (out, 16, 0),
        "cuMemcpy": (0, 0, 0),
        "cuMemcpyHtoD_v2": (0, None, 0),
        "cuMemsetD8_v2": (0, 0, 0),
        "cuPointerGetAttribute": (out, 2, 0),
        "cuStreamCreate": (out, 0),
        "cuStreamQuery": (None,),
        "cuStreamSynchronize": (None,),
        "cuStreamIsCapturing": (None, out),
        "cuEventCreate": (out, 0),
        "cuThreadExchangeStreamCaptureMode": (out,),
        "cuModuleLoadData": (out, b"\0"),
        "cuMemAllocAsync": (out, 16, None),
        "cuMemPoolCreate": (out, byref(PoolProperties())),
        "cuGraphLaunch": (None, None),
    }
    return {name: getattr(cu, name)(*arguments) for name, arguments in calls.items()}


def test_before_init_nearly_every_call_answers_not_initialized() -> None:
    """Only what needs no device works: version, names of errors, look-up of functions."""
    codes = alone(_codes_before_init)
    works = {"cuDriverGetVersion", "cuGetErrorName", "cuGetProcAddress_v2"}
    assert codes == {name: 0 if name in works else 3 for name in codes}


def _init_codes() -> list[int]:
    return [cu.cuInit(flags) for flags in (1, 0, 0, 5)]


def test_init_takes_no_flags_and_may_be_repeated() -> None:
    """Flags must be zero, also when the driver is already initialised."""
    assert alone(_init_codes) == [1, 0, 0, 1]


def test_the_version_is_at_least_12000() -> None:
    """1000 * major + 10 * minor, and NULL is refused."""
    version = value(c_int, cu.cuDriverGetVersion)
    assert version >= 12000
    assert version % 10 == 0
    assert cu.cuDriverGetVersion(None) == 1


@pytest.mark.parametrize(
    ("code", "name", "text"),
    [
        (0, b"CUDA_SUCCESS", b"no error"),
        (1, b"CUDA_ERROR_INVALID_VALUE", b"invalid argument"),
        (2, b"CUDA_ERROR_OUT_OF_MEMORY", b"out of memory"),
        (3, b"CUDA_ERROR_NOT_INITIALIZED", b"initialization error"),
        (101, b"CUDA_ERROR_INVALID_DEVICE", b"invalid device ordinal"),
        (201, b"CUDA_ERROR_INVALID_CONTEXT", b"invalid device context"),
        (400, b"CUDA_ERROR_INVALID_HANDLE", b"invalid resource handle"),
        (500, b"CUDA_ERROR_NOT_FOUND", b"named symbol not found"),
        (600, b"CUDA_ERROR_NOT_READY", b"device not ready"),
        (712, b"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", None),
        (801, b"CUDA_ERROR_NOT_SUPPORTED", b"operation not supported"),
        (900, b"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", None),
        (901, b"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", None),
        (999, b"CUDA_ERROR_UNKNOWN", b"unknown error"),
    ],
)
def test_errors_have_names_and_texts(code: int, name: bytes, text: bytes | None) -> None:
    """Names as cuda.h spells them; texts that clients have come to expect."""
    found = c_char_p()
    assert cu.cuGetErrorName(code, byref(found)) == 0
    assert found.value == name
    assert cu.cuGetErrorString(code, byref(found)) == 0
    assert found.value
    assert text is None or found.value == text


@pytest.mark.parametrize("code", [-1, 9, 99, 12345])
def test_an_unknown_code_has_neither_name_nor_text(code: int) -> None:
    """The answer is INVALID_VALUE and a NULL text."""
    for function in (cu.cuGetErrorName, cu.cuGetErrorString):
        found = c_void_p(UNTOUCHED)
        assert function(code, byref(found)) == 1
        assert found.value is None


def _look_up(name: bytes, version: int, flags: int = 0) -> tuple[int, int | None, int]:
    """Return code, address and status; both outs hold UNTOUCHED before the call."""
    function, found = c_void_p(UNTOUCHED), c_int(UNTOUCHED)
    code = cu.cuGetProcAddress_v2(name, byref(function), version, flags, byref(found))
    return code, function.value, found.value


def _address(symbol: str) -> int | None:
    return ctypes.cast(getattr(cu, symbol), c_void_p).value


@pytest.mark.parametrize(
    ("name", "version", "flags", "symbol"),
    [
        ("cuInit", 2000, 0, "cuInit"),
        ("cuInit", 12000, 0, "cuInit"),
        ("cuMemAlloc", 3010, 0, "cuMemAlloc"),
        ("cuMemAlloc", 3020, 0, "cuMemAlloc_v2"),
        ("cuMemAlloc", 12000, 1, "cuMemAlloc_v2"),
        ("cuMemcpyHtoD", 12000, 0, "cuMemcpyHtoD_v2"),
        ("cuMemcpyHtoD", 12000, 1, "cuMemcpyHtoD_v2"),
        ("cuMemcpyHtoD", 12000, 2, "cuMemcpyHtoD_v2_ptds"),
        ("cuStreamQuery", 12000, 0, "cuStreamQuery"),
        ("cuStreamQuery", 12000, 2, "cuStreamQuery_ptsz"),
        ("cuMemAllocAsync", 11020, 0, "cuMemAllocAsync"),
        ("cuMemAllocAsync", 11020, 2, "cuMemAllocAsync_ptsz"),
        ("cuMemAlloc", 12000, 2, "cuMemAlloc_v2"),
        ("cuCtxCreate", 3020, 0, "cuCtxCreate_v2"),
        ("cuCtxCreate", 11040, 0, "cuCtxCreate_v3"),
        ("cuCtxCreate", 12050, 0, "cuCtxCreate_v4"),
        ("cuDeviceGetUuid", 11030, 0, "cuDeviceGetUuid"),
        ("cuDeviceGetUuid", 11040, 0, "cuDeviceGetUuid_v2"),
        ("cuStreamBeginCapture", 10010, 0, "cuStreamBeginCapture_v2"),
        ("cuStreamGetCaptureInfo", 11030, 0, "cuStreamGetCaptureInfo_v2"),
        ("cuStreamGetCaptureInfo", 12030, 0, "cuStreamGetCaptureInfo_v3"),
        ("cuEventElapsedTime", 12070, 0, "cuEventElapsedTime"),
        ("cuEventElapsedTime", 12080, 0, "cuEventElapsedTime_v2"),
        ("cuStreamWriteValue32", 11070, 0, "cuStreamWriteValue32_v2"),
        ("cuGetProcAddress", 11030, 0, "cuGetProcAddress"),
        ("cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2"),
        ("cuCtxGetDevice", 12080, 0, "cuCtxGetDevice"),
        ("cuStreamGetCtx", 12040, 0, "cuStreamGetCtx"),
        ("cuStreamGetCtx", 12050, 0, "cuStreamGetCtx_v2"),
        ("cuDevicePrimaryCtxRelease", 11000, 0, "cuDevicePrimaryCtxRelease_v2"),
    ],
)
def test_a_base_name_gives_the_newest_symbol_up_to_a_version(
    name: str, version: int, flags: int, symbol: str
) -> None:
    """The same address as `dlsym` of the versioned, stream-flavoured symbol."""
    assert _look_up(name.encode(), version, flags) == (0, _address(symbol), FOUND)


@pytest.mark.parametrize("name", ["cuCtxGetDevice", "cuCtxSynchronize"])
def test_from_cuda_13_on_a_base_name_may_mean_a_function_with_more_arguments(name: str) -> None:
    """cuda.h goes on calling the old one by that name: ask for the version you were built for."""
    if value(c_int, cu.cuDriverGetVersion) < 13000:
        pytest.skip("a driver of CUDA 12")
    assert _look_up(name.encode(), 13000) == (0, _address(name + "_v2"), FOUND)


@pytest.mark.parametrize("name", [b"cuNope", b"", b"cudaMalloc", b"cuMemAlloc_v2"])
def test_an_unknown_name_is_no_error_but_a_status(name: bytes) -> None:
    """Success, NULL and SYMBOL_NOT_FOUND; names with a version suffix are unknown too."""
    assert _look_up(name, 12000) == (0, None, NOT_FOUND)
    function = c_void_p(UNTOUCHED)
    assert cu.cuGetProcAddress_v2(name, byref(function), 12000, 0, None) == 0
    assert function.value is None


@pytest.mark.parametrize(
    ("name", "version", "flags"),
    [(b"cuMemAllocAsync", 11010, 0), (b"cuInit", 1999, 0), (b"cuMemcpyHtoD", 6050, 2)],
)
def test_a_version_older_than_the_function_is_a_status(
    name: bytes, version: int, flags: int
) -> None:
    """Success, NULL and VERSION_NOT_SUFFICIENT."""
    assert _look_up(name, version, flags) == (0, None, TOO_OLD)


def test_flags_and_versions_that_do_not_exist_are_refused() -> None:
    """A flag beyond the two, or a version above the driver's own, writes nothing."""
    version = value(c_int, cu.cuDriverGetVersion)
    assert _look_up(b"cuInit", 12000, 4) == (1, UNTOUCHED, UNTOUCHED)
    assert _look_up(b"cuInit", version + 10) == (1, UNTOUCHED, UNTOUCHED)
    assert _look_up(b"cuInit", version) == (0, _address("cuInit"), FOUND)


def test_the_first_form_of_the_look_up_answers_not_found() -> None:
    """`cuGetProcAddress` of CUDA 11 has no status: NOT_FOUND, and the out stays as it was."""
    for name, version in ((b"cuNope", 12000), (b"cuMemAllocAsync", 10000)):
        function = c_void_p(UNTOUCHED)
        assert cu.cuGetProcAddress(name, byref(function), version, 0) == 500
        assert function.value == UNTOUCHED
    assert cu.cuGetProcAddress(b"cuInit", byref(function), 12000, 0) == 0
    assert function.value == _address("cuInit")


def test_an_unknown_export_table_is_refused(context: int) -> None:
    """Private tables are no part of the public API."""
    table = c_void_p(UNTOUCHED)
    code = cu.cuGetExportTable(byref(table), bytes(range(16)))
    assert code == answer("an unknown export table")
    assert table.value is None
