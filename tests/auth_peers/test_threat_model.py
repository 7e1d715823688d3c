"""docs/threat-model.md: each row names existing test modules, and every module is named."""

from __future__ import annotations

import re
from pathlib import Path

__all__: list[str] = []

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "threat-model.md"
MODULE = re.compile(r"`((?:tests|plugins)/[\w./-]+\.py)`")
TEST = re.compile(r"^(?:async )?def test_\w+\(", re.MULTILINE)


def rows() -> list[list[str]]:
    """The attack, the result, and the test modules of each row."""
    section = PAGE.read_text("utf-8").partition("\n## Tests\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]


def test_each_attack_names_existing_tests() -> None:
    table_rows = rows()
    assert len(table_rows) > 20
    for attack, result, tests_cell in table_rows:
        assert attack
        assert result
        modules = MODULE.findall(tests_cell)
        assert modules, attack
        assert tests_cell.count("`") == 2 * len(modules), (
            f"{attack}: expected only test modules in backticks, got {tests_cell}"
        )
        for module in modules:
            path = ROOT / module
            assert path.is_file(), f"{attack}: expected the file {module}, got none"
            assert TEST.search(path.read_text("utf-8")), f"{attack}: expected a test in {module}, got none"


def test_each_module_of_attacks_is_named() -> None:
    named_modules = set(MODULE.findall("".join(where for _, _, where in rows())))
    folders = ("tests/auth", "tests/auth_peers", "plugins/mcptrio-authserver/tests")
    attack_modules = {
        str(path.relative_to(ROOT)) for folder in folders for path in (ROOT / folder).glob("test_*attacks.py")
    }
    attack_modules |= {
        f"tests/auth_peers/{name}.py" for name in ("test_hostile_servers", "test_comparisons", "test_django")
    }
    assert len(attack_modules) > 4
    assert attack_modules <= named_modules
