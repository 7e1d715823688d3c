"""The memory limit of an isolated plugin's process.

The process sets it for itself before it imports the plugin. The parent adds a hint to the reason why the process ended.
Source: setrlimit(2), RLIMIT_DATA: private writable memory, with that of mmap since Linux 4.7.
"""

from __future__ import annotations

import logging
import sys

# The module does not exist on Windows, and macOS ignores RLIMIT_DATA.
if sys.platform == "linux":
    import resource

__all__ = ["limit_memory"]

_log = logging.getLogger("mcptrio.isolated")

_MIB = 1024 * 1024


def limit_memory(mebibytes: int) -> None:
    """Limit what this process may allocate. Beyond it Python raises MemoryError, and C libraries mostly crash.

    Does nothing but log a warning where the system has no such limit.
    """
    if sys.platform != "linux":
        _log.warning("max_memory_mb has no effect on %s", sys.platform)
        return
    # RLIMIT_AS would count mapped files and reserved address space, which some libraries take by the gigabyte.
    # Both bounds: the plugin cannot raise the limit again.
    resource.setrlimit(resource.RLIMIT_DATA, (mebibytes * _MIB, mebibytes * _MIB))
