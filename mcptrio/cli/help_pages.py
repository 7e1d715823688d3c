"""The help of the commands: sections, two columns where they fit, and colour at a terminal.

Every command and group of the command line is a :class:`CLICommand` or a :class:`CLIGroup` of this module. It uses
click and the standard library alone: a help page takes 60 ms, and with rich-click 170.
"""

from __future__ import annotations

import inspect
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from textwrap import wrap
from typing import Any, ClassVar, TypeAlias

import click

__all__ = [
    "SERVER_EXIT_CODES",
    "CLICommand",
    "CLIGroup",
    "HelpPage",
    "Rows",
    "print_click_error",
    "print_error",
    "split_at_dashes",
]

Rows: TypeAlias = Sequence[tuple[str, str]]
"""Terms with their texts."""

SERVER_EXIT_CODES = (
    "Exit codes: 0 stopped by SIGINT, SIGTERM or the end of the input; 1 failed; 2 invalid usage or configuration."
)
"""For the help of commands that serve."""

_LEAST_WIDTH, _GREATEST_WIDTH = 20, 100
_NARROW = 60
"""Width below which a text begins on the line after its term."""
_TERM_WIDTH = 30
"""Columns of the longest term that shares a line with its text."""
_MAX_OPTIONS_IN_ONE_SECTION = 6
"""The number of options up to which one section is enough."""
_OPTIONS, _GENERAL = "Options", "General"
_TERM = re.compile(r"(-[^\s,]+(?:, -[^\s,]+)*)(.*)")
_BRACKETS = re.compile(r"\[(?:default:|env var:|required)[^\]]*\]")
_RANGE = re.compile(r"(?:; )?(?:[\d.]+<=?)?x(?:[<>]=?(?:[\d.]+|inf))?(?=\])")
"""The range that click appends to a number."""
_NO_BREAK = "\N{NO-BREAK SPACE}"
_CLIENT_PREFIX = "MCPTRIO_CLIENT_"
"""The beginning of the variables that the client commands read."""
_STYLES: Mapping[str, Mapping[str, Any]] = {
    "title": {"fg": "green", "bold": True},
    "name": {"fg": "cyan", "bold": True},
    "value": {"fg": "cyan"},
    "added": {"dim": True},
}


class HelpPage:
    """A help page, written from top to bottom."""

    def __init__(self, *, is_coloured: bool) -> None:
        self.width = min(max(shutil.get_terminal_size().columns, _LEAST_WIDTH), _GREATEST_WIDTH)
        self._is_coloured = is_coloured
        self._parts: list[str] = []

    def add_usage(self, program: str, arguments: str) -> None:
        """Add the first line: how the command is written."""
        before = f"Usage: {program} "
        indent = " " * (len(before) if self.width >= len(before) + 20 else 4)
        lines = self._wrap(arguments, self.width - len(indent)) or [""]
        first = f"{self._paint('Usage:', 'title')} {self._paint(program, 'name')}"
        if len(indent) == len(before):
            first, lines = f"{first} {self._paint(lines[0], 'value')}", lines[1:]
        self._parts.append("\n".join([first.rstrip(), *(f"{indent}{self._paint(line, 'value')}" for line in lines)]))

    def add_text(self, text: str) -> None:
        """Add paragraphs; one that begins with a backspace has an example in each line."""
        for paragraph in inspect.cleandoc(text).split("\n\n"):
            if paragraph.startswith("\b\n"):
                indent = "" if self.width < _NARROW else "  "
                examples = (f"{indent}{line}" for line in paragraph[2:].split("\n"))
                self._parts.append("\n".join([self._paint("Examples:", "title"), *examples]))
            elif lines := self._wrap(paragraph, self.width):
                self._parts.append("\n".join(lines))

    def add_sections(self, sections: Mapping[str, Rows]) -> None:
        """Add sections, whose second columns are aligned."""
        terms = [len(term) for rows in sections.values() for term, _ in rows]
        column = max((each for each in terms if each <= _TERM_WIDTH), default=0) + 4
        column = 6 if self.width < _NARROW else column
        for title, rows in sections.items():
            if rows:
                lines = [line for term, text in rows for line in self._row_lines(term, text, column)]
                self._parts.append("\n".join([self._paint(f"{title}:", "title"), *lines]))

    def __str__(self) -> str:
        return "\n\n".join(self._parts)

    def _row_lines(self, term: str, text: str, column: int) -> Iterable[str]:
        painted = f"  {self._paint_term(term)}"
        # The default must not be split from its brackets by a line break.
        whole = _BRACKETS.sub(lambda match: match[0].replace(" ", _NO_BREAK), _RANGE.sub("", text).replace("[]", ""))
        texts = [
            _BRACKETS.sub(lambda match: self._paint(match[0], "added"), line.replace(_NO_BREAK, " "))
            for line in self._wrap(whole, self.width - column)
        ]
        if texts and len(term) + 4 <= column:
            painted += " " * (column - len(term) - 2) + texts.pop(0)
        yield painted
        yield from (" " * column + line for line in texts)

    def _paint_term(self, term: str) -> str:
        match = _TERM.fullmatch(term)
        names, rest = (match[1], match[2]) if match is not None else (term, "")
        return self._paint(names, "name") + self._paint(rest, "value")

    def _wrap(self, text: str, width: int) -> list[str]:
        return wrap(
            # Not \s, which includes the no-break spaces of _row_lines().
            re.sub(r"[ \n]+", " ", text).strip(),
            max(width, _LEAST_WIDTH),
            break_long_words=False,
            # Names of options contain hyphens, and must stay in one piece.
            break_on_hyphens=False,
        )

    def _paint(self, text: str, style: str) -> str:
        return click.style(text, **_STYLES[style]) if self._is_coloured and text else text


class CLICommand(click.Command):
    """A command whose help has sections."""

    sections: ClassVar[Mapping[str, Sequence[str]]] = {}
    """Names of parameters by section, for commands with many options. The others are in the section Options."""
    arguments: Rows = ()
    """Arguments that need a description."""
    environment: ClassVar[Sequence[str]] = ()
    """Variables ``MCPTRIO_CLIENT_*`` that the command reads. The help of ``mcptrio`` describes them."""
    exit_codes: ClassVar[str] = "Exit codes: 0 done; 1 failed; 2 invalid usage or configuration; 130 interrupted."
    """The last paragraph, unless the command has an epilog."""

    def get_help(self, ctx: click.Context) -> str:
        page = _begin_page(self, ctx)
        options = _option_sections(self, ctx, self.sections)
        page.add_sections({"Arguments": self.arguments, **options})
        if self.environment:
            ends = ", ".join(name.removeprefix(_CLIENT_PREFIX) for name in self.environment)
            page.add_text(f"Environment: {_CLIENT_PREFIX}… with {ends}; `mcptrio --help` describes them.")
        page.add_text(self.exit_codes if self.epilog is None else self.epilog)
        return str(page)


class CLIGroup(click.Group):
    """A group whose help lists its commands in the order in which they were added."""

    command_class = CLICommand
    environment: ClassVar[Rows] = ()
    """Variables that commands of the group read, and what each sets."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def get_help(self, ctx: click.Context) -> str:
        page = _begin_page(self, ctx)
        page.add_sections({**self.command_rows(ctx), **_option_sections(self, ctx, {})})
        # Separately, because the variables are longer than the other terms.
        page.add_sections({"Environment of commands that use a server": self.environment})
        page.add_text(self.epilog or "")
        return str(page)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            # The top level has so many commands that its help is the better list.
            if ctx.parent is None or getattr(error, "possibilities", None):
                raise
            known = ", ".join(self.list_commands(ctx))
            raise click.UsageError(f"no command {shlex.quote(args[0])}; {ctx.command_path} has {known}", ctx) from None

    def command_rows(self, ctx: click.Context) -> Mapping[str, Rows]:
        """Return the commands by section, each with the first paragraph of its help."""
        helps = {name: inspect.cleandoc(self.commands[name].help or "") for name in self.list_commands(ctx)}
        return {"Commands": [(name, text.split("\n\n")[0]) for name, text in helps.items()]}


def split_at_dashes(args: list[str]) -> tuple[list[str], tuple[str, ...] | None]:
    """Return the arguments before ``--``, and those after it; ``None`` if there is no ``--``."""
    index = args.index("--") if "--" in args else None
    return (args, None) if index is None else (args[:index], tuple(args[index + 1 :]))


def print_error(label: str, text: str) -> None:
    from mcptrio.cli.terminal.layout import TerminalLayout

    layout = TerminalLayout.of(sys.stderr)
    click.echo(layout.wrap(text, "red", "bold", label=label), err=True, color=layout.is_coloured)


def print_click_error(error: click.ClickException) -> None:
    """Print an error of click as the commands print theirs: wrapped, and coloured on a terminal."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        # Its message is the whole help page of a group without a subcommand.
        click.echo(error.format_message(), err=True)
        return
    if isinstance(error, click.UsageError) and error.ctx is not None:
        own_help = error.ctx.command.get_help_option(error.ctx)
        hint = "" if own_help is None else f"Try '{error.ctx.command_path} {max(own_help.opts, key=len)}' for help.\n"
        click.echo(f"{error.ctx.get_usage()}\n{hint}", err=True)
    message = error.format_message()
    if isinstance(error, click.BadParameter) and not isinstance(error, click.MissingParameter) and error.param:
        is_option = isinstance(error.param, click.Option)
        place = max(error.param.opts, key=len) if is_option else error.param.human_readable_name
        message = f"{place}: {error.message}"
    print_error("Error: " if isinstance(error, click.UsageError) else "mcptrio: ", message)


def _begin_page(command: click.Command, ctx: click.Context) -> HelpPage:
    # A group without a subcommand prints its help to standard error. If only the other stream is a terminal, click
    # removes the colours again.
    is_shown = any(stream is not None and stream.isatty() for stream in (sys.stdout, sys.stderr))
    is_plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM", "dumb") == "dumb"
    page = HelpPage(is_coloured=is_shown and not is_plain)
    page.add_usage(ctx.command_path, " ".join(command.collect_usage_pieces(ctx)))
    page.add_text(command.help or "")
    return page


def _option_sections(
    command: click.Command, ctx: click.Context, sections: Mapping[str, Sequence[str]]
) -> dict[str, list[tuple[str, str]]]:
    own_help = command.get_help_option(ctx)
    records = [
        (_GENERAL if param is own_help else param.name, record)
        for param in command.get_params(ctx)
        if not isinstance(param, click.Argument) and (record := param.get_help_record(ctx)) is not None
    ]
    title_of = {name: title for title, names in sections.items() for name in names} | {_GENERAL: _GENERAL}
    # The records contain --help too.
    if not sections or len(records) <= _MAX_OPTIONS_IN_ONE_SECTION + 1:
        title_of = {}
    rows: dict[str, list[tuple[str, str]]] = {title: [] for title in (_OPTIONS, *sections, _GENERAL)}
    for name, record in records:
        rows[title_of.get(name, _OPTIONS)].append(record)
    return rows
