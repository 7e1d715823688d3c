"""Requests of the official SDKs' servers to the client, as requests of a session and in rounds of a request."""

from __future__ import annotations

from typing import Any

import pytest

from mcptrio import MCPError, connect
from mcptrio.types import TextContent, TextResourceContents
from tests.servers.ways import HANDSHAKE, TIMEOUTS, User, Way, text, ways

__all__: list[str] = []

ASKING = [*ways("stdio", "http", "sse"), *ways("json", "stateless", revisions=("2026-07-28",))]
COFFEE = ("Which coffee?", ["size", "sugar"])

asking_ways = pytest.mark.parametrize("way", ASKING, indirect=True, ids=str)


@asking_ways
async def test_forms_of_an_sdk_server_are_answered(way: Way, target: Any) -> None:
    user = User()
    async with connect(target, timeouts=TIMEOUTS, revision=way.revision, handlers=user.handlers()) as client:
        answers = [await text(client, "order", message=message) for message in ("Which coffee?", "decline", "cancel")]
        twice = await text(client, "checkout")

    assert answers == ["large, sugar 0", "decline", "cancel"]
    assert twice.lower() == "large, true"
    assert user.asked == [
        COFFEE,
        ("decline", ["size", "sugar"]),
        ("cancel", ["size", "sugar"]),
        COFFEE,
        ("Really large?", ["sure"]),
    ]


@asking_ways
async def test_url_sampling_and_roots_requests_of_an_sdk_server_are_answered(way: Way, target: Any) -> None:
    user = User()
    async with connect(target, timeouts=TIMEOUTS, revision=way.revision, handlers=user.handlers()) as client:
        answers = [
            await text(client, "sign_in"),
            await text(client, "think", about="coffee"),
            await text(client, "roots"),
            await text(client, "everything"),
        ]

    assert answers == ["accept", "a-model: coffee!", "file:///srv/data", "large, a-model, data"]
    assert user.asked[:2] == ["https://example.com/sign-in", ("coffee", 50, "Be brief.")]
    assert sorted(user.asked[2:]) == [COFFEE, ("tea?", 50, None)]


@pytest.mark.parametrize("way", ways("http", revisions=HANDSHAKE[:-1]), indirect=True, ids=str)
async def test_requests_of_an_sdk_server_in_older_revisions_are_answered(way: Way, target: Any) -> None:
    user = User()
    async with connect(target, timeouts=TIMEOUTS, revision=way.revision, handlers=user.handlers()) as client:
        thought = await text(client, "think", about="tea")
        roots = await text(client, "roots")

    assert (thought, roots) == ("a-model: tea!", "file:///srv/data")
    assert user.asked == [("tea", 50, "Be brief.")]


# If a prompt or a resource needs input, the SDK for Python can only respond with a round.
@pytest.mark.parametrize(
    "way", [way for way in ASKING if way.is_modern or way.sdk == "typescript"], indirect=True, ids=str
)
async def test_requests_of_prompts_and_resources_are_answered(way: Way, target: Any) -> None:
    user = User()
    async with connect(target, timeouts=TIMEOUTS, revision=way.revision, handlers=user.handlers()) as client:
        (message,) = (await client.get_prompt("interview")).messages
        (contents,) = (await client.read_resource("ask://tea")).contents

    assert isinstance(message.content, TextContent)
    assert message.content.text == "Serve a large coffee."
    assert isinstance(contents, TextResourceContents)
    assert contents.text == "large tea"
    assert user.asked == [COFFEE, COFFEE]


@pytest.mark.parametrize("way", ways("http", "json", "stateless", "sse"), indirect=True, ids=str)
async def test_request_without_a_client_capability_fails_the_call_only(way: Way, target: Any) -> None:
    """The client has declared no capability: the call fails, and the next one succeeds."""
    async with connect(target, timeouts=TIMEOUTS, revision=way.revision) as client:
        try:
            answer = await text(client, "order", message="Which coffee?")
        except MCPError as error:
            answer = f"error: {error}"
        after = await text(client, "locate", region="Oslo")

    assert answer.startswith("error: ")
    assert after == "in Oslo"
