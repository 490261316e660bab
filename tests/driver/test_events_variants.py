"""Events through the per-thread variants and the old forms."""

from __future__ import annotations

from ctypes import c_void_p

import pytest

from .bench import hold_legacy
from .control import only_simulated
from .cuda import check
from .resources import PER_THREAD, Resources, value
from .variants import cu

pytestmark = only_simulated

NOT_READY = 600
RECORDS = {
    "cuEventRecord_ptsz": lambda event, stream: cu.cuEventRecord_ptsz(event, stream),
    "cuEventRecordWithFlags_ptsz": lambda event, stream: cu.cuEventRecordWithFlags_ptsz(
        event, stream, 0
    ),
}


@pytest.mark.parametrize("record", RECORDS)
def test_an_event_is_recorded_on_the_threads_own_stream(gpu: Resources, record: str) -> None:
    """It is done when that is, whatever the legacy stream has; other handles are as always."""
    event, gate, stream = gpu.event(), gpu.gate(), gpu.stream()
    hold_legacy(gpu)
    assert RECORDS[record](event, None) == 0
    assert cu.cuEventSynchronize(event) == 0
    gate.hold(PER_THREAD)
    assert RECORDS[record](event, None) == 0
    assert cu.cuEventQuery(event) == NOT_READY
    assert RECORDS[record](event, stream) == 0
    assert cu.cuEventSynchronize(event) == 0


def test_an_event_is_destroyed_by_the_old_form(gpu: Resources) -> None:
    """As by the new one."""
    event = value(c_void_p, cu.cuEventCreate, 0)
    check(cu.cuEventRecord(event, None))
    assert cu.cuEventDestroy(event) == 0
    assert cu.cuEventQuery(event) == 400
