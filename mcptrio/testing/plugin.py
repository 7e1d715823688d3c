"""The pytest plugin: fixtures ``mcp_…``, the marker ``mcp``, the option ``--mcp-update-snapshots``.

pytest loads it in every project of an environment, through the entry point ``pytest11``. To keep the start of other
projects fast, it imports only pytest, the standard library and small modules; everything else is imported on first use
through :mod:`mcptrio.testing`.

Fixtures read their values by name from the test's class or module, for example ``mcp_plugins = [my_plugin]`` at the top
of a file. A fixture of the same name, in the file or in conftest.py, replaces that of the plugin.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import pytest

from mcptrio import testing
from mcptrio.errors import ConfigError, MCPTrioError, PluginError
from mcptrio.ground.tracebacks import details_of, raise_single

if TYPE_CHECKING:
    from mcptrio.client.client import Client
    from mcptrio.client.handlers import Handlers
    from mcptrio.server import Server
    from mcptrio.testing import Case, Connect, Fault, KillableServer, Recording, Script, Served

__all__ = [
    "mcp_any_client",
    "mcp_case",
    "mcp_client",
    "mcp_client_options",
    "mcp_config",
    "mcp_connect",
    "mcp_handlers",
    "mcp_nothing_left",
    "mcp_plugins",
    "mcp_script",
    "mcp_server",
    "mcp_server_options",
    "mcp_tasks",
    "mcp_wire",
    "pytest_addoption",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_generate_tests",
    "pytest_pyfunc_call",
    "pytest_runtest_makereport",
    "pytest_terminal_summary",
]

# Fixtures that run inside trio.run.
_ASYNC = frozenset({"mcp_any_client", "mcp_client", "mcp_connect", "mcp_server", "mcp_tasks"})

_rewritten = pytest.StashKey[list[str]]()


# Parts of the server and the client


@pytest.fixture
def mcp_plugins(request: pytest.FixtureRequest) -> Sequence[Any]:
    """The plugins under test: modules and objects, names of installed plugins, paths of files."""
    declared = _declaration(request, "mcp_plugins", ())
    if not isinstance(declared, list | tuple):
        pytest.fail(f"mcp_plugins: expected a list, got {type(declared).__name__} at {request.path}", pytrace=False)
    return declared


@pytest.fixture
def mcp_config(request: pytest.FixtureRequest) -> Mapping[str, Mapping[str, Any]]:
    """Settings of the plugins by plugin name, as in ``[plugins]`` of ``mcptrio.toml``."""
    config: Mapping[str, Mapping[str, Any]] = _declaration(request, "mcp_config", {})
    return config


@pytest.fixture
def mcp_server_options(request: pytest.FixtureRequest) -> Mapping[str, Any]:
    """Further arguments of ``mcptrio.Server``: ``{"settings": ServerSettings(page_size=5)}``."""
    options: Mapping[str, Any] = _declaration(request, "mcp_server_options", {})
    return options


@pytest.fixture
def mcp_client_options(request: pytest.FixtureRequest) -> Mapping[str, Any]:
    """Further arguments of ``mcptrio.connect``: ``{"log_level": "debug"}``."""
    options: Mapping[str, Any] = _declaration(request, "mcp_client_options", {})
    return options


@pytest.fixture
def mcp_handlers(request: pytest.FixtureRequest, _mcp_script: Script | None) -> Handlers | None:
    """The client's handlers: those of ``mcp_script`` if the test uses it; by default none."""
    return _mcp_script.handlers() if _mcp_script is not None else _declaration(request, "mcp_handlers", None)


@pytest.fixture
def mcp_script() -> Script:
    """Scripted answers of the user and the model. The test fails if the server deviates from the script."""
    return testing.Script()


@pytest.fixture
def _mcp_script(request: pytest.FixtureRequest) -> Script | None:
    return request.getfixturevalue("mcp_script") if "mcp_script" in request.fixturenames else None


# The server and its clients


@pytest.fixture
def mcp_case(request: pytest.FixtureRequest) -> Case:
    """Revision and transport of this run, and whether handlers are replayed."""
    [case] = _cases(request.node, request.fixturenames)
    return case


@pytest.fixture
async def _mcp_served(
    request: pytest.FixtureRequest,
    mcp_case: Case,
    mcp_plugins: Sequence[Any],
    mcp_config: Mapping[str, Mapping[str, Any]],
    mcp_server_options: Mapping[str, Any],
    _mcp_wire: Recording | None,
) -> AsyncIterator[Served]:
    mcp_case = mcp_case.beside(request.path)
    spec = testing.ServerSpec(plugins=mcp_plugins, config=mcp_config, options=mcp_server_options)
    try:
        async with testing.open_served(spec, mcp_case, recording=_mcp_wire) as served:
            yield served
    except (ConfigError, PluginError) as error:
        failure = error
    else:
        return
    # Shows only the frames of the plugin's author, because those of mcptrio do not help.
    pytest.fail("\n".join(filter(None, (str(failure), details_of(failure)))), pytrace=False)


@pytest.fixture
def mcp_server(_mcp_served: Served) -> Server | None:
    """The open server; ``None`` over stdio, where it runs in another process."""
    return _mcp_served.server


@pytest.fixture
async def mcp_connect(
    _mcp_served: Served,
    mcp_handlers: Handlers | None,
    mcp_client_options: Mapping[str, Any],
    _mcp_script: Script | None,
) -> AsyncIterator[Connect]:
    """A function that connects a client to the server: ``async with mcp_connect() as client:``."""

    def connect(
        *,
        handlers: Handlers | None = None,
        revision: str | None = None,
        to_server: Sequence[Fault] = (),
        to_client: Sequence[Fault] = (),
    ) -> AbstractAsyncContextManager[Client]:
        return _mcp_served.connect(
            handlers=handlers if handlers is not None else mcp_handlers,
            revision=revision,
            to_server=to_server,
            to_client=to_client,
            options=mcp_client_options,
        )

    async with nullcontext() if _mcp_script is None else _mcp_script.watched():
        yield connect


@pytest.fixture
async def mcp_client(mcp_connect: Connect) -> AsyncIterator[Client]:
    """A client of the server; in memory and in the newest revision, unless a marker says otherwise."""
    async with mcp_connect() as client:
        yield client


@pytest.fixture
async def mcp_any_client(mcp_connect: Connect) -> AsyncIterator[Client]:
    """A client of the server, in each revision over each transport, unless a marker says otherwise."""
    async with mcp_connect() as client:
        yield client


@pytest.fixture
async def mcp_tasks(
    mcp_case: Case,
    mcp_plugins: Sequence[Any],
    mcp_config: Mapping[str, Mapping[str, Any]],
    mcp_server_options: Mapping[str, Any],
    mcp_handlers: Handlers | None,
    mcp_client_options: Mapping[str, Any],
    _mcp_script: Script | None,
) -> AsyncIterator[KillableServer]:
    """A server with a client, in memory, that the test can kill and resume; its tasks survive."""
    spec = testing.ServerSpec(plugins=mcp_plugins, config=mcp_config, options=mcp_server_options)
    options = {"revision": mcp_case.revision, **mcp_client_options}
    async with (
        nullcontext() if _mcp_script is None else _mcp_script.watched(),
        testing.open_killable(spec, handlers=mcp_handlers, options=options) as killable,
    ):
        yield killable


# Recordings and leaks


@pytest.fixture
def mcp_wire(request: pytest.FixtureRequest) -> Iterator[Recording]:
    """A recording of the messages, to compare with a file: ``mcp_wire.assert_wire("ask.txt")``."""
    config = request.config
    recording = testing.Recording(folder=request.path.parent, update=bool(config.getoption("--mcp-update-snapshots")))
    yield recording
    config.stash.setdefault(_rewritten, []).extend(str(file) for file in recording.rewritten)


@pytest.fixture
def _mcp_wire(request: pytest.FixtureRequest) -> Recording | None:
    return request.getfixturevalue("mcp_wire") if "mcp_wire" in request.fixturenames else None


@pytest.fixture
def mcp_nothing_left() -> Iterator[None]:
    """Fail the test if a thread, process, descriptor or socket is left at its end."""
    problem = ""
    try:
        with testing.nothing_left():
            yield
    except AssertionError as error:
        problem = str(error)
    if problem:
        pytest.fail(problem, pytrace=False)


# Hooks


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("mcptrio").addoption(
        "--mcp-update-snapshots",
        action="store_true",
        help="write the messages of a test into the snapshots, instead of comparing them",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "mcp(revisions, transports, replay=False, autojump=False): where a test of an MCP server runs; revisions and "
        'transports are lists; replay is True, "both" or a recording "x.jsonl"; autojump is for tests in memory.',
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once for each of its cases."""
    if "mcp_case" in metafunc.fixturenames:
        _check_async(metafunc)
        cases = _cases(metafunc.definition, metafunc.fixturenames)
        if len(cases) > 1 or "mcp_any_client" in metafunc.fixturenames:
            metafunc.parametrize("mcp_case", cases, ids=[str(case) for case in cases])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need Trio for pytest-trio, with the clock that they request, in either ``trio_mode``."""
    for item in items:
        if not isinstance(item, pytest.Function) or _ASYNC.isdisjoint(item.fixturenames):
            continue
        callspec = getattr(item, "callspec", None)
        case = callspec.params.get("mcp_case") if callspec is not None else None
        [case] = [case] if case is not None else _cases(item, item.fixturenames)
        if case.autojump:
            item.add_marker(pytest.mark.trio(run=testing.run_jumping), append=False)
        else:
            item.add_marker(pytest.mark.trio)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    """Fail a test whose script was not followed; unwrap exception groups of other failures."""
    script: Any = pyfuncitem.funcargs.get("mcp_script")
    passed: Any = None
    failed: BaseExceptionGroup[BaseException] | None = None
    try:
        passed = yield
    except BaseExceptionGroup as group:
        failed = group
    if failed is not None and (script is None or not script.problems):
        if _ASYNC.isdisjoint(pyfuncitem.fixturenames):
            raise failed
        raise_single(failed)
    # A deviation from the script has caused all other exceptions of the test.
    if script is not None:
        problem = ""
        try:
            script.check()
        except AssertionError as error:
            problem = str(error)
        if problem:
            pytest.fail(problem, pytrace=False)
    return passed


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Shorten the traceback of an error of mcptrio: it ends at the line that called mcptrio."""
    error = call.excinfo.value if call.excinfo is not None and call.when == "call" else None
    if not isinstance(error, MCPTrioError) or item.config.getoption("fulltrace"):
        return
    calling, entry = None, error.__traceback__
    while entry is not None:
        if not entry.tb_frame.f_globals.get("__name__", "").startswith("mcptrio."):
            calling = entry
        entry = entry.tb_next
    if calling is not None:
        calling.tb_next = None


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if rewritten := config.stash.get(_rewritten, []):
        terminalreporter.section("snapshots rewritten")
        for file in rewritten:
            terminalreporter.line(file)


# Private


def _declaration(request: pytest.FixtureRequest, name: str, default: Any) -> Any:
    """Return the value of a name in the test's class or module."""
    for place in (request.cls, getattr(request, "module", None)):
        if hasattr(place, name):
            return getattr(place, name)
    return default


def _check_async(metafunc: pytest.Metafunc) -> None:
    """Fail a test that uses async fixtures in a way that Trio cannot run."""
    used = _ASYNC.intersection(metafunc.fixturenames)
    if not used:
        return
    where = metafunc.definition.nodeid
    plugins = metafunc.config.pluginmanager
    if not (plugins.hasplugin("trio") or plugins.hasplugin("pytest_trio.plugin")):
        pytest.fail(f"{where}: {min(used)} needs pytest-trio: pip install pytest-trio", pytrace=False)
    if plugins.hasplugin("asyncio") and _asyncio_mode(metafunc.config) == "auto":
        problem = "pytest-asyncio runs all async fixtures in its mode auto; set asyncio_mode = strict"
        pytest.fail(f"{where}: {min(used)}: {problem}", pytrace=False)
    if hasattr(metafunc.function, "hypothesis"):
        # pytest-trio would set up the fixtures again for each example, and the test would still use the old ones.
        problem = "Hypothesis runs a test many times on one client; open a server inside the test, with open_served"
        pytest.fail(f"{where}: {min(used)}: {problem}", pytrace=False)
    if not inspect.iscoroutinefunction(metafunc.function):
        signature = f"async def {metafunc.function.__name__}"
        pytest.fail(f"{where}: {min(used)} needs an async test: {signature}", pytrace=False)


def _asyncio_mode(config: pytest.Config) -> str:
    return str(config.getoption("asyncio_mode", None) or config.getini("asyncio_mode"))


def _cases(node: Any, fixtures: Sequence[str]) -> list[Case]:
    markers = list(node.iter_markers("mcp"))
    for marker in markers:
        if marker.args:
            pytest.fail(f"{node.nodeid}: mcp: expected keyword arguments, got {marker.args[0]!r}", pytrace=False)
    try:
        return testing.cases_of(
            [marker.kwargs for marker in markers], everywhere="mcp_any_client" in fixtures, fixtures=fixtures
        )
    except ConfigError as error:
        pytest.fail(f"{node.nodeid}: {error}", pytrace=False)
