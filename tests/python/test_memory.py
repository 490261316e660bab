"""What a lease costs."""

from __future__ import annotations

import subprocess
import sys

MANY_LEASES = """
import ctypes, gc, os
import gpulend

def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

block = (ctypes.c_float * 6)()
address = ctypes.addressof(block)
kept = [None] * 200_000
gpulend.wrap(address, (2, 3), "float32", unowned=True)
gc.collect()
before = resident()
for i in range(len(kept)):
    kept[i] = gpulend.wrap(address, (2, 3), "float32", unowned=True)
each = (resident() - before) / len(kept)
assert len(gpulend.ledger()) == len(kept), len(gpulend.ledger())
print(each)
kept.clear()
assert len(gpulend.ledger()) == 0, len(gpulend.ledger())
"""


def test_a_lease_costs_under_300_bytes():
    """Of 200,000 that live at once, each in the ledger."""
    done = subprocess.run(
        [sys.executable, "-c", MANY_LEASES], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert 0 < float(done.stdout) < 300
