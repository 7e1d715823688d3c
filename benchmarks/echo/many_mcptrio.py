"""More tools, which are never called: their number is in the variable ``BENCHMARK_TOOLS``."""

from __future__ import annotations

import os

from mcptrio import tool

__all__: list[str] = []


async def other(text: str) -> str:
    """Return the text; never called."""
    return text


for _number in range(int(os.environ.get("BENCHMARK_TOOLS", "0"))):
    globals()[f"other_{_number}"] = tool(name=f"other_{_number}")(other)
