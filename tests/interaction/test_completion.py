"""Completion by functions, lists and choices: ranked, and limited to a hundred values."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Literal

import pytest

from mcptrio import Context, completion, prompt, resource
from tests.error_codes import INTERNAL_ERROR, INVALID_PARAMS
from tests.interaction.applies import SINCE_2025_06, only
from tests.interaction.client import Peer
from tests.interaction.serving import Serve

CITIES = ["Paris", "Porto", "Prague", "Le Port", "Berlin", "report"]


class Seat(Enum):
    WINDOW = "window"
    AISLE = "aisle"


@prompt
async def travel(
    city: str,
    street: str = "",
    kind: Literal["train", "plane"] = "train",
    fast: bool = False,
    seat: Seat | None = None,
    meal: Literal["fish", "fruit"] | None = None,
) -> str:
    """Travel."""
    return f"{city} {street} {kind} {fast}"


@resource("notes://{name}")
async def note(name: str) -> str:
    """A note."""
    return name


@completion("prompt", "travel", "city")
async def cities(value: str) -> list[str]:
    """Cities."""
    return CITIES


@completion("prompt", "travel", "street")
async def streets(value: str, arguments: Mapping[str, str]) -> list[str]:
    """Streets of the city."""
    return [f"{arguments.get('city', 'nowhere')} {street}" for street in ("north", "south")]


@completion("resource", "notes://{name}", "name")
async def names(ctx: Context) -> list[str]:
    """Names of notes."""
    return [f"note-{number:03}" for number in range(250)]


async def _complete(peer: Peer, ref: str, argument: str, value: str, **more: Any) -> dict[str, Any]:
    wire = {"type": "ref/resource", "uri": ref} if "://" in ref else {"type": "ref/prompt", "name": ref}
    params = {"ref": wire, "argument": {"name": argument, "value": value}, **more}
    found: dict[str, Any] = (await peer.request("completion/complete", params))["completion"]
    return found


async def test_completion_candidates_are_ranked(serve: Serve) -> None:
    peer = await serve(travel, cities)

    assert (await _complete(peer, "travel", "city", "Po"))["values"][:1] == ["Porto"]
    assert (await _complete(peer, "travel", "city", "port"))["values"] == ["Porto", "Le Port", "report"]
    assert (await _complete(peer, "travel", "city", "xyz"))["values"] == []


async def test_empty_value_matches_every_candidate(serve: Serve) -> None:
    peer = await serve(travel, cities)

    found = await _complete(peer, "travel", "city", "")

    assert found["values"] == CITIES
    assert found["total"] == len(CITIES)
    assert not found.get("hasMore")


async def test_at_most_a_hundred_candidates_are_sent(serve: Serve) -> None:
    peer = await serve(note, names)

    found = await _complete(peer, "notes://{name}", "name", "note")

    assert len(found["values"]) == 100
    assert found["total"] == 250
    assert found["hasMore"] is True


async def test_list_of_candidates_completes_an_argument(serve: Serve) -> None:
    peer = await serve(travel)
    serve.server.add_completion(CITIES, "prompt", "travel", "city")

    assert (await _complete(peer, "travel", "city", "Ber"))["values"] == ["Berlin"]


async def test_choice_arguments_are_completed_without_a_function(serve: Serve) -> None:
    peer = await serve(travel)

    assert (await _complete(peer, "travel", "kind", "tr"))["values"] == ["train"]
    assert (await _complete(peer, "travel", "fast", ""))["values"] == ["true", "false"]
    assert sorted((await _complete(peer, "travel", "seat", ""))["values"]) == ["aisle", "window"]
    assert sorted((await _complete(peer, "travel", "meal", ""))["values"]) == ["fish", "fruit"]
    assert (await _complete(peer, "travel", "city", ""))["values"] == []


@only(revisions=SINCE_2025_06, because="the context came with 2025-06-18")
async def test_completion_function_receives_the_other_arguments(serve: Serve) -> None:
    peer = await serve(travel, streets)

    found = await _complete(peer, "travel", "street", "", context={"arguments": {"city": "Porto"}})

    assert found["values"] == ["Porto north", "Porto south"]


async def test_completion_function_without_context_gets_no_other_arguments(serve: Serve) -> None:
    peer = await serve(travel, streets)

    assert (await _complete(peer, "travel", "street", "n"))["values"][0] == "nowhere north"


async def test_unknown_reference_or_argument_is_invalid_params(serve: Serve) -> None:
    peer = await serve(travel, note)

    for ref, argument in (
        ({"type": "ref/prompt", "name": "nobody"}, "city"),
        ({"type": "ref/prompt", "name": "travel"}, "colour"),
        ({"type": "ref/resource", "uri": "nobody://{x}"}, "x"),
        ({"type": "ref/tool", "name": "travel"}, "city"),
    ):
        error = await peer.error("completion/complete", {"ref": ref, "argument": {"name": argument, "value": ""}})

        assert error["code"] == INVALID_PARAMS, ref


async def test_completion_value_over_the_length_limit_is_refused(serve: Serve) -> None:
    peer = await serve(travel)

    params = {"ref": {"type": "ref/prompt", "name": "travel"}, "argument": {"name": "city", "value": "a" * 5000}}
    error = await peer.error("completion/complete", params)

    assert error["code"] == INVALID_PARAMS


@only(transports=["memory"], because="only in memory is there a mock clock, which skips the waits")
async def test_completions_over_the_rate_are_refused(serve: Serve) -> None:
    peer = await serve(travel)
    params = {"ref": {"type": "ref/prompt", "name": "travel"}, "argument": {"name": "city", "value": ""}}

    calls = [await peer.start("completion/complete", params) for _ in range(150)]
    answers = [await call.wait() for call in calls]

    refused = [answer for answer in answers if "error" in answer]
    assert 40 <= len(refused) <= 50
    assert "too many" in refused[0]["error"]["message"]


async def test_error_of_a_completion_function_is_not_disclosed(serve: Serve) -> None:
    @completion("prompt", "travel", "city")
    async def broken(value: str) -> list[str]:
        """Fail."""
        raise OSError("/etc/secret")

    peer = await serve(travel, broken)

    params = {"ref": {"type": "ref/prompt", "name": "travel"}, "argument": {"name": "city", "value": ""}}
    error = await peer.error("completion/complete", params)

    assert error["code"] == INTERNAL_ERROR
    assert "secret" not in str(error)


def test_completion_of_an_unknown_kind_is_refused() -> None:
    of: Any = "template"
    with pytest.raises(ValueError, match=r"'of' must be in \('prompt', 'resource'\)"):
        completion(of, "notes://{name}", "name")
