"""Elicitation: a server asks the user.

The member ``mode`` distinguishes forms and URLs. Without it, a form is meant, so mcptrio sends forms without it in
every revision.

Source: MCP 2025-11-25, client/elicitation; MCP 2026-07-28, client/elicitation.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias

from mcptrio.protocol.model.base import Params, Result
from mcptrio.protocol.model.fields import Meta, field, model

__all__ = ["ElicitFormParams", "ElicitParams", "ElicitResult", "ElicitURLParams", "ElicitationCompleteParams"]


@model
class ElicitFormParams(Params):
    """Parameters for asking the user to fill in a form."""

    mode: ClassVar[Literal["form"]] = "form"
    meta: Meta | None = field(default=None, name="_meta", until="2026-07-28")
    message: str = field()
    requested_schema: dict[str, Any] = field()
    """A flat JSON Schema object of primitives, in the form of the newest revision."""


@model(tag="mode", since="2025-11-25")
class ElicitURLParams(Params):
    """Parameters for asking the user to open a URL, for data that must not pass through the client."""

    mode: ClassVar[Literal["url"]] = "url"
    meta: Meta | None = field(default=None, name="_meta", until="2026-07-28")
    message: str = field()
    url: str = field()
    elicitation_id: str | None = field(default=None, until="2026-07-28")
    """Required in 2025-11-25, where a notification with this id reports that the user has finished."""


ElicitParams: TypeAlias = ElicitFormParams | ElicitURLParams


@model
class ElicitResult(Result):
    """The user's action."""

    result_type: ClassVar[None] = None
    meta: Meta | None = field(default=None, name="_meta", until="2026-07-28")
    action: Literal["accept", "decline", "cancel"] = field()
    content: dict[str, Any] | None = field(default=None)
    """The form's values, not validated; ``None`` for a URL, or if the user did not accept."""


@model
class ElicitationCompleteParams(Params):
    """The parameters of ``notifications/elicitation/complete``: the user has finished at a URL (2025-11-25)."""

    elicitation_id: str = field()
