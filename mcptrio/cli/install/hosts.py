"""The supported host applications: the path and format of their configuration, and the form of an entry.

Each host application has one row in this table. No other module names one.

Source: the documentation of each host application; Zed: ``crates/paths``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeAlias

from attrs import frozen

from mcptrio.cli.install.documents import FormatName, parse
from mcptrio.cli.install.entries import EntryShape
from mcptrio.cli.install.machine import Machine
from mcptrio.errors import ConfigError
from mcptrio.ground.suggestions import did_you_mean

__all__ = ["HOSTS", "HostKind", "Scope", "find_host"]

Scope: TypeAlias = Literal["user", "project"]
_Place: TypeAlias = Callable[[Machine], Path]
_PLAIN = EntryShape()


@frozen(kw_only=True)
class HostKind:
    """A host application.

    Args:
        id: The name of the application on the command line.
        title: The name that the application shows.
        key: The member of the file that contains the servers.
        user: The path of the user's file, if there is one.
        project: The path of a project's file, if there is one.
        markers: Paths that exist if it is installed; by default the folder of the user's file.
        next_step: The next step for the user, printed after an installation.
    """

    id: str
    title: str
    key: str = "mcpServers"
    format: FormatName = "json"
    user: _Place | None = None
    project: _Place | None = None
    markers: Callable[[Machine], tuple[Path, ...]] | None = None
    shape: EntryShape = _PLAIN
    next_step: str = "Restart it."

    def file(self, machine: Machine, scope: Scope) -> Path:
        place, other = (self.user, "project") if scope == "user" else (self.project, "user")
        if place is None:
            raise ConfigError(f"{self.id}: expected --scope {other}, because it has no other file, got {scope}")
        return place(machine)

    def files(self, machine: Machine) -> dict[Scope, Path]:
        """Return its files, existing or not, each once."""
        files: dict[Scope, Path] = {}
        places: dict[Scope, _Place | None] = {"user": self.user, "project": self.project}
        for scope, place in places.items():
            # In the home folder, the project's file may be the user's.
            if place is not None and (path := place(machine)) not in files.values():
                files[scope] = path
        return files

    def is_found(self, machine: Machine) -> bool:
        """Return whether the host application seems to be installed for this user, or used in this project."""
        files = self.files(machine)
        user = files.get("user")
        markers = self.markers(machine) if self.markers else (user.parent,) if user else ()
        return any(path.exists() for path in (*markers, *files.values()))


def find_host(text: str) -> HostKind:
    """Return the host application of this name, or a generic one for a path to a JSON file."""
    if text in HOSTS:
        return HOSTS[text]
    if text.lower().endswith((".json", ".jsonc")):
        key, place = _key_of(Path(text)), Path(text).expanduser().absolute()
        shape = _SHAPES.get(key, _PLAIN)
        return HostKind(id=text, title=text, key=key, user=lambda _: place, shape=shape, next_step="")
    hint = did_you_mean(text, HOSTS)
    raise ConfigError(f"HOST: expected one of {', '.join(HOSTS)}, or FILE.json, got {text!r}{hint}")


def _key_of(path: Path) -> str:
    try:
        value = parse("json", path.expanduser().read_text("utf-8-sig"))
    except (OSError, ValueError):
        # The edit reports the fault, with its place.
        return "mcpServers"
    keys = ("mcpServers", *_SHAPES)
    key_in_file = next((key for key in keys if isinstance(value, dict) and key in value), None)
    # VS Code's settings.json and opencode's file have their servers under `mcp`, in other forms.
    if key_in_file is None and isinstance(value, dict) and "mcp" in value:
        raise ConfigError(
            f"{path}: expected one of {', '.join(keys)}, got mcp; nothing was written: VS Code reads its mcp.json"
            " (HOST vscode), and opencode's file is edited by hand"
        )
    return key_in_file or "mcpServers"


def _vs_code_folder(machine: Machine) -> Path:
    return machine.application_data / "Code" / "User"


def _cline_folder(machine: Machine) -> Path:
    # The id of the extension still contains its first name, Claude Dev.
    return _vs_code_folder(machine) / "globalStorage" / "saoudrizwan.claude-dev" / "settings"


def _zed_folder(machine: Machine) -> Path:
    # Zed uses ~/.config on macOS too (its paths.rs).
    if machine.platform == "win32":
        return machine.roaming / "Zed"
    if machine.platform == "darwin":
        return machine.home / ".config" / "zed"
    # Zed reads FLATPAK_XDG_CONFIG_HOME first (its paths.rs): in a Flatpak, XDG_CONFIG_HOME is inside the sandbox.
    return (machine.folder_from("FLATPAK_XDG_CONFIG_HOME") or machine.xdg_config) / "zed"


def _goose_folder(machine: Machine) -> Path:
    if machine.platform == "win32":
        return machine.roaming / "Block" / "goose" / "config"
    if machine.platform == "darwin":
        return machine.home / ".config" / "goose"
    return machine.xdg_config / "goose"


def _codex_folder(machine: Machine) -> Path:
    return machine.folder_from("CODEX_HOME") or machine.home / ".codex"


def _claude_code_file(machine: Machine) -> Path:
    return (machine.folder_from("CLAUDE_CONFIG_DIR") or machine.home) / ".claude.json"


_VS_CODE = EntryShape(command_members={"type": "stdio"}, url_members={"type": "http"})
_ZED = EntryShape(command_members={"source": "custom"})
_SHAPES = {"servers": _VS_CODE, "context_servers": _ZED}
"""The form of entries in files whose servers are not called mcpServers."""

_ALL = (
    HostKind(
        id="claude-desktop",
        title="Claude Desktop",
        user=lambda machine: machine.application_data / "Claude" / "claude_desktop_config.json",
        # Claude Desktop adds servers with a URL in its settings, under Connectors.
        shape=EntryShape(url=None),
        next_step="Quit and start it again.",
    ),
    HostKind(
        id="claude-code",
        title="Claude Code",
        user=_claude_code_file,
        project=lambda machine: machine.project / ".mcp.json",
        # The folder of its file is the home folder, which always exists.
        markers=lambda machine: (
            machine.folder_from("CLAUDE_CONFIG_DIR") or machine.home / ".claude",
            _claude_code_file(machine),
        ),
        shape=_VS_CODE,
        next_step="Start a new session.",
    ),
    HostKind(
        id="cursor",
        title="Cursor",
        user=lambda machine: machine.home / ".cursor" / "mcp.json",
        project=lambda machine: machine.project / ".cursor" / "mcp.json",
        next_step="Enable it in the settings, under MCP.",
    ),
    HostKind(
        id="vscode",
        title="VS Code",
        key="servers",
        user=lambda machine: _vs_code_folder(machine) / "mcp.json",
        project=lambda machine: machine.project / ".vscode" / "mcp.json",
        shape=_VS_CODE,
        next_step="Start it: MCP: List Servers.",
    ),
    HostKind(
        id="windsurf",
        title="Windsurf",
        user=lambda machine: machine.home / ".codeium" / "windsurf" / "mcp_config.json",
        shape=EntryShape(url="serverUrl"),
        next_step="Refresh its list of servers.",
    ),
    HostKind(
        id="zed",
        title="Zed",
        key="context_servers",
        user=lambda machine: _zed_folder(machine) / "settings.json",
        project=lambda machine: machine.project / ".zed" / "settings.json",
        shape=_ZED,
        next_step="",
    ),
    HostKind(
        id="gemini-cli",
        title="Gemini CLI",
        user=lambda machine: machine.home / ".gemini" / "settings.json",
        project=lambda machine: machine.project / ".gemini" / "settings.json",
        # Gemini CLI takes `url` for the older transport with SSE.
        shape=EntryShape(url="httpUrl"),
        next_step="Start a new session.",
    ),
    HostKind(
        id="codex",
        title="Codex",
        key="mcp_servers",
        format="toml",
        user=lambda machine: _codex_folder(machine) / "config.toml",
        project=lambda machine: machine.project / ".codex" / "config.toml",
        shape=EntryShape(headers="http_headers"),
        next_step="Start a new session.",
    ),
    HostKind(
        id="cline",
        title="Cline",
        user=lambda machine: _cline_folder(machine) / "cline_mcp_settings.json",
        markers=lambda machine: (_cline_folder(machine).parent,),
        # Without a type, Cline takes a URL for the older transport with SSE.
        shape=EntryShape(url_members={"type": "streamableHttp"}),
        next_step="",
    ),
    HostKind(
        id="goose",
        title="Goose",
        key="extensions",
        format="yaml",
        user=lambda machine: _goose_folder(machine) / "config.yaml",
        shape=EntryShape(
            command="cmd",
            env="envs",
            url="uri",
            command_members={"enabled": True, "type": "stdio", "description": "", "timeout": 300},
            url_members={"enabled": True, "type": "streamable_http", "description": "", "timeout": 300},
            has_name=True,
        ),
        next_step="Start a new session.",
    ),
)

HOSTS: Mapping[str, HostKind] = MappingProxyType({host.id: host for host in _ALL})
