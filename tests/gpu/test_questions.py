"""Questions about devices, streams and events: counts, memory, priorities, times."""

from __future__ import annotations

from ctypes import byref, c_int

import gpulend
import pytest
from driver.cuda import check, cu

from .graphs import capture
from .resources import SIMULATED, device_count, free_bytes, need_two_devices, python


def test_the_number_of_devices_is_the_drivers(gpu):
    """Also that there is one."""
    assert gpulend.device_count() == device_count()
    assert gpulend.is_available() is True


def test_asking_for_devices_makes_no_context(gpu):
    """A program that only looks must not take hundreds of megabytes of a GPU."""
    asked = python(
        """
        import ctypes, gpulend
        if __import__("os").environ.get("GPULEND_TEST_DRIVER") != "real":
            gpulend.simulate(devices=2, expose=True)
        assert gpulend.is_available() and gpulend.device_count() >= 1
        cu = ctypes.CDLL("libcuda.so.1")
        flags, active = ctypes.c_uint(), ctypes.c_int(7)
        assert cu.cuDevicePrimaryCtxGetState(0, ctypes.byref(flags), ctypes.byref(active)) == 0
        print(active.value)
        """
    )
    assert asked.split() == ["0"]


def test_free_and_total_memory_are_the_drivers(gpu):
    """An allocation of the driver's makes the free part smaller."""
    free, total = gpulend.mem_get_info()
    assert 0 < free <= total
    gpu.alloc(64 << 20)
    if SIMULATED:
        assert gpulend.mem_get_info() == (free - (64 << 20), total)
    assert gpulend.mem_get_info("cuda:0") == (free_bytes(), total)
    assert gpulend.mem_get_info(0)[1] == total


def test_memory_is_that_of_the_device_asked_for(gpu):
    """By name, by number, or of the stream entered last; others are refused."""
    need_two_devices()
    kept = gpulend.empty(32 << 20, "uint8", device="cuda:1")
    with gpulend.Stream(device=1):
        assert gpulend.mem_get_info() == gpulend.mem_get_info("cuda:1")
    del kept
    with pytest.raises(gpulend.NoDeviceError):
        gpulend.mem_get_info("cuda:9")
    with pytest.raises(gpulend.ProtocolError, match="name a CUDA device"):
        gpulend.mem_get_info("cpu")


def test_a_stream_has_the_priority_that_was_asked_for(gpu):
    """Inside the device's range; what is beyond becomes the nearest."""
    least, greatest = gpulend.Stream.priority_range()
    low, high = c_int(), c_int()
    check(cu.cuCtxGetStreamPriorityRange(byref(low), byref(high)))
    assert (least, greatest) == (low.value, high.value)
    assert gpulend.Stream.priority_range("cuda:0") == (least, greatest)
    for priority in range(greatest, least + 1):
        stream = gpulend.Stream(priority=priority)
        asked = c_int(99)
        check(cu.cuStreamGetPriority(stream.handle, byref(asked)))
        assert stream.priority == asked.value == priority
    assert gpulend.Stream(priority=greatest - 10).priority == greatest
    assert gpulend.Stream(priority=least + 10, blocking=True).priority == least
    assert gpulend.Stream().priority == 0
    with gpulend.Stream(priority=greatest):
        assert gpulend.full(3, 1, "int32").to_host().tolist() == [1, 1, 1]


def test_the_time_between_two_events_is_measured(gpu):
    """From the first to the second, for which it waits; not less than what lies between."""
    stream = gpulend.Stream()
    with stream:
        memory = gpulend.empty(1 << 20, "uint8")
        start = stream.record(timing=True)
        middle = stream.record(timing=True)
        for value in range(8):
            memory.fill(value)
        end = stream.record(timing=True)
    total = start.elapsed(end)
    assert end.done
    assert 0 <= middle.elapsed(end) <= total
    assert end.elapsed(start) <= 0
    assert start.elapsed(start) == 0
    assert start.elapsed(end) == total


def test_an_event_without_its_time_is_refused(gpu):
    """On either side, with the call that records one."""
    stream = gpulend.Stream()
    timed, plain = stream.record(timing=True), stream.record()
    for start, end in ((timed, plain), (plain, timed), (plain, plain)):
        with pytest.raises(gpulend.DriverError, match="timing=True") as caught:
            start.elapsed(end)
        assert caught.value.code == 1005
    with pytest.raises(TypeError):
        timed.elapsed(stream)
    assert timed.elapsed(stream.record(timing=True)) >= 0


def test_a_timed_event_is_not_recorded_in_a_capture(gpu):
    """It would never happen by itself; the capture goes on."""
    stream = gpulend.Stream()
    with capture(gpu, stream, "relaxed") as graph:
        with pytest.raises(gpulend.DriverError) as caught:
            stream.record(timing=True)
        assert caught.value.code == 1003
        assert graph.alive


def test_timed_and_plain_events_are_not_mixed_up(gpu):
    """Both kinds come from pools: one that is used again is of the kind that was asked for."""
    stream = gpulend.Stream()
    for _ in range(50):
        start, plain = stream.record(timing=True), stream.record()
        stream.wait(plain)
        assert start.elapsed(stream.record(timing=True)) >= 0
        del start, plain
