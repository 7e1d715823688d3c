"""Names are the field's: a public class name means one class, and constants and identifiers avoid private jargon.

Read from the syntax trees of the package and of the plugins in this repository. Each rule is also shown a source that
breaks it.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TypeAlias

import pytest

__all__: list[str] = []

ROOT = Path(__file__).resolve().parent.parent

CONVENTIONAL = ("Config", "Fetch")
"""The settings that each plugin has, and the class that the entry point of ``mcptrio-fetch`` names."""

BANNED_WORDS = frozenset(
    {
        "AGAIN",
        "BREATH",
        "DEEPEST",
        "EVERY",
        "FAREWELL",
        "GOODBYE",
        "HEARD",
        "KEPT",
        "KNOWN",
        "LARGEST",
        "LASTS",
        "LEAST",
        "LIVED",
        "LONGEST",
        "LOOK",
        "MEND",
        "MOST",
        "OLDEST",
        "PATIENCE",
        "QUICKEST",
        "SHORTEST",
        "SHOWN",
        "SWEEP",
        "TOGETHER",
        "TOLD",
    }
)
"""Words that a constant may not contain.

A limit is ``MAX_<WHAT>_<UNIT>`` or ``MIN_<WHAT>_<UNIT>``, a wait is ``<WHAT>_TIMEOUT``, a pause is ``<WHAT>_INTERVAL``.
"""

BANNED_NAMES = frozenset(
    {
        "ANYONE",
        "Asker",
        "Asking",
        "BoardPlace",
        "Bookmark",
        "Errand",
        "Introductions",
        "Look",
        "Looking",
        "Middlewares",
        "Notices",
        "Oddity",
        "Sink",
        "Outside",
        "ParkingLot",
        "Person",
        "Presence",
        "PromptChannel",
        "ProofJudge",
        "Prover",
        "Reach",
        "Remembered",
        "ServerParts",
        "Silence",
        "Standing",
        "Stated",
        "Stays",
        "Visit",
        "Wakes",
        "Within",
        "anew",
        "become_known",
        "believes",
        "by_hand",
        "doubt",
        "farewell",
        "goodbye",
        "hear",
        "heard",
        "heed",
        "insist",
        "judge",
        "judges",
        "lacking",
        "lacking_scopes",
        "lend",
        "look_around",
        "look_at",
        "may_stand",
        "obey",
        "oddities",
        "oddities_of",
        "patience",
        "poke",
        "prime",
        "read_stated",
        "say",
        "say_goodbye",
        "shut",
        "stand_alone",
        "stated",
        "tell_soon",
        "told",
        "told_of",
        "unasked",
        "visit_first",
        "whose",
    }
)
"""Coinages for which the field has a term. A leading underscore makes no difference."""

KEPT_WORDS: Mapping[str, frozenset[str]] = {
    "mcptrio_authserver.addresses": frozenset({"_WELL_KNOWN"}),  # RFC 8615 calls such paths so
}
"""Constants with a banned word, by module."""

Modules: TypeAlias = Mapping[str, ast.Module]
Rule: TypeAlias = Callable[[Modules], Iterator[str]]


@cache
def read() -> dict[str, ast.Module]:
    """The syntax tree of every module of the package and of the plugins, by dotted name."""
    modules = {}
    for package in (ROOT / "mcptrio", *sorted((ROOT / "plugins").glob("*/mcptrio_*"))):
        for path in sorted(package.rglob("*.py")):
            parts = path.relative_to(package.parent).with_suffix("").parts
            if "templates" not in parts:
                modules[".".join(parts).removesuffix(".__init__")] = ast.parse(path.read_text("utf-8"), path)
    return modules


def constants(tree: ast.Module) -> Iterator[str]:
    """The names of a module's constants."""
    for node in tree.body:
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign):
            targets = [node.target]
        else:
            continue
        yield from (each.id for each in targets if isinstance(each, ast.Name) and each.id.strip("_").isupper())


def defined(tree: ast.Module) -> Iterator[str]:
    """The names of classes, functions, parameters, attributes and constants that a module defines; no local names."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.name
            case ast.arg():
                yield node.arg
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
    yield from constants(tree)


def repeated_class_names(modules: Modules) -> Iterator[str]:
    """Public classes of different modules, or of one, that share a name."""
    places = defaultdict(list)
    for name, tree in modules.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{name}:{node.lineno}")
    for name, found in places.items():
        if len(found) > 1 and name not in CONVENTIONAL:
            yield f"{name} is the name of {len(found)} classes: {', '.join(found)}"


def jargon_in_constants(modules: Modules) -> Iterator[str]:
    """Constants with a word that says neither what is limited nor the unit."""
    for name, tree in modules.items():
        for constant in constants(tree):
            if constant.startswith(("MAX_", "_MAX_", "MIN_", "_MIN_")):
                continue
            words = BANNED_WORDS.intersection(constant.strip("_").split("_"))
            if words and constant not in KEPT_WORDS.get(name, ()):
                yield f"{name}: {constant} contains {', '.join(sorted(words))}"


def jargon_in_identifiers(modules: Modules) -> Iterator[str]:
    """Definitions under a name that is on the list of coinages."""
    for name, tree in modules.items():
        yield from (f"{name}: {each}" for each in sorted({*defined(tree)}) if each.lstrip("_") in BANNED_NAMES)


RULES: tuple[Rule, ...] = (repeated_class_names, jargon_in_constants, jargon_in_identifiers)


@pytest.mark.parametrize("rule", RULES, ids=[rule.__name__ for rule in RULES])
def test_names_follow_the_rule(rule: Rule) -> None:
    problems = list(rule(read()))
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize(
    ("rule", "sources"),
    [
        (repeated_class_names, {"mcptrio.a": "class Link: ...", "mcptrio.b": "class Link: ..."}),
        (repeated_class_names, {"mcptrio.a": "class Link: ...", "mcptrio_git.b": "if True:\n    class Link: ..."}),
        (jargon_in_constants, {"mcptrio.a": "_MOST = 3"}),
        (jargon_in_constants, {"mcptrio.a": "LONGEST_NAME: int = 3"}),
        (jargon_in_identifiers, {"mcptrio.a": "def lend(): ..."}),
        (jargon_in_identifiers, {"mcptrio.a": "def wait(patience): ..."}),
        (jargon_in_identifiers, {"mcptrio.a": "class Session:\n    def f(self):\n        self._told = 1"}),
        (jargon_in_identifiers, {"mcptrio.a": "class Session:\n    stated: bool"}),
    ],
)
def test_broken_rule_is_found(rule: Rule, sources: dict[str, str]) -> None:
    assert list(rule({name: ast.parse(source) for name, source in sources.items()}))


def test_each_exception_is_needed() -> None:
    modules = read()

    assert {name for name in CONVENTIONAL if any(name in defined(tree) for tree in modules.values())} == {*CONVENTIONAL}
    assert {name: KEPT_WORDS[name].intersection(constants(modules[name])) for name in KEPT_WORDS} == KEPT_WORDS


def test_private_classes_may_share_a_name() -> None:
    assert not list(repeated_class_names({name: ast.parse("class _State: ...") for name in ("mcptrio.a", "mcptrio.b")}))
