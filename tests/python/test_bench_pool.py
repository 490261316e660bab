"""Traces of allocations: what is recorded of torch's history, and how it is read again."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

BENCHES = Path(__file__).parents[2] / "benches"
# A process of its own: the bench sets how the pool is used.
PROGRAM = """
import json, pathlib, sys
sys.path.insert(0, sys.argv[1])
import pool, training_trace

def entry(action, address, size=0, stream=0):
    return {"action": action, "addr": address, "size": size, "stream": stream}

def freed(address):
    return [entry("free_requested", address), entry("free_completed", address)]

history = [
    entry("segment_alloc", 10, 5000),
    *freed(99),
    entry("alloc", 10, 100, 40),
    entry("alloc", 20, 200, 70),
    *freed(10),
    entry("alloc", 10, 300, 40),
    *freed(20),
]
file = pathlib.Path(sys.argv[2])
file.write_text(json.dumps({"steps": training_trace.compact(history)}))
steps = pool.recorded(file)
print(json.dumps([steps, pool.in_use(steps)]))
"""


def test_a_history_becomes_steps_and_the_bytes_in_use(tmp_path):
    """An address that comes again is another allocation; what was there before is left out."""
    command = [sys.executable, "-c", PROGRAM, BENCHES, tmp_path / "trace.json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    steps, most = json.loads(done.stdout)
    made = [[0, 100, 0], [1, 200, 1], [0, 0, 0], [2, 300, 0], [1, 0, 1]]
    assert steps == [*made, [2, 0, 0]], "what is left is freed at the end"
    assert most == 500
    recorded = json.loads((tmp_path / "trace.json").read_text())
    assert recorded["steps"] == [100, [200, 1], 0, 300, -1]


def test_the_pool_takes_at_most_a_sixth_more_than_is_in_use():
    """torch's and CuPy's take as much for the same trace on a GPU."""
    program = "import sys; sys.path.insert(0, sys.argv[1]); import pool; "
    program += "print(pool.take(None, pool.MADE_UP))"
    command = [sys.executable, "-c", program, BENCHES]
    environment = {**os.environ, "GPULEND_DEVICE": "simulated"}
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=60, env=environment
    )
    reserved, used = ast.literal_eval(done.stdout)["gpulend"]
    assert used < reserved < used * 1.155
