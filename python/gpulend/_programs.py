"""Small programs that stand in for tools of NVIDIA's, in the user's cache."""

from __future__ import annotations

import hashlib
import os
import tempfile

from gpulend import _native


def put(name: str, script: str) -> str:
    """Return a folder with an executable script of this name.

    The folder is in the user's cache, one for each text: `gpulend run` is replaced by the program,
    so it could not remove a temporary one.
    """
    kept = _native.cache_folder(f"{name}-" + hashlib.sha256(script.encode()).hexdigest()[:16])
    folder = os.fspath(kept) if kept else tempfile.mkdtemp(prefix=f"gpulend-{name}-")
    handle, temporary = tempfile.mkstemp(dir=folder)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(script)
    os.chmod(temporary, 0o700)
    os.replace(temporary, os.path.join(folder, name))
    return folder
