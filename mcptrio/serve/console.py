"""The console of a running server: its options, and where it is found.

The distribution ``mcptrio-console`` has one. ``mcptrio serve --console`` finds it through the entry point group
``mcptrio.consoles``, and serves it together with the server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from importlib.metadata import entry_points
from typing import Any, Final, Protocol

from attrs import frozen

from mcptrio.abc import Guard
from mcptrio.errors import ConfigError
from mcptrio.plugins.shown_settings import ShownSetting
from mcptrio.server import Server

__all__ = ["CONSOLE_PATH", "ConsoleApp", "ConsoleOptions", "MakeConsole", "find_console"]

CONSOLE_PATH: Final = "/console"
_GROUP: Final = "mcptrio.consoles"


def _no_settings(_plugin: str) -> Sequence[ShownSetting]:
    return ()


def _no_tokens(_plugin: str) -> Mapping[str, int]:
    return {}


def _no_request() -> tuple[int | None, str | None]:
    return None, None


def _any_host(_host: str | None) -> bool:
    return True


@frozen(kw_only=True)
class ConsoleOptions:
    """The access to a console, and the facts that it cannot learn from its server.

    Args:
        read_only: True to show everything and change nothing.
        scope: The scope that an access token needs to open the console; ``None`` accepts no tokens.
        announce: A function called with the path of each new link, which opens the console once.
        guard: Verifies access tokens; without one, only links open the console.
        is_host_served: Returns whether a value of ``Host`` names this server.
        settings_of: Returns the settings of a plugin, without secrets.
        tokens_of: Returns about how many tokens each tool of a plugin takes in a conversation.
        request_of: Returns the session and the plugin for whose request the calling code runs.
    """

    read_only: bool = False
    scope: str | None = None
    announce: Callable[[str], None]
    guard: Guard | None = None
    is_host_served: Callable[[str | None], bool] = _any_host
    settings_of: Callable[[str], Iterable[ShownSetting]] = _no_settings
    tokens_of: Callable[[str], Mapping[str, int]] = _no_tokens
    request_of: Callable[[], tuple[int | None, str | None]] = _no_request


class ConsoleApp(Protocol):
    """A console: an ASGI application for ``/console`` and the paths below it."""

    async def __call__(self, scope: Any, receive: Any, send: Any, /) -> None: ...

    def open(self) -> AbstractAsyncContextManager[None]:
        """Watch the server during the block, and answer requests. The server must be open."""
        ...


class MakeConsole(Protocol):
    """What an entry point of ``mcptrio.consoles`` names."""

    def __call__(self, server: Server, options: ConsoleOptions, /) -> ConsoleApp: ...


def find_console() -> MakeConsole:
    """Return the function that makes the installed console.

    Raises:
        ConfigError: None is installed.
    """
    for entry in entry_points(group=_GROUP):
        make: MakeConsole = entry.load()
        return make
    raise ConfigError("--console: no console is installed: pip install mcptrio-console")
