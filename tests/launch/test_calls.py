"""Other spellings of a launch: arguments by name, `[grid, block, stream, shared]`; occupancy."""

from __future__ import annotations

import gpulend
import numpy as np
import pytest
from gpu.resources import SIMULATED, stuck

from .arrays import compiled, right_launch

SOURCE = """
extern "C" __global__ void scale(float *x, float by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= by;
}
extern "C" __global__ void shared_size(unsigned *out) {
    unsigned size;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(size));
    *out = size;
}
extern "C" __global__ void stream(int stream, int *out) { *out = stream; }
"""


def scale():
    """Return a kernel of three named parameters."""
    return compiled(SOURCE)["scale"]


@pytest.mark.parametrize(
    "call",
    [
        lambda k, x: k[1, 8](x=x, by=3.0, n=8),
        lambda k, x: k[1, 8](n=8, by=3.0, x=x),
        lambda k, x: k[1, 8](x, n=8, by=3.0),
        lambda k, x: k[1, 8](x, 3.0, n=8, stream=gpulend.Stream()),
        lambda k, x: k.forall(8)(x, by=3.0, n=8),
        lambda k, x: k[1, 8, gpulend.Stream()](x, 3.0, 8),
        lambda k, x: k[1, 8, None, 16](x, 3.0, 8),
        lambda k, x: k[1, 8, 0, 16](x, n=8, by=3.0),
        lambda k, x: k[(1,), (8, 1), gpulend.Stream(), np.int64(0)](x, 3.0, 8),
    ],
)
def test_every_spelling_launches(gpu, call):
    """With the arguments in the places of their parameters."""
    x = gpulend.full(8, 2.0)
    gpulend.synchronize()
    call(scale(), x)
    assert x.to_host().tolist() == [6.0] * 8


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda k, x: k[1, 8](x, x=x, by=1.0, n=8), TypeError, "x is given by position and by"),
        (lambda k, x: k[1, 8](x, 1.0, 8, n=8), TypeError, "n is given by position and by name"),
        (lambda k, x: k[1, 8](x, n=8), gpulend.SignatureError, "by is not given"),
        (lambda k, x: k[1, 8](x, 1.0, m=8), TypeError, "m is not a keyword.*float. x, float by"),
        (lambda k, x: k[1, 8](x, 1.0, 8, 9, by=2.0), TypeError, "by is given by position"),
        (lambda k, x: k[1, 8](x=x, by="2", n=8), gpulend.SignatureError, "argument 2 .by."),
        (lambda k, x: k[1, 8, None, 4](x, 1.0, 8, shared=4), TypeError, "given twice"),
        (lambda k, x: k[1, 8, 1](x, 1.0, 8, stream=1), TypeError, "given twice"),
        (lambda k, x: k[1, 8, None, "4"](x, 1.0, 8), gpulend.SignatureError, "number of bytes"),
        (lambda k, x: k[1, 8, "legacy"](x, 1.0, 8), gpulend.ProtocolError, "is not a stream"),
        (lambda k, x: k[1, 8, None, 4, 5](x, 1.0, 8), TypeError, "kernel.grid, block."),
        (lambda k, x: k[1, 8, None, -1](x, 1.0, 8), gpulend.KernelError, "-1"),
    ],
)
def test_a_wrong_spelling_is_refused(gpu, call, error, text):
    """Before anything is queued; the next launch works."""
    x = gpulend.full(8, 2.0)
    with pytest.raises(error, match=text):
        call(scale(), x)
    assert x.to_host().tolist() == [2.0] * 8
    right_launch()


def test_parameters_without_names_are_given_by_position(gpu):
    """As those of PTX; the error says so."""
    ptx = gpulend.compiler.to_ptx(SOURCE)
    kernel = gpulend.compile(ptx)["scale"]
    x = gpulend.full(8, 2.0)
    with pytest.raises(TypeError, match="pass arguments by position"):
        kernel[1, 8](x, np.float32(1), count=8)
    kernel[1, 8](x, np.float32(2), 8)
    assert x.to_host().tolist() == [4.0] * 8


def test_shared_memory_and_the_stream_of_the_brackets_are_those_of_the_launch(gpu):
    """Numba's order; a keyword of the same name as a parameter is the launch's."""
    out = gpulend.zeros((), "uint32")
    gpulend.synchronize()
    compiled(SOURCE)["shared_size"][1, 1, None, 1234](out)
    assert out.item() == 1234
    gate, stream = gpu.gate(), gpulend.Stream()
    gate.hold(stream)
    compiled(SOURCE)["shared_size"][1, 1, stream, 96](out)
    assert gate.closed
    assert stuck(stream), "the launch is on another stream"
    gate.open()
    assert out.item() == 96
    number = gpulend.zeros((), "int32")
    compiled(SOURCE)["stream"][1, 1](7, number, stream=stream)
    assert number.item() == 7


def test_a_kept_launcher_keeps_its_stream(gpu):
    """The stream's object is dropped, and the launcher used again and again."""
    x = gpulend.full(8, 1.0)
    gpulend.synchronize()
    twice = scale()[1, 8, gpulend.Stream()]
    for _ in range(4):
        twice(x, 2.0, 8)
    assert x.to_host().tolist() == [16.0] * 8


GRID = """
extern "C" __global__ void place(int *out, int depth, int height, int width) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x < width && y < height && z < depth)
        out[(z * height + y) * width + x] += z * 10000 + y * 100 + x;
}
"""


@pytest.mark.parametrize(
    "shape", [(7,), (5, 9), (40, 70), (3, 5, 7), (2, 40, 33), (1, 1), (70, 1), (100, 1, 1)]
)
def test_a_shape_is_a_grid(gpu, shape):
    """One thread for each element, x along the last axis."""
    whole = (1,) * (3 - len(shape)) + shape
    out = gpulend.zeros(shape, "int32")
    compiled(GRID)["place"].forall(shape)(out, *whole)
    z, y, x = np.indices(whole)
    np.testing.assert_array_equal(out.to_host(), (z * 10000 + y * 100 + x).reshape(shape))


def test_a_shape_without_elements_is_no_launch(gpu):
    """And what is not a shape is refused."""
    place = compiled(GRID)["place"]
    out = gpulend.zeros(1, "int32")
    place.forall((3, 0))(out, 1, 1, 1)
    assert out.item() == 0
    for wrong in ((1, 2, 3, 4), (), "3", (2, 1.5)):
        with pytest.raises(gpulend.SignatureError, match="a shape of up to three axes"):
            place.forall(wrong)
    with pytest.raises(gpulend.KernelError):
        place.forall((3, -1))
    with pytest.raises(gpulend.KernelError):
        place.forall((2**40, 1, 1))(out, 1, 1, 1)
    assert repr(place.forall((2, 3))) == "<gpulend.Launcher place.forall((1, 2, 3))>"


def test_occupancy_is_what_the_driver_says(gpu):
    """And the suggested size is a valid and a good one."""
    kernel = scale()
    grid, block = kernel.best_size()
    best = kernel.occupancy(block)
    for threads in (32, 64, 128, 256, 512, 1024):
        blocks = kernel.blocks_per_multiprocessor(threads)
        assert blocks >= 1
        assert 0 < kernel.occupancy(threads) <= best <= 1
    assert kernel.occupancy((8, 4, 2)) == kernel.occupancy(64)
    assert kernel.blocks_per_multiprocessor(64, 16384) < kernel.blocks_per_multiprocessor(64)
    assert kernel.occupancy(64, shared=16384) < kernel.occupancy(64)
    if SIMULATED:
        assert (grid, block, best) == (4, 1024, 1.0)
    x = gpulend.full(block, 1.0)
    kernel[grid, block](x, 2.0, block)
    assert (x.to_host() == 2).all()


def test_occupancy_of_what_cannot_be_launched_is_refused(gpu):
    """With the limit, as for a launch."""
    kernel = scale()
    for block in (2000, 0, -1, (1, 1, 1000)):
        with pytest.raises(gpulend.KernelError):
            kernel.occupancy(block)
    with pytest.raises(gpulend.KernelError, match="shared is"):
        kernel.best_size(shared=1 << 30)
    with pytest.raises(gpulend.SignatureError, match="up to three"):
        kernel.occupancy("x")
