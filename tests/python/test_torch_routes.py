"""Which route reads a torch tensor, by count, and that all routes give the same answer."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import gpulend
import numpy as np
import pytest
from conftest import need
from gpulend import _native

torch = need("torch")
fake = need("torch._subclasses.fake_tensor")

NATIVE, TABLE, DLPACK = "torch: native reader", "torch: exchange table", "torch: __dlpack__"
pytestmark = [pytest.mark.filterwarnings("ignore:Sparse")]


class Marked(torch.Tensor):
    """A class of its own, which goes by DLPack."""


@pytest.fixture(params=[True, False], ids=["native reader", "exchange table"])
def native(request):
    """Run a test with the native reader, and with the exchange table in its place."""
    _native._reroute(request.param)
    yield request.param
    _native._reroute(True)


def counted(work):
    """Return what a call returned or raised, and how often each route was taken in it."""
    before = _native.route_counts()
    try:
        result = work()
    except gpulend.Error as error:
        result = error
    after = _native.route_counts()
    return result, {
        name: count - before[name] for name, count in after.items() if count - before[name]
    }


def _fake():
    with fake.FakeTensorMode():
        return torch.ones(3)


def _inference():
    with torch.inference_mode():
        return torch.ones(3)


def _resized():
    tensor = torch.zeros(10)[5:]
    tensor.untyped_storage().resize_(36)
    return tensor


def _wrapped():
    kept = []
    torch.vmap(lambda row: kept.append(row) or row)(torch.ones(2, 3))
    return kept[0]


def _tracked():
    return torch.ones(3, requires_grad=True)


def _pair():
    return torch.tensor([1 + 2j, 3 - 4j])


# what: how it is made, the route where there is a native reader, and what a refusal names
TENSORS = {
    "plain": (lambda: torch.ones(3), NATIVE, None),
    "view": (lambda: torch.arange(12.0).reshape(3, 4)[1:, ::2].T, NATIVE, None),
    "scalar": (lambda: torch.tensor(7), NATIVE, None),
    "empty": (lambda: torch.ones(0, 3), NATIVE, None),
    "complex": (_pair, NATIVE, None),
    "bool": (lambda: torch.tensor([True, False]), NATIVE, None),
    "frozen Parameter": (lambda: torch.nn.Parameter(torch.ones(3), False), NATIVE, None),
    "inference": (_inference, NATIVE, None),
    "Parameter": (lambda: torch.nn.Parameter(torch.ones(3)), NATIVE, "requires grad"),
    "requires grad": (_tracked, NATIVE, "requires grad"),
    "conj": (lambda: _pair().conj(), NATIVE, "conjugate"),
    "neg": (lambda: _pair().conj().imag, NATIVE, "negative"),
    "resized": (_resized, NATIVE, "storage ends before it"),
    "zero": (lambda: torch._efficientzerotensor(3), NATIVE, "zero tensor"),
    "meta": (lambda: torch.ones(3, device="meta"), TABLE, "meta"),
    "sparse": (lambda: torch.eye(3).to_sparse(), TABLE, "sparse_coo"),
    "csr": (lambda: torch.eye(3).to_sparse_csr(), TABLE, "sparse_csr"),
    "functional": (
        lambda: torch._to_functional_tensor(torch.arange(10.0)[5:]),
        TABLE,
        "functional tensor",
    ),
    "vmap": (_wrapped, TABLE, "inside vmap"),
    "fake": (_fake, DLPACK, "fake"),
    "subclass": (lambda: torch.ones(3).as_subclass(Marked), DLPACK, None),
    "tracked subclass": (lambda: _tracked().as_subclass(Marked), DLPACK, "requires grad"),
}
# Without a check: only what has no memory is refused.
UNCHECKED = {"requires grad", "conjugate", "negative", None}


def route_of(what, native):
    """Return the route that a tensor takes."""
    route = TENSORS[what][1]
    return TABLE if route == NATIVE and not native else route


@pytest.mark.parametrize("what", TENSORS)
def test_borrowing_takes_one_route_and_has_one_outcome(what, native):
    """A slower route, or two of them, would pass every other test."""
    make, _, refusal = TENSORS[what]
    tensor = make()
    found, routes = counted(lambda: gpulend.borrow(tensor))
    assert routes == {route_of(what, native): 1}
    if refusal is None:
        assert (found.address, found.shape) == (tensor.data_ptr(), tuple(tensor.shape))
        np.testing.assert_array_equal(
            found.to_host(), np.array(tensor.tolist()).reshape(tensor.shape)
        )
    else:
        assert isinstance(found, gpulend.ExportError)
        assert refusal in str(found)
        assert found.code == 350


@pytest.mark.parametrize("what", TENSORS)
def test_without_a_check_only_what_has_no_memory_is_refused(what, native):
    """By the same route as with one."""
    make, _, refusal = TENSORS[what]
    tensor = make()
    found, routes = counted(lambda: gpulend.borrow(tensor, check=False))
    assert routes == {route_of(what, native): 1}
    if refusal in UNCHECKED:
        assert found.address == tensor.data_ptr()
    else:
        assert isinstance(found, gpulend.Error)


USES = {
    "kept": lambda tensor: gpulend.borrow(tensor),
    "read": lambda tensor: gpulend.from_host(tensor),
    "written": lambda tensor: gpulend.borrow(np.ones(3, "float32")).copy_to(tensor),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("records", [True, False])
def test_a_gradient_is_refused_only_by_a_use_that_loses_it(use, records, native):
    """Kept beyond the call, or written while torch records."""
    tensor = _tracked()
    with torch.set_grad_enabled(records):
        found, routes = counted(lambda: USES[use](tensor))
    assert routes.get(route_of("plain", native)) == 1
    refused = use == "kept" or (use == "written" and records)
    assert isinstance(found, gpulend.ExportError) == refused


def in_a_process(program):
    """Run a program in a Python of its own and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("outcome", ["plain", "tracked", "refused", "elsewhere", "unknown"])
def test_a_reader_that_reads_a_sample_otherwise_is_not_used(outcome):
    """One sample of each outcome is given another: the exchange table serves then."""
    wrong = "tracked" if outcome == "plain" else "plain"
    program = f"""
        import gpulend, torch
        from gpulend import _native
        from gpulend.adapters import torch as adapter
        samples = adapter.samples()
        last = max(i for i, (_, _, found) in enumerate(samples) if found == {outcome!r})
        samples[last] = (*samples[last][:2], {wrong!r})
        adapter.samples = lambda: samples
        tensor = torch.arange(6.0).reshape(2, 3).T
        lease = gpulend.borrow(tensor)
        assert lease.address == tensor.data_ptr() and lease.to_host().tolist() == tensor.tolist()
        try: gpulend.borrow(torch.ones(2, dtype=torch.complex64).conj())
        except gpulend.ExportError as error: assert "conjugate" in str(error)
        counts = _native.route_counts()
        print(_native.route(tensor), counts[{NATIVE!r}], counts[{TABLE!r}])
    """
    assert in_a_process(program) == "DLPack C exchange API 0 2"


def test_a_sample_at_another_address_proves_nothing():
    """Where the tensor lies inside its object is looked for, and not found."""
    program = """
        import torch
        from gpulend import _native
        from gpulend.adapters import torch as adapter
        samples = [(t, address + 8, found) for t, address, found in adapter.samples()]
        adapter.samples = lambda: samples
        print(_native.route(torch.ones(2)))
    """
    assert in_a_process(program) == "DLPack C exchange API"


def test_a_reader_that_disagrees_on_recording_is_not_used():
    """Whether torch records gradients decides whether a tensor may be written."""
    program = """
        import torch
        from gpulend import _native
        records = torch.is_grad_enabled
        torch.is_grad_enabled = lambda: not records()
        print(_native.route(torch.ones(2)))
    """
    assert in_a_process(program) == "DLPack C exchange API"


def test_the_reader_asks_python_nothing_about_recording(monkeypatch):
    """A launch reads its tensors where no code of Python's may run."""
    tensor, source = _tracked(), gpulend.borrow(np.ones(3, "float32"))
    asked = []
    with torch.no_grad(), monkeypatch.context() as patch:
        patch.setattr(torch, "is_grad_enabled", lambda: asked.append(1) or False)
        _, routes = counted(lambda: source.copy_to(tensor))
    assert routes.get(NATIVE) == 1
    assert asked == []


def test_the_method_that_raised_is_named(native, monkeypatch):
    """The storage is asked for after the adapter found nothing wrong."""
    tensor, storage, calls = torch.ones(3), torch.Tensor.untyped_storage, []

    def untyped_storage(self):
        calls.append(1)
        if len(calls) == 2:
            raise RuntimeError("no storage today")
        return storage(self)

    monkeypatch.setattr(torch.Tensor, "untyped_storage", untyped_storage)
    if native:
        gpulend.borrow(tensor)
        assert calls == []
        return
    with pytest.raises(gpulend.Error, match=r"untyped_storage raised no storage today"):
        gpulend.borrow(tensor)


@pytest.mark.parametrize("mode", ["inference_mode", "no_grad", "double", "meta", "fake"])
def test_the_proof_holds_inside_the_usual_modes(mode):
    """The first tensor of a process is often borrowed inside one."""
    enter = {
        "inference_mode": "with torch.inference_mode():",
        "no_grad": "with torch.no_grad():",
        "double": "torch.set_default_dtype(torch.float64)\nif True:",
        "meta": 'with torch.device("meta"):',
        "fake": "from torch._subclasses.fake_tensor import FakeTensorMode\nwith FakeTensorMode():",
    }[mode]
    start = "import torch\nfrom gpulend import _native\ntensor = torch.ones(3)\n"
    program = f"{start}{enter}\n    print(_native.route(tensor))\n"
    assert in_a_process(program) == "torch native reader"


def test_every_route_has_its_count():
    """Each is taken once here, as far as it needs no other library."""
    import array
    import ctypes

    class Interface:
        def __init__(self, there):
            self.there = there

        @property
        def __array_interface__(self):
            return self.there.__array_interface__

    class Dlpack:
        def __init__(self, there):
            self.there = there

        def __dlpack__(self, **keywords):
            return self.there.__dlpack__(**keywords)

        def __dlpack_device__(self):
            return self.there.__dlpack_device__()

    class Own(np.ndarray):
        def __dlpack__(self, **keywords):
            return super().__dlpack__(**keywords)

    numbers = np.ones(3)
    lease = gpulend.borrow(numbers)
    room = (ctypes.c_double * 3)()
    objects = {
        "gpulend.Lease": lease,
        "DLPack capsule": numbers.__dlpack__(),
        "NumPy: native reader": numbers,
        "NumPy: __dlpack__": numbers.view(Own),
        "__array_interface__": Interface(numbers),
        "__dlpack__": Dlpack(numbers),
        "buffer protocol": array.array("d", [1.0]),
        "ctypes object": room,
        "ctypes pointer": ctypes.pointer(room),
    }
    for name, thing in objects.items():
        found, routes = counted(lambda thing=thing: gpulend.borrow(thing))
        assert isinstance(found, gpulend.Lease), name
        assert routes == {name: 1}


def test_a_subclass_without_its_memory_is_refused_without_a_check_too():
    """Its storage was made too short: a lease would reach beyond it."""
    short = torch.zeros(1024).as_subclass(type("Marked", (torch.Tensor,), {}))
    short.untyped_storage().resize_(4)
    with pytest.raises(gpulend.Error):
        gpulend.borrow(short, check=False)
