"""Children of a handler ask, wait and have side effects in any order: each question gets its answer, each effect
happens once, and the result is the same whether the handler is parked, expires or is replayed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from mcptrio import Context
from mcptrio.serving import ServerLimits, Timeouts
from tests.runtime.peers import Client, connected, tool
from tests.runtime.test_round_trips import accept, keys, retry, serving, text

__all__: list[str] = []

EXPIRES = 30.0
MAX_ROUNDS = 40

# Times are exact in binary, so that their sums are exact too.
STEPS = st.one_of(
    st.tuples(st.just("ask"), st.just(0.0)),
    st.tuples(st.just("once"), st.sampled_from([0.0, 0.5, 2.0])),
    st.tuples(st.just("sleep"), st.sampled_from([0.25, 0.5, 1.0])),
)
CHILDREN = st.lists(st.lists(STEPS, min_size=1, max_size=4), min_size=1, max_size=3)
ROUNDS = st.lists(st.tuples(st.integers(0, 7), st.sampled_from([0.0, 1.0, 2 * EXPIRES])), max_size=10)
"""The requests that are answered, as bits, and the seconds until the client repeats its request."""


async def play(children: list[list[tuple[str, float]]], rounds: list[tuple[int, float]], parked: int) -> None:
    effects: Counter[str] = Counter()
    doubled: list[str] = []

    async def child(ctx: Context, name: int, found: dict[int, list[str]]) -> None:
        for number, (step, seconds) in enumerate(children[name]):
            label = f"{name}.{number}"
            if step == "sleep":
                await trio.sleep(seconds)
            elif step == "ask":
                answer = await ctx.ask(f"{label}?", str, key=label)
                if answer in found[name]:
                    doubled.append(answer)
                found[name].append(answer)
            else:
                found[name].append(await ctx.once(effect, label, seconds))

    async def effect(label: str, seconds: float) -> str:
        effects[label] += 1
        await trio.sleep(seconds)
        return f"did {label}"

    async def handler(ctx: Context) -> str:
        found: dict[int, list[str]] = {name: [] for name in range(len(children))}
        async with trio.open_nursery() as nursery:
            for name in found:
                nursery.start_soon(child, ctx, name, found)
        return repr(found)

    server = serving(handler, limits=ServerLimits(parked=parked), timeouts=Timeouts(input=EXPIRES))
    with trio.fail_after(10_000):
        async with connected(server, revision=None) as client:
            done = await converse(client, rounds)

    wanted = {
        name: [
            f"answer {name}.{number}" if step == "ask" else f"did {name}.{number}"
            for number, (step, _) in enumerate(steps)
            if step != "sleep"
        ]
        for name, steps in enumerate(children)
    }
    assert done == repr(wanted)
    assert doubled == []
    assert {label: count for label, count in effects.items() if count != 1} == {}


async def converse(client: Client, rounds: list[tuple[int, float]]) -> str:
    """Answer the questions of each round, or some of them, until the call is complete. Returns its text."""
    result: dict[str, Any] = await client.result(tool(0, "it", modern=True))
    for id in range(1, MAX_ROUNDS):
        if result["resultType"] == "complete":
            return text(result)
        chosen, pause = rounds[id - 1] if id <= len(rounds) else (~0, 0.0)
        asked = keys(result)
        await trio.sleep(pause)
        answers = {key: accept(f"answer {key}") for bit, key in enumerate(asked) if chosen >> bit & 1}
        result = await client.result(retry(id, "it", result, answers))
    pytest.fail(f"not complete after {MAX_ROUNDS} rounds")


@settings(max_examples=100)
@given(CHILDREN, ROUNDS, st.sampled_from([0, 1]))
def test_interleaved_requests_are_answered_and_effects_run_once(
    children: list[list[tuple[str, float]]], rounds: list[tuple[int, float]], parked: int
) -> None:
    trio.run(play, children, rounds, parked, clock=trio.testing.MockClock(autojump_threshold=0))
