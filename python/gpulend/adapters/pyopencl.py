"""PyOpenCL: memory of the host, which OpenCL's devices see as far as they share it.

Buffers come in by mapping, shared virtual memory as it is; the last
holder unmaps. Host memory goes out as an `Array` over `USE_HOST_PTR`. Where
a device has memory of its own both would be copies, and are refused: a kernel
writes at which address it sees a buffer. The order is that of a queue: it is
waited for when an array comes in, and when one that went out is dropped.
OpenCL and CUDA share no memory: between them there are copies only.
"""

from __future__ import annotations

from threading import Lock
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
from pyopencl.tools import PooledBuffer

from gpulend._codes import BAD_ARGUMENT, MEANING_LOST, NOT_ZERO_COPY, OTHER_DEVICE_WANTED
from gpulend.adapters import count_wait
from gpulend.adapters.interface import (
    PLAIN,
    Adapter,
    Consumer,
    Makes,
    Probe,
    Producer,
    Takes,
    made_of,
)
from gpulend.exceptions import ExportError, ProtocolError

_WHERE = "kernel void where_is(global const uchar *p, global ulong *at) { *at = (ulong)p; }"
_FLAGS = cl.mem_flags
# That kernel and where it writes, by context; and the queue for those who name none.
_PROBES: dict[Any, tuple[Any, Any]] = {}
_LOCK = Lock()
_QUEUES: list[Any] = []


def place(array: Any) -> None:
    """Refuse what is not plain memory. All else is the host's, once it is mapped."""
    plain = isinstance(array, (cla.Array, cl.SVMPointer, cl.Buffer, PooledBuffer))
    if not plain:
        raise ExportError(
            f"a {type(array).__name__} of OpenCL is not a plain array; copy it to a buffer first: "
            "`pyopencl.enqueue_copy(queue, buffer, image, …)`",
            MEANING_LOST,
        )


def stand_in(array: Any, _stream: int | None, ready_on: object) -> Any:
    """Return an array of the host over the same memory, once the work of its queue is done."""
    if not isinstance(array, cla.Array):
        mapped, release, readonly = _map(array, _settled(array, ready_on))
        return _Mapped(mapped.__array_interface__, mapped.ctypes.data, readonly, release)
    if array.base_data is None:
        return np.empty(array.shape, array.dtype)
    for event in array.events:
        event.wait()
    mapped, release, readonly = _map(array.base_data, _settled(array, ready_on))
    seen = {"shape": array.shape, "strides": array.strides, "typestr": array.dtype.str}
    return _Mapped(seen, mapped.ctypes.data + array.offset, readonly, release)


class _Mapped:
    """Memory that the host may use until this object goes."""

    def __init__(self, seen: Any, address: int, readonly: bool, release: Any) -> None:
        self._release = release
        keys = ("shape", "strides", "typestr")
        self._interface = {"version": 3, **{key: seen[key] for key in keys}}
        self._interface["data"] = (address, readonly)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self._interface

    def __del__(self) -> None:
        if (event := self._release()) is not None:
            event.wait()


def _settled(array: Any, ready_on: object) -> Any:
    """Wait for the queue that an array is used on, and return it; None if it is ready without."""
    if isinstance(ready_on, str) and ready_on == "now":
        return None
    if isinstance(ready_on, cl.Event):
        ready_on.wait()
        ready_on = ready_on.command_queue
    if ready_on is None:
        ready_on = getattr(array, "queue", None) or getattr(array, "_queue", None)
    if not isinstance(ready_on, cl.CommandQueue):
        raise ProtocolError(
            f"a {type(array).__name__} of OpenCL does not say on which queue it is used; name it: "
            "`gpulend.borrow(array, ready_on=queue)`, or an event of it; "
            'fine-grained SVM may be ready_on="now"',
            BAD_ARGUMENT,
        )
    count_wait("pyopencl")
    ready_on.finish()
    return ready_on


def _map(memory: Any, queue: Any) -> tuple[Any, Any, bool]:
    """Map memory: return an array over it, how to unmap it, and whether the host may only read."""
    if isinstance(memory, cl.SVMPointer):
        if queue is None:
            seen = memory.mem if isinstance(memory, cl.SVM) else memory.buf
            return np.asarray(seen), _keep(memory), False
        svm = memory.map_rw(queue)
        return svm.array, svm.release, False
    if queue is None:
        raise ProtocolError(
            "a buffer is mapped by a queue; name it: `ready_on=queue`", BAD_ARGUMENT
        )
    flags = memory.get_info(cl.mem_info.FLAGS)
    if flags & _FLAGS.HOST_NO_ACCESS:
        raise ExportError(
            "the buffer was made without access for the host (HOST_NO_ACCESS)", OTHER_DEVICE_WANTED
        )
    readonly = bool(flags & _FLAGS.HOST_READ_ONLY)
    how = cl.map_flags.READ if readonly else cl.map_flags.READ | cl.map_flags.WRITE
    size = memory.get_info(cl.mem_info.SIZE)
    # Asked first: what is mapped is the host's alone.
    seen = _seen_at(queue, memory)
    mapped, _ = cl.enqueue_map_buffer(queue, memory, how, 0, (size,), np.uint8)
    if seen != mapped.ctypes.data:
        mapped.base.release(queue)
        raise ExportError(
            f"{queue.device.name} has memory of its own, so a mapping is a copy; "
            "copy it by OpenCL (`array.get()`), or use shared virtual memory",
            NOT_ZERO_COPY,
        )
    return mapped, lambda: mapped.base.release(queue), readonly


def _keep(memory: Any) -> Any:
    # The function is what keeps the memory.
    def release(_memory: Any = memory) -> None:
        return None

    return release


def _seen_at(queue: Any, buffer: Any) -> int:
    """Return the address at which kernels see a buffer."""
    context, at = queue.context, np.zeros(1, np.uint64)
    with _LOCK:
        if context not in _PROBES:
            # A program has few contexts, and need not keep them for this.
            for oldest in list(_PROBES)[:-7]:
                del _PROBES[oldest]
            where_is = cl.Program(context, _WHERE).build().where_is
            _PROBES[context] = where_is, cl.Buffer(context, _FLAGS.READ_WRITE, at.nbytes)
        kernel, out = _PROBES[context]
        asked = kernel(queue, (1,), None, buffer, out)
        cl.enqueue_copy(queue, at, out, wait_for=[asked])
    return int(at[0])


def _own_queue() -> Any:
    """Return a queue of a device that shares the host's memory, or else of PyOpenCL's choice."""
    if not _QUEUES:
        devices = [device for platform in cl.get_platforms() for device in platform.get_devices()]
        shared = [device for device in devices if device.host_unified_memory]
        context = cl.Context(shared[:1]) if shared else cl.create_some_context(interactive=False)
        _QUEUES.append(cl.CommandQueue(context))
    return _QUEUES[0]


class _Held(np.ndarray):
    """Bytes that a buffer of OpenCL uses; they are released when the queue's work is done."""

    queue: Any = None

    def __del__(self) -> None:
        if self.queue is not None:
            self.queue.finish()


def _make(lease: Any, queue: Any, copy: bool) -> Any:
    queue = queue or _own_queue()
    if not isinstance(queue, cl.CommandQueue):
        raise ProtocolError(f"stream={queue!r} is not a pyopencl.CommandQueue", BAD_ARGUMENT)
    dtype = np.dtype(lease.dtype.name)
    if not lease.size:
        return cla.empty(queue, lease.shape, dtype)
    view = np.from_dlpack(lease)
    if copy:
        return cla.to_device(queue, np.ascontiguousarray(view))
    # The span of all elements, whatever lies between them; strides are not negative.
    span = dtype.itemsize + sum(
        (extent - 1) * stride for extent, stride in zip(view.shape, view.strides, strict=True)
    )
    # With an ellipsis, what has no axes stays a view too.
    corner: Any = (..., *[slice(1)] * view.ndim)
    first = view[corner].reshape(1).view(np.uint8)
    held = np.lib.stride_tricks.as_strided(first, (span,), (1,)).view(_Held)
    held.queue = queue
    buffer = cl.Buffer(queue.context, _FLAGS.READ_WRITE | _FLAGS.USE_HOST_PTR, hostbuf=held)
    return cla.Array(queue, view.shape, dtype, data=buffer, strides=view.strides)


def _zeros(shape: tuple[int, ...], dtype: str) -> Any:
    queue = cl.CommandQueue(cl.create_some_context(interactive=False))
    return cla.to_device(queue, np.zeros(shape, dtype))


ADAPTER = Adapter(
    producers=(
        Producer(
            knows=made_of(
                ("pyopencl", "Array"),
                ("pyopencl", "SVMPointer"),
                ("pyopencl", "MemoryObjectHolder"),
            ),
            place=place,
            stand_in=stand_in,
            protocol="OpenCL mapping",
            call="map",
        ),
    ),
    consumer=Consumer(
        takes=Takes(types=PLAIN),
        makes=Makes(for_queue=_make),
        address=lambda array: _seen_at(array.queue, array.base_data) + array.offset,
    ),
    probe=Probe(address=lambda array: int(array.map_to_host().ctypes.data), host=_zeros),
)
