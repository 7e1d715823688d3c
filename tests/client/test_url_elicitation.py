"""Requests that are refused until the user has opened a page (2025-11-25)."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from mcptrio import MCPError
from mcptrio.client import ClientTimeouts, Handlers, OpenURL
from mcptrio.errors import Code
from mcptrio.types import TextContent
from tests.client.scripted import play, text
from tests.error_codes import URL_ELICITATION_REQUIRED

__all__: list[str] = []

OLD = "2025-11-25"


def wants(*ids: str) -> dict[str, Any]:
    return {
        "elicitations": [
            {"mode": "url", "message": "Sign in", "url": f"https://example.com/{id}", "elicitationId": id} for id in ids
        ]
    }


async def test_request_that_requires_urls_is_repeated_after_their_completion() -> None:
    shown: list[str] = []

    async def show(page: OpenURL) -> bool:
        shown.append(page.url)
        return True

    async with play(OLD, handlers=Handlers(open_url=show)) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            await script.refuse(
                await script.next_request("tools/call"), URL_ELICITATION_REQUIRED, "sign in", wants("a", "b")
            )
            await wait_all_tasks_blocked()
            for id in ("unknown", "b", "a", "a"):
                assert len(script.received) == 3
                await script.notify("notifications/elicitation/complete", {"elicitationId": id})
                await wait_all_tasks_blocked()
            await script.answer(await script.next_request("tools/call"), text("done"))

        nursery.start_soon(serve)
        assert (await client.call_tool("work")).content == (TextContent(text="done"),)
    assert shown == ["https://example.com/a", "https://example.com/b"]


async def test_request_is_repeated_periodically_without_a_completion_notification(autojump_clock: object) -> None:
    """The notification is optional. Source: MCP 2025-11-25, client/elicitation, "Completion Notifications"."""
    handlers = Handlers(open_url=_yes)
    async with play(OLD, handlers=handlers) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            for _ in range(5):
                await script.refuse(
                    await script.next_request("tools/call"), URL_ELICITATION_REQUIRED, "sign in", wants("a")
                )
            await script.answer(await script.next_request("tools/call"), text("done"))

        nursery.start_soon(serve)
        assert (await client.call_tool("work")).content == (TextContent(text="done"),)


async def test_incomplete_url_visit_times_out(autojump_clock: object) -> None:
    handlers, timeouts = Handlers(open_url=_yes), ClientTimeouts(input=60)
    async with play(OLD, handlers=handlers, timeouts=timeouts) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            while True:
                await script.refuse(
                    await script.next_request("tools/call"), URL_ELICITATION_REQUIRED, "sign in", wants("a")
                )

        nursery.start_soon(serve)
        with pytest.raises(MCPError, match="sign in"):
            await client.call_tool("work")
        assert trio.current_time() == pytest.approx(60, abs=15)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("handlers", [Handlers(), Handlers(open_url=lambda page: _no())], ids=["none", "declined"])
async def test_required_urls_error_is_raised_without_consent(handlers: Handlers) -> None:
    async with play(OLD, handlers=handlers) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            await script.refuse(
                await script.next_request("tools/call"), URL_ELICITATION_REQUIRED, "sign in", wants("a")
            )

        nursery.start_soon(serve)
        with pytest.raises(MCPError, match="sign in") as caught:
            await client.call_tool("work")
        assert caught.value.code == Code.URL_ELICITATION_REQUIRED
        assert caught.value.data == wants("a")
        await script.expect_nothing()


async def _no() -> bool:
    return False


async def _yes(page: OpenURL) -> bool:
    return True


@pytest.mark.parametrize(
    "data", [None, {}, {"elicitations": 5}, {"elicitations": [5]}, {"elicitations": [{}]}, wants()]
)
async def test_required_urls_error_without_urls_is_raised(data: Any) -> None:
    async with play(OLD, handlers=Handlers(open_url=_yes)) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            request = await script.next_request("tools/call")
            await script.refuse(request, URL_ELICITATION_REQUIRED, "sign in", data)

        nursery.start_soon(serve)
        with pytest.raises(MCPError, match="sign in"):
            await client.call_tool("work")
