"""`gpulend demo`: a raw address to NumPy and back, four mistakes, a kernel; torch if it is here."""

from __future__ import annotations

import ctypes
import sys
import textwrap
from collections.abc import Callable
from importlib.util import find_spec

import gpulend
from gpulend import _kernel_demo, _torch_demo


def demo() -> int:
    """Run the main job, four mistakes and a kernel; return 0 if all behave as expected."""
    try:
        import numpy as np
    except ImportError as error:
        print(f"the demo needs NumPy: {error}; `pip install numpy`", file=sys.stderr)
        return 1

    print("1. A C program left six floats in memory. All we have is their address.")
    memory = (ctypes.c_float * 6)(1, 2, 3, 4, 5, 6)
    address = ctypes.addressof(memory)
    print(f"   address = {address:#x}")

    print("\n2. Wrap it, say who keeps it alive, and lend it to NumPy.")
    lease = gpulend.wrap(address, (2, 3), "float32", owner=memory)
    array = lease.lend("numpy")
    print(f"   {lease}\n   NumPy has it at {array.ctypes.data:#x}")

    print("\n3. Write in one, see it in the other.")
    memory[0] = 100
    array[1, 2] = -1
    print("   memory[0] = 100; array[1, 2] = -1")
    print(f"   C:     {list(memory)}\n   NumPy: {array.tolist()}")
    worked = list(memory) == [100, 2, 3, 4, 5, -1] == array.flatten().tolist()

    print("\n4. Four mistakes, each caught before it can do harm.")
    masked = np.ma.masked_array([1.0, 2.0], mask=[False, True])
    mistakes: list[tuple[str, Callable[[], object], type[gpulend.Error]]] = [
        (
            "an address of nothing",
            lambda: gpulend.wrap(0x1234567890123456, (2, 3), "float32", unowned=True),
            gpulend.AddressError,
        ),
        (
            "an address that nobody keeps alive",
            lambda: gpulend.wrap(address, (2, 3), "float32"),
            gpulend.ProtocolError,
        ),
        (
            "an array whose mask a pointer would lose",
            lambda: gpulend.borrow(masked),
            gpulend.ExportError,
        ),
        ("a release while NumPy still holds the memory", lease.release, gpulend.StillLentError),
    ]
    for title, make, expected in mistakes:
        worked &= is_caught(title, make, expected)

    del array
    lease.release()
    print("\n5. Once NumPy has freed its array, the lease ends:", lease)
    worked &= _kernel_demo.show(is_caught)
    if find_spec("torch") is None:
        print(_torch_demo.WITHOUT)
    else:
        worked &= _torch_demo.show(is_caught)
    print("\nThat is all. `gpulend doctor` shows which pairs exchange, and how fast.")
    return 0 if worked else 1


def is_caught(title: str, make: Callable[[], object], expected: type[gpulend.Error]) -> bool:
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
