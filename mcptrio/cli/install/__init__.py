"""Into the configuration of hosts: Claude, Cursor, VS Code and those like them start mcptrio, or reach it.

Used by ``mcptrio host``. :mod:`mcptrio.connecting.mcp_json` reads such files to reach the servers in them; this writes
our entry into them, each in its own words, and takes it out again.
The one rule: a file is somebody else's. Whatever is not our entry stays byte for byte, and what cannot be edited so is
left alone.
"""

from mcptrio.cli.install.hosts import HOSTS, HostKind, Scope, find_host
from mcptrio.cli.install.launches import Launch
from mcptrio.cli.install.machine import Machine
from mcptrio.cli.install.plans import InstallPlan, plan_install, plan_uninstall, snippet
from mcptrio.cli.install.status import FileStatus, Installed, look

__all__ = [
    "HOSTS",
    "FileStatus",
    "HostKind",
    "InstallPlan",
    "Installed",
    "Launch",
    "Machine",
    "Scope",
    "find_host",
    "look",
    "plan_install",
    "plan_uninstall",
    "snippet",
]
