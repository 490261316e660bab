"""`gpulend build`: whole CUDA programs by clang, with headers and a runtime of our own.

A `.cu` file is compiled twice, for the device to PTX and for the host, and the PTX becomes part of
the host's object file. The program is linked with `libgpulend_rt.so`, which has the functions of
CUDA's runtime over those of whatever driver it finds. No NVIDIA software is needed.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from gpulend import (
    _device_code,
    _libdevice,
    _native,
    _toolkit,
    compiler,
    exceptions,
    simulator,
)
from gpulend._build_options import PER_THREAD, Order, Refused, read

RUNTIME = Path(__file__).parent / "_runtime"
# clang would make instructions of these that no GPU has; the headers have their bodies.
OWN_BODIES = (
    *("frexp", "ldexp", "llrint", "llround", "lrint", "lround", "modf", "remquo", "scalbln"),
    *("scalbn", "sincos"),
)
# A volatile access of memory that is or may be shared by a block.
VOLATILE = re.compile(r"^(?=\s*(?:ld|st)\.volatile\.(?!global|local))", re.M)
# The lanes of a warp that reach this place synchronise there.
MEET = "{ .reg .b32 %lanes; activemask.b32 %lanes; bar.warp.sync %lanes; }\n"
# Warps of GPUs before this architecture run in lockstep.
VOLTA = 70
# Strings and comments, whose text is nobody's code.
WORDS = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.S)
# The brackets of a launch, as some write them; strings and comments, which stay as they are.
SPACED = re.compile(WORDS.pattern + r"|<<\s+<|>>\s+>(?=\s*\()", re.S)
# How clang reads device code that it has compiled already.
FROM_LLVM = (
    *("--target=nvptx64-nvidia-cuda", "-nogpulib", "-march=sm_75", "-w", "-x", "ir"),
    *("-Xclang", "-target-feature", "-Xclang", "+ptx63"),
)
# What clang makes of a launch in device code for a later link, also in a lambda of the host's.
LAUNCHES = """
extern "C" __device__
cudaError_t cudaLaunchDevice(void *, void *, dim3, dim3, unsigned, cudaStream_t);
extern "C" __device__ void *cudaGetParameterBuffer(size_t, size_t);
"""
# Those that the system's headers and ours must know, beside names with an underscore.
EARLY = ("NDEBUG", PER_THREAD)


def in_step(ptx: str) -> str:
    """Return the PTX with a warp synchronisation at each volatile access of shared memory.

    Kernels from before Volta rely on warps that run in lockstep: the last steps of their
    reductions have no barriers.
    """
    return VOLATILE.sub(MEET, ptx)


def main(arguments: Sequence[str]) -> int:
    """Build what the arguments say, and return an exit status."""
    try:
        order = read(arguments)
        with Workshop(order) as workshop:
            return workshop.work()
    except (Refused, exceptions.Error, OSError) as error:
        print(f"gpulend build: {error}", file=sys.stderr)
        return 2


class Workshop:
    """The tools and the folder that a build works with."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.folder = tempfile.TemporaryDirectory(prefix="gpulend-build-")
        program, _ = compiler.find()
        self.clang = [program, "clang"] if Path(program).name.startswith("zig") else [program]
        self.headers = _headers(self.folder.name)
        self.compiler: list[str] = []
        if len(self.clang) > 1:
            # Its own headers, which it does not look for by this name.
            self.compiler += ["-resource-dir", str(Path(program).parent / "lib")]
            self.compiler += [f"--target={platform.machine()}-linux-gnu"]

    def __enter__(self) -> Workshop:
        return self

    def __exit__(self, *_: object) -> None:
        self.folder.cleanup()

    def work(self) -> int:
        """Compile and link; return the first exit status that is not 0."""
        order = self.order
        sources = [(file, kind) for file, kind in order.inputs if kind]
        if order.goal == "ptx":
            return self._each_ptx([file for file, kind in sources if kind == "cuda"])
        objects: dict[str, str] = {}
        for number, (file, kind) in enumerate(sources):
            place = os.path.join(self.folder.name, f"{number}.o")
            if order.goal == "compile":
                place = order.output or os.path.splitext(os.path.basename(file))[0] + ".o"
            if status := self._compile(file, kind, place):
                return status
            objects[file] = place
        if order.goal == "compile":
            return 0
        words = [objects.get(file, file) for file, _ in order.inputs]
        if order.goal == "device link":
            return self._link_device(words, order.output or "a_dlink.o", empty=True)
        more = os.path.join(self.folder.name, "linked.o")
        if status := self._link_device(words, more):
            return status
        return self._link(objects, [more] if os.path.exists(more) else [])

    def _compile(self, file: str, kind: str, place: str) -> int:
        order = self.order
        movable = ["-fPIC"] if self._movable() else []
        if kind != "cuda":
            # As with nvcc, the system's compiler where there is one.
            command = _host_compiler(kind) or [*self.clang, *self.compiler]
            command += ["-isystem", self.headers, *movable, "-x", kind]
            command += [*_for_language(order.flags, kind), *order.host]
            return self._run([*command, "-c", file, "-o", place])
        special = self._special(file)
        image, kept = os.path.join(self.folder.name, "device.ptx"), []
        text = image
        if order.relocatable:
            text = os.path.join(self.folder.name, "device.ll")
            packed = os.path.join(self.folder.name, "packed")
            if status := self._keep_device(file, place, special, text, image, packed):
                return status
            kept = ["-Xclang", f"-fembed-offload-object={packed}"]
        elif status := (
            self._run([*self._device(), *special, "-S", file, "-o", image])
            or self._end(image, "where another file does, build with -rdc=true")
        ):
            return status
        command = [*self.clang, *self.compiler, *self._cuda(), "--cuda-host-only", *movable]
        command += [*special, *self._after_ours(_for_language(order.flags, "cuda"))]
        command += self._after_ours(order.host)
        command += ["-Xclang", "-fcuda-include-gpubinary", "-Xclang", image, *kept]
        if order.dry or not _device_code.has_shared_variables(_read(text)):
            return self._run([*command, "-c", file, "-o", place])
        host = Path(self.folder.name, "host.ll")
        command += _dependencies_of(place, order.flags)
        if status := self._run([*command, "-emit-llvm", "-S", file, "-o", str(host)]):
            return status
        host.write_text(_device_code.with_own_shadows(_read(host)), encoding="utf-8")
        # What the source meant is in the text; how to make machine code of it is not.
        both = (*order.flags, *order.host)
        how = [flag for flag in both if flag.startswith(("-O", "-f", "-m", "-g"))]
        command = [*self.clang, *self.compiler, *movable, *how, "-w", "-x", "ir", str(host)]
        return self._run([*command, "-c", "-o", place])

    def _special(self, file: str) -> list[str]:
        """Return the options for what is in a source that clang does not take as nvcc does."""
        options = []
        changed = {}
        flags = self.order.flags
        folders = [Path(after) for flag, after in pairwise(flags) if flag == "-I"]
        for path, text in _texts(Path(file), folders, set()):
            if re.search(r"\btexture\s*<", WORDS.sub("", text)):
                options = ["-D__GPULEND_TEXTURE_REFERENCES"]
            joined = SPACED.sub(_joined, text)
            if joined != text:
                changed[path] = joined
        if not changed:
            return options
        # clang reads these texts in the place of the files, whose names stay in its messages.
        roots = []
        for number, (path, text) in enumerate(changed.items()):
            copy = Path(
                self.folder.name, f"{hashlib.sha256(os.fsencode(file)).hexdigest()[:8]}-{number}"
            )
            copy.write_text(text, encoding="utf-8", errors="surrogateescape")
            roots.append({"type": "file", "name": str(path), "external-contents": str(copy)})
        overlay = Path(self.folder.name, "overlay.json")
        about = {"version": 0, "use-external-names": False, "roots": roots}
        overlay.write_text(json.dumps(about), encoding="utf-8")
        return [*options, "-ivfsoverlay", str(overlay)]

    def _cuda(self) -> list[str]:
        """Return the options of both compilations of a CUDA source."""
        options = [
            # That folder has headers that hide the macro from NVIDIA's.
            *("-D__NVCC__", "-I", os.path.join(self.headers, "gpulend", "nvcc")),
            *("-isystem", self.headers),
            *("-x", "cuda", "--cuda-gpu-arch=sm_75", "-nocudainc", "-nocudalib"),
            *("-Wno-unknown-cuda-version", "-include", "cuda_runtime.h", "-std=c++17"),
            # Old programs write "%d"NAME, which is one literal with a suffix since C++11.
            "-Wno-reserved-user-defined-literal",
            # The release whose launches push and pop; an older one sets each argument apart.
            *("-Xclang", "-target-sdk-version=12.0"),
        ]
        if self.order.per_thread:
            options += ["-Xclang", "-fgpu-default-stream=per-thread"]
        if found := _toolkit.cccl():
            # After all that the caller names: another release may be there.
            options += ["-idirafter", found]
        if "-fopenmp" in (*self.order.flags, *self.order.host):
            # OpenMP of clang does not fit the library of gcc: functions work, pragmas do not.
            options += ["-idirafter", _gcc_headers()]
        return options

    def _after_ours(self, flags: list[str]) -> list[str]:
        """Return options of a CUDA source, by which macros come after our headers.

        They must not affect those. Names that begin with an underscore are for compilers and the
        system's headers.
        """
        kept, lines = [], []
        words = iter(flags)
        for word in words:
            if word == "-fopenmp":
                # See `_cuda`.
                continue
            letter, macro = word[:2], word[2:]
            if letter not in ("-D", "-U"):
                kept.append(word)
                continue
            macro = macro or next(words)
            name, equals, value = macro.partition("=")
            if name.startswith("_") or name in EARLY:
                kept += [letter, macro]
            elif letter == "-U":
                lines.append(f"#undef {name}")
            else:
                lines.append(f"#define {name} {value if equals else 1}")
        if not lines:
            return kept
        text = "\n".join(lines) + "\n"
        # Kept beside the headers: what `-MD` writes names it, and make looks for it next time.
        name = hashlib.sha256(text.encode()).hexdigest()[:16]
        file = Path(self.headers).with_name(f"macros-{name}.h")
        if not file.exists():
            # Put there whole: another build may look for it meanwhile.
            handle, made = tempfile.mkstemp(dir=file.parent)
            with os.fdopen(handle, "w", encoding="utf-8") as opened:
                opened.write(text)
            os.replace(made, file)
        # Before what the caller includes so.
        return ["-include", str(file), *kept]

    def _movable(self) -> bool:
        # An object file may become part of a library.
        return self.order.shared or self.order.goal != "link"

    def _device(self) -> list[str]:
        """Return the command that compiles for the device, without its files."""
        flags = _for_language(_without_dependencies(self.order.flags), "cuda")
        flags = self._after_ours(flags)
        flags = [flag for flag in flags if not flag.startswith("-g")]
        return [
            *self.clang,
            *self.compiler,
            *self._cuda(),
            *("--cuda-device-only", "--cuda-feature=+ptx63", "-fmath-errno", "-ffp-contract=fast"),
            *("-gline-tables-only", "-fno-exceptions", "-fno-crash-diagnostics"),
            *(f"-fno-builtin-{name}{suffix}" for name in OWN_BODIES for suffix in ("", "f")),
            # The host shows the same warnings.
            *flags,
            *("-O3", "-w"),
            *self.order.device,
        ]

    def _each_ptx(self, files: list[str]) -> int:
        for file in files:
            stem = os.path.splitext(os.path.basename(file))[0]
            place = self.order.output or stem + self.order.ending
            command = [*self._device(), *self._special(file), "-S", file, "-o", place]
            if status := self._run(command) or self._complete(place):
                return status
        return 0

    def _keep_device(
        self, file: str, place: str, special: list[str], text: str, image: str, packed: str
    ) -> int:
        """Compile a file's device code for a later link, and write what its object file keeps."""
        code = os.path.join(self.folder.name, "device.bc")
        launches = Path(self.folder.name, "launches.h")
        launches.write_text(LAUNCHES, encoding="utf-8")
        # By which other files see explicit instances of templates. The names that clang makes up
        # are the same at each build.
        later = ["-Xclang", "-fgpu-rdc", "-Xclang", "-cuid=gpulend", "-include", str(launches)]
        command = [*self._device(), *later, *special, "-emit-llvm", "-S", file, "-o", text]
        if status := self._run(command):
            return status
        name = ""
        if not self.order.dry:
            seen = _read(text)
            name = _device_code.name_of(file, place, self.order, seen)
            Path(text).write_text(_device_code.with_own_names(seen, name), encoding="utf-8")
        command = [*self.clang, *FROM_LLVM, text, "-O0", "-Xclang", "-disable-llvm-passes"]
        if status := self._run([*command, "-emit-llvm", "-c", "-o", code]) or self.order.dry:
            return status
        part = _device_code.Part(name, self._is_older(), Path(code).read_bytes())
        Path(packed).write_bytes(_device_code.packed(part))
        Path(image).write_text(f"{_device_code.PART}{name}\n\0", encoding="utf-8")
        return 0

    def _link_device(self, words: list[str], output: str, empty: bool = False) -> int:
        """Link the device code that object files and archives keep; write one more object file.

        Without any none is written, or an empty one.
        """
        if self.order.dry:
            return 0
        parts = _device_code.parts(filter(os.path.isfile, _device_code.archives(words)))
        source = Path(self.folder.name, "linked.c")
        source.write_text("", encoding="utf-8")
        if parts:
            codes = [os.path.join(self.folder.name, f"{part.name}.bc") for part in parts]
            for code, part in zip(codes, parts, strict=True):
                Path(code).write_bytes(part.code)
            # clang adds the others to the first before it generates code.
            more = [word for code in codes[1:] for word in ("-mlink-bitcode-file", code)]
            image = os.path.join(self.folder.name, "linked.ptx")
            command = [*self.clang, *FROM_LLVM, codes[0], "-O3"]
            command += [word for each in more for word in ("-Xclang", each)]
            if status := self._run([*command, "-S", "-o", image]):
                return status
            advice = "name the file or library that does, and link all of them in one call"
            if status := self._end(image, advice, older=all(part.older for part in parts)):
                return status
            text = _read(image)
            names = " ".join(part.name for part in parts)
            Path(image).write_text(f"{_device_code.LINKED}{names}\n{text}", encoding="utf-8")
            source.write_text(_device_code.registration(image), encoding="utf-8")
        elif not empty:
            return 0
        command = [*self.clang, *self.compiler, "-x", "c", "-std=c23", "-fPIC", "-w"]
        return self._run([*command, "-c", str(source), "-o", output])

    def _add_mathematics(self, ptx: str) -> int:
        """Put functions of libdevice into a PTX that calls them, where there is one."""
        text = _read(ptx)
        names = _libdevice.wanted(text)
        library = _libdevice.find() if names else None
        if library is None:
            return 0
        source = Path(self.folder.name, "mathematics.cu")
        source.write_text(_libdevice.source(names), encoding="utf-8")
        made = source.with_suffix(".ptx")
        command = [*self.clang, *self.compiler, "-x", "cuda", "--cuda-gpu-arch=sm_75"]
        command += ["-nocudainc", "-nocudalib", "--cuda-device-only", "--cuda-feature=+ptx63"]
        command += ["-O3", "-w", "-fno-builtin"]
        command += ["-Xclang", "-mlink-builtin-bitcode", "-Xclang", library]
        if status := self._run([*command, "-S", str(source), "-o", str(made)]):
            return status
        both = _libdevice.joined(text, _read(made))
        Path(ptx).write_text(both, encoding="utf-8")
        return 0

    def _is_older(self) -> bool:
        return 0 < max(self.order.architectures, default=0) < VOLTA

    def _complete(self, ptx: str, older: bool = False) -> int:
        """Add to a PTX what a driver wants and clang did not write; return an exit status."""
        if self.order.dry:
            return 0
        if status := self._add_mathematics(ptx):
            return status
        text = _read(ptx)
        # As with nvcc, a program for GPUs before Volta keeps their scheduling on newer ones.
        if older or self._is_older():
            text = in_step(text)
        Path(ptx).write_text(_native.with_release(text), encoding="utf-8")
        return 0

    def _end(self, ptx: str, advice: str, older: bool = False) -> int:
        """Complete the PTX that becomes part of a program, and return an exit status."""
        if (status := self._complete(ptx, older)) or self.order.dry:
            return status
        if names := _device_code.undefined(_read(ptx)):
            raise Refused(f"nothing on the device defines {', '.join(names)}; {advice}")
        # A driver reads PTX as text up to its zero.
        with open(ptx, "a", encoding="utf-8") as file:
            file.write("\0")
        return 0

    def _link(self, objects: dict[str, str], more: list[str]) -> int:
        order = self.order
        tool = _linker()
        command = [*tool, *(["-shared"] if order.shared else []), "-o", order.output or "a.out"]
        # Before all libraries: a linker may leave out one that nothing has needed so far.
        command += [
            objects.get(file, file) for file, _ in order.inputs if _is_object(file, objects)
        ]
        command += more
        for file, _ in order.inputs:
            if _is_object(file, objects):
                continue
            if file == "-lcuda":
                # It has every driver's functions; the program takes the driver that it finds.
                command += ["-L" + simulator.driver_folder(), "-lcuda"]
            else:
                command.append(file)
        # The linker adds what threads and OpenMP's functions need.
        both = {*order.flags, *order.host}
        command += [flag for flag in ("-pthread", "-fopenmp", "-rdynamic") if flag in both]
        command += [str(_runtime()), f"-Wl,-rpath,{RUNTIME}:$ORIGIN", "-lm"]
        return self._run(command)

    def _run(self, command: list[str]) -> int:
        if self.order.verbose:
            print(shlex.join(command), file=sys.stderr)
        if self.order.dry:
            return 0
        return subprocess.run(command, check=False).returncode


def _read(file: str | Path) -> str:
    return Path(file).read_text(encoding="utf-8")


def _joined(found: re.Match[str]) -> str:
    """Return the brackets of a launch without spaces, on as many lines as before."""
    text = found[0]
    if text[:2] not in ("<<", ">>"):
        return text
    return text[0] * 3 + "\n" * text.count("\n")


def _is_object(file: str, objects: dict[str, str]) -> bool:
    return file in objects or (file.endswith((".o", ".obj")) and not file.startswith("-"))


def _for_language(flags: list[str], kind: str) -> list[str]:
    """Leave a standard of C++ out where C is compiled, and one of C elsewhere."""
    other = r"-std=(c|gnu)\+\+" if kind == "c" else r"-std=(c|gnu|iso)\w*\d"
    return [flag for flag in flags if re.match(other, flag) is None]


def _without_dependencies(flags: list[str]) -> list[str]:
    """Leave the options out that write a file for make: the host's compilation writes it."""
    kept = []
    words = iter(flags)
    for word in words:
        if word in ("-MF", "-MT", "-MQ"):
            next(words)
        elif word not in ("-MD", "-MMD", "-MP"):
            kept.append(word)
    return kept


def _dependencies_of(place: str, flags: list[str]) -> list[str]:
    """Return options by which make reads of an object file what another step finds out."""
    if not {"-MD", "-MMD"} & {*flags}:
        return []
    return [
        *([] if "-MF" in flags else ["-MF", os.path.splitext(place)[0] + ".d"]),
        *([] if {"-MT", "-MQ"} & {*flags} else ["-MQ", place]),
    ]


def _host_compiler(kind: str) -> list[str]:
    """Return the system's compiler of C or C++, or nothing."""
    variable, names = ("CC", ("cc", "gcc", "clang")) if kind == "c" else ("CXX", ("c++", "g++"))
    if given := os.environ.get(variable):
        return shlex.split(given)
    return next(([found] for name in names if (found := shutil.which(name))), [])


def _linker() -> list[str]:
    if found := _host_compiler("c++"):
        return found
    raise Refused("there is no C++ compiler to link with; install g++, or name one by CXX")


def _gcc_headers() -> str:
    """Return the folder of gcc's own headers, among them that of OpenMP."""
    asked = [*_linker(), "-print-file-name=include"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()


def _texts(file: Path, folders: list[Path], met: set[Path]) -> Iterator[tuple[Path, str]]:
    """Return a source and what it includes from its folders, each once, with their texts."""
    path = file.resolve()
    if path in met or not path.is_file():
        return
    met.add(path)
    text = path.read_text(encoding="utf-8", errors="surrogateescape")
    # clang asks for a file by the name that was given.
    yield Path(os.path.abspath(file)), text
    for name in re.findall(r'^\s*#\s*include\s*["<]([^">]+)[">]', text, re.M):
        for folder in (file.parent, *folders):
            if (folder / name).is_file():
                yield from _texts(folder / name, folders, met)
                break


def _runtime() -> Path:
    found = RUNTIME / "libgpulend_rt.so"
    if not found.exists():
        raise Refused(
            f"this gpulend came without {found.name}; it is for Linux on x86-64 and aarch64"
        )
    return found


def _headers(folder: str) -> str:
    """Return a folder with the headers: one in the user's cache, or else one inside `folder`."""
    texts = _native.program_headers()
    name = hashlib.sha256(repr(texts).encode()).hexdigest()[:16]
    kept = _native.cache_folder("program-headers")
    place = Path(kept or folder) / name
    if not place.is_dir():
        # Moved there whole: another build may look for it meanwhile.
        made = Path(tempfile.mkdtemp(dir=kept or folder))
        for header, text in texts:
            file = made / header
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        try:
            made.rename(place)
        except OSError:
            shutil.rmtree(made)
    return str(place)
