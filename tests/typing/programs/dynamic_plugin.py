"""A plugin that registers what its settings name, with typed options."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from attrs import frozen

from mcptrio import PluginSetup, Registrar, Server, connect, hookimpl, tool

__all__ = ["Config", "Greetings", "main"]


@frozen(kw_only=True)
class Config:
    """The settings of ``[plugins.Greetings]``."""

    words: tuple[str, ...] = ("hello",)


def make(word: str) -> Callable[[str], Awaitable[str]]:
    async def greet(name: str) -> str:
        return f"{word} {name}"

    return greet


async def leave(name: str) -> str:
    """Say goodbye."""
    return f"goodbye {name}"


class Greetings:
    @hookimpl
    def setup(self, server: PluginSetup, config: Config) -> None:
        server.set_tool_prefix("say")
        for word in config.words:
            server.add_tool(make(word), name=word, title=word.title(), description=f"Say {word}.", read_only=True)

    @tool
    async def more(self) -> str:
        """Add one more tool."""
        return "added"


def add(registrar: Registrar) -> None:
    registrar.add_tool(leave, timeout=5, concurrency=2)


async def main() -> None:
    server = Server(plugins=[Greetings()], config={"Greetings": {"words": ["hello", "hi"]}})
    add(server)
    async with server.open(), connect(server) as client:
        names = {each.name async for each in client.tools()}
        assert names == {"leave", "say_hello", "say_hi", "say_more"}
