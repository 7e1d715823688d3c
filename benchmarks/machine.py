"""The description of the machine in the report."""

from __future__ import annotations

import os
import platform
from pathlib import Path

__all__ = ["describe_machine"]


def describe_machine() -> str:
    """Return the processor, cores, memory, system and Python."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return (
        f"{_processor()}, {os.cpu_count()} cores, {memory:.0f} GiB of memory, "
        f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    )


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
