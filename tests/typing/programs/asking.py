"""Every request of a handler to the client, with the type that each one returns."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, assert_type

from mcptrio import Context, Elicit, ElicitURL, ListRoots, Sample, tool
from mcptrio.types import CreateMessageResult, Elicited, Root

__all__ = ["ask_for_choices", "ask_for_values", "ask_together", "charge_once", "count_orders", "go_on_without"]


@dataclass
class Choice:
    """The user's input."""

    plant: Literal["beans", "peas"]
    rows: int = 2


class Size(Enum):
    """The user's choice."""

    SMALL = "small"
    LARGE = "large"


@dataclass
class State:
    """The value that the lifespan yields."""

    orders: int = 0


async def charge(order: str, cents: int = 500) -> str:
    return f"receipt of {order}: {cents}"


def list_orders(customer: str) -> list[str]:
    return [customer]


@tool
async def ask_for_values(ctx: Context, bed: str) -> str:
    """Ask for a form and for scalars."""
    choice = await ctx.ask(f"What goes into {bed}?", Choice)
    assert_type(choice, Choice)
    assert_type(await ctx.ask("How many?", int), int)
    assert_type(await ctx.ask("Sure?", bool), bool)
    form = {"type": "object", "properties": {"name": {"type": "string"}}}
    assert_type(await ctx.ask("Your name?", form), Any)
    return choice.plant


@tool
async def ask_for_choices(ctx: Context) -> str:
    """Ask to choose."""
    assert_type(await ctx.ask("Which size?", Size), Size)
    assert_type(await ctx.ask("Which day?", ["monday", "tuesday"]), str)
    assert_type(await ctx.ask("Which days?", list[Literal["mon", "tue"]]), list[Literal["mon", "tue"]])
    colour: str = await ctx.ask("Which colour?", {"r": "Red", "b": "Blue"})
    return colour


@tool
async def go_on_without(ctx: Context) -> str:
    """Continue if the user refuses."""
    answer = await ctx.elicit("What goes in?", Choice)
    assert_type(answer, Elicited[Choice])
    return answer.content.plant if answer.content is not None else answer.action


@tool
async def ask_together(ctx: Context) -> str:
    """Ask several things in one round trip."""
    name, idea = await ctx.ask_all(Elicit("Name?", str), Sample("Hi"))
    assert_type(name, str)
    assert_type(idea, CreateMessageResult)
    page, roots = await ctx.ask_all(ElicitURL("Sign in", "https://example.com/in", "one"), ListRoots())
    assert_type(page, None)
    assert_type(roots, tuple[Root, ...])
    many = await ctx.ask_all(*[Elicit(f"Row {row}?", Choice) for row in range(3)])
    assert_type(many, tuple[Choice, ...])
    return f"{name}: {idea.text}"


@tool
async def charge_once(ctx: Context, order: str) -> str:
    """Run effects once."""
    assert_type(await ctx.once(charge, order), str)
    assert_type(await ctx.once(charge, order, cents=7), str)
    assert_type(await ctx.once(list_orders, order), list[str])
    assert_type(await ctx.once(list_orders, order, key="orders"), list[str])
    return await ctx.once(charge, order, key=f"charge {order}")


@tool
async def count_orders(ctx: Context[State]) -> int:
    """Use the state of the plugin."""
    assert_type(ctx.state, State)
    return ctx.state.orders
