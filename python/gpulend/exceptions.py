"""What this package raises.

Every class is also a builtin, so code that has never heard of gpulend still
catches what it expects: `ValueError` for a bad layout, `BufferError` for what
cannot be exported, `TypeError` for an object that speaks no protocol. Each
error has a `code` that keeps its meaning between releases; its message says
what was found, what was wanted and how to fix it.
"""

from __future__ import annotations

from collections.abc import Iterable


class Error(Exception):
    """Anything this package raises."""

    code: int

    def __init__(self, message: str = "", code: int = 0) -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[type[Error], tuple[object, ...]]:
        return type(self), (str(self), self.code)


class LayoutError(Error, ValueError):
    """Shape, strides or element type describe no tensor."""


class OutOfRangeError(LayoutError, IndexError):
    """An index is outside its axis; also ends a `for` loop over a lease."""


class ProtocolError(Error, TypeError):
    """An object speaks no protocol that gpulend knows, or breaks its own."""


class ExportError(Error, BufferError):
    """What is asked for cannot be handed out without losing something."""


class AddressError(Error, ValueError):
    """An address is not a live allocation, too short, misaligned or elsewhere."""


class ReleasedError(Error, ValueError):
    """The lease has ended."""


class StillLentError(Error, RuntimeError):
    """The lease cannot end while somebody holds what it handed out."""


class CompileError(Error, ValueError):
    """A kernel cannot be compiled; `diagnostics` says where, in the caller's own lines.

    Each is a tuple of file, line, column, severity (error, warning or note) and text.
    """

    diagnostics: list[tuple[str, int, int, str, str]]

    def __init__(
        self,
        message: str = "",
        code: int = 0,
        diagnostics: Iterable[tuple[str, int, int, str, str]] = (),
    ) -> None:
        super().__init__(message, code)
        self.diagnostics = list(diagnostics)

    def __reduce__(self) -> tuple[type[Error], tuple[object, ...]]:
        return type(self), (str(self), self.code, self.diagnostics)


class CompileWarning(UserWarning):
    """What the compiler found doubtful in a caller's own source."""


class KernelError(Error, RuntimeError):
    """A kernel cannot be launched, or went wrong."""


class SignatureError(KernelError, TypeError):
    """An argument does not suit a kernel's parameter; nothing was launched."""


class SecondModuleWarning(RuntimeWarning):
    """An instance of a template came too late for its module, and has variables of its own."""


class NoDeviceError(Error, RuntimeError):
    """There is no such device here."""


class DriverError(Error, RuntimeError):
    """A driver call failed."""


class OutOfMemoryError(DriverError, MemoryError):
    """There is no room."""
