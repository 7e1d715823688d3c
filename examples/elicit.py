"""A tool that asks the user while it runs, in every revision of the protocol.

Run it: mcptrio serve --stdio --plugin examples/elicit.py

The user is asked in a round trip (2026-07-28) or by a request of the server (2025-11-25, 2025-06-18). Older clients
cannot be asked, so the tool tells the model to ask, and to pass the answer as an argument.
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
    """The reservations of a restaurant."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def _reserve(self, guests: int, area: str) -> int:
        return next(self._numbers)

    @tool(read_only=False, destructive=False)
    async def book(self, ctx: Context, guests: int | None = None) -> str:
        """Book a table for tonight.

        Args:
            guests: The number of guests; without it, the user is asked.
        """
        if guests is not None:
            table = Table(guests)
        elif ctx.supports("elicitation.form"):
            answer = await ctx.elicit("A table for how many?", Table)
            if answer.content is None:
                return "The user does not want a table."
            table = answer.content
        else:
            raise ToolError("this client cannot ask its user: ask yourself, and say how many with `guests`")
        # In 2026-07-28 this handler runs again after the question below, even on another replica; `once` reserves once.
        number = await ctx.once(self._reserve, table.guests, table.area)
        if ctx.supports("elicitation.form"):
            card = await ctx.elicit(f"Table {number}: under which name?", str)
            return f"Table {number} for {table.guests}, {table.area}, in the name of {card.content or 'nobody'}."
        return f"Table {number} for {table.guests}, {table.area}."
