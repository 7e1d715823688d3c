"""Measures how much of mcptrio a user sees, and fails if a figure is above its limit.

Run it with ``python docs/measure_surface.py``: it needs mypy and pyright, and takes about half a minute.
``--no-types`` leaves both out. After a figure has become smaller, lower its limit in ``LIMITS``.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import attrs
import click

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]  # for the tests' way to read Markdown

import mcptrio  # noqa: E402
from mcptrio import Server  # noqa: E402
from mcptrio.cli.group import cli  # noqa: E402
from mcptrio.plugins.hooks import Hooks  # noqa: E402
from mcptrio.serve import config  # noqa: E402
from tests.test_public_signatures import NAMESPACES, everything, public, unnamed  # noqa: E402
from tests.test_readme import blocks  # noqa: E402

__all__ = ["LIMITS", "main"]

LIMITS = {
    "names in mcptrio": 38,
    "parameters of Server": 12,
    "commands": 44,
    "options in all": 231,
    "options of serve": 17,
    "options of run": 6,
    "configuration keys": 101,
    "hooks": 4,
    "option classes": 17,
    "private types in public signatures": 0,
    "private imports of plugins, examples and docs": 0,
    "lines of docs/hooks.md": 149,
    "mypy errors in programs and blocks": 0,
    "pyright errors in programs and blocks": 0,
}
"""The largest value that each figure may have."""


def _packages() -> Iterator[ModuleType]:
    for name in NAMESPACES:
        if importlib.util.find_spec(name) is not None:
            yield importlib.import_module(name)


# Commands


def _commands(command: click.Command, name: str = "") -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        for each, part in command.commands.items():
            yield from _commands(part, f"{name} {each}".strip())
    else:
        yield name, command


def _options(command: click.Command) -> int:
    return sum(isinstance(parameter, click.Option) and not parameter.hidden for parameter in command.params)


def _option_figures() -> dict[str, int]:
    found = {name: _options(command) for name, command in _commands(cli)}
    return {
        "commands": len(found),
        "options in all": sum(found.values()),
        "options of serve": found["serve"],
        "options of run": found["run"],
    }


# Names


def _private_types() -> set[str]:
    """The classes and aliases of mcptrio that a public signature names, and that have no public name."""
    values = [value for namespace in NAMESPACES for value in public(namespace).values()]
    return {name for value in values for name in unnamed(value, everything())}


def _option_classes() -> set[str]:
    ends = ("Options", "Limits", "Timeouts", "Settings", "Policy")
    names = {name for package in _packages() for name in package.__all__ if name.endswith(ends)}
    return {name for name in names if any(attrs.has(getattr(package, name, None)) for package in _packages())}


def _private_imports() -> list[str]:
    """``file: module`` for each import of a module of mcptrio that is not public."""
    files = [*ROOT.glob("plugins/*/mcptrio_*/**/*.py"), *ROOT.glob("examples/*.py")]
    sources = [(str(file.relative_to(ROOT)), file.read_text("utf-8")) for file in files]
    sources += [(block.where, block.text) for block in blocks("python")]
    return [f"{where}: {name}" for where, text in sources for name in _imports(text) if name not in NAMESPACES]


def _imports(text: str) -> Iterator[str]:
    for node in ast.walk(compile(text, "block", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        yield from (name for name in names if name.partition(".")[0] == "mcptrio")


# Types


def _write_sources(folder: Path) -> dict[str, str]:
    """Copy the programs, the examples and the blocks, and return where each file comes from."""
    places: dict[str, str] = {}
    modules: dict[str, str] = {}
    # Quart types a form as a dictionary of unknown values, so the strict mode of pyright refuses every use of one.
    examples = [file for file in ROOT.glob("examples/*.py") if file.name != "mount_quart.py"]
    for file in [*ROOT.glob("tests/typing/programs/*.py"), *examples]:
        name = f"{file.parent.name}_{file.name}"
        shutil.copyfile(file, folder / name)
        places[name] = f"{file.relative_to(ROOT)}:0"
    for number, block in enumerate(blocks("python")):
        named = re.match(r"# (\w+)\.py\b", block.text)
        # Two pages may show modules of one name; only the first can be imported by it.
        name = named[1] if named is not None and modules.setdefault(named[1], block.where) == block.where else None
        file = folder / f"{name or f'block{number}'}.py"
        file.write_text(block.text, "utf-8")
        places[file.name] = block.where
    return places


def _said(places: dict[str, str], name: str, line: int, message: str) -> str:
    page, _, start = places[name].rpartition(":")
    return f"{page}:{int(start) + line}: {message}"


def _mypy(folder: Path, places: dict[str, str]) -> list[str]:
    # With the cache of the checkout, which a run over mcptrio has filled.
    command = [sys.executable, "-m", "mypy", "--strict"]
    command += [str(folder / name) for name in sorted(places)]
    env = {**os.environ, "MYPYPATH": str(folder)}
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=env).stdout
    if not re.search(rf"(?:checked|in) {len(places)} source files", output):
        raise SystemExit(f"mypy: expected to check {len(places)} files, got:\n{output}")
    lines = re.finditer(r"^(?:.*/)?(\w+\.py):(\d+): error: (.*)", output, re.MULTILINE)
    return [_said(places, match[1], int(match[2]), match[3]) for match in lines]


def _pyright(folder: Path, places: dict[str, str]) -> list[str]:
    settings = {"include": ["*.py"], "typeCheckingMode": "strict", "pythonVersion": "3.11", "extraPaths": [str(ROOT)]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings), "utf-8")
    command = [
        sys.executable,
        "-m",
        "pyright",
        "--outputjson",
        "--project",
        str(folder),
        "--pythonpath",
        sys.executable,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    report = json.loads(done.stdout)
    if report["summary"]["filesAnalyzed"] < len(places):
        raise SystemExit(f"pyright: expected to check {len(places)} files, got {report['summary']}")
    return [
        _said(
            places, Path(each["file"]).name, each["range"]["start"]["line"] + 1, f"{each['message']} {each.get('rule')}"
        )
        for each in report["generalDiagnostics"]
        if each["severity"] == "error"
    ]


def _type_errors() -> dict[str, list[str]]:
    with tempfile.TemporaryDirectory(prefix="mcptrio-types-") as name:
        folder = Path(name)
        places = _write_sources(folder)
        checks: dict[str, Callable[[Path, dict[str, str]], list[str]]] = {"mypy": _mypy, "pyright": _pyright}
        return {f"{each} errors in programs and blocks": check(folder, places) for each, check in checks.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--no-types", action="store_true", help="run neither mypy nor pyright")
    parser.add_argument("--list", action="store_true", help="also show what was counted")
    arguments = parser.parse_args()
    listed: dict[str, list[str]] = {
        "option classes": sorted(_option_classes()),
        "private types in public signatures": sorted(_private_types()),
        "private imports of plugins, examples and docs": sorted(_private_imports()),
    }
    if not arguments.no_types:
        listed |= _type_errors()
    figures = {
        "names in mcptrio": len(mcptrio.__all__),
        "parameters of Server": len(inspect.signature(Server).parameters),
        **_option_figures(),
        "configuration keys": len(list(config.keys())),
        "hooks": sum(hasattr(member, "mcptrio_spec") for member in vars(Hooks).values()),
        "lines of docs/hooks.md": len((ROOT / "docs" / "hooks.md").read_text("utf-8").splitlines()),
        **{name: len(found) for name, found in listed.items()},
    }
    grown = [name for name, figure in figures.items() if figure > LIMITS[name]]
    for name, figure in figures.items():
        sys.stdout.write(f"{name:<48}{figure:>5}  limit {LIMITS[name]:>3}\n")
        if name in listed and (arguments.list or name in grown):
            sys.stdout.writelines(f"    {each}\n" for each in listed[name])
    if grown:
        sys.exit(f"expected no figure above its limit, got more {', '.join(grown)}")


if __name__ == "__main__":
    main()
