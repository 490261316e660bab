"""Frameworks that other packages bring, by entry points of one group."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from threading import get_ident
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint


class EntryPoints:
    """The entry points of a group, each of which is read once.

    No lock is held while a plug-in is imported: the import may call gpulend again, and wait for
    another thread's import. A thread that comes meanwhile reads them too, and so waits at Python's
    own locks of modules, which detect a deadlock. It returns when it has seen all of them.
    """

    def __init__(self, group: str, register: Callable[[Any], None]) -> None:
        self._group, self._register = group, register
        # What was found: entry points, and words about packages that cannot be read.
        self._found: tuple[EntryPoint | str, ...] | None = None
        self._done: set[EntryPoint | str] = set()
        # They come last the next time, so that the others are read.
        self._interrupted: set[EntryPoint | str] = set()
        # What each thread imports, by the thread's number.
        self._loading: dict[int, EntryPoint | str] = {}
        self._problems: dict[EntryPoint | str, str] = {}
        os.register_at_fork(after_in_child=self._leave_out_others)

    @property
    def unread(self) -> bool:
        """Whether some may still bring a framework."""
        return self._found is None or len(self._done) < len(self._found)

    @property
    def problems(self) -> list[str]:
        """Why some bring no framework."""
        return list(self._problems.values())

    def read(self) -> None:
        """Register what they bring; a broken one is warned of and left out."""
        thread = get_ident()
        # A plug-in that this thread imports calls gpulend.
        if thread in self._loading or not self.unread:
            return
        if self._found is None:
            self._found = tuple(dict.fromkeys(_find(self._group)))
        for item in sorted(self._found, key=self._interrupted.__contains__):
            if item in self._done:
                continue
            self._loading[thread] = item
            try:
                problem = item if isinstance(item, str) else self._load(item)
            except BaseException:
                self._interrupted.add(item)
                raise
            finally:
                del self._loading[thread]
            if problem is not None:
                self._say(item, problem)

    def _load(self, point: EntryPoint) -> str | None:
        """Register what an entry point brings; return why it brings nothing, if it does not."""
        try:
            self._register(point.load())
        except (Exception, SystemExit) as error:
            # This thread is importing the module, and calls gpulend: the next call comes later.
            if _is_half_imported(point):
                return None
            return (
                f"the entry point {point.name!r} ({point.value}) of {self._group} brings no "
                f"framework: {type(error).__name__}: {error}"
            )
        self._done.add(point)
        return None

    def _say(self, item: EntryPoint | str, problem: str) -> None:
        """Warn once. The warning may be an error, and does not come again then."""
        if item not in self._done:
            self._done.add(item)
            self._problems[item] = problem
            warnings.warn(problem, stacklevel=4)

    def _leave_out_others(self) -> None:
        """In a forked child, leave out what other threads were importing: nobody finishes it."""
        for thread, item in list(self._loading.items()):
            if thread != get_ident():
                del self._loading[thread]
                self._done.add(item)
                self._problems[item] = (
                    f"the entry point {getattr(item, 'name', item)!r} of {self._group} is left "
                    "out: another thread was importing it when this process was forked"
                )


def _is_half_imported(point: EntryPoint) -> bool:
    module = sys.modules.get(point.value.partition(":")[0].strip())
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def _find(group: str) -> list[EntryPoint | str]:
    """Look for entry points, package by package: one that cannot be read spoils no other."""
    # It takes long to import, and is seldom needed.
    from importlib.metadata import distributions

    found: list[EntryPoint | str] = []
    for distribution in distributions():
        try:
            text = distribution.read_text("entry_points.txt")
            if text is None or group not in text or _is_hidden(distribution, text):
                continue
            found += [point for point in distribution.entry_points if point.group == group]
        except Exception as error:
            found.append(
                f"the entry points of {_name(distribution)} cannot be read: "
                f"{type(error).__name__}: {error}"
            )
    return found


def _is_hidden(distribution: Distribution, text: str) -> bool:
    """Return whether the same package is on the search path before, in another version."""
    from importlib.metadata import Distribution

    first = Distribution.from_name(distribution.metadata["Name"])
    return first.read_text("entry_points.txt") != text


def _name(distribution: Distribution) -> str:
    try:
        return str(distribution.metadata["Name"])
    except Exception:
        # Without metadata its folder says most.
        return str(distribution.locate_file(""))
