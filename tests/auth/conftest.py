"""The fixture ``peers``: an MCP server, its authorization server and its user."""

from __future__ import annotations

import pytest

from tests.auth.client_parts import OAuthPeers

__all__: list[str] = []


@pytest.fixture
def peers() -> OAuthPeers:
    return OAuthPeers()
