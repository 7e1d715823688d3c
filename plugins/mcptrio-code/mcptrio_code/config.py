"""The operator's settings: ``[plugins.code]`` in mcptrio.toml, and the environment.

mcptrio creates a Config when it loads the plugin. The tools neither read nor change files outside ``folders``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from attrs import field, frozen
from attrs.validators import and_, ge, le

__all__ = ["DEFAULT_SERVERS", "HOW_TO_INSTALL", "Config", "ServerConfig"]

_MIB: Final = 1024 * 1024


def _folders(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Return the paths absolute and normalized, each once."""
    return tuple(dict.fromkeys(Path(os.path.abspath(os.path.expanduser(path))) for path in paths))


@frozen(kw_only=True)
class ServerConfig:
    """A language server: ``[plugins.code.servers.NAME]``."""

    command: tuple[str, ...]
    """The program and its arguments; it must use stdin and stdout. An empty list disables the server."""

    globs: tuple[str, ...]
    """The names of the files for which the server is responsible, such as ``*.go``."""

    language: str = ""
    """The LSP language identifier, such as ``go``; by default the name of the table."""

    env: Mapping[str, str] = field(factory=dict)
    """Environment variables of the server, in addition to ``PATH``, ``HOME`` and a few others."""

    def __attrs_post_init__(self) -> None:
        for glob in self.globs:
            if not glob or "/" in glob or "\0" in glob:
                raise ValueError(f"globs: expected globs of file names such as *.go, got {glob!r}")
        if any("\0" in argument for argument in self.command):
            raise ValueError("command: expected arguments without NUL")


DEFAULT_SERVERS: Final[Mapping[str, ServerConfig]] = {
    "python": ServerConfig(command=("pyright-langserver", "--stdio"), globs=("*.py", "*.pyi")),
    "typescript": ServerConfig(
        command=("typescript-language-server", "--stdio"),
        globs=("*.ts", "*.tsx", "*.mts", "*.cts", "*.js", "*.jsx", "*.mjs", "*.cjs"),
    ),
}
"""Used unless a table with the same name replaces them."""

HOW_TO_INSTALL: Final[Mapping[str, str]] = {
    "pyright-langserver": "; install it with `pip install pyright`",
    "typescript-language-server": "; install it with `npm install -g typescript-language-server typescript@5`",
}
"""What a message about a missing program of a default server says at its end."""


@frozen(kw_only=True)
class Config:
    """The settings of the plugin. Sizes are in bytes, times in seconds."""

    folders: tuple[Path, ...] = field(default=(), converter=_folders)
    """Allowed folders. Each is the workspace of its own language servers."""

    servers: Mapping[str, ServerConfig] = field(factory=dict)
    """Language servers by name, in addition to ``python`` (pyright) and ``typescript``; these two can be replaced."""

    read_only: bool = False
    """Do not register the tool that changes files."""

    start_timeout: float = field(default=60.0, validator=and_(ge(1.0), le(600.0)))
    """Seconds for a language server to start; 1 to 600."""

    request_timeout: float = field(default=30.0, validator=and_(ge(0.1), le(600.0)))
    """Seconds for one request to a language server; 0.1 to 600."""

    idle_timeout: float = field(default=300.0, validator=and_(ge(0.1), le(86_400.0)))
    """Seconds after the last call at which a language server is stopped; 0.1 to 86400."""

    max_file_bytes: int = field(default=2 * _MIB, validator=and_(ge(1024), le(64 * _MIB)))
    """Maximum size of a file that is read; 1024 to 64 MiB."""

    max_files: int = field(default=20_000, validator=and_(ge(1), le(1_000_000)))
    """Maximum files of a folder that are watched for changes; 1 to 10^6. Hidden folders, ``node_modules`` and
    ``__pycache__`` are skipped."""

    max_message_bytes: int = field(default=32 * _MIB, validator=and_(ge(64 * 1024), le(256 * _MIB)))
    """Maximum size of a message from a language server; 64 KiB to 256 MiB. A server that sends a larger one is
    stopped."""

    max_open_documents: int = field(default=32, validator=and_(ge(1), le(1000)))
    """Maximum documents that are open in one language server; 1 to 1000. The least recently used one is closed."""

    def all_servers(self) -> dict[str, ServerConfig]:
        """Return the enabled servers. Those of the operator come first, so their globs take precedence."""
        merged = {**self.servers, **{name: each for name, each in DEFAULT_SERVERS.items() if name not in self.servers}}
        return {name: each for name, each in merged.items() if each.command}
