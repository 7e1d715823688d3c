"""What tests install from registries, kept in ``.cache`` from one run to the next.

Called by tests/node.py and by the tests of other people's servers.
The one rule: a folder in the cache is whole. It is made beside its place and renamed, so a run that is interrupted, or
two at once, leave no half of it.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable
from pathlib import Path

__all__ = ["CACHE", "INSTALL_SECONDS", "kept"]

CACHE = Path(__file__).resolve().parent.parent / ".cache"

INSTALL_SECONDS = 180
"""For one call of npm or pip. With two cores and nothing downloaded before, the largest takes 10."""


def kept(name: str, of: bytes, make: Callable[[Path], None]) -> Path:
    """A folder that was made once.

    Args:
        of: what the folder is made of, a lock file; another content is another folder.
        make: fills an empty folder, which has another name at that time.
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
