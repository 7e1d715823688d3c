"""The client asks the user for authorization once, and sends no request twice because of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import trio

from mcptrio import Endpoint, connect
from mcptrio.client import Change
from mcptrio.errors import AuthorizationError, ConsentNeeded
from mcptrio.types import TextContent
from tests.http.web import Handler, ReceivedRequest, Wire, answer, eventually, serving

__all__: list[str] = []

SESSION = "session-1"
TOOLS = Change("tools")
CHANGED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
CAPABILITIES = {"tools": {"listChanged": True}}


class Token:
    """Credentials that the user must approve."""

    def __init__(self, *, agrees: bool = True) -> None:
        self.value = 1
        self.asked = 0
        self._agrees = agrees

    async def headers(self, method: str, url: str) -> Mapping[str, str]:
        return {"authorization": f"Bearer {self.value}"}

    async def challenged(self, url: str, status: int, headers: Mapping[str, str]) -> bool:
        raise ConsentNeeded("the server wants authorization", ask=self._ask)

    async def _ask(self) -> None:
        self.asked += 1
        if not self._agrees:
            raise AuthorizationError("the user said no")
        self.value += 1


class Site:
    """A server whose token expires when a test sets ``valid``."""

    def __init__(self, serve: Handler, *, revision: str = "2025-11-25") -> None:
        self.valid = "1"
        self._serve = serve
        self._revision = revision

    async def __call__(self, seen: ReceivedRequest, wire: Wire) -> None:
        if seen.headers["authorization"] != f"Bearer {self.valid}":
            await wire.reply(status=401)
        elif seen.method == "DELETE":
            await wire.reply(status=204)
        elif seen.method == "POST" and seen.message["method"] == "initialize":
            info = {"name": "site", "version": "1"}
            result = answer(seen, protocolVersion=self._revision, capabilities=CAPABILITIES, serverInfo=info)
            await wire.reply(result, mcp_session_id=SESSION)
        elif seen.method == "POST" and seen.message["method"] == "server/discover":
            result = answer(
                seen,
                resultType="complete",
                supportedVersions=[self._revision],
                capabilities=CAPABILITIES,
                ttlMs=0,
                cacheScope="private",
            )
            await wire.reply(result)
        elif seen.method == "POST" and seen.message["method"] == "notifications/initialized":
            await wire.reply(status=202)
        else:
            await self._serve(seen, wire)


@pytest.mark.parametrize("agrees", [True, False])
async def test_executed_call_is_not_repeated_after_reauthorization(agrees: bool) -> None:
    """The token expires once the server has executed the call; only the stream of its response is requested again."""
    token = Token(agrees=agrees)

    async def serve(seen: ReceivedRequest, wire: Wire) -> None:
        if seen.method == "GET" and "last-event-id" not in seen.headers:
            await wire.reply(status=405)
            return
        await wire.stream()
        if seen.method == "POST":
            serve.id = seen.message["id"]  # type: ignore[attr-defined]
            await wire.event(id="1", retry=10)
            site.valid = "2"
        else:
            result = {"content": [{"type": "text", "text": "paid"}]}
            await wire.event({"jsonrpc": "2.0", "id": serve.id, "result": result})  # type: ignore[attr-defined]
        await wire.end()

    site = Site(serve)
    with trio.fail_after(60):
        async with (
            serving(site) as web,
            connect(Endpoint(url=web.url, auth=token), revision="2025-11-25") as client,
        ):
            if agrees:
                assert (await client.call_tool("pay")).content == (TextContent(text="paid"),)
            else:
                with pytest.raises(AuthorizationError, match="said no"):
                    await client.call_tool("pay")
                site.valid = "1"
            sent = [seen.message["method"] for seen in web.of("POST")]
    assert sent.count("tools/call") == 1
    assert token.asked == 1


async def test_subscription_asks_the_user_at_start_and_after_reconnection() -> None:
    token = Token()
    hang_up = trio.Event()

    async def serve(seen: ReceivedRequest, wire: Wire) -> None:
        id = seen.message["id"]
        meta = {"io.modelcontextprotocol/subscriptionId": id}
        await wire.stream()
        params: dict[str, Any] = {"_meta": meta, "notifications": {"toolsListChanged": True}}
        method = "notifications/subscriptions/acknowledged"
        await wire.event({"jsonrpc": "2.0", "method": method, "params": params})
        if site.valid == "2":
            await hang_up.wait()
            site.valid = "3"
        else:
            await trio.sleep_forever()
        wire.hang_up()

    site = Site(serve, revision="2026-07-28")
    with trio.fail_after(60):
        async with serving(site) as web, connect(Endpoint(url=web.url, auth=token), revision="2026-07-28") as client:
            site.valid = "2"
            async with client.subscribe(tools=True) as changes:
                assert token.asked == 1
                hang_up.set()
                assert await changes.__anext__() == TOOLS
                assert token.asked == 2


async def test_subscription_ends_when_the_user_denies_authorization() -> None:
    token = Token(agrees=False)

    async def serve(seen: ReceivedRequest, wire: Wire) -> None:
        raise AssertionError("not authorized")

    site = Site(serve, revision="2026-07-28")
    with trio.fail_after(60):
        async with serving(site) as web, connect(Endpoint(url=web.url, auth=token), revision="2026-07-28") as client:
            site.valid = "2"
            with pytest.raises(AuthorizationError, match="said no"):
                await client.subscribe(tools=True).__aenter__()
    assert token.asked == 1


async def test_get_stream_asks_the_user_and_continues() -> None:
    token = Token()
    gets = 0

    async def serve(seen: ReceivedRequest, wire: Wire) -> None:
        nonlocal gets
        gets += 1
        await wire.stream()
        if gets == 1:
            site.valid = "2"
            await wire.event(id="1", retry=10)
            await wire.end()
        else:
            await wire.event(CHANGED)
            await trio.sleep_forever()

    site = Site(serve)
    with trio.fail_after(60):
        async with (
            serving(site) as web,
            connect(Endpoint(url=web.url, auth=token), revision="2025-11-25") as client,
            client.subscribe(tools=True) as changes,
        ):
            assert await changes.__anext__() == TOOLS
            assert token.asked == 1
            assert client.revision == "2025-11-25"


async def test_unauthorized_response_to_a_ping_does_not_end_the_client() -> None:
    """The client's response to the server's ping needs authorization; other requests are unaffected."""
    token = Token(agrees=False)

    async def serve(seen: ReceivedRequest, wire: Wire) -> None:
        if seen.method == "GET":
            await wire.stream()
            await wire.event({"jsonrpc": "2.0", "id": 7, "method": "ping"})
            site.valid = "2"
            await trio.sleep_forever()
        else:
            await wire.reply(answer(seen, content=[]))

    site = Site(serve)
    with trio.fail_after(60):
        async with serving(site) as web, connect(Endpoint(url=web.url, auth=token), revision="2025-11-25") as client:
            await eventually(lambda: token.asked)
            site.valid = "1"
            assert (await client.call_tool("work")).content == ()
