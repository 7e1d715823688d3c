"""Questions of a mounted server, passed to the client whose call caused them, and their answers.

Used for questions in results and for requests of the server. Questions and answers are converted to the other side's
revision and otherwise unchanged.

Source: MCP 2025-11-25 and 2026-07-28, client/elicitation, client/sampling, client/roots.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from typing import Any

from attrs import frozen

from mcptrio.client.handlers import Handlers
from mcptrio.errors import MethodNotFound
from mcptrio.protocol.model.base import Result
from mcptrio.protocol.model.elicitation import ElicitFormParams, ElicitResult, ElicitURLParams
from mcptrio.protocol.model.fields import evolve
from mcptrio.protocol.model.input_required import CreateMessageRequest, ElicitRequest, InputRequest, ListRootsRequest
from mcptrio.protocol.model.lifecycle import (
    ClientCapabilities,
    ElicitationCapability,
    RootsCapability,
    SamplingCapability,
)
from mcptrio.protocol.model.logging import LoggingMessageParams
from mcptrio.protocol.model.roots import ListRootsParams, ListRootsResult
from mcptrio.protocol.model.sampling import CreateMessageParams, CreateMessageResult
from mcptrio.protocol.model.tasks import TASKS_EXTENSION
from mcptrio.protocol.revisions.revision import Revision

__all__ = ["RelayedQuestion", "RelayingHandlers", "url_questions"]


@frozen
class RelayedQuestion:
    """See :class:`mcptrio.runtime.inputs.InputQuestion`; the answer is returned unchanged.

    Args:
        asked: As the mounted server asked it.
        key: The server's own key, if it has one.
    """

    asked: InputRequest
    key: str | None = None

    @classmethod
    def of(cls, asked: InputRequest, key: str | None = None) -> RelayedQuestion:
        params = asked.params
        if isinstance(params, ElicitURLParams) and params.elicitation_id is None:
            # Revisions that report when the user has finished on a page need an id for it.
            asked = ElicitRequest(params=evolve(params, elicitation_id=secrets.token_urlsafe(12)))
        return cls(asked, key)

    @classmethod
    def of_request(cls, method: str, params: Any) -> RelayedQuestion:
        """
        Raises:
            MethodNotFound: The method is not a question to a client.
        """
        if isinstance(params, ElicitFormParams | ElicitURLParams):
            return cls.of(ElicitRequest(params=params))
        if isinstance(params, CreateMessageParams):
            return cls(CreateMessageRequest(params=params))
        # `roots/list` is the only question whose params may be absent.
        if isinstance(params, ListRootsParams) or (params is None and method == "roots/list"):
            return cls(ListRootsRequest(params=params))
        raise MethodNotFound(f"no such method: {method}")

    @property
    def capability(self) -> str:
        params = self.asked.params
        if isinstance(params, ElicitURLParams):
            return "elicitation.url"
        if isinstance(params, ElicitFormParams):
            return "elicitation.form"
        if isinstance(params, CreateMessageParams):
            with_tools = params.tools is not None or params.tool_choice is not None
            return "sampling.tools" if with_tools else "sampling"
        return "roots"

    def request(self) -> InputRequest:
        return self.asked

    def result_type(self) -> type[Result]:
        if isinstance(self.asked, ElicitRequest):
            return ElicitResult
        return CreateMessageResult if isinstance(self.asked, CreateMessageRequest) else ListRootsResult

    def read(self, result: Result) -> Result:
        return result


def url_questions(elicitations: list[dict[str, Any]]) -> list[RelayedQuestion]:
    """Return the questions of an error that requires the user to open URLs first."""
    return [
        RelayedQuestion.of(
            ElicitRequest(
                # The error's data is the server's and is not validated, so every member is converted to text.
                params=ElicitURLParams(message=str(each.get("message", "")), url=str(each.get("url", ""))),
            ),
            str(each["elicitationId"]) if "elicitationId" in each else None,
        )
        for each in elicitations
    ]


@frozen(kw_only=True)
class RelayingHandlers(Handlers):
    """The handlers of our client for a server that asks with requests. They declare all capabilities: callers differ.

    Args:
        relay: Asks the client of the question; raises MCPError if it cannot be asked.
        heard: Called with each log message.
        visited: Called with each completed URL elicitation.
    """

    relay: Callable[[str, Any], Awaitable[Result]]
    heard: Callable[[LoggingMessageParams], None]
    url_visited: Callable[[str], None]

    def capabilities(self) -> ClientCapabilities:
        # Declared in full: the capabilities of our callers differ, and a question that a caller cannot answer is
        # refused for that call alone.
        return ClientCapabilities(
            roots=RootsCapability(list_changed=True),
            sampling=SamplingCapability(tools={}, context={}),
            elicitation=ElicitationCapability(form={}, url={}),
            # The relay follows tasks, for every caller.
            extensions={TASKS_EXTENSION: {}},
        )

    async def _answer(self, method: str, params: Any, *, server: str, timeout: float, revision: Revision) -> Result:
        return await self.relay(method, params)

    def _hear(self, message: LoggingMessageParams) -> None:
        self.heard(message)

    def _url_done(self, elicitation_id: str) -> None:
        self.url_visited(elicitation_id)
