"""Makes a server from the plugins of the command line and the configuration file.

``serve``, ``plugins`` and the client commands with ``--plugin`` use it. The command line takes precedence over the
file.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import evolve, fields_dict, frozen

from mcptrio.cli.server.config_options import config_option, profile_option, read_config
from mcptrio.cli.server.log_output import log_to_stderr
from mcptrio.errors import ConfigError
from mcptrio.ground.bounded_file import read_bytes
from mcptrio.ground.suggestions import did_you_mean, did_you_mean_file
from mcptrio.ground.version import __version__
from mcptrio.serve.config import ServeConfig
from mcptrio.settings.problems import Key

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from mcptrio.plugins.lock import ToolLock
    from mcptrio.plugins.manager import PluginManager, ReplacePlugin
    from mcptrio.plugins.plugin import Plugin
    from mcptrio.plugins.policy import ToolPolicy
    from mcptrio.plugins.settings import PluginTables
    from mcptrio.server import Server

__all__ = [
    "LOCK",
    "MOUNT",
    "ChosenPlugins",
    "PluginSelection",
    "add_mounts",
    "excluded_plugins",
    "file_options",
    "isolation",
    "keys_of",
    "make_examined_server",
    "make_server",
    "named_plugin_options",
    "plugin_names",
    "plugin_options",
    "refuse_empty",
    "report_opened",
    "tables_of",
]

LOCK = "mcptrio.lock"
"""The name of the lock file, next to the configuration."""

_log = logging.getLogger("mcptrio.cli")
_serve_log = logging.getLogger("mcptrio.serve")

_MAX_KEY_BYTES = 64 * 1024
_MIN_KEY_BYTES = 16
_MIDDLEWARE = {"rate_limit": "RateLimit", "audit_log": "AuditLog"}
"""Plugins of mcptrio that are loaded if they have a table."""
MOUNT = "mount"
"""A plugin of mcptrio that is loaded if a server is mounted."""


def plugin_options(command: Any) -> Any:
    """Add the options that select plugins, as a decorator; the command receives them as ``chosen``."""
    return _PLUGIN(_NO_PLUGIN(file_options(command)))


def named_plugin_options(command: Any) -> Any:
    """Add the options of a command whose arguments are the plugins; an argument ``plugins`` is part of ``chosen``."""
    return _NO_PLUGIN(file_options(command))


def file_options(command: Any) -> Any:
    """Add the options that select the configuration file, as a decorator; the command receives ``chosen``."""

    @wraps(command)
    def wrapper(**params: Any) -> Any:
        plugin_params = {name: params.pop(name) for name in fields_dict(ChosenPlugins) if name in params}
        return command(chosen=ChosenPlugins(**plugin_params), **params)

    # Decorators apply from the last to the first, and help lists options in the order of the decorators.
    return config_option(profile_option(wrapper))


def plugin_names(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of an installed plugin, or a file."""
    from click.shell_completion import CompletionItem

    from mcptrio.plugins.discovery import installed_entry_points

    names = [CompletionItem(name) for name in installed_entry_points() if name.startswith(incomplete)]
    return names or [CompletionItem(incomplete, type="file")]


_PLUGIN = click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="NAME|FILE.py",
    shell_complete=plugin_names,
    help="Use this installed plugin or file; repeat for more.  [default: all installed plugins]",
)
_NO_PLUGIN = click.option(
    "--no-plugin",
    "no_plugins",
    multiple=True,
    metavar="NAME",
    shell_complete=plugin_names,
    help="Leave this plugin out.",
)


@frozen(kw_only=True)
class ChosenPlugins:
    """The values of the options that select plugins, by the names of their parameters."""

    plugins: Sequence[str] = ()
    place: str = "--plugin"
    """Where the command line names them, for errors."""
    objects: Sequence[object] = ()
    """Modules, classes and objects that a program passes instead of names."""
    no_plugins: Sequence[str] = ()
    config: Path | None = None
    profile: str | None = None
    strict: bool = False

    def read(self) -> ServeConfig:
        return read_config(self.config, self.profile)

    def select(self, config: ServeConfig) -> PluginSelection:
        # The parent of workers calls this too, and loads no plugins.
        from mcptrio.plugins.discovery import check_offered, installed_entry_points, served_only_by_name

        # The plugin is part of mcptrio, so discovery does not find it. The tables of the file enable it.
        own_plugins = {MOUNT} if config.mount else set()
        server = config.server
        key = "only" if server.only is not None else "enable"
        specs = self.plugins or (server.only if key == "only" else server.enable)
        files = [Path(name) for name in specs or () if name.endswith(".py")]
        for file in files:
            if not file.is_file():
                missing = f"no such file: {file}{did_you_mean_file(file)}"
                raise (
                    ConfigError(f"{self.place}: {missing}") if self.plugins else config.error(("server", key), missing)
                )
        names = (
            None if specs is None else [name for name in specs if not name.endswith(".py") and name not in own_plugins]
        )
        # A plugin named on the command line runs although the file disables it.
        excluded = [*self.no_plugins, *(name for name in server.disable if name not in self.plugins)]
        if names is None and not self.objects:
            excluded += [name for name in served_only_by_name() if name not in (*config.plugins, *excluded)]
        # Names from the file are checked here, so that an error shows file and line.
        for list_key, names_in_list in (
            (key, names if not self.plugins else None),
            ("disable", [name for name in server.disable if name not in own_plugins]),
        ):
            if names_in_list:
                try:
                    check_offered(names_in_list, installed_entry_points())
                except ConfigError as error:
                    raise config.error(("server", list_key), str(error)) from error
        return PluginSelection(
            names=() if self.objects else names,
            files=() if self.objects else files,
            objects=self.objects,
            without=[name for name in excluded if name not in own_plugins],
            # Plugins in "only" are required.
            strict=self.strict or (not self.plugins and server.only is not None),
            policy=config.tools,
            locked=config.tools.locked,
            mounts=bool(own_plugins) and (not self.plugins or MOUNT in self.plugins) and MOUNT not in excluded,
        )


def tables_of(config: ServeConfig) -> PluginTables:
    from mcptrio.plugins.settings import PluginTables

    if not config.mount:
        return PluginTables(tables=config.plugins, folder=config.resolve_path("."), error=config.error)
    # The plugin reads its servers from its own table, but errors must name the table that the operator wrote.
    servers = ("plugins", MOUNT, "servers")

    def error(key: Key, problem: str) -> ConfigError:
        return config.error((MOUNT, *key[3:]) if key[:3] == servers else key, problem)

    table = {**config.plugins.get(MOUNT, {}), "servers": config.mount}
    return PluginTables(tables={**config.plugins, MOUNT: table}, folder=config.resolve_path("."), error=error)


@frozen(kw_only=True)
class PluginSelection:
    """The plugins to load, and their tools to offer: from the options, otherwise from the file."""

    names: Sequence[str] | None
    """``None``: all installed plugins."""
    files: Sequence[Path]
    without: Sequence[str]
    strict: bool
    objects: Sequence[object] = ()
    policy: ToolPolicy | None = None
    """Decides which tools are offered; ``None`` offers all."""
    locked: bool | None = False
    """True to offer only tools that match the lock file; ``None`` ignores the lock file."""
    mounts: bool = False
    """True if the servers of ``[mount.NAME]`` are mounted."""

    def includes(self, plugin: Plugin) -> bool:
        """Return whether to run the plugin. Objects and files are always run, because they were named."""
        if plugin.distribution is None:
            return plugin.name != MOUNT or self.mounts
        return plugin.name not in self.without and (self.names is None or plugin.name in self.names)


def make_server(
    config: ServeConfig,
    selection: PluginSelection,
    options: Mapping[str, Any],
    *,
    key: bytes | None = None,
) -> Server:
    """Load the plugins and make the server.

    Args:
        options: The options of the command by name; one that was not given is ``None`` or missing.
        key: Seals the state that passes through clients, if no key is configured.
    """
    from mcptrio.server import Server

    manager = _load_plugins(config, selection, options)
    lock = _read_lock(config, selection)
    server = Server(
        config.server.name,
        version=__version__,
        instructions=config.server.instructions,
        plugins=manager,
        config=tables_of(config),
        tools=_tool_policy(selection, lock),
        settings=evolve(
            config.server,
            keys=keys_of(config) or ([key] if key else []),
            run_tasks=options.get("run_tasks") or config.server.run_tasks,
        ),
        record=options.get("record"),
    )
    if lock is not None:
        _warn_of_changes(server, lock, selection)
    return server


def _load_plugins(config: ServeConfig, selection: PluginSelection, options: Mapping[str, Any]) -> PluginManager:
    from mcptrio.plugins.manager import PluginManager

    manager = PluginManager(strict=selection.strict)
    manager.find_replacement = isolation(config, options, strict=selection.strict)
    if selection.names is None or selection.names or selection.without:
        manager.load_installed(only=selection.names, without=selection.without)
    for file in selection.files:
        manager.load_file(file)
    for each in selection.objects:
        # The plugin in a program that calls mcptrio.run() gets the name of the program's file.
        is_program = getattr(each, "__name__", None) == "__main__"
        manager.register(each, Path(sys.argv[0]).stem if is_program else None)
    # The process of an isolated plugin has no other plugins; middleware and mounts run in the parent.
    if not options.get("isolated"):
        if selection.mounts:
            add_mounts(manager)
        _add_middleware(manager, config, selection)
    return manager


def _add_middleware(manager: PluginManager, config: ServeConfig, selection: PluginSelection) -> None:
    """Add the middleware that the configuration has a table for, and warn of tables without a plugin."""
    for name in config.plugins:
        if name in _MIDDLEWARE and name not in manager.plugins and name not in selection.without:
            manager.register(getattr(import_module(f"mcptrio.plugins.middleware.{name}"), _MIDDLEWARE[name]), name)
        elif name not in manager.plugins and (name != MOUNT or not config.mount):
            # Not an error: one file may serve several environments. If plugins are named, those left out need not be
            # installed, so only a similar name is probably a mistake.
            hint = did_you_mean(name, manager.plugins)
            if hint or selection.names is None:
                _log.warning("%s", config.error(("plugins", name), f"no such plugin is installed{hint}"))


def _warn_of_changes(server: Server, lock: ToolLock, selection: PluginSelection) -> None:
    """Log each difference between the server's tools and the lock file."""
    from mcptrio.plugins.lock_changes import changes_since

    for change in changes_since(
        lock, server.catalog, server.plugins.plugins, ignored=excluded_plugins(lock, selection)
    ):
        # A new version is expected after an upgrade; only changed tools are worth a warning.
        if not change.is_version_change:
            _log.warning("differs from %s: %s", LOCK, change)


def add_mounts(manager: PluginManager) -> Plugin:
    """Add the plugin that mounts the servers of ``[mount.NAME]``."""
    from mcptrio.mounting.mounts import Mounts

    return manager.register(Mounts, MOUNT)


def refuse_empty(server: Server) -> None:
    failed = [plugin for plugin in server.plugins.plugins.values() if plugin.failure is not None]
    # Middleware alone serves nothing.
    if failed and not any(plugin.name not in _MIDDLEWARE for plugin in server.plugins.active()):
        names = ", ".join(plugin.name for plugin in failed)
        raise ConfigError(
            f"nothing to serve: {names} failed" if len(failed) == 1 else f"nothing to serve: all of {names} failed"
        )


def report_opened(server: Server) -> None:
    """Log what the plugins offer, which of them have failed, or that there are none.

    Raises:
        ConfigError: All plugins have failed.
    """
    refuse_empty(server)
    if active := server.plugins.active():
        _serve_log.info("plugins: %s", ", ".join(f"{plugin.name}{_count_text(plugin.offers)}" for plugin in active))
    if not server.plugins.plugins:
        _log.warning("serving without plugins: none is installed, or server.enable selects none; pass --plugin FILE.py")
    failed = [plugin.name for plugin in server.plugins.plugins.values() if plugin.failure is not None]
    if failed:
        _log.warning("serving without %s: see the errors above", ", ".join(failed))


def _count_text(offers: Mapping[str, Sequence[str]]) -> str:
    """Return the numbers of a plugin's tools, resources and prompts in parentheses; empty if it has none of them."""
    counts = [(len(offers.get(kind, ())), kind) for kind in ("tools", "resources", "templates", "prompts")]
    parts = [f"{count} {kind if count > 1 else kind[:-1]}" for count, kind in counts if count]
    return f" ({', '.join(parts)})" if parts else ""


def isolation(config: ServeConfig, options: Mapping[str, Any], *, strict: bool = False) -> ReplacePlugin | None:
    """Return the function that starts isolated plugins in their own processes; ``None`` if none may be isolated.

    Args:
        strict: True if the server starts only with all its plugins.
    """
    if options.get("isolated") or options.get("no_isolation"):
        return None
    tables, source = tables_of(config), config.source

    def find_replacement(name: str, path: Path | None) -> Callable[[], Any] | None:
        try:
            if not tables.policy(name).isolate:
                return None
        except ConfigError:
            # The error is reported when the plugin is configured.
            return None
        from mcptrio.mounting.isolation import Isolation

        profile_options = ["--profile", source.overlay[0][-1]] if source is not None and source.overlay[0] else []
        child = Isolation(config=source.path if source is not None else None, options=profile_options, strict=strict)
        return partial(child.mount, name, path)

    return find_replacement


def excluded_plugins(lock: ToolLock, selection: PluginSelection) -> set[str]:
    """Return the plugins in a lock that the options or the file leave out."""
    selected_names = {*(selection.names or ()), *(file.stem for file in selection.files)}
    return {
        name
        for name in lock.plugins
        if name in selection.without or (selection.names is not None and name not in selected_names)
    }


def make_examined_server(
    config: ServeConfig, selection: PluginSelection, *, log_level: str = "error", imports_isolated: bool = False
) -> Server:
    """Make a server for a command that examines it.

    The log and the output of plugins go to standard error, where they do not mix with the command's own output.

    Args:
        imports_isolated: True if isolated plugins are imported in this process, because they show their entries only
            when their process runs.
    """
    log_to_stderr(log_level, "text")
    # Buffered text belongs to the command's own output. Children and C libraries write to descriptor 1 directly.
    sys.stdout.flush()
    stdout = os.dup(1)
    os.dup2(2, 1)
    try:
        return make_server(config, selection, {"no_isolation": imports_isolated})
    finally:
        sys.stdout.flush()
        os.dup2(stdout, 1)
        os.close(stdout)


def _read_lock(config: ServeConfig, selection: PluginSelection) -> ToolLock | None:
    path = config.resolve_path(LOCK)
    # Without "locked", a lock file next to the configuration only causes warnings.
    if selection.locked is None or not (selection.locked or path.is_file()):
        return None
    from mcptrio.cli.server.lock_file import read_lock

    return read_lock(path)


def _tool_policy(selection: PluginSelection, lock: ToolLock | None) -> ToolPolicy | None:
    policy = selection.policy
    if not selection.locked or policy is None or lock is None:
        return policy
    from mcptrio.plugins.policy import LockedToolPolicy

    return LockedToolPolicy(read_only=policy.read_only, include=policy.include, exclude=policy.exclude, lock=lock)


def keys_of(config: ServeConfig) -> list[bytes]:
    """Return the sealing keys: those of the environment, then those of files. The configuration contains no keys."""
    # The first key seals; the others only open what was sealed before a rotation.
    keys = [key.encode() for key in os.environ.get("MCPTRIO_KEYS", "").split(",") if key]
    for key in keys:
        if len(key) < _MIN_KEY_BYTES:
            raise ConfigError(f"MCPTRIO_KEYS: {_too_short(key)}")
    for path in config.server.key_files:
        error = partial(_key_file_error, config, path)
        key = read_bytes(path, _MAX_KEY_BYTES, error).strip()
        if len(key) < _MIN_KEY_BYTES:
            raise error(_too_short(key))
        keys.append(key)
    return keys


def _key_file_error(config: ServeConfig, path: Path, problem: str) -> ConfigError:
    return config.error(("server", "key_files"), f"{path}: {problem}")


def _too_short(key: bytes) -> str:
    return f"expected a sealing key of at least {_MIN_KEY_BYTES} bytes, got {len(key)}"
