"""One ledger in a process: of two copies the one used first goes on, the other says which two."""

from __future__ import annotations

import shutil
import sys

import pytest
from conftest import HERE, C, build, link_static, run, succeed
from gpulend import config


@pytest.fixture(scope="module")
def copies(stage, tmp_path_factory):
    """Give two files that hold the whole library."""
    other = tmp_path_factory.mktemp("other") / "libanother.so"
    shutil.copy((stage / "lib/libgpulend.so").resolve(), other)
    return (stage / "lib/libgpulend.so").resolve(), other


@pytest.mark.parametrize("how", ["local", "global", "apart"])
@pytest.mark.parametrize("turned", [False, True])
def test_the_second_copy_is_refused_however_it_is_loaded(how, turned, copies, tmp_path):
    """Whichever comes first, with symbols private, public, or in a namespace of their own."""
    first, second = reversed(copies) if turned else copies
    program = build(C, tmp_path / "pair", [HERE / "pair.c"], "-ldl")
    lines = succeed([program, first, second, how]).splitlines()
    assert [line.split()[0] for line in lines] == ["0", "274", "0", "274"]
    for line in (lines[1], lines[3]):
        assert line.index(str(first)) < line.index(str(second))


def test_the_same_copy_twice_is_one(copies, tmp_path):
    """A library that is opened again is the same library."""
    program = build(C, tmp_path / "pair", [HERE / "pair.c"], "-ldl")
    lines = succeed([program, copies[0], copies[0], "local"]).splitlines()
    assert [line.strip() for line in lines] == ["0"] * 4


def _python(program: str):
    return run([sys.executable, "-c", program])


def test_libgpulend_after_the_extension_is_refused(copies):
    """Inside Python the extension was first: `import gpulend` makes it the one."""
    done = _python(
        "import gpulend, ctypes\n"
        f"library = ctypes.CDLL({str(copies[0])!r})\n"
        "library.gpulend_last_error.restype = ctypes.c_char_p\n"
        "live = ctypes.c_uint64()\n"
        "print(library.gpulend_live(ctypes.byref(live)))\n"
        "print(library.gpulend_last_error().decode())\n"
        "print(len(gpulend.ledger()))\n"
    )
    status, message, held = done.stdout.splitlines()
    assert (status, held) == ("274", "0")
    assert message.index(str(config.library())) < message.index(str(copies[0]))


def test_the_extension_after_libgpulend_is_not_imported(copies):
    """Python is told on import where a library was used first; one only loaded is no hindrance."""
    load = f"import ctypes; library = ctypes.CDLL({str(copies[0])!r})\n"
    assert _python(f"{load}import gpulend\nprint(len(gpulend.ledger()))\n").stdout == "0\n"
    done = _python(
        f"{load}print(library.gpulend_live(ctypes.byref(ctypes.c_uint64())))\n"
        "try: import gpulend\n"
        "except ImportError as error: print(error)\n"
    )
    status, message = done.stdout.splitlines()
    assert status == "0"
    assert message.index(str(copies[0])) < message.index(str(config.library()))


def test_a_program_with_the_static_library_is_a_copy_too(stage, tmp_path, copies):
    """Its functions are in no table of symbols, and it is found all the same."""
    source = tmp_path / "static.c"
    source.write_text(
        "#define _DEFAULT_SOURCE\n#include <dlfcn.h>\n#include <gpulend.h>\n#include <stdio.h>\n"
        "int main(int count, char **arguments) {\n"
        "    uint64_t live;\n    gpulend_status (*other)(uint64_t *);\n"
        "    const char *(*words)(void);\n"
        "    if (count < 2 || gpulend_live(&live)) return 1;\n"
        "    void *library = dlopen(arguments[1], RTLD_NOW);\n    if (!library) return 2;\n"
        '    *(void **)&other = dlsym(library, "gpulend_live");\n'
        '    *(void **)&words = dlsym(library, "gpulend_last_error");\n'
        "    gpulend_status status = other(&live);\n"
        '    printf("%d %s\\n", (int)status, words());\n    return 0;\n}\n'
    )
    program = build(C, tmp_path / "static", [source], *link_static(stage))
    said = succeed([program, copies[0]])
    assert said.startswith("274 ")
    assert said.index(str(program)) < said.index(str(copies[0]))


def test_copies_that_come_at_once_leave_one(copies, tmp_path):
    """Threads that use both copies for the first time at the same moment: exactly one goes on."""
    program = (
        "import ctypes, threading\n"
        f"libraries = [ctypes.CDLL(path) for path in {[str(path) for path in copies]!r}]\n"
        "gate, answers = threading.Barrier(2), {}\n"
        "def use(index):\n"
        "    gate.wait()\n"
        "    answers[index] = libraries[index].gpulend_live(ctypes.byref(ctypes.c_uint64()))\n"
        "threads = [threading.Thread(target=use, args=(index,)) for index in range(2)]\n"
        "[thread.start() for thread in threads]; [thread.join() for thread in threads]\n"
        "print(sorted(answers.values()))\n"
    )
    for _ in range(10):
        assert _python(program).stdout == "[0, 274]\n"
