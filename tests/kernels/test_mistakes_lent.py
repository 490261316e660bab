"""The kernels with one mistake each, through gpulend: its errors say what the report does."""

from __future__ import annotations

import re
from pathlib import Path

import gpulend
import numpy as np
import pytest
from driver.control import only_simulated

from .harness import MISTAKES
from .lent import CORPUS, Lent
from .test_mistakes import TABLE, assert_sentence

pytestmark = [only_simulated, pytest.mark.usefixtures("mistaken")]

# Its `char *` is a place within ints: the mistake is what it does with that.
AS_BYTES = ("misaligned_int",)


@pytest.mark.parametrize("name", TABLE)
def test_a_mistake_is_an_error_with_line_and_thread(name: str) -> None:
    """Once; then the next launch gives right numbers."""
    mistake, kernel = TABLE[name], Lent(MISTAKES / f"{name}.cu", name).kernel
    leases = [gpulend.from_host(array) for array in mistake.arrays]
    if name in AS_BYTES:
        leases = [lease.view("uint8") for lease in leases]
    kernel[mistake.grid, mistake.block](*leases, *mistake.numbers, shared=mistake.shared)
    with pytest.raises(gpulend.KernelError) as caught:
        gpulend.synchronize()
    shape, _, sentence = str(caught.value).partition(": ")
    assert re.fullmatch(rf"{name}<<<\({mistake.grid}, 1, 1\), \({mistake.block}, 1, 1\)>>>", shape)
    sentence = sentence.replace(f"{MISTAKES}/", "")
    assert_sentence(sentence, name, mistake.place, mistake.threads, mistake.says)
    gpulend.synchronize()
    assert_alive()


def assert_alive() -> None:
    """See that a right kernel gives right numbers."""
    out = np.zeros(500, np.float32)
    ones = np.ones(500, np.float32)
    Lent(CORPUS / "vectors.cu", "vector_add").launch(4, 128, ones, 2 * ones, out, 500)
    assert set(out.tolist()) == {3.0}


def test_the_nearest_argument_is_named() -> None:
    """Of two, by place and name."""
    values, bins = np.full(64, 16, np.int32), np.zeros(16, np.uint32)
    kernel = Lent(MISTAKES / "atomic_past_end.cu", "atomic_past_end")
    with pytest.raises(gpulend.KernelError, match=r"nearest argument: 2 \(bins\), unsigned int\*"):
        kernel.launch(1, 64, values, bins)


def test_a_null_pointer_is_a_mistake_of_the_kernel_alone() -> None:
    """None is a pointer that may be passed; following it is told."""
    kernel = Lent(MISTAKES / "null_pointer.cu", "null_pointer")
    with pytest.raises(gpulend.KernelError) as caught:
        kernel.launch(1, 32, None)
    assert "null_pointer.cu:" in str(caught.value)
    assert_alive()


def test_a_released_lease_is_refused_before_the_launch() -> None:
    """The use after free that the bare driver can only find when it happens."""
    kernel = Lent(MISTAKES / "use_after_free.cu", "use_after_free").kernel
    lease = gpulend.zeros(16, "int32")
    lease.release()
    with pytest.raises(gpulend.ReleasedError):
        kernel[1, 32](lease)
    assert_alive()


def test_host_memory_is_refused_before_the_launch() -> None:
    """And the error says how it comes to the GPU."""
    kernel = Lent(MISTAKES / "host_memory.cu", "host_memory").kernel
    with pytest.raises(gpulend.SignatureError, match="from_host"):
        kernel[1, 32](np.zeros(16, np.int32))
    assert_alive()


def test_a_module_that_the_gpu_refuses_is_an_error_that_says_why(tmp_path: Path) -> None:
    """At the first launch, which loads it; again at the next."""
    file = tmp_path / "video.cu"
    file.write_text(
        """extern "C" __global__ void video(int *x) {
            asm volatile("vadd.s32.s32.s32 %0, %1, 1;" : "=r"(x[0]) : "r"(x[1]));
        }"""
    )
    kernel = Lent(file, "video").kernel
    for _ in range(2):
        with pytest.raises(gpulend.CompileError, match="`vadd"):
            kernel[1, 32](None)
    assert_alive()
