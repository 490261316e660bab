"""What `elementwise` and `reduction` generate, compiled by NVRTC, which needs no GPU for that.

The simulated GPU has clang's code. NVRTC knows other names and warns of other things, and each
warning would be the user's.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gpulend
import ml_dtypes
import numpy as np
import pytest
from gpu.resources import need
from gpulend import _generated, _toolkit

MATRIX = np.arange(12, dtype="float32").reshape(3, 4)


def nvrtc_log(source: str, file: str, options: Sequence[str], headers: Mapping[str, str]) -> str:
    """Compile for an H100 or H200 as the core does, and return all that NVRTC says."""
    need("cuda.core")  # which is promised, and needs the bindings
    from cuda.bindings import nvrtc

    texts, names = [[one.encode() for one in part] for part in (headers.values(), headers)]
    status, program = nvrtc.nvrtcCreateProgram(
        source.encode(), file.encode(), len(headers), texts, names
    )
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS
    folders = [f"--include-path={folder}" for folder in _toolkit.folders()[1]]
    words = ["--gpu-architecture=sm_90", "--std=c++17", *folders, *options]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(words), [word.encode() for word in words])
    _, length = nvrtc.nvrtcGetProgramLogSize(program)
    # NVRTC writes into it, and Python keeps one object for all bytes of length 1.
    log = b" " * (length + 1)
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcDestroyProgram(program)
    text = log.decode().strip("\0\n ")
    return text if status == nvrtc.nvrtcResult.NVRTC_SUCCESS else f"{status!r}: {text}"


def elementwise(*definition: str, **more: Any) -> Callable[..., Any]:
    """Make a kernel of one expression."""
    return gpulend.elementwise(*definition, **more)


def reduction(*definition: str | None, **more: Any) -> Callable[..., Any]:
    """Make a kernel of three expressions."""
    return gpulend.reduction(*definition, **more)  # type: ignore[arg-type]


def lease(dtype: Any = "float32") -> gpulend.Lease:
    """Return a matrix on the device."""
    return gpulend.from_host(MATRIX.astype(dtype))


def run_plain() -> None:
    """Dense and strided arrays, rows that are repeated, numbers, inputs that are not used."""
    kernel = elementwise("T x, T y", "T z", "z = x * y + T(1)", "plain")
    kernel(lease(), lease())
    kernel(lease(), 2)
    kernel(2.0, 3.0)
    kernel(lease().T, lease().T[::-1])
    kernel(lease(), lease()[0])
    kernel(lease()[:, ::2], lease()[:, :1])
    kernel(lease(), 2, gpulend.zeros((3, 8))[:, ::2])
    elementwise("T x, T y", "T z", "z = T(7)", "constant")(lease(), 2)


def run_types() -> None:
    """Every element type."""
    kernel = elementwise("T x, T y", "T z", "z = x * y + T(1)", "typed")
    total = reduction("T x", "T y", "x", "a + b", "y = a", "0", "total")
    others = [name for name in _generated.TYPES if name not in ("bool", "bfloat16")]
    for dtype in [*others, ml_dtypes.bfloat16]:
        kernel(lease(dtype), lease(dtype))
        total(lease(dtype))
    elementwise("bool x", "bool y", "y = !x", "negated")(lease(bool))
    elementwise("X x, Y y", "Z z", "z = x - y", "mixed")(
        lease("int32"), lease(), gpulend.zeros((3, 4), "float64")
    )


def run_forms() -> None:
    """Several outputs, raw arrays, the index, the number of elements, code around the loop."""
    elementwise("T x", "T y, T z", "y = x; z = -x", "both")(lease())
    elementwise("T x", "T z", "z = x + i * 100 + n + _ind.size()", "ramp")(lease("int32").T)
    for x in (lease(), lease().T, lease()[::2, ::-3]):
        elementwise("raw T x, int64 at", "T z", "z = x[at % x.size()]", "gather")(x, lease("int64"))
    spread = elementwise("raw T x", "raw T z", "z[i * 2] = x[i] + x.size()", "spread")
    spread(lease(), gpulend.zeros(24), size=12)
    elementwise("raw T x", "raw T z", "z[0] = 3", "unread")(lease(), gpulend.zeros(1), size=1)
    elementwise(
        "T x",
        "T z",
        "if (x < T(3)) continue; z = square(x) + by",
        "around",
        preamble="template <class V> __device__ V square(V x) { return x * x; }",
        loop_prep="const T by = BY",
        after_loop='if (threadIdx.x == 99) printf("%d", (int)n)',
        options=["-DBY=7"],
    )(lease())


def run_reductions() -> None:
    """Axes, strides, outputs that are given, other types, structs, the index, no identity."""
    highest = reduction("T x", "T y", "x", "a > b ? a : b", "y = a", None, "highest")
    for x, axis in itertools.product((lease(), lease().T[::-1]), (None, 0, 1)):
        highest(x, axis=axis)
    highest(lease(), axis=0, keepdims=True, out=gpulend.zeros((1, 8))[:, ::2])
    reduction("T x", "T y, T z", "x", "a + b", "y = a; z = a * a", "0", "moments")(lease())
    reduction("T x, T o, T s", "T z", "x * o * s", "a + b", "z = a", "0", "dot")(
        lease(), lease()[1], 2, axis=1
    )
    weighted = reduction(
        "T x, raw T w", "T y", "x * w[i % w.size()]", "a + b", "y = a", "0", "weighted"
    )
    weighted(lease().T, lease()[0], axis=1)
    reduction("T x", "int32 y", "1", "a + b", "y = a", "0", "count")(lease(), axis=0)
    reduction("T x, float32 n_", "T y", "x", "a", "y = 0", "0", "ignored")(lease(), 2.0)
    reduction(
        "float32 x",
        "int32 y",
        "Best{x, (int)_J}",
        "a.value > b.value ? a : b",
        "y = a.at",
        None,
        "argmax",
        reduce_type="Best",
        preamble="struct Best { float value; int at; };",
    )(lease(), axis=1)
    reduction("T x", "T y", "x", "a + b", "y = a / 12", "0", "mean", reduce_type="double")(lease())


# Functions of CUDA's, keywords, types, variables, and what the preamble calls its own.
NAMES = ["fma", "sin", "atomicAdd", "double", "and", "float4", "threadIdx", "printf", "helper"]


def run_names() -> None:
    """A kernel may have any name, and its expression may call the function of that name."""
    helper = "__device__ float helper(float x) { return x; }"
    for name in NAMES:
        elementwise("T x, T y", "T z", "z = fma(x, y, helper(x))", name, preamble=helper)(
            lease(), 2
        )
        reduction("T x", "T y", "fma(x, x, x)", "a + b", "y = a", "0", name, preamble=helper)(
            lease()
        )


# The width of indices matters to the forms of a kernel, not to its types and names.
@pytest.mark.parametrize(
    ("run", "wide"),
    [
        *itertools.product((run_plain, run_forms, run_reductions), (False, True)),
        (run_types, False),
        (run_names, False),
    ],
)
def test_generated_code_compiles_without_a_word(
    gpu: Any, monkeypatch: pytest.MonkeyPatch, run: Callable[[], None], wide: bool
) -> None:
    """Nor does clang say one: pytest would raise its warnings."""
    if wide:
        monkeypatch.setattr(_generated, "_NARROW", 0)
    found: list[tuple[str, str, Sequence[str], Mapping[str, str]]] = []
    compile = gpulend.kernels.compile

    def seen(source: str, **more: Any) -> gpulend.Module:
        found.append((source, more["file"], more["options"], more["headers"]))
        return compile(source, **more)

    monkeypatch.setattr(gpulend.kernels, "compile", seen)
    run()
    assert found
    assert all(("typedef long long _I;" in one[0]) == wide for one in found)
    for one in found:
        log = nvrtc_log(*one)
        assert not log, f"{log}\n{one[0]}"


def test_nvrtc_says_what_is_doubtful() -> None:
    """So that no word means something."""
    doubtful = "__global__ void f(int *x) { int unused = 1; *x = 0; }"
    assert "unused" in nvrtc_log(doubtful, "doubtful.cu", [], {})
    assert "NVRTC_ERROR" in nvrtc_log("__global__ int f() {}", "wrong.cu", [], {})
