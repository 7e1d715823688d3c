"""A mounted server's requests reach the client of the call, once, in every combination of revisions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from attrs import evolve

from mcptrio import Client, MCPError, Mount, Server, connect
from tests.error_codes import URL_ELICITATION_REQUIRED
from tests.mounting.mounted import MOUNTED_PLUGIN, WAIT_TIMEOUT, WAITING, User, command, eventually, mounted, text
from tests.processes import serving

__all__: list[str] = []

NEW, OLD = "2026-07-28", "2025-11-25"
SIDES = [(NEW, NEW), (NEW, OLD), (OLD, NEW), (OLD, OLD)]

both_sides = pytest.mark.parametrize(("upstream", "revision"), SIDES, ids=lambda side: side[:4])


@both_sides
async def test_requests_of_every_kind_reach_the_client(upstream: str, revision: str, tmp_path: Path) -> None:
    user = User()
    log = tmp_path / "log"
    async with mounted(upstream=upstream, revision=revision, user=user) as (client, _, _):
        ordered = await text(client, "up_order", log=str(log))
        everything = await text(client, "up_everything")
        together = await text(client, "up_together")
        [contents] = (await client.read_resource("asked://colour")).contents

    assert ordered == "blue 3"
    assert log.read_text() == "called\n"
    assert everything == "accept a-model hi file:///srv/data"
    assert together == "accept a-model"
    assert contents.text == "it is blue"  # type: ignore[union-attr]
    assert user.asked[:4] == ["Which colour?", "How many?", "https://example.com/in", (7, "Be brief.", ["look"])]


async def test_requests_are_sent_once_without_parked_handlers(tmp_path: Path) -> None:
    """Our handler is replayed for each answer; the state contains the mounted server's requests and their answers."""
    log = tmp_path / "log"
    async with mounted(upstream=NEW, revision=NEW, parked=0) as (client, _, _):
        assert await text(client, "up_order", log=str(log)) == "blue 3"
        assert await text(client, "up_everything") == "accept a-model hi file:///srv/data"

    assert log.read_text() == "called\n"


async def test_call_that_cannot_be_parked_is_not_repeated(tmp_path: Path) -> None:
    """A handshake server waits within its call; if the handler cannot be parked, that call is lost."""
    log = tmp_path / "log"
    async with mounted(upstream=OLD, revision=NEW, parked=0) as (client, _, _):
        with pytest.raises(MCPError, match="is not repeated"):
            await client.call_tool("up_order", {"log": str(log)})

    assert log.read_text() == "called\n"


@both_sides
async def test_required_url_of_a_mounted_server_is_forwarded(upstream: str, revision: str, tmp_path: Path) -> None:
    """Revisions with an error code for it receive the error; the completion of the page is forwarded as well."""
    user = User()
    log = tmp_path / "log"
    answers: list[str] = []

    async with mounted(upstream=upstream, revision=revision, user=user) as (client, _, _):

        async def visit() -> None:
            answers.append(await text(client, "up_visit", log=str(log)))

        with trio.fail_after(WAIT_TIMEOUT / 2):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(visit)
                await eventually(lambda: bool(user.asked))
                await text(client, "up_visited")

    assert answers == ["visited"]
    assert user.asked == ["https://example.com/first"]
    assert log.read_text() == "called\ncalled\n"


async def test_url_required_error_of_a_mounted_server_is_forwarded(tmp_path: Path) -> None:
    mount = Mount(command(), name="up", options=evolve(WAITING, revision=OLD))
    with trio.fail_after(WAIT_TIMEOUT):
        server = Server(plugins=[mount])
        async with server.open(), connect(server, revision=OLD) as client:
            with pytest.raises(MCPError) as required:
                await client.call_tool("up_visit", {"log": str(tmp_path / "log")})

    page = {"mode": "url", "message": "Sign in first", "url": "https://example.com/first", "elicitationId": "page-1"}
    assert (required.value.code, required.value.data) == (URL_ELICITATION_REQUIRED, {"elicitations": [page]})


@pytest.mark.parametrize("upstream", [NEW, OLD])
async def test_request_that_the_client_does_not_support_fails_the_call(upstream: str) -> None:
    mount = Mount(command(), name="up", options=evolve(WAITING, revision=upstream))
    with trio.fail_after(WAIT_TIMEOUT):
        server = Server(plugins=[mount])
        async with server.open(), connect(server) as client:
            with pytest.raises(MCPError, match=r"elicitation\.form"):
                await client.call_tool("up_order")


# The call that a request belongs to


@asynccontextmanager
async def two_clients(mount: Mount, revision: str) -> AsyncIterator[tuple[Client, User, Client, User]]:
    one, other = User(), User(colour="red")
    with trio.fail_after(WAIT_TIMEOUT):
        server = Server(plugins=[mount])
        async with server.open():
            async with (
                connect(server, revision=revision, handlers=one.handlers()) as first,
                connect(server, revision=revision, handlers=other.handlers()) as second,
            ):
                yield first, one, second, other


async def begun(client: Client, nursery: trio.Nursery, mark: Path) -> None:
    nursery.start_soon(client.call_tool, "up_hang", {"mark": str(mark)})
    await eventually(mark.with_suffix(".began").exists)


@pytest.mark.parametrize("revision", [NEW, OLD])
async def test_request_in_a_result_always_reaches_the_client_of_its_call(revision: str, tmp_path: Path) -> None:
    mount = Mount(command(), name="up", options=evolve(WAITING, revision=NEW))
    async with two_clients(mount, revision) as (first, one, second, other), trio.open_nursery() as nursery:
        await begun(first, nursery, tmp_path / "a")
        assert await text(second, "up_order") == "red 3"
        assert (one.asked, len(other.asked)) == ([], 2)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("revision", [NEW, OLD])
async def test_ambiguous_request_is_refused(revision: str, tmp_path: Path) -> None:
    mount = Mount(command(), name="up", options=evolve(WAITING, revision=OLD))
    async with two_clients(mount, revision) as (first, one, second, other), trio.open_nursery() as nursery:
        await begun(first, nursery, tmp_path / "a")
        with pytest.raises(MCPError, match="is ambiguous"):
            await second.call_tool("up_order")
        assert one.asked == other.asked == []

        async with trio.open_nursery() as asking:
            # With calls of one client only, the client is known.
            asking.start_soon(text, first, "up_order")
            await eventually(lambda: len(one.asked) == 2)
        assert other.asked == []
        nursery.cancel_scope.cancel()


async def test_requests_are_unambiguous_again_after_the_other_call(tmp_path: Path) -> None:
    mount = Mount(command(), name="up", options=evolve(WAITING, revision=OLD))
    async with two_clients(mount, OLD) as (first, one, second, _):
        async with trio.open_nursery() as nursery:
            await begun(first, nursery, tmp_path / "a")
            with pytest.raises(MCPError, match="2 calls of several clients are in flight"):
                await second.call_tool("up_order")
            (tmp_path / "a").touch()
        assert (await text(second, "up_order"), one.asked) == ("red 3", [])


async def test_request_over_http_reaches_the_client_of_its_call(tmp_path: Path) -> None:
    """Over HTTP a request arrives on the response to its call."""
    with serving("--http", "--port", "0", "--plugin", str(MOUNTED_PLUGIN), cwd=tmp_path) as served:
        url = (await trio.to_thread.run_sync(served.until, r"http://[^,\s]+/mcp")).group()
        mount = Mount(url, name="up", options=evolve(WAITING, revision=OLD))
        async with two_clients(mount, OLD) as (first, one, second, _), trio.open_nursery() as nursery:
            await begun(first, nursery, tmp_path / "a")
            assert await text(second, "up_order") == "red 3"
            assert one.asked == []
            nursery.cancel_scope.cancel()


async def test_mounts_of_mounts_keep_clients_apart(tmp_path: Path) -> None:
    """The middle server has one connection for both clients, and each call names its caller."""
    inner = Server("inner", plugins=[Mount(command(), name="up", options=evolve(WAITING, revision=OLD))])
    with trio.fail_after(WAIT_TIMEOUT):
        async with inner.open():
            mount = Mount(inner, name="middle", options=evolve(WAITING, prefix=""))
            async with two_clients(mount, NEW) as (first, one, second, other), trio.open_nursery() as nursery:
                await begun(first, nursery, tmp_path / "a")
                with pytest.raises(MCPError, match="is ambiguous"):
                    await second.call_tool("up_order")
                assert one.asked == other.asked == []
                nursery.cancel_scope.cancel()
