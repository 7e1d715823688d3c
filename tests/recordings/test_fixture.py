"""``@pytest.mark.mcp(replay="x.jsonl")``: a test of a client without its server."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcptrio import Server, connect
from mcptrio.client.handlers import Handlers
from tests.recordings import garden

__all__: list[str] = []

pytest_plugins = ["pytester"]

TEST = """
import pytest
from mcptrio import MCPError

pytestmark = pytest.mark.mcp(replay="recordings/x.jsonl")

async def test_water(mcp_client):
    result = await mcp_client.call_tool("water", {"bed": "west"})
    assert result.content[0].text == "west: 2 litres"
    with pytest.raises(MCPError, match="the nearest has"):
        await mcp_client.call_tool("water", {"bed": "north"})

async def test_sow(mcp_client, mcp_script, mcp_wire):
    mcp_script.elicit({"value": "carrots"})
    result = await mcp_client.call_tool("sow", {"bed": "east"})
    assert result.content[0].text == "carrots in east"
    assert "What goes into east?" in mcp_wire.text()

async def test_two_clients_begin_at_the_start(mcp_connect):
    for _ in range(2):
        async with mcp_connect() as client:
            result = await client.call_tool("water", {"bed": "west"})
            assert result.content[0].text == "west: 2 litres"

async def test_recording_is_named(mcp_case, mcp_any_client, mcp_nothing_left):
    assert str(mcp_case) == "recorded-x"
"""


async def carrots(_form: object) -> dict[str, str]:
    return {"value": "carrots"}


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_client_fixture_connects_to_a_recorded_server(pytester: pytest.Pytester, revision: str) -> None:
    folder: Path = pytester.mkdir("recordings")
    server = Server("garden", plugins=[garden], record=folder / "x.jsonl")
    async with connect(server, revision=revision, handlers=Handlers(elicit=carrots)) as client:
        await client.call_tool("water", {"bed": "west"})
        await client.call_tool("sow", {"bed": "east"})
    pytester.makepyfile(TEST)
    # In another process: Trio runs in this one.
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=4)


def test_missing_recording_fails_the_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TEST)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-k", "test_water")

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*recordings/x.jsonl: cannot be read: No such file or directory"])
