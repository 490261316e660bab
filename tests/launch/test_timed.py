"""`gpulend.timed`: its lock, and captures."""

from __future__ import annotations

import gpulend
import pytest
from gpu.graphs import capture
from gpu.resources import python

WATCHED = """
    import faulthandler, threading, time
    import gpulend
    from driver.resources import start
    from gpu.resources import Gate
    start()
    gate, stream = Gate(), gpulend.Stream()
    with gpulend.timed(stream) as timer:
        gate.hold(stream)
    waiter = threading.Thread(target=lambda: timer.milliseconds)
    waiter.start()
    time.sleep(0.3)
    faulthandler.dump_traceback_later(10, exit=True)
    repr(timer)
    gate.open()
    waiter.join()
    faulthandler.cancel_dump_traceback_later()
    print("done")
"""


def test_a_timer_can_be_looked_at_while_somebody_waits_for_it(gpu):
    """`milliseconds` waits with the lock taken, and `repr` for the lock with the GIL taken."""
    assert python(WATCHED).split()[-1] == "done"


def test_a_timer_is_not_ended_in_a_capture(gpu):
    """It would wait for an event of the capture, which never comes by itself."""
    stream = gpulend.Stream()
    timer = gpulend.timed(stream)
    timer.__enter__()
    with capture(gpu, stream, "relaxed") as graph:
        with pytest.raises(gpulend.DriverError, match="captur"):
            timer.__exit__(None, None, None)
        assert graph.alive
