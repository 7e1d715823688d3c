"""Passes questions of a mounted server to the client whose call has caused them, and returns the answers.

The relay uses it for questions in results and for requests of the server. Questions and answers are converted to the
revision of the other side, and are otherwise unchanged.

Source: MCP 2025-11-25 and 2026-07-28, client/elicitation, client/sampling, client/roots.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from attrs import frozen

from mcptrio.capabilities.relayed_question import RelayedQuestion
from mcptrio.client.handlers import Handlers
from mcptrio.protocol.model.base import Result
from mcptrio.protocol.model.elicitation import ElicitURLParams
from mcptrio.protocol.model.input_required import ElicitRequest
from mcptrio.protocol.model.lifecycle import (
    ClientCapabilities,
    ElicitationCapability,
    RootsCapability,
    SamplingCapability,
)
from mcptrio.protocol.model.logging import LoggingMessageParams
from mcptrio.protocol.model.tasks import TASKS_EXTENSION
from mcptrio.protocol.revisions.revision import Revision

__all__ = ["RelayingHandlers", "url_questions"]


def url_questions(elicitations: list[dict[str, Any]]) -> list[RelayedQuestion]:
    """Return the questions of an error that requires the user to open URLs first."""
    return [
        RelayedQuestion.of(
            ElicitRequest(
                # The server has sent this data, which is not validated, so every member is converted to text.
                params=ElicitURLParams(message=str(each.get("message", "")), url=str(each.get("url", ""))),
            ),
            str(each["elicitationId"]) if "elicitationId" in each else None,
        )
        for each in elicitations
    ]


@frozen(kw_only=True)
class RelayingHandlers(Handlers):
    """The handlers of our client for a server that asks with requests.

    Args:
        relay: Asks the client that a question belongs to. Raises MCPError if the client cannot be asked.
        on_log: Called with each log message.
        url_completed: Called with the id of each completed URL elicitation.
    """

    relay: Callable[[str, Any], Awaitable[Result]]
    on_log: Callable[[LoggingMessageParams], None]
    url_completed: Callable[[str], None]

    def capabilities(self) -> ClientCapabilities:
        # All capabilities are declared, because those of our callers differ. If a caller cannot answer a question, the
        # question is refused for that call only.
        return ClientCapabilities(
            roots=RootsCapability(list_changed=True),
            sampling=SamplingCapability(tools={}, context={}),
            elicitation=ElicitationCapability(form={}, url={}),
            # The relay follows tasks for every caller.
            tasks={},
            extensions={TASKS_EXTENSION: {}},
        )

    async def _answer(self, method: str, params: Any, *, server: str, timeout: float, revision: Revision) -> Result:
        return await self.relay(method, params)

    def _handle_log(self, message: LoggingMessageParams) -> None:
        self.on_log(message)

    def _handle_url_completed(self, elicitation_id: str) -> None:
        self.url_completed(elicitation_id)
