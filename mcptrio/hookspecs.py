"""The hooks. A plugin implements any of them, with ``@mcptrio.hookimpl``; most need none, for marks become hooks.

Hooks are called by the server, one plugin at a time, so that each plugin's faults stay its own. They are plain
functions; what they contribute may be async.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import pluggy

from mcptrio.abc import OwnIssuer
from mcptrio.capabilities.host import Host

__all__ = ["HOOKS", "hookimpl", "hookspec"]

hookspec = pluggy.HookspecMarker("mcptrio")
hookimpl = pluggy.HookimplMarker("mcptrio")

HOOKS = (
    "configuration",
    "prefix",
    "register_objects",
    "register_tools",
    "register_resources",
    "register_prompts",
    "register_completions",
    "register_methods",
    "register_extensions",
    "register_redactions",
    "register_log_sinks",
    "register_middleware",
    "register_authorizers",
    "register_routes",
    "register_transports",
    "lifespan",
    "background",
    "reconfigure",
    "authorization_server",
    "doctor",
)


@hookspec
def configuration() -> type:  # type: ignore[empty-body]
    """The class of the plugin's settings: one of attrs, frozen, all of its fields with defaults.

    The other hooks get an instance of it as ``config``: the table ``[plugins.NAME]`` of the configuration file, with
    ``MCPTRIO_NAME_FIELD`` of the environment before it, checked against the annotations and validators. A plugin
    without this hook gets the table as it is. See :mod:`mcptrio.plugins.settings` for the types a field may have.
    """


@hookspec
def prefix() -> str:  # type: ignore[empty-body]
    """What the names of the plugin's tools begin with, before an underscore; by default its own name.

    An empty one means none, and holds where the names are free. Files and objects have none by default.
    """


@hookspec
def register_objects(register: Callable[[object], None], config: Any) -> None:
    """Offer objects whose marked methods are capabilities: ``register(Notes(config.path))``."""


@hookspec
def register_tools(register: Callable[..., str], config: Any) -> None:
    """Offer tools: ``register(function, name=..., read_only=True, ...)`` with the arguments of ``@tool``."""


@hookspec
def register_resources(register: Callable[..., str], config: Any) -> None:
    """Offer resources and templates: ``register(function, "notes://{name}", ...)``, the arguments of ``@resource``."""


@hookspec
def register_prompts(register: Callable[..., str], config: Any) -> None:
    """Offer prompts: ``register(function, name=..., ...)`` with the arguments of ``@prompt``."""


@hookspec
def register_completions(register: Callable[..., str], config: Any) -> None:
    """Offer completions: ``register(function_or_list, ref, argument)``."""


@hookspec
def register_methods(register: Callable[..., None]) -> None:
    """Handle requests or notifications outside the specification: ``register(function, "acme/reindex")``.

    With ``notification=True`` the function hears a notification, one of the specification's included.
    """


@hookspec
def register_extensions(register: Callable[[str, Mapping[str, Any]], None]) -> None:
    """Advertise an extension: ``register("com.example/acme", {"level": 2})``."""


@hookspec
def register_redactions(register: Callable[[Callable[[str], str]], None]) -> None:
    """Take more secrets out of what clients are sent as log messages: ``register(function)``, text to text."""


@hookspec
def register_log_sinks(register: Callable[[Callable[[str, Any, str | None], None]], None]) -> None:
    """Hear every log message of every request: ``register(function)``, called with level, data (redacted), logger."""


@hookspec
def register_middleware(register: Callable[..., None], config: Any) -> None:
    """Put something around every request: ``register(function, order=0)``.

    ``async def function(request, proceed)`` gives the result: what ``await proceed()`` gave, or another, or raises an
    MCPError. The lowest order is the outermost. See :class:`mcptrio.capabilities.middleware.RequestView`.
    """


@hookspec
def register_authorizers(register: Callable[..., None], config: Any) -> None:
    """Judge who may use what: ``register(function)``, a plain function of a component and a principal.

    What it does not answer with ``True`` is neither listed nor found by that principal. All authorizers have to agree;
    one that fails says no, and so does everything a plugin in quarantine would have judged. See
    :class:`mcptrio.capabilities.authorization.Component`.
    """


@hookspec
def register_routes(register: Callable[[str, Callable[..., Awaitable[None]]], None], config: Any) -> None:
    """Serve ASGI applications beside the endpoint: ``register("/auth", app)``, for that path and everything below it.

    Only over HTTP, and not for WebSockets. ``Host`` has been checked; origins, people, sizes and times are for the
    application to judge. It finds the whole path in its scope, and gets no lifespan: the plugin has one.
    """


@hookspec
def register_transports(register: Callable[[str, Callable[..., Awaitable[None]]], None], config: Any) -> None:
    """Offer transports of one's own: ``register("pigeon", serve)`` for ``mcptrio serve --transport pigeon``.

    ``serve(engine, *, stopping, task_status)`` is an async function that runs until it is cancelled: see
    :class:`mcptrio.serve.opened.Transport`. Called only where a transport is asked for by such a name.
    """


@hookspec
def lifespan(server: Host, config: Any) -> AbstractAsyncContextManager[Any]:  # type: ignore[empty-body]
    """What has to be open while the server is: returns an async context manager.

    What it yields is ``ctx.state`` in the plugin's handlers. If entering fails, the plugin is quarantined.
    """


@hookspec
def background(server: Host, config: Any) -> Iterable[Callable[[], Awaitable[None]]]:  # type: ignore[empty-body]
    """Async functions to run while the server is open. One that fails is started again, later each time."""


@hookspec
def reconfigure(config: Any) -> bool:  # type: ignore[empty-body]
    """Take new settings while the plugin runs: ``config`` holds the new ones. Returns whether the plugin took them.

    Called when the server reloads its configuration and the plugin's table has changed. If it returns ``False``, the
    plugin is stopped and started again, as are plugins without this hook.
    """


@hookspec
def authorization_server(config: Any) -> OwnIssuer:  # type: ignore[empty-body]
    """Say which authorization server the plugin is, so that ``[auth]`` is compared with it.

    Called by ``mcptrio serve`` at the start, and by ``mcptrio plugins doctor``. See :class:`mcptrio.abc.OwnIssuer`.
    """


@hookspec
def doctor(config: Any) -> Iterable[str]:  # type: ignore[empty-body]
    """Look whether everything is there that the plugin needs: gives a sentence for each problem.

    Called by ``mcptrio plugins doctor`` only, in a process of its own with a time limit.
    """
