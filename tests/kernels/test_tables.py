"""Functions called through their addresses: the simulated GPU says that it cannot."""

from __future__ import annotations

from ctypes import byref, c_void_p

import numpy as np
import pytest
from driver.control import only_simulated
from driver.cuda import SIMULATED, cu

from .harness import CORPUS, Kernel, fault_sentences, ptx_of

INVALID_PTX = 218


@only_simulated
@pytest.mark.usefixtures("mistaken")
def test_a_call_through_an_address_is_refused_when_the_module_is_loaded() -> None:
    """And the report says what is not supported."""
    module = c_void_p()
    text = ptx_of(CORPUS / "tables.cu").encode() + b"\0"
    assert cu.cuModuleLoadData(byref(module), text) == INVALID_PTX
    assert module.value is None
    assert "call" in fault_sentences()[-1]


@pytest.mark.skipif(SIMULATED, reason="the simulated GPU refuses indirect calls")
def test_calls_through_a_table(random: np.random.Generator) -> None:
    """Each thread calls another function."""
    which = random.integers(0, 3, 200).astype(np.int32)
    a, b = random.integers(-999, 999, (2, 200)).astype(np.int32)
    out = np.zeros(200, np.int32)
    Kernel("tables.cu", "call_through_table").launch(2, 128, which, a, b, out, 200)
    np.testing.assert_array_equal(out, np.choose(which, [a + b, a * b, np.maximum(a, b)]))
