"""Settings and limits are immutable values; each limit has a finite default."""

from __future__ import annotations

from functools import partial
from math import inf, isfinite, nan
from typing import Any

import attrs
import pytest

from mcptrio import Server, prompt, resource, tool
from mcptrio.serving import ServerLimits, ServerSettings

__all__: list[str] = []


def test_every_limit_and_timeout_is_finite() -> None:
    settings = ServerSettings()
    values = {**attrs.asdict(settings.limits), **attrs.asdict(settings.timeouts)}

    assert values
    assert all(isfinite(value) and value > 0 for value in values.values())


def test_settings_are_immutable() -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        ServerSettings().ping_interval = 5  # type: ignore[misc]
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        ServerLimits().requests = 5  # type: ignore[misc]


@pytest.mark.parametrize("value", [-1, nan, "5", None, 1.5])
@pytest.mark.parametrize("name", [each.name for each in attrs.fields(ServerLimits) if each.name != "logs_per_second"])
def test_limit_that_is_not_an_integer_is_refused(name: str, value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=name):
        ServerLimits(**{name: value})


@pytest.mark.parametrize("name", [each.name for each in attrs.fields(ServerLimits) if each.name != "parked"])
def test_only_the_parking_limit_can_be_zero(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        ServerLimits(**{name: 0})
    assert ServerLimits(parked=0).parked == 0


@pytest.mark.parametrize("value", [-1, nan, "5", None])
def test_negative_interval_is_refused(value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="ping_interval"):
        Server(settings=ServerSettings(ping_interval=value))


@pytest.mark.parametrize("value", [0, -1, nan, "5"])
def test_timeout_of_a_function_must_be_positive(value: Any) -> None:
    async def work() -> str:
        return ""

    server = Server()
    for add in (server.add_tool, server.add_prompt, lambda f, **options: server.add_resource(f, "a://b", **options)):
        with pytest.raises((TypeError, ValueError), match="timeout"):
            add(work, timeout=value)
    for mark in (tool, prompt, partial(resource, "a://c")):
        with pytest.raises((TypeError, ValueError), match="timeout"):
            mark(timeout=value)(work)
    server.add_tool(work, timeout=inf)
