"""Decorated functions, registered on a server."""

from __future__ import annotations

import pytest

from mcptrio import Server, connect, prompt, resource, tool


@tool(name="own", description="Its own.", read_only=True)
async def marked_tool() -> str:
    return ""


@resource("own://a", title="Its title", mime_type="text/markdown", ttl_ms=5)
async def marked_resource() -> str:
    return "text"


@prompt(name="own", title="Its title")
async def marked_prompt() -> str:
    return ""


async def test_server_keeps_the_decorator_options() -> None:
    server = Server()
    assert server.add_tool(marked_tool) == "own"
    assert server.add_tool(marked_tool, name="other") == "other"
    assert server.add_resource(marked_resource) == "own://a"
    assert server.add_resource(marked_resource, "own://b") == "own://b"
    with pytest.raises(ValueError, match="expected a URI with a scheme"):
        server.add_resource(marked_tool)
    assert server.add_prompt(marked_prompt) == "own"
    assert server.add_prompt(marked_prompt, name="other", title="Another") == "other"

    async with server.open(), connect(server) as client:
        tools = {each.name: each async for each in client.tools()}
        resources = {each.uri: each async for each in client.resources()}
        prompts = {each.name: each async for each in client.prompts()}

    for each in tools.values():
        assert each.description == "Its own."
        assert each.annotations is not None
        assert each.annotations.read_only_hint
    assert {(each.title, each.mime_type) for each in resources.values()} == {("Its title", "text/markdown")}
    assert [prompts[name].title for name in ("own", "other")] == ["Its title", "Another"]
