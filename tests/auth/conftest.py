"""The ``world`` fixture: an MCP server, its authorization server and its user."""

from __future__ import annotations

import pytest

from tests.auth.client_parts import World

__all__: list[str] = []


@pytest.fixture
def world() -> World:
    return World()
