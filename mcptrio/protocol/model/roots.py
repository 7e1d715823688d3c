"""Roots: the folders that a server may use.

Source: MCP 2025-11-25, client/roots; MCP 2026-07-28, client/roots.
"""

from __future__ import annotations

from typing import ClassVar

from mcptrio.protocol.model.base import Params, Result
from mcptrio.protocol.model.fields import Meta, field, model

__all__ = ["ListRootsParams", "ListRootsResult", "Root"]


@model
class Root:
    """One root."""

    uri: str = field()
    """``file://`` in every revision so far."""
    name: str | None = field(default=None)
    meta: Meta | None = field(default=None, name="_meta", since="2025-06-18")


@model
class ListRootsParams(Params):
    """The parameters of ``roots/list``."""


@model
class ListRootsResult(Result):
    """The answer to ``roots/list``."""

    result_type: ClassVar[None] = None
    meta: Meta | None = field(default=None, name="_meta", until="2026-07-28")
    roots: tuple[Root, ...] = field()
