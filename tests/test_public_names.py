"""Public names in use: as arguments, results and exceptions."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from inspect import isclass
from pathlib import Path
from typing import Any

from mcptrio import (
    Context,
    Elicit,
    ElicitURL,
    InvalidParams,
    MCPError,
    MCPTrioError,
    Sample,
    Server,
    ToolError,
    hookimpl,
    redact,
)
from mcptrio.errors import (
    InternalError,
    MissingClientCapability,
    ParseError,
    PluginError,
    ProtocolError,
    RemoteProtocolError,
    URLElicitationRequired,
)
from mcptrio.types import GetPromptResult, ModelHint, ModelPreferences, PromptMessage, TextContent, ToolChoice
from tests.error_codes import INTERNAL_ERROR, INVALID_PARAMS, PARSE_ERROR
from tests.test_hooks import both_eras, talking

__all__: list[str] = []

PAGES = Path(__file__).resolve().parents[1] / "docs" / "api"
PUBLIC_MODULES = re.findall(r"automodule:: (\S+)", "".join(page.read_text("utf-8") for page in PAGES.glob("*.rst")))

ALL = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}}


@both_eras
async def test_requests_of_different_kinds_are_sent_in_one_round(revision: str) -> None:
    async def sign(ctx: Context) -> str:
        form, page, sampled = await ctx.ask_all(
            Elicit("Sign here", str),
            ElicitURL("Pay there", "https://pay.example.com/1", "pay-1"),
            Sample(
                "Thank the user",
                tool_choice=ToolChoice(mode="none"),
                model_preferences=ModelPreferences(hints=(ModelHint(name="small"),), speed_priority=1.0),
            ),
        )
        assert page is None
        return f"{form}: {sampled.text}"

    def elicited(params: dict[str, Any]) -> dict[str, Any]:
        if params.get("mode") == "url":
            return {"action": "accept"}
        return {"action": "accept", "content": dict.fromkeys(params["requestedSchema"]["properties"], "Ada")}

    asked: list[dict[str, Any]] = []

    def sampled(params: dict[str, Any]) -> dict[str, Any]:
        asked.append(params)
        return {"role": "assistant", "content": {"type": "text", "text": "thanks"}, "model": "small"}

    server = Server()
    server.add_tool(sign)
    answers = {"elicitation/create": elicited, "sampling/createMessage": sampled}
    async with talking(server, revision, capabilities=ALL, answers=answers) as peer:
        assert await peer.text("sign") == "Ada: thanks"
    assert asked[0]["modelPreferences"] == {"hints": [{"name": "small"}], "speedPriority": 1.0}
    assert asked[0]["toolChoice"] == {"mode": "none"}


@both_eras
async def test_prompt_returns_a_prepared_result(revision: str) -> None:
    async def debate() -> GetPromptResult:
        messages = [PromptMessage(role=role, content=TextContent(text=role)) for role in ("user", "assistant")]
        return GetPromptResult(messages=tuple(messages), description="for and against")

    server = Server()
    server.add_prompt(debate)
    async with talking(server, revision) as peer:
        got = await peer.request("prompts/get", {"name": "debate"})
    assert got["description"] == "for and against"
    assert [message["role"] for message in got["messages"]] == ["user", "assistant"]


@both_eras
async def test_handler_can_check_client_capabilities_first(revision: str) -> None:
    async def think(ctx: Context) -> str:
        try:
            ctx.require("sampling")
        except MissingClientCapability as error:
            return json.dumps(error.required)
        return "never"

    async def pay(ctx: Context) -> str:
        raise ctx.url_required("Pay first", "https://pay.example.com/2", id="pay-2")

    server = Server()
    server.add_tool(think)
    server.add_tool(pay)
    async with talking(server, revision, capabilities={"elicitation": {"url": {}}}) as peer:
        assert json.loads(await peer.text("think")) == {"sampling": {}}
        if peer.handshake:
            error = await peer.error("tools/call", {"name": "pay", "arguments": {}})
            assert error["code"] == URLElicitationRequired.code
            assert error["data"]["elicitations"][0]["elicitationId"] == "pay-2"
        else:
            assert (await peer.call("pay"))["resultType"] == "input_required"


def test_exceptions_form_a_hierarchy() -> None:
    assert issubclass(MCPError, MCPTrioError)
    assert issubclass(RemoteProtocolError, ProtocolError)
    assert not issubclass(ToolError, MCPError)
    assert {error.code for error in (ParseError, InvalidParams, InternalError)} == {
        PARSE_ERROR,
        INVALID_PARAMS,
        INTERNAL_ERROR,
    }
    assert str(PluginError("failed", plugin="fs", distribution="mcptrio-fs")) == "plugin fs (from mcptrio-fs): failed"


def test_secrets_in_a_text_are_redacted() -> None:
    text = redact("Authorization: Bearer abcdefgh12345678, https://ada:secret1@example.com/?password=hunter22")

    assert "abcdefgh" not in text
    assert "secret1" not in text
    assert "hunter22" not in text
    assert "example.com" in text


def test_plugin_markers_belong_to_one_project() -> None:
    assert hookimpl.project_name == "mcptrio"


def test_serve_stdio_opens_the_server_in_a_separate_process() -> None:
    code = """
import trio
from mcptrio import Server
from mcptrio.serving import serve_stdio

server = Server("scripted")
server.add_tool(lambda: "pong", name="ping")
trio.run(serve_stdio, server)
"""
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "ping", "_meta": meta}}
    result = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(call) + "\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert json.loads(result.stdout.splitlines()[-1])["result"]["content"] == [{"type": "text", "text": "pong"}]


def test_every_public_class_begins_with_a_sentence() -> None:
    """The first line of a docstring is all that an overview shows, so it must not be a heading such as ``Args:``."""
    modules = [importlib.import_module(name) for name in PUBLIC_MODULES]
    classes = {value for module in modules for name in module.__all__ if isclass(value := getattr(module, name))}

    bare = [cls.__qualname__ for cls in classes if not re.match(r"[^:\n]+(\.|:)", cls.__dict__.get("__doc__") or "")]
    assert sorted(bare) == []
