"""Multi-round-trip requests: untrusted state, and handlers that are parked, replayed and evicted."""

from __future__ import annotations

import time
from typing import Any

import pytest
import trio

from mcptrio import Context, tool
from mcptrio.abc import Principal
from mcptrio.serving import ServerLimits, Timeouts
from tests.error_codes import INVALID_PARAMS, URL_ELICITATION_REQUIRED
from tests.interaction.applies import HANDSHAKE, MODERN, SINCE_2025_11, only, without
from tests.interaction.client import Peer
from tests.interaction.serving import Serve

ROUNDS = "only 2026-07-28 asks by round trips"
FORMS: dict[str, Any] = {"elicitation": {}}
KEY = b"sixteen bytes or more"


class Asking:
    """A plugin that counts how often its handlers run."""

    def __init__(self) -> None:
        self.runs = 0
        self.effects: list[str] = []
        self.ended: list[str] = []

    @tool
    async def ask(self, ctx: Context, question: str = "Name?") -> str:
        """Ask twice."""
        self.runs += 1
        try:
            first = await ctx.ask(question, str, key="first")
            second = await ctx.ask("And then?", str, key="second")
        except trio.Cancelled:
            self.ended.append("cancelled")
            raise
        return f"{first} {second}"

    @tool
    async def charge(self, ctx: Context) -> str:
        """Do something that must not be done twice, then ask."""
        number = await ctx.once(self._charge, "card")
        answer = await ctx.ask("Sure?", str, key="sure")
        other = await ctx.once(self._charge, "other")
        return f"{number} {answer} {other}"

    async def _charge(self, what: str) -> int:
        self.effects.append(what)
        return len(self.effects)

    @tool
    async def unkeyed(self, ctx: Context) -> str:
        """Ask without a key."""
        return str(await ctx.ask("Name?", str))

    @tool
    async def shielded(self, ctx: Context) -> str:
        """Ask where no cancellation gets through."""
        with trio.CancelScope(shield=True):
            answer = await ctx.elicit("Name?", str)
        return str(answer.content)

    @tool
    async def visit(self, ctx: Context) -> str:
        """Work once a page has been visited."""
        if not self.runs:
            self.runs += 1
            raise ctx.url_required("Sign in first", "https://example.com/in", id="visit-1")
        return "signed in"


def accept(value: str) -> dict[str, Any]:
    return {"action": "accept", "content": {"value": value}}


async def _go_on(peer: Peer, name: str, state: Any, arguments: Any = None, **answers: Any) -> Any:
    """The next round: the answers under their keys."""
    params: dict[str, Any] = {"name": name, "arguments": arguments or {}}
    if state is not None:
        params["requestState"] = state
    if answers:
        params["inputResponses"] = answers
    return await peer.start("tools/call", params)


async def _asked(peer: Peer, name: str) -> dict[str, Any]:
    result = await (await peer.start_call(name)).result()
    assert result["resultType"] == "input_required", result
    return result


@only(revisions=MODERN, because=ROUNDS)
async def test_form_is_returned_and_the_retry_continues(serve: Serve) -> None:
    asking = Asking()
    peer = await serve(plugins=[asking], capabilities=FORMS)

    first = await _asked(peer, "ask")
    second = await (await _go_on(peer, "ask", first["requestState"], first=accept("a"))).result()
    last = await (await _go_on(peer, "ask", second["requestState"], second=accept("b"))).result()

    assert list(first["inputRequests"]) == ["first"]
    assert first["inputRequests"]["first"]["method"] == "elicitation/create"
    assert "ttlMs" not in first
    assert list(second["inputRequests"]) == ["second"]
    assert last["content"][0]["text"] == "a b"
    assert asking.runs == 1


@only(revisions=MODERN, because=ROUNDS)
async def test_handler_is_replayed_if_it_cannot_be_parked(serve: Serve) -> None:
    asking = Asking()
    peer = await serve(plugins=[asking], capabilities=FORMS, limits=ServerLimits(parked=0))

    first = await _asked(peer, "ask")
    second = await (await _go_on(peer, "ask", first["requestState"], first=accept("a"))).result()
    last = await (await _go_on(peer, "ask", second["requestState"], second=accept("b"))).result()

    assert last["content"][0]["text"] == "a b"
    assert asking.runs == 3


@only(revisions=MODERN, because=ROUNDS)
async def test_effect_runs_once_in_a_replayed_handler(serve: Serve) -> None:
    for parked in (10, 0):
        asking = Asking()
        peer = await serve(plugins=[asking], capabilities=FORMS, limits=ServerLimits(parked=parked))

        first = await _asked(peer, "charge")
        last = await (await _go_on(peer, "charge", first["requestState"], sure=accept("yes"))).result()

        assert last["content"][0]["text"] == "1 yes 2"
        assert asking.effects == ["card", "other"]


@only(revisions=HANDSHAKE[2:], because="earlier revisions have no forms, and later ones have round trips")
async def test_effect_runs_once_in_a_parked_handler(serve: Serve) -> None:
    asking = Asking()
    answers = {"elicitation/create": lambda params: accept("yes")}
    peer = await serve(plugins=[asking], capabilities=FORMS, answers=answers)

    assert await peer.text("charge") == "1 yes 2"


@only(revisions=MODERN, because=ROUNDS)
async def test_replica_with_the_same_keys_continues_the_request(serve: Serve) -> None:
    first_replica, second_replica = Asking(), Asking()
    peer = await serve(plugins=[first_replica], capabilities=FORMS, keys=[KEY])
    first = await _asked(peer, "ask")

    other = await serve(plugins=[second_replica], capabilities=FORMS, keys=[b"another key, newer", KEY])
    second = await (await _go_on(other, "ask", first["requestState"], first=accept("a"))).result()

    assert list(second["inputRequests"]) == ["second"]
    assert second_replica.runs == 1


@only(revisions=MODERN, because=ROUNDS)
async def test_state_of_other_keys_or_another_audience_is_refused(serve: Serve) -> None:
    peer = await serve(plugins=[Asking()], capabilities=FORMS, keys=[KEY])
    first = await _asked(peer, "ask")

    for options in ({"keys": [b"an entirely different key"]}, {"keys": [KEY], "audience": "elsewhere"}, {}):
        other = await serve(plugins=[Asking()], capabilities=FORMS, **options)
        error = await (await _go_on(other, "ask", first["requestState"], first=accept("a"))).error()

        assert error["code"] == INVALID_PARAMS


@only(revisions=MODERN, because=ROUNDS)
async def test_every_invalid_state_is_refused_with_the_same_message(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    peer = await serve(plugins=[Asking()], capabilities=FORMS, keys=[KEY])
    state = (await _asked(peer, "ask"))["requestState"]

    bad_states = (
        "",
        "x",
        "A" * 200,
        state[:-2],
        state[:40] + ("A" if state[40] != "A" else "B") + state[41:],
        "AAAA" + state[4:],
        state + "AAAA",
        "ä" + state,
    )
    errors = [await (await _go_on(peer, "ask", bad, first=accept("a"))).error() for bad in bad_states]
    other_arguments = {"question": "Another?"}
    errors.append(await (await _go_on(peer, "ask", state, other_arguments, first=accept("a"))).error())
    errors.append(await (await _go_on(peer, "charge", state, first=accept("a"))).error())

    assert {error["code"] for error in errors} == {INVALID_PARAMS}
    assert len({error["message"] for error in errors}) == 1
    assert "another request" in caplog.text


@only(revisions=MODERN, because=ROUNDS)
async def test_state_of_another_type_or_length_is_refused(serve: Serve) -> None:
    peer = await serve(plugins=[Asking()], capabilities=FORMS, limits=ServerLimits(state_bytes=1000))

    states: list[Any] = [3, {}, [], "A" * 1001]
    for bad in states:
        assert (await (await _go_on(peer, "ask", bad)).error())["code"] == INVALID_PARAMS


@only(revisions=MODERN, transports=["memory", "stdio"], because="over HTTP, headers identify the principal")
@without(transports=["sse", "websocket", "stream"], because="the test cannot choose the principal of a connection")
async def test_state_of_another_principal_is_refused(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    await serve.start(plugins=[Asking()])
    ann = await serve.connect(capabilities=FORMS, principal=Principal(subject="ann"))
    bob = await serve.connect(capabilities=FORMS, principal=Principal(subject="bob"))
    state = (await _asked(ann, "ask"))["requestState"]

    error = await (await _go_on(bob, "ask", state, first=accept("b"))).error()

    assert error["code"] == INVALID_PARAMS
    assert "principal" in caplog.text
    assert (await (await _go_on(ann, "ask", state, first=accept("a"))).result())["inputRequests"]


@only(revisions=MODERN, transports=["memory"], because="the behaviour does not depend on the transport")
async def test_expired_state_is_refused(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    peer = await serve(plugins=[Asking()], capabilities=FORMS)
    state = (await _asked(peer, "ask"))["requestState"]
    now = time.time()

    monkeypatch.setattr(time, "time", lambda: now + 25 * 3600)
    error = await (await _go_on(peer, "ask", state, first=accept("a"))).error()

    assert error["code"] == INVALID_PARAMS
    assert "expired" in caplog.text


@only(revisions=MODERN, because=ROUNDS)
async def test_answer_under_another_key_is_ignored_and_the_request_repeated(serve: Serve) -> None:
    asking = Asking()
    peer = await serve(plugins=[asking], capabilities=FORMS)
    first = await _asked(peer, "ask")

    again = await (await _go_on(peer, "ask", first["requestState"], second=accept("b"), x=accept("c"))).result()
    nothing = await (await _go_on(peer, "ask", again["requestState"])).result()

    assert list(again["inputRequests"]) == list(nothing["inputRequests"]) == ["first"]
    assert asking.runs == 1


@only(revisions=MODERN, because=ROUNDS)
async def test_invalid_answer_leaves_the_handler_waiting(serve: Serve) -> None:
    asking = Asking()
    peer = await serve(plugins=[asking], capabilities=FORMS)
    first = await _asked(peer, "ask")

    answers: list[Any] = [{"action": "accept", "content": {"value": 3}}, {"action": "maybe"}, 3, None, []]
    for bad in answers:
        error = await (await _go_on(peer, "ask", first["requestState"], first=bad)).error()
        assert error["code"] == INVALID_PARAMS

    second = await (await _go_on(peer, "ask", first["requestState"], first=accept("a"))).result()
    assert list(second["inputRequests"]) == ["second"]
    assert asking.runs == 1


@only(revisions=MODERN, because=ROUNDS)
async def test_state_used_twice_gives_the_same_result(serve: Serve) -> None:
    asking = Asking()
    peer = await serve(plugins=[asking], capabilities=FORMS)
    state = (await _asked(peer, "ask"))["requestState"]

    for value in ("a", "b"):
        second = await (await _go_on(peer, "ask", state, first=accept(value))).result()
        last = await (await _go_on(peer, "ask", second["requestState"], second=accept("z"))).result()
        assert last["content"][0]["text"] == f"{value} z"


@only(revisions=MODERN, because=ROUNDS)
async def test_answers_in_the_first_request_are_accepted(serve: Serve) -> None:
    peer = await serve(plugins=[Asking()], capabilities=FORMS)

    result = await (await _go_on(peer, "ask", None, first=accept("a"), second=accept("b"))).result()

    assert result["content"][0]["text"] == "a b"


@only(revisions=MODERN, because=ROUNDS)
async def test_default_key_of_a_request_depends_on_its_content(serve: Serve) -> None:
    peer = await serve(plugins=[Asking()], capabilities=FORMS)

    first, second = await _asked(peer, "unkeyed"), await _asked(peer, "unkeyed")

    assert list(first["inputRequests"]) == list(second["inputRequests"])
    assert first["requestState"] != second["requestState"]
    (key,) = first["inputRequests"]
    last = await (await _go_on(peer, "unkeyed", first["requestState"], **{key: accept("Ann")})).result()
    assert last["content"][0]["text"] == "Ann"


@only(revisions=MODERN, because=ROUNDS)
async def test_oldest_parked_handler_is_evicted_and_replayed(serve: Serve) -> None:
    asking = Asking()
    peer = await serve(plugins=[asking], capabilities=FORMS, limits=ServerLimits(parked=2))

    rounds = [await _asked(peer, "ask") for _ in range(3)]
    await peer.eventually(lambda: asking.ended == ["cancelled"])
    assert len(serve.server.status.parked) == 2

    second = await (await _go_on(peer, "ask", rounds[0]["requestState"], first=accept("a"))).result()
    assert list(second["inputRequests"]) == ["second"]
    assert asking.runs == 4


@only(
    revisions=MODERN,
    transports=["memory"],
    because="only in memory is there a mock clock, which skips the waits",
)
async def test_parked_handler_expires(serve: Serve) -> None:
    asking = Asking()
    peer = await serve(plugins=[asking], capabilities=FORMS, timeouts=Timeouts(input=60))
    first = await _asked(peer, "ask")

    await trio.sleep(59)
    assert asking.ended == []
    await trio.sleep(2)

    assert asking.ended == ["cancelled"]
    assert serve.server.status.parked == ()
    second = await (await _go_on(peer, "ask", first["requestState"], first=accept("a"))).result()
    assert list(second["inputRequests"]) == ["second"]


@only(revisions=MODERN, transports=["memory", "stdio"], because="an HTTP client has no channel to close")
async def test_parked_handler_ends_with_its_channel_and_is_replayed_on_another(serve: Serve) -> None:
    asking = Asking()
    peer = await serve(plugins=[asking], capabilities=FORMS)
    first = await _asked(peer, "ask")
    await peer.leave()
    await peer.eventually(lambda: not serve.server.status.sessions)
    await peer.eventually(lambda: asking.ended == ["cancelled"])
    assert serve.server.status.parked == ()

    other = await serve.connect(capabilities=FORMS)
    second = await (await _go_on(other, "ask", first["requestState"], first=accept("a"))).result()

    assert list(second["inputRequests"]) == ["second"]
    assert asking.runs == 2


@only(revisions=MODERN, because=ROUNDS)
async def test_shutdown_ends_parked_handlers(serve: Serve) -> None:
    asking = Asking()
    peer = await serve(plugins=[asking], capabilities=FORMS)
    await _asked(peer, "ask")

    serve.shutdown.set()
    with peer.deadline():
        await serve.closed.wait()

    assert asking.ended == ["cancelled"]


@only(revisions=MODERN, because=ROUNDS)
async def test_request_inside_a_shielded_scope_fails(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    peer = await serve(plugins=[Asking()], capabilities=FORMS)

    assert "shielded" in await peer.failure("shielded")
    assert "outside shielded cancel scopes" in caplog.text


@only(revisions=SINCE_2025_11, because="before 2025-11-25 there are no pages")
async def test_required_url_is_returned_before_the_work(serve: Serve) -> None:
    peer = await serve(plugins=[Asking()], capabilities={"elicitation": {"url": {}}})

    message = await (await peer.start_call("visit")).wait()

    if peer.handshake:
        assert message["error"]["code"] == URL_ELICITATION_REQUIRED
        (elicitation,) = message["error"]["data"]["elicitations"]
        assert elicitation["elicitationId"] == "visit-1"
    else:
        (question,) = message["result"]["inputRequests"].values()
        elicitation = question["params"]
    assert (elicitation["mode"], elicitation["url"]) == ("url", "https://example.com/in")


@only(revisions=MODERN, because="only 2026-07-28 has it as a round trip")
async def test_handler_runs_again_after_the_page_was_visited(serve: Serve) -> None:
    peer = await serve(plugins=[Asking()], capabilities={"elicitation": {"url": {}}})
    result = await _asked(peer, "visit")

    (key,) = result["inputRequests"]
    last = await (await _go_on(peer, "visit", result["requestState"], **{key: {"action": "accept"}})).result()

    assert last["content"][0]["text"] == "signed in"


@only(revisions=HANDSHAKE[:3], because="later revisions have an error for it")
async def test_required_url_is_in_the_error_text_in_revisions_without_url_forms(serve: Serve) -> None:
    peer = await serve(plugins=[Asking()])

    assert "https://example.com/in" in await peer.failure("visit")
