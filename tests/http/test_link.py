"""A link with our own server: a call in every revision, and the other features in the newest revision of each kind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from types import SimpleNamespace
from typing import Annotated, Any

import pytest
import trio
from attrs import define, field

from mcptrio import Context, Header, Server, tool
from mcptrio.abc import Stores
from mcptrio.abc.links import Link
from mcptrio.errors import RequestFailed, SessionLost
from mcptrio.http.client.link import HTTPLink, open_http_link
from mcptrio.protocol.envelope import CLIENT_CAPABILITIES, PROTOCOL_VERSION
from mcptrio.protocol.messages import ErrorResponse, Notification, Request, Response
from mcptrio.protocol.revisions.registry import REVISIONS
from mcptrio.protocol.revisions.revision import NegotiationStyle, Revision
from mcptrio.serve.http import serve_http
from mcptrio.serving import HTTPOptions, ServerLimits, ServerSettings
from mcptrio.stores.memory import MemoryEventStore, MemorySessionStore
from tests.error_codes import HEADER_MISMATCH, METHOD_NOT_FOUND

from .web import eventually

__all__: list[str] = []

MODERN = REVISIONS["2026-07-28"]
EVERY = [pytest.param(revision, id=revision.version) for revision in REVISIONS.values()]
HANDSHAKE = [each for each in EVERY if each.id == "2025-11-25"]
NEWEST = [*HANDSHAKE, *(each for each in EVERY if each.id == MODERN.version)]
"""The link handles revisions with a handshake alike, except that it sends no version header in the two oldest."""


@define
class Peer:
    """One link, used as the client uses it."""

    link: HTTPLink
    revision: Revision
    received: list[Request | Notification] = field(factory=list)
    ids: int = 0

    async def begin(self) -> None:
        if self.revision.lifecycle is NegotiationStyle.PER_REQUEST:
            await self.result("server/discover")
            return
        info = {"name": "t", "version": "1"}
        params = {"protocolVersion": self.revision.version, "capabilities": {"roots": {}}, "clientInfo": info}
        result = await self.result("initialize", params)
        assert result["protocolVersion"] == self.revision.version
        await self.link.send(Notification("notifications/initialized"), self.revision)
        self.link.start_listening(self.revision)

    async def ask(self, method: str, params: dict[str, Any] | None = None, **options: Any) -> Response | ErrorResponse:
        self.ids += 1
        id = self.ids
        params = dict(params or {})
        if self.revision.lifecycle is NegotiationStyle.PER_REQUEST:
            meta = {PROTOCOL_VERSION: self.revision.version, CLIENT_CAPABILITIES: {}}
            params["_meta"] = {**meta, **params.get("_meta", {})}
        answer = await self.link.exchange(Request(id, method, params), self.revision, **options)
        assert answer.id == id
        return answer

    async def result(self, method: str, params: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
        answer = await self.ask(method, params, **options)
        assert isinstance(answer, Response), answer
        return answer.result

    async def text(self, tool: str, arguments: dict[str, Any] | None = None, **options: Any) -> str:
        meta = options.pop("meta", None)
        params = {"name": tool, "arguments": arguments or {}, **({} if meta is None else {"_meta": meta})}
        result = await self.result("tools/call", params, **options)
        assert not result.get("isError"), result
        text: str = result["content"][0]["text"]
        return text

    async def until(self, method: str) -> Request | Notification:
        await eventually(lambda: any(message.method == method for message in self.received))
        return next(message for message in self.received if message.method == method)


@asynccontextmanager
async def serving(
    *functions: Callable[..., Any], stores: Stores | None = None, **options: Any
) -> AsyncIterator[tuple[Server, str, trio.Event]]:
    """Yield a server of these tools, its URL, and the event that stops it."""
    plugin = SimpleNamespace(**{function.__name__: function for function in functions})
    settings = ServerSettings(stores=stores, limits=ServerLimits(result_text=2_000_000))
    server = Server("tested", plugins=[plugin], settings=settings)
    shutdown = trio.Event()
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            serve = partial(serve_http, server, port=0, shutdown=shutdown, options=HTTPOptions(**options))
            (url,) = await nursery.start(serve)
            yield server, url, shutdown
            shutdown.set()


@asynccontextmanager
async def connected(url: str, revision: Revision, *, begin: bool = True) -> AsyncIterator[Peer]:
    received: list[Request | Notification] = []
    async with open_http_link(url, received.append) as link:
        port: Link = link
        assert port.name == url
        peer = Peer(link, revision, received)
        if begin:
            await peer.begin()
        yield peer


@tool
def echo(text: str) -> str:
    return text


@tool
def place(region: Annotated[str, Header("Region")], count: Annotated[int, Header("Count")]) -> str:
    return f"{region} {count}"


@tool
async def steps(context: Context, many: int) -> str:
    for step in range(many):
        await context.report_progress(step + 1, many)
        await trio.sleep(0.15)
    return "done"


@pytest.mark.parametrize("revision", EVERY)
async def test_calls_return_their_results_in_every_revision(revision: Revision) -> None:
    async with serving(echo) as (_, url, _), connected(url, revision) as peer:
        for text in ("hello", "ä\u2028\n\0", "x" * 1_000_000):
            assert await peer.text("echo", {"text": text}) == text
        assert [each["name"] for each in (await peer.result("tools/list"))["tools"]] == ["echo"]
        assert peer.received == []


@pytest.mark.parametrize("revision", NEWEST)
async def test_unknown_method_gets_the_error_of_its_revision(revision: Revision) -> None:
    """2026-07-28 refuses an unknown method with status 404; earlier revisions send an error and keep the session."""
    async with serving(echo) as (_, url, _), connected(url, revision) as peer:
        if revision.http.sessions:
            answer = await peer.ask("no/such")
            assert isinstance(answer, ErrorResponse)
            assert answer.code == METHOD_NOT_FOUND
        else:
            with pytest.raises(RequestFailed) as caught:
                await peer.ask("no/such")
            assert not isinstance(caught.value, SessionLost)
            assert caught.value.status == 404
            assert caught.value.reply is not None
            assert caught.value.reply.code == METHOD_NOT_FOUND
        assert await peer.text("echo", {"text": "still"}) == "still"


@pytest.mark.parametrize("revision", NEWEST)
async def test_progress_precedes_the_answer(revision: Revision) -> None:
    async with serving(steps) as (_, url, _), connected(url, revision) as peer:
        assert await peer.text("steps", {"many": 3}, meta={"progressToken": "p"}) == "done"

        messages = [message.params for message in peer.received if message.method == "notifications/progress"]
        assert [params and (params["progressToken"], params["progress"]) for params in messages] == [
            ("p", 1),
            ("p", 2),
            ("p", 3),
        ]


async def test_parameter_headers_are_accepted_by_the_server() -> None:
    param_headers = {"region": ("region",), "count": ("count",)}
    async with serving(place) as (_, url, _), connected(url, MODERN) as peer:
        arguments = {"region": "münchen ", "count": 2**53 - 1}
        assert await peer.text("place", arguments, param_headers=param_headers) == f"münchen  {2**53 - 1}"
        with pytest.raises(RequestFailed) as caught:
            await peer.text("place", arguments)
        assert caught.value.status == 400
        assert caught.value.reply is not None
        assert caught.value.reply.code == HEADER_MISMATCH


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_server_request_is_answered_in_its_own_post(revision: Revision) -> None:
    """The request arrives on the stream of the call."""

    @tool
    async def where(context: Context) -> str:
        return ", ".join([root.uri for root in await context.list_roots()])

    async def respond(peer: Peer) -> None:
        question = await peer.until("roots/list")
        assert isinstance(question, Request)
        await peer.link.send(Response(question.id, {"roots": [{"uri": "file:///a"}]}), revision)

    async with serving(where) as (_, url, _), connected(url, revision) as peer, trio.open_nursery() as nursery:
        nursery.start_soon(respond, peer)
        assert await peer.text("where") == "file:///a"


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_unsolicited_messages_use_the_session_stream(revision: Revision) -> None:
    async with serving(echo) as (server, url, _), connected(url, revision) as peer:

        def told() -> bool:
            # A notification before the stream is open is lost, and only the server knows when it is open.
            server.add_tool(place)
            server.remove_tool("place")
            return bool(peer.received)

        await eventually(told)
        assert peer.received[0].method == "notifications/tools/list_changed"


@pytest.mark.parametrize("revision", NEWEST)
async def test_leaving_an_exchange_cancels_the_request_if_the_revision_requires_it(revision: Revision) -> None:
    started, cancelled, go = trio.Event(), trio.Event(), trio.Event()

    @tool
    async def slow(context: Context) -> str:
        started.set()
        try:
            await go.wait()
        except trio.Cancelled:
            cancelled.set()
            raise
        return "done"

    async with serving(slow, echo) as (_, url, _), connected(url, revision) as peer:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(peer.text, "slow")
            await started.wait()
            nursery.cancel_scope.cancel()
        if peer.link.cancels_by_closing(revision):
            await cancelled.wait()
        else:
            assert await peer.text("echo", {"text": "x"}) == "x"
            assert not cancelled.is_set()
            go.set()


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_closing_the_link_ends_the_session(revision: Revision) -> None:
    sessions = MemorySessionStore()
    stores = Stores(sessions=sessions, events=MemoryEventStore())
    async with serving(echo, stores=stores) as (_, url, _):
        async with connected(url, revision) as peer:
            await peer.text("echo", {"text": "x"})
            assert len(sessions._sessions) == 1
        assert len(sessions._sessions) == 0


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_session_unknown_to_the_server_raises_session_lost(revision: Revision) -> None:
    sessions = MemorySessionStore()
    stores = Stores(sessions=sessions, events=MemoryEventStore())
    async with serving(echo) as (_, first, _):
        async with connected(first, revision) as peer:
            await peer.text("echo", {"text": "x"})
            async with serving(echo, stores=stores) as (_, second, _):
                # To the client this looks like a restart.
                async with connected(second, revision) as other:
                    other.link._session = peer.link._session
                    with pytest.raises(SessionLost):
                        await other.text("echo", {"text": "x"})
                    await other.begin()
                    assert await other.text("echo", {"text": "again"}) == "again"


async def test_call_longer_than_its_response_is_resumed() -> None:
    """The server sends a priming event and closes the response; the client reconnects and receives the result."""
    go = trio.Event()

    @tool
    async def slow(context: Context) -> str:
        assert context.release_stream(200)
        go.set()
        await trio.sleep(0.1)
        return "at last"

    async with serving(slow) as (_, url, _), connected(url, REVISIONS["2025-11-25"]) as peer:
        began = trio.current_time()
        assert await peer.text("slow") == "at last"
        assert go.is_set()
        assert trio.current_time() - began >= 0.2


@pytest.mark.parametrize("revision", NEWEST)
async def test_concurrent_calls_get_their_own_results(revision: Revision) -> None:
    async with serving(echo, steps) as (_, url, _), connected(url, revision) as peer:
        texts: list[str] = []

        async def ask(number: int) -> None:
            texts.append(await peer.text("echo", {"text": str(number)}))

        async with trio.open_nursery() as nursery:
            for _ in range(30):
                nursery.start_soon(peer.text, "steps", {"many": 2})
            for number in range(100):
                nursery.start_soon(ask, number)
        assert sorted(texts, key=int) == [str(number) for number in range(100)]


@pytest.mark.parametrize("revision", NEWEST)
async def test_call_after_a_server_shutdown_fails(revision: Revision) -> None:
    async with serving(echo) as (server, url, shutdown), connected(url, revision) as peer:
        assert await peer.text("echo", {"text": "x"}) == "x"
        shutdown.set()
        await eventually(lambda: not server.is_open)
        with pytest.raises(RequestFailed):
            await peer.text("echo", {"text": "x"})
