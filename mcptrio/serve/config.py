"""The configuration of a server: ``mcptrio.toml`` and the environment, with one class per table.

The command line uses it. Its options take precedence over the environment, and the environment over the file. Errors
name file, line and key, or the variable, and are raised before anything starts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from attrs import field, fields, frozen

from mcptrio.errors import ConfigError
from mcptrio.ground.expected import integer
from mcptrio.ground.quoting import quote_name
from mcptrio.ground.suggestions import suggest
from mcptrio.plugins.policy import ToolPolicy
from mcptrio.protocol.limits import MessageLimits
from mcptrio.runtime.settings import ServerSettings
from mcptrio.settings.problems import Key, describe_value
from mcptrio.settings.reader import SettingsReader, keys_of_class, variable_of
from mcptrio.settings.toml_source import TOMLSource, read_toml

if TYPE_CHECKING:
    from mcptrio.serve.http_options import HTTPTable
    from mcptrio.serve.stores_table import StoresTable
    from mcptrio.serve.stream_options import StreamTable
    from mcptrio.telemetry.settings import TelemetryTable

__all__ = [
    "LOG_FORMATS",
    "LOG_LEVELS",
    "ConsoleTable",
    "LogTable",
    "MessageTable",
    "ServeConfig",
    "ServerTable",
    "ToolsTable",
    "check_variables",
    "keys",
    "load_config",
]

LogLevel = Literal["debug", "info", "warning", "error"]
LOG_LEVELS: Final[tuple[str, ...]] = get_args(LogLevel)
LogFormat = Literal["text", "json"]
LOG_FORMATS: Final[tuple[str, ...]] = get_args(LogFormat)

# The module and class of each table. The HTTP classes are imported only if a table needs them.
_CLASSES: Final = MappingProxyType(
    {
        "server": ("mcptrio.serve.config", "ServerTable"),
        "tools": ("mcptrio.serve.config", "ToolsTable"),
        "http": ("mcptrio.serve.http_options", "HTTPTable"),
        "stream": ("mcptrio.serve.stream_options", "StreamTable"),
        "stores": ("mcptrio.serve.stores_table", "StoresTable"),
        "log": ("mcptrio.serve.config", "LogTable"),
        "console": ("mcptrio.serve.config", "ConsoleTable"),
        "telemetry": ("mcptrio.telemetry.settings", "TelemetryTable"),
    }
)
# Tables that other modules read.
_OTHER_TABLES: Final = ("auth", "plugins", "mount")
# The prefix of the variables of [auth].
_AUTH_VARIABLES: Final = "MCPTRIO_AUTH_"


class _PluginName(str):
    """A plugin by name, or by the path of its file."""

    __slots__ = ()

    @classmethod
    def from_setting(cls, value: object, folder: Path) -> _PluginName:
        if not isinstance(value, str):
            raise ValueError("Expected `str`")
        # A relative path starts at the folder of the configuration file, not at the working directory.
        return cls(folder / Path(value).expanduser()) if value.endswith(".py") else cls(value)


@frozen(kw_only=True)
class MessageTable(MessageLimits):
    """The table ``[server.message]``. Smaller limits would reject ``initialize``."""

    bytes: int = field(default=fields(MessageLimits).bytes.default, validator=integer(1024))
    depth: int = field(default=fields(MessageLimits).depth.default, validator=integer(8))


@frozen(kw_only=True)
class ServerTable(ServerSettings):
    """The table ``[server]``: the settings of the server and its plugins.

    Args:
        name: The name that clients see.
        instructions: Advice for the model on how to use the tools.
        enable: The plugins to load; ``None`` loads all that are installed.
        disable: Installed plugins that are not loaded.
        only: Plugins as in ``enable``; the start fails if one of them fails.
        key_files: Files with one sealing key each.
        message: Limits of one message on any transport.
    """

    name: str = "mcptrio"
    instructions: str | None = None
    enable: tuple[_PluginName, ...] | None = None
    disable: tuple[str, ...] = ()
    only: tuple[_PluginName, ...] | None = None
    key_files: tuple[Path, ...] = ()
    message: MessageTable = field(factory=MessageTable)

    def __attrs_post_init__(self) -> None:
        if self.enable is not None and self.only is not None:
            raise ValueError("only: expected this or enable, got both")
        if both := sorted({*(self.only or ())} & {*self.disable}):
            raise ValueError(f"only: expected plugins that are not in disable, got {both[0]}")


@frozen(kw_only=True)
class ToolsTable(ToolPolicy):
    """The table ``[tools]``: which tools are listed.

    Args:
        locked: True to list only the tools in the lock file.
    """

    locked: bool = False


@frozen(kw_only=True)
class LogTable:
    """The table ``[log]``.

    Args:
        level: The lowest level that is written.
        format: ``text``, or ``json`` for one JSON object per line.
        levels: Levels of single loggers and those below them, such as that of a plugin's module.
    """

    level: LogLevel = "info"
    format: LogFormat = "text"
    levels: Mapping[str, LogLevel] = field(factory=dict)


@frozen(kw_only=True)
class ConsoleTable:
    """The table ``[console]``.

    Args:
        read_only: True to show everything and change nothing.
        scope: A scope of ``[auth]``. A user with an access token that has it may open the console too.
    """

    read_only: bool = False
    scope: str | None = None


class ServeConfig:
    """The settings in the file and the environment.

    Args:
        source: The file; ``None`` if no file is read.
        tables: The tables of the file, not yet validated.
        environ: The environment, which takes precedence over the file.
    """

    def __init__(
        self,
        source: TOMLSource | None = None,
        tables: Mapping[str, Any] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.source = source
        self.tables: Mapping[str, Any] = tables or {}
        self._environ = environ or {}

    @cached_property
    def server(self) -> ServerTable:
        table: ServerTable = self._read("server")
        return table

    @cached_property
    def tools(self) -> ToolsTable:
        table: ToolsTable = self._read("tools")
        return table

    @cached_property
    def http(self) -> HTTPTable:
        table: HTTPTable = self._read("http")
        return table

    @cached_property
    def stream(self) -> StreamTable:
        table: StreamTable = self._read("stream")
        return table

    @cached_property
    def stores(self) -> StoresTable:
        table: StoresTable = self._read("stores")
        return table

    @cached_property
    def log(self) -> LogTable:
        table: LogTable = self._read("log")
        return table

    @cached_property
    def console(self) -> ConsoleTable:
        table: ConsoleTable = self._read("console")
        return table

    @cached_property
    def telemetry(self) -> TelemetryTable:
        table: TelemetryTable = self._read("telemetry")
        return table

    @property
    def plugins(self) -> Mapping[str, Mapping[str, Any]]:
        """The tables of the plugins, not yet validated."""
        return self._tables("plugins")

    @property
    def mount(self) -> Mapping[str, Mapping[str, Any]]:
        """The tables of the mounted servers, not yet validated; see ``mcptrio.mounting.tables``."""
        return self._tables("mount")

    @property
    def auth(self) -> Mapping[str, Any] | None:
        """The table ``[auth]``, not yet validated; see ``mcptrio.serve.auth_config``."""
        return self._table(self.tables, ("auth",)) if "auth" in self.tables else None

    def has_auth(self, environ: Mapping[str, str]) -> bool:
        """Return True if ``[auth]`` exists, or a variable with its prefix."""
        # A misspelled variable must not leave the server without a guard, so it counts as an empty table.
        return self.auth is not None or any(name.startswith(_AUTH_VARIABLES) for name in environ)

    def is_set(self, *key: str) -> bool:
        """Return True if the file or the environment sets a key of a table."""
        return variable_of(key) in self._environ or key[-1] in self.tables.get(key[0], {})

    def resolve_path(self, name: str) -> Path:
        """Return a path from the file; a relative one starts at the file's folder."""
        return self.source.path.parent / name if self.source is not None else Path(name)

    def where(self, key: Key) -> str | None:
        """Return file and line of a key; ``None`` if no file was read."""
        return self.source.where(key) if self.source is not None else None

    def error(self, key: Key, problem: str) -> ConfigError:
        """Return an error about a key that names file and line, or the variable."""
        if (variable := variable_of(key)) in self._environ:
            return ConfigError(f"{variable}: {problem}")
        return (
            self.source.error(key, problem) if self.source is not None else ConfigError(f"{'.'.join(key)}: {problem}")
        )

    def check(self, prefix: Key = ()) -> None:
        """Read every table that the file or the environment contains.

        Args:
            prefix: The key of the profile that contains the tables, if any.

        Raises:
            ConfigError: A table, a key or a value is invalid.
        """
        known = (*_CLASSES, *_OTHER_TABLES)
        for key, table in self.tables.items():
            if key not in known:
                raise self.error((*prefix, key), f"there is no such table{suggest(key, known)}")
            if key in _CLASSES:
                self._read(key, prefix)
            elif key == "auth":
                self._table(self.tables, (key,), prefix)
            else:
                for name in self._table(self.tables, (key,), prefix):
                    self._table(table, (key, name), prefix)
        for name in _CLASSES:
            if name not in self.tables and any(each.startswith(f"{variable_of((name,))}_") for each in self._environ):
                self._read(name)
        if any(name.startswith("MCPTRIO_") for name in self._environ):
            check_variables(self._environ, {variable_of(key) for key in keys()}, _CLASSES)

    def _read(self, name: str, prefix: Key = ()) -> Any:
        reader = SettingsReader(
            folder=self.resolve_path("."), error=self.error, environ=self._environ, tables_with=_tables_with
        )
        table = self._table(self.tables, (name,), prefix)
        return reader.read(_class_of(name), table, (*prefix, name), variables=(name,))

    def _tables(self, name: str) -> Mapping[str, Mapping[str, Any]]:
        tables: Mapping[str, Mapping[str, Any]] = self.tables.get(name, {})
        return tables

    def _table(self, tables: Mapping[str, Any], key: Key, prefix: Key = ()) -> Mapping[str, Any]:
        table = tables.get(key[-1], {})
        if not isinstance(table, dict):
            raise self.error((*prefix, *key), f"expected a table, got {describe_value(table, ())}")
        return table


def keys() -> Iterator[Key]:
    """Yield every key of the server's tables, without ``[auth]`` and the tables of plugins and mounts."""
    for name in _CLASSES:
        yield from ((name, *key) for key in keys_of_class(_class_of(name)))


def _tables_with(name: str) -> list[str]:
    return [".".join(key[:-1]) for key in keys() if key[-1] == name]


def load_config(path: Path | None, profile: str | None = None, environ: Mapping[str, str] | None = None) -> ServeConfig:
    """Read and check a file and the environment, which takes precedence.

    Args:
        path: The file; ``None`` reads the environment only.
        profile: The profile whose table ``[profiles.NAME]`` takes precedence over the rest of the file.
        environ: The environment; ``None`` reads the file only.

    Raises:
        ConfigError: The file is unreadable or not TOML, a value is invalid, or the profile does not exist.
    """
    source, tables = (None, {}) if path is None else read_toml(path)
    if source is not None:
        tables = _with_profile(source, tables, profile)
    for name, other in (("only", "enable"), ("enable", "only")):
        if environ and variable_of(("server", name)) in environ:
            tables.get("server", {}).pop(other, None)
    config = ServeConfig(source, tables, environ)
    config.check()
    return config


def check_variables(environ: Mapping[str, str], known: Collection[str], tables: Iterable[str]) -> None:
    """Check that each variable of some tables is a setting.

    Args:
        known: The variables of all settings.
        tables: The tables; variables with their prefixes must be settings.

    Raises:
        ConfigError: A variable with such a prefix is not a setting.
    """
    prefixes = tuple(f"{variable_of((name,))}_" for name in tables)
    for variable in environ:
        if variable.startswith(prefixes) and variable not in known:
            raise ConfigError(f"{variable}: there is no such setting{suggest(variable, sorted(known))}")


def _class_of(name: str) -> type[Any]:
    module, cls = _CLASSES[name]
    settings_class: type[Any] = getattr(import_module(module), cls)
    return settings_class


def _with_profile(source: TOMLSource, tables: dict[str, Any], profile: str | None) -> dict[str, Any]:
    """Return the tables merged with those of a profile, after checking every profile."""
    profiles = tables.pop("profiles", {})
    if not isinstance(profiles, dict):
        raise source.error(("profiles",), f"expected a table, got {describe_value(profiles, ())}")
    for name, table in profiles.items():
        if not isinstance(table, dict):
            raise source.error(("profiles", name), f"expected a table, got {describe_value(table, ())}")
        ServeConfig(source, table).check(("profiles", name))
    ServeConfig(source, tables).check()
    if profile is None:
        return tables
    if profile not in profiles:
        raise ConfigError(f"{source.path}: there is no profile {quote_name(profile)}{suggest(profile, profiles)}")
    source.overlay = (("profiles", profile), profiles[profile])
    for name, other in (("only", "enable"), ("enable", "only")):
        if name in profiles[profile].get("server", {}):
            tables.get("server", {}).pop(other, None)
    return _merge(tables, profiles[profile])


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two tables; ``above`` takes precedence."""
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        merged[key] = value
        # A reference to a variable or a file is one value, although it is written as a table.
        if isinstance(value, dict) and isinstance(under, dict) and not _is_reference(value | under):
            merged[key] = _merge(under, value)
    return merged


def _is_reference(table: Mapping[str, Any]) -> bool:
    """Return True if a table is a reference to a variable or a file: ``{ "$env" = "NAME" }``."""
    return any(name.startswith("$") for name in table)
