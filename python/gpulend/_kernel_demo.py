"""The GPU's part of `gpulend demo`: a kernel of CUDA C on the simulated GPU, right and wrong."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import gpulend

SOURCE = """\
extern "C" __global__ void scale(float *x, float by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= by;
}
"""
MISTAKE = ("i < n", "i <= n")
Catch = Callable[[str, Callable[[], object], type[gpulend.Error]], bool]


def show(is_caught: Catch) -> bool:
    """Launch the kernel, a wrong call and a wrong kernel; return whether all behave as expected.

    `is_caught` shows the error that a call raises, and returns whether it did.
    """
    import numpy as np

    print("\n6. A kernel of CUDA C on an array from NumPy, without a GPU and without CUDA.\n")
    print(textwrap.indent(SOURCE, "   "))
    try:
        gpulend.simulate(check="memory")
        sources = (SOURCE, SOURCE.replace(*MISTAKE))
        scale, wrong = (gpulend.compile(text, file="scale.cu")["scale"] for text in sources)
    except (gpulend.NoDeviceError, gpulend.CompileError) as error:
        print(textwrap.fill(f"Left out: {error}", 96, initial_indent="   ",
                            subsequent_indent="   "))  # fmt: skip
        return True
    x = gpulend.from_host(np.arange(6, dtype="float32"))
    doubles = gpulend.from_host(np.ones(6))
    print(f"   x = gpulend.from_host(…)  # {x}, simulated")
    scale[2, 4](x, 10, 6)
    print(f"   scale[2, 4](x, 10, 6) makes of 0 to 5: {x.to_host().tolist()}")
    worked = x.to_host().tolist() == [0, 10, 20, 30, 40, 50]

    print("\n7. A call that does not suit the kernel, and a kernel that goes one too far.")
    worked &= is_caught(
        "scale[2, 4](doubles, 10, 6)",
        lambda: scale[2, 4](doubles, 10, 6),
        gpulend.SignatureError,
    )

    def one_too_far() -> None:
        wrong[2, 4](x, 1, 6)
        gpulend.synchronize()  # a launch does not wait; its mistakes are known once it has run

    # The simulated GPU prints the same on stderr, for programs that ignore errors.
    worked &= is_caught(f"the same with `{MISTAKE[1]}`", one_too_far, gpulend.KernelError)
    scale[2, 4](x, 0.5, 6)
    print(f"\n   The next launch works: {x.to_host().tolist()}")
    return worked and bool(x.to_host().tolist() == [0, 5, 10, 15, 20, 25])
