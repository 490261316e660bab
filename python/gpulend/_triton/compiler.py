"""The compiler that Triton wants beside a driver: it compiles for no target."""

from __future__ import annotations

from typing import Any

from triton.backends.compiler import BaseBackend, GPUTarget


class Compiler(BaseBackend):  # type: ignore[misc]
    """Leaves every target to Triton's back end for CUDA."""

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        """Return False."""
        return False

    def hash(self) -> str:
        """Return the same name always."""
        return "gpulend"

    def parse_options(self, options: dict[str, Any]) -> object:
        """Refuse: nothing is compiled here."""
        raise NotImplementedError("Triton's back end for CUDA compiles for the simulated GPU")

    def add_stages(self, stages: dict[str, Any], options: object, *more: object) -> None:
        """Refuse: nothing is compiled here."""
        raise NotImplementedError("Triton's back end for CUDA compiles for the simulated GPU")

    def load_dialects(self, context: object) -> None:
        """Do nothing."""

    def get_module_map(self) -> dict[str, Any]:
        """Return an empty map."""
        return {}
