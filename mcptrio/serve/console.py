"""The interface of a console for a running server: its options, and finding the installed one.

``mcptrio serve --console`` finds a console through the entry point group ``mcptrio.consoles``, and serves it together
with the server. The distribution ``mcptrio-console`` has one.
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
    """Who may open a console, and functions for information that the server does not have.

    Args:
        read_only: True to show everything and change nothing.
        scope: The scope that an access token needs to open the console; ``None`` accepts no tokens.
        announce: A function called with the path of each new link. A link opens the console once.
        guard: Verifies access tokens; without one, only links open the console.
        is_host_served: Returns True if a value of ``Host`` names this server.
        settings_of: Returns the settings of a plugin, without secrets.
        tokens_of: Returns the approximate number of tokens that each tool of a plugin takes in a model's context.
        request_of: Returns the session number and the plugin of the request in which the calling code runs.
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
    """The function that an entry point of ``mcptrio.consoles`` names."""

    def __call__(self, server: Server, options: ConsoleOptions, /) -> ConsoleApp: ...


def find_console() -> MakeConsole:
    """Return the function that makes the installed console.

    Raises:
        ConfigError: None is installed.
    """
    for entry in entry_points(group=_GROUP):
        make: MakeConsole = entry.load()
        return make
    raise ConfigError(
        "--console: no console is installed; in a clone of mcptrio: pip install ./plugins/mcptrio-console"
    )
