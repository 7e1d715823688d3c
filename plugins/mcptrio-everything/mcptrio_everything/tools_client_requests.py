"""Tools that send requests to the client: sampling, and elicitation, with defaults and choices in the form."""

from __future__ import annotations

import json
from typing import Any

from mcptrio import Context, tool

__all__ = [
    "CHOICES",
    "DEFAULTS",
    "USER",
    "test_elicitation",
    "test_elicitation_sep1034_defaults",
    "test_elicitation_sep1330_enums",
    "test_missing_capability",
    "test_sampling",
    "test_streaming_elicitation",
]

USER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    },
    "required": ["username", "email"],
}

DEFAULTS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "User name", "default": "John Doe"},
        "age": {"type": "integer", "description": "User age", "default": 30},
        "score": {"type": "number", "description": "User score", "default": 95.5},
        "status": {
            "type": "string",
            "description": "User status",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "description": "Verification status", "default": True},
    },
}
"""A form with a default for each primitive type."""

CHOICES: dict[str, Any] = {
    "type": "object",
    "properties": {
        "untitledSingle": {
            "type": "string",
            "description": "Select one option",
            "enum": ["option1", "option2", "option3"],
        },
        "titledSingle": {
            "type": "string",
            "description": "Select one option with titles",
            "oneOf": [
                {"const": "value1", "title": "First Option"},
                {"const": "value2", "title": "Second Option"},
                {"const": "value3", "title": "Third Option"},
            ],
        },
        "legacyEnum": {
            "type": "string",
            "description": "Select one option (legacy)",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {
            "type": "array",
            "description": "Select multiple options",
            "items": {"type": "string", "enum": ["option1", "option2", "option3"]},
        },
        "titledMulti": {
            "type": "array",
            "description": "Select multiple options with titles",
            "items": {
                "anyOf": [
                    {"const": "value1", "title": "First Choice"},
                    {"const": "value2", "title": "Second Choice"},
                    {"const": "value3", "title": "Third Choice"},
                ]
            },
        },
    },
}
"""A form with each format of choices: single and multiple, with and without titles, and the old ``enumNames``."""


@tool(read_only=True)
async def test_sampling(ctx: Context, prompt: str) -> str:
    """Ask the client's model.

    Args:
        prompt: The text for the model.
    """
    answer = await ctx.sample(prompt, max_tokens=100)
    text = answer.text
    return f"LLM response: {text}"


@tool(read_only=True)
async def test_elicitation(ctx: Context, message: str) -> str:
    """Ask the user for a name and an e-mail address.

    Args:
        message: The text above the form.
    """
    answer = await ctx.elicit(message, USER)
    return f"User response: action={answer.action}, content={json.dumps(answer.content)}"


@tool(read_only=True)
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Ask with a form that has a default for each primitive type."""
    answer = await ctx.elicit("Please review and update the form fields with defaults", DEFAULTS)
    return f"Elicitation completed: action={answer.action}, content={json.dumps(answer.content)}"


@tool(read_only=True)
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Ask with a form that has each kind of choices."""
    answer = await ctx.elicit("Please select options from the enum fields", CHOICES)
    return f"Elicitation completed: action={answer.action}, content={json.dumps(answer.content)}"


@tool(read_only=True)
async def test_missing_capability(ctx: Context) -> str:
    """Refuse a client that did not declare sampling."""
    ctx.require("sampling")
    return "The client declared the sampling capability"


@tool(read_only=True)
async def test_streaming_elicitation(ctx: Context) -> str:
    """Ask for one word; in 2026-07-28 the question is a result and never a request on the stream."""
    word = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
    answer = await ctx.elicit("Which word shall be streamed?", word, key="word")
    return f"Elicitation completed: action={answer.action}"
