"""The revisions, their features and their methods."""

from __future__ import annotations

import pytest

from mcptrio.errors import Code
from mcptrio.protocol.model.methods import METHODS
from mcptrio.protocol.revisions.registry import (
    HANDSHAKE_VERSIONS,
    LATEST,
    LATEST_HANDSHAKE,
    MODERN_VERSIONS,
    REVISIONS,
    negotiate,
)
from mcptrio.protocol.revisions.revision import (
    BadArguments,
    ChangeDelivery,
    Inputs,
    LogLevel,
    NegotiationStyle,
    Revision,
)
from tests.error_codes import INVALID_PARAMS, RESOURCE_NOT_FOUND


def test_revisions_are_sorted() -> None:
    assert list(REVISIONS) == sorted(REVISIONS) == [*HANDSHAKE_VERSIONS, *MODERN_VERSIONS]
    assert all(revision.version == version for version, revision in REVISIONS.items())
    assert LATEST.version == "2026-07-28"
    assert LATEST_HANDSHAKE.version == "2025-11-25"
    assert str(LATEST) == LATEST.version


@pytest.mark.parametrize("version", HANDSHAKE_VERSIONS)
def test_known_version_is_negotiated(version: str) -> None:
    assert negotiate(version).version == version


@pytest.mark.parametrize("version", [*MODERN_VERSIONS, "2024-10-07", "1.0", "", "9999-12-31"])
def test_any_other_version_is_answered_with_the_newest_handshake(version: str) -> None:
    assert negotiate(version) is LATEST_HANDSHAKE


def test_features_of_each_revision() -> None:
    """One line for each revision, so that a change is visible."""
    table = {
        r.version: (
            r.batches,
            sorted(r.elicitation_modes),
            r.url_elicitation_error,
            r.bad_arguments,
            r.http.sessions,
            r.http.version_header,
            r.http.priming,
        )
        for r in REVISIONS.values()
    }

    assert table == {
        "2024-11-05": (False, [], False, BadArguments.PROTOCOL_ERROR, True, False, False),
        "2025-03-26": (True, [], False, BadArguments.PROTOCOL_ERROR, True, False, False),
        "2025-06-18": (False, ["form"], False, BadArguments.PROTOCOL_ERROR, True, True, False),
        "2025-11-25": (False, ["form", "url"], True, BadArguments.TOOL_ERROR, True, True, True),
        "2026-07-28": (False, ["form", "url"], False, BadArguments.TOOL_ERROR, False, True, False),
    }


@pytest.mark.parametrize("revision", REVISIONS.values(), ids=str)
def test_revisions_belong_to_two_eras(revision: Revision) -> None:
    features = (revision.lifecycle, revision.inputs, revision.log_level, revision.changes)

    assert features in [
        (NegotiationStyle.HANDSHAKE, Inputs.BACK_CHANNEL, LogLevel.SESSION, ChangeDelivery.UNSOLICITED),
        (NegotiationStyle.PER_REQUEST, Inputs.ROUND_TRIPS, LogLevel.PER_REQUEST, ChangeDelivery.LISTEN_STREAM),
    ]


def test_error_code_of_a_missing_resource_depends_on_the_revision() -> None:
    numbers = {
        r.codes.get(Code.RESOURCE_NOT_FOUND, Code.RESOURCE_NOT_FOUND)
        for v, r in REVISIONS.items()
        if v in HANDSHAKE_VERSIONS
    }

    assert numbers == {RESOURCE_NOT_FOUND}
    assert LATEST.codes[Code.RESOURCE_NOT_FOUND] == INVALID_PARAMS


def test_method_is_found_by_name_and_receiver() -> None:
    assert LATEST.server_methods.get("tools/call") is not None
    assert LATEST.client_methods.get("tools/call") is None
    assert LATEST.server_methods.get("initialize") is None
    assert LATEST_HANDSHAKE.client_methods.get("ping") is LATEST_HANDSHAKE.server_methods.get("ping") is not None
    assert LATEST_HANDSHAKE.server_methods.get("server/discover") is None


def test_completion_exists_before_its_capability() -> None:
    rows = [revision.server_methods.get("completion/complete") for revision in REVISIONS.values()]
    gates = [row and row.capability for row in rows]

    assert gates == [None, "completions", "completions", "completions", "completions"]


def test_method_has_one_row_per_revision() -> None:
    for revision in REVISIONS.values():
        spoken = [
            row
            for row in METHODS
            if revision.server_methods.get(row.name) is row or revision.client_methods.get(row.name) is row
        ]

        assert len({row.name for row in spoken}) == len(spoken)
