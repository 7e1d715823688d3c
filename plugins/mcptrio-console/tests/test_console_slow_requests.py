"""The console alone says which request is slow, of whom, and why."""

from __future__ import annotations

import html
import re
import sqlite3
import threading
import types
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import trio
from attrs import define, field

from mcptrio import Context, MCPTrioError, connect, tool
from mcptrio.client import Handlers
from mcptrio.serve.watched_stores import watched_stores
from mcptrio.stores import open_stores
from mcptrio.types import Implementation

from .conftest import Site, opened


@define(eq=False)
class Orchard:
    """Tools that wait, each for something else."""

    ripe: threading.Event = field(factory=threading.Event)

    @tool
    def press(self) -> str:
        """Press apples."""
        self.ripe.wait(60)
        return "juice"

    @tool(concurrency=1)
    async def pick(self, tree: str) -> str:
        """Pick apples."""
        await trio.sleep_forever()
        return tree

    @tool
    async def sell(self, ctx: Context) -> str:
        """Sell apples."""
        return await ctx.ask("To whom?", str, key="buyer")

    @tool(task="required")
    async def dry(self, ctx: Context) -> str:
        """Dry apples."""
        await trio.sleep_forever()
        return "chips"


async def answer(_form: object) -> None:
    await trio.sleep_forever()


async def use(site: Site, client: str, name: str, prefer: Any = None, **arguments: object) -> None:
    handlers, info = Handlers(elicit=answer), Implementation(name=client, version="1")
    with suppress(MCPTrioError):
        async with connect(site.server, info=info, handlers=handlers, prefer=prefer) as user:
            await user.call_tool(name, arguments)


def plain(text: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split())


async def until(site: Site, page: str, pattern: str) -> None:
    """Read a page until one of its rows or blocks has a text."""
    with trio.fail_after(20):
        while True:
            parts = re.split(r'<div class="session"|<section|<tr', (await site.get(page)).text)
            if any(re.search(pattern, plain(part)) for part in parts):
                return
            await trio.sleep(0.05)


async def test_pages_show_what_each_request_waits_for(tmp_path: Path) -> None:
    orchard, module, path = Orchard(), types.ModuleType("orchard"), tmp_path / "shared.db"
    vars(module).update(press=orchard.press, pick=orchard.pick, sell=orchard.sell, dry=orchard.dry)
    async with (
        open_stores(f"sqlite:{path}") as stores,
        opened(plugins=[module], stores=watched_stores(stores, traced=False)) as site,
        trio.open_nursery() as nursery,
    ):
        await site.enter()
        nursery.start_soon(partial(use, site, "Ada", "press"))
        nursery.start_soon(partial(use, site, "Bo", "pick", tree="a"))
        nursery.start_soon(partial(use, site, "Di", "sell"))
        nursery.start_soon(partial(use, site, "Eve", "sell", prefer="handshake"))
        nursery.start_soon(partial(use, site, "Gil", "dry"))
        await until(site, "tree", "Ada .*press tools/call .* runs in a thread of orchard")
        await until(site, "tree", "Bo .*pick tools/call .* runs in orchard")
        await until(site, "tree", "Eve .*sell tools/call .* waits for its client to answer")
        await until(site, "tree", "Waiting between two requests .* sell of Di, for")
        await until(site, "tasks", "dry orchard Gil .* runs in orchard")

        nursery.start_soon(partial(use, site, "Cy", "pick", tree="b"))
        await until(site, "tree", "Cy .*pick tools/call .* waits until pick has a free place")

        lock = sqlite3.connect(path, isolation_level=None)
        lock.execute("BEGIN EXCLUSIVE")
        nursery.start_soon(partial(use, site, "Flo", "dry"))
        await until(site, "tree", "Flo .*dry tools/call .* waits for the shared store to answer")
        lock.close()
        orchard.ripe.set()
        nursery.cancel_scope.cancel()


def test_user_of_a_request_is_named_beside_its_client() -> None:
    from mcptrio_console.text import user_of

    from mcptrio.serving import ParkedStatus

    parked = ParkedStatus(label="sell", client="Ada's desktop", principal="ada", age=1.0)

    assert user_of(parked) == "Ada's desktop, user ada"
    assert user_of(ParkedStatus(label="sell", client=None, principal=None, age=1.0)) == "a client without a name"
