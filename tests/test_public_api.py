"""The public names exist, are documented and used, and importing them is fast."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest

import mcptrio
import mcptrio.auth
import mcptrio.client
import mcptrio.host
import mcptrio.net
import mcptrio.schema
import mcptrio.serving
import mcptrio.stores
import mcptrio.telemetry
import mcptrio.types
from tests.test_public_signatures import definition, names, tree

__all__: list[str] = []

ROOT = Path(__file__).resolve().parent.parent

PACKAGES = (
    mcptrio,
    mcptrio.types,
    mcptrio.serving,
    mcptrio.client,
    mcptrio.host,
    mcptrio.auth,
    mcptrio.net,
    mcptrio.schema,
    mcptrio.stores,
    mcptrio.telemetry,
)
MODULES = ("mcptrio.abc", "mcptrio.auth.jose", "mcptrio.auth.urls", "mcptrio.errors", "mcptrio.testing")
"""Modules that are public as a whole."""
NAMES = [f"{package.__name__}.{name}" for package in PACKAGES for name in package.__all__]

HEAVY = {
    *("cryptography", "joserfc", "keyring"),
    *("h11", "httpx2", "hypercorn", "jsonschema_rs", "opentelemetry", "pydantic", "quart", "quart_trio"),
    *("trio_websocket", "wsproto"),
}
"""What ``import mcptrio`` must not load: HTTP stacks, validators, ciphers, what plugins may bring."""


def users() -> str:
    """Return the texts that readers learn from: the shipped plugins, the examples, the template and the pages."""
    patterns = (
        "plugins/*/mcptrio_*/**/*.py",
        "examples/**/*.py",
        "mcptrio/cli/new/templates/**/*.in",
        "docs/*.md",
        "README.md",
    )
    return "\n".join(file.read_text("utf-8") for pattern in patterns for file in ROOT.glob(pattern))


def names_in(source: str) -> set[str]:
    return set(re.findall(r"\w+", source))


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_type_checkers_see_the_importable_names(package: ModuleType) -> None:
    """Names are imported when they are used; type checkers read the block that is never run."""
    block = next(node for node in ast.parse(inspect.getsource(package)).body if isinstance(node, ast.If))
    declared = {
        alias.asname: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }

    assert declared == package._HOMES
    version = ["__version__"] if package is mcptrio else []
    assert dir(package) == sorted([*package.__all__, *version])


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_unknown_name_raises_attribute_error(package: ModuleType) -> None:
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'tools'"):
        _ = package.tools


@pytest.mark.parametrize("name", NAMES)
def test_public_name_has_a_docstring(name: str) -> None:
    package, _, own = name.rpartition(".")
    value = getattr(sys.modules[package], own)
    text = (value.__doc__ if inspect.isclass(value) or inspect.isroutine(value) else below(package, own)) or ""

    assert text.strip()
    assert not text.startswith("Method generated")


def below(module: str, name: str) -> str:
    """Return the string below the assignment of a name, in the module that defines it."""
    home, _, own = (definition(module, name) or "").rpartition(".")
    for node, after in pairwise(tree(home).body):
        targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
        if own in [ast.unparse(target) for target in targets] and isinstance(after, ast.Expr):
            return str(ast.literal_eval(after.value))
    return ""


def private_imports(source: str) -> Iterator[str]:
    public = {*MODULES, *(package.__name__ for package in PACKAGES)}
    for node in ast.walk(ast.parse(source)):
        modules = [node.module] if isinstance(node, ast.ImportFrom) else []
        modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        yield from (each for each in modules if each and each.split(".")[0] == "mcptrio" and each not in public)


def test_plugins_examples_and_docs_import_public_names_only() -> None:
    code = [*ROOT.glob("plugins/*/mcptrio_*/**/*.py"), *ROOT.glob("examples/**/*.py")]
    pages = [*ROOT.glob("docs/*.md"), *ROOT.glob("plugins/*/README.md"), ROOT / "README.md"]
    found = {path.name: list(private_imports(path.read_text("utf-8"))) for path in code}
    for page in pages:
        blocks = re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
        found[page.name] = [each for block in blocks for each in private_imports(block)]

    assert {name: modules for name, modules in found.items() if modules} == {}


def test_private_import_is_found() -> None:
    source = "from mcptrio import tool\nimport mcptrio.server\nfrom mcptrio.capabilities.decorators import tool"

    assert list(private_imports(source)) == ["mcptrio.server", "mcptrio.capabilities.decorators"]


def test_every_public_name_is_used() -> None:
    """A plugin, an example, a page, or the signature of another public name uses it."""
    used = names_in(users())
    for module in (*PACKAGES, *map(importlib.import_module, MODULES)):
        for name in module.__all__:
            value = getattr(module, name)
            used |= {each.rpartition(".")[2] for each in names(value)}
            used |= names_in((inspect.isclass(value) and value.__doc__) or below(module.__name__, name))

    assert [name for name in NAMES if name.rpartition(".")[2] not in used] == []


def test_each_public_module_has_a_reference_page() -> None:
    pages = {page: page.read_text("utf-8") for page in (ROOT / "docs" / "api").glob("*.rst")}
    index = (ROOT / "docs" / "index.md").read_text("utf-8")

    shown = re.findall(r"^\.\. automodule:: (\S+)$", "\n".join(pages.values()), re.MULTILINE)
    assert sorted(shown) == sorted([*MODULES, *(package.__name__ for package in PACKAGES)])
    assert [page.name for page in pages if f"(api/{page.name})" not in index] == []


@pytest.mark.parametrize("statement", ["from mcptrio import *", "import mcptrio.auth, mcptrio.cli"])
def test_import_loads_no_heavy_modules(statement: str) -> None:
    code = f"import json, sys\n{statement}\nprint(json.dumps(sorted(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = {name.partition(".")[0] for name in json.loads(result.stdout)}

    assert "mcptrio" in loaded
    assert loaded & HEAVY == set()
