"""What `corpus.py --device-parts` counts."""

from __future__ import annotations

import tempfile

import pytest
from conftest import Bench
from corpus import call, gpulend
from device_parts import of_sources


def test_empty_headers_take_the_place_of_missing_ones_in_their_folder_alone(
    bench: Bench, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that a source includes by `..`, or absolutely, is not made."""
    kernel = "\n__global__ void f(int *x) { *x = 1; }\n"
    around = tmp_path_factory.mktemp("around")
    monkeypatch.setattr(tempfile, "tempdir", str(around))
    bench.write("fine.cu", '#include "absent/header.h"' + kernel)
    texts, why = of_sources(["fine.cu"], [], str(bench.folder), call, gpulend())
    assert (len(texts), why) == (1, "")
    for number, name in enumerate(("../above.h", f"{around}/absolute.h", "a/../../above.h")):
        source = bench.write(f"{number}.cu", f'#include "{name}"' + kernel)
        texts, why = of_sources([source], [], str(bench.folder), call, gpulend())
        assert texts == []
        assert f"'{name}' file not found" in why
        assert list(around.iterdir()) == []
