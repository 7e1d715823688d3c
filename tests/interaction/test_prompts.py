"""Prompts: listed with their arguments, and rendered."""

from __future__ import annotations

from enum import Enum
from typing import Any, Literal

from mcptrio import Blob, Context, ToolError, prompt
from mcptrio.types import EmbeddedResource, PromptMessage, TextContent, TextResourceContents
from tests.error_codes import INTERNAL_ERROR, INVALID_PARAMS
from tests.interaction.applies import SINCE_2025_06
from tests.interaction.client import Peer
from tests.interaction.serving import Serve


class Size(Enum):
    SMALL = "1"
    LARGE = "2"


@prompt(title="Review")
async def review(code: str, strict: bool = False, rounds: int = 1) -> str:
    """Review some code.

    Args:
        code: What to look at.
    """
    return f"Review {code!r}, strictly={strict}, {rounds} rounds"


@prompt
async def talk(topic: str) -> list[PromptMessage]:
    """A conversation."""
    return [
        PromptMessage(role="user", content=TextContent(text=f"About {topic}?")),
        PromptMessage(role="assistant", content=TextContent(text="Well.")),
    ]


@prompt
async def show() -> list[Any]:
    """A picture and a file."""
    contents = TextResourceContents(uri="memo://a", text="a", mime_type="text/plain")
    return [Blob(b"\x89PNG", "image/png"), EmbeddedResource(resource=contents)]


@prompt
async def tells() -> str:
    """A prompt that says why it cannot be filled in."""
    raise ToolError("no such project")


@prompt
async def fails() -> str:
    """A prompt that fails."""
    raise OSError("/etc/secret")


@prompt
async def who(ctx: Context) -> str:
    """Return the caller."""
    return str(ctx.client_info.name if ctx.client_info else None)


async def _get(peer: Peer, name: str, arguments: dict[str, str] | None = None) -> list[dict[str, Any]]:
    result = await peer.request("prompts/get", {"name": name, **({"arguments": arguments} if arguments else {})})
    messages: list[dict[str, Any]] = result["messages"]
    return messages


async def test_prompt_is_listed_with_its_arguments(serve: Serve) -> None:
    peer = await serve(review)

    (listed,) = (await peer.request("prompts/list"))["prompts"]

    assert listed["name"] == "review"
    assert listed["description"] == "Review some code."
    assert ("title" in listed) == (serve.revision in SINCE_2025_06)
    arguments = {argument["name"]: argument for argument in listed["arguments"]}
    assert arguments["code"]["required"] is True
    assert arguments["code"]["description"] == "What to look at."
    assert not arguments["strict"].get("required")


async def test_text_of_a_prompt_has_the_role_user(serve: Serve) -> None:
    peer = await serve(review)

    (message,) = await _get(peer, "review", {"code": "x = 1"})

    text = "Review 'x = 1', strictly=False, 1 rounds"
    assert message == {"role": "user", "content": {"type": "text", "text": text}}


async def test_prompt_arguments_are_parsed_from_text(serve: Serve) -> None:
    peer = await serve(review)

    (message,) = await _get(peer, "review", {"code": "3", "strict": "true", "rounds": "2"})

    assert message["content"]["text"] == "Review '3', strictly=True, 2 rounds"


async def test_each_prompt_argument_is_parsed_independently(serve: Serve) -> None:
    """Whether an argument is parsed or kept as text does not depend on the others."""

    @prompt
    async def count(
        year: Literal["2025", "2026"], size: Size = Size.SMALL, anything: Any = None, number: int = 1
    ) -> str:
        """Count."""
        return repr((year, size.value, anything, number))

    peer = await serve(count)

    async def said(**arguments: str) -> str:
        (message,) = await _get(peer, "count", arguments)
        text: str = message["content"]["text"]
        return text

    assert await said(year="2025") == "('2025', '1', None, 1)"
    assert await said(year="2025", number="3", size="2", anything="007") == "('2025', '2', '007', 3)"
    assert await said(year="2026", anything="1e3", number="3") == "('2026', '1', '1e3', 3)"


async def test_messages_of_a_prompt_keep_their_roles(serve: Serve) -> None:
    peer = await serve(talk)

    assert [message["role"] for message in await _get(peer, "talk", {"topic": "trio"})] == ["user", "assistant"]


async def test_prompt_can_contain_images_and_resources(serve: Serve) -> None:
    peer = await serve(show)

    image, resource = await _get(peer, "show")

    assert image["content"]["mimeType"] == "image/png"
    assert resource["content"]["resource"]["uri"] == "memo://a"


async def test_error_names_the_unknown_prompt_or_invalid_argument(serve: Serve) -> None:
    peer = await serve(review)

    for name, arguments, what in (
        ("nobody", {}, "nobody"),
        ("review", {}, "code"),
        ("review", {"code": "x", "rounds": "many"}, "rounds"),
        ("review", {"code": "x", "colour": "red"}, "colour"),
    ):
        error = await peer.error("prompts/get", {"name": name, "arguments": arguments})

        assert error["code"] == INVALID_PARAMS
        assert what in error["message"]


async def test_public_error_of_a_prompt_reaches_the_client(serve: Serve) -> None:
    peer = await serve(tells)

    assert "no such project" in (await peer.error("prompts/get", {"name": "tells"}))["message"]


async def test_unexpected_error_of_a_prompt_is_not_disclosed(serve: Serve) -> None:
    peer = await serve(fails)

    error = await peer.error("prompts/get", {"name": "fails"})

    assert error["code"] == INTERNAL_ERROR
    assert "secret" not in str(error)


async def test_prompt_receives_the_caller(serve: Serve) -> None:
    peer = await serve(who)

    assert (await _get(peer, "who"))[0]["content"]["text"] == "raw"
