"""The changes that an operator can make in the console. Each is logged with the operator's name."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import orjson

from mcptrio import Server
from mcptrio.errors import ConfigError, PluginError

from .access import Visitor
from .text import cut
from .wire import WireRecorder

__all__ = ["Actions", "audit"]

_audit = logging.getLogger("mcptrio.console.audit")

_MAX_ID_CHARS: Final = 200
_MAX_NAME_CHARS: Final = 1000


class Actions:
    """Runs actions by name. Each action reads a form, and returns a sentence that describes the result."""

    def __init__(self, server: Server, wire: WireRecorder) -> None:
        self._server = server
        self._wire = wire
        self._actions: dict[str, Callable[[Mapping[str, str]], Awaitable[str]]] = {
            "cancel": self._cancel,
            "cancel_task": self._cancel_task,
            "end": self._end,
            "restart": self._restart,
            "withhold": self._withhold,
            "record": self._record,
            "stop": self._stop,
            "discard": self._discard,
        }

    async def run(self, name: str, form: Mapping[str, str], visitor: Visitor) -> str | None:
        """Run an action, and return the sentence about its result; ``None`` if there is no such action."""
        action = self._actions.get(name)
        if action is None:
            return None
        try:
            outcome = await action(form)
        except (ConfigError, PluginError) as error:
            outcome = f"It failed: {cut(error)}"
        audit(visitor, name, outcome)
        return outcome

    async def _cancel(self, form: Mapping[str, str]) -> str:
        number, id = _number(form.get("session")), _id(form.get("request", ""))
        if number is None or id is None:
            return "There is no such request."
        if self._server.cancel_request(number, id, "an operator has cancelled it"):
            return f"Request {cut(id, 60)} of session {number} was cancelled."
        return f"Request {cut(id, 60)} of session {number} had already ended."

    async def _cancel_task(self, form: Mapping[str, str]) -> str:
        id = form.get("task", "")[:_MAX_ID_CHARS]
        if self._server.cancel_task(id, "an operator has cancelled it"):
            return f"Task {cut(id, 60)} was cancelled."
        return f"Task {cut(id, 60)} had already ended, or another process runs it."

    async def _end(self, form: Mapping[str, str]) -> str:
        number = _number(form.get("session"))
        if number is not None and self._server.end_session(number, "an operator has ended it"):
            return f"Session {number} was ended."
        return "The session had already ended."

    async def _restart(self, form: Mapping[str, str]) -> str:
        name = form.get("plugin", "")
        await self._server.disable_plugin(name)
        plugin = await self._server.enable_plugin(name)
        return f"The plugin {cut(name)} was restarted and is {plugin.state}."

    async def _withhold(self, form: Mapping[str, str]) -> str:
        name = form.get("plugin", "")
        await self._server.disable_plugin(name)
        return f"The plugin {cut(name)} is withheld until it is started again."

    async def _record(self, form: Mapping[str, str]) -> str:
        return await self._wire.start(_number(form.get("session")), form.get("client", "")[:_MAX_NAME_CHARS] or None)

    async def _stop(self, _form: Mapping[str, str]) -> str:
        return self._wire.stop()

    async def _discard(self, _form: Mapping[str, str]) -> str:
        return self._wire.discard()


def audit(visitor: Visitor, action: str, subject: str) -> None:
    """Log an action."""
    _audit.info("%s (by %s): %s", action, visitor.name, subject)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdecimal() and len(text) < 19 else None


def _id(text: str) -> str | int | None:
    try:
        id = orjson.loads(text) if len(text) <= _MAX_ID_CHARS * 6 else None
    except orjson.JSONDecodeError:
        return None
    return id if isinstance(id, str | int) and not isinstance(id, bool) else None
