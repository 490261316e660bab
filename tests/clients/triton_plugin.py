"""For pytest, with Triton's own tests, on tensors of the host.

`PYTHONPATH=tests/clients gpulend run -- python -m pytest -p every_plugin -p triton_plugin
--device cpu --every 10 CHECKOUT/python/test/unit/language/test_core.py` from a checkout's
folder `python`.
"""

from __future__ import annotations

from typing import Any

import torch
import triton


def pytest_configure(config: Any) -> None:
    """Answer what Triton's tests ask torch: which GPU it has."""
    driver = triton.runtime.driver.active
    torch.cuda.get_device_capability = driver.get_device_capability
    torch.cuda.get_device_name = lambda *_: "Simulated GPU"
    torch.cuda.current_device = driver.get_current_device
    torch.cuda.synchronize = driver.get_device_interface().synchronize
