"""Where the gallery is, and which of its frameworks must be here."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "examples"))

PROMISED = frozenset(filter(None, os.environ.get("GPULEND_PROMISED", "").split(",")))
