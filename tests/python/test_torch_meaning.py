"""Law 8: what a tensor means beyond its bytes is refused by name, with the call that helps."""

from __future__ import annotations

import re

import gpulend
import numpy as np
import pytest
from conftest import need
from gpulend import _native

torch = need("torch")
fake = need("torch._subclasses.fake_tensor")


@pytest.fixture(params=["native reader", "exchange table"], autouse=True)
def _route(request):
    """Run every test by both routes of a tensor of exactly torch's types."""
    _native._reroute(request.param == "native reader")
    yield
    _native._reroute(True)


def _complex():
    return torch.tensor([1 + 2j, 3 - 4j])


def _sparse(layout):
    return torch.eye(3).to_sparse(layout=layout)


def _fake():
    with fake.FakeTensorMode():
        return torch.ones(3)


def _nested(layout):
    return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=layout)


def _resized(size):
    tensor = torch.zeros(10)[5:]
    tensor.untyped_storage().resize_(size)
    return tensor


def _regrown(tensor):
    tensor.untyped_storage().resize_(40)
    return tensor


def _narrow(dtype):
    return torch.zeros(4, dtype=torch.uint8).view(dtype)


# what: how it is made, what the refusal names, the call it advises, and that call
TENSORS = {
    "conj": (lambda: _complex().conj(), "conjugate", "resolve_conj()", lambda t: t.resolve_conj()),
    "neg view": (
        lambda: torch._neg_view(torch.ones(3)),
        "negative",
        "resolve_neg()",
        lambda t: t.resolve_neg(),
    ),
    "neg by conj().imag": (
        lambda: _complex().conj().imag,
        "negative",
        "resolve_neg()",
        lambda t: t.resolve_neg(),
    ),
    "requires grad": (
        lambda: torch.ones(3, requires_grad=True),
        "requires grad",
        "detach()",
        lambda t: t.detach(),
    ),
    "result of grad": (
        lambda: torch.ones(3, requires_grad=True) * 2,
        "requires grad",
        "detach()",
        lambda t: t.detach(),
    ),
    "Parameter": (
        lambda: torch.nn.Parameter(torch.ones(3)),
        "requires grad",
        "detach()",
        lambda t: t.detach(),
    ),
    "sparse coo": (
        lambda: _sparse(torch.sparse_coo),
        "sparse_coo",
        "to_dense()",
        lambda t: t.to_dense(),
    ),
    "sparse csr": (
        lambda: _sparse(torch.sparse_csr),
        "sparse_csr",
        "to_dense()",
        lambda t: t.to_dense(),
    ),
    "quantized": (
        lambda: torch.quantize_per_tensor(torch.ones(3), 0.5, 0, torch.qint8),
        "quantized",
        "int_repr()",
        lambda t: t.int_repr(),
    ),
    "fake": (_fake, "fake", "FakeTensorMode", lambda _t: torch.ones(3)),
    "zero": (lambda: torch._efficientzerotensor(3), "zero tensor", "clone()", lambda t: t.clone()),
    "view of a zero": (
        lambda: torch._efficientzerotensor(10)[5:],
        "zero tensor",
        "clone()",
        lambda t: t.clone(),
    ),
    "view of a functional tensor": (
        lambda: torch._to_functional_tensor(torch.arange(10.0)[5:]),
        "functional tensor",
        "outside the transformation",
        torch._from_functional_tensor,
    ),
    "view of a storage that is gone": (
        lambda: _resized(0),
        "storage ends before it",
        "size back",
        _regrown,
    ),
    "view of a storage that is too short": (
        lambda: _resized(36),
        "storage ends before it",
        "size back",
        _regrown,
    ),
    "meta": (
        lambda: torch.ones(3, device="meta"),
        "meta",
        "torch.empty_like(t, device='cpu')",
        lambda t: torch.empty_like(t, device="cpu"),
    ),
    "nested": (
        lambda: _nested(torch.strided),
        "nested",
        "unbind()",
        lambda t: t.unbind()[0],
    ),
    "nested jagged": (
        lambda: _nested(torch.jagged),
        "nested|jagged",
        "unbind()",
        lambda t: t.unbind()[0],
    ),
    **{
        name: (
            lambda name=name: _narrow(getattr(torch, name)),
            name,
            "view(torch.uint8)",
            lambda t: t.view(torch.uint8),
        )
        for name in ("int4", "uint4", "int1", "uint7", "bits8", "bits1x8")
        if hasattr(torch, name)
    },
}
# torch says itself that quantized and nested tensors are on their way out.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*quantiz"),
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors"),
    pytest.mark.filterwarnings("ignore:Sparse"),
    pytest.mark.filterwarnings("ignore:.*empty_like"),
]


@pytest.mark.parametrize("what", TENSORS)
@pytest.mark.parametrize("use", ["borrow", "lend"])
def test_a_tensor_that_means_more_than_its_bytes_is_refused_by_name(what, use):
    """The error names what would be lost and the call that helps; that call does help."""
    make, named, advice, fix = TENSORS[what]
    tensor = make()
    call = gpulend.borrow if use == "borrow" else lambda t: gpulend.lend(t, "numpy")
    with pytest.raises(gpulend.ExportError, match=f"({named}).*{re.escape(advice)}") as caught:
        call(tensor)
    assert isinstance(caught.value, BufferError)
    assert caught.value.code > 0
    fixed = fix(tensor)
    # Of what was made of a meta tensor nobody said the elements.
    np.testing.assert_array_equal(gpulend.borrow(fixed).to_host(), np.array(fixed.tolist()))


@pytest.mark.skipif(not hasattr(torch, "float4_e2m1fn_x2"), reason="a type of newer torch")
def test_a_tensor_of_pairs_is_refused_with_the_call_that_helps():
    """Two elements to a byte are DLPack's lanes, which nobody else reads."""
    tensor = _narrow(torch.float4_e2m1fn_x2)
    with pytest.raises(gpulend.Error, match=r"view\(torch\.uint8\)"):
        gpulend.borrow(tensor)
    assert gpulend.borrow(tensor.view(torch.uint8)).shape == (4,)


def test_a_mended_conjugate_has_the_tensors_values():
    """What is borrowed after the fix is what torch shows, not what the memory held."""
    tensor = _complex().conj()
    assert gpulend.lend(tensor.resolve_conj(), "numpy").tolist() == [1 - 2j, 3 + 4j]
    imaginary = tensor.imag
    assert gpulend.lend(imaginary.resolve_neg(), "numpy").tolist() == [-2.0, 4.0]


def test_a_guard_leaves_plain_tensors_alone():
    """Every flag that can be unset is unset here, so nothing is refused."""
    plain = [
        torch.ones(3),
        torch.ones(()),
        torch.ones(0),
        torch.ones(2, 3).T,
        torch.nn.Parameter(torch.ones(3), requires_grad=False),
        _complex(),
        _complex().imag,
        _complex().conj().conj(),
        torch.ones(3, requires_grad=True).detach(),
        torch.tensor([True, False]),
    ]
    for tensor in plain:
        lease = gpulend.borrow(tensor)
        assert lease.address == tensor.data_ptr() or tensor.numel() == 0
        assert lease.to_host().tolist() == tensor.tolist()


def test_inside_no_grad_a_leaf_that_requires_grad_is_still_refused():
    """`no_grad` changes what is recorded, not what the tensor is."""
    leaf = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        with pytest.raises(gpulend.ExportError, match="requires grad"):
            gpulend.borrow(leaf)
        assert gpulend.borrow(leaf * 2).to_host().tolist() == [2.0, 2.0, 2.0]


def test_inside_inference_mode_tensors_are_lent():
    """A tensor made in inference mode is plain memory."""
    with torch.inference_mode():
        tensor = torch.arange(3.0)
    assert gpulend.lend(tensor, "numpy").tolist() == [0.0, 1.0, 2.0]


def test_a_subclass_is_guarded_like_a_tensor():
    """Subclasses take another route, with the same questions."""

    class Marked(torch.Tensor):
        pass

    plain = torch.arange(3.0).as_subclass(Marked)
    lease = gpulend.borrow(plain)
    assert lease.address == plain.data_ptr()
    assert lease.to_host().tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(gpulend.ExportError, match="requires grad"):
        gpulend.borrow(torch.ones(3, requires_grad=True).as_subclass(Marked))
    with pytest.raises(gpulend.ExportError, match="negative"):
        gpulend.borrow(torch._neg_view(torch.ones(3)).as_subclass(Marked))
    with pytest.raises(gpulend.ExportError, match="conjugate"):
        gpulend.borrow(_complex().conj().as_subclass(Marked))


def test_a_refusal_spoils_nothing():
    """Law 12: the same tensor, mended in place, is then borrowed."""
    tensor = torch.ones(3, requires_grad=True)
    for _ in range(3):
        with pytest.raises(gpulend.ExportError, match="requires grad"):
            gpulend.borrow(tensor)
    tensor.requires_grad_(False)
    gpulend.lend(tensor, "numpy")[0] = 5
    assert tensor.tolist() == [5.0, 1.0, 1.0]


def test_copies_ask_the_same_questions():
    """Neither side of a copy may be a tensor that means something else."""
    lease = gpulend.borrow(np.zeros(3, "float32"))
    negated = torch._neg_view(torch.ones(3))
    with pytest.raises(gpulend.ExportError, match="negative"):
        lease.copy_from(negated)
    with pytest.raises(gpulend.ExportError, match="negative"):
        lease.copy_to(negated)


def test_unchecked_borrowing_is_the_callers_own_choice():
    """`check=False` leaves the questions out, and only there."""
    tensor = torch._neg_view(torch.ones(3))
    assert gpulend.borrow(tensor, check=False).address == tensor.data_ptr()
    with pytest.raises(gpulend.ExportError, match="negative"):
        gpulend.borrow(tensor)
