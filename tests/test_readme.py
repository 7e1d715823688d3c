"""README and docs: the code compiles, its names exist, whole modules import, commands and options exist.

For authors: a ``python`` block compiles (``await`` at its top level is allowed), and its imports from mcptrio exist. A
block whose first line is ``# name.py`` is a whole module and is imported. In a ``sh`` or ``console`` block, a line that
calls ``mcptrio`` names a command and options that exist.
"""

from __future__ import annotations

import ast
import importlib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import click
import pytest
from attrs import frozen

from tests.commands.processes import at_terminal
from tests.processes import serving

__all__: list[str] = []

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("plugins/*/README.md")])

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^(?P=indent)```", re.MULTILINE | re.DOTALL
)
_FILE = re.compile(r"# (\w+)\.py\b")


@frozen
class Block:
    """One fenced block."""

    language: str
    text: str
    where: str
    """``README.md:12``, the line of the fence."""

    def __str__(self) -> str:
        return self.where


def blocks_of(text: str, page: str) -> Iterator[Block]:
    for fence in _FENCE.finditer(text):
        indent = fence["indent"]
        lines = [line.removeprefix(indent) for line in fence["text"].splitlines(keepends=True)]
        yield Block(fence["language"], "".join(lines), f"{page}:{text.count(chr(10), 0, fence.start()) + 1}")


def blocks(*languages: str) -> list[Block]:
    found = [
        block
        for page in PAGES
        if page.exists()
        for block in blocks_of(page.read_text("utf-8"), str(page.relative_to(ROOT)))
    ]
    return [block for block in found if block.language in languages]


def missing_names(block: Block) -> Iterator[str]:
    """Yield the block's imports from mcptrio that do not exist.

    Raises:
        SyntaxError: The block does not compile.
    """
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    compile(block.text, block.where, "exec", flags)
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.Import):
            wanted = [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            wanted = [(node.module, alias.name) for alias in node.names]
        else:
            continue
        for module, name in wanted:
            if module.partition(".")[0].startswith("mcptrio") and not _exists(module, name):
                yield f"{module}.{name}".rstrip(".")


def unknown_words(line: str, command: click.Command) -> Iterator[str]:
    """The command and the options of a shell line that mcptrio's own command line does not have."""
    words = shlex.split(line, comments=True)[1:]
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        name = words.pop(0)
        found = command.commands.get(name)
        if found is None:
            yield name
            return
        command = found
    # `mcptrio plugins` lists the plugins, with the options of `list`.
    if isinstance(command, click.Group) and command.name == "plugins":
        command = command.commands["list"]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    value_of = {option for each in command.params if not getattr(each, "is_flag", True) for option in each.opts}
    for before, word in zip(["", *words], words, strict=False):
        if word == "--":
            return
        if command.name == "call" and not word.startswith("-") and before not in value_of:
            return  # what follows are the arguments of a tool
        if word.startswith("-") and word != "-" and word.partition("=")[0] not in known | {"--help"}:
            yield word


def shell_lines(block: Block) -> Iterator[str]:
    """The commands of a shell block that are mcptrio, without variables before it and redirections after it."""
    for line in block.text.replace("\\\n", " ").splitlines():
        for part in re.split(r"&&|\|\|?|;", line.strip().removeprefix("$ ")):
            if call := re.match(r"\s*(?:\w+=\S* )*((?:\S*/)?mcptrio .*)", part):
                yield re.split(r" [<>&]", call[1])[0]


def _exists(module: str, name: str) -> bool:
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError:
        return False
    if not name or hasattr(found, name):
        return True
    try:
        importlib.import_module(f"{module}.{name}")
    except ModuleNotFoundError:
        return False
    return True


def test_readme_contains_code_and_a_test() -> None:
    """Otherwise a page that lost its blocks would pass all tests below."""
    pages = {block.where.partition(":")[0] for block in blocks("python")}

    assert "README.md" in pages
    assert any(
        "pytest" in block.text for block in blocks("sh", "console", "bash") if block.where.startswith("README.md")
    )


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_code_blocks_compile_and_their_names_exist(block: Block) -> None:
    assert not list(missing_names(block))


def test_complete_modules_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    for block in blocks("python"):
        if match := _FILE.match(block.text):
            module = ModuleType(match[1])
            monkeypatch.setitem(sys.modules, match[1], module)
            exec(compile(block.text, block.where, "exec"), module.__dict__)


@pytest.mark.parametrize("block", blocks("sh", "console", "bash"), ids=str)
def test_commands_and_options_of_the_pages_exist(block: Block) -> None:
    lines = list(shell_lines(block))
    if lines:
        command = importlib.import_module("mcptrio.cli.group").cli

        assert not [word for line in lines for word in unknown_words(line, command)]


def test_commands_of_the_pages_have_no_comments() -> None:
    """Without the option interactive_comments, zsh passes the words of a comment to the command."""
    commands = [
        (block.where, line)
        for block in blocks("sh", "console", "bash")
        for line in block.text.splitlines()
        if block.language != "console" or line.startswith("$ ")
    ]

    assert len(commands) > 100
    assert not [(where, line) for where, line in commands if re.search(r"(^|\s)#(\s|$)", line)]


def test_commands_on_modules_of_the_page_run_unchanged(tmp_path: Path) -> None:
    """A command that names a file serves or calls the module that README shows under that name."""
    readme = [block for block in blocks("python", "sh") if block.where.startswith("README.md")]
    modules = {match[1] + ".py": block.text for block in readme if (match := _FILE.match(block.text))}
    lines = [line for block in readme if block.language == "sh" for line in shell_lines(block)]
    lines = [line for line in lines if any(name in line for name in modules)]
    for name, text in modules.items():
        (tmp_path / name).write_text(text)
    scripts = Path(sys.executable).parent

    assert len(lines) == 4
    [printed] = re.findall(r"the first command prints (\d+)", (ROOT / "README.md").read_text("utf-8"))
    env = {"PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}", "HOME": str(tmp_path)}
    for line in lines:
        if " greet" in line:
            with at_terminal(*shlex.split(line)[1:], cwd=tmp_path) as terminal:
                terminal.until("Answer: ")
                terminal.type("Ada\r")
                terminal.until("Hello, Ada!")
                assert terminal.end() == 0
        elif " serve " in line:
            env |= {"MCPTRIO_HTTP_PORT": "0"}
            with serving(cwd=tmp_path, command=["bash", "-c", f"exec {line}"], env=env) as served:
                url = served.until(r"(?m)^serving (http://\S+)$")[1]
                called = f"mcptrio call {url} add a=2 b=3"
                result = subprocess.run(
                    ["bash", "-c", called], env={**os.environ, **env}, capture_output=True, timeout=60
                )
                assert result.stdout == b"5\n"
        else:
            result = subprocess.run(
                ["bash", "-c", line], cwd=tmp_path, env={**os.environ, **env}, capture_output=True, timeout=180
            )
            if " host install " in line:
                assert result.stdout.startswith(b"Cursor: hello added: "), result.stderr
                continue
            assert result.stdout.decode() == f"{printed}\n"


def test_readme_installs_before_its_first_command() -> None:
    """A reader who copies from top to bottom succeeds at each step."""
    first, *others = [block for block in blocks("sh", "python") if block.where.startswith("README.md")]

    assert "pip install" in first.text
    assert [block.language for block in others][:2] == ["python", "sh"]
    assert not any("install" in line for line in shell_lines(others[1]))


def test_broken_pages_are_found() -> None:
    """Each check is shown something to find."""
    page = "text\n  ```python\n  import json\n  from mcptrio.errors import Nothing, ToolError\n  ```\n```sh\nls\n```\n"
    python, shell = blocks_of(page, "p.md")

    assert (python.where, shell.text) == ("p.md:2", "ls\n")
    assert list(missing_names(python)) == ["mcptrio.errors.Nothing"]
    with pytest.raises(SyntaxError):
        list(missing_names(Block("python", "def f(:", "p.md:1")))
    assert not list(missing_names(Block("python", "x = await f()", "p.md:1")))


def test_unknown_commands_are_found() -> None:
    @click.group()
    def main() -> None: ...

    @main.command()
    @click.option("--http/--no-http")
    def serve(http: bool) -> None: ...

    block = Block("sh", "$ mcptrio serve \\\n  --http --prot=1 | tee log\nls && X=1 bin/mcptrio serv\nls\n", "p.md:1")

    assert [word for line in shell_lines(block) for word in unknown_words(line, main)] == ["--prot=1", "serv"]
