"""Negotiation: the revision that follows from each first response of a server, and the messages exchanged."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import trio

from mcptrio import ConfigError, ConnectionClosed, MCPError, RequestTimeout, Server, connect
from mcptrio.client import ClientTimeouts
from mcptrio.client.discovery import Fail, Handshake, PerRequest, TryAgain, Verdict, read_verdict
from mcptrio.errors import ProtocolError, RemoteProtocolError, RequestFailed
from mcptrio.protocol.messages import ErrorResponse, Request, Response
from mcptrio.transports.memory import memory_channel_pair
from tests.client.scripted import Script, play
from tests.error_codes import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CLIENT_CAPABILITY,
    UNSUPPORTED_PROTOCOL_VERSION,
)
from tests.interaction.applies import HANDSHAKE, MODERN, REVISIONS

__all__: list[str] = []

ASKED = MODERN[-1]
DISCOVERED = {"supportedVersions": [ASKED], "capabilities": {}}
INFO = {"name": "played", "version": "1"}


def error(code: int, data: Any = None) -> ErrorResponse:
    return ErrorResponse(1, code, "no", data)


def refused(status: int | None, code: int | None = None, data: Any = None) -> RequestFailed:
    reply = MCPError("no", code=code, data=data) if code is not None else None
    return RequestFailed("refused", status=status, reply=reply)


def unsupported(*versions: Any) -> ErrorResponse:
    return error(UNSUPPORTED_PROTOCOL_VERSION, {"supported": list(versions), "requested": ASKED})


# --- judge


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        # The server has the method.
        (Response(1, DISCOVERED), PerRequest(ASKED, DISCOVERED)),
        (
            Response(1, {"supportedVersions": ["2999-01-01", ASKED, 5, None]}),
            PerRequest(ASKED, {"supportedVersions": ["2999-01-01", ASKED, 5, None]}),
        ),
        # A response, but none of a per-request revision.
        (Response(1, {}), Handshake()),
        (Response(1, {"supportedVersions": ASKED}), Handshake()),
        (Response(1, {"supportedVersions": [*HANDSHAKE]}), Handshake()),
        (Response(1, {"supportedVersions": ["2999-01-01"]}), Handshake()),
        (None, Handshake()),
        (error(METHOD_NOT_FOUND), Handshake()),
        (error(INVALID_PARAMS), Handshake()),
        (error(INVALID_REQUEST), Handshake()),
        (error(INTERNAL_ERROR), Handshake()),
        (error(-32000), Handshake()),
        (error(0), Handshake()),
        # The server names its versions.
        (unsupported(*HANDSHAKE), Handshake()),
        (unsupported("2999-01-01", HANDSHAKE[0]), Handshake()),
        (unsupported(ASKED, HANDSHAKE[0]), Handshake()),
        (unsupported(ASKED), TryAgain(ASKED)),
        (refused(400, UNSUPPORTED_PROTOCOL_VERSION, {"supported": [ASKED]}), TryAgain(ASKED)),
        # Over HTTP.
        (refused(400), Handshake()),
        (refused(404), Handshake()),
        (refused(405), Handshake()),
        (refused(406), Handshake()),
        (refused(415), Handshake()),
        (refused(202), Handshake()),
        (refused(400, INVALID_REQUEST), Handshake()),
        (refused(400, -32000), Handshake()),
        (refused(200, METHOD_NOT_FOUND), Handshake()),
        (refused(400, METHOD_NOT_FOUND), Handshake()),
        (refused(404, METHOD_NOT_FOUND), PerRequest(ASKED, None)),
        (refused(404, -32000), Handshake()),
        (refused(400, UNSUPPORTED_PROTOCOL_VERSION, {"supported": [*HANDSHAKE]}), Handshake()),
    ],
    ids=str,
)
def test_probe_response_yields_a_verdict(answer: Any, verdict: Verdict) -> None:
    assert read_verdict(answer, ASKED) == verdict


@pytest.mark.parametrize(
    "answer",
    [refused(None), refused(401), refused(403), refused(500), refused(502), refused(503, INTERNAL_ERROR), refused(301)],
    ids=str,
)
def test_transport_failure_of_the_probe_is_raised(answer: RequestFailed) -> None:
    """A handshake would fail too, and hide the cause."""
    verdict = read_verdict(answer, ASKED)

    assert isinstance(verdict, Fail)
    assert verdict.error is answer


@pytest.mark.parametrize(
    "answer",
    [
        error(HEADER_MISMATCH),
        error(MISSING_CLIENT_CAPABILITY),
        refused(400, MISSING_CLIENT_CAPABILITY),
        refused(400, HEADER_MISMATCH),
    ],
    ids=str,
)
def test_per_request_error_of_the_probe_is_raised(answer: Any) -> None:
    verdict = read_verdict(answer, ASKED)

    assert isinstance(verdict, Fail)
    assert isinstance(verdict.error, MCPError)


@pytest.mark.parametrize(
    ("data", "spoken"),
    [
        ({"supported": ["2999-01-01", "2998-01-01"]}, "2999-01-01, 2998-01-01"),
        ({"supported": [["x"], None]}, r"\['x'\], None"),
        ({"supported": []}, "none that it names"),
        ({"supported": ASKED}, "none that it names"),
        ({}, "none that it names"),
        (None, "none that it names"),
        ("2999-01-01", "none that it names"),
        ({"supported": ["9" * 10_000] * 10_000}, "9{40}(, 9{40}){9};"),
    ],
    ids=["two", "rubbish", "none", "text", "nothing", "null", "a text", "far too many"],
)
def test_missing_common_revision_error_is_short(data: Any, spoken: str) -> None:
    verdict = read_verdict(error(UNSUPPORTED_PROTOCOL_VERSION, data), ASKED)

    assert isinstance(verdict, Fail)
    with pytest.raises(RemoteProtocolError, match=f"no revision in common: the server speaks {spoken}"):
        raise verdict.error


# --- whole negotiations


@pytest.mark.parametrize("revision", REVISIONS)
async def test_mcptrio_server_uses_the_requested_revision(revision: str) -> None:
    server = Server("tested", version="7", instructions="gently")
    async with connect(server, revision=revision) as client:
        assert client.revision == revision
        assert client.server_info is not None
        assert (client.server_info.name, client.server_info.version) == ("tested", "7")
        assert client.instructions == "gently"
        assert await client.ping() >= 0


async def test_newest_common_revision_is_negotiated() -> None:
    async with connect(Server()) as client:
        assert client.revision == MODERN[-1]


async def test_unknown_revision_is_refused() -> None:
    with pytest.raises(ConfigError, match="revision: expected one of 2024-11-05"):
        async with connect(Server(), revision="2025-01-01"):
            pass


class Beginning:
    """The server's end of a connection while the client negotiates."""

    def __init__(self) -> None:
        self.channel, theirs = memory_channel_pair()
        self.script = Script(theirs, MODERN[-1])
        self.met = trio.Event()

    async def greet(self, version: str) -> Request:
        """Answer the handshake with this version; return the request."""
        request = await self.script.next_request("initialize")
        await self.script.send(
            Response(request.id, {"protocolVersion": version, "capabilities": {}, "serverInfo": INFO})
        )
        return request


@pytest.fixture
def beginning() -> Beginning:
    return Beginning()


@pytest.mark.parametrize("version", HANDSHAKE)
async def test_handshake_with_an_older_server(beginning: Beginning, version: str) -> None:
    async def serve() -> None:
        await beginning.script.refuse(await beginning.script.next_request("server/discover"), METHOD_NOT_FOUND)
        request = await beginning.greet(version)
        assert request.params is not None
        assert request.params["protocolVersion"] == HANDSHAKE[-1]
        assert "_meta" not in request.params
        await beginning.script.next_notification("notifications/initialized")
        beginning.met.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        async with connect(beginning.channel) as client:
            assert client.revision == version
            await beginning.met.wait()


async def test_server_that_ignores_the_probe_gets_a_handshake(beginning: Beginning, autojump_clock: object) -> None:
    """Some servers never answer a request before the handshake."""

    async def serve() -> None:
        await beginning.script.next_request("server/discover")
        await beginning.greet(HANDSHAKE[-1])
        await beginning.script.next_notification("notifications/initialized")
        beginning.met.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        began = trio.current_time()
        async with connect(beginning.channel, timeouts=ClientTimeouts(probe=3)) as client:
            assert client.revision == HANDSHAKE[-1]
            assert trio.current_time() - began == pytest.approx(3)
            await beginning.met.wait()


@pytest.mark.parametrize("pinned", [None, *REVISIONS])
async def test_connect_to_a_silent_server_times_out(
    beginning: Beginning, pinned: str | None, autojump_clock: object
) -> None:
    began = trio.current_time()
    with pytest.raises(RequestFailed, match=r"did not answer within 20 s"):
        async with connect(beginning.channel, revision=pinned, timeouts=ClientTimeouts(connect=20)):
            pass
    assert trio.current_time() - began == pytest.approx(20)


@pytest.mark.parametrize("version", ["2025-01-01", "", 5, None, MODERN[-1]])
async def test_handshake_in_an_unknown_revision_fails(beginning: Beginning, version: Any) -> None:
    async def serve() -> None:
        await beginning.script.refuse(await beginning.script.next_request("server/discover"), METHOD_NOT_FOUND)
        await beginning.greet(version)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        with pytest.raises(ProtocolError):
            async with connect(beginning.channel):
                pass


@pytest.mark.parametrize(("pinned", "answered"), [("2025-06-18", "2025-11-25"), ("2025-11-25", "2024-11-05")])
async def test_handshake_in_another_revision_than_the_pinned_one_fails(
    beginning: Beginning, pinned: str, answered: str
) -> None:
    async def serve() -> None:
        request = await beginning.greet(answered)
        assert request.params is not None
        assert request.params["protocolVersion"] == pinned

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        with pytest.raises(RemoteProtocolError, match=f"expected revision {pinned}, the server chose '{answered}'"):
            async with connect(beginning.channel, revision=pinned):
                pass


async def test_pinned_per_request_revision_gets_no_handshake(beginning: Beginning) -> None:
    async def serve() -> None:
        await beginning.script.refuse(await beginning.script.next_request("server/discover"), METHOD_NOT_FOUND)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        with pytest.raises(RemoteProtocolError, match=f"does not speak revision {MODERN[-1]}"):
            async with connect(beginning.channel, revision=MODERN[-1]):
                pass


@pytest.mark.parametrize("pinned", [None, MODERN[-1]])
async def test_server_that_refuses_a_revision_it_offers_is_probed_again(
    beginning: Beginning, pinned: str | None
) -> None:
    async def serve() -> None:
        request = await beginning.script.next_request("server/discover")
        await beginning.script.refuse(request, UNSUPPORTED_PROTOCOL_VERSION, data={"supported": [MODERN[-1]]})
        request = await beginning.script.next_request("server/discover")
        await beginning.script.answer(request, {**DISCOVERED, "ttlMs": 0, "cacheScope": "private"})

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        async with connect(beginning.channel, revision=pinned) as client:
            assert client.revision == MODERN[-1]


async def test_server_that_refuses_all_its_revisions_is_an_error(beginning: Beginning) -> None:
    async def serve() -> None:
        for _ in range(2):
            request = await beginning.script.next_request("server/discover")
            await beginning.script.refuse(request, UNSUPPORTED_PROTOCOL_VERSION, data={"supported": [MODERN[-1]]})

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        with pytest.raises(RemoteProtocolError, match=f"does not speak revision {MODERN[-1]}"):
            async with connect(beginning.channel):
                pass
    assert len(beginning.script.received) == 2


async def test_error_of_a_refused_handshake_is_raised_unchanged(beginning: Beginning) -> None:
    async def serve() -> None:
        await beginning.script.refuse(await beginning.script.next_request("server/discover"), METHOD_NOT_FOUND)
        await beginning.script.refuse(
            await beginning.script.next_request("initialize"), -32000, "no licence", {"days": 0}
        )

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        with pytest.raises(MCPError, match="no licence") as caught:
            async with connect(beginning.channel):
                pass
    assert (caught.value.code, caught.value.data) == (-32000, {"days": 0})


@pytest.mark.parametrize(
    "result",
    [
        {"supportedVersions": [MODERN[-1]]},
        {"supportedVersions": [MODERN[-1]], "capabilities": []},
        {**DISCOVERED, "_meta": {"io.modelcontextprotocol/serverInfo": "me"}},
    ],
    ids=["no capabilities", "wrong capabilities", "wrong info"],
)
async def test_invalid_discovery_error_names_the_position(beginning: Beginning, result: dict[str, Any]) -> None:
    async def serve() -> None:
        request = await beginning.script.next_request("server/discover")
        await beginning.script.answer(request, result)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        with pytest.raises(RemoteProtocolError, match=r"server/discover: expected .*"):
            async with connect(beginning.channel):
                pass


async def test_server_info_is_optional(beginning: Beginning) -> None:
    """A SHOULD since 2026-07-28."""

    async def serve() -> None:
        request = await beginning.script.next_request("server/discover")
        await beginning.script.send(Response(request.id, {**DISCOVERED, "ttlMs": 0, "cacheScope": "private"}))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        async with connect(beginning.channel) as client:
            assert client.server_info is None
            assert client.instructions is None


@pytest.mark.parametrize("revision", REVISIONS)
async def test_each_request_has_the_metadata_of_its_revision(revision: str) -> None:
    async with play(revision, info=None) as (client, script), trio.open_nursery() as nursery:
        nursery.start_soon(client.ping)
        request = await script.next_request("ping" if script.handshake else "server/discover")
        await script.answer(request, {} if script.handshake else {**DISCOVERED, "ttlMs": 0, "cacheScope": "private"})

    meta = (request.params or {}).get("_meta", {})
    if script.handshake:
        assert meta == {}
    else:
        assert meta["io.modelcontextprotocol/protocolVersion"] == revision
        tasks: dict[str, Any] = {"io.modelcontextprotocol/tasks": {}}
        assert meta["io.modelcontextprotocol/clientCapabilities"] == {"extensions": tasks}
        assert meta["io.modelcontextprotocol/clientInfo"]["name"] == "mcptrio"


EASILY_SHOCKED = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "server/discover":
        sys.exit(3)
    if message["method"] == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "shy", "version": "1"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


async def test_server_that_exits_on_the_probe_is_restarted_for_a_handshake() -> None:
    async with connect([sys.executable, "-c", EASILY_SHOCKED]) as client:
        assert client.revision == "2025-06-18"


async def test_server_that_exits_on_each_request_is_reported() -> None:
    with pytest.raises(ConnectionClosed, match="exit code 3"):
        async with connect([sys.executable, "-c", "import sys; sys.stdin.readline(); sys.exit(3)"]):
            pass


async def test_server_that_disconnects_during_the_probe_is_reported(beginning: Beginning) -> None:
    async def serve() -> None:
        await beginning.script.next_request("server/discover")
        await beginning.script.close()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        with pytest.raises(ConnectionClosed, match="the server closed the connection"):
            async with connect(beginning.channel):
                pass


@pytest.mark.parametrize("handshake", ["refused", "ignored"])
async def test_server_that_answers_the_probe_late_is_used(
    beginning: Beginning, handshake: str, autojump_clock: object
) -> None:
    """It answers the probe after the client has started a handshake."""
    script = beginning.script

    async def serve() -> None:
        first, second = await script.next_request("server/discover"), await script.next_request("initialize")
        await trio.sleep(2)
        if handshake == "refused":
            await script.refuse(second, METHOD_NOT_FOUND)
            await trio.sleep(1)
        result = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **DISCOVERED}
        await script.send(Response(first.id, result))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        async with connect(beginning.channel, timeouts=ClientTimeouts(probe=1.5, connect=20)) as client:
            assert client.revision == ASKED


async def test_error_of_a_handshake_after_an_unanswered_probe_is_raised(
    beginning: Beginning, autojump_clock: object
) -> None:
    async def serve() -> None:
        await beginning.script.next_request("server/discover")
        await beginning.script.refuse(await beginning.script.next_request("initialize"), -32000, "not now")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        with pytest.raises(MCPError, match="not now"):
            async with connect(beginning.channel, timeouts=ClientTimeouts(probe=1)):
                pass


# --- preferred handshake


async def test_preferred_handshake_is_used_if_the_server_supports_both() -> None:
    async with connect(Server(), prefer="handshake") as client:
        assert client.revision == HANDSHAKE[-1]
    async with connect(Server(), prefer="handshake", revision=ASKED) as client:
        assert client.revision == ASKED
    with pytest.raises(ConfigError, match="prefer: expected 'handshake', got 'old'"):
        await connect(Server(), prefer="old").__aenter__()  # type: ignore[arg-type]


async def test_preferred_handshake_falls_back_to_discovery(beginning: Beginning) -> None:
    async def serve() -> None:
        await beginning.script.refuse(await beginning.script.next_request("initialize"), METHOD_NOT_FOUND)
        request = await beginning.script.next_request("server/discover")
        result = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **DISCOVERED}
        await beginning.script.send(Response(request.id, result))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        async with connect(beginning.channel, prefer="handshake") as client:
            assert client.revision == ASKED


async def test_timeout_after_a_forbidden_server_request_names_the_remedy(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    """The tool waits for the response to its request, which the client ignores."""
    async with play(ASKED) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            await script.next_request("tools/call")
            await script.send(Request("s1", "roots/list", {}))
            await script.next_notification("notifications/cancelled")

        nursery.start_soon(serve)
        remedy = (
            r"the request roots/list, which 2026-07-28 does not allow: .* revision='2025-11-25' or prefer='handshake'"
        )
        with pytest.raises(RequestTimeout, match=remedy):
            await client.call_tool("work")
    assert "prefer='handshake'" in caplog.text
