"""A script answers the server's requests in both eras, and a deviation from it fails with a readable error."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal

import pytest
import trio

from mcptrio import Client, Context, Elicit, InvalidParams, MCPError, Sample, Server, connect
from mcptrio.client import ClientTimeouts
from mcptrio.errors import InputFailed
from mcptrio.testing import AnsweredQuestion, Script
from mcptrio.types import CreateMessageResult, TextContent

__all__: list[str] = []

ERAS = ("2025-11-25", "2026-07-28")


@dataclass
class Choice:
    plant: Literal["beans", "peas"]
    rows: int = 2


async def sow(ctx: Context, bed: str) -> str:
    answer = await ctx.elicit(f"What goes into {bed}?", Choice)
    if answer.content is None:
        return f"nothing: {answer.action}"
    return f"{answer.content.rows} rows of {answer.content.plant}"


async def pay(ctx: Context) -> str:
    answer = await ctx.elicit_url("Pay here", "https://pay.example.com/7", id="pay-7")
    return answer.action


async def praise(ctx: Context, what: str) -> str:
    sampled = await ctx.sample(f"Praise {what}", max_tokens=10)
    return f"{sampled.text} ({sampled.model})"


async def where(ctx: Context) -> str:
    return " ".join(root.uri for root in await ctx.list_roots())


async def several(ctx: Context) -> str:
    first, second, sampled = await ctx.ask_all(Elicit("first bed", Choice), Elicit("second bed", Choice), Sample("Say"))
    return f"{first.plant}, {second.plant}, {sampled.text}"


async def twice(ctx: Context) -> str:
    return f"{await ctx.ask('One?', int)}{await ctx.ask('Two?', int)}"


@asynccontextmanager
async def asking(script: Script, revision: str = ERAS[1], *, input: float = 600.0) -> AsyncIterator[Client]:
    server = Server()
    for function in (sow, pay, praise, where, several, twice):
        server.add_tool(function)
    timeouts = ClientTimeouts(input=input)
    async with connect(server, handlers=script.handlers(), revision=revision, timeouts=timeouts) as client:
        yield client


async def text(client: Client, tool: str, **arguments: str) -> str:
    result = await client.call_tool(tool, arguments)
    [block] = result.content
    assert isinstance(block, TextContent)
    return block.text


@pytest.mark.parametrize("revision", ERAS)
async def test_script_answers_every_kind_of_request(revision: str, autojump_clock: object) -> None:
    script = (
        Script()
        .elicit({"plant": "peas"})
        .open_url()
        .sample("well done")
        .sample(CreateMessageResult(role="assistant", content=(TextContent(text="fine"),), model="small"))
        .roots("/srv/a", "file:///b")
    )
    async with asking(script, revision) as client:
        assert await text(client, "sow", bed="north") == "2 rows of peas"
        assert await text(client, "pay") == "accept"
        assert await text(client, "praise", what="beans") == "well done (unknown)"
        assert await text(client, "praise", what="peas") == "fine (small)"
        assert await text(client, "where") == "file:///srv/a file:///b"

    script.check()
    assert script.left == []
    assert [(asked.kind, asked.message) for asked in script.asked] == [
        ("form", "What goes into north?"),
        ("url", "Pay here"),
        ("sampling", "Praise beans"),
        ("sampling", "Praise peas"),
        ("roots", ""),
    ]
    assert isinstance(script.asked[0], AnsweredQuestion)
    assert str(script.asked[0]) == "form 'What goes into north?' (plant, rows) -> accept {'plant': 'peas', 'rows': 2}"


@pytest.mark.parametrize("revision", ERAS)
async def test_script_can_decline_or_cancel(revision: str, autojump_clock: object) -> None:
    script = Script().decline().cancel().decline()
    async with asking(script, revision) as client:
        assert await text(client, "sow", bed="north") == "nothing: decline"
        assert await text(client, "sow", bed="north") == "nothing: cancel"
        assert await text(client, "pay") == "decline"
    script.check()


@pytest.mark.parametrize("revision", ERAS)
async def test_requests_of_one_round_are_matched_by_their_text(revision: str, autojump_clock: object) -> None:
    script = Script().elicit({"plant": "peas"}, about="second").elicit({"plant": "beans"}).sample("so")
    async with asking(script, revision) as client:
        assert await text(client, "several") == "beans, peas, so"
    script.check()


async def test_answer_function_receives_the_request(autojump_clock: object) -> None:
    script = (
        Script()
        .elicit(lambda form: form.decline() if form.message.endswith("north?") else {"plant": "beans"})
        .elicit(lambda form: form.defaults() | {"plant": "beans"})
        .sample(lambda params: f"at most {params.max_tokens}")
    )
    async with asking(script) as client:
        assert await text(client, "sow", bed="north") == "nothing: decline"
        assert await text(client, "sow", bed="south") == "2 rows of beans"
        assert await text(client, "praise", what="beans") == "at most 10 (unknown)"


async def test_script_can_answer_with_an_error(autojump_clock: object) -> None:
    script = Script().fail(InvalidParams("not today"))
    async with asking(script) as client:
        with pytest.raises(MCPError, match="not today"):
            await client.call_tool("sow", {"bed": "north"})
    script.check()


async def test_answer_can_be_delayed(autojump_clock: object) -> None:
    script = Script().elicit({"plant": "peas"}, after=50).elicit({"plant": "peas"}, after=100)
    async with asking(script, input=60.0) as client:
        before = trio.current_time()
        assert await text(client, "sow", bed="north") == "2 rows of peas"
        assert trio.current_time() - before == pytest.approx(50)
        with pytest.raises(InputFailed, match="within 60 s"):
            await client.call_tool("sow", {"bed": "north"})


def test_script_declares_the_capabilities_of_its_answers() -> None:
    capabilities = Script().handlers("form", "roots").capabilities()

    assert capabilities.sampling is None
    assert capabilities.roots is not None
    assert capabilities.elicitation is not None
    assert (capabilities.elicitation.form, capabilities.elicitation.url) == ({}, None)
    with pytest.raises(ValueError, match="expected some of form, url, sampling, roots, got 'elicitation'"):
        Script().handlers("elicitation")  # type: ignore[arg-type]


# Deviations from the script


async def test_unexpected_request_ends_the_watched_block(autojump_clock: object) -> None:
    script = Script().sample("hello").elicit({"value": 7}, about="One")
    expected = """\
the server asked a question that is not in the script: form 'Two?' (value)
left:
  sample('hello')
asked before:
  form 'One?' (value) -> accept {'value': 7}"""

    with pytest.raises(AssertionError, match=re.escape(expected)):
        async with asking(script) as client, script.watched():
            await client.call_tool("twice")
    with pytest.raises(AssertionError, match=re.escape(expected)):
        script.check()
    assert script.problems == [expected]


@pytest.mark.parametrize("revision", ERAS)
async def test_unexpected_request_is_refused_and_reported_at_the_end(revision: str, autojump_clock: object) -> None:
    script = Script()
    async with asking(script, revision) as client:
        if revision == ERAS[1]:
            with pytest.raises(InputFailed):
                await client.call_tool("sow", {"bed": "north"})
        else:
            with pytest.raises(MCPError):
                await client.call_tool("sow", {"bed": "north"})

    with pytest.raises(AssertionError, match="left: nothing\nasked before: nothing"):
        script.check()


async def test_answer_of_another_kind_than_the_request_is_reported(autojump_clock: object) -> None:
    script = Script().elicit({"plant": "roses"})
    problem = r"^the script's elicit\({'plant': 'roses'}\) does not answer the server's form"
    with pytest.raises(AssertionError, match=problem):
        async with asking(script) as client, script.watched():
            await client.call_tool("sow", {"bed": "north"})


async def test_failing_assert_in_an_answer_function_fails_the_test(autojump_clock: object) -> None:
    def answer(form: object) -> object:
        raise AssertionError("the rows are missing")

    script = Script().elicit(answer)
    with pytest.raises(AssertionError, match=r"does not answer .*the rows are missing") as failed:
        async with asking(script) as client, script.watched():
            await client.call_tool("sow", {"bed": "north"})
    assert str(failed.value.__cause__) == "the rows are missing"


async def test_script_with_unused_answers_fails() -> None:
    script = Script().elicit({"plant": "peas"}).decline(about="north").open_url().roots("/a").sample("x" * 200)
    lines = [
        "elicit({'plant': 'peas'})",
        "decline(about='north')",
        "open_url()",
        "roots('/a')",
        f"sample('{'x' * 119}…)",
    ]

    assert script.left == lines
    with pytest.raises(AssertionError) as failed:
        script.check()
    messages = ["the script was not used up", "left:", *(f"  {line}" for line in lines), "asked: nothing"]
    assert str(failed.value).splitlines() == messages


async def test_other_exception_in_the_watched_block_is_raised_unwrapped(autojump_clock: object) -> None:
    script = Script().decline()
    with pytest.raises(KeyError):
        async with asking(script), script.watched():
            raise KeyError
