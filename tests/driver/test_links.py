"""Linking: PTX in, an image out."""

from __future__ import annotations

import ctypes
from ctypes import addressof, byref, c_int, c_size_t, c_uint64, c_void_p
from typing import Any

from .cuda import check, cu
from .differences import answer
from .kernels import IMAGE, KERNELS, Module, launch, words
from .resources import Resources

PTX, CUBIN = 1, 0  # CUjitInputType
ERROR_LOG, ERROR_LOG_SIZE = 5, 6  # CUjit_option
SMALL = (
    b".version 6.3\n.target sm_75\n.address_size 64\n.visible .entry small()\n{\n    ret;\n}\n\0"
)


def _create(log: Any = None) -> tuple[int, Any]:
    """Begin a link; return it with what has to live as long."""
    options = (c_int * 2)(ERROR_LOG, ERROR_LOG_SIZE)
    values = (c_void_p * 2)(addressof(log), len(log)) if log else None
    link = c_void_p()
    check(cu.cuLinkCreate_v2(2 if log else 0, options, values, byref(link)))
    return link.value or 0, values


def _add(link: int, text: bytes, kind: int = PTX) -> int:
    return cu.cuLinkAddData_v2(link, kind, text, len(text), b"text", 0, None, None)


def _complete(link: int) -> bytes:
    image, size = c_void_p(), c_size_t()
    check(cu.cuLinkComplete(link, byref(image), byref(size)))
    assert image.value is not None
    return ctypes.string_at(image.value, size.value)


def test_what_was_linked_can_be_loaded(gpu: Resources) -> None:
    """The image stays until the link ends."""
    target = gpu.alloc(4)
    for add in (
        lambda link: _add(link, IMAGE),
        lambda link: cu.cuLinkAddFile_v2(link, PTX, str(KERNELS).encode(), 0, None, None),
    ):
        link, _ = _create()
        check(add(link))
        module = Module(gpu, _complete(link))
        check(cu.cuLinkDestroy(link))
        check(launch(module["poke"], c_uint64(target), c_uint64(3)))
        assert words(target, 1) == [3]


def test_what_cannot_be_linked_is_told_in_the_log(gpu: Resources) -> None:
    """With the word that is wrong."""
    log = ctypes.create_string_buffer(4096)
    link, _kept = _create(log)
    assert _add(link, SMALL.replace(b"ret;", b"rett;")) == 218
    assert b"rett" in log.value
    check(cu.cuLinkDestroy(link))
    link, _kept = _create()
    assert cu.cuLinkAddFile_v2(link, PTX, b"/no/such/file", 0, None, None) == 301
    assert cu.cuLinkAddData_v2(link, PTX, None, 9, b"", 0, None, None) == 1
    check(cu.cuLinkDestroy(link))


def test_a_second_text_is_answered_as_listed(gpu: Resources) -> None:
    """By whoever joins texts, or not."""
    link, _ = _create()
    check(_add(link, SMALL))
    assert _add(link, SMALL.replace(b"small", b"other")) == answer("two PTX texts in one link")
    check(cu.cuLinkDestroy(link))


def test_null_links_are_refused(gpu: Resources) -> None:
    """And results that go nowhere."""
    assert cu.cuLinkCreate_v2(0, None, None, None) == 1
    link, _ = _create()
    assert cu.cuLinkComplete(link, None, None) == 1
    check(cu.cuLinkDestroy(link))
