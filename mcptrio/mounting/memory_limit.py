"""The memory limit of an isolated plugin's process.

The process sets the limit for itself before it imports the plugin. If the process runs out of memory, the parent names
the setting in the error.
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
    """Limit the memory of this process. Beyond the limit, Python raises MemoryError, and most C libraries crash.

    On systems without such a limit, only logs a warning.
    """
    if sys.platform != "linux":
        _log.warning("max_memory_mb has no effect on %s", sys.platform)
        return
    # RLIMIT_AS would also count mapped files and reserved address space, of which some libraries take gigabytes.
    # The hard limit is set too, so that the plugin cannot raise the limit.
    resource.setrlimit(resource.RLIMIT_DATA, (mebibytes * _MIB, mebibytes * _MIB))
