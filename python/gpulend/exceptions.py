"""The exceptions and warnings of this package.

Every exception is also a builtin one, so code that does not know gpulend can
catch it: `ValueError` for a bad layout, `BufferError` for memory that cannot
be exported, `TypeError` for an object without a known protocol. Each error has
a `code` that keeps its meaning between releases; its message says what was
found, what was wanted and how to fix it. `gpulend explain` and the code say more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class _Notes:
    """The lines below an error in a traceback: where to read more.

    They are made when they are first asked for, so that an error costs nothing more to raise.
    Python shows notes from 3.11 on.
    """

    def __get__(self, error: Error | None, kind: type[Error]) -> Any:
        if error is None:
            return self
        if not error.code:
            raise AttributeError("__notes__")
        notes = error.__dict__["__notes__"] = [f"`gpulend explain {error.code}` says more"]
        return notes


class Error(Exception):
    """The base class of all exceptions."""

    code: int
    __notes__ = _Notes()

    def __init__(self, message: str = "", code: int = 0) -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[type[Error], tuple[object, ...]]:
        return type(self), (str(self), self.code)


class LayoutError(Error, ValueError):
    """Shape, strides or element type are not those of an array."""


class OutOfRangeError(LayoutError, IndexError):
    """An index is outside its axis; also ends a `for` loop over a lease."""


class ProtocolError(Error, TypeError):
    """An object speaks no protocol that gpulend knows, or breaks its own."""


class ExportError(Error, BufferError):
    """A consumer would lose something: a copy, a read-only mark, the meaning of the elements."""


class AddressError(Error, ValueError):
    """An address is not a live allocation, is misaligned, too short, or on another device."""


class ReleasedError(Error, ValueError):
    """The lease has ended."""


class StillLentError(Error, RuntimeError):
    """The lease cannot end while exports or sub-leases of it are alive."""


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
    """A compiler's warning about the caller's own source."""


class KernelError(Error, RuntimeError):
    """A kernel cannot be launched, or failed on the GPU."""


class SignatureError(KernelError, TypeError):
    """An argument does not match a kernel's parameter; nothing was launched."""


class SecondModuleWarning(RuntimeWarning):
    """A template instance was requested after its module was loaded; it has its own variables."""


class NoDeviceError(Error, RuntimeError):
    """There is no such device."""


class DriverError(Error, RuntimeError):
    """A driver call failed."""


class OutOfMemoryError(DriverError, MemoryError):
    """There is not enough memory."""


class TicketError(Error, ValueError):
    """Bytes are not a ticket, or not one that its lender gave."""


class TicketVersionError(TicketError):
    """A ticket was made by a release of gpulend that writes other tickets."""


class TicketExpiredError(TicketError):
    """A ticket's time is over, it was withdrawn, or all its claims were made."""


class WrongMachineError(TicketError):
    """A ticket was made on another machine."""


class NotPermittedError(TicketError):
    """The lender, or the folder of its socket, belongs to another user."""


class LenderGoneError(Error, RuntimeError):
    """The process that lent memory has ended."""


class DeviceNotVisibleError(NoDeviceError):
    """Memory is on a device that this process does not see."""


class NotShareableError(ExportError):
    """Other processes cannot open the memory."""
