"""A client with handlers for server requests."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from mcptrio import Context, Server, connect
from mcptrio.client import Form, Handlers
from mcptrio.types import CreateMessageParams

__all__ = ["main"]


@frozen
class Order:
    flour: Literal["rye", "wheat"]
    loaves: int = 1


async def fill_in(form: Form) -> dict[str, object] | None:
    return {"flour": "rye"} if "flour" in [field.name for field in form.fields] else None


async def sample(request: CreateMessageParams) -> str:
    return f"{len(request.messages)} messages"


async def order(ctx: Context) -> str:
    wanted = await ctx.ask("Which bread?", Order)
    sampled = await ctx.sample("Thank the baker")
    return f"{wanted.loaves} of {wanted.flour}: {sampled.text}"


async def main() -> None:
    server = Server("bakery")
    server.add_tool(order)
    handlers = Handlers(elicit=fill_in, sample=sample, roots=["."])
    async with server.open(), connect(server, handlers=handlers) as client:
        result = await client.call_tool("order")
        assert result.text == "1 of rye: 1 messages", result.text
