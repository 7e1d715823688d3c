"""Packages that tests install from registries, cached in ``.cache`` between runs.

node.py and servers/environment.py use it. A folder in the cache is always complete: it is created under
another name and renamed, so interrupted or concurrent runs leave no partial folder.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable
from pathlib import Path

__all__ = ["CACHE", "INSTALL_SECONDS", "cached_folder"]

CACHE = Path(__file__).resolve().parent.parent / ".cache"

INSTALL_SECONDS = 180
"""Timeout of one call of npm or pip. With two cores and an empty download cache, the longest takes 10 seconds."""


def cached_folder(name: str, source: bytes, fill: Callable[[Path], None]) -> Path:
    """Return a folder of the cache, after filling it if it does not exist.

    Args:
        name: A prefix of the folder's name.
        source: The file that determines the contents, such as a lock file. Each version of it has its own folder.
        fill: Writes the contents into an empty folder, which is renamed afterwards.
    """
    home = CACHE / f"{name}-{hashlib.sha256(source).hexdigest()[:12]}"
    if home.exists():
        return home
    CACHE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE, ignore_cleanup_errors=True) as scratch:
        fill(Path(scratch))
        try:
            Path(scratch).rename(home)
        except OSError:
            if not home.exists():
                raise
    return home
