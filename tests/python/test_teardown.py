"""The end: of a process, of a fork, of a hundred thousand hand-overs."""

from __future__ import annotations

import gc
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import gpulend
import numpy as np
import pytest
from capsules import settle
from conftest import need

need("torch")

PRELUDE = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import ctypes, os
import gpulend, numpy as np
from capsules import Immortal, Versioned, consume, release, release_in_a_bare_thread

libc = ctypes.CDLL(None)
def at_process_end(pointer, struct=Versioned):
    "Have C release a tensor after the interpreter is gone."
    deleter = struct.from_address(pointer).deleter
    assert libc.__cxa_atexit(ctypes.c_void_p(deleter), ctypes.c_void_p(pointer), None) == 0
"""

# What is alive at exit, and how many releases must be seen.
ENDINGS = {
    "a lease": ("lease = gpulend.borrow(Immortal().capsule())", 1),
    "a lease in a cycle": ("ring = [gpulend.borrow(Immortal().capsule())]; ring.append(ring)", 1),
    "an array": ("array = gpulend.lend(Immortal().capsule(), 'numpy')", 1),
    "a tensor": ("tensor = gpulend.lend(Immortal().capsule(), 'torch')", 1),
    "a slice and a buffer": (
        "lease = gpulend.borrow(Immortal().capsule()); row = lease[1:]; view = memoryview(lease)",
        1,
    ),
    "an unconsumed capsule": ("c = gpulend.borrow(Immortal().capsule()).__dlpack__()", 1),
    "a python deleter": (
        "block = (ctypes.c_float * 3)()\n"
        "def deleter(address, nbytes, write=os.write): write(1, b'x')\n"
        "lease = gpulend.wrap(ctypes.addressof(block), 3, 'float32', deleter=deleter)",
        1,
    ),
    "work for the reaper": (
        "block = (ctypes.c_float * 3)()\n"
        "def deleter(address, nbytes, write=os.write): write(1, b'x')\n"
        "for _ in range(100):\n"
        "    lease = gpulend.wrap(ctypes.addressof(block), 3, 'float32', deleter=deleter)\n"
        "    exported = lease.__dlpack__(max_version=(1, 3))\n"
        "    del lease\n"
        "    release_in_a_bare_thread(exported)",
        100,
    ),
    "a consumer that outlives the interpreter": (
        "a = np.ones(3)\n"
        "pointer, struct = consume(gpulend.borrow(a).__dlpack__(max_version=(1, 3)))\n"
        "at_process_end(pointer)\n"
        "del a",
        0,
    ),
    "a Python deleter that comes too late": (
        "block = (ctypes.c_float * 3)()\n"
        "def deleter(address, nbytes, write=os.write): write(1, b'x')\n"
        "lease = gpulend.wrap(ctypes.addressof(block), 3, 'float32', deleter=deleter)\n"
        "pointer, struct = consume(lease.__dlpack__(max_version=(1, 3)))\n"
        "at_process_end(pointer)",
        0,
    ),
    "a thread that still borrows": (
        # The first call imports modules, and Python may end a thread inside: see docs/limits.md.
        "import threading\n"
        "gpulend.borrow(np.ones(3))\n"
        "def work(a=np.ones(3)):\n"
        "    while True: gpulend.borrow(a)[1:].T\n"
        "threading.Thread(target=work, daemon=True).start()",
        0,
    ),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_process_ends_quietly_and_releases_once(ending):
    """Law 9: exit with live leases prints nothing, exits 0, and releases what it still can."""
    body, releases = ENDINGS[ending]
    done = subprocess.run(
        [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", PRELUDE + body],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "x" * releases


def test_a_forked_child_releases_what_it_inherited():
    """Law 9: after fork host owners release as ever, in the child and in the parent."""
    body = """
lease = gpulend.borrow(Immortal().capsule())
tensor = lease.lend("torch")
child = os.fork()
if child == 0:
    assert gpulend.lend(np.arange(3.0), "torch").tolist() == [0.0, 1.0, 2.0]
    del tensor
    lease.release()
    assert len(gpulend.ledger()) == 0
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert len(gpulend.ledger()) == 2
del tensor
lease.release()
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", PRELUDE + body],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "xx"  # once in each process


def test_a_forked_child_has_a_reaper_of_its_own():
    """Law 9: a deleter without the GIL works in a child whose parent had used the reaper."""
    body = """
import threading
def hand_over(event):
    block = (ctypes.c_float * 3)()
    lease = gpulend.wrap(ctypes.addressof(block), 3, "float32", deleter=lambda *_: event.set())
    exported = lease.__dlpack__(max_version=(1, 3))
    del lease
    release_in_a_bare_thread(exported)
    assert event.wait(60)
hand_over(threading.Event())
child = os.fork()
hand_over(threading.Event())
if child:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", PRELUDE + body],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "")


def _in_child(queue):
    array = gpulend.lend(np.arange(4.0), "torch")
    queue.put(array.tolist())


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_multiprocessing_by_fork_works():
    """A child of multiprocessing lends like its parent, and ends well."""
    kept = gpulend.borrow(np.zeros(3))
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_in_child, args=(queue,))
    child.start()
    child.join(120)
    assert child.exitcode == 0
    assert queue.get() == [0.0, 1.0, 2.0, 3.0]
    assert kept.shape == (3,)


def _resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("target", ["numpy", "torch"])
def test_a_hundred_thousand_hand_overs_leave_memory_as_it_was(target):
    """Nothing is lost on the way: the process does not grow, the ledger does not fill."""
    array = np.zeros((2, 3), "float32")
    for _ in range(2_000):
        gpulend.lend(array, target)
    settle()
    held, leaked, before = len(gpulend.ledger()), gpulend.ledger().leaked, _resident()
    references = sys.getrefcount(array)
    for _ in range(100_000):
        gpulend.lend(array, target)
    settle()
    assert len(gpulend.ledger()) == held
    assert gpulend.ledger().leaked == leaked
    assert sys.getrefcount(array) == references
    assert _resident() - before < 2 << 20  # 100,000 lost leases of 100 bytes would be 10 MB


def test_a_hundred_thousand_refusals_leave_memory_as_it_was():
    """A refused call costs nothing that stays."""
    readonly = np.zeros(3)
    readonly.flags.writeable = False
    lease = gpulend.borrow(readonly)

    def refuse():
        with pytest.raises(gpulend.ExportError):
            lease.lend("torch")

    for _ in range(1_000):
        refuse()
    gc.collect()
    before = _resident()
    for _ in range(20_000):
        refuse()
    gc.collect()
    assert _resident() - before < 2 << 20
    assert len([entry for entry in gpulend.ledger() if entry.kind == "export"]) == 0
