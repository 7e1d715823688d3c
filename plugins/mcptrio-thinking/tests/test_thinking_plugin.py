"""The installed plugin, over every transport."""

from __future__ import annotations

import pytest
import trio

from mcptrio.errors import PluginError
from mcptrio.testing import Case, ServerSpec, open_served


@pytest.mark.parametrize("transport", ["memory", "stdio", "http"])
async def test_plugin_is_found_and_configured(transport: str) -> None:
    spec = ServerSpec(plugins=["thinking"], config={"thinking": {"max_thought_bytes": 100}})
    thought = {"thought": "x", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1, "sequence_id": "s"}
    with trio.fail_after(60):
        async with open_served(spec, Case(transport=transport)) as served, served.connect() as client:
            [tool] = [tool.name async for tool in client.tools() if tool.name.endswith("sequentialthinking")]
            first = await client.call_tool(tool, thought)
            second = await client.call_tool(tool, {**thought, "thought": "x" * 101})

    assert first.structured_content["thoughtHistoryLength"] == 1
    assert second.is_error


async def test_invalid_setting_is_reported() -> None:
    with pytest.raises(PluginError, match="max_thoughts"):
        async with open_served(ServerSpec(plugins=["thinking"], config={"thinking": {"max_thoughts": 0}})):
            pass
