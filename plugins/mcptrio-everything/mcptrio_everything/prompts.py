"""The prompts: those that the conformance suite requires, then those of the demo, with completion."""

from __future__ import annotations

from typing import Literal

from mcptrio import Context, completion, prompt
from mcptrio.types import EmbeddedResource, ImageContent, PromptMessage, TextContent, TextResourceContents
from mcptrio_everything.resources import embed
from mcptrio_everything.samples import PNG

__all__ = [
    "args_prompt",
    "completable_prompt",
    "complete_arg1",
    "complete_department",
    "complete_name",
    "resource_prompt",
    "test_input_required_result_prompt",
    "test_prompt_with_arguments",
    "test_prompt_with_embedded_resource",
    "test_prompt_with_image",
    "test_simple_prompt",
]

_STAFF = {
    "Engineering": ("Alice", "Bob", "Charlie"),
    "Marketing": ("Eve", "Frank", "Iris"),
    "Sales": ("David", "Grace", "Henry"),
    "Support": ("John", "Kim", "Lee"),
}


@prompt
async def test_simple_prompt() -> str:
    """A prompt without arguments."""
    return "This is a simple prompt for testing."


@prompt
async def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """A prompt with two arguments.

    Args:
        arg1: The first; suggestions are offered.
        arg2: The second.
    """
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@completion("prompt", "test_prompt_with_arguments", "arg1")
async def complete_arg1(value: str) -> list[str]:
    """Return the words that start with the typed text."""
    return [word for word in ("paris", "park", "party", "passage") if word.startswith(value)]


@prompt
async def test_prompt_with_embedded_resource(resourceUri: str) -> list[PromptMessage]:
    """A prompt that embeds a resource.

    Args:
        resourceUri: The URI of the embedded resource.
    """
    contents = TextResourceContents(
        uri=resourceUri, mime_type="text/plain", text="Embedded resource content for testing."
    )
    return [
        PromptMessage(role="user", content=EmbeddedResource(resource=contents)),
        PromptMessage(role="user", content=TextContent(text="Please process the embedded resource above.")),
    ]


@prompt
async def test_prompt_with_image() -> list[PromptMessage]:
    """A prompt with an image."""
    return [
        PromptMessage(role="user", content=ImageContent(data=PNG, mime_type="image/png")),
        PromptMessage(role="user", content=TextContent(text="Please analyze the image above.")),
    ]


@prompt
async def test_input_required_result_prompt(ctx: Context) -> str:
    """A prompt that asks the user for its context first."""
    form = {"type": "object", "properties": {"context": {"type": "string"}}, "required": ["context"]}
    answer = await ctx.ask("What context should the prompt use?", form, key="user_context")
    return f"Use this context: {answer['context']}"


@prompt(name="args-prompt")
async def args_prompt(city: str, state: str = "") -> str:
    """Ask about the weather.

    Args:
        city: The name of the city.
        state: The name of the state, if the city's name is ambiguous.
    """
    return f"What's weather in {city}{f', {state}' if state else ''}?"


@prompt(name="completable-prompt")
async def completable_prompt(department: str, name: str) -> str:
    """Promote a member of a team; the names suggested are those of the department.

    Args:
        department: The team's department.
        name: A member of the team.
    """
    return f"Please promote {name} to the head of the {department} team."


@completion("prompt", "completable-prompt", "department")
async def complete_department(value: str) -> list[str]:
    """Return the departments that start with the typed text."""
    return [department for department in _STAFF if department.startswith(value)]


@completion("prompt", "completable-prompt", "name")
async def complete_name(value: str, arguments: dict[str, str]) -> list[str]:
    """Return the names that start with the typed text, of the chosen department if there is one."""
    department = arguments.get("department")
    staff = _STAFF.get(department, ()) if department else [name for names in _STAFF.values() for name in names]
    return [name for name in staff if name.startswith(value)]


@prompt(name="resource-prompt")
async def resource_prompt(resourceId: str, resourceType: Literal["Text", "Blob"] = "Text") -> list[PromptMessage]:
    """A prompt that embeds one of the dynamic resources.

    Args:
        resourceId: A number from 1.
        resourceType: The kind of the resource.
    """
    embedded = await embed(resourceType, resourceId)
    return [
        PromptMessage(role="user", content=TextContent(text=f"Please analyze {embedded.resource.uri}:")),
        PromptMessage(role="user", content=embedded),
    ]
