"""Code for processors before `sm_70`: shuffles and votes without a mask, in PTX written by hand."""

from __future__ import annotations

from ctypes import c_uint64

import pytest

from .cuda import SIMULATED, check
from .kernels import Module, launch, words
from .resources import Resources

LANES = 32
PTX = b"""
.version 6.0
.target sm_50
.address_size 64

.visible .entry whole(.param .u64 out)
{
    .reg .b32 %r<9>; .reg .b64 %rd<4>; .reg .pred %p<3>;
    ld.param.u64 %rd1, [out]; mov.u32 %r1, %laneid;
    mul.wide.u32 %rd2, %r1, 8; add.u64 %rd1, %rd1, %rd2;
    and.b32 %r2, %r1, 3; setp.eq.u32 %p1, %r2, 0;
    mul.lo.u32 %r3, %r1, 10;
    shfl.down.b32 %r4|%p2, %r3, 1, 31;
    vote.ballot.b32 %r5, %p1;
    @!%p2 mov.u32 %r4, 7;
    st.global.u32 [%rd1], %r4; st.global.u32 [%rd1+4], %r5;
    ret;
}

.visible .entry parted(.param .u64 out)
{
    .reg .b32 %r<9>; .reg .b64 %rd<4>; .reg .pred %p<3>;
    ld.param.u64 %rd1, [out]; mov.u32 %r1, %laneid;
    mul.wide.u32 %rd2, %r1, 8; add.u64 %rd1, %rd1, %rd2;
    setp.lt.u32 %p1, %r1, 8; setp.ge.u32 %p2, %r1, 0;
    @%p1 bra FEW;
    shfl.idx.b32 %r4, %r1, 20, 31;
    vote.ballot.b32 %r5, %p2;
    bra.uni MEET;
FEW:
    shfl.idx.b32 %r4, %r1, 3, 31;
    vote.ballot.b32 %r5, %p2;
MEET:
    bar.sync 0;
    st.global.u32 [%rd1], %r4; st.global.u32 [%rd1+4], %r5;
    ret;
}
\0"""


def _pairs(gpu: Resources, name: str) -> list[tuple[int, int]]:
    out = gpu.alloc(8 * LANES)
    check(launch(Module(gpu, PTX)[name], c_uint64(out), block=(LANES, 1, 1)))
    found = words(out, 2 * LANES)
    return list(zip(found[::2], found[1::2], strict=True))


def test_all_lanes_take_part(gpu: Resources) -> None:
    """The last one reads outside of its segment, and is told so."""
    wanted = [(10 * (lane + 1), 0x11111111) for lane in range(LANES)]
    assert _pairs(gpu, "whole") == [*wanted[:-1], (7, 0x11111111)]


@pytest.mark.skipif(not SIMULATED, reason="a newer GPU may part lanes elsewhere")
def test_lanes_that_arrive_together_take_part(gpu: Resources) -> None:
    """Those in another branch are not waited for: it ends at a barrier of all."""
    few, others = (3, 0x000000FF), (20, 0xFFFFFF00)
    assert _pairs(gpu, "parted") == [few] * 8 + [others] * 24
