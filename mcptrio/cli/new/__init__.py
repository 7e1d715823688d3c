"""``mcptrio new``: writes a new plugin package that works at once, from templates of mcptrio.

The package is written to a temporary folder next to its final folder and moved there in one step, so an error leaves no
half-written package, and existing files are not touched.

The templates are in ``cli/new/templates/plugin``. ``MODULE`` in a name, and ``@WORD@`` in a text, stand for a value.
"""

from __future__ import annotations

import json
import keyword
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import date
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from typing import Final

import click
from attrs import field, frozen

from mcptrio.cli.group import COMMANDS
from mcptrio.cli.help_pages import CLICommand
from mcptrio.errors import ConfigError
from mcptrio.ground.version import __version__
from mcptrio.plugins.discovery import distribution_of, installed_entry_points
from mcptrio.settings.reader import variable_of

__all__ = ["SHIPPED", "NewPlugin", "command", "write_plugin"]

SHIPPED: Final = (
    "authserver",
    "code",
    "documents",
    "everything",
    "fetch",
    "fs",
    "git",
    "memory",
    "openapi",
    "postgres",
    "proxy",
    "shell",
    "skills",
    "sqlite",
    "thinking",
    "time",
)
"""The plugins that ship with mcptrio, installed here or not."""

_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,19}")
_AUTHOR: Final = re.compile(r"(?P<name>[^<>]*[^<>\s])\s*(?:<(?P<email>[^<>\s@]+@[^<>\s@]+)>)?")
_MAX_TEXT_CHARS: Final = 200
"""Characters of an author and of a description."""
_WORD: Final = re.compile(r"@([A-Z_]+)@")
_LICENSE: Final = "LICENSE"


def _check_name(_plugin: object, _field: object, name: str) -> None:
    if _NAME.fullmatch(name) is None:
        raise ConfigError(
            f"expected a name of 1 to 20 characters a-z, 0-9 and -, with a letter at the beginning, got {name!r}"
        )
    if name.endswith("-") or "--" in name:
        # PyPI refuses a hyphen at the end, and PEP 503 treats several hyphens as one.
        raise ConfigError(f"expected a hyphen between letters or digits only, got {name!r}")
    if keyword.iskeyword(name) or keyword.issoftkeyword(name):
        raise ConfigError(f"expected a name that is not a keyword of Python, got {name!r}")


def _check_line(_plugin: object, attribute: object, text: str | None) -> None:
    if text is not None and (not text.strip() or len(text) > _MAX_TEXT_CHARS or not text.isprintable()):
        what = getattr(attribute, "name", "text")
        raise ConfigError(f"--{what}: expected one line of 1 to {_MAX_TEXT_CHARS} characters, got {text[:40]!r}")


def _check_author(_plugin: object, _field: object, text: str | None) -> None:
    if text is not None and _AUTHOR.fullmatch(text.strip()) is None:
        raise ConfigError(f"--author: expected NAME or NAME <EMAIL>, got {text!r}")


@frozen(kw_only=True)
class NewPlugin:
    """The data of the new package.

    Args:
        name: The name of the plugin: ``notes`` for the distribution mcptrio-notes.
        author: ``NAME`` or ``NAME <EMAIL>``. With one, the package has the MIT license, without one it has none.
        description: The purpose of the plugin, on one line.

    Raises:
        ConfigError: A value is invalid.
    """

    name: str = field(validator=_check_name)
    author: str | None = field(default=None, validator=[_check_line, _check_author])
    description: str | None = field(default=None, validator=_check_line)

    @property
    def distribution(self) -> str:
        """The name of the distribution, and of the folder."""
        return f"mcptrio-{self.name}"

    @property
    def module(self) -> str:
        return f"mcptrio_{self.name.replace('-', '_')}"


def write_plugin(new: NewPlugin, folder: Path) -> list[Path]:
    """Write the package into a new folder.

    Args:
        folder: The folder in which the new one is created.

    Returns:
        The files of the package, the README first.

    Raises:
        ConfigError: ``folder`` does not exist, or the new folder exists and is not empty.
        OSError: A file cannot be written.
    """
    if not folder.is_dir():
        raise ConfigError(f"--path: no such folder: {folder}")
    target = folder / new.distribution
    if os.path.lexists(target) and (target.is_symlink() or not target.is_dir() or any(target.iterdir())):
        content = "one with files in it" if target.is_dir() and not target.is_symlink() else "something else"
        raise ConfigError(f"{target}: expected a new or empty folder, got {content}")
    # In the same folder, because a rename across file systems fails.
    temporary = tempfile.mkdtemp(prefix=".mcptrio-new-", dir=folder)
    try:
        # The temporary folder is private. The package inside it gets normal permissions.
        package = Path(temporary) / new.distribution
        paths = []
        for path, text in _render(new):
            file = package / path
            file.parent.mkdir(parents=True, exist_ok=True)
            # Windows would write other line ends.
            file.write_text(text, "utf-8", newline="\n")
            paths.append(target / path)
        # Windows cannot rename onto a folder. rmdir fails if another program has filled it in the meantime.
        with suppress(FileNotFoundError):
            target.rmdir()
        package.rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return sorted(paths, key=lambda path: (path.name != "README.md", path))


@click.command("new", cls=CLICommand)
@click.argument("name")
@click.option(
    "--path",
    "folder",
    type=click.Path(path_type=Path),
    default=Path(),
    help="Create the folder mcptrio-NAME in this folder.  [default: the current one]",
)
@click.option("--author", metavar="NAME|NAME <EMAIL>", help="The author; adds an MIT license.")
@click.option("--description", help="The purpose, on one line.")
def command(name: str, folder: Path, author: str | None, description: str | None) -> None:
    """Create a plugin package with an example and tests.

    \b
    mcptrio new notes --author "Ada Lovelace"

    Writes the folder mcptrio-notes.
    """
    new = NewPlugin(name=name, author=author, description=description)
    _check_free(name)
    paths = write_plugin(new, folder)
    package = paths[0].parent
    click.echo(f"wrote {package}: {len(paths)} files")
    click.echo(f'next: cd {package} && pip install -e ".[test]" && pytest')


def _check_free(name: str) -> None:
    # Plugins with the same name end up in quarantine.
    if name in SHIPPED:
        raise ConfigError(f"{name} is a plugin that comes with mcptrio; choose another name")
    # Settings of the plugin and of the command would be read from variables with the same beginning.
    if name in COMMANDS:
        raise ConfigError(f"{name} is a command of mcptrio, whose variables begin like a plugin's; choose another name")
    installed = installed_entry_points()
    if name in installed:
        distribution, _ = distribution_of(installed[name][0])
        raise ConfigError(f"a plugin {name} is already installed, by {distribution or 'a file'}; choose another name")


def _render(new: NewPlugin) -> Iterator[tuple[PurePosixPath, str]]:
    values = _template_values(new)
    for path, template in _templates(files("mcptrio.cli.new").joinpath("templates", "plugin"), PurePosixPath()):
        if new.author is not None or path.name != _LICENSE:
            yield PurePosixPath(str(path).replace("MODULE", new.module)), _fill_template(template, values)


def _templates(folder: Traversable, below: PurePosixPath) -> Iterator[tuple[PurePosixPath, str]]:
    for each in folder.iterdir():
        # "dot-" stands for a dot. The ending ".in" keeps tools from taking templates for modules or tests of mcptrio.
        name = re.sub(r"^dot-", ".", each.name)
        if each.is_dir():
            yield from _templates(each, below / name)
        elif name.endswith(".in"):
            yield below / name.removesuffix(".in"), each.read_text("utf-8")


def _template_values(new: NewPlugin) -> Mapping[str, str]:
    description = new.description or f"{new.name}: a plugin of mcptrio."
    author = _AUTHOR.fullmatch(new.author.strip()) if new.author is not None else None
    person = {key: _quote(value) for key, value in author.groupdict().items() if value} if author is not None else {}
    fields = ", ".join(f"{key} = {value}" for key, value in person.items())
    return {
        "NAME": new.name,
        "MODULE": new.module,
        "VARIABLE": variable_of((new.name, "greeting")),
        "VERSION": __version__,
        "DESCRIPTION": description,
        "DESCRIPTION_QUOTED": _quote(description),
        "LICENSE_LINES": 'license = "MIT"\nlicense-files = ["LICENSE"]' if author is not None else "",
        "AUTHORS_LINE": f"authors = [{{ {fields} }}]" if fields else "",
        "AUTHOR": author["name"] if author is not None else "",
        "YEAR": str(date.today().year),
    }


def _fill_template(template: str, values: Mapping[str, str]) -> str:
    lines = []
    for line in template.splitlines(keepends=True):
        # A line with only the word of an empty value is left out.
        word = _WORD.fullmatch(line.strip())
        if word is None or values[word[1]]:
            lines.append(_WORD.sub(lambda match: values[match[1]], line))
    return "".join(lines)


def _quote(text: str) -> str:
    """Return a basic string of TOML, which is JSON's if there are no control characters."""
    return json.dumps(text, ensure_ascii=False)
