"""Run one of Triton's tutorials, of a checkout, without its benchmarks and with small sizes.

The text of the tutorial is taken as it is but for the sizes named here. It must find that its
results are right; then its name and "right" are printed.
"""

from __future__ import annotations

import contextlib
import io
import sys
import types
from pathlib import Path

import torch
import triton.testing

# A processor takes minutes for what a GPU does in a millisecond.
SMALLER = {
    "03-matrix-multiplication": {"(512, 512)": "(256, 256)"},
    "05-layer-norm": {"test_layer_norm(1151, 8192,": "test_layer_norm(151, 1024,"},
}


class _NoBenchmark(triton.testing.Mark):  # type: ignore[misc]
    def run(self, *_: object, **__: object) -> None:
        """Measure nothing: time here says nothing about a GPU."""


def main(path: str) -> None:
    """Run the tutorial at a path."""
    triton.testing.Mark = _NoBenchmark
    # Some ask torch which GPU it has, and torch for CUDA has none here.
    torch.cuda.get_device_capability = triton.runtime.driver.active.get_device_capability
    torch.manual_seed(0)
    source = Path(path).read_text(encoding="utf-8")
    name = Path(path).stem
    for old, new in SMALLER.get(name, {}).items():
        assert old in source, f"{path}: {old!r} is gone; name another size in {__file__}"
        source = source.replace(old, new)
    module = types.ModuleType("__main__")
    module.__file__ = path
    sys.modules["__main__"] = module
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(source, path, "exec"), module.__dict__)
        if name.startswith("06"):
            # Its way back takes 80 KiB of shared memory, which only newer processors have.
            newer = triton.runtime.driver.active.get_current_target().arch >= 80
            for causal in (False, True):
                for mode in ("fwd", "bwd") if newer else ("fwd",):
                    module.test_op(1, 2, 128, 64, causal, False, mode, "triton")
    assert "Torch differ" not in printed.getvalue(), printed.getvalue()
    print(f"{name}: right")


main(sys.argv[1])
