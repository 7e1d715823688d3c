"""Tools that request input from the client, which 2026-07-28 does with results (InputRequiredResult).

The conformance suite checks with them that mcptrio requests missing answers again, refuses a modified state, and asks a
client only for its declared capabilities.

Source: SEP-2322; MCP 2026-07-28, basic/patterns/mrtr.
"""

from __future__ import annotations

from typing import Any

from mcptrio import Context, Elicit, ListRoots, Sample, tool

__all__ = [
    "test_input_required_result_capabilities",
    "test_input_required_result_elicitation",
    "test_input_required_result_list_roots",
    "test_input_required_result_multi_round",
    "test_input_required_result_multiple_inputs",
    "test_input_required_result_request_state",
    "test_input_required_result_sampling",
    "test_input_required_result_tampered_state",
]

_NAME: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
_COLOR: dict[str, Any] = {"type": "object", "properties": {"color": {"type": "string"}}, "required": ["color"]}
_OK: dict[str, Any] = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}


@tool(read_only=True)
async def test_input_required_result_elicitation(ctx: Context) -> str:
    """Ask the user's name, then greet."""
    answer = await ctx.ask("What is your name?", _NAME, key="user_name")
    return f"Hello, {answer['name']}!"


@tool(read_only=True)
async def test_input_required_result_sampling(ctx: Context) -> str:
    """Ask the client's model for a capital."""
    answer = await ctx.sample("What is the capital of France?", max_tokens=100, key="capital_question")
    return answer.text


@tool(read_only=True)
async def test_input_required_result_list_roots(ctx: Context) -> str:
    """List the client's roots."""
    roots = await ctx.list_roots(key="client_roots")
    return f"{len(roots)} roots: {', '.join(root.uri for root in roots)}"


@tool(read_only=True)
async def test_input_required_result_request_state(ctx: Context) -> str:
    """Ask for a confirmation, with a state that the client returns."""
    answer = await ctx.ask("Please confirm", _OK, key="confirm")
    return f"state-ok: {'confirmed' if answer['ok'] else 'not confirmed'}"


@tool(read_only=True)
async def test_input_required_result_multiple_inputs(ctx: Context) -> str:
    """Ask the user, the model and the client at once."""
    user, greeting, roots = await ctx.ask_all(
        Elicit("What is your name?", _NAME, key="user_name"),
        Sample("Generate a greeting", max_tokens=50, key="greeting"),
        ListRoots(key="client_roots"),
    )
    text = greeting.text
    return f"{text} {user['name']} has {len(roots)} roots."


@tool(read_only=True)
async def test_input_required_result_multi_round(ctx: Context) -> str:
    """Ask the user two things, one after the other."""
    name = await ctx.ask("Step 1: What is your name?", _NAME, key="step1")
    color = await ctx.ask("Step 2: What is your favorite color?", _COLOR, key="step2")
    return f"{name['name']} likes {color['color']}."


@tool(read_only=True)
async def test_input_required_result_tampered_state(ctx: Context) -> str:
    """Ask for a confirmation; a modified state is refused."""
    answer = await ctx.ask("Please confirm", _OK, key="confirm")
    return f"The state is unmodified: {answer['ok']}"


@tool(read_only=True)
async def test_input_required_result_capabilities(ctx: Context) -> str:
    """Ask the user and the model, each only if the client declared the capability."""
    questions: list[Elicit[Any] | Sample] = []
    if ctx.supports("elicitation.form"):
        questions.append(Elicit("What is your name?", _NAME, key="user_name"))
    if ctx.supports("sampling"):
        questions.append(Sample("Generate a greeting", max_tokens=50, key="greeting"))
    if not questions:
        return "The client declared neither elicitation nor sampling"
    answers = await ctx.ask_all(*questions)
    return f"{len(answers)} answers"
