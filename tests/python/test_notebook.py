"""What notebooks show of a lease and of the ledger, and that showing it changes nothing."""

from __future__ import annotations

import re

import gpulend
import numpy as np
import pytest
from gpulend._notebook import _values
from machines import python


def rows(html):
    """Return the rows of a table as text, by the head of each."""
    assert html.startswith("<table>")
    assert html.endswith("</table>")
    return dict(re.findall(r"<tr><th>(.*?)</th><td>(.*?)</td></tr>", html))


def test_a_lease_of_the_host_shows_its_first_values():
    """The first eight of the first row."""
    lease = gpulend.borrow(np.arange(40, dtype="int16").reshape(2, 20))
    shown = rows(lease._repr_html_())
    assert shown["values"] == "0, 1, 2, 3, 4, 5, 6, 7, …"
    assert (shown["dtype"], shown["shape"], shown["device"]) == ("int16", "(2, 20)", "cpu")
    assert (shown["bytes"], shown["memory"]) == ("80", "host")
    assert shown["address"] == hex(lease.address)
    assert rows(lease[1, :3]._repr_html_())["values"] == "20, 21, 22"
    assert rows(lease[1, 5]._repr_html_())["values"] == "25"
    assert rows(lease[:, :0]._repr_html_())["values"] == "none"


def test_a_released_lease_shows_that():
    """And raises nothing."""
    lease = gpulend.borrow(np.zeros(3))
    lease.release()
    assert "released" in lease._repr_html_()


def test_memory_that_is_gone_does_not_break_a_notebook():
    """The rest is shown, with what is wrong."""
    lease = gpulend.wrap(0x1000, 3, "float32", unowned=True, check=False, device="cpu")
    shown = rows(lease._repr_html_())
    assert shown["values"].startswith("not shown: ")
    assert shown["shape"] == "(3,)"


@pytest.mark.parametrize("memory", ["device", "managed", "pinned"])
def test_memory_that_a_real_gpu_may_write_is_never_read(memory):
    """Neither sliced nor copied."""

    class OnGpu:
        size, ndim, simulated = 3, 1, False

        def __getitem__(self, key):
            raise AssertionError("it is read")

    lease = OnGpu()
    lease.memory = memory
    assert _values(lease) == f"not shown: in {memory} memory; to_host() copies them"


def test_a_simulated_gpu_shows_its_values_without_a_copy_or_a_wait():
    """No call of the driver copies or waits, and nothing stays in the ledger."""
    done = python(
        """
        import gpulend, numpy as np
        from gpulend import simulator
        lease = gpulend.from_host(np.arange(3, dtype="float32"))
        before, held = simulator.report()["calls"], len(gpulend.ledger())
        print(lease._repr_html_())
        calls = simulator.report()["calls"]
        print(sorted(name for name in calls if calls[name] != before.get(name)))
        print(len(gpulend.ledger()) - held)
        """,
        GPULEND_DEVICE="simulated",
    )
    html, calls, held = done.stdout.splitlines()
    shown = rows(html)
    assert shown["device"] == "cuda:0, simulated"
    assert shown["values"] == "0.0, 1.0, 2.0"
    assert not re.search("Memcpy|Synchronize|Alloc|Launch|Record", calls), calls
    assert held == "0"


def test_values_that_work_is_queued_on_are_not_shown_and_not_waited_for():
    """A kernel that never ends would hold the notebook for ever."""
    done = python(
        """
        import gpulend, time
        module = gpulend.compile("__global__ void f(float *x) { while (*(volatile float*)x < 1); }")
        x = gpulend.zeros(1, "float32")
        gpulend.synchronize()
        with gpulend.Stream():
            module["f"][1, 1](x)
            begin = time.monotonic()
            print(x._repr_html_())
            print(time.monotonic() - begin < 2)
            print(flush=True)
        import os; os._exit(0)
        """,
        GPULEND_DEVICE="simulated",
        GPULEND_SIM_TIMEOUT="20",
    )
    html, quick, *_ = done.stdout.splitlines()
    assert rows(html)["values"] == "not shown: work on them is queued; to_host() waits for it"
    assert quick == "True"


CAPTURE = """
import ctypes
import gpulend
gpulend.simulate()
x = gpulend.full(3, 2, "float32")
gpulend.synchronize()
stream = gpulend.Stream(blocking=True)
cuda = ctypes.CDLL(gpulend.simulator.library())
handle = ctypes.c_void_p(stream.handle)
assert cuda.cuStreamBeginCapture_v2(handle, 0) == 0
with stream:
    shown = x._repr_html_()
shown += x._repr_html_()
graph = ctypes.c_void_p()
print(cuda.cuStreamEndCapture(handle, ctypes.byref(graph)), graph.value is not None)
print(shown.count("<table>"), "simulated" in shown)
"""


def test_showing_a_lease_breaks_no_capture():
    """Of a blocking stream, which a call on the default stream would end."""
    assert python(CAPTURE).stdout.split() == ["0", "True", "2", "True"]


def test_the_ledger_is_a_table_without_foreign_html():
    """Names of classes are text, whatever is in them."""
    kind = type("<b>Bold", (), {"__dlpack__": lambda self, **_: np.zeros(3).__dlpack__()})
    lease = gpulend.borrow(kind())
    html = gpulend.ledger()._repr_html_()
    assert "&lt;b&gt;Bold" in html
    assert "<b>" not in html
    assert f"<td>{lease.nbytes}</td>" in html
    assert "held" in html


def test_a_long_ledger_is_cut():
    """A notebook with a million rows would hang."""
    leases = [gpulend.borrow(bytearray(8)) for _ in range(150)]
    html = gpulend.ledger()._repr_html_()
    assert html.count("<tr>") == 102
    assert re.search(r"and \d+ more", html)
    leases.clear()
