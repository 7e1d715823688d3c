"""The report on the APIs for the operator: the resource ``openapi:///apis``.

The plugin makes a new report each time the resource is read. A report contains no secrets.
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
    """The name of the API in the configuration."""
    title: str
    """The title of the API in its document."""
    base_urls: tuple[str, ...]
    tools: Mapping[str, str]
    """For each tool by name, the method and path of its operation, or the number of its operations."""
    problems: tuple[DocumentProblem, ...]


@frozen(kw_only=True)
class Report:
    """The reports of all APIs."""

    apis: tuple[ApiReport, ...]
