"""The table of the handshake: the messages that each side may send in each phase."""

from __future__ import annotations

import pytest

from mcptrio.protocol.state import Phase, may_receive, may_send

__all__: list[str] = []

ANY = ("tools/call", "notifications/roots/list_changed", "acme/own")


@pytest.mark.parametrize(
    ("phase", "method", "legal"),
    [
        (Phase.NEW, "initialize", True),
        (Phase.NEW, "ping", True),
        (Phase.NEW, "notifications/initialized", False),
        (Phase.INITIALIZING, "initialize", False),
        (Phase.INITIALIZING, "ping", True),
        (Phase.INITIALIZING, "notifications/cancelled", True),
        *((Phase.NEW, method, False) for method in ANY),
        *((Phase.INITIALIZING, method, False) for method in ANY),
        *((Phase.NEGOTIATED, method, True) for method in ANY),
        *((Phase.READY, method, True) for method in ANY),
    ],
)
def test_methods_a_client_may_send_in_each_phase(phase: Phase, method: str, legal: bool) -> None:
    assert may_receive(phase, method) is legal


@pytest.mark.parametrize(
    ("phase", "method", "legal"),
    [
        (Phase.NEW, "ping", False),
        (Phase.INITIALIZING, "ping", True),
        (Phase.INITIALIZING, "notifications/message", False),
        (Phase.NEGOTIATED, "ping", True),
        (Phase.NEGOTIATED, "notifications/message", True),
        (Phase.NEGOTIATED, "roots/list", False),
        (Phase.NEGOTIATED, "notifications/tools/list_changed", False),
        (Phase.READY, "roots/list", True),
    ],
)
def test_methods_a_server_may_send_in_each_phase(phase: Phase, method: str, legal: bool) -> None:
    assert may_send(phase, method) is legal
