"""A log sink and a redaction."""

from __future__ import annotations

from typing import Any

from mcptrio import Context, PluginSetup, Server, connect, hookimpl

__all__ = ["Ledger", "main"]


class Ledger:
    def __init__(self) -> None:
        self.lines: list[str] = []

    @hookimpl
    def setup(self, server: PluginSetup) -> None:
        server.add_redaction(self.hide)
        server.add_log_sink(self.keep)

    def hide(self, data: Any) -> Any:
        return data.replace("rosebud", "[word]") if isinstance(data, str) else data

    def keep(self, level: str, data: Any, logger: str | None) -> None:
        self.lines.append(f"{level}: {data}")


async def speak(ctx: Context) -> str:
    await ctx.info("the word is rosebud")
    return "spoken"


async def main() -> None:
    ledger = Ledger()
    server = Server(plugins=[ledger])
    server.add_tool(speak)
    async with server.open(), connect(server) as client:
        await client.call_tool("speak")
    assert ledger.lines == ["info: the word is [word]"], ledger.lines
