"""Settings and limits are values; each limit has a default, and none is without end."""

from __future__ import annotations

from math import isfinite

import attrs
import pytest

from mcptrio.runtime.limits import Limits
from mcptrio.runtime.settings import Settings

__all__: list[str] = []


def test_every_limit_and_time_ends_somewhere() -> None:
    settings = Settings()
    values = {**attrs.asdict(settings.limits), **attrs.asdict(settings.timeouts)}

    assert values
    assert all(isfinite(value) and value > 0 for value in values.values())


def test_they_do_not_change() -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        Settings().ping_interval = 5  # type: ignore[misc]
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        Limits().requests = 5  # type: ignore[misc]
