"""What two devices are to each other."""

from __future__ import annotations

from ctypes import byref, c_int
from typing import Any

from .control import fresh, only_simulated
from .cuda import check
from .resources import Resources, value
from .variants import cu

pytestmark = only_simulated

RANK, ACCESS, ATOMICS, ARRAYS = 1, 2, 3, 4  # CUdevice_P2PAttribute


def test_a_device_is_no_peer_of_itself(gpu: Resources) -> None:
    """INVALID_DEVICE, as for one that is absent."""
    for other in (0, 1000):
        assert cu.cuDeviceGetP2PAttribute(byref(c_int()), ACCESS, 0, other) == 101


def _peers() -> dict[str, Any]:
    """Ask about two devices, both ways."""
    check(cu.cuInit(0))
    ask = cu.cuDeviceGetP2PAttribute
    seen: dict[str, Any] = {"wrong": [ask(None, ACCESS, 0, 1), ask(byref(c_int()), 99, 0, 1)]}
    for one, other in ((0, 1), (1, 0)):
        access = value(c_int, ask, ACCESS, one, other)
        seen[f"{one} agrees"] = access == value(c_int, cu.cuDeviceCanAccessPeer, one, other)
        seen[f"{one} is known"] = [ask(byref(c_int()), n, one, other) for n in range(RANK, 5)]
    return seen


def test_two_devices_agree_on_access() -> None:
    """With cuDeviceCanAccessPeer; all four attributes are known."""
    assert fresh(_peers, GPULEND_SIM_DEVICES="2") == {
        "wrong": [1, 1],
        "0 agrees": True,
        "0 is known": [0] * 4,
        "1 agrees": True,
        "1 is known": [0] * 4,
    }
