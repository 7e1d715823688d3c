"""Requests to the client: the same code in every revision, whether the answer is a message or a retry."""

from __future__ import annotations

from enum import Enum
from typing import Any, Literal

import attrs
import pytest
import trio

from mcptrio import Context, Elicit, ListRoots, Sample, prompt, resource, tool
from mcptrio.serving import Timeouts
from tests.error_codes import INVALID_PARAMS
from tests.interaction.applies import HANDSHAKE, MODERN, SINCE_2025_06, SINCE_2025_11, only
from tests.interaction.client import Peer
from tests.interaction.serving import Serve

NO_FORMS = "elicitation came with 2025-06-18"
NO_PAGES = "pages came with 2025-11-25"

ELICITATION: dict[str, Any] = {"elicitation": {}}
EVERYTHING: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


@attrs.frozen
class Order:
    """An order."""

    dish: str
    count: int = 1
    hot: bool = False


@tool
async def name(ctx: Context) -> str:
    """Ask for a name."""
    answer = await ctx.elicit("What is your name?", str)
    return f"{answer.action} {answer.content!r}"


@tool
async def order(ctx: Context) -> str:
    """Ask for an order."""
    return repr(await ctx.ask("What would you like?", Order))


@tool
async def choose(ctx: Context) -> str:
    """Ask to choose, in three ways."""
    size = await ctx.elicit("Which size?", Size)
    colour = await ctx.elicit("Which colour?", Literal["red", "blue"])
    day = await ctx.elicit("Which day?", ["monday", "tuesday"])
    return f"{size.content} {colour.content} {day.content}"


@tool
async def numbers(ctx: Context) -> str:
    """Ask three times."""
    total = 0
    for position in range(3):
        total += await ctx.ask(f"Number {position}?", int)
    return str(total)


@tool
async def again(ctx: Context) -> str:
    """Ask the same thing twice."""
    first = await ctx.ask("Again?", int)
    second = await ctx.ask("Again?", int)
    return f"{first} {second}"


@tool
async def sample(ctx: Context) -> str:
    """Have the client's model say something."""
    answer = await ctx.sample("Say hello", max_tokens=7, system_prompt="Be brief")
    return f"{answer.model}: {answer.text}"


@tool
async def roots(ctx: Context) -> str:
    """Where to work."""
    return ", ".join([root.uri for root in await ctx.list_roots()])


@tool
async def page(ctx: Context) -> str:
    """Have the user open a page."""
    return (await ctx.elicit_url("Please sign in", "https://example.com/sign-in", id="visit-1")).action


@tool
async def several(ctx: Context) -> str:
    """Ask several things at once."""
    answer, sampled, found = await ctx.ask_all(Elicit("Name?", str), Sample("Say hello"), ListRoots())
    return f"{answer} {sampled.model} {len(found)}"


@tool
async def supported(ctx: Context) -> str:
    """Return the client's capabilities."""
    names = ("elicitation.form", "elicitation.url", "sampling", "sampling.tools", "roots", "com.example/x")
    return ",".join(name for name in names if ctx.supports(name))


@resource("asked://name")
async def asked_resource(ctx: Context) -> str:
    """A resource that asks."""
    return str(await ctx.ask("What is your name?", str))


@prompt
async def asked_prompt(ctx: Context) -> str:
    """A prompt that asks."""
    return str(await ctx.ask("What is your name?", str))


def accept(**content: Any) -> Any:
    return lambda params: {"action": "accept", "content": content}


def _said(params: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": {"type": "text", "text": "hello"}, "model": "tiny"}


ANSWERS = {
    "elicitation/create": accept(value="Ann"),
    "sampling/createMessage": _said,
    "roots/list": lambda params: {"roots": [{"uri": "file:///a"}, {"uri": "file:///b", "name": "b"}]},
}


async def _peer(serve: Serve, *functions: Any, capabilities: Any = ELICITATION, **answers: Any) -> Peer:
    peer = await serve(*functions, capabilities=capabilities, answers=dict(ANSWERS))
    for method, answer in answers.items():
        peer.answers[{"elicit": "elicitation/create", "sample": "sampling/createMessage"}[method]] = answer
    return peer


@only(revisions=SINCE_2025_06, because=NO_FORMS)
async def test_accepted_form_returns_its_content(serve: Serve) -> None:
    peer = await _peer(serve, name)

    assert await peer.text("name") == "accept 'Ann'"
    ((method, params),) = peer.asked
    assert method == "elicitation/create"
    assert params["message"] == "What is your name?"
    assert params["requestedSchema"]["properties"]["value"]["type"] == "string"


@only(revisions=["2025-06-18"], because="later revisions have multiple choice")
async def test_multi_select_field_is_refused_in_revisions_without_it(serve: Serve) -> None:
    @tool
    async def choose(ctx: Context) -> str:
        """Choose."""
        return str(await ctx.elicit("Which?", list[Literal["red", "blue"]]))

    peer = await serve(choose, capabilities={"elicitation": {}})

    assert "got a multiple choice at `requestedSchema.properties.value`" in await peer.failure("choose")


@only(revisions=SINCE_2025_06, because=NO_FORMS)
async def test_declined_or_cancelled_form_returns_no_content(serve: Serve) -> None:
    for action in ("decline", "cancel"):
        peer = await _peer(serve, name, elicit=lambda params, action=action: {"action": action})

        assert await peer.text("name") == f"{action} None"


@only(revisions=SINCE_2025_06, because=NO_FORMS)
async def test_form_returns_an_instance_of_its_class(serve: Serve) -> None:
    peer = await _peer(serve, order, elicit=accept(dish="soup", count=2))

    assert await peer.text("order") == "Order(dish='soup', count=2, hot=False)"
    schema = peer.asked[0][1]["requestedSchema"]
    assert schema["required"] == ["dish"]
    assert set(schema["properties"]) == {"dish", "count", "hot"}


@only(revisions=SINCE_2025_06, because=NO_FORMS)
async def test_declined_form_fails_a_tool_that_requires_it(serve: Serve) -> None:
    peer = await _peer(serve, order, elicit=lambda params: {"action": "decline"})

    assert "decline" in await peer.failure("order")


@only(revisions=SINCE_2025_06, because=NO_FORMS)
async def test_choice_fields_return_their_values(serve: Serve) -> None:
    answers = iter(["large", "blue", "tuesday"])
    peer = await _peer(serve, choose, elicit=lambda params: {"action": "accept", "content": {"value": next(answers)}})

    assert await peer.text("choose") == "Size.LARGE blue tuesday"


@only(revisions=SINCE_2025_06, because=NO_FORMS)
async def test_sequential_forms_get_their_own_answers(serve: Serve) -> None:
    answers = iter([1, 20, 300])
    peer = await _peer(serve, numbers, elicit=lambda params: {"action": "accept", "content": {"value": next(answers)}})

    assert await peer.text("numbers") == "321"
    assert [params["message"] for _, params in peer.asked] == ["Number 0?", "Number 1?", "Number 2?"]


@only(revisions=SINCE_2025_06, because=NO_FORMS)
async def test_repeated_form_gets_two_answers(serve: Serve) -> None:
    answers = iter([1, 2])
    peer = await _peer(serve, again, elicit=lambda params: {"action": "accept", "content": {"value": next(answers)}})

    assert await peer.text("again") == "1 2"


@only(revisions=SINCE_2025_06, because=NO_FORMS)
async def test_resources_and_prompts_can_send_forms(serve: Serve) -> None:
    peer = await _peer(serve, asked_resource, asked_prompt)

    read = await peer.request("resources/read", {"uri": "asked://name"})
    filled = await peer.request("prompts/get", {"name": "asked_prompt"})

    assert read["contents"][0]["text"] == "Ann"
    assert filled["messages"][0]["content"]["text"] == "Ann"


async def test_sampling_returns_the_answer_of_the_clients_model(serve: Serve) -> None:
    peer = await _peer(serve, sample, capabilities={"sampling": {}})

    assert await peer.text("sample") == "tiny: hello"
    ((method, params),) = peer.asked
    assert method == "sampling/createMessage"
    assert (params["maxTokens"], params["systemPrompt"]) == (7, "Be brief")
    text = {"type": "text", "text": "Say hello"}
    assert params["messages"] in ([{"role": "user", "content": text}], [{"role": "user", "content": [text]}])


@only(transports=["memory"], because="the behaviour does not depend on the transport")
@pytest.mark.parametrize("declared", [False, True])
async def test_include_context_is_sent_to_clients_that_declare_it(serve: Serve, declared: bool) -> None:
    @tool
    async def summarize(ctx: Context) -> str:
        """Ask the model, with what this server has said."""
        return (await ctx.sample("Say hello", include_context="thisServer")).model

    peer = await _peer(serve, summarize, capabilities={"sampling": {"context": {}} if declared else {}})

    assert await peer.text("summarize") == "tiny"
    ((_, params),) = peer.asked
    has_to_be_declared = peer.revision in SINCE_2025_11
    assert params.get("includeContext") == ("thisServer" if declared or not has_to_be_declared else None)


async def test_roots_of_the_client_are_returned(serve: Serve) -> None:
    peer = await _peer(serve, roots, capabilities={"roots": {}})

    assert await peer.text("roots") == "file:///a, file:///b"


@only(revisions=SINCE_2025_11, because=NO_PAGES)
async def test_url_form_opens_the_page(serve: Serve) -> None:
    peer = await _peer(serve, page, capabilities=EVERYTHING, elicit=lambda params: {"action": "accept"})

    assert await peer.text("page") == "accept"
    ((_, params),) = peer.asked
    assert (params["mode"], params["url"]) == ("url", "https://example.com/sign-in")
    assert params.get("elicitationId") == ("visit-1" if peer.handshake else None)


@only(revisions=SINCE_2025_06, because=NO_FORMS)
async def test_concurrent_requests_get_their_own_answers(serve: Serve) -> None:
    peer = await _peer(serve, several, capabilities=EVERYTHING)

    assert await peer.text("several") == "Ann tiny 2"
    assert sorted(method for method, _ in peer.asked) == ["elicitation/create", "roots/list", "sampling/createMessage"]


@only(revisions=MODERN, because="only a round trip has several questions in one message")
async def test_concurrent_requests_are_sent_in_one_round(serve: Serve) -> None:
    peer = await _peer(serve, several, capabilities=EVERYTHING)

    result = await (await peer.start_call("several")).result()

    assert result["resultType"] == "input_required"
    assert len(result["inputRequests"]) == 3


async def test_handler_sees_client_capabilities(serve: Serve) -> None:
    peer = await _peer(serve, supported, capabilities=EVERYTHING)

    found = (await peer.text("supported")).split(",")

    assert ("elicitation.form" in found) == (serve.revision in SINCE_2025_06)
    assert ("elicitation.url" in found) == (serve.revision in SINCE_2025_11)
    assert {"sampling", "roots"} <= set(found)
    assert "sampling.tools" not in found
    assert "com.example/x" not in found


async def test_requests_the_client_has_not_declared_are_not_sent(serve: Serve) -> None:
    peer = await _peer(serve, name, sample, roots, page, capabilities={})

    for tool_name in ("name", "sample", "roots", "page"):
        error = await (await peer.start_call(tool_name)).error()

        assert "capability" in error["message"]
        assert error["data"]["requiredCapabilities"]
    assert peer.asked == []


@only(revisions=SINCE_2025_11, because=NO_PAGES)
async def test_client_with_url_forms_only_gets_no_other_form(serve: Serve) -> None:
    peer = await _peer(
        serve, name, page, capabilities={"elicitation": {"url": {}}}, elicit=lambda p: {"action": "accept"}
    )

    await (await peer.start_call("name")).error()
    assert await peer.text("page") == "accept"


@only(revisions=SINCE_2025_06, because=NO_FORMS)
async def test_answer_that_does_not_match_the_form_is_a_protocol_error(serve: Serve) -> None:
    for answer in (
        {"action": "accept", "content": {"dish": 3}},
        {"action": "accept", "content": {}},
        {"action": "accept"},
        {"action": "perhaps"},
        {"action": "accept", "content": {"dish": "soup", "count": "two"}},
        {"action": "accept", "content": [1]},
        {},
    ):
        peer = await _peer(serve, order, elicit=lambda params, answer=answer: answer)
        call = await peer.start_call("order")
        if not peer.handshake:
            call = await peer.retry("tools/call", {"name": "order", "arguments": {}}, await call.result())
        message = await call.wait()

        assert message.get("error", {}).get("code") == INVALID_PARAMS, (answer, message)


@only(revisions=HANDSHAKE, because="a retry cannot carry an error")
async def test_error_of_the_client_fails_the_tool(serve: Serve) -> None:
    peer = await serve(sample, capabilities={"sampling": {}})
    peer.answers["sampling/createMessage"] = lambda params: {"error": {"code": -1, "message": "User rejected sampling"}}

    error = await (await peer.start_call("sample")).error()

    assert error == {"code": -1, "message": "User rejected sampling"}


@only(revisions=HANDSHAKE, because="in 2026-07-28 the server does not wait for the answer")
async def test_client_that_does_not_answer_times_out_and_is_notified(serve: Serve) -> None:
    peer = await serve(sample, capabilities={"sampling": {}}, timeouts=Timeouts(input=0.05))

    text = await peer.failure("sample")

    assert "timed out" in text
    (question,) = (m for m in peer.received if m.get("method") == "sampling/createMessage")
    assert [note["requestId"] for note in peer.notes("notifications/cancelled")] == [question["id"]]


@only(revisions=HANDSHAKE, because="in 2026-07-28 the server does not wait for the answer")
async def test_requests_are_cancelled_with_their_call(serve: Serve) -> None:
    peer = await serve(sample, capabilities={"sampling": {}})
    call = await peer.start_call("sample")
    question = await peer.until("sampling/createMessage")

    await call.cancel()
    taken_back = await peer.until("notifications/cancelled")

    assert taken_back["params"]["requestId"] == question["id"]
    assert call.answer is None


@only(revisions=HANDSHAKE, because="in 2026-07-28 an answer is a request")
async def test_answer_to_a_cancelled_request_is_ignored(serve: Serve) -> None:
    peer = await serve(sample, capabilities={"sampling": {}})
    call = await peer.start_call("sample")
    question = await peer.until("sampling/createMessage")
    await call.cancel()
    await peer.until("notifications/cancelled")

    await peer.respond(question["id"], _said({}))

    assert (await peer.request("tools/list"))["tools"]


@only(revisions=HANDSHAKE[1:], transports=["http"], because="only a session over HTTP outlives its streams")
async def test_request_stays_open_after_its_stream_has_closed(serve: Serve) -> None:
    messages: list[str] = []

    @tool
    async def remember(ctx: Context) -> str:
        """Note what the client's model said."""
        messages.append((await ctx.sample("Say hello")).model)
        return ""

    peer = await serve(remember, capabilities={"sampling": {}})
    call = await peer.start_call("remember")
    question = await peer.until("sampling/createMessage")

    await call.disconnect()
    await peer.respond(question["id"], _said({}))

    await peer.eventually(lambda: messages == ["tiny"])


@only(revisions=SINCE_2025_06, because=NO_FORMS)
async def test_child_tasks_can_send_requests_concurrently(serve: Serve) -> None:
    @tool
    async def crowd(ctx: Context) -> str:
        """Ask from several tasks."""
        heard: dict[str, str] = {}

        async def child(who: str) -> None:
            heard[who] = await ctx.ask(f"{who}?", str)
            heard[who] += await ctx.ask(f"{who} again?", str)

        async with trio.open_nursery() as nursery:
            for who in ("a", "b", "c"):
                nursery.start_soon(child, who)
        return ",".join([heard[who] for who in sorted(heard)])

    peer = await _peer(
        serve, crowd, elicit=lambda params: {"action": "accept", "content": {"value": params["message"]}}
    )

    assert await peer.text("crowd") == "a?a again?,b?b again?,c?c again?"


@tool(timeout=10)
async def sample_between_pauses(ctx: Context) -> str:
    """Have the client's model say something, with a pause before and after."""
    await trio.sleep(4)
    answer = await ctx.sample("Say hello")
    await trio.sleep(4)
    return answer.text


MOCK_CLOCK = "only in memory is there a mock clock, which skips the waits"


async def _answer_after(seconds: float, peer: Peer, tool: str) -> str:
    """Call the tool, answer its question after these seconds, and return its text."""
    call = await peer.start_call(tool)
    if not peer.handshake:
        result = await call.result()
        await trio.sleep(seconds)
        peer.answers = dict(ANSWERS)
        call = await peer.retry("tools/call", {"name": tool, "arguments": {}}, result)
    else:
        question = await peer.until("sampling/createMessage")
        await trio.sleep(seconds)
        await peer.respond(question["id"], _said({}))
    text: str = (await call.result())["content"][0]["text"]
    return text


@only(transports=["memory"], because=MOCK_CLOCK)
async def test_waiting_for_an_answer_pauses_the_idle_timeout(serve: Serve) -> None:
    peer = await serve(sample, capabilities={"sampling": {}}, timeouts=Timeouts(idle=10, input=100))

    assert await _answer_after(50, peer, "sample") == "tiny: hello"


@only(transports=["memory"], because=MOCK_CLOCK)
async def test_waiting_for_an_answer_pauses_the_request_timeout(serve: Serve) -> None:
    peer = await serve(sample, capabilities={"sampling": {}}, timeouts=Timeouts(request=10, input=100))

    assert await _answer_after(50, peer, "sample") == "tiny: hello"


@only(transports=["memory"], because=MOCK_CLOCK)
async def test_waiting_for_an_answer_pauses_the_timeout_of_the_tool(serve: Serve) -> None:
    peer = await serve(sample_between_pauses, capabilities={"sampling": {}})

    assert await _answer_after(50, peer, "sample_between_pauses") == "hello"


@only(revisions=HANDSHAKE, transports=["memory"], because="without a handshake, the time starts again with each round")
async def test_timeout_of_the_tool_continues_after_the_answer(serve: Serve) -> None:
    @tool(timeout=7)
    async def sample_slowly(ctx: Context) -> str:
        """Take too long after the answer."""
        await trio.sleep(4)
        await ctx.sample("Say hello")
        await trio.sleep(4)
        return ""

    peer = await serve(sample_slowly, capabilities={"sampling": {}})
    start = trio.current_time()
    call = await peer.start_call("sample_slowly")
    question = await peer.until("sampling/createMessage")
    await trio.sleep(50)
    await peer.respond(question["id"], _said({}))

    assert "timed out" in (await call.error())["message"]
    assert trio.current_time() == start + 57
