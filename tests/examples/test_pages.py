"""Every code block of README and docs does what it says: on the simulated GPU, or on the host."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gallery
import pages
import pytest
from conftest import PROMISED
from gpulend import build, cli
from gpulend.run import environment

ROOT = Path(__file__).parents[2]
PAGES = {page.name: page for page in pages.all_pages()}
WITH_PYTHON = [name for name, page in PAGES.items() if page.of("run")]
MAKEFILE = (ROOT / "Makefile").read_text()
# Without a reader of TOML, which Python 3.10 lacks.
PROJECT = (ROOT / "pyproject.toml").read_text()


# A mistake that nothing waits for.
OVERRUN = """
import gpulend
x = gpulend.zeros(6, "float32")
gpulend.compile("__global__ void f(float *x) { x[threadIdx.x] = 1; }")["f"][1, 8](x)
"""


class Server:
    """The process that runs pages."""

    def __init__(self) -> None:
        variables = {**os.environ, **environment({})}
        variables |= {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONWARNINGS": "ignore"}
        found = gallery.environment(
            next(it for it in gallery.find() if it.framework == "pycuda"), True
        )
        variables["PYTHONPATH"] = found.get("PYTHONPATH", "")
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("page_server.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=variables,
            cwd=ROOT,
            text=True,
        )
        self.variables = variables

    def ask(self, blocks: list[pages.Block]) -> dict[str, str]:
        """Run blocks in one process."""
        codes = [[block.name, block.setup + block.code] for block in blocks]
        request = {"blocks": codes, "bare": blocks[0].bare}
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer: dict[str, str] = json.loads(self.process.stdout.readline())
        return answer


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """Run one for all pages, because its imports take seconds."""
    server = Server()
    yield server
    server.process.communicate(timeout=30)


def processes(page: pages.Page) -> list[list[pages.Block]]:
    """Cut the Python blocks of a page where one begins a process of its own."""
    cut: list[list[pages.Block]] = []
    for block in page.of("run"):
        if block.fresh or not cut:
            cut.append([])
        cut[-1].append(block)
    return cut


@pytest.mark.parametrize("name", WITH_PYTHON)
def test_the_python_of_a_page_does_what_it_says(name: str, server: Server) -> None:
    """It runs from top to bottom; prints and errors are those in the comments behind them."""
    for blocks in processes(PAGES[name]):
        answer = server.ask(blocks)
        if answer["result"] == "missing" and answer["detail"].split(".")[0] not in PROMISED:
            pytest.skip(f"{answer['detail']} is not installed")
        assert answer["result"] == "ok", answer["detail"]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("print(1 + 1)  # 3", "prints '2'"),
        ("[].pop()  # KeyError", "IndexError"),
        ("[].pop()  # IndexError: full", "the error says pop from empty list"),
        ("len([])  # IndexError", "no IndexError"),
        ("for n in (1, 2):\n    print(n)  # 1", "prints '1\\n2'"),
        ("import os; os._exit(3)", "the process ended with 3"),
        (OVERRUN, "KernelError"),
    ],
)
def test_a_page_that_is_wrong_fails(code: str, reason: str, server: Server) -> None:
    """What is printed, what is raised and how the process ends are all compared."""
    answer = server.ask([pages.Block(ROOT / "made_up.md", 1, "python", f"{code}\n")])
    assert answer["result"] == "failed"
    assert reason in answer["detail"]


def test_every_fence_names_its_language() -> None:
    """And one that the tests know what to do with."""
    blocks = [block for page in PAGES.values() for block in page.blocks]
    assert [block.name for block in blocks if block.language not in pages.KINDS] == []
    assert len(blocks) > 20


def test_code_fits_the_column_of_the_site() -> None:
    """A longer line hides its end from the reader; output and a command's comment may scroll."""
    code = ("python", "c", "cpp", "rust")
    blocks = [it for page in PAGES.values() for it in page.blocks if it.language in code]
    long = [it.name for it in blocks if any(len(line) > 108 for line in it.code.splitlines())]
    assert long == []


def test_the_site_shows_every_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its navigation names each document of docs/, and only pages that are there or are made."""
    navigation = (ROOT / "zensical.toml").read_text().partition("[project.theme]")[0]
    named = re.findall(r'"([\w/-]+\.md)"', navigation)
    docs = {path.relative_to(ROOT / "docs").as_posix() for path in ROOT.glob("docs/**/*.md")}
    assert docs <= set(named)
    # Laid out as `make docs` does: a link to what has no page, or a name without API, ends it.
    spec = importlib.util.spec_from_file_location("website", ROOT / "scripts/website.py")
    assert spec is not None
    website = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(website)
    monkeypatch.setattr(website, "PAGES", tmp_path)
    website.lay_out()
    assert [name for name in named if not (tmp_path / name).exists()] == []


def test_what_is_not_run_says_why() -> None:
    """A reader of the source sees the reason; `docs/limits.md` need not repeat it."""
    silent = [block for page in PAGES.values() for block in page.of("not run") if not block.not_run]
    assert silent == []


def compiled(language: str) -> list[pages.Block]:
    """Return the blocks of a compiled language."""
    return [it for page in PAGES.values() for it in page.of("compiled") if it.language == language]


@pytest.mark.parametrize("block", compiled("c") + compiled("cpp"), ids=lambda block: block.name)
def test_c_and_cpp_compile(block: pages.Block) -> None:
    """Against our header, without a warning; a fragment becomes the body of a function."""
    whole = re.search(r"^(?:#include|int main)", block.code, re.M)
    text = block.setup + block.code
    if not whole:
        text = f"{block.setup}\nvoid fragment(void);\nvoid fragment(void)\n{{\n{block.code}}}\n"
    header = "gpulend.h" if block.language == "c" else "gpulend.hpp"
    command = ["cc", "-xc", "-std=c11"] if block.language == "c" else ["c++", "-xc++", "-std=c++17"]
    done = subprocess.run(
        [
            *command,
            "-Wall",
            "-Wextra",
            "-Werror",
            "-fsyntax-only",
            "-Iinclude",
            "-include",
            header,
            "-",
        ],
        input=text,
        text=True,
        capture_output=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_rust_runs_as_doctests() -> None:
    """A crate includes the page, or an example or a comment has the block: `cargo test` runs it.

    rustdoc does not run a block that is ignored, even when it is asked to: an example must have it.
    """
    files = [*ROOT.glob("crates/*/src/**/*.rs"), *ROOT.glob("crates/*/examples/**/*.rs")]
    texts = {path: path.read_text() for path in files}
    included = {
        (path.parent / name).resolve()
        for path, text in texts.items()
        for name in re.findall(r'include_str!\("([^"]+\.md)"\)', text)
    }
    sources = "".join(re.sub(r"^ *//[/!] ?", "", text, flags=re.M) for text in texts.values())
    elsewhere = [
        block.name
        for page in PAGES.values()
        for block in page.of("doctest")
        if (page.path not in included or block.ignored) and block.code not in sources
    ]
    assert elsewhere == []


def test_cmake_names_our_targets() -> None:
    """Those that the installed package defines; tests/c builds with them."""
    files = ROOT.glob("crates/capi/packaging/*.cmake*")
    defined = "".join(path.read_text() for path in files)
    blocks = [it for page in PAGES.values() for it in page.blocks if it.language == "cmake"]
    named = {name for block in blocks for name in re.findall(r"gpulend::\w+", block.code)}
    assert {name for name in named if name not in defined} == set()


def shell_lines() -> list[tuple[str, str]]:
    """Return each command of the shell blocks, with its place."""
    blocks = [it for page in PAGES.values() for it in page.of("checked") if it.language == "sh"]
    return [
        (f"{block.name} {line}", line)
        for block in blocks
        for line in block.code.replace("\\\n", " ").splitlines()
        if line.strip() and not line.lstrip().startswith("#")
    ]


def check_gpulend(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Read a command line as gpulend does, and do not run it."""

    class Read(Exception):
        pass

    def parse(self: argparse.ArgumentParser, *arguments: Any, **named: Any) -> Any:
        found, unknown = original(self, *arguments, **named)
        assert unknown == []
        # The parser of a command is called by that of all commands.
        if self.prog != "gpulend":
            return found, unknown
        raise Read

    original = argparse.ArgumentParser.parse_known_args
    monkeypatch.setattr(argparse.ArgumentParser, "parse_known_args", parse)
    with pytest.raises(Read):
        cli.main(words)


def check_pip(words: list[str]) -> None:
    """Extras and groups that are named are in pyproject.toml."""
    for extra in re.findall(r"(?:\.|gpulend)\[(\w+)\]", " ".join(words)):
        assert re.search(rf"^{extra} = \[", PROJECT, re.M), f"no extra {extra}"
    for group in re.findall(r"--group (\w+)", " ".join(words)):
        assert re.search(rf"^{group} = \[", PROJECT, re.M), f"no group {group}"


@pytest.mark.parametrize(
    "line", [line for _, line in shell_lines()], ids=[i for i, _ in shell_lines()]
)
def test_a_command_is_one_that_works(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """gpulend's are read by its own parser; targets, files, extras and modules are there."""
    for part in re.split(r"\s&&\s", line):
        words = shlex.split(part, comments=True)
        while words and re.fullmatch(r"[A-Z_0-9]+=.*", words[0]):
            del words[0]
        match words:
            case ["gpulend", "build", *rest]:
                build.read(rest)
            case ["make", setting] if "=" in setting:
                pass  # the reader's own Makefile
            case ["gpulend", *rest]:
                check_gpulend(rest, monkeypatch)
                after = rest[rest.index("--") + 1 :] if "--" in rest else []
                assert (
                    not after[1:]
                    or not after[1].startswith("examples/")
                    or (ROOT / after[1]).exists()
                )
            case ["eval", inner]:
                words = shlex.split(inner.removeprefix("$(gpulend ").removesuffix(")"))
                check_gpulend(words, monkeypatch)
            case ["make", target, *_]:
                assert re.search(rf"^{re.escape(target)}:", MAKEFILE, re.M), f"no target {target}"
            case ["pip", "install", *rest] | ["python", "-m", "pip", "install", *rest]:
                check_pip(rest)
            case ["python", "-m", module, *_]:
                places = (ROOT / "python", ROOT / "tests")
                path = module.replace(".", "/")
                assert any((place / f"{path}.py").exists() for place in places), module
            case ["python", "-c", program]:
                compile(program, "-c", "exec")
            case ["python", file, *_]:
                assert (ROOT / file).exists() or "/" not in file
            case ["cd", folder]:
                assert (ROOT / folder).is_dir() or folder == "gpulend"
            case ["ln", "-s", *_]:
                pass
            case [program] if program.startswith("./"):
                pass  # one of the reader's own
            case ["pytest", *_] | ["cc", *_] | ["c++", *_] | ["cargo", *_] | ["cmake", *_]:
                pass  # tests/c and cargo's own tests run such commands
            case _:
                pytest.fail(f"nothing checks this: {part}")


@pytest.mark.parametrize(
    "block",
    [it for page in PAGES.values() for it in page.of("checked") if it.language in ("toml", "json")],
    ids=lambda block: block.name,
)
def test_toml_and_json_can_be_read(block: pages.Block) -> None:
    """By Python's own readers."""
    reader = json if block.language == "json" else pytest.importorskip("tomllib")
    reader.loads(block.code)
