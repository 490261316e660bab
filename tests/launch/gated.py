"""Leases of whole numbers whose newest ones wait behind a gate, and kernels that read them."""

from __future__ import annotations

import gpulend

from .arrays import compiled

SIZE = 512
STALE = 99
SOURCE = """
extern "C" __global__ void plus(const int *from, int *to, int by) {
    to[blockIdx.x * blockDim.x + threadIdx.x] = from[blockIdx.x * blockDim.x + threadIdx.x] + by;
}
extern "C" __global__ void both(const int *a, const int *b, int *to) {
    to[blockIdx.x * blockDim.x + threadIdx.x] = a[blockIdx.x * blockDim.x + threadIdx.x]
        * 1000 + b[blockIdx.x * blockDim.x + threadIdx.x];
}
extern "C" __global__ void count(int *total) { atomicAdd(total, 1); }
"""


def kernel(name):
    """Return a kernel for SIZE threads, loaded: loading may wait for the GPU."""
    made = compiled(SOURCE)[name]
    made.attributes
    return made[SIZE // 64, 64]


def ints(number):
    """Return a lease full of a number, on the current stream."""
    return gpulend.full(SIZE, number, "int32")


def held_back(gate, stream, number):
    """Return a lease whose newest numbers wait behind a gate on a stream."""
    with stream:
        lease = ints(STALE)
        newest = ints(number)
        stream.synchronize()
        gate.hold(stream)
        lease.copy_from(newest)
    return lease


def only(lease):
    """Return the one number that a lease is full of."""
    found = set(lease.to_host().tolist())
    assert len(found) == 1, found
    return found.pop()
