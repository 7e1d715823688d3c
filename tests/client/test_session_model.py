"""A client keeps its session in any order of losses, restarts, late responses, cancellations and uses.

Hypothesis generates the order of events. At the end the server is reachable again. Then each call has ended, none was
executed twice, every subscription is active, and no change was missed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import trio
import trio.testing
from attrs import define, field
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mcptrio import Client
from mcptrio.client import ClientTimeouts, Handlers
from mcptrio.client.options import ClientOptions
from mcptrio.errors import MCPTrioError
from mcptrio.types import Implementation, TextResourceContents
from tests.client.modelled_site import NEW, OLD, URIS, Site

__all__: list[str] = []

Event: TypeAlias = tuple[tuple[str, Any], float]
"""An action with a detail, and the seconds until the next one."""

LONG = 1000.0
"""Seconds after which everything that was started has ended."""
TIMEOUTS = ClientTimeouts(connect=20, probe=5, idle=10, request=60, ping=5)

# Exact in binary, so that sums are exact too: the mock clock cannot jump by less than a rounding error.
PAUSES = st.sampled_from([0.0, 0.125, 0.125, 0.5, 4.0, 40.0])
FAULTS = st.one_of(
    st.tuples(st.just("forget"), st.booleans()),
    st.tuples(st.sampled_from(["cut", "end streams", "stop", "replace"]), st.none()),
    st.tuples(st.just("latency"), st.sampled_from([0.0, 0.25, 3.0, 15.0, 60.0])),
)
USES = st.one_of(
    st.tuples(st.just("call"), st.sampled_from([None, None, 0.0, 0.125, 2.0])),
    st.tuples(st.sampled_from(["read", "list"]), st.sampled_from([None, None, 0.0, 0.125])),
    st.tuples(st.just("subscribe"), st.sampled_from([None, None, 0.0, 0.125, 30.0])),
    st.tuples(st.just("unsubscribe"), st.integers(0, 3)),
)
OTHERS = st.one_of(
    st.tuples(st.just("change"), st.sampled_from(["tools", *URIS])), st.tuples(st.just("start"), st.none())
)
EVENTS = st.lists(st.tuples(st.one_of(USES, USES, FAULTS, OTHERS), PAUSES), min_size=3, max_size=20)


@define(eq=False)
class Subscription:
    """One subscriber, with the versions that it has read."""

    uris: tuple[str, ...]
    tools: bool
    seen: Counter[str] = field(factory=Counter)
    """The version of each list and resource when its last change was reported."""
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    is_active: bool = False
    failure: MCPTrioError | None = None

    @property
    def wanted(self) -> list[str]:
        return [*(["tools"] if self.tools else []), *self.uris]


@define(eq=False)
class Model:
    site: Site
    client: Client
    nursery: trio.Nursery
    """Of the tasks that use the client."""
    subscriptions: list[Subscription] = field(factory=list)
    begun: int = 0
    ended: int = 0

    def start(self, action: str, detail: Any) -> None:
        if action == "call":
            self.begun += 1
            self.nursery.start_soon(self.use, detail, self.call, f"call {self.begun}")
        elif action == "read":
            self.begun += 1
            self.nursery.start_soon(self.use, detail, self.client.read_resource, URIS[0])
        elif action == "list":
            self.begun += 1
            self.nursery.start_soon(self.use, detail, self.client.tools().all)
        elif action == "subscribe":
            number = len(self.subscriptions)
            subscription = Subscription(URIS[: number % 3], number % 3 != 2)
            if detail is not None:
                subscription.scope.deadline = trio.current_time() + detail
            self.subscriptions.append(subscription)
            self.nursery.start_soon(self.subscribe, subscription)
        elif action == "unsubscribe" and self.subscriptions:
            self.subscriptions[detail % len(self.subscriptions)].scope.cancel()

    async def call(self, key: str) -> None:
        await self.client.call_tool("work", {"key": key})

    async def use(self, limit: float | None, work: Callable[..., Awaitable[Any]], *args: Any) -> None:
        with trio.move_on_after(LONG if limit is None else limit) as scope:
            try:
                await work(*args)
            except MCPTrioError:
                pass
        assert limit is not None or not scope.cancelled_caught, "neither a result nor an error"
        self.ended += 1

    async def subscribe(self, subscription: Subscription) -> None:
        with subscription.scope:
            try:
                async with self.client.subscribe(subscription.uris, tools=subscription.tools) as changes:
                    subscription.seen.update({each: self.site.versions[each] for each in subscription.wanted})
                    subscription.is_active = True
                    async for change in changes:
                        what = change.uri if change.kind == "resource" else change.kind
                        assert what is not None
                        subscription.seen[what] = self.site.versions[what]
            except MCPTrioError as error:
                subscription.failure = error
            finally:
                subscription.is_active = False

    async def check(self) -> None:
        """Check the state after a time without faults."""
        assert self.begun == self.ended
        assert max(self.site.executed.values(), default=0) <= 1
        assert self.site.most_handshakes <= 1
        assert self.site.most_links <= 1
        for subscription in self.subscriptions:
            # A subscription that failed to start has ended; one that started stays.
            assert subscription.is_active or subscription.failure is None or not subscription.seen
        active = [each for each in self.subscriptions if each.is_active]
        for subscription in active:
            assert subscription.seen == {each: self.site.versions[each] for each in subscription.wanted}
        [peer] = self.site.peers
        if self.site.revision == OLD:
            assert peer.uris == {uri for each in active for uri in each.uris}
        else:
            reported = [
                (bool(each.get("toolsListChanged")), *each["resourceSubscriptions"]) for each in peer.streams.values()
            ]
            assert sorted(reported) == sorted((each.tools, *each.uris) for each in active)
        # Cached results are current if a subscription reports their changes.
        if any(each.tools for each in active):
            [tool] = await self.client.tools().all()
            assert tool.title == f"v{self.site.versions['tools']}"
        for uri in {uri for each in active for uri in each.uris}:
            [contents] = (await self.client.read_resource(uri)).contents
            assert isinstance(contents, TextResourceContents)
            assert contents.text == str(self.site.versions[uri])
        await self.client.call_tool("work", {"key": "last"})
        assert self.client.revision == self.site.revision
        for what in ("tools", *URIS):
            await self.site.change(what)
        await trio.sleep(1)
        for subscription in active:
            assert subscription.seen == {each: self.site.versions[each] for each in subscription.wanted}


async def act(model: Model, action: str, detail: Any) -> None:
    site = model.site
    if action == "change":
        await site.change(detail)
    elif action == "forget":
        site.forget(notices=detail)
    elif action == "cut":
        site.cut()
    elif action == "end streams":
        site.end_streams()
    elif action == "stop":
        site.is_reachable = False
        site.forget(notices=False)
        site.cut()
    elif action == "start":
        site.is_reachable = True
    elif action == "replace":
        site.revision = NEW if site.revision == OLD else OLD
        site.forget(notices=True)
        site.cut()
    elif action == "latency":
        site.latency = detail
    else:
        model.start(action, detail)


async def play(events: list[Event], *, is_pipe: bool, revision: str, closes: bool) -> None:
    site = Site(is_pipe=is_pipe, revision=revision)
    options = ClientOptions(
        name="modelled",
        info=Implementation(name="test", version="1"),
        handlers=Handlers(),
        timeouts=TIMEOUTS,
        restart=True,
        ping_interval=30,
        cache_entries=16,
    )
    client = Client([site.opener], options)
    async with trio.open_nursery() as users:
        async with trio.open_nursery() as nursery:
            assert await nursery.start(client.run) is None
            model = Model(site, client, users)
            for (action, detail), pause in events:
                await act(model, action, detail)
                await trio.sleep(pause)
            if not closes:
                site.is_reachable, site.latency = True, 0.0
                await trio.sleep(LONG)
                await model.check()
            nursery.cancel_scope.cancel()
        await trio.sleep(1)
        for subscription in model.subscriptions:
            assert not subscription.is_active
        assert model.begun == model.ended
        assert not users.child_tasks
    assert not site.links
    assert site.handshakes == 0


@settings(max_examples=100)
@given(
    events=EVENTS,
    is_pipe=st.booleans(),
    revision=st.sampled_from([OLD, NEW]),
    latency=st.sampled_from([0.0, 0.25]),
    subscribers=st.integers(0, 3),
    closes=st.sampled_from([False, False, False, True]),
)
@example(
    # A change while there is no session.
    events=[(("stop", None), 1.0), (("change", "tools"), 0.0), (("start", None), 0.0)],
    is_pipe=True,
    revision=OLD,
    latency=0.0,
    subscribers=1,
    closes=False,
)
@example(
    # A call whose connection breaks after the server has executed it.
    events=[(("call", None), 0.125), (("cut", None), 1.0)],
    is_pipe=False,
    revision=OLD,
    latency=0.25,
    subscribers=0,
    closes=False,
)
@example(
    # A change between two streams of a subscription to a list that the client has cached.
    events=[(("list", None), 1.0), (("end streams", None), 0.0), (("change", "tools"), 0.0)],
    is_pipe=False,
    revision=NEW,
    latency=0.0,
    subscribers=1,
    closes=False,
)
@example(
    # Pings after a server of a revision without them was replaced by one of a revision with them.
    events=[(("replace", None), 1.0), (("call", None), 1.0), (("forget", False), 0.0), (("change", "tools"), 0.0)],
    is_pipe=False,
    revision=NEW,
    latency=0.0,
    subscribers=1,
    closes=False,
)
@example(
    # A subscription that the server accepts, but answers too late.
    events=[(("latency", 15.0), 0.0), (("subscribe", None), 0.125)],
    is_pipe=False,
    revision=OLD,
    latency=0.0,
    subscribers=1,
    closes=False,
)
@example(
    # A client that closes while a subscription waits before its next attempt.
    events=[(("latency", 15.0), 4.0), (("forget", True), 40.0)],
    is_pipe=False,
    revision=OLD,
    latency=0.0,
    subscribers=2,
    closes=True,
)
def test_client_restores_calls_and_subscriptions_after_any_events(
    events: list[Event], is_pipe: bool, revision: str, latency: float, subscribers: int, closes: bool
) -> None:
    before: list[Event] = [(("subscribe", None), 1.0)] * subscribers + [(("latency", latency), 0.0)]

    async def run() -> None:
        with trio.fail_after(100 * LONG):
            await play(before + events, is_pipe=is_pipe, revision=revision, closes=closes)

    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))
