"""Questions inside a result, answered by asking again; the client's caller sees none of it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from mcptrio import Client, Context, InvalidParams, MCPError, Server, connect, prompt, tool
from mcptrio.client import ClientTimeouts, Form, Handlers
from mcptrio.errors import InputFailed, MethodNotFound, RemoteProtocolError
from mcptrio.protocol.messages import Request
from mcptrio.types import CallToolResult, CreateMessageResult, TextContent
from tests.client.scripted import FORM, Script, play, text
from tests.interaction.applies import MODERN, REVISIONS, SINCE_2025_06

__all__: list[str] = []

NEW = MODERN[-1]
ELICIT = {"method": "elicitation/create", "params": FORM}
SAMPLE = {
    "method": "sampling/createMessage",
    "params": {"messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}], "maxTokens": 10},
}
ROOTS = {"method": "roots/list"}
ADA = {"action": "accept", "content": {"name": "Ada"}}


def said(result: CallToolResult) -> str:
    [block] = result.content
    assert isinstance(block, TextContent)
    return block.text


async def fill_in(form: Form) -> Any:
    return {"name": "Ada"}


async def complete(params: Any) -> str:
    return "Hello"


EVERYTHING = Handlers(elicit=fill_in, sample=complete, roots=["file:///work"])


async def require(script: Script, request: Request, state: str | None = None, **questions: Any) -> None:
    """Answer with questions."""
    result: dict[str, Any] = {"resultType": "input_required"}
    if questions:
        result["inputRequests"] = questions
    if state is not None:
        result["requestState"] = state
    await script.answer(request, result)


def brought(request: Request) -> tuple[Any, Any]:
    """The answers and the state of a retry."""
    assert request.params is not None
    return request.params.get("inputResponses"), request.params.get("requestState")


# --- with a server of ours


class Asking:
    """A plugin that asks in the middle of what it does."""

    @tool
    async def greet(self, ctx: Context, greeting: str) -> str:
        """Greet the user."""
        first = await ctx.ask("First name?", str, key="first")
        last = await ctx.ask("Last name?", str, key="last")
        return f"{greeting}, {first} {last}"

    @tool
    async def finish(self, ctx: Context, words: str) -> str:
        """Have a model continue the text."""
        message = await ctx.sample(words, max_tokens=10)
        [block] = message.content
        assert isinstance(block, TextContent)
        return block.text

    @tool
    async def where(self, ctx: Context) -> str:
        """Name the folders."""
        return " ".join(root.uri for root in await ctx.list_roots())

    @prompt
    async def letter(self, ctx: Context) -> str:
        """Begin a letter."""
        return "Dear " + str(await ctx.ask("To whom?", str, key="whom"))


@pytest.mark.parametrize("revision", SINCE_2025_06)
async def test_tool_asks_the_user_in_every_revision_that_can(revision: str) -> None:
    asked: list[str] = []

    async def elicit(form: Form) -> dict[str, Any]:
        asked.append(form.message)
        return {"value": {"First name?": "Ada", "Last name?": "Lovelace"}[form.message]}

    async with connect(Server(plugins=[Asking()]), revision=revision, handlers=Handlers(elicit=elicit)) as client:
        assert said(await client.call_tool("greet", {"greeting": "Hello"})) == "Hello, Ada Lovelace"
        assert asked == ["First name?", "Last name?"]


@pytest.mark.parametrize("revision", REVISIONS)
async def test_tool_asks_model_and_client_in_every_revision(revision: str) -> None:
    async with connect(Server(plugins=[Asking()]), revision=revision, handlers=EVERYTHING) as client:
        assert said(await client.call_tool("finish", {"words": "Say hello"})) == "Hello"
        assert said(await client.call_tool("where")) == "file:///work"


async def test_prompt_asks_as_well() -> None:
    async def elicit(form: Form) -> dict[str, Any]:
        return {"value": "Charles"}

    async with connect(Server(plugins=[Asking()]), revision=NEW, handlers=Handlers(elicit=elicit)) as client:
        [message] = (await client.get_prompt("letter")).messages
        assert message.content == TextContent(text="Dear Charles")


@pytest.mark.parametrize("revision", SINCE_2025_06)
async def test_many_calls_ask_at_once_and_each_gets_its_own_answer(revision: str) -> None:
    async def elicit(form: Form) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        return {"value": form.message.removesuffix(" name?")}

    greeted: list[str] = []
    async with connect(Server(plugins=[Asking()]), revision=revision, handlers=Handlers(elicit=elicit)) as client:

        async def greet(number: int) -> None:
            greeted.append(said(await client.call_tool("greet", {"greeting": str(number)})))

        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(greet, number)

    assert sorted(greeted) == sorted(f"{number}, First Last" for number in range(20))


# --- what is sent back


@pytest.mark.parametrize("state", ["", "s", '{"a": 1.0,  "b":"ä"}', "\u2028 \t☃\U0001f600", "x" * 100_000])
async def test_state_goes_back_as_it_came(state: str) -> None:
    async with play(NEW, handlers=EVERYTHING) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            first = await script.asked("tools/call")
            assert brought(first) == (None, None)
            await require(script, first, state, name=ELICIT)
            second = await script.asked("tools/call")
            assert brought(second) == ({"name": ADA}, state)
            assert first.params is not None
            assert second.params is not None
            assert second.params["arguments"] == first.params["arguments"] == {"a": [1, {"b": None}]}
            assert second.id != first.id
            assert second.params["_meta"]["progressToken"] != first.params["_meta"]["progressToken"]
            await script.answer(second, text("done"))

        nursery.start_soon(serve)
        assert said(await client.call_tool("work", {"a": [1, {"b": None}]})) == "done"


async def test_no_state_goes_back_where_none_came_nor_one_of_an_earlier_round() -> None:
    async with play(NEW, handlers=EVERYTHING) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            await require(script, await script.asked("tools/call"), "state", name=ELICIT)
            request = await script.asked("tools/call")
            await require(script, request, None, other=ROOTS)
            request = await script.asked("tools/call")
            assert request.params is not None
            assert "requestState" not in request.params
            assert request.params["inputResponses"] == {"other": {"roots": [{"uri": "file:///work"}]}}
            await script.answer(request, text("done"))

        nursery.start_soon(serve)
        assert said(await client.call_tool("work")) == "done"


async def test_nothing_of_a_round_goes_to_another_request() -> None:
    asked, go_on = trio.Event(), trio.Event()

    async def elicit(form: Form) -> dict[str, Any]:
        asked.set()
        await go_on.wait()
        return {"name": "Ada"}

    async with play(NEW, handlers=Handlers(elicit=elicit)) as (client, script), trio.open_nursery() as nursery:
        nursery.start_soon(client.call_tool, "work")
        await require(script, await script.asked("tools/call"), "state", name=ELICIT)
        await asked.wait()
        nursery.start_soon(client.call_tool, "work")
        other = await script.asked("tools/call")
        assert brought(other) == (None, None)
        await script.answer(other, text("other"))
        go_on.set()
        retry = await script.asked("tools/call")
        assert brought(retry) == ({"name": ADA}, "state")
        await script.answer(retry, text("done"))


@pytest.mark.parametrize(
    ("method", "ask"),
    [
        ("prompts/get", lambda client: client.get_prompt("letter", {"to": "Ada"})),
        ("resources/read", lambda client: client.read_resource("note:///1")),
    ],
)
async def test_prompts_and_resources_ask_too(method: str, ask: Any) -> None:
    async with play(NEW, handlers=EVERYTHING) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            first = await script.asked(method)
            await require(script, first, "state", name=ELICIT)
            second = await script.asked(method)
            assert brought(second) == ({"name": ADA}, "state")
            assert first.params is not None
            assert second.params is not None
            repeated = {name for name, value in first.params.items() if second.params[name] == value}
            assert first.params.keys() - repeated == {"_meta"}
            await script.answer(second, {"messages": [], "contents": []})

        nursery.start_soon(serve)
        await ask(client)


async def test_questions_of_one_round_are_asked_at_the_same_time() -> None:
    here = 0

    async def meet() -> None:
        nonlocal here
        here += 1
        await wait_all_tasks_blocked()
        assert here == 3

    async def elicit(form: Form) -> dict[str, Any]:
        await meet()
        return {"name": "Ada"}

    async def sample(params: Any) -> str:
        await meet()
        return "Hello"

    async def roots() -> list[str]:
        await meet()
        return ["file:///work"]

    handlers = Handlers(elicit=elicit, sample=sample, roots=roots)
    async with play(NEW, handlers=handlers) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            await require(script, await script.asked("tools/call"), None, name=ELICIT, words=SAMPLE, where=ROOTS)
            retry = await script.asked("tools/call")
            assert brought(retry)[0] == {
                "name": ADA,
                "words": {"role": "assistant", "content": {"type": "text", "text": "Hello"}, "model": "unknown"},
                "where": {"roots": [{"uri": "file:///work"}]},
            }
            await script.answer(retry, text("done"))

        nursery.start_soon(serve)
        await client.call_tool("work")


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_refusal_of_the_user_is_an_answer(action: str) -> None:
    async def elicit(form: Form) -> Any:
        return form.decline() if action == "decline" else form.cancel()

    async with play(NEW, handlers=Handlers(elicit=elicit)) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            await require(script, await script.asked("tools/call"), None, name=ELICIT)
            retry = await script.asked("tools/call")
            assert brought(retry)[0] == {"name": {"action": action}}
            await script.answer(retry, text("as you wish"))

        nursery.start_soon(serve)
        assert said(await client.call_tool("work")) == "as you wish"


# --- time


async def test_server_that_only_needs_time_is_asked_again_ever_later(autojump_clock: object) -> None:
    async with play(NEW) as (client, script), trio.open_nursery() as nursery:
        times: list[float] = []

        async def serve() -> None:
            for number in range(5):
                request = await script.asked("tools/call")
                assert brought(request) == (None, str(number - 1) if number else None)
                times.append(trio.current_time())
                await require(script, request, str(number))
            await script.answer(await script.asked("tools/call"), text("done"))

        nursery.start_soon(serve)
        assert said(await client.call_tool("work")) == "done"
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert pauses == sorted(pauses)
    assert pauses[0] >= 0.05
    assert pauses[-1] >= 4 * pauses[0]


async def test_each_round_has_its_own_time_and_the_user_has_theirs(autojump_clock: object) -> None:
    async def elicit(form: Form) -> dict[str, Any]:
        await trio.sleep(500)
        return {"name": "Ada"}

    handlers, timeouts = Handlers(elicit=elicit), ClientTimeouts(idle=30)
    async with play(NEW, handlers=handlers, timeouts=timeouts) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            for _ in range(3):
                request = await script.asked("tools/call")
                await trio.sleep(29)
                await require(script, request, None, name=ELICIT)
            await script.answer(await script.asked("tools/call"), text("done"))

        nursery.start_soon(serve)
        assert said(await client.call_tool("work")) == "done"


async def test_cancelled_while_the_user_is_asked_nothing_is_sent() -> None:
    asked = trio.Event()
    ended: list[str] = []

    async def elicit(form: Form) -> None:
        asked.set()
        try:
            await trio.sleep_forever()
        finally:
            ended.append("elicit")

    async with play(NEW, handlers=Handlers(elicit=elicit)) as (client, script):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "work")
            await require(script, await script.asked("tools/call"), "state", name=ELICIT)
            await asked.wait()
            nursery.cancel_scope.cancel()
        assert ended == ["elicit"]
        await script.silent()


# --- what cannot be answered


async def fails_after(client: Client, script: Script, error: type[Exception], match: str, **questions: Any) -> None:
    """The call fails, and is not made again."""
    async with trio.open_nursery() as nursery:

        async def serve() -> None:
            await require(script, await script.asked("tools/call"), "state", **questions)

        nursery.start_soon(serve)
        with pytest.raises(error, match=match):
            await client.call_tool("work")
    await script.silent()


async def test_handler_that_fails_fails_the_call(caplog: pytest.LogCaptureFixture) -> None:
    async def elicit(form: Form) -> None:
        raise KeyError("mine")

    async with play(NEW, handlers=Handlers(elicit=elicit)) as (client, script):
        await fails_after(client, script, InputFailed, "the client failed to answer elicitation/create", name=ELICIT)
    assert "KeyError: 'mine'" in caplog.text


async def test_one_failing_handler_cancels_the_others_of_its_round(caplog: pytest.LogCaptureFixture) -> None:
    asked = trio.Event()
    ended: list[str] = []

    async def elicit(form: Form) -> None:
        asked.set()
        try:
            await trio.sleep_forever()
        finally:
            ended.append("elicit")

    async def sample(params: Any) -> CreateMessageResult:
        await asked.wait()
        raise KeyError("mine")

    async with play(NEW, handlers=Handlers(elicit=elicit, sample=sample)) as (client, script):
        await fails_after(client, script, InputFailed, "sampling/createMessage", name=ELICIT, words=SAMPLE)
    assert ended == ["elicit"]


async def test_handler_that_takes_too_long_fails_the_call(autojump_clock: object) -> None:
    async def elicit(form: Form) -> None:
        await trio.sleep_forever()

    async with play(NEW, handlers=Handlers(elicit=elicit), timeouts=ClientTimeouts(input=60)) as (client, script):
        await fails_after(client, script, InputFailed, "within 60 s", name=ELICIT)


@pytest.mark.parametrize(
    ("question", "error", "match"),
    [
        (ELICIT, InvalidParams, "by form is not declared"),
        (
            {"method": "elicitation/create", "params": {"mode": "url", "message": "m", "url": "https://e.example"}},
            InvalidParams,
            "by URL is not declared",
        ),
        (SAMPLE, MethodNotFound, "sampling is not declared"),
        (ROOTS, MethodNotFound, "roots are not declared"),
    ],
    ids=["form", "url", "sampling", "roots"],
)
async def test_question_for_an_undeclared_capability_fails_the_call(
    question: Any, error: type[Exception], match: str
) -> None:
    async with play(NEW) as (client, script):
        await fails_after(client, script, error, match, name=question)


@pytest.mark.parametrize(
    "questions",
    [
        {"name": {"method": "tools/call", "params": {"name": "rm"}}},
        {"name": {"method": "elicitation/create"}},
        {"name": {"params": FORM}},
        {"name": 5},
    ],
    ids=["another method", "no params", "no method", "no object"],
)
async def test_question_that_cannot_be_read_fails_the_call(questions: dict[str, Any]) -> None:
    async with play(NEW, handlers=EVERYTHING) as (client, script):
        await fails_after(client, script, RemoteProtocolError, r"tools/call: .* @ \$.inputRequests", **questions)


async def test_form_without_a_valid_answer_fails_the_call() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "object"}}, "required": ["a"]}
    question = {"method": "elicitation/create", "params": {"message": "m", "requestedSchema": schema}}
    async with play(NEW, handlers=EVERYTHING) as (client, script):
        await fails_after(client, script, InvalidParams, "field `a`: expected the type", name=question)


async def test_too_many_questions_are_not_asked() -> None:
    async def elicit(form: Form) -> None:
        raise AssertionError(form)

    async with play(NEW, handlers=Handlers(elicit=elicit)) as (client, script):
        questions = {f"q{number}": ELICIT for number in range(33)}
        await fails_after(client, script, RemoteProtocolError, "at most 32 questions at once, got 33", **questions)


async def test_result_that_asks_for_nothing_fails_the_call() -> None:
    async with play(NEW) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            await require(script, await script.asked("tools/call"))

        nursery.start_soon(serve)
        with pytest.raises(RemoteProtocolError, match="expected inputRequests or requestState"):
            await client.call_tool("work")


async def test_server_that_never_stops_asking_is_left(autojump_clock: object) -> None:
    async with play(NEW, handlers=EVERYTHING) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            while True:
                await require(script, await script.asked("tools/call"), None, name=ELICIT)

        nursery.start_soon(serve)
        with pytest.raises(RemoteProtocolError, match="asked for input 11 times"):
            await client.call_tool("work")
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("ask", [lambda client: client.tools().all(), lambda client: client.ping()])
async def test_nothing_else_may_ask(ask: Any) -> None:
    async with play(NEW, handlers=EVERYTHING) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            await require(script, await script.asked(), "state", name=ELICIT)

        nursery.start_soon(serve)
        with pytest.raises(RemoteProtocolError, match="a result of type 'input_required' has no meaning here"):
            await ask(client)


@pytest.mark.parametrize("kind", ["task", "", "COMPLETE", None, 5, ["complete"]])
async def test_result_of_an_unknown_type_is_no_result(kind: Any) -> None:
    async with play(NEW) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            await script.answer(await script.asked("tools/call"), {**text("done"), "resultType": kind})

        nursery.start_soon(serve)
        with pytest.raises(RemoteProtocolError, match="has no meaning here"):
            await client.call_tool("work")


async def test_result_without_a_type_is_complete() -> None:
    async with play(NEW) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            request = await script.asked("tools/call")
            script.revision = "2025-11-25"
            await script.answer(request, text("done"))

        nursery.start_soon(serve)
        assert said(await client.call_tool("work")) == "done"


async def test_request_by_hand_is_not_followed_up() -> None:
    async with play(NEW, handlers=EVERYTHING) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            await require(script, await script.asked("tools/call"), "state", name=ELICIT)

        nursery.start_soon(serve)
        result = await client.request("tools/call", {"name": "work"})
        assert result.request_state == "state"
        assert list(result.input_requests) == ["name"]
    assert [getattr(message, "method", None) for message in script.received] == ["server/discover", "tools/call"]


async def test_error_in_a_later_round_is_the_calls() -> None:
    async with play(NEW, handlers=EVERYTHING) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            await require(script, await script.asked("tools/call"), "state", name=ELICIT)
            await script.refuse(await script.asked("tools/call"), -32602, "forged")

        nursery.start_soon(serve)
        with pytest.raises(MCPError, match="forged"):
            await client.call_tool("work")
