"""Our own client over HTTP with SSE, against ``mcptrio serve --http`` in a process."""

from __future__ import annotations

from typing import Literal
from uuid import uuid4

import pytest
import trio

from mcptrio import Endpoint, connect
from mcptrio.client import Progress
from mcptrio.types import TextContent
from tests.clients.behaviours import MODERN, SSE
from tests.clients.running import sse_url
from tests.servers.ways import TIMEOUTS, WAIT_TIMEOUT, User, text

__all__: list[str] = []


@pytest.mark.parametrize(("revision", "transport"), [*((revision, "auto") for revision in SSE), (MODERN, "sse")])
async def test_client_calls_cancels_and_answers_over_sse(
    url: str, revision: str, transport: Literal["auto", "sse"]
) -> None:
    """For handshake revisions ``auto`` negotiates this transport; for 2026-07-28 the client must name it."""
    target = Endpoint(url=sse_url(url), transport=transport)
    counting, holding = f"count {uuid4()}", f"hold {uuid4()}"
    received: list[float] = []
    user = User()
    with trio.fail_after(WAIT_TIMEOUT):
        async with connect(target, revision=revision, handlers=user.handlers(), timeouts=TIMEOUTS) as client:
            started = trio.Event()

            async def report(progress: Progress) -> None:
                received.append(progress.progress)
                if len(received) == 3:
                    await text(client, "let_go", name=counting)

            counted = await client.call_tool("count", {"name": counting, "to": 3}, progress=report)
            async with trio.open_nursery() as nursery:
                hold = {"name": holding}
                nursery.start_soon(lambda: client.call_tool("hold", hold, progress=lambda _: started.set()))
                await started.wait()
                nursery.cancel_scope.cancel()
            cancelled = await text(client, "watch_cancelled", name=holding)
            thought = await text(client, "think", about="tea")

    assert client.revision == revision
    assert received == [1, 2, 3]
    assert counted.content == (TextContent(text="3"),)
    assert cancelled == f"{holding} was cancelled"
    assert (thought, [text for text, *_ in user.asked]) == ("a-model: tea!", ["tea"])
