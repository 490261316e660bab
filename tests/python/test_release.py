"""What a release uploads is described completely, and what does not suit is refused.

`make release` builds and tries it all; here are the rules that it goes by.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CRATES = sorted((ROOT / "crates").glob("*/Cargo.toml"))
PUBLISHED = [file for file in CRATES if "publish = false" not in file.read_text()]


@pytest.fixture(scope="module")
def release():
    """Import the script."""
    found = importlib.util.spec_from_file_location("release", ROOT / "scripts/release.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def field(text, name):
    """Return a field of a Cargo.toml."""
    return re.search(rf"^{name} = (.*)$", text, re.M)[1]


def test_every_crate_that_can_be_published_is_packed(release):
    """And no other."""
    names = {field(file.read_text(), "name").strip('"') for file in PUBLISHED}
    assert names == set(release.CRATES)


@pytest.mark.parametrize("file", PUBLISHED, ids=lambda file: file.parent.name)
def test_a_crate_says_what_it_is(file):
    """As the registry demands it: a page, at most five keywords, at most five categories."""
    text = file.read_text()
    assert (file.parent / field(text, "readme").strip('"')).read_text().startswith("# gpulend")
    keywords = re.findall(r'"([^"]*)"', field(text, "keywords"))
    assert 0 < len(keywords) <= 5
    assert all(re.fullmatch(r"[a-z][a-z0-9_-]{0,19}", word) for word in keywords)
    assert 0 < field(text, "categories").count(",") + 1 <= 5
    assert "[package.metadata.docs.rs]" in text


def test_crates_name_the_version_of_each_other():
    """A path alone means nothing to those who have no clone."""
    text = (ROOT / "Cargo.toml").read_text()
    version = field(text, "version").strip('"')
    paths = re.findall(r"^gpulend\S* = \{ (path = .*) \}$", text, re.M)
    assert len(paths) == 4
    assert all(f'version = "{version}"' in words for words in paths)


def test_the_package_names_the_pythons_that_there_are_wheels_for(release):
    """And the oldest of them is the oldest that it installs on."""
    text = (ROOT / "pyproject.toml").read_text()
    named = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', text)
    assert tuple(named) == release.PYTHONS
    assert f'requires-python = ">={release.PYTHONS[0]}"' in text


def make_wheel(release, folder, left_out="", machine=62, needed=b"\0libgcc_s.so.1\0"):
    """Write a wheel of empty libraries."""
    file = folder / "gpulend-0.1.0-cp311-cp311-manylinux_2_28_x86_64.whl"
    content = bytes(18) + machine.to_bytes(2, "little") + needed
    with zipfile.ZipFile(file, "w") as archive:
        for name in {"gpulend/_native.cpython-311-x86_64-linux-gnu.so", *release.LIBRARIES}:
            if name != left_out:
                archive.writestr(name, content)
    return release.Wheel(file, "3.11", "x86_64")


def audited(monkeypatch, release, tag):
    """Let auditwheel say that a wheel suits a tag."""
    said = f'is consistent with the following\nplatform tag: "{tag}".'
    monkeypatch.setattr(release, "run", lambda *_, **__: said)


def test_a_wheel_that_suits_passes(monkeypatch, release, tmp_path):
    """Its tag may be of an older glibc than the one that is promised."""
    audited(monkeypatch, release, "manylinux_2_17_x86_64")
    assert "manylinux_2_17_x86_64" in release.check(make_wheel(release, tmp_path))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"left_out": "gpulend/_simulator/driver/libcuda.so"}, "holds"),
        ({"machine": 183}, "is not for x86_64"),
        ({"needed": b""}, "an unwinder of its own"),
    ],
)
def test_a_wheel_with_other_libraries_is_refused(monkeypatch, release, tmp_path, change, reason):
    """One that is missing, one of another machine, one that brings what the system has."""
    audited(monkeypatch, release, "manylinux_2_28_x86_64")
    with pytest.raises(SystemExit, match=reason):
        release.check(make_wheel(release, tmp_path, **change))


@pytest.mark.parametrize("tag", ["manylinux_2_34_x86_64", "linux_x86_64"])
def test_a_wheel_that_wants_a_newer_system_is_refused(monkeypatch, release, tmp_path, tag):
    """What auditwheel finds counts, not the name of the file."""
    audited(monkeypatch, release, tag)
    with pytest.raises(SystemExit, match="does not suit its tag"):
        release.check(make_wheel(release, tmp_path))


def test_this_python_is_found(release):
    """By its version, on the path or among pyenv's; another version is never taken for it."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    found = release.interpreter(version)
    assert found is None or Path(found.strip("'")).exists()
    assert release.interpreter("3.999") is None
