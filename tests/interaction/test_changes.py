"""Changes are notified in the form of every revision."""

from __future__ import annotations

from mcptrio import Context, prompt, resource, tool
from mcptrio.serving import ServerLimits
from tests.error_codes import INVALID_PARAMS
from tests.interaction.applies import HANDSHAKE, MODERN, only, real_time, without
from tests.interaction.serving import Serve

UPDATED = "notifications/resources/updated"


@tool
async def echo(text: str) -> str:
    """Echo."""
    return text


@resource("memo://{name}")
async def memo(name: str) -> str:
    """A memo."""
    return name


@prompt
async def greet(name: str) -> str:
    """Greet."""
    return name


@tool
async def grow(ctx: Context) -> str:
    """Add a tool while the server runs."""
    ctx.server.add_tool(_another, name="grown")
    return "grown"


@tool
def grow_in_thread(ctx: Context, called: str) -> str:
    """Add a tool from a thread."""
    ctx.server.add_tool(_another, name=called)
    return called


@tool
async def touch(ctx: Context, uri: str) -> str:
    """Change a resource."""
    ctx.notify_resource_updated(uri)
    return "touched"


async def _another() -> str:
    """Another one."""
    return "another"


async def test_added_or_removed_tool_is_notified(serve: Serve) -> None:
    peer = await serve(echo)
    await peer.watch("tools")

    serve.server.add_tool(_another, name="another")
    await peer.until("notifications/tools/list_changed")
    assert await peer.text("another") == "another"

    assert serve.server.remove_tool("another")
    await peer.until("notifications/tools/list_changed")
    assert [tool["name"] for tool in (await peer.request("tools/list"))["tools"]] == ["echo"]
    assert not serve.server.remove_tool("another")


async def test_added_or_removed_prompts_and_resources_are_notified(serve: Serve) -> None:
    peer = await serve(echo, memo, greet)
    await peer.watch("prompts", "resources")

    serve.server.add_prompt(_another, name="another")
    await peer.until("notifications/prompts/list_changed")
    serve.server.remove_prompt("another")
    await peer.until("notifications/prompts/list_changed")
    serve.server.add_resource(_another, "another://one")
    await peer.until("notifications/resources/list_changed")
    serve.server.remove_resource("another://one")
    await peer.until("notifications/resources/list_changed")


@real_time(because="the autojump clock does not see threads")
@only(transports=["memory", "http"], because="the behaviour does not depend on how messages are framed")
async def test_sync_tool_can_add_a_tool(serve: Serve) -> None:
    peer = await serve(grow_in_thread)
    await peer.watch("tools")
    assert await peer.text("grow_in_thread", {"called": "grown"}) == "grown"
    assert peer.notes("notifications/tools/list_changed") or await peer.until("notifications/tools/list_changed")


async def test_async_tool_can_add_a_tool(serve: Serve) -> None:
    peer = await serve(grow)
    await peer.watch("tools")

    assert await peer.text("grow") == "grown"

    assert peer.notes("notifications/tools/list_changed") or await peer.until("notifications/tools/list_changed")
    assert await peer.text("grown") == "another"


async def test_every_client_is_notified(serve: Serve) -> None:
    peers = [await serve(echo), await serve.connect()]
    for peer in peers:
        await peer.watch("tools")

    serve.server.add_tool(_another, name="another")

    for peer in peers:
        await peer.until("notifications/tools/list_changed")


async def test_subscriber_is_notified_of_its_own_resources_only(serve: Serve) -> None:
    peer = await serve(memo, touch)
    await peer.watch(uris=["memo://a"])

    await peer.text("touch", {"uri": "memo://b"})
    await peer.text("touch", {"uri": "memo://a"})
    await peer.until(UPDATED) if not peer.notes(UPDATED) else None

    assert [note["uri"] for note in peer.notes(UPDATED)] == ["memo://a"]


@without(revisions=MODERN, because="in 2026-07-28 a subscription ends with its stream")
async def test_unsubscribed_client_is_not_notified(serve: Serve) -> None:
    peer = await serve(memo, echo)
    await peer.watch(uris=["memo://a", "memo://b"])

    assert await peer.request("resources/unsubscribe", {"uri": "memo://a"}) == {}
    assert await peer.request("resources/unsubscribe", {"uri": "memo://never"}) == {}
    serve.server.notify_resource_updated("memo://a")
    serve.server.notify_resource_updated("memo://b")
    note = await peer.until(UPDATED)

    assert note["params"]["uri"] == "memo://b"


@only(revisions=HANDSHAKE, because="2026-07-28 has a limit for each stream")
async def test_more_subscriptions_than_the_limit_are_refused(serve: Serve) -> None:
    peer = await serve(memo, limits=ServerLimits(subscriptions=2))
    for name in ("a", "b", "b"):
        await peer.request("resources/subscribe", {"uri": f"memo://{name}"})

    assert (await peer.error("resources/subscribe", {"uri": "memo://c"}))["code"] == INVALID_PARAMS


@only(revisions=HANDSHAKE, transports=["memory", "stdio"], because="over HTTP there is no stream before that")
async def test_no_notification_before_initialized(serve: Serve) -> None:
    await serve.start(echo)
    peer = await serve.connect(begin=False)
    await peer.initialize()

    serve.server.add_tool(_another, name="another")
    await peer.request("ping")
    await peer.notify("notifications/initialized")
    await peer.request("ping")

    assert peer.notes("notifications/tools/list_changed") == []


@only(revisions=HANDSHAKE[1:], transports=["http"], because="only sessions over HTTP may have several streams")
async def test_each_message_goes_to_one_stream_only(serve: Serve) -> None:
    peer = await serve(echo)
    await peer.open_stream()
    second = await peer.get()
    assert second.status in (200, 405, 409)

    serve.server.add_tool(_another, name="another")
    await peer.until("notifications/tools/list_changed")
    await peer.text("echo", {"text": "a"})

    assert len(peer.notes("notifications/tools/list_changed")) == 1


@only(revisions=HANDSHAKE[1:], transports=["http"], because="only there the stream is opened later than the change")
async def test_list_after_a_notification_contains_the_change(serve: Serve) -> None:
    peer = await serve(echo)

    serve.server.add_tool(_another, name="another")

    assert [tool["name"] for tool in (await peer.request("tools/list"))["tools"]] == ["echo", "another"]
