"""What other code raises in a launch: it is passed on, or the cause of a refusal."""

from __future__ import annotations

import gpulend
import numpy as np
import pytest
from gpulend import _native, adapters
from gpulend.adapters import Adapter, Framework, Producer

from .arrays import compiled

SOURCE = 'extern "C" __global__ void scale(float *x, int n, float by) {}'
OTHERS = (ZeroDivisionError, MemoryError, KeyboardInterrupt, SystemExit, AttributeError)


class Unknown:
    """An object of a framework whose adapter fails."""


class Raises:
    """A number that cannot be read."""

    def __init__(self, error):
        self.error = error

    def __index__(self):
        raise self.error("in __index__")


def scale():
    """Return the kernel."""
    return compiled(SOURCE)["scale"]


@pytest.fixture
def registry():
    """Take away afterwards what a test registers."""
    before = dict(adapters.FRAMEWORKS)
    yield
    for name in adapters.FRAMEWORKS.keys() - before.keys():
        del adapters.FRAMEWORKS[name]
    _native._forget_routes()


def fails(error):
    """Return an adapter that fails when it is asked for a type."""

    def knows(cls):
        if cls is Unknown:
            raise error("the adapter's bug")
        return False

    return Adapter(producers=(Producer(knows=knows),))


def test_the_failure_of_an_adapter_is_the_cause_of_the_refusal(gpu, registry):
    """As `borrow` raises it; an object that nobody knows has no cause."""
    with pytest.raises(gpulend.SignatureError) as unknown:
        scale()[1, 1](Unknown(), 1, 1.0)
    assert (unknown.value.code, unknown.value.__cause__) == (822, None)
    gpulend.register(Framework("failing", fails(ValueError), module=__name__, packages=("launch",)))
    with pytest.raises(gpulend.SignatureError) as caught:
        scale()[1, 1](Unknown(), 1, 1.0)
    assert caught.value.code == 822
    assert isinstance(caught.value.__cause__, ValueError)


def test_an_adapter_that_cannot_be_imported_is_the_cause_of_the_refusal(gpu, registry):
    """The message of the cause says what to install."""
    gpulend.register(
        Framework("gone", "no.such.module", module=__name__, packages=("launch",), install="gone")
    )
    with pytest.raises(gpulend.SignatureError) as caught:
        scale()[1, 1](Unknown(), 1, 1.0)
    assert caught.value.__cause__.code == 255
    assert "pip install gone" in str(caught.value.__cause__)


@pytest.mark.parametrize("error", [MemoryError, RecursionError, KeyboardInterrupt])
def test_what_is_no_failure_of_an_adapter_is_passed_on(gpu, registry, error):
    """It is nobody's mistake about an argument."""
    gpulend.register(Framework("failing", fails(error), module=__name__, packages=("launch",)))
    with pytest.raises(error):
        scale()[1, 1](Unknown(), 1, 1.0)


@pytest.mark.parametrize("values", [(int, 1.0), (np.int32, 1.0), (1, np.float32), (1, bool)])
def test_a_class_is_no_number(gpu, values):
    """The refusal names the argument."""
    lease = gpulend.zeros(4, "float32")
    with pytest.raises(gpulend.SignatureError, match=r"argument [23]"):
        scale()[1, 1](lease, *values)


SIZES = {
    "grid": lambda kernel, number: kernel[number, 1],
    "block": lambda kernel, number: kernel[1, number],
    "axis": lambda kernel, number: kernel[(1, number), 1],
    "launch": lambda kernel, number: kernel.launch(number, 1, ()),
    "forall": lambda kernel, number: kernel.forall(number),
    "shared": lambda kernel, number: kernel[1, 1](None, 1, 1.0, shared=number),
}
LAYOUTS = {
    "empty": lambda number: gpulend.empty(number),
    "axis": lambda number: gpulend.zeros((2, number)),
    "list": lambda number: gpulend.zeros([2, number]),
    "reshape": lambda number: gpulend.zeros(4).reshape(number),
    "item": lambda number: gpulend.zeros(4)[number],
    "slice": lambda number: gpulend.zeros(4)[number:],
}


@pytest.mark.parametrize("error", OTHERS)
@pytest.mark.parametrize("size", SIZES)
def test_what_a_size_raises_is_passed_on(gpu, size, error):
    """An interrupt and a bug of `__index__` are not about the size."""
    with pytest.raises(error, match="in __index__"):
        SIZES[size](scale(), Raises(error))


@pytest.mark.parametrize("size", SIZES)
def test_a_size_that_is_no_number_says_why(gpu, size):
    """The cause is what Python says of it."""
    for wrong in (1.5, Raises(ValueError)):
        with pytest.raises(gpulend.SignatureError) as caught:
            SIZES[size](scale(), wrong)
        assert caught.value.code == 836
        assert isinstance(caught.value.__cause__, TypeError | ValueError)


@pytest.mark.parametrize("error", OTHERS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_an_extent_raises_is_passed_on(gpu, layout, error):
    """As for sizes."""
    with pytest.raises(error, match="in __index__"):
        LAYOUTS[layout](Raises(error))


def test_what_an_extent_of_wrap_raises_is_passed_on(gpu):
    """The address is read before."""
    lease = gpulend.zeros(4, "int8")
    with pytest.raises(KeyboardInterrupt):
        gpulend.wrap(lease.address, Raises(KeyboardInterrupt), "int8", unowned=True)
