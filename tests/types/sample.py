"""A program that uses every public name, for type checkers: `make check-python` checks it."""

from __future__ import annotations

import ctypes
from types import ModuleType
from typing import TYPE_CHECKING, Any

import gpulend
import numpy as np
from gpulend.adapters import Adapter, Framework, FrameworkName, KnownFramework
from typing_extensions import assert_type

if TYPE_CHECKING:
    import jax
    import torch

SOURCE = """
__device__ int counter;
__global__ void scale(float *x, float y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= y;
}
"""


def main() -> None:
    """Run all of it, on the simulated GPU, with NumPy alone."""
    gpulend.simulate(1, "64MiB", seed=1, check="memory", timeout=10)
    memory()
    leases(gpulend.zeros((2, 3), "float32"))
    hand_overs(gpulend.borrow(np.zeros(3)))
    registered(gpulend.borrow(np.zeros(3)), np)
    kernels()
    order()
    tickets()
    errors()
    warnings_of_gpulend()
    print(f"gpulend {assert_type(gpulend.__version__, str)}")


def memory() -> None:
    """Arrays of our own, of others, and bare addresses."""
    room = (ctypes.c_float * 6)()
    wrapped = gpulend.wrap(ctypes.addressof(room), (2, 3), "float32", owner=room)
    assert_type(wrapped, gpulend.Lease)
    assert_type(gpulend.borrow(np.zeros(3), check=True), gpulend.Lease)
    assert_type(gpulend.empty(3, "float32", "cuda:0"), gpulend.Lease)
    assert_type(gpulend.zeros((2, 3)), gpulend.Lease)
    assert_type(gpulend.full(3, 1.5, gpulend.Dtype("float32")), gpulend.Lease)
    assert_type(gpulend.empty_like(np.zeros(3), device=gpulend.Device("cpu")), gpulend.Lease)
    assert_type(gpulend.zeros_like(np.zeros(3), device="cuda:0"), gpulend.Lease)
    assert_type(gpulend.from_host(np.zeros(3), 0), gpulend.Lease)
    assert_type(gpulend.is_available(), bool)
    assert_type(gpulend.device_count(), int)
    assert_type(gpulend.mem_get_info("cuda:0"), tuple[int, int])
    memory: gpulend.Memory = gpulend.memory("cuda:0")
    assert_type((memory.live, memory.fragmentation, memory.limit), tuple[int, float, int | None])
    assert_type(gpulend.pool.trim(keep=1 << 20, device=0), int)
    with gpulend.pool.use() as using:
        assert_type(using, gpulend.pool.Use)
    passport = gpulend.describe(wrapped)
    assert_type(passport, gpulend.Passport)
    assert_type(passport.uuid, str | None)
    if passport.memory == "host" and passport.known == "host":
        assert_type(passport.base, int)
    held = gpulend.ledger()
    assert_type(held, gpulend.Ledger)
    entry: gpulend.LedgerEntry
    for entry in held:
        assert_type(entry.age, float)


def leases(lease: gpulend.Lease) -> None:
    """What a lease says, its views and its copies."""
    assert_type(lease.shape, tuple[int, ...])
    assert_type(lease.device, gpulend.Device)
    assert_type(lease.dtype.itemsize, int)
    assert_type(lease.T[..., 0].reshape(-1).view("uint32").as_readonly(), gpulend.Lease)
    assert_type([row.size for row in lease], list[int])
    lease.copy_from(np.ones(lease.shape, "float32"))
    host = np.zeros(lease.shape, "float32")
    lease.copy_to(host)
    lease[0, 1:] = 3
    lease[1] = np.ones(3, "float32")
    lease.fill(1)
    assert lease.to_host(out=host, stream=gpulend.Stream()).dtype == "float32"
    assert_type(float(lease[0, 0]), float)
    assert lease.to_host().sum() == lease.size
    with lease.pointer() as address:
        assert_type(int(address), int)
    with lease:
        pass
    assert_type(lease.released, bool)


def hand_overs(lease: gpulend.Lease) -> None:
    """A framework's name says what is returned."""
    array = lease.lend("numpy")
    assert_type(array, "np.ndarray[tuple[Any, ...], np.dtype[Any]]")
    array[0] = 7
    assert gpulend.lend(array, "numpy", stream=None).flags.writeable


def to_torch(lease: gpulend.Lease) -> torch.Tensor:
    """`torch.Tensor` where torch is installed."""
    return gpulend.lend(lease.lend("torch", allow_writable_alias=True), "torch").contiguous()


def to_jax(lease: gpulend.Lease) -> jax.Array:
    """`jax.Array` where JAX is installed."""
    assert_type(gpulend.lend(lease, "jax").ndim, int)
    return lease.lend("jax", copy=True)


def by_choice(lease: gpulend.Lease, name: KnownFramework) -> object:
    """A name that is chosen while the program runs."""
    return lease.lend(name)


def registered(lease: gpulend.Lease, module: ModuleType) -> None:
    """A framework of another package goes by its module, or by a `FrameworkName`."""
    gpulend.register(Framework("blocks", Adapter(), module="building.blocks"))
    blocks = FrameworkName("blocks")
    assert_type(lease.lend(module), Any)
    try:
        assert_type(gpulend.lend(lease, blocks), Any)
    except gpulend.ProtocolError as error:
        assert_type(error.code, int)


def kernels() -> None:
    """Compile, look at, launch and time kernels."""
    module: gpulend.Module = gpulend.compile(SOURCE, compiler="clang", options=["-DX=1"])
    kernel: gpulend.Kernel = module["scale"]
    assert_type(kernel.attributes, dict[str, int])
    launcher: gpulend.Launcher = kernel[2, 128]
    x = gpulend.full(200, 2, "float32")
    with gpulend.timed() as time:
        launcher(x, 0.5, 200)
        kernel.launch((2,), (128, 1), [x, 0.5, 200])
        kernel.forall(200)(x, 2.0, 200)
        kernel.forall((1, 200))(x, 1.0, 200)
        kernel[2, 128](x, n=200, y=1.0)
        kernel[2, 128, None, 64](x, 1.0, 200)
    assert_type(time.milliseconds, float)
    assert_type(kernel.occupancy(128), float)
    assert_type(kernel.blocks_per_multiprocessor((128, 1), 64), int)
    assert_type(kernel.best_size(), tuple[int, int])
    assert_type(module.variable("counter"), gpulend.Lease)
    fma = gpulend.elementwise("T x, T y", "T z", "z = x * y + 1", "fma")
    assert_type(fma, gpulend.Elementwise)
    assert fma(x, 2.0).shape == x.shape
    total = gpulend.reduction("T x", "T y", "x", "a + b", "y = a", "0", "total")
    assert_type(total, gpulend.Reduction)
    assert total(x, axis=0).shape == ()
    assert_type([name for name in module], list[str])


def order() -> None:
    """Streams and events."""
    stream = gpulend.Stream(device="cuda:0")
    with stream:
        assert_type(gpulend.current_stream(), gpulend.Stream)
        event: gpulend.Event = stream.record()
    gpulend.current_stream(0).wait(event)
    event.synchronize()
    gpulend.synchronize()
    least, greatest = gpulend.Stream.priority_range()
    assert_type(gpulend.Stream(priority=greatest).priority, int)
    start = stream.record(timing=True)
    assert_type(start.elapsed(stream.record(timing=True)), float)
    x, y = gpulend.zeros(3), gpulend.zeros(3)
    copy: gpulend.Copy = y.copy_from(x, stream=stream)
    copy.wait()
    assert_type(copy.done, bool)
    assert x.to_host(pinned=True, progress=lambda done, total: None).size == 3
    gpulend.synchronize()
    with gpulend.capture(mode="relaxed") as graph:
        y.copy_from(x)
    assert_type(graph, gpulend.Graph)
    graph.launch(stream)
    assert least >= greatest


def tickets() -> None:
    """Tickets are bytes, and claims are leases."""
    lease = gpulend.zeros(3, "int32", device="cpu", shared=True)
    ticket = lease.ticket(claims=1, keep=5, read_only=True)
    assert_type(ticket, gpulend.Ticket)
    data: bytes = ticket
    assert_type(gpulend.claim(data), gpulend.Lease)
    assert_type(gpulend.claims(gpulend.tickets([lease])), list[gpulend.Lease])
    assert_type(ticket.withdraw(), bool)


def errors() -> None:
    """Each class is caught as a builtin."""
    classes: list[type[gpulend.Error]] = [
        gpulend.AddressError,
        gpulend.CompileError,
        gpulend.DriverError,
        gpulend.ExportError,
        gpulend.KernelError,
        gpulend.LayoutError,
        gpulend.NoDeviceError,
        gpulend.OutOfMemoryError,
        gpulend.OutOfRangeError,
        gpulend.ProtocolError,
        gpulend.ReleasedError,
        gpulend.SignatureError,
        gpulend.StillLentError,
        gpulend.TicketError,
        gpulend.TicketExpiredError,
        gpulend.TicketVersionError,
        gpulend.WrongMachineError,
        gpulend.NotPermittedError,
        gpulend.LenderGoneError,
        gpulend.DeviceNotVisibleError,
        gpulend.NotShareableError,
    ]
    for kind in classes:
        assert_type(kind("text", 1).code, int)
    value: ValueError = gpulend.LayoutError()
    assert not value.args[0]


def warnings_of_gpulend() -> None:
    """They can be filtered by class."""
    kinds: list[type[Warning]] = [gpulend.CompileWarning, gpulend.SecondModuleWarning]
    assert kinds


if __name__ == "__main__":
    main()
