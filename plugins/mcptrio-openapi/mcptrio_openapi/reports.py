"""What the operator wants to know of the APIs: the resource ``openapi:///apis``.

Made by the plugin whenever it is read. The one rule: no secrets, and no more than a document says of itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from .problems import DocumentProblem

__all__ = ["ApiReport", "Report"]


@frozen(kw_only=True)
class ApiReport:
    """One API."""

    name: str
    """In the configuration."""
    title: str
    """In the document."""
    base_urls: tuple[str, ...]
    tools: Mapping[str, str]
    """Method and path by the name of the tool."""
    problems: tuple[DocumentProblem, ...]


@frozen(kw_only=True)
class Report:
    """All of them."""

    apis: tuple[ApiReport, ...]
