"""For pytest, with Taichi's own tests: their conftest.py sets a flag of a plugin, no more.

`PYTHONPATH=tests/clients TI_WANTED_ARCHS=cuda gpulend run -- python -m pytest -p every_plugin -p
taichi_plugin --every 20 tests/python` from a checkout.
"""

from __future__ import annotations

import sys
import types

sys.modules.setdefault("pytest_rerunfailures", types.ModuleType("pytest_rerunfailures"))
