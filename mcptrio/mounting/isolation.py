"""Isolated plugins, each of which runs in its own server process that is mounted under the plugin's name.

The command line uses this for plugins with ``isolate = true``. The process has the same configuration, environment and
folder as this one, but does not isolate plugins itself.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from pathlib import Path

from attrs import field, frozen

from mcptrio.client.timeouts import ClientTimeouts
from mcptrio.connecting.targets import Command
from mcptrio.ground.mcptrio_command import mcptrio_command
from mcptrio.mounting.mount import Mount
from mcptrio.mounting.options import MountOptions
from mcptrio.protocol.revisions.registry import LATEST
from mcptrio.serve.config import LOG_LEVELS
from mcptrio.settings.reader import variable_of

__all__ = ["Isolation"]

_log = logging.getLogger("mcptrio.isolated")

START_TIMEOUT = 5.0
"""Seconds that the start of the server waits for the plugin. Then the other plugins are served without it."""
IMPORT_TIMEOUT = 25.0
"""Seconds within which the plugin's process must answer. Otherwise the plugin is quarantined. This is less than the
default of ``timeouts.start``, so that the error of a strict server, which waits for the process, names the process."""


@frozen(kw_only=True)
class Isolation:
    """The settings with which the processes are started.

    Args:
        config: The configuration file; ``None`` if there is none.
        options: More options of ``serve`` for each process.
        strict: True if the server starts only with all its plugins. Its start then waits for each of them.
    """

    config: Path | None = None
    options: Sequence[str] = field(default=())
    strict: bool = False

    def mount(self, name: str, path: Path | None = None) -> Mount:
        """Return the mount that replaces the plugin."""
        # _StderrLog reads the records of the process as text.
        env = {variable_of(("log", "format")): "text"}
        command = Command(args=self.command(name, path), env=env, inherit_env=True, stderr=_StderrLog(name).write_line)
        # The process adds the prefix to its tools itself, and it speaks the newest revision.
        # A strict server waits for the end of the import, successful or not.
        wait = IMPORT_TIMEOUT + START_TIMEOUT / 2 if self.strict else START_TIMEOUT
        timeouts = ClientTimeouts(connect=IMPORT_TIMEOUT)
        options = MountOptions(prefix="", start_timeout=wait, required=True, revision=LATEST.version, timeouts=timeouts)
        return _OwnMount(command, name=name, options=options)

    def command(self, name: str, path: Path | None = None) -> list[str]:
        """Return the command that starts the process."""
        plugin = name if path is None else str(path.absolute())
        config = ["--config", str(self.config.absolute())] if self.config is not None else []
        # The child gets our log level, so that it does not write records that would be dropped here.
        level = logging.getLevelName(logging.getLogger().getEffectiveLevel()).lower()
        log = ["--log-level", level if level in LOG_LEVELS else "info"]
        # --strict, because the process has one plugin. Its failure must end the process, so that we get the reason.
        args = ["--plugin", plugin, *config, "--strict", "--isolated", *log]
        return mcptrio_command("serve", "--stdio", *args, *self.options)


class _OwnMount(Mount):
    """The mount of an isolated plugin's process, which accepts the forwarded caller."""

    _forwards_caller = True


class _StderrLog:
    """Forwards the standard error of the process to our log. Log records keep their level and logger."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._level = logging.INFO
        self._logger = _log

    def write_line(self, line: str) -> None:
        match = _RECORD.fullmatch(line)
        # Lines of a traceback have no prefix, so the level and logger of the last record apply to them.
        if match is not None:
            self._level, self._logger = getattr(logging, match[1]), logging.getLogger(match[2])
        self._logger.log(self._level, "%s: %s", self._name, line if match is None else match[3])


_RECORD = re.compile(r"\d{4}-\d\d-\d\d [\d:,]+ (DEBUG|INFO|WARNING|ERROR|CRITICAL) +([\w.-]+): (.*)", re.DOTALL)
"""A record as :mod:`mcptrio.cli.server.log_output` writes it."""
