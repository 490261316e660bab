"""torch's part of `gpulend demo`: a tensor on the same memory, and mistakes that only it allows."""

from __future__ import annotations

import ctypes

import gpulend
from gpulend._kernel_demo import Catch

WITHOUT = """
8. torch is not installed. With it the demo also shows a tensor and a NumPy array on the C
   program's memory, read-only memory that torch would write, and a tensor whose sign NumPy loses.
   torch is a download of gigabytes: `pip install torch`, or in a clone `make demo TORCH=1`."""


def show(is_caught: Catch) -> bool:
    """Lend one memory to both, and make two mistakes; return whether all behave as expected."""
    print("\n8. The same with torch, which is here. Importing it …", flush=True)
    import numpy as np
    import torch

    memory = (ctypes.c_float * 6)(1, 2, 3, 4, 5, 6)
    tensor = gpulend.wrap(ctypes.addressof(memory), (2, 3), "float32", owner=memory).lend("torch")
    array = gpulend.lend(tensor, "numpy")
    print(f"   torch has C's memory at {tensor.data_ptr():#x}, NumPy at {array.ctypes.data:#x}")
    tensor[0, 0] = 100
    array[1, 2] = -1
    print("   tensor[0, 0] = 100; array[1, 2] = -1")
    print(f"   C:     {list(memory)}\n   torch: {tensor.tolist()}\n   NumPy: {array.tolist()}")
    worked = bool(list(memory) == [100, 2, 3, 4, 5, -1] == tensor.flatten().tolist())

    frozen = np.ones(3)
    frozen.flags.writeable = False
    negative = torch.tensor([1 + 2j, 3 - 4j]).conj().imag
    wrong = np.from_dlpack(negative).tolist()
    worked &= is_caught(
        "read-only memory to a framework that would write it",
        lambda: gpulend.lend(frozen, "torch"),
        gpulend.ExportError,
    )
    worked &= is_caught(
        f"a tensor that is {negative.tolist()} and that NumPy alone reads as {wrong}",
        lambda: gpulend.lend(negative, "numpy"),
        gpulend.ExportError,
    )
    return worked
