"""The client raises the class that the server raised, with its attributes, in each revision over each transport."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import mcptrio
from mcptrio import Client, Host, InvalidParams, MCPError, Mount, ResourceNotFound, Server, connect, errors
from mcptrio.errors import InputFailed, InternalError, InvalidRequest, NotApproved
from mcptrio.protocol.messages import ErrorResponse
from mcptrio.protocol.remote_errors import client_error, server_error
from mcptrio.protocol.revisions.registry import REVISIONS
from mcptrio.protocol.revisions.revision import Inputs
from mcptrio.serving import MountOptions
from tests.client import error_plugin
from tests.client.error_plugin import RAISED
from tests.error_codes import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    MISSING_CLIENT_CAPABILITY,
    RESOURCE_NOT_FOUND,
    UNSUPPORTED_PROTOCOL_VERSION,
    URL_ELICITATION_REQUIRED,
)

__all__: list[str] = []

ATTRIBUTES = ("scopes", "retry_after", "uri", "required", "requested", "supported", "elicitations")
ONLY_CLIENTS = {"InputFailed", "NotApproved"}
EVERYWHERE = [name for name in RAISED if name != "URLElicitationRequired"]
"""Raised in each revision, except that 2026-07-28 has a round trip instead."""


@pytest.fixture
def mcp_plugins() -> list[object]:
    return [error_plugin]


def seen(error: MCPError) -> tuple[object, ...]:
    attributes = {each: getattr(error, each) for each in ATTRIBUTES if hasattr(error, each)}
    return type(error), error.code, error.message, error.data, attributes


async def check(client: Client, name: str) -> None:
    with pytest.raises(MCPError) as read:
        await client.read_resource(f"raise://{name}")
    with pytest.raises(MCPError) as called:
        await client.call_tool("act", {"name": name})
    assert seen(read.value) == seen(called.value) == seen(RAISED[name]())


def test_every_transmitted_error_class_is_tested() -> None:
    crossing = {name for name in errors.__all__ if issubclass(cls := getattr(errors, name), MCPError) and cls.code}

    assert crossing == {*RAISED, *ONLY_CLIENTS}


@pytest.mark.parametrize("version", REVISIONS)
@pytest.mark.parametrize("name", RAISED)
def test_error_class_is_restored_from_the_code_of_each_revision(name: str, version: str) -> None:
    error, revision = RAISED[name](), REVISIONS[version]
    answer = ErrorResponse.of(1, error)
    answer.code = revision.codes.get(answer.code, answer.code)

    assert seen(server_error(answer, revision)) == seen(error)
    if revision.inputs is Inputs.BACK_CHANNEL:
        assert seen(client_error(answer, revision)) == seen(error)


@pytest.mark.parametrize(
    ("code", "data", "expected"),
    [
        (INVALID_PARAMS, {"uri": 7}, InvalidParams),
        (INVALID_PARAMS, None, InvalidParams),
        (INTERNAL_ERROR, {"retryAfter": True}, InternalError),
        (INTERNAL_ERROR, {"retryAfter": -1}, InternalError),
        (INTERNAL_ERROR, {"retryAfter": "soon"}, InternalError),
        (INVALID_REQUEST, {"scopes": [1]}, InvalidRequest),
        (MISSING_CLIENT_CAPABILITY, {}, MCPError),
        (UNSUPPORTED_PROTOCOL_VERSION, {"requested": "x", "supported": "y"}, MCPError),
        (URL_ELICITATION_REQUIRED, {"elicitations": [1]}, MCPError),
        (-1, None, MCPError),
        (RESOURCE_NOT_FOUND, None, ResourceNotFound),
    ],
)
def test_invalid_error_data_yields_the_general_class_of_the_code(code: int, data: object, expected: type) -> None:
    answer = ErrorResponse(1, code, "m", data)
    error = server_error(answer, REVISIONS["2026-07-28"], {"uri": "note://asked"})

    assert type(error) is expected
    assert (error.message, error.data) == ("m", data)
    if isinstance(error, ResourceNotFound):
        assert error.uri == "note://asked"


def test_denied_input_is_not_approved_and_failed_input_an_internal_error() -> None:
    answer, revision = ErrorResponse(1, -1, "no"), REVISIONS["2025-11-25"]

    assert type(client_error(answer, revision)) is NotApproved
    assert isinstance(InputFailed("m"), InternalError)


async def test_client_raises_the_error_class_of_the_server(mcp_any_client: Client) -> None:
    for name in EVERYWHERE:
        await check(mcp_any_client, name)


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("upstream", ["2025-11-25", "2026-07-28"])
async def test_error_of_a_mounted_server_keeps_class_and_code(upstream: str, revision: str) -> None:
    inner = Server(plugins=[error_plugin])
    async with inner.open():
        mount = Mount(inner, name="up", options=MountOptions(prefix="", revision=upstream))
        server = Server(plugins=[mount])
        async with server.open(), connect(server, revision=revision) as client:
            for name in EVERYWHERE:
                await check(client, name)


async def test_host_raises_the_error_class_of_the_server() -> None:
    server = Server(plugins=[error_plugin])
    async with server.open(), Host({"up": server}, approve=None) as host:
        await host.settle()
        for name in EVERYWHERE:
            with pytest.raises(MCPError) as read:
                await host.read_resource("up", f"raise://{name}")
            assert seen(read.value) == seen(RAISED[name]())


def test_documentation_lists_the_error_tree() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "errors.md").read_text("utf-8")
    above: list[type] = [Exception]
    shown = []
    for depth, bold, name in re.findall(r"^\| (⤷*) ?(\**)`(\w+)`", page, re.MULTILINE):
        cls = getattr(errors, name)
        del above[len(depth) + 1 :]
        assert above[-1] in cls.__bases__
        assert bool(bold) == (name in mcptrio.__all__)
        above.append(cls)
        shown.append(name)

    assert sorted(shown) == sorted({*errors.__all__} - {"Code"})
