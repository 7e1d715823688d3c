"""Headers that repeat members of the body (2026-07-28 over HTTP), and parameter headers."""

from __future__ import annotations

import base64
from functools import partial
from typing import Annotated, Any

import pytest

from mcptrio import Header, Server, resource, tool
from tests.error_codes import HEADER_MISMATCH
from tests.interaction.applies import HANDSHAKE, MODERN, only
from tests.interaction.client import Call, Peer
from tests.interaction.serving import Serve

ONLY = "only 2026-07-28 over HTTP repeats in headers what the body says"


@tool
async def query(
    region: Annotated[str, Header("Region")],
    count: Annotated[int, Header("Count")] = 0,
    dry: Annotated[bool, Header("Dry")] = False,
) -> str:
    """Query."""
    return f"{region} {count} {dry}"


@resource("memo://{name}")
async def memo(name: str) -> str:
    """A memo."""
    return name


async def _call(peer: Peer, arguments: dict[str, Any], **headers: str) -> Call:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return await peer.start("tools/call", {"name": "query", "arguments": arguments}, headers=sent)


async def _mismatch(call: Call) -> None:
    error = await call.error()

    assert error["code"] == HEADER_MISMATCH
    assert call.exchange is not None
    assert call.exchange.status == 400
    assert call.answer is not None
    assert call.answer["id"] == call.id


@only(revisions=MODERN, transports=["http"], because=ONLY)
async def test_parameter_headers_are_compared_by_value(serve: Serve) -> None:
    peer = await serve(query)
    arguments = {"region": "eu west", "count": 7, "dry": True}

    for headers in (
        {"mcp_param_region": "eu west", "mcp_param_count": "7", "mcp_param_dry": "true"},
        {"Mcp_Param_Region": "eu west", "MCP_PARAM_COUNT": "7", "mcp_param_DRY": "true"},
        {"mcp_param_region": _sentinel("eu west"), "mcp_param_count": "7", "mcp_param_dry": "true"},
        {"mcp_param_region": "eu west", "mcp_param_count": "7", "mcp_param_dry": "true", "mcp_param_other": "x"},
    ):
        assert (await (await _call(peer, arguments, **headers)).result())["content"][0]["text"] == "eu west 7 True"


@only(revisions=MODERN, transports=["http"], because=ONLY)
async def test_parameter_header_that_differs_or_is_missing_is_refused(serve: Serve) -> None:
    peer = await serve(query)

    await _mismatch(await _call(peer, {"region": "eu"}))
    await _mismatch(await _call(peer, {"region": "eu"}, mcp_param_region="us"))
    await _mismatch(await _call(peer, {"region": "eu"}, mcp_param_region="EU"))
    await _mismatch(await _call(peer, {"region": "eu", "count": 7}, mcp_param_region="eu"))
    await _mismatch(await _call(peer, {"region": "eu", "count": 7}, mcp_param_region="eu", mcp_param_count="8"))
    await _mismatch(await _call(peer, {"region": "eu"}, mcp_param_region="=?base64?!!!?="))


@only(revisions=MODERN, transports=["http"], because=ONLY)
async def test_absent_argument_needs_no_header(serve: Serve) -> None:
    peer = await serve(query)

    call = await _call(peer, {"region": "eu"}, mcp_param_region="eu")

    assert (await call.result())["content"][0]["text"] == "eu 0 False"


@only(revisions=MODERN, transports=["http"], because=ONLY)
async def test_header_with_text_beyond_ascii_is_encoded(serve: Serve) -> None:
    peer = await serve(query)

    call = await _call(peer, {"region": "zürich"}, mcp_param_region=_sentinel("zürich"))

    assert (await call.result())["content"][0]["text"] == "zürich 0 False"


@only(revisions=MODERN, transports=["http"], because=ONLY)
async def test_version_method_and_name_must_agree_with_the_body(serve: Serve) -> None:
    peer = await serve(query)
    good = {"mcp_param_region": "eu"}

    for name in ("mcp_protocol_version", "mcp_method", "mcp_name"):
        await _mismatch(await _call(peer, {"region": "eu"}, **good, **{name: ""}))
    await _mismatch(await _call(peer, {"region": "eu"}, **good, mcp_method="tools/list"))
    await _mismatch(await _call(peer, {"region": "eu"}, **good, mcp_method="Tools/Call"))
    await _mismatch(await _call(peer, {"region": "eu"}, **good, mcp_name="other"))
    await _mismatch(await _call(peer, {"region": "eu"}, **good, mcp_protocol_version="2025-11-25"))


@only(revisions=MODERN, transports=["http"], because=ONLY)
async def test_resource_uri_is_repeated_in_mcp_name(serve: Serve) -> None:
    peer = await serve(memo)

    assert (await peer.request("resources/read", {"uri": "memo://a"}))["contents"][0]["text"] == "a"
    await _mismatch(await peer.start("resources/read", {"uri": "memo://a"}, headers={"mcp-name": "memo://b"}))


async def test_header_annotation_is_listed_in_the_schema(serve: Serve) -> None:
    peer = await serve(query)

    (listed,) = (await peer.request("tools/list"))["tools"]

    assert listed["inputSchema"]["properties"]["region"]["x-mcp-header"] == "Region"


@only(revisions=HANDSHAKE, transports=["http"], because="2026-07-28 requires the headers")
async def test_earlier_revisions_require_no_headers(serve: Serve) -> None:
    peer = await serve(query)

    assert await peer.text("query", {"region": "eu"}) == "eu 0 False"


async def _two(a: Annotated[str, Header("Same")], b: Annotated[str, Header("same")]) -> str:
    """The same header twice."""
    return ""


async def _number(a: Annotated[float, Header("A")]) -> str:
    """A number that is not an integer."""
    return ""


async def _list(a: Annotated[list[str], Header("A")]) -> str:
    """A list."""
    return ""


async def _odd(a: Annotated[str, Header("no token")]) -> str:
    """No token."""
    return ""


async def _empty(a: Annotated[str, Header("")]) -> str:
    """No name."""
    return ""


def test_partial_function_keeps_its_param_headers() -> None:
    def deploy(region: Annotated[str, Header("Region")], stage: str) -> str:
        return f"{region} {stage}"

    server = Server()
    server.add_tool(partial(deploy, stage="test"), name="deploy")

    assert server.catalog.tools.param_headers("deploy") == {"region": ("region",)}


@pytest.mark.parametrize("function", [_two, _number, _list, _odd, _empty])
def test_tool_with_invalid_header_annotations_is_refused(function: Any) -> None:
    with pytest.raises(ValueError, match="x-mcp-header"):
        Server().add_tool(function)


def _sentinel(text: str) -> str:
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="
