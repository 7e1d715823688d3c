"""Options, hooks and the leak check of every test below this directory, and the environment in which they run."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, settings

from tests.leaks import adopt_orphans, nothing_left
from tests.progress import CollectionProgress

__all__ = ["nothing_left", "own_options", "pytest_addoption", "pytest_collection_modifyitems", "pytest_configure"]

_INTERACTION = Path(__file__).parent / "interaction"

adopt_orphans()

# Token files that a group may write are refused; with a umask that allows it, tests would write such files.
os.umask(0o022)

# A shell starts background jobs with interrupts ignored, and children would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# For a long run: `pytest --hypothesis-profile=long tests/fuzz`. Otherwise each property is tried a hundred times.
settings.register_profile("long", max_examples=50_000, deadline=None)
# A slow example on a busy machine is not a failure.
settings.register_profile("patient", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--without-transports", default="", help="Leave out what is tried over these (http,stdio): another run has it."
    )


@pytest.hookimpl(trylast=True)  # once there is a reporter
def pytest_configure(config: pytest.Config) -> None:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if isinstance(reporter, pytest.TerminalReporter) and not reporter.isatty():
        config.pluginmanager.register(CollectionProgress(reporter))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = set(config.getoption("--without-transports").split(","))
    gone = [
        item
        for item in items
        if isinstance(item, pytest.Function)
        and hasattr(item, "callspec")
        and item.callspec.params.get("transport") in left_out
        and item.path.is_relative_to(_INTERACTION)
    ]
    if gone:
        config.hook.pytest_deselected(items=gone)
        taken = set(gone)
        items[:] = [item for item in items if item not in taken]


@pytest.fixture(scope="session", autouse=True)
def own_options() -> Iterator[None]:
    """Keep the options of this run from the runs that tests start, and their control sockets from the user's."""
    os.environ.pop("PYTEST_ADDOPTS", None)
    # Workers of pytest-xdist have a width, which a terminal that a test makes must not have.
    os.environ.pop("COLUMNS", None)
    os.environ.pop("LINES", None)
    # Not the folder of pytest, whose path is longer than that of a socket may be.
    with TemporaryDirectory(prefix="mt", ignore_cleanup_errors=True) as name:
        os.environ["XDG_RUNTIME_DIR"] = name
        yield
