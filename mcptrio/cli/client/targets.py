"""Converts TARGET and the options for connecting to a target of ``mcptrio.connect``.

:mod:`mcptrio.cli.client.running` uses it. The form of TARGET decides its kind: the scheme of a URL or a socket, ``#``
for an entry of a file, ``--plugin`` for plugins, ``--`` for a command. Only a single word can be the name of an entry
of a file in this folder. The command then prints which one it uses, because such a file may belong to another person's
project.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import ssl
from pathlib import Path
from typing import Literal

import attrs
from attrs import field, frozen

from mcptrio.cli.client.client_settings import ClientVariables
from mcptrio.cli.server.config_options import default_config
from mcptrio.cli.server.plugin_server import ChosenPlugins, make_server
from mcptrio.connecting.mcp_json import AskInput, is_reference, load_mcp_json, read_reference
from mcptrio.connecting.targets import Command, Endpoint, Socket, Target
from mcptrio.errors import ConfigError
from mcptrio.ground.bounded_file import read_text
from mcptrio.ground.quoting import quote
from mcptrio.http.client.tls import client_context

__all__ = ["FILES", "FoundTarget", "TargetOptions", "find_target", "read_value"]

FILES = ("mcp.json", ".mcp.json", ".vscode/mcp.json")
"""Files in which names of servers are looked up, in this order."""
_HOST_AND_PORT = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[\w.-]+):\d{1,5}(?:/\S*)?$")
"""The beginning of a URL without its scheme."""
_MAX_SECRET_BYTES = 64 * 1024
"""Bytes of a file with the value of a header or a variable."""


@frozen(kw_only=True)
class TargetOptions:
    """The options of all client commands. See the options of the same names."""

    target: str | None = None
    command: tuple[str, ...] = ()
    """The words after ``--``."""
    plugins: tuple[str, ...] = ()
    # Headers and variables may contain secrets, so their repr, which a log may show, leaves them out.
    headers: tuple[str, ...] = field(default=(), repr=False)
    env: tuple[str, ...] = field(default=(), repr=False)
    settings: ClientVariables = field(factory=ClientVariables)
    revision: str | None = None
    timeout: float | None = None
    as_json: bool = False
    verbose: bool = False
    record: Path | None = None


@frozen(kw_only=True)
class FoundTarget:
    """A server to connect to."""

    target: Target
    name: str
    """The name that is shown to the user."""
    note: str | None = None
    """A note for the user about the found server."""


def find_target(options: TargetOptions, *, ask: AskInput | None = None) -> FoundTarget:
    """Return the server for these options.

    Args:
        ask: Asks the user for the inputs of a server file; ``None`` without a terminal.
    """
    if options.plugins:
        _refuse_options(options, "cannot be used with --plugin, which serves plugins in this process", "headers", "env")
        config = default_config()
        server = make_server(config, ChosenPlugins(plugins=options.plugins, strict=True).select(config), {})
        return FoundTarget(target=server, name=", ".join(options.plugins))
    if options.command:
        return _command_target(options, options.command)
    text = (options.target or "").strip()
    if not text:
        raise ConfigError("TARGET: expected a URL, a command, the name of a server or --plugin, got nothing")
    if text.startswith(("http://", "https://", "ws://", "wss://")):
        # Neither a password nor a key of the query is shown.
        return _with_options(options, Endpoint(url=text), text.partition("?")[0].rpartition("@")[2])
    if text.startswith(("tcp://", "unix:")):
        return _with_options(options, Socket(address=text), text)
    if _is_reference(text):
        name, entry = read_reference(text, ask=ask)
        return _with_options(options, entry, name)
    # A word that a shell would have to quote is a command and not a name.
    if text == shlex.quote(text) and (server_of_file := _find_in_files(options, text, ask)) is not None:
        return server_of_file
    if text.endswith(".py") and Path(text).is_file():
        raise ConfigError(
            f"TARGET: {text} is a file; use --plugin {text} for a plugin, or -- python {text} for a server"
        )
    # Without its scheme a URL would be started as a command, which fails with a misleading error.
    if _HOST_AND_PORT.match(text) and not Path(text).exists():
        raise ConfigError(
            f"TARGET: expected a URL, a command or the name of a server, got {quote(text)}; did you mean http://{text}?"
        )
    try:
        return _command_target(options, tuple(shlex.split(text)))
    except ValueError as error:
        raise ConfigError(f"TARGET: expected a command, got {quote(text)}: {error}") from error


def _command_target(options: TargetOptions, args: tuple[str, ...]) -> FoundTarget:
    return _with_options(options, Command(args=args), shlex.join(args))


def _is_reference(text: str) -> bool:
    """Return whether the text is FILE.json#NAME. The last argument of a command may look like it."""
    file = Path(text.rpartition("#")[0] or text)
    return is_reference(text) and (not any(map(str.isspace, text)) or file.is_file())


def _find_in_files(options: TargetOptions, name: str, ask: AskInput | None) -> FoundTarget | None:
    for path in map(Path, FILES):
        if path.is_file() and name in (file := load_mcp_json(path, ask=ask)).names:
            # Either could be meant, and starting the wrong one runs a stranger's program.
            if shutil.which(name) is not None:
                raise ConfigError(
                    f"TARGET: {name} is a server of {path} and a program; write {path}#{name}, or -- {name}"
                )
            return _with_options(options, file.read(name), name, note=f"{name} is the server of this name in {path}")
    return None


def _with_options(
    options: TargetOptions, entry: Command | Endpoint | Socket, name: str, *, note: str | None = None
) -> FoundTarget:
    """Return a server with the additions of the options and the environment."""
    settings = options.settings
    if isinstance(entry, Socket):
        _refuse_options(options, "expected a command as TARGET, got a socket", "env")
        _refuse_options(options, "expected a URL as TARGET, got a socket", "headers")
        target: Target = entry
    elif isinstance(entry, Endpoint):
        _refuse_options(options, "expected a command as TARGET, got a URL", "env")
        target = attrs.evolve(
            entry,
            # NAME: VALUE is the form of curl, which the documentation of many servers shows.
            headers={**entry.headers, **dict(_parse_pair("--header", text, ("=", ": ")) for text in options.headers)},
            tls=_tls(settings, entry.url),
            # `auto` is the default of the variable, so any other value was chosen by the user.
            transport=entry.transport if settings.transport == "auto" else settings.transport,
        )
    else:
        _refuse_options(options, "expected a URL as TARGET, got a command", "headers")
        env = {**entry.env, **dict(_parse_pair("--env", text, ("=",)) for text in options.env)}
        target = attrs.evolve(entry, env=env, inherit_env=settings.inherit_env)
    return FoundTarget(target=target, name=name, note=note)


def _refuse_options(options: TargetOptions, problem: str, *names: Literal["headers", "env"]) -> None:
    for name in names:
        if getattr(options, name):
            raise ConfigError(f"--{name.removesuffix('s')}: {problem}")


def _tls(settings: ClientVariables, url: str) -> ssl.SSLContext | None:
    files = (settings.tls_ca, settings.tls_cert, settings.tls_key)
    if not url.startswith(("https:", "wss:")) or files == (None, None, None):
        return None
    return client_context(ca_file=settings.tls_ca, certificate=settings.tls_cert, key=settings.tls_key)


def _parse_pair(option: str, text: str, signs: tuple[str, ...]) -> tuple[str, str]:
    """Return a name and its value, which may be in a file or a variable, so that no process list shows it.

    Errors do not repeat the text, because it may contain a secret.
    """
    # Split at the sign that comes first: the value may contain the other one.
    places = [(text.find(sign), sign) for sign in signs if sign in text]
    if not places or min(places)[0] == 0:
        raise ConfigError(f"{option}: expected NAME=VALUE, got something else")
    index, sign = min(places)
    name, value = text[:index], text[index + len(sign) :]
    return name, read_value(f"{option} {name}", value)


def read_value(option: str, value: str) -> str:
    """Return the value: that of a file (``@FILE``) or a variable (``$NAME``), or the text itself."""
    # A password may itself begin with one of these signs.
    if value.startswith(("@@", "$$")):
        return value[1:]
    if value.startswith("@"):
        path = Path(value[1:]).expanduser()
        text = read_text(path, _MAX_SECRET_BYTES, lambda problem: ConfigError(f"{option}: {value[1:]}: {problem}"))
        # Editors end a file with a line break, which a header must not contain.
        return text.rstrip("\r\n")
    if value.startswith("$"):
        if (variable := os.environ.get(value[1:])) is None:
            raise ConfigError(f"{option}: the environment has no variable {value[1:]}")
        return variable
    return value
