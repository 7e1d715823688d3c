"""The report on the APIs for the operator: the resource ``openapi:///apis``.

The plugin makes it for each reading. It contains no secrets, and of a document only its own texts.
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
    """Method and path, or the number of operations, by the name of the tool."""
    problems: tuple[DocumentProblem, ...]


@frozen(kw_only=True)
class Report:
    """The reports of all APIs."""

    apis: tuple[ApiReport, ...]
