"""Into the configuration of hosts: Claude, Cursor, VS Code and those like them start mcptrio, or reach it.

Used by ``mcptrio host``. :mod:`mcptrio.mcp_json` reads such files to reach the servers in them; this writes our entry
into them, each in its own words, and takes it out again.
The one rule: a file is somebody else's. Whatever is not our entry stays byte for byte, and what cannot be edited so is
left alone.
"""

from mcptrio.installing.hosts import HOSTS, HostKind, Scope, find_host
from mcptrio.installing.launches import Launch
from mcptrio.installing.machine import Machine
from mcptrio.installing.plans import Plan, plan_install, plan_uninstall, snippet
from mcptrio.installing.status import FileStatus, Installed, look

__all__ = [
    "HOSTS",
    "FileStatus",
    "HostKind",
    "Installed",
    "Launch",
    "Machine",
    "Plan",
    "Scope",
    "find_host",
    "look",
    "plan_install",
    "plan_uninstall",
    "snippet",
]
