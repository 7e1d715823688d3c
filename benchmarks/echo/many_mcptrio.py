"""More tools, none of which is called: as many as ``BENCHMARK_TOOLS`` in the environment says."""

from __future__ import annotations

import os

from mcptrio import tool

__all__: list[str] = []


async def other(text: str) -> str:
    """Give the text back; never called."""
    return text


for _number in range(int(os.environ.get("BENCHMARK_TOOLS", "0"))):
    globals()[f"other_{_number}"] = tool(name=f"other_{_number}")(other)
