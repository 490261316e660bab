"""The binary interface is what `abi.txt` says: it is appended to, never changed.

`GPULEND_WRITE_ABI=1 make test-c` writes the file anew; look at the difference before you commit.
"""

from __future__ import annotations

import ctypes
import os
import re

from conftest import HERE, ROOT, C, build, link, succeed
from gpulend import _native, config, ctypes_api

FROZEN = HERE / "abi.txt"
HEADER = (ROOT / "include/gpulend.h").read_text()
CODE = re.sub(r"//.*", "", re.sub(r"/\*.*?\*/", "", HEADER, flags=re.S))


def _structs() -> dict[str, list[tuple[str, str]]]:
    """Return each struct's fields, type and name."""
    found = {}
    for body, name in re.findall(r"typedef struct \w+ \{(.*?)\} (\w+);", CODE, re.S):
        fields = re.findall(r"^\s*([\w *]+[ *])(\w+)(?:\[\d+\])?;", body, re.M)
        found[name] = [(kind.replace(" ", ""), field) for kind, field in fields]
    return found


def _functions() -> dict[str, tuple[str, list[str]]]:
    """Return what each function returns and the types of its arguments."""
    found = {}
    prototypes = re.findall(r"^([a-z][\w ]*[ *])(gpulend_\w+)\(([^)]*)\);", CODE, re.M)
    for result, name, arguments in prototypes:
        kinds = [re.sub(r"\w+$", "", one.strip()).replace(" ", "") for one in arguments.split(",")]
        found[name] = (result.strip(), [] if arguments == "void" else kinds)
    return found


def _constants() -> list[str]:
    return re.findall(r"^#define (GPULEND_\w+) ", CODE, re.M)


def _exported(library: str, *options: str) -> set[str]:
    said = succeed(["nm", "-D", "--defined-only", *options, library])
    return {line.split()[2] for line in said.splitlines() if " T " in line}


def _measure(stage, folder) -> list[str]:
    """Have the compiler tell sizes, offsets and values."""
    lines = [
        "#include <gpulend.h>",
        "#include <stddef.h>",
        "#include <stdio.h>",
        "int main(void) {",
    ]
    for name, fields in _structs().items():
        lines.append(f'printf("struct {name} %zu\\n", sizeof({name}));')
        for _, field in fields:
            place = f"offsetof({name}, {field}), sizeof((({name} *)0)->{field})"
            lines.append(f'printf("field {name}.{field} %zu %zu\\n", {place});')
    for name in _constants():
        lines.append(f'printf("constant {name} %lld\\n", (long long)({name}));')
    source = folder / "measure.c"
    source.write_text("\n".join([*lines, "return 0; }", ""]))
    return succeed([build(C, folder / "measure", [source], *link(stage))]).splitlines()


def test_the_interface_is_the_frozen_one(stage, tmp_path):
    """Symbols, sizes, offsets and values are exactly those; codes are frozen elsewhere."""
    symbols = sorted(_exported(str(stage / "lib/libgpulend.so")))
    told = [f"symbol {name}" for name in symbols] + _measure(stage, tmp_path)
    if os.environ.get("GPULEND_WRITE_ABI"):
        FROZEN.write_text("\n".join(told) + "\n")
    assert told == FROZEN.read_text().splitlines()
    assert len(told) > 100


def test_both_libraries_export_what_the_header_declares(stage):
    """The extension of Python has the same functions as `libgpulend.so`, and neither has others."""
    declared = set(_functions())
    shared = _exported(str(stage / "lib/libgpulend.so"), "--without-symbol-versions")
    assert shared == declared
    native = {name for name in _exported(_native.__file__) if name.startswith("gpulend")}
    assert native == declared


def test_symbols_have_versions_and_the_library_its_soname(stage):
    """What loaders and packagers look at."""
    library = stage / "lib/libgpulend.so"
    assert all("@@GPULEND_0." in name for name in _exported(str(library)))
    said = succeed(["readelf", "-d", library])
    assert "Library soname: [libgpulend.so.0]" in said
    assert "NODELETE" in said


KINDS = {
    "int32_t": {ctypes.c_int32},
    "int64_t": {ctypes.c_int64},
    "uint32_t": {ctypes.c_uint32},
    "gpulend_dtype": {ctypes.c_uint32},
    "uint64_t": {ctypes.c_uint64},
    "gpulend_lease": {ctypes.c_uint64},
    "gpulend_stream": {ctypes.c_uint64},
    "gpulend_event": {ctypes.c_uint64},
    "gpulend_module": {ctypes.c_uint64},
    "gpulend_kernel": {ctypes.c_uint64},
    "gpulend_timer": {ctypes.c_uint64},
    "double": {ctypes.c_double},
    "gpulend_deleter": {ctypes_api.DELETER},
    "constchar*": {ctypes.c_char_p},
    "char*": {ctypes.c_char_p},
    "constuint8_t*": {ctypes.c_char_p},
    "uint8_t*": {ctypes.c_char_p},
    "void*": {ctypes.c_void_p},
    "constvoid*": {ctypes.c_void_p},
    "structDLManagedTensor*": {ctypes.c_void_p},
    "structDLManagedTensorVersioned*": {ctypes.c_void_p},
}
STRUCTS = {
    "gpulend_claim": ctypes_api.Claim,
    "gpulend_lease_info": ctypes_api.LeaseInfo,
    "gpulend_passport": ctypes_api.Passport,
    "gpulend_device_info": ctypes_api.DeviceInfo,
    "gpulend_pool_info": ctypes_api.PoolInfo,
    "gpulend_source": ctypes_api.Source,
    "gpulend_kernel_info": ctypes_api.KernelInfo,
    "gpulend_launch_shape": ctypes_api.LaunchShape,
    "gpulend_argument": ctypes_api.Argument,
}


def _agrees(kind: str, declared: object) -> bool:
    if declared in KINDS.get(kind, ()):
        return True
    pointee = getattr(declared, "_type_", None)
    inner = kind.removeprefix("const").removeprefix("struct").removesuffix("*")
    plain = kind.removesuffix("*")
    return kind.endswith("*") and (
        STRUCTS.get(inner, "") is pointee or pointee in KINDS.get(plain, KINDS.get(inner, ()))
    )


def test_ctypes_declares_what_the_header_does():
    """Names, argument types and structs of `gpulend.ctypes_api`."""
    functions = _functions()
    assert set(functions) == {*ctypes_api.ARGUMENTS, *ctypes_api.RESULTS}
    for name, arguments in ctypes_api.ARGUMENTS.items():
        result, kinds = functions[name]
        assert result == "gpulend_status"
        assert len(kinds) == len(arguments), name
        for kind, declared in zip(kinds, arguments, strict=True):
            assert _agrees(kind, declared), (name, kind, declared)
    for name, fields in _structs().items():
        declared = STRUCTS[name]._fields_
        assert [field for _, field in fields] == [field for field, _ in declared]
        for field, _ in declared:
            place = getattr(STRUCTS[name], field)
            assert f"field {name}.{field} {place.offset} {place.size}\n" in FROZEN.read_text()
    for name in _constants():
        mine = getattr(ctypes_api, name.removeprefix("GPULEND_"), None)
        if isinstance(mine, int):
            assert f"constant {name} {mine}\n" in FROZEN.read_text()


def test_a_struct_that_changes_is_noticed(stage, tmp_path):
    """The measure is one: with a field more the lines are others."""
    before = _measure(stage, tmp_path)
    grown = CODE.replace("uint64_t buffer_id;", "uint64_t buffer_id; uint64_t another;")
    (tmp_path / "include").mkdir()
    (tmp_path / "include/gpulend.h").write_text(grown)
    (tmp_path / "lib").symlink_to(stage / "lib")
    after = _measure(tmp_path, tmp_path)
    assert "struct gpulend_passport 96" in after
    assert after != before


def test_the_header_is_shipped_with_the_package():
    """`python -m gpulend.config --header` names the same text."""
    assert (config.include_folder() / "gpulend.h").read_text() == HEADER
    assert (config.include_folder() / "gpulend.hpp").is_file()
