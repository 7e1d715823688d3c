"""A mounted server of the official Python SDK: its results and its requests."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mcptrio import Client, Command, connect
from tests.mounting.mounted import mounted
from tests.servers.ways import User, text

__all__: list[str] = []

SERVER = Path(__file__).parents[1] / "servers" / "python_sdk_server.py"
NEW, OLD = "2026-07-28", "2025-11-25"


@pytest.mark.parametrize("upstream", [NEW, OLD])
async def test_server_of_the_python_sdk_can_be_mounted(upstream: str) -> None:
    target = Command(args=[sys.executable, str(SERVER), "stdio"])
    async with mounted(target, upstream=upstream, revision=NEW, user=User()) as (client, mount, server):
        assert mount.status.info is not None
        assert mount.status.info.name == "python-sdk"
        assert mount.status.revision == upstream
        await use(client)
        async with connect(server, revision=OLD, handlers=User().handlers()) as other:
            await use(other)


async def use(client: Client) -> None:
    added = await client.call_tool("up_add", {"a": 1, "b": 2})
    media = await client.call_tool("up_media")
    refused = await client.call_tool("up_refuse", {"reason": "no"})

    assert added.structured_content == {"total": 3}
    assert [block.type for block in media.content] == ["text", "image", "audio", "resource_link", "resource"]
    assert refused.is_error
    assert await text(client, "up_order", message="Which coffee?") == "large, sugar 0"
    assert await text(client, "up_sign_in") == "accept"
    assert await text(client, "up_think", about="coffee") == "a-model: coffee!"
    assert await text(client, "up_roots") == "file:///srv/data"
