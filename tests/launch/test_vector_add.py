"""The documents' two kernels on arrays of every framework, alone and mixed; values exact."""

from __future__ import annotations

import gpulend
import numpy as np
import pytest
from gpu.resources import need, only_real, only_simulated
from gpulend import simulator

from .arrays import (
    MAKERS,
    READ_ONLY,
    VECTOR_ADD,
    WRITABLE,
    N,
    add_one,
    compiled,
    numbers,
    right_launch,
    vector_add,
)

BLOCKS = 4  # of 256 threads: 24 of them have nothing to do


@pytest.mark.parametrize("c", WRITABLE)
@pytest.mark.parametrize("b", MAKERS)
@pytest.mark.parametrize("a", MAKERS)
def test_vector_add_takes_any_mixture(a, b, c):
    """Each framework in each place; the result is there for the output's own framework."""
    first, then, last = MAKERS[a](), MAKERS[b](), MAKERS[c]()
    left, right = numbers(start=1), numbers(start=2)
    out = last.of(np.full(N, -7, np.float32))
    returned = vector_add()[BLOCKS, 256](first.of(left), then.of(right), out, N)
    assert returned is None
    np.testing.assert_array_equal(last.values(out), left + right)


def test_five_frameworks_in_one_launch():
    """All that are here at once, read-only ones too."""
    makers = [MAKERS[name]() for name in MAKERS if name != "tensorflow"]
    source = """
    extern "C" __global__ void sum5(const float *a, const float *b, const float *c,
                                    const float *d, const float *e, float *out, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) out[i] = a[i] + b[i] + c[i] + d[i] + e[i];
    }"""
    hosts = [np.arange(N, dtype=np.float32) * (k + 1) for k in range(5)]
    arrays = [maker.of(host) for maker, host in zip(makers, hosts, strict=False)]
    out = gpulend.zeros(N, "float32")
    compiled(source)["sum5"][BLOCKS, 256](*arrays[:5], out, N)
    np.testing.assert_array_equal(out.to_host(), np.arange(N) * 15)


@pytest.mark.parametrize("framework", WRITABLE)
def test_add_one_writes_in_place(framework):
    """The other document's launch, grid and block spelled as there."""
    maker = MAKERS[framework]()
    array = maker.of(np.arange(1024, dtype=np.float32))
    add_one()[(4, 1), (256, 1, 1)](array)
    np.testing.assert_array_equal(maker.values(array), np.arange(1, 1025))


@pytest.mark.parametrize("framework", WRITABLE)
def test_launches_follow_each_other(framework):
    """Ten launches on one array, nothing waited for in between."""
    maker = MAKERS[framework]()
    array = maker.of(np.zeros(64, np.float32))
    for _ in range(10):
        add_one()[2, 32](array)
    assert maker.values(array).tolist() == [10.0] * 64


@pytest.mark.parametrize("framework", READ_ONLY)
def test_add_one_never_writes_an_immutable_array(framework):
    """It is refused; a copy is written, and goes back to its framework."""
    maker = MAKERS[framework]()
    before = np.arange(1024, dtype=np.float32)
    array = maker.of(before)
    with pytest.raises(gpulend.SignatureError, match=r"add_one.*const"):
        add_one()[4, 256](array)
    np.testing.assert_array_equal(maker.values(array), before)
    copy = gpulend.empty_like(array, device="cuda:0")
    copy.copy_from(array)
    add_one()[4, 256](copy)
    np.testing.assert_array_equal(maker.values(copy.lend(framework)), before + 1)
    np.testing.assert_array_equal(maker.values(array), before)


@only_simulated
@pytest.mark.parametrize("n", [1, 31, 32, 33, 255, 256, 257])
def test_a_stand_in_is_complete_when_the_call_returns(n):
    """A CPU tensor knows no stream: its user looks at once, through a view made before."""
    torch = MAKERS["torch"]()
    out = torch.of(np.zeros(n, np.float32))
    seen = out.numpy()
    vector_add().forall(n)(gpulend.full(n, 3, "float32"), torch.of(numbers(n)), out, n)
    np.testing.assert_array_equal(seen, numbers(n) + 3)


@only_simulated
@pytest.mark.parametrize("held", ["borrowed", "lent"])
def test_a_lease_that_a_cpu_framework_holds_is_complete_too(held):
    """What is seen through torch is there, though the argument is a lease."""
    torch = MAKERS["torch"]()
    if held == "borrowed":
        tensor = torch.of(np.zeros(N, np.float32))
        lease = gpulend.borrow(tensor)
    else:
        lease = gpulend.zeros(N, "float32")
        tensor = lease.lend("torch")
    a, b = (gpulend.from_host(numbers(start=k)) for k in (1, 2))
    vector_add()[BLOCKS, 256](a, b, lease, N)
    np.testing.assert_array_equal(tensor.numpy(), numbers(start=1) + numbers(start=2))


@pytest.mark.parametrize("grid", [BLOCKS, (BLOCKS,), (BLOCKS, 1), (BLOCKS, 1, 1), np.int64(BLOCKS)])
@pytest.mark.parametrize("block", [256, (256,), (256, 1), (256, 1, 1), [256, 1]])
def test_sizes_are_said_in_one_to_three_numbers(grid, block):
    """As users of CUDA spell them."""
    a, b = numbers(start=1), numbers(start=2)
    out = gpulend.zeros(N, "float32")
    block = tuple(block) if isinstance(block, list) else block
    vector_add()[grid, block](gpulend.from_host(a), gpulend.from_host(b), out, N)
    np.testing.assert_array_equal(out.to_host(), a + b)


def test_grid_and_block_have_three_axes():
    """Each thread writes its own six numbers where they say."""
    source = """
    extern "C" __global__ void places(int *out) {
        int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
        int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
        int size = blockDim.x * blockDim.y * blockDim.z;
        out[block * size + thread] = blockIdx.z * 100000 + blockIdx.y * 10000 + blockIdx.x * 1000
            + threadIdx.z * 100 + threadIdx.y * 10 + threadIdx.x;
    }"""
    out = gpulend.zeros((2, 3, 4, 5, 6, 7), "int32")
    compiled(source)["places"][(4, 3, 2), (7, 6, 5)](out)
    z, y, x, c, b, a = np.indices(out.shape)
    wanted = z * 100000 + y * 10000 + x * 1000 + c * 100 + b * 10 + a
    np.testing.assert_array_equal(out.to_host(), wanted)


def test_launch_is_the_same_as_a_method():
    """For sizes that a program computes; arguments are a sequence."""
    a, b = numbers(start=1), numbers(start=2)
    for arguments in (tuple, list):
        out = gpulend.zeros(N, "float32")
        words = arguments([gpulend.from_host(a), gpulend.from_host(b), out, N])
        assert vector_add().launch(BLOCKS, 256, words) is None
        np.testing.assert_array_equal(out.to_host(), a + b)
        assert vector_add().launch((BLOCKS,), (256,), words, 0, gpulend.Stream()) is None


@pytest.mark.parametrize("n", [1, 100, 1024, 1025, 100_000])
def test_forall_covers_each_element(n):
    """Its grid and block are enough for n threads, whatever the block is."""
    a, b = numbers(n, 1), numbers(n, 2)
    out = gpulend.zeros(n, "float32")
    assert vector_add().forall(n)(gpulend.from_host(a), gpulend.from_host(b), out, n) is None
    np.testing.assert_array_equal(out.to_host(), a + b)


def test_forall_of_nothing_launches_nothing():
    """Even where the kernel would write."""
    array = gpulend.full(8, 5, "float32")
    before = launches()
    add_one().forall(0)(array)
    assert launches() == before
    assert array.to_host().tolist() == [5.0] * 8
    right_launch()


def launches():
    """Return how many launches the simulated GPU saw."""
    try:
        calls = simulator.report()["calls"]
    except gpulend.NoDeviceError:
        return 0
    return sum(count for name, count in calls.items() if name.startswith("cuLaunchKernel"))


def test_a_launch_of_forall_can_be_kept():
    """The same sizes for many launches."""
    go = add_one()[2, 32]
    array = gpulend.zeros(64, "float32")
    for _ in range(3):
        go(array)
    assert array.to_host().tolist() == [3.0] * 64


def test_one_array_may_come_twice():
    """c = a + a, and in place."""
    lease = gpulend.from_host(numbers())
    vector_add()[BLOCKS, 256](lease, lease, lease, N)
    np.testing.assert_array_equal(lease.to_host(), numbers() * 2)


def of_the_cpu(framework):
    """Make a tensor that a framework keeps on the host, though it may have a GPU."""
    if framework == "torch":
        return need("torch").zeros(N)
    tf = need("tensorflow")
    with tf.device("/CPU:0"):
        return tf.zeros(N)


@only_real
@pytest.mark.parametrize("framework", ["torch", "tensorflow"])
def test_a_tensor_of_the_cpu_is_refused_on_a_real_gpu(framework):
    """The error says how it comes to the GPU."""
    tensor = of_the_cpu(framework)
    out = gpulend.zeros(N, "float32")
    with pytest.raises(gpulend.SignatureError, match=r"vectorAdd.*argument 1 \(a\).*cpu") as caught:
        vector_add()[BLOCKS, 256](tensor, out, out, N)
    assert 820 <= caught.value.code <= 849
    right_launch()


def test_the_source_has_the_documents_signature():
    """Names and types as written."""
    assert (
        compiled(VECTOR_ADD)["vectorAdd"].signature
        == "vectorAdd(const float* a, const float* b, float* c, int n)"
    )
    assert add_one().signature == "add_one(float* array)"
