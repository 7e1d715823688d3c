"""Packages that tests install from registries, kept in ``.cache`` between runs.

tests/node.py and the tests of other servers use it. A folder in the cache is always complete: it is created under
another name and renamed, so interrupted or concurrent runs leave no partial folder.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable
from pathlib import Path

__all__ = ["CACHE", "INSTALL_SECONDS", "kept"]

CACHE = Path(__file__).resolve().parent.parent / ".cache"

INSTALL_SECONDS = 180
"""Timeout of one call of npm or pip. With two cores and an empty download cache, the longest takes 10 seconds."""


def kept(name: str, of: bytes, make: Callable[[Path], None]) -> Path:
    """Return a folder that is made once.

    Args:
        of: The source of the folder, such as a lock file; another source makes another folder.
        make: Fills an empty folder, which is renamed afterwards.
    """
    home = CACHE / f"{name}-{hashlib.sha256(of).hexdigest()[:12]}"
    if home.exists():
        return home
    CACHE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE, ignore_cleanup_errors=True) as scratch:
        make(Path(scratch))
        try:
            Path(scratch).rename(home)
        except OSError:
            if not home.exists():
                raise
    return home
