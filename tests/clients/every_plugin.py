"""For pytest, with other people's tests: every N-th of them, by the option `--every`."""

from __future__ import annotations

from typing import Any


def pytest_addoption(parser: Any) -> None:
    """Add the option `--every`."""
    parser.addoption("--every", type=int, default=1)


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Keep every N-th test."""
    items[:] = items[:: config.getoption("--every")]
