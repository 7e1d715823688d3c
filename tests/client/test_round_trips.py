"""Multi-round-trip requests: the client answers the questions of a result, and the caller gets the final result."""

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
from tests.error_codes import INVALID_PARAMS
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


def text_of(result: CallToolResult) -> str:
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


def retry_input(request: Request) -> tuple[Any, Any]:
    """Return the answers and the state of a retry."""
    assert request.params is not None
    return request.params.get("inputResponses"), request.params.get("requestState")


# --- an mcptrio server


class Asking:
    """A plugin that asks the client during a call."""

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
async def test_tool_asks_the_user_in_every_revision_with_elicitation(revision: str) -> None:
    asked: list[str] = []

    async def elicit(form: Form) -> dict[str, Any]:
        asked.append(form.message)
        return {"value": {"First name?": "Ada", "Last name?": "Lovelace"}[form.message]}

    async with connect(Server(plugins=[Asking()]), revision=revision, handlers=Handlers(elicit=elicit)) as client:
        assert text_of(await client.call_tool("greet", {"greeting": "Hello"})) == "Hello, Ada Lovelace"
        assert asked == ["First name?", "Last name?"]


@pytest.mark.parametrize("revision", REVISIONS)
async def test_tool_asks_for_sampling_and_roots_in_every_revision(revision: str) -> None:
    async with connect(Server(plugins=[Asking()]), revision=revision, handlers=EVERYTHING) as client:
        assert text_of(await client.call_tool("finish", {"words": "Say hello"})) == "Hello"
        assert text_of(await client.call_tool("where")) == "file:///work"


async def test_prompt_of_an_mcptrio_server_asks_the_user() -> None:
    async def elicit(form: Form) -> dict[str, Any]:
        return {"value": "Charles"}

    async with connect(Server(plugins=[Asking()]), revision=NEW, handlers=Handlers(elicit=elicit)) as client:
        [message] = (await client.get_prompt("letter")).messages
        assert message.content == TextContent(text="Dear Charles")


@pytest.mark.parametrize("revision", SINCE_2025_06)
async def test_concurrent_calls_get_their_own_answers(revision: str) -> None:
    async def elicit(form: Form) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        return {"value": form.message.removesuffix(" name?")}

    greeted: list[str] = []
    async with connect(Server(plugins=[Asking()]), revision=revision, handlers=Handlers(elicit=elicit)) as client:

        async def greet(number: int) -> None:
            greeted.append(text_of(await client.call_tool("greet", {"greeting": str(number)})))

        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(greet, number)

    assert sorted(greeted) == sorted(f"{number}, First Last" for number in range(20))


# --- retries


@pytest.mark.parametrize("state", ["", "s", '{"a": 1.0,  "b":"ä"}', "\u2028 \t☃\U0001f600", "x" * 100_000])
async def test_request_state_is_returned_unchanged(state: str) -> None:
    async with play(NEW, handlers=EVERYTHING) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            first = await script.next_request("tools/call")
            assert retry_input(first) == (None, None)
            await require(script, first, state, name=ELICIT)
            second = await script.next_request("tools/call")
            assert retry_input(second) == ({"name": ADA}, state)
            assert first.params is not None
            assert second.params is not None
            assert second.params["arguments"] == first.params["arguments"] == {"a": [1, {"b": None}]}
            assert second.id != first.id
            assert second.params["_meta"]["progressToken"] != first.params["_meta"]["progressToken"]
            await script.answer(second, text("done"))

        nursery.start_soon(serve)
        assert text_of(await client.call_tool("work", {"a": [1, {"b": None}]})) == "done"


async def test_retry_has_only_the_state_of_the_last_result() -> None:
    async with play(NEW, handlers=EVERYTHING) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            await require(script, await script.next_request("tools/call"), "state", name=ELICIT)
            request = await script.next_request("tools/call")
            await require(script, request, None, other=ROOTS)
            request = await script.next_request("tools/call")
            assert request.params is not None
            assert "requestState" not in request.params
            assert request.params["inputResponses"] == {"other": {"roots": [{"uri": "file:///work"}]}}
            await script.answer(request, text("done"))

        nursery.start_soon(serve)
        assert text_of(await client.call_tool("work")) == "done"


async def test_answers_and_state_are_not_sent_with_another_request() -> None:
    question_asked, go_on = trio.Event(), trio.Event()

    async def elicit(form: Form) -> dict[str, Any]:
        question_asked.set()
        await go_on.wait()
        return {"name": "Ada"}

    async with play(NEW, handlers=Handlers(elicit=elicit)) as (client, script), trio.open_nursery() as nursery:
        nursery.start_soon(client.call_tool, "work")
        await require(script, await script.next_request("tools/call"), "state", name=ELICIT)
        await question_asked.wait()
        nursery.start_soon(client.call_tool, "work")
        other = await script.next_request("tools/call")
        assert retry_input(other) == (None, None)
        await script.answer(other, text("other"))
        go_on.set()
        retry = await script.next_request("tools/call")
        assert retry_input(retry) == ({"name": ADA}, "state")
        await script.answer(retry, text("done"))


@pytest.mark.parametrize(
    ("method", "ask"),
    [
        ("prompts/get", lambda client: client.get_prompt("letter", {"to": "Ada"})),
        ("resources/read", lambda client: client.read_resource("note:///1")),
    ],
)
async def test_prompt_and_resource_requests_are_retried_with_answers(method: str, ask: Any) -> None:
    async with play(NEW, handlers=EVERYTHING) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            first = await script.next_request(method)
            await require(script, first, "state", name=ELICIT)
            second = await script.next_request(method)
            assert retry_input(second) == ({"name": ADA}, "state")
            assert first.params is not None
            assert second.params is not None
            repeated = {name for name, value in first.params.items() if second.params[name] == value}
            assert first.params.keys() - repeated == {"_meta"}
            await script.answer(second, {"messages": [], "contents": []})

        nursery.start_soon(serve)
        await ask(client)


async def test_questions_of_one_round_are_asked_concurrently() -> None:
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
            await require(script, await script.next_request("tools/call"), None, name=ELICIT, words=SAMPLE, where=ROOTS)
            retry = await script.next_request("tools/call")
            assert retry_input(retry)[0] == {
                "name": ADA,
                "words": {"role": "assistant", "content": {"type": "text", "text": "Hello"}, "model": "unknown"},
                "where": {"roots": [{"uri": "file:///work"}]},
            }
            await script.answer(retry, text("done"))

        nursery.start_soon(serve)
        await client.call_tool("work")


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_declined_or_cancelled_form_is_sent_as_answer(action: str) -> None:
    async def elicit(form: Form) -> Any:
        return form.decline() if action == "decline" else form.cancel()

    async with play(NEW, handlers=Handlers(elicit=elicit)) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            await require(script, await script.next_request("tools/call"), None, name=ELICIT)
            retry = await script.next_request("tools/call")
            assert retry_input(retry)[0] == {"name": {"action": action}}
            await script.answer(retry, text("as you wish"))

        nursery.start_soon(serve)
        assert text_of(await client.call_tool("work")) == "as you wish"


# --- timeouts


async def test_retries_without_questions_wait_longer_each_time(autojump_clock: object) -> None:
    async with play(NEW) as (client, script), trio.open_nursery() as nursery:
        times: list[float] = []

        async def serve() -> None:
            for number in range(5):
                request = await script.next_request("tools/call")
                assert retry_input(request) == (None, str(number - 1) if number else None)
                times.append(trio.current_time())
                await require(script, request, str(number))
            await script.answer(await script.next_request("tools/call"), text("done"))

        nursery.start_soon(serve)
        assert text_of(await client.call_tool("work")) == "done"
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert pauses == sorted(pauses)
    assert pauses[0] >= 0.05
    assert pauses[-1] >= 4 * pauses[0]


async def test_idle_timeout_restarts_each_round_and_pauses_for_the_user(autojump_clock: object) -> None:
    async def elicit(form: Form) -> dict[str, Any]:
        await trio.sleep(500)
        return {"name": "Ada"}

    handlers, timeouts = Handlers(elicit=elicit), ClientTimeouts(idle=30)
    async with play(NEW, handlers=handlers, timeouts=timeouts) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            for _ in range(3):
                request = await script.next_request("tools/call")
                await trio.sleep(29)
                await require(script, request, None, name=ELICIT)
            await script.answer(await script.next_request("tools/call"), text("done"))

        nursery.start_soon(serve)
        assert text_of(await client.call_tool("work")) == "done"


async def test_call_cancelled_while_the_user_is_asked_sends_nothing() -> None:
    question_asked = trio.Event()
    ended: list[str] = []

    async def elicit(form: Form) -> None:
        question_asked.set()
        try:
            await trio.sleep_forever()
        finally:
            ended.append("elicit")

    async with play(NEW, handlers=Handlers(elicit=elicit)) as (client, script):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "work")
            await require(script, await script.next_request("tools/call"), "state", name=ELICIT)
            await question_asked.wait()
            nursery.cancel_scope.cancel()
        assert ended == ["elicit"]
        await script.expect_nothing()


# --- questions that cannot be answered


async def fails_after(client: Client, script: Script, error: type[Exception], match: str, **questions: Any) -> None:
    """Check that the call fails and is not repeated."""
    async with trio.open_nursery() as nursery:

        async def serve() -> None:
            await require(script, await script.next_request("tools/call"), "state", **questions)

        nursery.start_soon(serve)
        with pytest.raises(error, match=match):
            await client.call_tool("work")
    await script.expect_nothing()


async def test_failing_handler_fails_the_call(caplog: pytest.LogCaptureFixture) -> None:
    async def elicit(form: Form) -> None:
        raise KeyError("mine")

    async with play(NEW, handlers=Handlers(elicit=elicit)) as (client, script):
        await fails_after(client, script, InputFailed, "the client failed to answer elicitation/create", name=ELICIT)
    assert "KeyError: 'mine'" in caplog.text


async def test_failing_handler_cancels_the_others_of_its_round(caplog: pytest.LogCaptureFixture) -> None:
    question_asked = trio.Event()
    ended: list[str] = []

    async def elicit(form: Form) -> None:
        question_asked.set()
        try:
            await trio.sleep_forever()
        finally:
            ended.append("elicit")

    async def sample(params: Any) -> CreateMessageResult:
        await question_asked.wait()
        raise KeyError("mine")

    async with play(NEW, handlers=Handlers(elicit=elicit, sample=sample)) as (client, script):
        await fails_after(client, script, InputFailed, "sampling/createMessage", name=ELICIT, words=SAMPLE)
    assert ended == ["elicit"]


async def test_handler_over_its_timeout_fails_the_call(autojump_clock: object) -> None:
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
async def test_question_without_its_capability_fails_the_call(
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
async def test_invalid_question_fails_the_call(questions: dict[str, Any]) -> None:
    async with play(NEW, handlers=EVERYTHING) as (client, script):
        await fails_after(client, script, RemoteProtocolError, r"tools/call: .*.inputRequests", **questions)


async def test_form_that_the_answer_cannot_satisfy_fails_the_call() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "object"}}, "required": ["a"]}
    question = {"method": "elicitation/create", "params": {"message": "m", "requestedSchema": schema}}
    async with play(NEW, handlers=EVERYTHING) as (client, script):
        await fails_after(client, script, InvalidParams, "field `a`: expected the type", name=question)


async def test_too_many_questions_fail_the_call_unasked() -> None:
    async def elicit(form: Form) -> None:
        raise AssertionError(form)

    async with play(NEW, handlers=Handlers(elicit=elicit)) as (client, script):
        questions = {f"q{number}": ELICIT for number in range(33)}
        await fails_after(client, script, RemoteProtocolError, "at most 32 questions at once, got 33", **questions)


async def test_result_without_questions_and_state_fails_the_call() -> None:
    async with play(NEW) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            await require(script, await script.next_request("tools/call"))

        nursery.start_soon(serve)
        with pytest.raises(RemoteProtocolError, match="expected inputRequests or requestState"):
            await client.call_tool("work")


async def test_number_of_rounds_is_limited(autojump_clock: object) -> None:
    async with play(NEW, handlers=EVERYTHING) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            while True:
                await require(script, await script.next_request("tools/call"), None, name=ELICIT)

        nursery.start_soon(serve)
        with pytest.raises(RemoteProtocolError, match="asked for input 11 times"):
            await client.call_tool("work")
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("ask", [lambda client: client.tools().all(), lambda client: client.ping()])
async def test_questions_in_other_results_are_an_error(ask: Any) -> None:
    async with play(NEW, handlers=EVERYTHING) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            await require(script, await script.next_request(), "state", name=ELICIT)

        nursery.start_soon(serve)
        with pytest.raises(RemoteProtocolError, match="unexpected result type 'input_required'"):
            await ask(client)


@pytest.mark.parametrize("kind", ["tasks", "", "COMPLETE", None, 5, ["complete"]])
async def test_result_of_an_unknown_type_is_an_error(kind: Any) -> None:
    async with play(NEW) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            await script.answer(await script.next_request("tools/call"), {**text("done"), "resultType": kind})

        nursery.start_soon(serve)
        with pytest.raises(RemoteProtocolError, match="unexpected result type"):
            await client.call_tool("work")


async def test_result_without_a_type_is_complete() -> None:
    async with play(NEW) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            request = await script.next_request("tools/call")
            script.revision = "2025-11-25"
            await script.answer(request, text("done"))

        nursery.start_soon(serve)
        assert text_of(await client.call_tool("work")) == "done"


async def test_raw_request_returns_the_questions() -> None:
    async with play(NEW, handlers=EVERYTHING) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            await require(script, await script.next_request("tools/call"), "state", name=ELICIT)

        nursery.start_soon(serve)
        result = await client.request("tools/call", {"name": "work"})
        assert result.request_state == "state"
        assert list(result.input_requests) == ["name"]
    assert [getattr(message, "method", None) for message in script.received] == ["server/discover", "tools/call"]


async def test_error_in_a_later_round_is_raised() -> None:
    async with play(NEW, handlers=EVERYTHING) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            await require(script, await script.next_request("tools/call"), "state", name=ELICIT)
            await script.refuse(await script.next_request("tools/call"), INVALID_PARAMS, "forged")

        nursery.start_soon(serve)
        with pytest.raises(MCPError, match="forged"):
            await client.call_tool("work")
