"""One tool, one resource, one prompt.

Run it: mcptrio serve --stdio --plugin examples/hello.py
"""

from __future__ import annotations

from mcptrio import prompt, resource, tool

__all__ = ["greet", "greeting", "readme"]


@tool(read_only=True)
async def greet(name: str = "world") -> str:
    """Greet a person.

    Args:
        name: The person to greet.
    """
    return f"Hello, {name}!"


@resource("hello://readme")
async def readme() -> str:
    """What this server is for."""
    return "It greets."


@prompt
async def greeting(name: str, formal: bool = False) -> str:
    """Ask the model to greet a person."""
    return f"Greet {name} {'formally' if formal else 'as a friend'}, in one sentence."
