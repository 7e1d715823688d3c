"""The messages that each side may send in each phase: initialize, initialized, two eras on one channel."""

from __future__ import annotations

from mcptrio import tool
from tests.error_codes import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION
from tests.interaction.applies import HANDSHAKE, MODERN, only, without
from tests.interaction.client import CAPABILITIES, INFO, VERSION
from tests.interaction.serving import Serve


@tool
async def echo(text: str) -> str:
    """Echo."""
    return text


@only(revisions=HANDSHAKE, because="2026-07-28 has no handshake")
async def test_requested_revision_is_negotiated(serve: Serve) -> None:
    peer = await serve(echo)

    assert peer.initialized is not None
    assert peer.initialized["protocolVersion"] == serve.revision
    assert peer.initialized["serverInfo"] == {"name": "tested", "version": "7"}


@only(revisions=HANDSHAKE[-1:], because="the test requests a revision of its own")
async def test_unknown_revision_is_answered_with_the_newest_handshake_revision(serve: Serve) -> None:
    await serve.start(echo)
    peer = await serve.connect(begin=False)

    assert (await peer.initialize("1999-01-01"))["protocolVersion"] == "2025-11-25"


@only(revisions=HANDSHAKE[-1:], because="the test requests a revision of its own")
async def test_initialize_never_negotiates_a_revision_without_a_handshake(serve: Serve) -> None:
    await serve.start(echo)
    peer = await serve.connect(begin=False)

    assert (await peer.initialize("2026-07-28"))["protocolVersion"] == "2025-11-25"


@only(revisions=HANDSHAKE, because="2026-07-28 has no handshake")
async def test_initialize_without_a_version_is_refused_and_can_be_repeated(serve: Serve) -> None:
    await serve.start(echo)
    peer = await serve.connect(begin=False)

    assert (await peer.error("initialize", {"capabilities": {}, "clientInfo": INFO}))["code"] == INVALID_PARAMS

    await peer.begin()
    assert await peer.text("echo", {"text": "a"}) == "a"


@only(revisions=HANDSHAKE, because="2026-07-28 has no handshake")
async def test_initialize_with_capabilities_of_a_wrong_type_is_refused(serve: Serve) -> None:
    await serve.start(echo)
    peer = await serve.connect(begin=False)

    error = await peer.error("initialize", {"protocolVersion": peer.revision, "capabilities": 3, "clientInfo": INFO})

    assert error["code"] == INVALID_PARAMS
    assert "capabilities" in error["message"]


@only(revisions=HANDSHAKE, because="2026-07-28 has no handshake")
async def test_request_before_initialize_is_refused(serve: Serve) -> None:
    await serve.start(echo)
    peer = await serve.connect(begin=False)

    error = await peer.error("tools/call", {"name": "echo", "arguments": {"text": "a"}})

    assert error["code"] == INVALID_REQUEST
    assert "initialize" in error["message"]


@only(revisions=HANDSHAKE, transports=["memory", "stdio"], because="over HTTP there is no session to ping yet")
async def test_ping_is_answered_before_initialize(serve: Serve) -> None:
    await serve.start(echo)
    peer = await serve.connect(begin=False)

    assert await peer.request("ping") == {}


@only(revisions=HANDSHAKE, because="2026-07-28 has no handshake")
async def test_request_between_initialize_and_initialized_is_served(serve: Serve) -> None:
    await serve.start(echo)
    peer = await serve.connect(begin=False)
    await peer.initialize()

    assert await peer.text("echo", {"text": "a"}) == "a"


@only(
    revisions=HANDSHAKE, transports=["memory", "stdio"], because="over HTTP each request has its own connection state"
)
async def test_requests_pipelined_after_initialize_use_the_negotiated_revision(serve: Serve) -> None:
    await serve.start(echo)
    peer = await serve.connect(begin=False)

    first = await peer.start(
        "initialize", {"protocolVersion": peer.revision, "capabilities": {}, "clientInfo": INFO}, id="i"
    )
    await peer.notify("notifications/initialized")
    second = await peer.start("tools/call", {"name": "echo", "arguments": {"text": "a"}})

    assert (await first.result())["protocolVersion"] == serve.revision
    assert (await second.result())["content"] == [{"type": "text", "text": "a"}]


@only(revisions=HANDSHAKE, because="2026-07-28 has no handshake")
async def test_second_initialize_is_refused_and_changes_nothing(serve: Serve) -> None:
    peer = await serve(echo)

    other = next(revision for revision in HANDSHAKE if revision != serve.revision)
    error = await peer.error("initialize", {"protocolVersion": other, "capabilities": {}, "clientInfo": INFO})

    assert error["code"] == INVALID_REQUEST
    assert await peer.text("echo", {"text": "a"}) == "a"
    (session,) = (s for s in serve.server.status.sessions if s.revision)
    assert session.revision == serve.revision


@only(revisions=HANDSHAKE, because="2026-07-28 has no handshake")
async def test_unknown_notification_is_ignored(serve: Serve) -> None:
    peer = await serve(echo)

    await peer.notify("notifications/nobody/knows", {"a": 1})

    assert await peer.text("echo", {"text": "a"}) == "a"


async def test_unsolicited_answer_is_ignored(serve: Serve) -> None:
    peer = await serve(echo)

    call = await peer.send({"jsonrpc": "2.0", "id": 99, "result": {}})
    if call.exchange is not None:
        with peer.deadline():
            await call.exchange.ended.wait()
        # 2026-07-28 has no responses from clients; in earlier revisions, a late response is ignored.
        assert call.exchange.status == (202 if peer.handshake else 400)

    assert await peer.text("echo", {"text": "a"}) == "a"


@only(revisions=HANDSHAKE, transports=["memory", "stdio"], because="over HTTP each request is independent")
async def test_both_eras_are_served_on_one_channel(serve: Serve) -> None:
    peer = await serve(echo)
    envelope = {VERSION: "2026-07-28", CAPABILITIES: {}}

    modern = await peer.call("echo", {"text": "a"}, meta=envelope)
    old = await peer.call("echo", {"text": "a"})

    assert modern["resultType"] == "complete"
    assert "resultType" not in old


@only(revisions=HANDSHAKE, transports=["memory", "stdio"], because="over HTTP each request is independent")
async def test_discover_before_initialize_is_answered(serve: Serve) -> None:
    await serve.start(echo)
    peer = await serve.connect(begin=False)

    answer = await peer.request("server/discover", meta={VERSION: "2026-07-28", CAPABILITIES: {}})
    await peer.begin()

    assert answer["supportedVersions"] == ["2026-07-28"]
    assert await peer.text("echo", {"text": "a"}) == "a"


@only(revisions=MODERN, because="handshake revisions have no envelope")
async def test_error_for_an_unsupported_version_in_the_envelope_lists_the_supported_ones(serve: Serve) -> None:
    peer = await serve(echo)

    call = await peer.start("tools/list", meta={VERSION: "2031-01-01"}, headers={"mcp-protocol-version": "2031-01-01"})

    error = await call.error()
    assert error["code"] == UNSUPPORTED_PROTOCOL_VERSION
    assert error["data"] == {"supported": ["2026-07-28"], "requested": "2031-01-01"}
    if call.exchange is not None:
        assert call.exchange.status == 400


@only(revisions=MODERN, because="handshake revisions have no envelope")
async def test_handshake_revision_in_the_envelope_is_refused(serve: Serve) -> None:
    peer = await serve(echo)

    call = await peer.start("tools/list", meta={VERSION: "2025-11-25"}, headers={"mcp-protocol-version": "2025-11-25"})

    assert (await call.error())["code"] == UNSUPPORTED_PROTOCOL_VERSION


@only(revisions=MODERN, because="handshake revisions have no envelope")
async def test_envelope_without_capabilities_is_refused(serve: Serve) -> None:
    peer = await serve(echo)
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": {VERSION: "2026-07-28"}}}

    call = await peer.send(message)

    error = await call.error()
    assert error["code"] == INVALID_PARAMS
    assert CAPABILITIES in error["message"]


@only(revisions=MODERN, because="handshake revisions have no envelope")
async def test_envelope_without_client_info_is_served(serve: Serve) -> None:
    peer = await serve(echo)
    meta = {VERSION: "2026-07-28", CAPABILITIES: {}}

    call = await peer.send({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}})

    assert (await call.result())["tools"][0]["name"] == "echo"


@only(revisions=MODERN, because="handshake revisions have no envelope")
async def test_status_names_the_client_of_the_latest_request(serve: Serve) -> None:
    peer = await serve(echo, capabilities={"sampling": {}})
    await peer.request("tools/list")

    snapshot = serve.server.status

    assert all((each.client, each.revision) == ("raw", serve.revision) for each in snapshot.sessions)


@only(revisions=MODERN, because="only 2026-07-28 has the server info in every result")
async def test_every_result_contains_the_server_info(serve: Serve) -> None:
    peer = await serve(echo)

    result = await peer.call("echo", {"text": "a"})

    assert result["_meta"]["io.modelcontextprotocol/serverInfo"] == {"name": "tested", "version": "7"}
    assert result["resultType"] == "complete"


@only(revisions=MODERN, because="2026-07-28 has removed the method")
async def test_initialize_with_an_envelope_is_refused(serve: Serve) -> None:
    peer = await serve(echo)

    call = await peer.start("initialize", {"protocolVersion": "2026-07-28", "capabilities": {}, "clientInfo": INFO})

    assert (await call.error())["code"] == METHOD_NOT_FOUND


@only(transports=["memory", "stdio"], because="an HTTP client has no channel to close")
async def test_disconnect_leaves_no_session_and_no_request(serve: Serve) -> None:
    peer = await serve(echo)
    await peer.text("echo", {"text": "a"})

    await peer.leave()

    await peer.eventually(lambda: not serve.server.status.sessions)


@without(revisions=MODERN, because="2026-07-28 has no sessions")
@only(transports=["http"], because="only HTTP has sessions with an id")
async def test_request_in_a_deleted_session_gets_404(serve: Serve) -> None:
    peer = await serve(echo)

    ended = await peer.delete()
    call = await peer.start("tools/list")
    with peer.deadline():
        assert call.exchange is not None
        await call.exchange.ended.wait()

    assert ended.status == 204
    assert call.exchange.status == 404


@only(transports=["memory"], because="the behaviour does not depend on the transport")
async def test_experimental_capabilities_are_advertised(serve: Serve) -> None:
    experimental = {"com.example/dates": {"calendar": "julian"}}
    peer = await serve(experimental=experimental)

    if peer.handshake:
        assert peer.initialized is not None
        initialized = peer.initialized
    else:
        initialized = await peer.request("server/discover")

    assert initialized["capabilities"]["experimental"] == experimental
