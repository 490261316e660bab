"""What editors and type checkers are shown: docstrings, names of frameworks, array types."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
import venv
from pathlib import Path
from typing import get_args

import gpulend
import pytest
from conftest import need
from gpulend import _native, adapters
from gpulend.adapters import KnownFramework
from machines import start

ROOT = Path(__file__).parents[2]
STUB = ROOT / "python/gpulend/_native.pyi"
TYPES = ROOT / "tests/types"


def stub_script():
    """Return scripts/stub.py as a module."""
    spec = importlib.util.spec_from_file_location("stub", ROOT / "scripts/stub.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_stub_has_the_docstrings_of_the_sources():
    """`make stub` copies them; hover is empty or wrong where that was forgotten."""
    found = stub_script().documented(ast.parse(STUB.read_text()), _native)
    assert len(found) > 150
    differ = [
        name for node, name, wanted in found if (ast.get_docstring(node) or "") != wanted.strip()
    ]
    assert differ == [], "run `make stub`"


def test_every_public_function_is_explained():
    """Whatever `gpulend` exports has a docstring, and so do its methods and properties."""
    found = stub_script().documented(ast.parse(STUB.read_text()), _native)
    bare = [
        name
        for _, name, text in found
        if not text
        and name.partition(".")[0] in gpulend.__all__
        and not name.rpartition(".")[2].startswith("_")
        # Overloads after the first have none.
        and not name.endswith(("lend", "to_host", "copy_from", "copy_to"))
    ]
    assert bare == []


def test_the_sample_uses_every_public_name():
    """What the sample leaves out, no type checker looks at."""
    tree = ast.parse((TYPES / "sample.py").read_text())
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "gpulend"
    }
    assert sorted(set(gpulend.__all__) - used) == []


def test_the_sample_runs():
    """The types are those of a program that works."""
    need("ziglang")
    done = start([sys.executable, str(TYPES / "sample.py")], GPULEND_DEVICE="simulated")
    assert done.stdout == f"gpulend {gpulend.__version__}\n"


def test_type_checkers_know_the_names_of_all_frameworks():
    """An added framework has its name in `KnownFramework`, and in one overload of `lend`."""
    builtin = [name for name, known in adapters.FRAMEWORKS.items() if _is_ours(known)]
    assert list(get_args(KnownFramework)) == builtin
    for body in (ast.parse(STUB.read_text()).body, _class("Lease").body):
        overloads = [node for node in body if getattr(node, "name", "") == "lend"]
        literals = [text for node in overloads for text in _literals(node.args)]
        assert sorted(literals) == sorted(builtin)


def _is_ours(framework):
    return str(framework.adapter).startswith("gpulend.adapters.")


def _class(name):
    (found,) = (
        node
        for node in ast.parse(STUB.read_text()).body
        if isinstance(node, ast.ClassDef) and node.name == name
    )
    return found


def _literals(arguments):
    """Return the names in the annotation of `target`, also those of the alias for several."""
    (target,) = (argument for argument in arguments.args if argument.arg == "target")
    text = ast.unparse(target.annotation)
    if "_Untyped" in text:
        (alias,) = (
            node
            for node in ast.parse(STUB.read_text()).body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_Untyped"
        )
        target = alias.value
    return [node.value for node in ast.walk(target) if isinstance(node, ast.Constant)]


USER = """
import gpulend
from gpulend import lend


def use(lease: gpulend.Lease, array: object) -> None:
    print(lease.lend("torch"), lend(array, "numpy"), gpulend.lend(array, "jax"))
    print(lease.to_host())
    tensor = lend(array, "torch", copy=True)
    print(tensor.anything)
    lend(array, "torhc")  # type: ignore
"""


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A program, beside an environment in which gpulend is installed and no framework is."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder / "environment", symlinks=True)
    (packages,) = (folder / "environment/lib").glob("python3*/site-packages")
    (packages / "gpulend").symlink_to(ROOT / "python/gpulend")
    (folder / "program.py").write_text(USER)
    (folder / "pyrightconfig.json").write_text(
        '{"typeCheckingMode": "strict", "reportUnnecessaryTypeIgnoreComment": "error",'
        ' "venvPath": ".", "venv": "environment"}'
    )
    return folder


def test_mypy_says_nothing_where_no_framework_is_installed(bare):
    """A misspelt name is an error there too: the one `type: ignore` is used."""
    need("mypy")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", bare / "cache"]
    command += ["--python-executable", bare / "environment/bin/python", "program.py"]
    done = subprocess.run(command, cwd=bare, capture_output=True, text=True, timeout=120)
    assert "Success: no issues found in 1 source file" in done.stdout, done.stdout


def test_pyright_says_nothing_where_no_framework_is_installed(bare):
    """In strict mode, which reports every type that it cannot find."""
    need("pyright")
    command = [sys.executable, "-m", "pyright", "-p", bare]
    done = subprocess.run(command, cwd=bare, capture_output=True, text=True, timeout=120)
    assert "0 errors, 0 warnings" in done.stdout, done.stdout + done.stderr
