"""Reads one server entry of an ``mcp.json`` as a target.

A key that would make the server run differently from its host is an error. Keys that concern only the host
(``alwaysAllow``, ``timeout``, ``gallery``) are ignored.

Source: VS Code, "MCP configuration reference"; Claude Code, Cursor, Windsurf, Gemini CLI, Cline: their pages on MCP
servers.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from mcptrio.connecting.mcp_json.env_files import read_env_file
from mcptrio.connecting.mcp_json.locations import SourceLocation, kind_of
from mcptrio.connecting.mcp_json.variables import Variables
from mcptrio.connecting.targets import Command, Endpoint, Socket
from mcptrio.ground.quoting import printable
from mcptrio.transports.socket_client import check_socket_address

__all__ = ["read_entry", "read_entry_at"]

# serverUrl is used by Windsurf and Antigravity, httpUrl by Gemini CLI.
_URLS = ("url", "serverUrl", "httpUrl")
# opencode uses "environment".
_ENVS = ("env", "environment")
_ENTRY_FIELDS = ("type", "transport", "command", "args", *_ENVS, "envFile", "cwd", *_URLS, "headers", "disabled")

_log = logging.getLogger("mcptrio.mcp_json")

# Authorization that only the host implements: auth of FastMCP and Cursor, headersHelper of Claude Code, oauth of
# opencode.
_UNSUPPORTED_AUTH = ("auth", "headersHelper", "oauth")

_Transport = Literal["auto", "http", "sse"]

_STDIO = ("stdio", "local")
_TRANSPORTS: dict[str, _Transport] = {
    # VS Code falls back to HTTP with SSE if the server refuses Streamable HTTP.
    "http": "auto",
    "streamable-http": "http",
    "streamableHttp": "http",
    "streamable_http": "http",
    "sse": "sse",
    "remote": "auto",
    "ws": "auto",
    "websocket": "auto",
}
_WEBSOCKET = ("ws", "websocket")


def read_entry(entry: Mapping[str, Any]) -> Command | Endpoint | Socket:
    """Return the target of an entry of ``mcpServers`` or ``servers``.

    Variables are read from the environment, and ``${workspaceFolder}`` is the working directory.

    Raises:
        ConfigError: A key is missing, a value is invalid, or the entry is disabled.
    """
    return read_entry_at(entry, SourceLocation(source="entry"), Variables(os.environ, Path.cwd()))


def read_entry_at(entry: Any, place: SourceLocation, variables: Variables) -> Command | Endpoint | Socket:
    """Return the target of an entry in a file.

    Raises:
        ConfigError: As in :func:`read_entry`, with the location.
    """
    if not isinstance(entry, Mapping):
        raise place.error(f"expected an object, got {kind_of(entry)}")
    return _Entry(entry, place, variables).read()


class _Entry:
    def __init__(self, entry: Mapping[str, Any], place: SourceLocation, variables: Variables) -> None:
        # Some hosts write null for a key that is not set.
        self._entry = {key: value for key, value in entry.items() if value is not None}
        self._place = place
        self._variables = variables
        # FastMCP writes "transport".
        self._type_key = "type" if "type" in self._entry else "transport"

    def read(self) -> Command | Endpoint | Socket:
        self._check_keys()
        disabled = self._entry.get("disabled", False)
        if disabled is not False:
            got = "true" if disabled is True else kind_of(disabled)
            raise self._place.at("disabled").error(f"expected false, because the server is to be used, got {got}")
        if self._entry.get("enabled", True) is False:
            raise self._place.at("enabled").error("expected true, because the server is to be used, got false")
        urls = [key for key in _URLS if key in self._entry]
        targets = [key for key in ("command", *urls) if key in self._entry]
        if len(targets) != 1:
            if not targets and (self._entry.get("source") == "extension" or "settings" in self._entry):
                raise self._place.error("expected either command or url, got a server that an extension of Zed starts")
            got = " and ".join(targets) or "none"
            raise self._place.error(f"expected either command or url, got {got}")
        kind = self._type()
        if kind is not None and (kind in _STDIO) != (targets == ["command"]):
            expected = "command" if kind in _STDIO else "url"
            raise self._place.at(self._type_key).error(f"expected {expected} with the type {kind}, got {targets[0]}")
        for key in _UNSUPPORTED_AUTH:
            if self._entry.get(key, False) is not False:
                _log.warning("%s", self._place.at(key).error("ignored; write the header into headers instead"))
        if targets == ["command"]:
            return self._command()
        if (text := self._text(targets[0])).startswith(("tcp://", "unix:")):
            return self._socket(targets[0], text)
        # Gemini CLI uses httpUrl for Streamable HTTP only.
        default: _Transport = "http" if targets == ["httpUrl"] else "auto"
        return self._endpoint(targets[0], default if kind is None else _TRANSPORTS[kind])

    def _command(self) -> Command:
        env: dict[str, str] = {}
        if "envFile" in self._entry:
            env |= read_env_file(self._path("envFile"), self._place.at("envFile"))
        for key in _ENVS:
            env |= self._texts(key)
        for name in env:
            if not name or "=" in name or "\0" in name:
                raise self._place.at("env", name).error("expected the name of a variable, got an invalid name")
        # opencode writes the program and its arguments as one list.
        words = self._list("command") if isinstance(self._entry["command"], list) else [self._text("command")]
        command = os.path.expanduser("".join(words[:1]))
        if not command:
            raise self._place.at("command").error("expected a program, got an empty string")
        args = (command, *words[1:], *self._list("args"))
        return Command(args=args, env=env, cwd=self._path("cwd") if "cwd" in self._entry else None)

    def _endpoint(self, key: str, transport: _Transport) -> Endpoint:
        url, scheme = self._text(key), ""
        try:
            parts = urlsplit(url)
            _ = parts.port  # raises ValueError if invalid
            scheme = parts.scheme if parts.hostname else ""
        except ValueError:
            pass  # not a URL
        is_url = scheme in ("http", "https", "ws", "wss")
        # Non-ASCII hosts and invisible characters could make a URL look like that of another server.
        if not is_url or not url.isascii() or not url.isprintable() or " " in url:
            raise self._place.at(key).error("expected an http, https, ws or wss URL in ASCII, got something else")
        kind = self._type()
        if kind is not None and (kind in _WEBSOCKET) != (scheme in ("ws", "wss")):
            expected = "a ws or wss URL" if kind in _WEBSOCKET else "an http or https URL"
            raise self._place.at(key).error(f"expected {expected} with the type {kind}, got one of {scheme}")
        headers = self._texts("headers")
        for name, value in headers.items():
            # A line break would start another header.
            if not name or not (name + value).isprintable():
                raise self._place.at("headers", name).error("expected a header on one line, got something else")
        return Endpoint(url=url, headers=headers, transport=transport)

    def _socket(self, key: str, address: str) -> Socket:
        # Only mcptrio supports sockets in entries.
        for other in ("type", "headers"):
            if self._entry.get(other):
                raise self._place.at(other).error(f"expected no {other} with a socket as {key}, got one")
        try:
            check_socket_address(address)
        except ValueError as error:
            raise self._place.at(key).error(str(error)) from error
        return Socket(address=address)

    def _check_keys(self) -> None:
        # Only near misses of known keys are errors: a host may have other keys, which are unknown here.
        for key in self._entry:
            if key not in _ENTRY_FIELDS and (near := get_close_matches(key, _ENTRY_FIELDS, 1, cutoff=0.85)):
                raise self._place.at(key).error(f"expected a known key; did you mean `{near[0]}`?")
        for key in ("sandboxEnabled", "sandbox"):
            if self._entry.get(key, False) is not False:
                # Ignoring the key would give the server more access than the author of the file intended.
                raise self._place.at(key).error("expected no sandbox, because mcptrio cannot provide one, got one")

    def _type(self) -> str | None:
        kind = self._entry.get(self._type_key)
        if kind is not None and kind not in (*_STDIO, *_TRANSPORTS):
            got = printable(kind[:40]) if isinstance(kind, str) else kind_of(kind)
            raise self._place.at(self._type_key).error(
                f"expected one of {', '.join((*_STDIO, *_TRANSPORTS))}, got {got}"
            )
        return kind

    def _path(self, key: str) -> Path:
        return self._variables.workspace / os.path.expanduser(self._text(key))

    def _text(self, key: str) -> str:
        return self._expand(self._entry[key], self._place.at(key))

    def _list(self, key: str) -> list[str]:
        values = self._entry.get(key, [])
        if not isinstance(values, list | tuple):
            raise self._place.at(key).error(f"expected a list of strings, got {kind_of(values)}")
        return [self._expand(value, self._place.at(key, number)) for number, value in enumerate(values)]

    def _texts(self, key: str) -> dict[str, str]:
        values = self._entry.get(key, {})
        if not isinstance(values, Mapping):
            raise self._place.at(key).error(f"expected an object of strings, got {kind_of(values)}")
        return {
            name: self._expand(value, self._place.at(key, name), numbers=True)
            for name, value in values.items()
            if value is not None
        }

    def _expand(self, value: Any, place: SourceLocation, *, numbers: bool = False) -> str:
        # Environment variables and headers may be written as JSON numbers and booleans.
        if numbers and isinstance(value, bool):
            return "true" if value else "false"
        if numbers and isinstance(value, int | float):
            return str(value)
        if not isinstance(value, str):
            raise place.error(f"expected a string, got {kind_of(value)}")
        text = self._variables.expand(value, place, whole=numbers)
        if "\0" in text:
            raise place.error("expected a string without NUL, got one with NUL")
        return text
