"""Timeouts: how the timeouts of server, plugin, tool and caller combine."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcptrio.runtime.timeouts import CALL_TIMEOUT, Timeouts, call_timeout

__all__: list[str] = []

seconds = st.floats(min_value=0.001, max_value=1e6)


@given(seconds, seconds, seconds)
def test_timeout_of_the_author_replaces_the_request_timeout(request: float, idle: float, to: float) -> None:
    bounded = Timeouts(request=request, idle=idle, input=7).with_request(to)

    assert (bounded.request, bounded.idle, bounded.input) == (to, to, 7)


@pytest.mark.parametrize("value", [0, -1, -inf, nan])
def test_timeout_that_is_not_positive_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="request"):
        Timeouts(request=value)


@pytest.mark.parametrize(
    ("value", "read"),
    [(5, 5.0), (0.5, 0.5), (0, None), (-1, None), (True, None), ("5", None), (None, None), (nan, None), ([], None)],
)
def test_call_timeout_is_read_from_the_metadata(value: Any, read: float | None) -> None:
    assert call_timeout({CALL_TIMEOUT: value}) == read
    assert call_timeout({}) is None
    assert call_timeout(None) is None
