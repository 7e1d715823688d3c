"""Adds mcptrio to the configuration of host applications: Claude, Cursor, VS Code and others.

``mcptrio host`` uses it. :mod:`mcptrio.connecting.mcp_json` reads such files; this package writes and removes our
entry. Everything but our entry stays the same to the byte, and a file that cannot be edited in this way is refused.
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
