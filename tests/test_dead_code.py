"""Every function and class of the package is used by the package, a shipped plugin, an example or a page of the docs.

A name counts as used where it occurs once more than it is defined, in code, a comment or a page. Code that only tests
use is dead, and must be removed with its tests.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

__all__: list[str] = []

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("mcptrio/**/*.py", "plugins/*/mcptrio_*/**/*.py", "examples/**/*.py", "docs/*.md", "README.md")

CALLED_BY_LIBRARIES = {
    "click": {"get_help", "get_invalid_choice_message", "invoke"},
    "httptools": {
        "on_body",
        "on_header",
        "on_headers_complete",
        "on_message_begin",
        "on_message_complete",
        "on_url",
    },
    "hypercorn": {"spawn"},
    "joserfc": {"get_alg"},
    "pickle": {"persistent_id", "persistent_load", "reducer_override"},
    "trio": {"after_task_step", "available_tokens"},
}
"""Methods that a base class or an interface of a library prescribes."""


def defined(source: str) -> Iterator[str]:
    """Return the names of the functions and classes that are used by name: not those that a decorator registers."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            registers = any(isinstance(each, ast.Call) for each in node.decorator_list)
            if not node.name.startswith("__") and not (registers and not isinstance(node, ast.ClassDef)):
                yield node.name


def unused(definitions: list[str], texts: list[str]) -> set[str]:
    occurrences = Counter(word for text in texts for word in re.findall(r"\w+", text))
    return {name for name, count in Counter(definitions).items() if occurrences[name] <= count}


def test_every_function_and_class_is_used() -> None:
    texts = [path.read_text() for each in SOURCES for path in ROOT.glob(each)]
    modules = [path.read_text() for path in (ROOT / "mcptrio").rglob("*.py") if "templates" not in path.parts]

    found = unused([name for module in modules for name in defined(module)], texts)

    assert found == set().union(*CALLED_BY_LIBRARIES.values())


def test_unused_definition_is_found() -> None:
    source = "def used(): pass\ndef dead(): used()\n@command('x')\ndef registered(): pass\nclass Dead: pass\n"

    assert unused(list(defined(source)), [source]) == {"dead", "Dead"}
