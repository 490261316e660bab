"""A lease of a torch tensor keeps the storage that it was borrowed with."""

from __future__ import annotations

import gc

import gpulend
import pytest
from conftest import need
from gpulend import _native

torch = need("torch")

SIZE = 1 << 16


@pytest.fixture(params=["native reader", "exchange table"], autouse=True)
def _route(request):
    """Run every test by both routes of a tensor of exactly torch's types."""
    _native._reroute(request.param == "native reader")
    yield
    _native._reroute(True)


class Marked(torch.Tensor):
    """A class of its own, which goes by DLPack."""


def _set_data(tensor):
    tensor.data = torch.zeros(3)


def _set(tensor):
    tensor.set_()


GIVEN_OTHER = {"data": _set_data, "set_": _set}


def freed(storage):
    """Return whether a storage that is only known by its address and number is gone."""
    return torch.UntypedStorage._expired(storage)


@pytest.mark.parametrize("change", GIVEN_OTHER)
@pytest.mark.parametrize("kind", [torch.Tensor, torch.nn.Parameter, Marked])
@pytest.mark.parametrize("hold", ["lease", "slice", "export"])
def test_a_tensor_given_other_memory_leaves_the_lease_its_own(hold, kind, change):
    """Until the last of them drops it, which frees it."""
    tensor = torch.arange(float(SIZE))
    if kind is torch.nn.Parameter:
        tensor = torch.nn.Parameter(tensor, requires_grad=False)
    elif kind is Marked:
        tensor = tensor.as_subclass(Marked)
    weak = tensor.untyped_storage()._weak_ref()
    lease = gpulend.borrow(tensor)
    held = {"lease": lease, "slice": lease[1:], "export": lease.lend("numpy")}[hold]
    del lease
    GIVEN_OTHER[change](tensor)
    gc.collect()
    assert not freed(weak)
    others = [torch.full((SIZE,), 7.0) for _ in range(4)]
    numbers = held if hold == "export" else held.lend("numpy")
    assert numbers[-1] == SIZE - 1
    assert len(others) == 4
    del numbers, held, tensor
    gc.collect()
    assert freed(weak)
    torch.UntypedStorage._free_weak_ref(weak)


def test_a_borrowed_tensor_is_let_go_with_its_lease():
    """The object and its storage, while the lease's slices keep both."""
    tensor = torch.zeros(SIZE)
    weak = tensor.untyped_storage()._weak_ref()
    part = gpulend.borrow(tensor)[1:]
    del tensor
    gc.collect()
    assert not freed(weak)
    part.release()
    gc.collect()
    assert freed(weak)
    torch.UntypedStorage._free_weak_ref(weak)
