"""A tool that asks the user while it runs, in every revision of the protocol.

Run it: mcptrio serve --stdio --plugin examples/elicit.py

The question is part of the response (2026-07-28) or a request of the server (2025-11-25, 2025-06-18). Older clients
have no forms: there the tool fails with an error that tells the model to ask the user itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Annotated, Literal

import msgspec

from mcptrio import Context, ToolError, tool

__all__ = ["Restaurant", "Table"]


@dataclass
class Table:
    """The form for the user."""

    guests: Annotated[int, msgspec.Meta(ge=1, le=20)]
    area: Literal["inside", "terrace"] = "inside"


class Restaurant:
    """A restaurant and its reservations."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def _reserve(self, guests: int, area: str) -> int:
        return next(self._numbers)

    @tool(read_only=False, destructive=False)
    async def book(self, ctx: Context, guests: int | None = None) -> str:
        """Book a table for tonight.

        Args:
            guests: Number of guests; without it, the tool asks the user.
        """
        if guests is not None:
            table = Table(guests)
        elif ctx.supports("elicitation.form"):
            answer = await ctx.elicit("A table for how many?", Table)
            if answer.content is None:
                return "The user does not want a table."
            table = answer.content
        else:
            raise ToolError("this client has no forms; ask the user for the number of guests, and pass it as `guests`")
        # In 2026-07-28 the question below may make this handler run again, even on another replica. `once` reserves the
        # table only once.
        number = await ctx.once(self._reserve, table.guests, table.area)
        if ctx.supports("elicitation.form"):
            card = await ctx.elicit(f"Table {number}: under which name?", str)
            return f"Table {number} for {table.guests}, {table.area}, in the name of {card.content or 'nobody'}."
        return f"Table {number} for {table.guests}, {table.area}."
