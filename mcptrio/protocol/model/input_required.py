"""A result with requests to the client (2026-07-28).

It may answer ``tools/call``, ``prompts/get`` and ``resources/read``. The client then repeats its request with the
responses and the state of this result. The state is opaque to the client, and the server must not trust it.

Source: MCP 2026-07-28, basic/patterns/mrtr.
"""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

from mcptrio.protocol.model.base import Result
from mcptrio.protocol.model.elicitation import ElicitFormParams, ElicitURLParams
from mcptrio.protocol.model.fields import field, model
from mcptrio.protocol.model.roots import ListRootsParams
from mcptrio.protocol.model.sampling import CreateMessageParams

__all__ = ["CreateMessageRequest", "ElicitRequest", "InputRequest", "InputRequiredResult", "ListRootsRequest"]


@model(tag="method")
class ElicitRequest:
    """A request to ask the user."""

    method: ClassVar[Literal["elicitation/create"]] = "elicitation/create"
    params: ElicitFormParams | ElicitURLParams = field()


@model(tag="method")
class CreateMessageRequest:
    """A request to ask the model."""

    method: ClassVar[Literal["sampling/createMessage"]] = "sampling/createMessage"
    params: CreateMessageParams = field()


@model(tag="method")
class ListRootsRequest:
    """A request for the roots."""

    method: ClassVar[Literal["roots/list"]] = "roots/list"
    params: ListRootsParams | None = field(default=None)


InputRequest: TypeAlias = ElicitRequest | CreateMessageRequest | ListRootsRequest
"""A request to the client in a result of 2026-07-28."""


@model
class InputRequiredResult(Result):
    """Asks the client to answer the requests, if any, and to repeat its own. At least one of the fields is present."""

    result_type: ClassVar[str] = "input_required"
    input_requests: dict[str, InputRequest] | None = field(default=None)
    """The requests by keys that the server chooses. The responses have the same keys."""
    request_state: str | None = field(default=None)
    """State that the client sends back unchanged."""
