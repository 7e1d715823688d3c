"""Failing tools: the text for the model, and the log."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio

from mcptrio import Context, InvalidParams, MCPError, ToolError, tool
from tests.error_codes import INTERNAL_ERROR, INVALID_PARAMS
from tests.interaction.applies import SINCE_2025_11, only
from tests.interaction.serving import Serve

SECRET = "postgres://admin:hunter2@db/prod"


@tool
async def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


@tool
async def tells() -> str:
    """Fail in a way the model may read."""
    raise ToolError("the file is empty")


@tool
async def tells_within_a_nursery(ctx: Context) -> str:
    """The same, inside the author's own nursery."""

    async def fail() -> None:
        raise ToolError("the file is empty")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(fail)
    return ""


@tool
async def crashes() -> str:
    """Fail with an unexpected exception."""
    raise ValueError(f"cannot reach {SECRET}")


@tool
async def refuses() -> str:
    """Answer with a protocol error."""
    raise MCPError("not today", code=-31000, data={"day": 7})


@tool
async def objects() -> str:
    """Answer with a protocol error of the specification."""
    raise InvalidParams("expected another day")


@tool
async def cancels_itself(ctx: Context) -> str:
    """Leave through its own cancel scope."""
    with trio.move_on_after(0):
        await trio.sleep(1)
    return "went on"


@tool(output_schema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
async def promises(n: Any) -> dict[str, Any]:
    """Return what a schema written by hand promises."""
    return {"n": n}


@tool
async def surprises() -> str:
    """Return something that is not what it says."""
    return object()  # type: ignore[return-value]


@tool(input_schema={"type": "object", "properties": {"n": {"type": "integer", "maximum": 3}}, "required": ["n"]})
async def checked(n: int) -> int:
    """Take what a schema written by hand allows."""
    return n


async def test_tool_error_reaches_the_model(serve: Serve) -> None:
    peer = await serve(tells)

    assert await peer.failure("tells") == "the file is empty"


async def test_tool_error_from_a_nested_nursery_reaches_the_model(serve: Serve) -> None:
    peer = await serve(tells_within_a_nursery)

    assert await peer.failure("tells_within_a_nursery") == "the file is empty"


async def test_unexpected_error_is_logged_and_not_disclosed(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    peer = await serve(crashes)

    with caplog.at_level(logging.ERROR, "mcptrio"):
        result = await peer.call("crashes")

    assert result["isError"] is True
    assert "crashes" in result["content"][0]["text"]
    assert "hunter2" not in str(peer.received)
    assert "ValueError" not in str(peer.received)
    (record,) = caplog.records
    assert record.exc_info is not None
    assert SECRET in str(record.exc_info[1])


async def test_protocol_error_is_sent_as_an_error_response(serve: Serve) -> None:
    peer = await serve(refuses)

    error = await (await peer.start_call("refuses")).error()

    assert error == {"code": -31000, "message": "not today", "data": {"day": 7}}


async def test_specified_protocol_error_keeps_its_code(serve: Serve) -> None:
    peer = await serve(objects)

    assert (await (await peer.start_call("objects")).error())["code"] == INVALID_PARAMS


async def test_unknown_tool_is_a_protocol_error(serve: Serve) -> None:
    peer = await serve(add)

    error = await (await peer.start_call("nobody")).error()
    misspelt = await (await peer.start_call("ad")).error()
    prefixed = await (await peer.start_call("numbers_add")).error()

    assert (error["code"], error["message"]) == (INVALID_PARAMS, "no such tool: `nobody`")
    assert misspelt["message"] == "no such tool: `ad`; did you mean `add`?"
    assert prefixed["message"] == "no such tool: `numbers_add`; did you mean `add`?"


async def test_invalid_arguments_are_reported_to_the_model_or_the_client(serve: Serve) -> None:
    peer = await serve(add)

    for arguments, what in (
        ({"a": "one"}, "integer"),
        ({"a": True}, "integer"),
        ({"a": 1.5}, "integer"),
        ({}, "a"),
        ({"a": 1, "c": 2}, "c"),
        ({"a": None}, "integer"),
    ):
        call = await peer.start_call("add", arguments)
        if serve.revision in SINCE_2025_11:
            result = await call.result()
            assert result["isError"] is True
            message = result["content"][0]["text"]
        else:
            error = await call.error()
            assert error["code"] == INVALID_PARAMS
            message = error["message"]
        assert what in message, arguments


async def test_arguments_are_checked_against_a_handwritten_schema(serve: Serve) -> None:
    peer = await serve(checked)

    message = await (await peer.start_call("checked", {"n": 4})).wait()

    assert "3" in str(message)
    assert message.get("error", {}).get("code") == INVALID_PARAMS or message["result"]["isError"]
    assert await peer.text("checked", {"n": 3}) == "3"


async def test_result_that_violates_its_output_schema_is_an_internal_error(serve: Serve) -> None:
    peer = await serve(promises)

    assert (await peer.call("promises", {"n": 3}))["content"][0]["text"]
    message = await (await peer.start_call("promises", {"n": "three"})).wait()

    assert message["error"]["code"] == INTERNAL_ERROR
    assert "three" not in str(message)


async def test_result_without_a_json_form_fails_and_is_logged(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    peer = await serve(surprises)

    with caplog.at_level(logging.ERROR, "mcptrio"):
        text = await peer.failure("surprises")

    assert "object" not in text
    assert "surprises" in caplog.text


async def test_cancel_scope_of_a_tool_does_not_cancel_the_request(serve: Serve) -> None:
    peer = await serve(cancels_itself)

    assert await peer.text("cancels_itself") == "went on"


@only(transports=["memory"], because="exception groups do not depend on the transport")
async def test_exception_group_is_logged_and_not_disclosed(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    @tool
    async def twice(ctx: Context) -> str:
        """Fail twice at once."""

        async def fail(text: str) -> None:
            raise ValueError(text)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail, SECRET)
            nursery.start_soon(fail, "other")
        return ""

    peer = await serve(twice)

    with caplog.at_level(logging.ERROR, "mcptrio"):
        text = await peer.failure("twice")

    assert "hunter2" not in text
    assert "hunter2" in caplog.text
