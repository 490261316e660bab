"""Descriptions that do not suit their kernel are refused when they are made, by both frameworks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gpulend
import pytest

from .conftest import need
from .kernels import ADD_TO, BIAS_GELU, SCALE, SCALE_BACKWARD, SOURCE, kernel, one_each

torch, jax = need("torch"), need("jax")
import gpulend.jax  # noqa: E402  both are there
import gpulend.torch  # noqa: E402

MAKERS: dict[str, Callable[..., Any]] = {
    "torch": lambda kernel, **description: gpulend.torch.op(
        "gpulend_tests::wrong", kernel, **description
    ),
    "jax": gpulend.jax.call,
}
# A kernel, a description, and what is said about it.
WRONG: dict[str, tuple[str, dict[str, Any], str]] = {
    "unknown output": (
        "scale",
        {**SCALE, "outputs": {"Y": "x"}},
        r"outputs= names 'Y', which scale\(.*\) does not have; there is x, y, by, n; did you mean "
        r"'y'",
    ),
    "unknown value": (
        "scale",
        {**SCALE, "values": {"count": 3}},
        r"values= names 'count', which scale\(.*\) does not have",
    ),
    "const output": (
        "scale",
        {**SCALE, "outputs": {"x": (3,)}},
        r"the output x is a const float\*, which the kernel cannot write; leave x out",
    ),
    "output that is a number": (
        "scale",
        {**SCALE, "outputs": {"by": (3,)}},
        "the output by is a float, which is no pointer",
    ),
    "output without elements": (
        "raw",
        one_each("x", outputs={"y": "x"}),
        r"the output y is a void\*, which says nothing about its elements; give dtypes=",
    ),
    "elements that do not fit": (
        "scale",
        {**SCALE, "dtypes": {"y": "float64"}},
        r"dtypes= gives the output y elements of 'float64', and float\* takes float32",
    ),
    "dtype of no output": (
        "scale",
        {**SCALE, "dtypes": {"x": "float32"}},
        "dtypes= names 'x', which outputs= does not have; there is y",
    ),
    "zeroed that is no output": (
        "scale",
        {**SCALE, "zeroed": ["x"]},
        "zeroed= names 'x', which outputs= does not have; there is y",
    ),
    "value of an array": (
        "scale",
        {"outputs": {"y": (3,)}, "values": {"x": 3, "n": 3}, "elements": 3},
        r"values= gives x, which is a const float\*; an array is an input",
    ),
    "output and value": (
        "scale",
        {**SCALE, "values": {"y": 3}},
        "y is in outputs= and in values=",
    ),
    "shape of an unknown array": (
        "scale",
        {**SCALE, "outputs": {"y": "z"}},
        "the shape of y is that of 'z', which is no array that the operation takes; there is x",
    ),
    "shape that is a float": (
        "scale",
        {**SCALE, "outputs": {"y": 2.5}},
        "the shape of y is 2.5; give an int, a tuple of them, the name of an array, or a function",
    ),
    "function of an unknown input": (
        "scale",
        {**SCALE, "outputs": {"y": lambda z: z.shape}},
        "the shape of y is a function of 'z', which is no input of the operation; there is x, by",
    ),
    "function of many": (
        "scale",
        {**SCALE, "outputs": {"y": lambda *arrays: (3,)}},
        r"the shape of y is a function with \*arrays; give one whose parameters are inputs",
    ),
    "no size": (
        "scale",
        {**SCALE, "elements": None},
        "the size of a launch is given by nothing; give elements= .*, or grid= and block=",
    ),
    "grid without a block": (
        "scale",
        {**SCALE, "elements": None, "grid": 3},
        "the size of a launch is given by grid=; give elements=",
    ),
    "two sizes": (
        "scale",
        {**SCALE, "grid": 3, "block": 4},
        "the size of a launch is given by elements= and grid= and block=",
    ),
    "struct": (
        "paired",
        one_each("x", outputs={"y": "x"}),
        "pair is a Pair, which no framework has a value for; give it once: values=",
    ),
    "no result": ("reads", one_each("x"), "the operation has no result: every pointer of reads"),
    "no array": (
        "makes",
        {"outputs": {"y": (3,)}, "values": {"n": 3}, "elements": 3},
        "the operation takes no array, so nothing says on which device it works",
    ),
    "batches": ("scale", {**SCALE, "vmap": "parallel"}, "vmap='parallel'; give 'sequential'"),
    "backward of what is in place": (
        "add_to",
        {**ADD_TO, "backward": lambda *arrays: arrays},
        r"what changes an array in place \(x\) has no backward",
    ),
    "backward that is a number": ("scale", {**SCALE, "backward": 7}, "backward= is a int"),
}


@pytest.mark.parametrize("framework", MAKERS)
@pytest.mark.parametrize("mistake", WRONG)
def test_a_wrong_description_is_refused(framework: str, mistake: str) -> None:
    """What was found, what is there, and what to give instead; the next description works."""
    name, description, said = WRONG[mistake]
    with pytest.raises(gpulend.SignatureError, match=said) as caught:
        MAKERS[framework](kernel(name), **description)
    assert caught.value.code == 850
    assert not hasattr(torch.ops.gpulend_tests, "wrong")


@pytest.mark.parametrize("framework", MAKERS)
def test_what_is_no_kernel_is_refused(framework: str) -> None:
    """A module, and a kernel whose parameters have no names or types."""
    with pytest.raises(
        gpulend.SignatureError, match=r"the kernel is a function; give a gpulend.Kern"
    ):
        MAKERS[framework](lambda: None, **SCALE)
    nameless = gpulend.compile(PTX)["nameless"]
    with pytest.raises(gpulend.SignatureError, match="lacks the names or types of parameters"):
        MAKERS[framework](nameless, **SCALE)


PTX = """
.version 7.0
.target sm_70
.address_size 64
.visible .entry nameless(.param .u64 a, .param .u64 b) { ret; }
"""


@pytest.mark.parametrize("framework", MAKERS)
def test_a_backward_is_matched_by_name(framework: str) -> None:
    """What it takes must be known, and every gradient must be made."""
    other = gpulend.compile(SOURCE.replace("grad_y", "grad_z"))["scale_backward"]
    description = one_each("grad_z", outputs={"grad_x": "grad_z"})
    make, count = MAKERS[framework], iter(range(9))
    if framework == "torch":

        def make(kernel: Any, **description: Any) -> Any:
            return gpulend.torch.op(f"gpulend_tests::matched{next(count)}", kernel, **description)

    said = (
        "its backward takes 'grad_z', and the forward has x, by, y, grad_y; did you mean 'grad_y'"
    )
    with pytest.raises(gpulend.SignatureError, match=said):
        make(kernel("scale"), backward=make(other, **description), **SCALE)
    lacking = make(
        kernel("scale_backward"), **{**SCALE_BACKWARD, "values": {"n": "grad_y", "by": 2.0}}
    )
    said = "its backward has no output 'grad_bias'; it has grad_x. If there is no such gradient"
    with pytest.raises(gpulend.SignatureError, match=said):
        make(kernel("bias_gelu<float>"), backward=lacking, **BIAS_GELU)


def test_names_of_operations_of_torch() -> None:
    """A namespace and a name, once in a process."""
    for name in ("scale", "a::b::c", "a::", "a b::c", "a::b.c"):
        with pytest.raises(gpulend.SignatureError, match="give a namespace and a name"):
            gpulend.torch.op(name, kernel("scale"), **SCALE)
    scale = gpulend.torch.op("gpulend_tests::once", kernel("scale"), **SCALE)
    with pytest.raises(gpulend.SignatureError, match="torch has an operation of this name already"):
        gpulend.torch.op("gpulend_tests::once", kernel("scale"), **SCALE)
    assert scale is torch.ops.gpulend_tests.once.default
    with pytest.raises(gpulend.SignatureError, match="torch has an operation of this name already"):
        gpulend.torch.op("aten::add", kernel("scale"), **SCALE)


def test_neither_framework_is_imported_before_it_is_asked_for() -> None:
    """`import gpulend` stays as quick as it was."""
    import subprocess
    import sys

    program = (
        "import gpulend, sys; from gpulend import operations; "
        "assert not {'torch', 'jax'} & set(sys.modules); gpulend.torch.op; assert 'torch' in "
        "sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
