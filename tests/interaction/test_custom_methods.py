"""Methods, notifications and extensions outside the specification."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import define, field

from mcptrio import Context, PluginSetup, Server, hookimpl, method, notification, tool
from tests.error_codes import INTERNAL_ERROR, METHOD_NOT_FOUND
from tests.interaction.applies import HANDSHAKE, MODERN, only, without
from tests.interaction.serving import Serve


@define
class Acme:
    """A plugin with its own methods."""

    heard: list[Any] = field(factory=list)

    @hookimpl
    def setup(self, server: PluginSetup) -> None:
        server.add_extension("com.example/acme", {"level": 2})

    @method("acme/add")
    async def add(self, params: dict[str, Any]) -> dict[str, Any]:
        """Add."""
        return {"sum": params["a"] + params["b"]}

    @method("acme/who")
    async def who(self, ctx: Context) -> dict[str, Any]:
        """Return the caller, and report progress."""
        await ctx.report_progress(1)
        await ctx.notify("notifications/acme/seen", {"id": ctx.request_id})
        return {"name": ctx.client_info.name if ctx.client_info else None}

    @method("acme/nothing")
    async def nothing(self) -> None:
        """Nothing."""

    @method("acme/fails")
    async def fails(self, params: dict[str, Any]) -> dict[str, Any]:
        """Fail."""
        raise ValueError("hunter2")

    @method("acme/gated", capability="com.example/acme")
    async def gated(self) -> dict[str, Any]:
        """Behind an extension that is there."""
        return {"ok": True}

    @method("acme/hidden", capability="com.example/other")
    async def hidden(self) -> dict[str, Any]:
        """Behind an extension that is not."""
        return {"ok": True}

    @notification("notifications/acme/poke")
    async def poke(self, params: dict[str, Any]) -> None:
        """Be poked."""
        self.heard.append(params.get("where"))

    @notification("notifications/roots/list_changed")
    async def roots_changed(self) -> None:
        """Hear of the specification's own."""
        self.heard.append("roots")

    @tool
    async def ask(self, ctx: Context) -> str:
        """Ask with a custom method."""
        return str((await ctx.request("acme/question", {"a": 1}))["answer"])


async def test_custom_method_is_served(serve: Serve) -> None:
    peer = await serve(plugins=[Acme()])

    assert (await peer.request("acme/add", {"a": 1, "b": 2}))["sum"] == 3
    assert await peer.request("acme/nothing") is not None


async def test_custom_method_receives_a_context(serve: Serve) -> None:
    peer = await serve(plugins=[Acme()])

    result = await peer.request("acme/who", meta={"progressToken": 1}, id="me")

    assert result["name"] == "raw"
    assert [note["progress"] for note in peer.notes("notifications/progress")] == [1]
    assert peer.notes("notifications/acme/seen") == [{"id": "me"}]


async def test_error_of_a_custom_method_hides_the_exception_text(serve: Serve) -> None:
    peer = await serve(plugins=[Acme()])

    error = await peer.error("acme/fails")

    assert error["code"] == INTERNAL_ERROR
    assert "hunter2" not in str(error)


async def test_method_of_an_extension_exists_only_with_the_extension(serve: Serve) -> None:
    peer = await serve(plugins=[Acme()])

    assert (await peer.request("acme/gated"))["ok"] is True
    assert (await peer.error("acme/hidden"))["code"] == METHOD_NOT_FOUND


async def test_custom_notification_is_handled(serve: Serve) -> None:
    acme = Acme()
    peer = await serve(plugins=[acme])

    await peer.notify("notifications/acme/poke", {"where": "side"})

    if peer.handshake or not peer.http:
        await peer.eventually(lambda: acme.heard == ["side"])


@only(revisions=HANDSHAKE, because="2026-07-28 has removed the notification")
async def test_specified_notification_can_be_handled_by_a_plugin(serve: Serve) -> None:
    acme = Acme()
    peer = await serve(plugins=[acme], capabilities={"roots": {"listChanged": True}})

    await peer.notify("notifications/roots/list_changed")

    await peer.eventually(lambda: acme.heard == ["roots"])


@only(revisions=MODERN, because="the schemas before 2026-07-28 have no extensions")
async def test_extension_is_advertised(serve: Serve) -> None:
    peer = await serve(plugins=[Acme()])

    assert (await peer.request("server/discover"))["capabilities"]["extensions"] == {"com.example/acme": {"level": 2}}


@only(revisions=HANDSHAKE, because="2026-07-28 has no requests from a server")
async def test_custom_request_is_answered_by_the_client(serve: Serve) -> None:
    peer = await serve(plugins=[Acme()], answers={"acme/question": lambda params: {"answer": params["a"] + 41}})

    assert await peer.text("ask") == "42"


@only(revisions=MODERN, because="handshake revisions have requests from a server")
async def test_custom_request_is_not_sent_without_a_back_channel(serve: Serve) -> None:
    peer = await serve(plugins=[Acme()])

    message = await (await peer.start_call("ask")).wait()

    assert message.get("error", {}).get("code") == METHOD_NOT_FOUND or message["result"]["isError"]
    assert not [m for m in peer.received if m.get("method") == "acme/question"]


@without(revisions=MODERN, because="2026-07-28 has no unsolicited messages")
async def test_custom_notification_is_sent_to_all_clients(serve: Serve) -> None:
    peers = [await serve(plugins=[Acme()]), await serve.connect()]
    for peer in peers:
        await peer.open_stream()

    await serve.server.broadcast("notifications/acme/news", {"a": 1})

    for peer in peers:
        assert (await peer.until("notifications/acme/news"))["params"] == {"a": 1}


def test_custom_method_with_a_specified_name_is_refused() -> None:
    async def handler(params: dict[str, Any]) -> dict[str, Any]:
        return {}

    server = Server()
    with pytest.raises(ValueError, match="specification"):
        server.add_method(handler, "tools/call")
    with pytest.raises(ValueError, match=r"com\.example"):
        server.add_extension("noprefix")
    server.add_method(handler, "acme/x")
    with pytest.raises(ValueError, match="already offered"):
        server.add_method(handler, "acme/x")
