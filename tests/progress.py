"""Progress of collection, for output that is not a terminal.

Registered by conftest.py. On a terminal pytest itself shows how many tests it has collected. Into a pipe or a file it
writes nothing until the last test file is imported, and Python buffers the header, so a run looks hung meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Generator

import pytest

__all__ = ["CollectionProgress"]

INTERVAL = 5.0
"""Seconds between two lines."""


class CollectionProgress:
    """Write a line when collection starts and another every few seconds, and flush each."""

    def __init__(self, reporter: pytest.TerminalReporter) -> None:
        self._reporter = reporter
        self._files = self._tests = 0
        self._written = 0.0

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection(self) -> Generator[None, object, object]:
        self._write("collecting tests ...")
        return (yield)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._files += report.nodeid.endswith(".py")
        self._tests += sum(isinstance(each, pytest.Item) for each in report.result)
        if time.monotonic() >= self._written + INTERVAL:
            self._write(f"collecting tests ... {self._tests} in {self._files} files")

    def _write(self, line: str) -> None:
        self._reporter.write_line(line)
        self._reporter.flush()
        self._written = time.monotonic()
