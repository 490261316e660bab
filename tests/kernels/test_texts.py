"""Bytes: search, count, hash. All exact."""

from __future__ import annotations

import hashlib
import itertools
import zlib

import numpy as np
import pytest

from .harness import Kernel, blocks

TEXT = b"the cat sat on the mat\nand\tthe other  cat lay at the theatre " * 12 + b"the"


def test_string_search() -> None:
    """All places, in whatever order they were found."""
    text, word = np.frombuffer(TEXT, np.uint8), np.frombuffer(b"the", np.uint8)
    found = np.full(200, -1, np.int32)
    found[0] = 0
    words = (text, text.size, word, word.size, found)
    Kernel("texts.cu", "string_search").launch(blocks(text.size, 128), 128, *words)
    expected = [i for i in range(len(TEXT)) if TEXT.startswith(b"the", i)]
    assert sorted(found[1 : found[0] + 1].tolist()) == expected
    assert set(found[found[0] + 1 :].tolist()) == {-1}


def test_words_are_counted() -> None:
    """By a vote of each block."""
    text, words = np.frombuffer(TEXT, np.uint8), np.zeros(1, np.int32)
    Kernel("texts.cu", "count_words").launch(blocks(text.size, 96), 96, text, text.size, words)
    assert words[0] == len(TEXT.split())


@pytest.mark.parametrize("n", [1, 100, 256])
def test_run_lengths(random: np.random.Generator, n: int) -> None:
    """Up to a whole block."""
    values = random.integers(0, 3, n).astype(np.int32)
    run_values, lengths, runs = np.zeros(n, np.int32), np.zeros(n, np.int32), np.zeros(1, np.int32)
    Kernel("texts.cu", "run_lengths").launch(1, 256, values, n, run_values, lengths, runs)
    expected = [(key, len(list(run))) for key, run in itertools.groupby(values.tolist())]
    got = zip(run_values[: runs[0]].tolist(), lengths[: runs[0]].tolist(), strict=True)
    assert list(got) == expected


def test_fnv(random: np.random.Generator) -> None:
    """64-bit products that wrap."""
    strings, hashes = random.integers(0, 256, (300, 21), dtype=np.uint8), np.zeros(300, np.uint64)
    Kernel("texts.cu", "fnv1a").launch(3, 128, strings, 21, hashes, 300)
    for string, got in zip(strings, hashes, strict=True):
        expected = 0xCBF29CE484222325
        for byte in string.tolist():
            expected = (expected ^ byte) * 0x100000001B3 % 2**64
        assert int(got) == expected


def test_crc32(random: np.random.Generator) -> None:
    """As zlib's."""
    strings, sums = random.integers(0, 256, (300, 33), dtype=np.uint8), np.zeros(300, np.uint32)
    Kernel("texts.cu", "crc32").launch(3, 128, strings, 33, sums, 300)
    assert sums.tolist() == [zlib.crc32(string.tobytes()) for string in strings]


@pytest.mark.parametrize("length", [0, 3, 55])
def test_sha256(random: np.random.Generator, length: int) -> None:
    """As hashlib's."""
    messages = random.integers(0, 256, (40, max(length, 1)), dtype=np.uint8)[:, :length].copy()
    digests = np.zeros((40, 32), np.uint8)
    Kernel("texts.cu", "sha256").launch(2, 32, messages, length, digests, 40)
    expected = [hashlib.sha256(message.tobytes()).hexdigest() for message in messages]
    assert [digest.tobytes().hex() for digest in digests] == expected
