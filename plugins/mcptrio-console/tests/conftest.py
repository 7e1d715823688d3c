"""A server with its console on a loopback socket, and a browser without scripts that keeps cookies."""

from __future__ import annotations

import logging
import re
import types
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Literal

import httpx2
import trio
from attrs import define, field
from mcptrio_console import make_console

from mcptrio import Context, PluginSetup, Server, hookimpl, tool
from mcptrio.abc import Principal, RequestHead, Stores
from mcptrio.errors import AuthorizationError
from mcptrio.serving import ConsoleOptions, serve_asgi
from mcptrio.types import ImageContent, TextContent

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAoAAAAKCAYAAACNMs+9AAAAFUlEQVR42mNk+M9Qz0AEYBxVSF+FABJADveWkH6oAAAAAElFTkSuQmCC"
"""A red picture of ten pixels."""


@define(eq=False)
class Garden:
    """A plugin whose calls the test holds."""

    begun: trio.Event = field(factory=trio.Event)
    go: trio.Event = field(factory=trio.Event)

    @tool
    async def water(self, ctx: Context, bed: str) -> str:
        """Water a bed."""
        await ctx.report_progress(30, 100)
        self.begun.set()
        await self.go.wait()
        return bed

    @tool
    async def draw(
        self, size: Literal["small", "large"], note: str = "", colours: list[str] | None = None, beds: int = 1
    ) -> list[ImageContent | TextContent]:
        """Draw the garden.

        Args:
            size: The size of the picture.
            note: A text below it.
        """
        logging.getLogger("garden").warning("drawing %s", note)
        return [ImageContent(data=PIXEL, mime_type="image/png"), TextContent(text=f"{size} {note} {colours} {beds}")]

    @tool(task="required")
    async def grow(self, plant: str) -> str:
        """Grow a plant."""
        await self.go.wait()
        return plant

    @tool
    async def break_it(self) -> None:
        """Break."""
        raise ValueError("the hose is broken")


class Tokens:
    """A guard that knows two tokens."""

    documents: Mapping[str, bytes] = {}
    is_revoked = False

    async def admit(self, request: RequestHead) -> Principal | None:
        await trio.lowlevel.checkpoint()
        [value] = request.headers["authorization"]
        scopes = {"Bearer good": {"console"}, "Bearer weak": {"notes"}}.get(value)
        if scopes is None:
            raise AuthorizationError("unknown", status=401)
        return Principal(subject="ada", scopes=frozenset(scopes))

    def recheck_after(self, _principal: Principal) -> float:
        return 60.0

    async def recheck(self, request: RequestHead, principal: Principal) -> Principal:
        if self.is_revoked:
            raise AuthorizationError("revoked", status=401)
        return principal


@define(eq=False)
class Site:
    """The console: its address, its links, and a client that follows no redirects."""

    url: str
    server: Server
    links: list[str]
    garden: Garden
    http: httpx2.AsyncClient

    @property
    def console(self) -> str:
        return f"{self.url}/console/"

    @property
    def link(self) -> str:
        """The newest link."""
        return f"{self.url}{self.links[-1]}"

    async def enter(self) -> None:
        done = await self.http.get(self.link)
        assert (done.status_code, done.headers["location"]) == (303, "/console/")

    async def get(self, path: str = "", **options: Any) -> httpx2.Response:
        return await self.http.get(f"{self.console}{path}", **options)

    async def form_token(self) -> str:
        match = re.search(r'name="form_token" value="([^"]+)"', (await self.get()).text)
        assert match is not None
        return match[1]

    async def act(self, action: str, *, headers: dict[str, str] | None = None, **fields: str) -> httpx2.Response:
        """Send a form as the page would."""
        data = {"form_token": await self.form_token(), **fields}
        own = {"Origin": self.url, "Sec-Fetch-Site": "same-origin"}
        return await self.http.post(f"{self.console}actions/{action}", data=data, headers={**own, **(headers or {})})

    async def note(self, action: str, **fields: str) -> str:
        """Send a form; return what the next page says about it."""
        done = await self.act(action, **fields)
        assert done.status_code == 303, done.text
        page = await self.http.get(f"{self.url}{done.headers['location']}")
        match = re.search(r'<p class="note" role="status">(.*?)</p>', page.text)
        assert match is not None, page.text
        return match[1]


@asynccontextmanager
async def opened(
    garden: Garden | None = None,
    *,
    plugins: Sequence[object] = (),
    name: str = "shop",
    config: dict[str, Any] | None = None,
    stores: Stores | None = None,
    **options: Any,
) -> AsyncIterator[Site]:
    garden = garden or Garden()
    links: list[str] = []
    server = Server(name, plugins=[_module(garden), *plugins], config=config)
    if stores is not None:
        server.use_stores(stores)
    console = make_console(server, ConsoleOptions(announce=links.append, **options))
    async with server.open(), trio.open_nursery() as nursery:
        [url] = await nursery.start(partial(serve_asgi, console, bind="127.0.0.1:0"))
        async with console.open(), httpx2.AsyncClient(timeout=30) as http:
            yield Site(url, server, links, garden, http)
        nursery.cancel_scope.cancel()


def _module(garden: Garden) -> types.ModuleType:
    module = types.ModuleType("garden")
    vars(module).update(water=garden.water, break_it=garden.break_it, draw=garden.draw, grow=garden.grow)
    return module


def failing_plugin(name: str, error: str) -> types.ModuleType:
    """A plugin whose setup fails."""
    module = types.ModuleType(name)

    @hookimpl
    def setup(server: PluginSetup) -> None:
        raise RuntimeError(error)

    vars(module)["setup"] = setup
    return module
