"""A plugin with settings and a lifespan."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import assert_type

from attrs import frozen

from mcptrio import Context, Secret, Server, connect, lifespan, tool

__all__ = ["Config", "Counter", "main"]


@frozen(kw_only=True)
class Config:
    """The settings of ``[plugins.Counter]``."""

    start: int = 0
    key: Secret | None = None


@frozen
class Steps:
    """The value that the lifespan yields."""

    width: int


class Counter:
    def __init__(self, config: Config) -> None:
        self._config = config
        self._value = 0

    @lifespan
    async def opened(self) -> AsyncGenerator[Steps]:
        self._value = self._config.start
        yield Steps(2)

    @tool
    async def step(self, ctx: Context[Steps]) -> int:
        """Count one step."""
        assert_type(ctx.state, Steps)
        self._value += ctx.state.width
        return self._value


async def main() -> None:
    server = Server(plugins=[Counter], config={"Counter": {"start": 5}})
    async with server.open(), connect(server) as client:
        result = await client.call_tool("step")
        assert result.text == "7", result
