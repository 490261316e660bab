"""PyCUDA's scans: several kernels each, with barriers and shared memory."""

import warnings

import numpy as np
import pycuda.autoprimaryctx
from pycuda import gpuarray
from pycuda.scan import ExclusiveScanKernel, InclusiveScanKernel

warnings.simplefilter("error")
random = np.random.default_rng(3)
assert pycuda.autoprimaryctx.context is not None
for size in (1, 17, 1000, 20000):
    given = random.integers(0, 9, size).astype(np.int32)
    for kernel, wanted in (
        (InclusiveScanKernel(np.int32, "a+b"), np.cumsum(given)),
        (ExclusiveScanKernel(np.int32, "a+b", 0), np.cumsum(given) - given),
    ):
        on_device = gpuarray.to_gpu(given)
        kernel(on_device)
        assert np.array_equal(on_device.get(), wanted), size
print("PyCUDA's scans did it")
