"""A result with questions of the server (2026-07-28).

The result of tools/call, prompts/get and resources/read; the client repeats its request with the answers. The state in
it is opaque to the client, and the server must not trust it.

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
    """Ask the user."""

    method: ClassVar[Literal["elicitation/create"]] = "elicitation/create"
    params: ElicitFormParams | ElicitURLParams = field()


@model(tag="method")
class CreateMessageRequest:
    """Ask the model."""

    method: ClassVar[Literal["sampling/createMessage"]] = "sampling/createMessage"
    params: CreateMessageParams = field()


@model(tag="method")
class ListRootsRequest:
    """Ask for the roots."""

    method: ClassVar[Literal["roots/list"]] = "roots/list"
    params: ListRootsParams | None = field(default=None)


InputRequest: TypeAlias = ElicitRequest | CreateMessageRequest | ListRootsRequest
"""A request of the server to the client, as a result of 2026-07-28 carries it."""


@model
class InputRequiredResult(Result):
    """Answer these and ask again; with no questions, just ask again. At least one of the two is there."""

    result_type: ClassVar[str] = "input_required"
    input_requests: dict[str, InputRequest] | None = field(default=None)
    """The questions, by a key of the server; the answers have the same keys."""
    request_state: str | None = field(default=None)
    """To be sent back byte for byte."""
