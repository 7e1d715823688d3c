"""Imports point to lower layers, one module compares versions, and only named modules catch every exception.

The tests read the syntax trees, so an import inside a function counts as well. Each rule is also tested with a source
that breaks it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TypeAlias

import pytest

__all__: list[str] = []

PACKAGE = Path(__file__).resolve().parent.parent / "mcptrio"

LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors",),
    ("ground",),
    ("protocol",),
    ("abc", "outbox", "settings", "schema"),
    ("runtime", "transports", "stores", "auth"),
    ("http", "auth.server", "auth.client", "tasks", "recording"),
    ("http.engine", "http.server", "http.client"),
    ("http.hypercorn",),
    ("capabilities",),
    ("plugins",),
    ("server", "client", "telemetry"),
    ("connecting", "serve", "plugins.middleware"),
    ("host",),
    ("mounting", "cli.terminal"),
    ("testing", "cli"),
    ("", "__main__", "net", "serving", "types"),
)
"""The packages, from the lowest layer up. A package imports only from itself and from the packages in lower layers.
``http.engine`` is a package inside ``http``; the other modules of ``http`` count as the package ``http``.
"""

TIED = ("mcptrio.http.engine.exchange", "mcptrio.http.engine.websocket")
"""Modules that know the type of what makes them."""

FRONTS = (
    *("mcptrio.auth", "mcptrio.client", "mcptrio.host", "mcptrio.schema", "mcptrio.stores"),
    "mcptrio.telemetry",
)
"""Lists of public names. They name the module of each name, in any layer, and import it when it is first used."""

LAZY: frozenset[tuple[str, str]] = frozenset(
    {
        # Where no argument is checked against a schema written by hand.
        ("mcptrio.schema.validation", "jsonschema_rs"),
        # Where only files are served; it brings a parser for mails along.
        ("mcptrio.plugins.discovery", "importlib.metadata"),
        # Most servers keep their sessions in memory.
        ("mcptrio.stores.opening", "mcptrio.stores.sqlite"),
        # An extra, for servers and clients with telemetry.
        ("mcptrio.telemetry.global_tracing", "mcptrio.telemetry.tracer"),
        ("mcptrio.telemetry.otlp", "opentelemetry"),
        ("mcptrio.telemetry.otlp", "opentelemetry.exporter.otlp.proto.http.metric_exporter"),
        ("mcptrio.telemetry.otlp", "opentelemetry.sdk.metrics"),
        ("mcptrio.telemetry.otlp", "opentelemetry.sdk.metrics.export"),
        ("mcptrio.telemetry.global_tracing", "mcptrio.telemetry.otel_metrics"),
        ("mcptrio.serve.served_metrics", "mcptrio.http.engine.server"),
        ("mcptrio.serve.served_metrics", "mcptrio.serve.metrics_page"),
        ("mcptrio.serve.served_metrics", "mcptrio.telemetry.otel_metrics"),
        ("mcptrio.serve.served_metrics", "mcptrio.telemetry.prometheus"),
        ("mcptrio.telemetry.otlp", "opentelemetry.exporter.otlp.proto.http.trace_exporter"),
        ("mcptrio.telemetry.otlp", "opentelemetry.sdk.resources"),
        ("mcptrio.telemetry.otlp", "opentelemetry.sdk.trace"),
        ("mcptrio.telemetry.otlp", "opentelemetry.sdk.trace.export"),
        # Where clients show TLS certificates, and those say who they are.
        ("mcptrio.auth.server.certificates", "cryptography"),
        # An HTTP server to which no client opens a WebSocket.
        ("mcptrio.http.engine.connection", "mcptrio.http.engine.websocket"),
        # A server that never parks a request, stdio in a handshake revision, seals nothing.
        ("mcptrio.runtime.request_state", "cryptography.exceptions"),
        ("mcptrio.runtime.request_state", "cryptography.hazmat.primitives.ciphers.aead"),
        # If the server has no URL and no user logs in.
        ("mcptrio.cli.client.running", "mcptrio.cli.client.credentials"),
        ("mcptrio.cli.client.running", "mcptrio.cli.client.signing_in"),
        # Help, and a command without an error.
        ("mcptrio.cli.help_pages", "mcptrio.cli.terminal.layout"),
        # Where no token is signed or verified.
        ("mcptrio.auth.jose", "cryptography.exceptions"),
        ("mcptrio.auth.jose", "joserfc"),
        ("mcptrio.auth.jose", "joserfc.errors"),
        # An extra, and slow to look for its backends.
        ("mcptrio.stores.tokens_keyring", "keyring"),
        ("mcptrio.stores.tokens_keyring", "keyring.backends.fail"),
        ("mcptrio.stores.tokens_keyring", "keyring.backends.null"),
        ("mcptrio.stores.tokens_keyring", "keyring.errors"),
    }
)
"""``(module, imported)``: heavy libraries, or parts of ours that load one, imported when needed, to start fast."""

EDGES = (
    "mcptrio.cli",
    "mcptrio.cli.group",
    "mcptrio.serve.http",
    "mcptrio.serve.http_options",
    "mcptrio.connecting.connect",
    "mcptrio.cli.serve",
    "mcptrio.cli.worker",
    "mcptrio.cli.server.auth",
    "mcptrio.cli.server.config_options",
    "mcptrio.cli.server.plugin_server",
    "mcptrio.cli.dev",
)
"""The needs of a command or a transport are imported when it runs: stdio loads no HTTP stack."""

DATED = (
    "mcptrio.protocol.model",
    "mcptrio.protocol.revisions",
    "mcptrio.extensions",
    "mcptrio.cli.package.server_json",  # that of the registry's schema
)
"""Files that may contain the date of a revision in a string."""

CATCHES_ALL = (
    "mcptrio.ground.guarded",
    "mcptrio.http.hypercorn.connection",  # Hypercorn's failure in one connection ends that one only
    "mcptrio.http.engine.engine",  # the application's in one request, that one
    "mcptrio.http.engine.server",  # ours in one connection, that one
    "mcptrio.http.engine.lifespan",  # "If an exception is raised", the application has no lifespan
)
COMPARES_VERSIONS = (
    "mcptrio.protocol.revisions.registry",
    "mcptrio.protocol.model.fields",  # exists_in(): since and until of a field, read by the converters
)

RESCHEDULES = "mcptrio.ground.waiter"
"""The one module that knows when a task may be rescheduled."""

ORDERING = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)

Modules: TypeAlias = Mapping[str, ast.Module]
Rule: TypeAlias = Callable[[Modules], Iterator[str]]


@cache
def read() -> dict[str, ast.Module]:
    """The syntax tree of every module, by dotted name."""
    modules = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = ("mcptrio", *path.relative_to(PACKAGE).with_suffix("").parts)
        modules[".".join(parts).removesuffix(".__init__")] = ast.parse(path.read_text("utf-8"), path)
    return modules


def imports(name: str, modules: Modules) -> Iterator[tuple[str, ast.stmt]]:
    """Yield the imports of a module as dotted names: the submodule if there is one, otherwise the module."""
    for node in ast.walk(modules[name]):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            for alias in node.names:
                yield (f"{base}.{alias.name}" if f"{base}.{alias.name}" in modules else base), node


def place(name: str) -> tuple[int, str]:
    """The number of the layer and the package of a module of ours.

    Raises:
        LookupError: No layer has a package for the module.
    """
    if name in FRONTS:
        return len(LAYERS) - 1, ""
    inner = name.removeprefix("mcptrio").removeprefix(".")
    found = [
        (number, package)
        for number, packages in enumerate(LAYERS)
        for package in packages
        if inner == package or (package and inner.startswith(f"{package}."))
    ]
    if not found:
        raise LookupError(f"{name}: no layer has a package for it")
    return max(found, key=lambda each: len(each[1]))


def upward_imports(modules: Modules) -> Iterator[str]:
    for name in modules:
        layer, package = place(name)
        for target, node in imports(name, modules):
            if target.startswith("."):
                yield f"{name}:{node.lineno} imports {target}: expected the full name"
            elif target.partition(".")[0] == "mcptrio":
                below, other = place(target)
                if below > layer or (below == layer and other != package and layer < len(LAYERS) - 1):
                    yield f"{name}:{node.lineno} ({package}, layer {layer}) imports {target} ({other}, layer {below})"


def circles(modules: Modules) -> Iterator[str]:
    """Circles of imports, those for types included."""
    graph: dict[str, set[str]] = {}
    for name, tree in modules.items():
        for_types = _for_types(tree) if name in TIED else set()
        graph[name] = {to for to, node in imports(name, modules) if to in modules and id(node) not in for_types}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as circle:
        yield " imports ".join(reversed(circle.args[1]))


def late_imports(modules: Modules) -> Iterator[str]:
    for name, tree in modules.items():
        late = {
            id(inner)
            for outer in ast.walk(tree)
            if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda)
            for inner in ast.walk(outer)
        }
        for target, node in imports(name, modules):
            if id(node) in late and name not in EDGES and (name, target) not in LAZY:
                yield f"{name}:{node.lineno} imports {target} inside a function"


def stray_dates(modules: Modules) -> Iterator[str]:
    for name, tree in modules.items():
        if name.startswith(DATED):
            continue
        prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            text = node.value if isinstance(node, ast.Constant) and id(node) not in prose else None
            if isinstance(text, str) and (match := re.search(r"\b20\d\d-\d\d-\d\d\b", text)):
                yield f"{name}:{getattr(node, 'lineno', '?')} has the date {match[0]} in a string"


def version_comparisons(modules: Modules) -> Iterator[str]:
    for name, tree in modules.items():
        if name in COMPARES_VERSIONS:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Compare) and any(isinstance(op, ORDERING) for op in node.ops):
                words = {_last_word(operand) for operand in (node.left, *node.comparators)}
                if words & {"version", "revision", "protocol_version"}:
                    yield f"{name}:{node.lineno} compares versions"


def broad_catches(modules: Modules) -> Iterator[str]:
    for name, tree in modules.items():
        if name in CATCHES_ALL:
            continue
        for node in ast.walk(tree):
            caught: list[ast.expr] = []
            if isinstance(node, ast.ExceptHandler):
                everything = ast.Name("BaseException")  # a bare except
                caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type or everything]
            elif isinstance(node, ast.Call) and _last_word(node.func) == "suppress":
                caught = node.args
            if broad := {_last_word(kind) for kind in caught} & {"Exception", "BaseException"}:
                yield f"{name}:{getattr(node, 'lineno', '?')} catches {', '.join(sorted(broad))}"


def tasks_rescheduled_by_hand(modules: Modules) -> Iterator[str]:
    for name, tree in modules.items():
        for node in ast.walk(tree):
            if name != RESCHEDULES and _last_word(node) in {"reschedule", "wait_task_rescheduled"}:
                yield f"{name}:{getattr(node, 'lineno', '?')} reschedules a task: use mcptrio.ground.waiter"


def undeclared(modules: Modules) -> Iterator[str]:
    for name, tree in modules.items():
        if ast.get_docstring(tree) is None:
            yield f"{name} has no docstring"
        targets = {target.id for node in tree.body for target in _assigned(node)}
        if "__all__" not in targets and len(tree.body) > 1 and not name.endswith("__main__"):
            yield f"{name} has no __all__"


def _for_types(tree: ast.Module) -> set[int]:
    """The statements below ``if TYPE_CHECKING:``, which are not run; they still may not point up."""
    return {
        id(inner)
        for outer in tree.body
        if isinstance(outer, ast.If) and getattr(outer.test, "id", "") == "TYPE_CHECKING"
        for inner in ast.walk(outer)
    }


def _last_word(expression: ast.AST) -> str:
    return expression.attr if isinstance(expression, ast.Attribute) else getattr(expression, "id", "")


def _assigned(node: ast.stmt) -> Iterator[ast.Name]:
    found = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return (target for target in found if isinstance(target, ast.Name))


RULES: tuple[Rule, ...] = (
    upward_imports,
    circles,
    late_imports,
    stray_dates,
    version_comparisons,
    broad_catches,
    tasks_rescheduled_by_hand,
    undeclared,
)


@pytest.mark.parametrize("rule", RULES, ids=[rule.__name__ for rule in RULES])
def test_rule_holds(rule: Rule) -> None:
    broken = list(rule(read()))

    assert not broken, "\n".join(broken)


def test_every_lazy_import_is_made() -> None:
    """An exception that is no longer needed must be removed."""
    modules = read()
    made = {(name, target) for name in modules for target, _ in imports(name, modules)}

    assert made >= LAZY


@pytest.mark.parametrize(
    ("rule", "sources"),
    [
        (upward_imports, {"mcptrio.abc": "from mcptrio.server import Server", "mcptrio.server": ""}),
        (upward_imports, {"mcptrio.runtime.a": "import mcptrio.transports.b"}),
        (upward_imports, {"mcptrio.runtime.a": "from . import b"}),
        (upward_imports, {"mcptrio.runtime.a": "def f():\n from mcptrio import tool"}),
        (upward_imports, {"mcptrio.auth.client.a": "import mcptrio.auth.server.b"}),
        (upward_imports, {"mcptrio.auth.urls": "import mcptrio.auth.client.a"}),
        (upward_imports, {"mcptrio.http.server.app": "from mcptrio.http.engine.exchange import Exchange"}),
        (upward_imports, {"mcptrio.cli.terminal.console": "from mcptrio.cli import call", "mcptrio.cli.call": ""}),
        (upward_imports, {"mcptrio.http.headers": "def f():\n import mcptrio.http.client.link"}),
        (upward_imports, {"mcptrio.plugins.plugin": "if TYPE_CHECKING:\n from mcptrio.server import Server"}),
        (circles, {"mcptrio.auth.a": "from mcptrio.auth import b", "mcptrio.auth.b": "import mcptrio.auth.a"}),
        (
            circles,
            {
                "mcptrio.auth.a": "import mcptrio.auth.b",
                "mcptrio.auth.b": "if TYPE_CHECKING:\n import mcptrio.auth.a",
            },
        ),
        (late_imports, {"mcptrio.server": "def main():\n import json"}),
        (stray_dates, {"mcptrio.server": "x = f'at 2025-11-25 {1}'"}),
        (version_comparisons, {"mcptrio.server": "session.revision >= other"}),
        (broad_catches, {"mcptrio.server": "try: pass\nexcept (OSError, Exception): pass"}),
        (broad_catches, {"mcptrio.server": "try: pass\nexcept* BaseException: pass"}),
        (broad_catches, {"mcptrio.server": "try: pass\nexcept: pass"}),
        (broad_catches, {"mcptrio.server": "with suppress(Exception): pass"}),
        (tasks_rescheduled_by_hand, {"mcptrio.server": "trio.lowlevel.reschedule(task)"}),
        (undeclared, {"mcptrio.server": "'''Doc.'''\nx = 1"}),
        (undeclared, {"mcptrio.server": "__all__ = ()"}),
    ],
)
def test_broken_rule_is_found(rule: Rule, sources: dict[str, str]) -> None:
    assert list(rule({name: ast.parse(source) for name, source in sources.items()}))


def test_docstring_may_name_a_revision() -> None:
    assert not list(stray_dates({"mcptrio.server": ast.parse("'''Source: MCP 2025-11-25.'''")}))


def test_module_without_a_place_is_refused() -> None:
    with pytest.raises(LookupError, match="helpers: no layer has a package"):
        place("mcptrio.helpers")
