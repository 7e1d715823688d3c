"""A question that another handler has asked, passed to the client of a request.

Mounts pass the questions of mounted servers, and fallback tools pass those of a task. Question and answer are converted
to the other side's revision, and are not changed otherwise.

Source: MCP 2025-11-25 and 2026-07-28, client/elicitation, client/sampling, client/roots.
"""

from __future__ import annotations

import secrets
from typing import Any

from attrs import frozen

from mcptrio.errors import MethodNotFound
from mcptrio.protocol.model.base import Result
from mcptrio.protocol.model.elicitation import ElicitFormParams, ElicitResult, ElicitURLParams
from mcptrio.protocol.model.fields import evolve
from mcptrio.protocol.model.input_required import CreateMessageRequest, ElicitRequest, InputRequest, ListRootsRequest
from mcptrio.protocol.model.roots import ListRootsParams, ListRootsResult
from mcptrio.protocol.model.sampling import CreateMessageParams, CreateMessageResult

__all__ = ["RelayedQuestion"]


@frozen
class RelayedQuestion:
    """See :class:`mcptrio.runtime.inputs.InputQuestion`; the answer is returned unchanged.

    Args:
        original: The question as the other handler asked it.
        key: The key of the question, if it has one.
    """

    original: InputRequest
    key: str | None = None

    @classmethod
    def of(cls, request: InputRequest, key: str | None = None) -> RelayedQuestion:
        """Create the question from a request to a client."""
        params = request.params
        if isinstance(params, ElicitURLParams) and params.elicitation_id is None:
            # 2025-11-25 requires an id, with which the server reports that the user has finished.
            request = ElicitRequest(params=evolve(params, elicitation_id=secrets.token_urlsafe(12)))
        return cls(request, key)

    @classmethod
    def of_request(cls, method: str, params: Any) -> RelayedQuestion:
        """Create the question from the method and params of a request.

        Raises:
            MethodNotFound: The method is not a question to a client.
        """
        if isinstance(params, ElicitFormParams | ElicitURLParams):
            return cls.of(ElicitRequest(params=params))
        if isinstance(params, CreateMessageParams):
            return cls(CreateMessageRequest(params=params))
        # Only `roots/list` may have no params.
        if isinstance(params, ListRootsParams) or (params is None and method == "roots/list"):
            return cls(ListRootsRequest(params=params))
        raise MethodNotFound(f"no such method: {method}")

    @property
    def capability(self) -> str:
        params = self.original.params
        if isinstance(params, ElicitURLParams):
            return "elicitation.url"
        if isinstance(params, ElicitFormParams):
            return "elicitation.form"
        if isinstance(params, CreateMessageParams):
            with_tools = params.tools is not None or params.tool_choice is not None
            return "sampling.tools" if with_tools else "sampling"
        return "roots"

    def request(self) -> InputRequest:
        return self.original

    def result_type(self) -> type[Result]:
        if isinstance(self.original, ElicitRequest):
            return ElicitResult
        return CreateMessageResult if isinstance(self.original, CreateMessageRequest) else ListRootsResult

    def read(self, result: Result) -> Result:
        return result
