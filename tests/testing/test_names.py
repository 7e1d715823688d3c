"""The names of the testing kit exist, are documented, and are imported when first used."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from mcptrio import testing

__all__: list[str] = []

CONSTANTS = {"HANDSHAKE", "MODERN", "REVISIONS", "TRANSPORTS"}
ALIASES = {"FormAnswer", "QuestionKind", "SampleAnswer", "Transport", "Which"}
"""Types in the signatures of the kit; ``tests/test_public_signatures.py`` checks that each has a public name."""


def test_type_checkers_see_the_importable_names() -> None:
    block = next(node for node in ast.parse(inspect.getsource(testing)).body if isinstance(node, ast.If))
    declared = {
        alias.asname: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }

    assert declared == testing._HOMES
    assert dir(testing) == sorted(testing.__all__)


def test_unknown_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'mcptrio\.testing' has no attribute 'Scripts'"):
        _ = testing.Scripts  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", sorted(set(testing.__all__) - CONSTANTS - ALIASES))
def test_every_name_has_a_docstring(name: str) -> None:
    text = getattr(testing, name).__doc__ or ""

    assert text.strip()
    assert not text.startswith("Method generated")


def test_every_name_is_used_by_a_test() -> None:
    tests = [file.read_text("utf-8") for file in Path(__file__).parent.glob("test_*.py") if file != Path(__file__)]

    names = set(testing.__all__) - ALIASES
    assert [name for name in names if not any(name in text for text in tests)] == []


def test_kit_is_importable_without_pytest() -> None:
    code = "import sys\nsys.modules['pytest'] = None\nfrom mcptrio.testing import *\nassert Script and open_served"
    subprocess.run([sys.executable, "-c", code], check=True)
