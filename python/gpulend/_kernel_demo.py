"""The last part of `gpulend demo`: a kernel of CUDA C on the simulated GPU, right and wrong."""

from __future__ import annotations

import ctypes
import textwrap
from ctypes import addressof, byref, c_float, c_int, c_uint, c_uint64, c_void_p

import gpulend
from gpulend import compiler, simulator

SOURCE = """\
extern "C" __global__ void scale(float *x, float by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= by;
}
"""
MISTAKE = ("i < n", "i <= n")
ILLEGAL_ADDRESS = 700


def show() -> bool:
    """Run the kernel and the mistake; return whether all went as it should."""
    print("\n6. A kernel of CUDA C, without a GPU and without CUDA.\n")
    print(textwrap.indent(SOURCE, "   "))
    try:
        gpulend.simulate(check="memory")
        wrong = SOURCE.replace(*MISTAKE)
        texts = [compiler.to_ptx(source, file="scale.cu") for source in (SOURCE, wrong)]
    except (gpulend.NoDeviceError, gpulend.CompileError) as error:
        print(textwrap.fill(f"Left out: {error}", 96, initial_indent="   ",
                            subsequent_indent="   "))  # fmt: skip
        return True
    with _Context() as context:
        code, numbers = context.scale(texts[0])
        print(f"   scale<<<2, 4>>>(x, 10, 6) makes of 0 to 5: {numbers}")
        worked = (code, numbers) == (0, [0, 10, 20, 30, 40, 50])
        print(f"\n7. The same with `{MISTAKE[1]}`, one thread too many:\n", flush=True)
        code, _ = context.scale(texts[1])  # the simulated GPU says on stderr what it found
        print(f"\n   The driver answers {code}, CUDA_ERROR_ILLEGAL_ADDRESS, and works on.")
    return worked and code == ILLEGAL_ADDRESS


class _Context:
    """The primary context of the simulated GPU, by the driver's own functions."""

    def __enter__(self) -> _Context:
        self.driver = ctypes.CDLL(simulator.library())
        self.driver.cuLaunchKernel.argtypes = [c_void_p, *[c_uint] * 7, *[c_void_p] * 3]
        context = c_void_p()
        self.driver.cuDevicePrimaryCtxRetain(byref(context), 0)
        self.driver.cuCtxPushCurrent_v2(context)
        return self

    def __exit__(self, *_: object) -> None:
        self.driver.cuCtxPopCurrent_v2(byref(c_void_p()))
        self.driver.cuDevicePrimaryCtxRelease_v2(0)

    def scale(self, ptx: str) -> tuple[int, list[float]]:
        """Scale 0 to 5 by ten; return what the driver answers, and the numbers."""
        module, function = c_void_p(), c_void_p()
        self.driver.cuModuleLoadData(byref(module), ptx.encode())
        self.driver.cuModuleGetFunction(byref(function), module, b"scale")
        lease = gpulend.from_host((c_float * 6)(*range(6)))
        self.driver.cuCtxSynchronize()
        x, by, n = c_uint64(lease.address), c_float(10), c_int(6)
        places = (c_void_p * 3)(addressof(x), addressof(by), addressof(n))
        self.driver.cuLaunchKernel(function, 2, 1, 1, 4, 1, 1, 0, None, places, None)
        code: int = self.driver.cuCtxSynchronize()
        return code, lease.to_host().tolist()
