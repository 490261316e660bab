"""The list names a topic for each function that behaves: its test files must really call it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from .control import BEHAVING, HERE, only_simulated
from .cuda import library_path

pytestmark = only_simulated

# The files of a topic, each with its variants; a test there may well call other functions, too.
FILES = {
    "start": ["start"],
    "devices": ["devices"],
    "contexts": ["contexts", "primary_context"],
    "memory": ["memory", "host_memory"],
    "pointers": ["pointers"],
    "copies": ["copies", "copies_2d", "memset"],
    "pools": ["pools", "pools_places", "pools_shared"],
    "ipc": ["ipc", "ipc_events"],
    "virtual_memory": ["virtual_memory", "virtual_memory_shared"],
    "streams": ["streams", "host_functions", "memory_operations", "memory_operations_shared"],
    "events": ["events"],
    "capture": ["capture", "capture_graphs", "capture_rules", "replay"],
    "graphs": ["graphs", "graph_nodes", "graph_updates"],
    "graph_memory": ["graph_memory", "graph_conditions"],
    "batches": ["batches"],
    "arrays": ["arrays", "textures"],
    "modules": ["modules", "libraries", "links"],
    "user_objects": ["user_objects"],
    "kernels": ["kernels", "kernels_cooperative", "kernels_described", "kernels_launched"],
}


def _files(topic: str) -> list[str]:
    own = [HERE / f"test_{name}.py" for name in FILES[topic]]
    return [str(path) for path in (*own, *HERE.glob(f"test_{topic}_variants.py"))]


def _calls(topic: str, pipe: Path) -> set[str]:
    """Run the tests of a topic; return what they called, in their own processes, too.

    The report goes to a named pipe: each process of the run writes to it when it ends.
    """
    os.mkfifo(pipe)
    keep_open = os.open(pipe, os.O_RDWR)
    texts: list[str] = []
    reader = threading.Thread(target=lambda: texts.append(pipe.read_text()))
    reader.start()
    try:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        ran = subprocess.run(
            [*command, f"--rootdir={HERE}", *_files(topic)],
            cwd=HERE,
            env={
                **os.environ,
                "GPULEND_SIM_REPORT": str(pipe),
                "GPULEND_TEST_DRIVER": str(Path(library_path()).resolve()),
            },
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
    finally:
        os.close(keep_open)
        reader.join()
    # A test that fails does so in its own right, too.
    assert ran.returncode in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED), ran.stdout[-3000:]
    called: set[str] = set()
    rest = texts[0].strip()
    while rest:
        report, end = json.JSONDecoder().raw_decode(rest)
        called |= set(report["calls"])
        rest = rest[end:].strip()
    return called


def test_every_topic_of_the_list_has_files() -> None:
    """And no file is named that does not exist."""
    assert {row.topic for row in BEHAVING} == set(FILES)
    assert [path for topic in FILES for path in _files(topic) if not Path(path).is_file()] == []


@pytest.mark.parametrize("topic", FILES)
def test_each_function_is_called_by_the_tests_of_its_topic(topic: str, tmp_path: Path) -> None:
    """So the list can be believed."""
    called = _calls(topic, tmp_path / "reports")
    assert {row.symbol for row in BEHAVING if row.topic == topic} - called == set()
