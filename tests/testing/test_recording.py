"""Recorded messages become a reproducible text, which is compared with a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcptrio import Context, MCPError, ResourceNotFound, resource, tool
from mcptrio.protocol.messages import ErrorResponse, Malformed, Notification, Request, Response
from mcptrio.serving import ServerSettings
from mcptrio.testing import Case, Recording, Script, ServerSpec, open_served
from mcptrio.testing.wire_text import Recorded
from mcptrio.transports.memory import memory_channel_pair
from tests.error_codes import PARSE_ERROR, URL_ELICITATION_REQUIRED

__all__: list[str] = []


class Garden:
    @tool
    async def sow(self, ctx: Context, bed: str) -> str:
        await ctx.report_progress(1, 2)
        answer = await ctx.ask(f"What goes into {bed}?", str)
        return f"{answer} in {bed}, at 2026-02-03T04:05:06.789Z"

    @tool
    async def water(self) -> None: ...

    @resource("garden://beds/{name}")
    async def bed(self, name: str) -> str:
        raise ResourceNotFound(name)


async def recorded(revision: str) -> Recording:
    """Record a session with server requests, progress and an error."""
    recording = Recording()
    script = Script().elicit({"value": "peas"})
    spec = ServerSpec(plugins=[Garden()], options={"settings": ServerSettings(page_size=1)})
    async with open_served(spec, Case(revision=revision), recording=recording) as served:
        async with served.connect(handlers=script.handlers("form")) as client:
            assert len([each async for each in client.tools()]) == 2
            await client.call_tool("sow", {"bed": "north"}, progress=lambda _: None)
            with pytest.raises(MCPError, match="not found"):
                await client.read_resource("garden://beds/x")
    return recording


HANDSHAKE = """\
--> initialize <request 1>
{
  "protocolVersion": "2025-11-25",
  "capabilities": {"elicitation": {"form": {}}, "tasks": {}},
  "clientInfo": {"name": "mcptrio", "version": "<version>"}
}

<-- result of initialize <request 1>
{
  "protocolVersion": "2025-11-25",
  "capabilities": {
    "tools": {"listChanged": true},
    "resources": {"subscribe": true, "listChanged": true},
    "completions": {},
    "logging": {}
  },
  "serverInfo": {"name": "mcptrio", "version": "0"}
}

--> notifications/initialized
"""


async def test_recording_lists_the_messages_in_order() -> None:
    text = (await recorded("2025-11-25")).text()

    assert text.startswith(HANDSHAKE)
    assert '"nextCursor": "<cursor 1>"' in text
    assert '--> tools/list <request 3>\n{"cursor": "<cursor 1>"}\n' in text
    assert '<-- notifications/progress\n{"progressToken": "<progress token 1>", "progress": 1, "total": 2}\n' in text
    assert "<-- elicitation/create <server request 1>\n" in text
    assert '--> result of elicitation/create <server request 1>\n{"action": "accept", "content"' in text
    assert '{"content": [{"type": "text", "text": "peas in north, at <time>"}]}' in text
    assert "<-- error of resources/read <request 5>: -32002 " in text
    # A revision is a date without a time.
    assert '"protocolVersion": "2025-11-25"' in text


async def test_recorded_round_trips_name_state_and_requests() -> None:
    text = (await recorded("2026-07-28")).text()
    asked, answered = text[text.index('"inputRequests"') :], text[text.index('"inputResponses"') :]

    assert '"<question 1>": {' in asked
    assert '"requestState": "<state 1>"' in asked
    assert '"<question 1>": {"action": "accept"' in answered
    assert '"requestState": "<state 1>"' in answered


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_recorded_text_is_reproducible(revision: str) -> None:
    first, second = await recorded(revision), await recorded(revision)

    assert first.text() == second.text()
    assert first.json() == second.json()
    assert first.messages != second.messages or revision == "2025-11-25"


async def test_json_recording_has_complete_messages() -> None:
    messages = json.loads((await recorded("2025-11-25")).json())

    assert [each["from"] for each in messages[:3]] == ["client", "server", "client"]
    assert messages[2]["message"] == {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert messages[1]["message"]["id"] == "<request 1>"


def test_equal_values_have_equal_placeholders() -> None:
    uuid, other = "123e4567-e89b-12d3-a456-426614174000", "123e4567-e89b-12d3-a456-42661417400f"
    subscribed = {"_meta": {"io.modelcontextprotocol/subscriptionId": "8"}}
    page = {"elicitations": [{"elicitationId": "pay"}]}
    recording = Recording()
    recording.messages = [
        Recorded(sender="client", message=Request(7, "a", {"file": "/tmp/x/1", "said": f"{uuid} {other} {uuid}"})),
        Recorded(sender="client", message=Request(8, "subscriptions/listen")),
        Recorded(sender="server", message=Request(7, "b", {"elicitationId": "pay"})),
        Recorded(sender="server", message=Notification("c", subscribed)),
        Recorded(sender="client", message=Notification("notifications/cancelled", {"requestId": 8})),
        Recorded(sender="server", message=Notification("notifications/cancelled", {"requestId": 7})),
        Recorded(sender="server", message=ErrorResponse(7, URL_ELICITATION_REQUIRED, "visit", page)),
        Recorded(sender="client", message=[Response(7, {}), Notification("d", {"at": "2026-01-01 10:00+02:00"})]),
        Recorded(sender="server", message=Malformed(ErrorResponse(None, PARSE_ERROR, "not JSON"))),
        Recorded(sender="server", message=ErrorResponse(None, PARSE_ERROR, "not JSON")),
    ]

    assert recording.text({"/tmp/x": "<folder>"}) == (
        "--> a <request 1>\n"
        '{"file": "<folder>/1", "said": "<uuid 1> <uuid 2> <uuid 1>"}\n\n'
        "--> subscriptions/listen <request 2>\n\n"
        '<-- b <server request 1>\n{"elicitationId": "<elicitation 1>"}\n\n'
        '<-- c\n{"_meta": {"io.modelcontextprotocol/subscriptionId": "<request 2>"}}\n\n'
        '--> notifications/cancelled\n{"requestId": "<request 2>"}\n\n'
        '<-- notifications/cancelled\n{"requestId": "<server request 1>"}\n\n'
        '<-- error of a <request 1>: -32042 visit\n{"elicitations": [{"elicitationId": "<elicitation 1>"}]}\n\n'
        "--> result of b <server request 1> (1 of 2 in a batch)\n{}\n\n"
        '--> d (2 of 2 in a batch)\n{"at": "<time>"}\n\n'
        "<-- no message: not JSON\n\n"
        "<-- error: -32700 not JSON\n"
    )


async def test_recording_distinguishes_connections() -> None:
    recording = Recording()
    for _ in range(2):
        ours, theirs = memory_channel_pair()
        await recording.of(ours).send([Request(1, "ping")])
        await ours.aclose()
        await theirs.aclose()

    assert recording.text() == "[1] --> ping <request 1>\n\n[2] --> ping <request 2>\n"
    assert [each["connection"] for each in json.loads(recording.json())] == [1, 2]


# Comparison with a file


def said(recording: Recording, *methods: str) -> Recording:
    recording.messages = [Recorded(sender="client", message=Notification(method)) for method in methods]
    return recording


@pytest.mark.parametrize("name", ["wire.txt", "wires/wire.json"])
def test_snapshot_is_written_and_compared(tmp_path: Path, name: str) -> None:
    writing = said(Recording(folder=tmp_path, update=True), "a", "b")
    writing.assert_wire(name)
    writing.assert_wire(name)
    said(Recording(folder=tmp_path), "a", "b").assert_wire(name)

    assert writing.rewritten == [tmp_path / name]
    with pytest.raises(
        AssertionError, match=rf"^the messages differ from {name}; --mcp-update-snapshots writes it again\n"
    ):
        said(Recording(folder=tmp_path), "a", "c").assert_wire(name)


def test_difference_from_a_snapshot_is_shown_by_line(tmp_path: Path) -> None:
    said(Recording(folder=tmp_path, update=True), "a", "b").assert_wire("wire.txt")
    with pytest.raises(AssertionError) as failed:
        said(Recording(folder=tmp_path), "a", "c").assert_wire("wire.txt")

    assert str(failed.value).splitlines()[1:3] == ["--- wire.txt", "+++ the wire"]
    assert {"---> b", "+--> c", " --> a"} < set(str(failed.value).splitlines())


def test_missing_snapshot_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"no such snapshot: .*wire\.txt; pytest --mcp-update-snapshots writes it"):
        said(Recording(folder=tmp_path), "a").assert_wire("wire.txt")
    assert list(tmp_path.iterdir()) == []
