"""Demo tools that send requests to the client: sampling, elicitation with a form or a URL, and roots.

Names and arguments are those of the reference server "everything".
"""

from __future__ import annotations

from typing import Annotated, Literal

from attrs import frozen
from msgspec import Meta

from mcptrio import Context, ToolError, tool

__all__ = [
    "Profile",
    "get_roots_list",
    "trigger_elicitation_request",
    "trigger_sampling_request",
    "trigger_url_elicitation",
]


@frozen(kw_only=True)
class Profile:
    """The form for the user."""

    name: str
    subscribed: bool = False
    age: Annotated[int, Meta(ge=0, le=150)] | None = None
    color: Literal["red", "green", "blue"] = "green"


@tool(name="trigger-sampling-request", title="Ask the model", read_only=True)
async def trigger_sampling_request(
    ctx: Context, prompt: str, maxTokens: Annotated[int, Meta(ge=1, le=100_000)] = 100
) -> str:
    """Ask the client's model.

    Args:
        prompt: The text for the model.
        maxTokens: Maximum tokens of the answer.
    """
    answer = await ctx.sample(prompt, max_tokens=maxTokens)
    text = answer.text
    return f"LLM sampling result from {answer.model}: {text}"


@tool(name="trigger-elicitation-request", title="Ask the user", read_only=True)
async def trigger_elicitation_request(ctx: Context) -> str:
    """Ask the user with a form."""
    answer = await ctx.elicit("Please tell us about yourself:", Profile)
    if answer.content is None:
        return f"The user chose to {answer.action}."
    return f"The user is {answer.content.name} and likes {answer.content.color}."


@tool(name="trigger-url-elicitation", title="Send the user to a page", read_only=True)
async def trigger_url_elicitation(ctx: Context, url: str, message: str = "Please open this page to continue.") -> str:
    """Ask the user to open a page.

    Args:
        url: The page, https only.
        message: Why the user should open it.
    """
    # The caller chooses the URL and the user may trust it, so URLs such as javascript: and file: are refused.
    if not url.startswith("https://"):
        raise ToolError(f"expected a URL with https, got {url[:40]!r} at `url`")
    answer = await ctx.elicit_url(message, url)
    return "The user agreed to open the page." if answer.accepted else f"The user chose to {answer.action}."


@tool(name="get-roots-list", title="Roots", read_only=True)
async def get_roots_list(ctx: Context) -> str:
    """List the roots of the client: the folders in which the server may work."""
    roots = await ctx.list_roots()
    if not roots:
        return "The client has no roots."
    return "\n".join(f"{number}. {root.name or 'unnamed'}: {root.uri}" for number, root in enumerate(roots, 1))
