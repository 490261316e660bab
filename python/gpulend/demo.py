"""`gpulend demo`: a raw address through torch to NumPy and back, four mistakes, then a kernel."""

from __future__ import annotations

import ctypes
import sys
import textwrap
from collections.abc import Callable

import gpulend
from gpulend import _kernel_demo


def demo() -> int:
    """Run the main job, four mistakes and a kernel; return 0 if all behave as expected."""
    print("importing numpy and torch …", flush=True)
    try:
        import numpy as np
        import torch
    except ImportError as error:
        print(f"the demo needs both: {error}; `pip install numpy torch`", file=sys.stderr)
        return 1

    print("\n1. A C program left six floats in memory. All we have is their address.")
    memory = (ctypes.c_float * 6)(1, 2, 3, 4, 5, 6)
    address = ctypes.addressof(memory)
    print(f"   address = {address:#x}")

    print("\n2. Wrap it, say who keeps it alive, and lend it to torch; lend that to NumPy.")
    lease = gpulend.wrap(address, (2, 3), "float32", owner=memory)
    tensor = lease.lend("torch")
    array = gpulend.lend(tensor, "numpy")
    print(f"   {lease}")
    print(f"   torch has it at {tensor.data_ptr():#x}, NumPy at {array.ctypes.data:#x}")

    print("\n3. Write in one, see it in the others.")
    tensor[0, 0] = 100
    array[1, 2] = -1
    print("   tensor[0, 0] = 100; array[1, 2] = -1")
    print(f"   C:     {list(memory)}\n   torch: {tensor.tolist()}\n   NumPy: {array.tolist()}")
    worked = list(memory) == [100, 2, 3, 4, 5, -1] == tensor.flatten().tolist()

    print("\n4. Four mistakes, each caught before it can do harm.")
    frozen = np.ones(3)
    frozen.flags.writeable = False
    negative = torch.tensor([1 + 2j, 3 - 4j]).conj().imag
    wrong = np.from_dlpack(negative).tolist()

    def from_nowhere() -> object:
        return gpulend.wrap(0x1234567890123456, (2, 3), "float32", unowned=True)

    def freeze_lost() -> object:
        return gpulend.lend(frozen, "torch")

    def sign_lost() -> object:
        return gpulend.lend(negative, "numpy")

    mistakes: list[tuple[str, Callable[[], object], type[gpulend.Error]]] = [
        ("an address of nothing", from_nowhere, gpulend.AddressError),
        ("read-only memory to a framework that would write it", freeze_lost, gpulend.ExportError),
        (
            f"a tensor that is {negative.tolist()} and that NumPy alone reads as {wrong}",
            sign_lost,
            gpulend.ExportError,
        ),
        ("a release while torch still holds the memory", lease.release, gpulend.StillLentError),
    ]
    for title, make, expected in mistakes:
        worked &= _is_caught(title, make, expected)

    del tensor, array
    lease.release()
    print("\n5. Once torch and NumPy have freed their arrays, the lease ends:", lease)
    worked &= _kernel_demo.show(_is_caught)
    print("\nThat is all. `gpulend doctor` shows which pairs exchange, and how fast.")
    return 0 if worked else 1


def _is_caught(title: str, make: Callable[[], object], expected: type[gpulend.Error]) -> bool:
    """Show the error that a mistake raises; return whether it raises it."""
    try:
        make()
    except expected as error:
        print(f"\n   {title}:")
        print(textwrap.fill(f"{expected.__name__}: {error}", 96, initial_indent="   ! ",
                            subsequent_indent="     "))  # fmt: skip
        return True
    print(f"\n   {title}: NOT CAUGHT")
    return False
