"""A host on a terminal: the tools of several servers in one list, and a user who approves each call.

Run it: python examples/host.py [mcp.json]

Without a file it starts two of the other examples. Each line of standard input is the name of a tool, and its arguments
as JSON: ``hello_greet {"name": "Ada"}``. You choose the tool, as a model would.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import trio

import mcptrio
from mcptrio.client import Form, Handlers
from mcptrio.host import ApprovalRequest
from mcptrio.types import TextContent

__all__ = ["main"]

HERE = Path(__file__).resolve().parent


def server(example: str) -> mcptrio.Command:
    """One of the other examples, over its standard input and output."""
    plugin = str(HERE / f"{example}.py")
    return mcptrio.Command(args=(sys.executable, "-m", "mcptrio", "serve", "--stdio", "--plugin", plugin))


async def read_line(prompt: str) -> str:
    """Read a line of standard input; empty at its end. A cancelled caller abandons the thread."""
    print(prompt, end="", flush=True)
    return await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)


async def approve(request: ApprovalRequest) -> bool:
    """Ask the user before anything is sent. The text of the request is complete, however long it is."""
    return (await read_line(f"{request}\nyes or no? ")).strip() == "yes"


async def fill_in(form: Form) -> dict[str, Any] | None:
    """Answer a server's question with JSON; an empty line cancels the question."""
    line = await read_line(f"{form.server} asks: {form.message} ({', '.join(field.name for field in form.fields)}) ")
    return json.loads(line) if line.strip() else None


async def run_prompt(host: mcptrio.Host) -> None:
    tools = await host.tools().all()
    for tool in tools.items:
        print(f"{tool.name}: {(tool.description or '').partition(chr(10))[0]}")
    for name, reason in tools.missing.items():
        print(f"{name} is missing: {reason}")
    while line := await read_line("> "):
        name, _, arguments = line.strip().partition(" ")
        if not name:
            continue
        try:
            result = await host.call_tool(name, json.loads(arguments or "{}"))
        except (mcptrio.MCPTrioError, ValueError) as error:
            print(error)
        else:
            print(*[block.text for block in result.content if isinstance(block, TextContent)])
    print()


async def main() -> None:
    handlers = Handlers(elicit=fill_in)
    if len(sys.argv) > 1:
        host = mcptrio.Host.from_mcp_json(sys.argv[1], approve=approve, handlers=handlers)
    else:
        servers = {"hello": server("hello"), "tables": server("elicit")}
        host = mcptrio.Host(servers, approve=approve, handlers=handlers)
    async with host:
        await run_prompt(host)


if __name__ == "__main__":
    trio.run(main)
