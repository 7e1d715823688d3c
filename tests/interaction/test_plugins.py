"""Plugins that fail are quarantined, and the others are served."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from mcptrio import Context, PluginSetup, Server, hookimpl, tool
from mcptrio.errors import PluginError
from mcptrio.serving import PluginManager, ServerSettings
from tests.error_codes import INVALID_PARAMS
from tests.interaction.applies import REVISIONS, only
from tests.interaction.serving import Serve


@tool
async def good() -> str:
    """A tool of a good plugin."""
    return "good"


class BadRegistration:
    """A plugin whose hook fails half way."""

    @tool
    async def early(self) -> str:
        """Registered before the failure."""
        return ""

    @hookimpl
    def setup(self, server: PluginSetup) -> None:
        server.add_tool(_free, name="half")
        raise RuntimeError("half way")


class BadSignature:
    """A plugin with a tool that cannot be called."""

    @tool
    async def odd(self, *args: int) -> str:
        """Take anything."""
        return ""


class BadLifespan:
    """A plugin whose lifespan fails at entry."""

    @tool
    async def lively(self) -> str:
        """Offered until the lifespan fails."""
        return ""

    @hookimpl
    def lifespan(self, server: Server) -> AbstractAsyncContextManager[None]:
        return self._live()

    @asynccontextmanager
    async def _live(self) -> AsyncIterator[None]:
        raise OSError("no database")
        yield


class Clash:
    """A plugin with a tool name that is taken."""

    @tool
    async def good(self) -> str:
        """Not the first of its name."""
        return "impostor"

    @tool
    async def other(self) -> str:
        """Not taken."""
        return ""


class Background:
    """A plugin whose background task fails several times, then works."""

    def __init__(self) -> None:
        self.starts: list[float] = []

    @hookimpl
    def setup(self, server: PluginSetup) -> None:
        server.add_background(self._work)

    async def _work(self) -> None:
        self.starts.append(trio.current_time())
        if len(self.starts) < 4:
            raise RuntimeError("not yet")
        await trio.sleep_forever()


async def _free() -> str:
    """A free function."""
    return ""


async def _tools(peer: Any) -> list[str]:
    return [listed["name"] for listed in (await peer.request("tools/list"))["tools"]]


def _states(server: Server) -> dict[str, str]:
    return {plugin.name: plugin.state for plugin in server.status.plugins}


async def test_plugin_whose_registration_fails_offers_nothing(serve: Serve) -> None:
    for bad in (BadRegistration(), BadSignature()):
        peer = await serve(good, plugins=[bad])

        assert await _tools(peer) == ["good"]
        assert await peer.text("good") == "good"
        assert _states(serve.server)[type(bad).__name__] == "quarantined"
        assert serve.server.status.ready is False


async def test_plugin_whose_lifespan_fails_offers_nothing(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    peer = await serve(good, plugins=[BadLifespan()])

    assert await _tools(peer) == ["good"]
    (failure,) = (p.failure for p in serve.server.status.plugins if p.name == "BadLifespan")
    assert "no database" in failure
    assert "no database" in caplog.text


async def test_error_about_a_taken_name_names_both_plugins(serve: Serve) -> None:
    class Good:
        """The first."""

        good = staticmethod(good)

    peer = await serve(plugins=[Good(), Clash()])

    assert await peer.text("good") == "good"
    assert await _tools(peer) == ["good"]
    (failure,) = (p.failure for p in serve.server.status.plugins if p.name == "Clash")
    assert "`good`" in failure
    assert "Good" in failure


@only(revisions=REVISIONS[-1:], transports=["memory"], because="imports do not depend on the transport")
async def test_file_that_cannot_be_imported_is_quarantined(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import nobody_has_this\n")
    (tmp_path / "exits.py").write_text("raise SystemExit(3)\n")
    (tmp_path / "works.py").write_text(
        'from mcptrio import tool\n@tool\nasync def hello() -> str:\n    """Hello."""\n    return "hello"\n'
    )
    manager = PluginManager()
    for name in ("broken", "exits", "works"):
        manager.load_file(tmp_path / f"{name}.py")

    peer = await serve(plugins=manager)

    assert await peer.text("hello") == "hello"
    assert _states(serve.server) == {"broken": "quarantined", "exits": "quarantined", "works": "running"}


def test_strict_server_fails_on_every_plugin_error(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import nobody_has_this\n")

    with pytest.raises(PluginError, match="nobody_has_this"):
        PluginManager(strict=True).load_file(tmp_path / "broken.py")
    for bad in (BadRegistration(), BadSignature()):
        with pytest.raises(PluginError, match=type(bad).__name__):
            Server(plugins=[bad], settings=ServerSettings(strict=True))


async def test_strict_server_fails_on_a_failing_lifespan() -> None:
    server = Server(plugins=[BadLifespan()], settings=ServerSettings(strict=True))

    with pytest.raises(PluginError, match="no database"):
        async with server.open():
            pass


async def test_quarantine_at_run_time_is_notified(serve: Serve) -> None:
    peer = await serve(good, plugins=[BadBehaviour()])
    await peer.watch("tools")
    assert await _tools(peer) == ["good", "brittle"]

    plugin = serve.server.plugins.plugins["BadBehaviour"]
    serve.server.running_plugins.quarantine(plugin, "found to lie")
    await peer.until("notifications/tools/list_changed")

    assert await _tools(peer) == ["good"]
    assert (await (await peer.start_call("brittle")).error())["code"] == INVALID_PARAMS


class BadBehaviour:
    """A plugin that will be quarantined."""

    @tool
    async def brittle(self) -> str:
        """Not for long."""
        return ""


@only(transports=["memory"], because="only in memory is there a mock clock, which skips the waits")
async def test_failing_background_task_is_restarted_with_backoff(serve: Serve) -> None:
    plugin = Background()
    peer = await serve(good, plugins=[plugin])

    await trio.sleep(30)

    first = plugin.starts[0]
    assert [start - first for start in plugin.starts] == pytest.approx([0, 1, 3, 7], abs=0.01)
    assert await peer.text("good") == "good"
    assert _states(serve.server)["Background"] == "running"


async def test_lifespan_value_is_the_state_of_the_handlers(serve: Serve) -> None:
    class Stateful:
        """A plugin with a state."""

        @hookimpl
        def lifespan(self, server: Server) -> AbstractAsyncContextManager[dict[str, int]]:
            return self._live()

        @asynccontextmanager
        async def _live(self) -> AsyncIterator[dict[str, int]]:
            yield {"answer": 42}

        @tool
        async def state(self, ctx: Context) -> str:
            """Tell the state."""
            return str(ctx.state)

    @tool
    async def foreign(ctx: Context) -> str:
        """Tell the state of another plugin, which has none."""
        return str(ctx.state)

    peer = await serve(foreign, plugins=[Stateful()])

    assert await peer.text("state") == "{'answer': 42}"
    assert await peer.text("foreign") == "None"


async def test_misspelt_hook_is_an_error(serve: Serve) -> None:
    class Misspelt:
        """A plugin with a hook that would never be called."""

        @hookimpl
        def set_up(self, server: PluginSetup) -> None: ...

    await serve(good, plugins=[Misspelt()])

    (failure,) = (p.failure for p in serve.server.status.plugins if p.name == "Misspelt")
    assert "did you mean `setup`?" in failure


async def test_plugin_can_offer_objects_made_from_its_settings(serve: Serve) -> None:
    class Notes:
        """An object with tools."""

        def __init__(self, path: str) -> None:
            self.path = path

        @tool
        async def where(self) -> str:
            """Where the notes are."""
            return self.path

    class Maker:
        """A plugin that creates the object."""

        @hookimpl
        def setup(self, server: PluginSetup, config: Any) -> None:
            server.add(Notes(config["path"]))

    peer = await serve(plugins=[Maker()], config={"Maker": {"path": "/notes"}})

    assert await peer.text("where") == "/notes"
