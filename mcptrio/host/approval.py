"""Whether the user agrees: to a tool being called, to a server asking something, to what goes back to it.

Asked by the host before each of them.
The one rule: only a clear yes is one. A callback that fails, takes too long or answers with anything else has said no.

Source: MCP 2026-07-28, index, "Security and Trust & Safety"; client/sampling and client/elicitation, "Security
Considerations"; MCP 2025-11-25, client/sampling, "Error Handling" (code -1).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from typing import Any, Literal, TypeAlias

import orjson
import trio
from attrs import field, frozen

from mcptrio.client.forms import Form, OpenURL
from mcptrio.errors import InvalidParams, NotApproved
from mcptrio.ground.guarded import Failure, run_guarded
from mcptrio.ground.quoting import printable
from mcptrio.protocol.model.sampling import CreateMessageParams, CreateMessageResult
from mcptrio.protocol.model.tools import Tool
from mcptrio.protocol.revisions.registry import LATEST

__all__ = ["Approval", "ApprovalRequest", "Approve", "Decision"]

_log = logging.getLogger("mcptrio.host.approval")

ApprovalKind: TypeAlias = Literal["tool", "form", "url", "sampling", "reply"]
"""What the user is asked to allow: a tool call, a form, a URL, sampling, or (``reply``) the model's reply."""

_VERBS: dict[ApprovalKind, str] = {
    "tool": "call the tool {name} of {server}",
    "form": "let {server} ask you",
    "url": "let {server} have you open a URL",
    "sampling": "let {server} have the model continue",
    "reply": "send what the model said to {server}",
}


_EDITABLE: dict[ApprovalKind, Any] = {"tool": None, "sampling": CreateMessageParams, "reply": CreateMessageResult}
"""What the edited arguments have to be; those of a tool are checked by its server."""


@frozen(kw_only=True)
class Decision:
    """What the user decided, where there is more to say than yes or no.

    Args:
        allowed: whether to go on.
        reason: why not; it reaches the caller of a tool, and no server.
        arguments: JSON to go on with instead of the request's ``arguments``, as the user has edited them: those of a
            ``tool``, the messages of a ``sampling`` or the message of a ``reply``. A form or a URL cannot be edited.
    """

    allowed: bool
    reason: str = ""
    arguments: Mapping[str, Any] | None = None


@frozen(kw_only=True)
class ApprovalRequest:
    """What is about to happen, and with whom; what the user is asked to agree to.

    Args:
        server: as the host calls it, never as it calls itself.
        where: the program or the URL it is reached by, without what may be secret.
        kind: ``tool``: a tool is called with ``arguments``. ``form``: the user is shown a form. ``url``: the user is
            asked to open a URL. ``sampling``: the model is given what is in ``arguments``. ``reply``: the server is
            given what the model said.
        name: of the tool, as its server knows it; otherwise empty.
        arguments: exactly what is sent: to the tool, to the user, to the model or to the server. A copy; changing it
            changes nothing, ``Decision.arguments`` does.
        tool: what the server says of the tool: its description, its schema, its annotations. Hints, not to be trusted.
        question: the form, the URL, or what the model is to continue.
    """

    server: str
    where: str
    kind: ApprovalKind
    name: str = ""
    arguments: Mapping[str, Any] = field(factory=dict)
    tool: Tool | None = None
    question: Form | OpenURL | CreateMessageParams | None = None

    @property
    def fingerprint(self) -> str:
        """Another one when the server says something else of the tool; to remember a decision by.

        Of a question it depends on the server and the kind alone.
        """
        said = LATEST.unstructure(self.tool) if self.tool is not None else None
        parts = [self.server, self.where, self.kind, self.name, said]
        return sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()

    def __str__(self) -> str:
        """One line for a terminal, complete: what it holds of the server's is made harmless, not cut."""
        verb = _VERBS[self.kind].format(name=printable(self.name), server=printable(self.server))
        return f"{verb} ({printable(self.where)}): {printable(orjson.dumps(self.arguments).decode())}"


Approve: TypeAlias = Callable[[ApprovalRequest], Awaitable[bool | Decision]]
"""Asks the user. What it remembers of earlier answers is its own business."""


class Approval:
    """
    Args:
        approve: asks the user; ``None`` agrees to everything.
        timeout: seconds the user has.
    """

    def __init__(self, approve: Approve | None, timeout: float) -> None:
        self._approve = approve
        self._timeout = timeout

    @property
    def asks(self) -> bool:
        """Whether there is a user to ask."""
        return self._approve is not None

    async def obtain(self, request: ApprovalRequest) -> dict[str, Any] | None:
        """Return if the user agrees.

        Returns:
            A copy of the arguments that the user has edited; ``None`` if there are none.

        Raises:
            NotApproved: otherwise.
        """
        if self._approve is None:
            return None
        said = f"{request.server}: not approved: {request.name or request.kind}"
        with trio.move_on_after(self._timeout):
            outcome = await run_guarded(self._approve, request)
            if isinstance(outcome, Failure):
                _log.error("the callback for approval failed", exc_info=outcome.error)
                raise NotApproved(said) from outcome.error
            answer = outcome.value
            if answer is True:
                return None
            if isinstance(answer, Decision) and answer.allowed is True:
                try:
                    return _edited(request, answer)
                except (TypeError, ValueError, InvalidParams) as error:
                    _log.exception("the edited arguments cannot be used")
                    raise NotApproved(f"{said}: {error}") from error
            reason = answer.reason if isinstance(answer, Decision) else ""
            raise NotApproved(f"{said}: {reason}" if reason else said)
        raise NotApproved(f"{said}: no answer within {self._timeout:g} s")


def _edited(request: ApprovalRequest, decision: Decision) -> dict[str, Any] | None:
    """
    Raises:
        TypeError, ValueError, InvalidParams: the arguments are no JSON object, do not fit, or belong to a question that
            has none.
    """
    if decision.arguments is None:
        return None
    if request.kind not in _EDITABLE:
        raise ValueError(f"arguments: expected none for a {request.kind}, got some")
    arguments: dict[str, Any] = orjson.loads(orjson.dumps(dict(decision.arguments)))
    if (model := _EDITABLE[request.kind]) is not None:
        LATEST.structure(arguments, model)
    return arguments
