"""The command with which a host application starts mcptrio: the running interpreter, plugins and configuration.

``mcptrio host install`` makes it. All paths are absolute, because host applications start servers with another folder
and ``PATH``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from mcptrio.cli.server.config_options import CONFIG
from mcptrio.connecting.targets import Command
from mcptrio.errors import ConfigError
from mcptrio.ground.suggestions import did_you_mean_file
from mcptrio.serve.config import load_config

__all__ = ["launch_command", "launch_warning"]

_TEMPORARY_FOLDERS = ("archive-v0", "builds-v0")
"""Folders of uv's cache, where uvx keeps its environments."""
_NO_ENV: Mapping[str, str] = MappingProxyType({})


def launch_command(
    folder: Path,
    executable: str = sys.executable,
    *,
    plugins: Sequence[str] = (),
    no_plugins: Sequence[str] = (),
    config: Path | None = None,
    arguments: Sequence[str] = (),
    env: Mapping[str, str] = _NO_ENV,
) -> Command:
    """Return the command that starts mcptrio.

    Args:
        folder: The folder of relative paths and of ``mcptrio.toml``.
        plugins, no_plugins, config: The options of ``mcptrio serve`` with these names.
        arguments: Further arguments of the command.
        env: Variables for the server.
    """
    # Python leaves sys.executable empty if it cannot find its own program, as when it is embedded.
    if not executable or not Path(executable).is_absolute():
        raise ConfigError(f"expected an interpreter with an absolute path, got {executable!r}")
    # A graphical application does not have the PATH of the user's shell.
    args = [executable, "-m", "mcptrio", "serve", "--stdio"]
    file = folder / (config or Path(CONFIG)).expanduser()
    if config is not None or file.is_file():
        # Read now, so that a broken file is reported here and not by the host application, which hides it.
        load_config(file)
        args += ["--config", str(file)]
    for name in plugins:
        if name.endswith(".py"):
            file = folder / Path(name).expanduser()
            if not file.is_file():
                raise ConfigError(f"--plugin: no such file: {name}{did_you_mean_file(file)}")
            name = str(file)
        args += ["--plugin", name]
    for name in no_plugins:
        args += ["--no-plugin", name]
    return Command(args=(*args, *arguments), env=env)


def launch_warning(executable: str = sys.executable) -> str | None:
    """Return a warning about the interpreter, if there is one."""
    if any(part in _TEMPORARY_FOLDERS for part in Path(executable).parts):
        return (
            f"{executable} belongs to an environment that uvx may delete; install mcptrio into a virtual environment"
            " that you keep, or with `uv tool install`, and run this command again"
        )
    return None
