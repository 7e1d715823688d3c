"""The sealed state: only its owner can open it, and all other attempts get the same error."""

from __future__ import annotations

import logging
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcptrio.errors import InvalidParams
from mcptrio.protocol.events import Peer, RequestReceived
from mcptrio.protocol.revisions.registry import LATEST
from mcptrio.runtime import request_state
from mcptrio.runtime.request_state import LIFETIME, Journal, KeyRing, digest_of, open_state, seal_state

__all__: list[str] = []

OLD, NEW, OTHER = b"old key of sixteen", b"new key of sixteen", b"other key, sixteen"
SAME: dict[str, str] = {"audience": "here", "principal": "ann", "digest": "d"}
JOURNAL = Journal(round=2, answers={"a": {"action": "accept"}}, once={"e": [1]}, question_keys=("b",), ticket="t")


def test_sealed_values_round_trip() -> None:
    ring = KeyRing([NEW])

    assert open_state(ring, seal_state(ring, JOURNAL, **SAME), **SAME) == JOURNAL


def test_sealed_states_of_equal_values_differ() -> None:
    ring = KeyRing([NEW])

    assert len({seal_state(ring, JOURNAL, **SAME) for _ in range(10)}) == 10


def test_first_key_seals_and_all_keys_open() -> None:
    before, during, after = KeyRing([OLD]), KeyRing([NEW, OLD]), KeyRing([NEW])
    old, new = seal_state(before, JOURNAL, **SAME), seal_state(during, JOURNAL, **SAME)

    assert open_state(during, old, **SAME) == open_state(during, new, **SAME) == open_state(after, new, **SAME)
    for ring, sealed in ((before, new), (after, old)):
        with pytest.raises(InvalidParams):
            open_state(ring, sealed, **SAME)


def test_each_process_has_its_own_key_by_default() -> None:
    sealed = seal_state(KeyRing(), JOURNAL, **SAME)

    with pytest.raises(InvalidParams):
        open_state(KeyRing(), sealed, **SAME)


def test_short_key_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 16 bytes"):
        KeyRing([NEW, b"short"])


def test_all_failed_checks_give_the_same_error_and_the_log_has_the_reason(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.WARNING)
    ring = KeyRing([NEW])
    sealed = seal_state(ring, JOURNAL, **SAME)
    middle = len(sealed) // 2
    altered = sealed[:middle] + ("A" if sealed[middle] != "A" else "B") + sealed[middle + 1 :]
    cases: list[tuple[KeyRing, str, dict[str, str]]] = [
        (ring, altered, SAME),
        (ring, sealed[:-8], SAME),
        (ring, "", SAME),
        (ring, "no base64!", SAME),
        (ring, "é", SAME),
        (ring, "\ud800", SAME),
        (ring, "=" * 100, SAME),
        (KeyRing([OTHER]), sealed, SAME),
        (ring, sealed, {**SAME, "audience": "elsewhere"}),
        (ring, sealed, {**SAME, "principal": "bob"}),
        (ring, sealed, {**SAME, "principal": ""}),
        (ring, sealed, {**SAME, "digest": "other"}),
    ]
    messages = set()
    for keys, state, asked in cases:
        with pytest.raises(InvalidParams) as refusal:
            open_state(keys, state, **asked)
        messages.add((refusal.value.message, str(refusal.value.data)))
    later = time.time() + LIFETIME + 10
    monkeypatch.setattr(request_state.time, "time", lambda: later)
    with pytest.raises(InvalidParams) as refusal:
        open_state(ring, sealed, **SAME)
    messages.add((refusal.value.message, str(refusal.value.data)))

    assert len(messages) == 1
    assert len(caplog.records) == len(cases) + 1
    for what in ("altered", "not in the ring", "another principal", "another request", "expired", "base64url"):
        assert what in caplog.text


@settings(max_examples=200, deadline=None)
@given(
    st.text(max_size=200) | st.binary(max_size=100).map(lambda data: KeyRing([NEW]).seal(data, audience=b"here")[3:])
)
def test_foreign_request_state_is_refused(state: str) -> None:
    with pytest.raises(InvalidParams):
        open_state(KeyRing([NEW]), state, **SAME)


def request(**params: Any) -> RequestReceived:
    method = LATEST.server_methods.get("tools/call")
    assert method is not None
    return RequestReceived(1, method, LATEST.structure({"name": "t", **params}, method.params), Peer(revision=LATEST))


def test_digest_covers_the_request_without_its_round() -> None:
    first = request(arguments={"a": 1, "b": [2]})

    assert digest_of(first) == digest_of(
        request(
            arguments={"b": [2], "a": 1},
            _meta={"progressToken": 5},
            inputResponses={"x": {}},
            requestState="s",
        )
    )
    assert digest_of(first) != digest_of(request(arguments={"a": 1, "b": [3]}))
    assert digest_of(first) != digest_of(request(arguments={"a": 1, "b": [2]}, name="u"))
