"""Many threads wrap, lend, work and drop: nothing grows, nothing is lost, each deleter runs once.

The same for arrays that come from the pool and go back. GPULEND_TEST_SOAK asks for more rounds, or
allocations, and GPULEND_TEST_SEEDS for more orders of queued work.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .resources import REAL

PROGRAM = Path(__file__).with_name("soak.py")
ROUNDS = int(os.environ.get("GPULEND_TEST_SOAK", "4000"))
POOL = Path(__file__).with_name("pool_soak.py")
ALLOCATIONS = int(os.environ.get("GPULEND_TEST_SOAK", "400000"))
SEEDS = int(os.environ.get("GPULEND_TEST_SEEDS", "2"))
# What an allocator with eight threads may keep: a long run grows by more if a round leaves 4 bytes.
MOST_GROWTH = 32 << 20


def device(seed: int) -> dict[str, str]:
    """Return the settings of the program's device."""
    return {} if REAL else {"GPULEND_DEVICE": "simulated", "GPULEND_SIM_SEED": str(seed)}


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_soak_leaves_nothing_behind(seed: int) -> None:
    """Eight threads on four streams, late in an order of the seed's on a simulated GPU."""
    done = subprocess.run(
        [sys.executable, PROGRAM, str(ROUNDS), "8"],
        env={**os.environ, **device(seed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report.pop("grown") < MOST_GROWTH
    live = report.pop("live")
    assert live.pop("events", 0) < 64, "events are kept for the next use"
    assert not any(live.values())
    nothing = {"failures": [], "never": 0, "twice": 0, "held": 0, "leaked": 0, "waiting": 0}
    assert report == nothing


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_soak_of_the_pool_leaves_nothing_behind(seed: int) -> None:
    """Four threads on four streams; when memory runs out, at random, they go on after that."""
    done = subprocess.run(
        [sys.executable, POOL, str(ALLOCATIONS), str(seed)],
        env={**os.environ, **device(seed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report.pop("grown") < MOST_GROWTH
    assert report.pop("allocations") > ALLOCATIONS * 0.9
    assert report.pop("exhausted") > 0, "memory ran out now and then"
    assert report.pop("most") < 4 * report.pop("peak"), "free blocks are used again"
    del report["seconds"]
    nothing = dict.fromkeys(("wrong", "live", "blocks", "kept", "reserved", "leaked", "waiting"), 0)
    assert report == {"failures": [], **nothing}
