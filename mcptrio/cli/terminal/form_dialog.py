"""A form as a dialog of lines: one field after the other, then all answers for review.

:mod:`mcptrio.cli.terminal.prompting` runs it. It has no I/O: it takes a line and returns the text to show. Answers
are sent only after the user has reviewed and accepted them. If the form has a single field, the line that answers it
also sends it, because the user sees the whole answer while typing.

Source: MCP 2026-07-28, client/elicitation, "User Interaction Model" (who asks, decline and cancel, review and modify).
"""

from __future__ import annotations

import re
from typing import Any

from mcptrio.cli.terminal.dialog_text import (
    COMMANDS,
    WIDTH,
    Reply,
    explain,
    list_commands,
    read_command,
    refuse_command,
    wrap,
    wrap_quoted,
)
from mcptrio.client.forms import Form
from mcptrio.ground.quoting import printable
from mcptrio.protocol.model.fields import ABSENT
from mcptrio.schema.form_fields import FormField

__all__ = ["FormDialog"]

# At most nine digits, because int() raises ValueError for more than 4,300.
_NUMBER = re.compile(r"(?:edit\s+)?([1-9][0-9]{0,8})\Z")
# An empty line is not among them: pressing Enter once too often must not send the answers.
_SEND = frozenset({"send", "accept", "yes", "y"})
_MAX_PROMPT_CHARS = 40
"""Characters of a title or a default in a prompt; the text above it has all of them."""


class FormDialog:
    """A form that is filled in line by line.

    An empty line keeps the previous answer, otherwise takes the default, otherwise leaves out an optional field. A line
    that begins with a colon is a command; with two colons it is a text that begins with one.

    Args:
        width: Columns to wrap the text at.
    """

    def __init__(self, form: Form, *, width: int = WIDTH) -> None:
        self._form = form
        self._width = width
        self._answers: dict[str, Any] = {}
        """The answers by field name; ABSENT if left out. A missing field has not been answered yet."""
        self._index = 0
        """The current field; after the last one comes the review."""
        self._is_editing = False
        """True while the user changes an answer from the review, to which the dialog then returns."""

    def begin(self) -> Reply:
        count = len(self._form.fields)
        heading = "Enter sends the answer; " if count == 1 else f"{count} questions; " if count else ""
        lines = [f"{printable(self._form.server)} asks:", *wrap_quoted(self._form.message, self._width)]
        lines += wrap(f"{heading}commands: {list_commands(COMMANDS)}", self._width)
        return self._ask(*lines, "")

    def feed(self, line: str) -> Reply:
        """Take one line, with or without its end. Not called after a reply with a result."""
        # Only the line end is removed, because blanks are part of a free text.
        line = line.rstrip("\r\n")
        if (command := read_command(line)) is not None:
            return self._run_command(command)
        if line.lstrip().startswith("::"):
            line = line.replace("::", ":", 1)
        return self._review(line.strip().casefold()) if self._is_at_review else self._enter(line)

    def input_error(self, line: str) -> str | None:
        """Return the error that a line would cause, to show it while the user types.

        ``None`` for a valid line, an empty line and a command.
        """
        text = line.lstrip()
        if self._is_at_review or not text or (text.startswith(":") and not text.startswith("::")):
            return None
        try:
            self._form.fields[self._index].parse(line.replace("::", ":", 1) if text.startswith("::") else line)
        except ValueError as error:
            return str(error)
        return None

    @property
    def _is_at_review(self) -> bool:
        return self._index == len(self._form.fields)

    def _run_command(self, command: str) -> Reply:
        match command:
            case "decline":
                return Reply(text="Declined.\n", result=self._form.decline())
            case "cancel":
                return Reply(text="Cancelled.\n", result=self._form.cancel())
            case "help":
                return self._ask(*explain(COMMANDS), "A text that begins with a colon is entered with two of them.")
            case "back":
                return self._go_back()
            case "skip":
                return self._skip()
            case _:
                return self._ask_again(refuse_command(command, COMMANDS))

    def _go_back(self) -> Reply:
        # The user came from the review, so "back" returns there.
        if self._is_editing:
            self._is_editing = False
            self._index = len(self._form.fields)
        elif self._index == 0:
            return self._ask_again("There is no question before this one.")
        else:
            self._index -= 1
        return self._ask()

    def _skip(self) -> Reply:
        if self._is_at_review:
            return self._ask_again("There is nothing to leave out here; enter the number of an answer first.")
        if self._form.fields[self._index].required:
            return self._ask_again("This one is required.")
        return self._store_answer(ABSENT)

    def _enter(self, line: str) -> Reply:
        field = self._form.fields[self._index]
        if line.strip():
            try:
                value = field.parse(line)
            except ValueError as error:
                reason = str(error)
                return self._ask_again(f"{reason[:1].upper()}{reason[1:]}.")
            if len(self._form.fields) == 1:
                self._answers[field.name] = value
                return self._send()
            return self._store_answer(value)
        # An empty line is reviewed even if it answers the only question: Enter may have been pressed once too often.
        value = self._value_of_empty_line(field)
        if value is ABSENT and field.required:
            return self._ask_again(f"This one is required: {field.expected}.")
        return self._store_answer(value)

    def _value_of_empty_line(self, field: FormField) -> Any:
        if field.name in self._answers:
            return self._answers[field.name]
        if field.default is not ABSENT:
            # check() turns the tuple of "choices" into a list. It cannot raise: the form has no invalid defaults.
            return field.check(field.default)
        # "required" only means that the field is sent. An empty list satisfies this schema.
        if field.required and field.kind == "choices" and not field.min_items:
            return []
        return ABSENT

    def _store_answer(self, value: Any) -> Reply:
        self._answers[self._form.fields[self._index].name] = value
        self._index = len(self._form.fields) if self._is_editing else self._index + 1
        self._is_editing = False
        return self._ask()

    def _review(self, word: str) -> Reply:
        if word in _SEND:
            return self._send()
        # The review expects no free text, so commands also work without the colon.
        if word in COMMANDS:
            return self._run_command(word)
        if (number := _NUMBER.match(word)) and int(number[1]) <= len(self._form.fields):
            self._index, self._is_editing = int(number[1]) - 1, True
            return self._ask()
        return self._ask_again(f"Nothing is sent yet. {self._review_help()}")

    def _send(self) -> Reply:
        return Reply(text="Sent.\n", result=self._form.accept(self._answers))

    def _ask(self, *before: str) -> Reply:
        lines = [*before, *(self._summary() if self._is_at_review else self._question())]
        return Reply(text="\n".join(lines) + "\n", prompt=self._prompt())

    def _ask_again(self, why: str) -> Reply:
        return Reply(text="\n".join(wrap(why, self._width)) + "\n", prompt=self._prompt())

    def _prompt(self) -> str:
        if self._is_at_review:
            return "Send? "
        field = self._form.fields[self._index]
        value = self._value_of_empty_line(field)
        default = "" if value is ABSENT else f" [{_shorten(_format_value(field, value))}]"
        # Other lines are escaped in wrap(), but a prompt is written unchanged.
        return f"{_shorten(printable(field.title))}{default}: "

    def _question(self) -> list[str]:
        field = self._form.fields[self._index]
        count = len(self._form.fields)
        place = f"({self._index + 1} of {count}) " if count > 1 else ""
        lines = wrap(f"{place}{field.title}{'' if field.required else ', optional'}", self._width)
        if field.description:
            lines += wrap_quoted(field.description, self._width)
        for number, choice in enumerate(field.choices, 1):
            mark = f"{number})" if field.is_numbered else "-"
            value = "" if choice.title == choice.value else f" ({choice.value})"
            lines += wrap(f"{mark} {choice.title}{value}", self._width, indent="    ")
        return lines + wrap(f"Takes {self._accepted_input(field)}.", self._width, indent="  ")

    def _accepted_input(self, field: FormField) -> str:
        """Return the accepted input. Choices are listed above and not repeated."""
        how = "by number or name" if field.is_numbered else "by name"
        accepted = field.expected
        if field.kind == "choice":
            accepted = f"one of these, {how}"
        elif field.kind == "choices":
            # "expected" is the count, " of ", and the names of the choices, which are already listed above.
            none = "" if field.min_items else ", or none"
            accepted = f"{accepted.partition(' of ')[0]} of these, {how}, with commas between them{none}"
        value = self._value_of_empty_line(field)
        if value is not ABSENT:
            verb = "keeps" if field.name in self._answers else "means"
            return f"{accepted}; an empty line {verb} {_format_value(field, value)}"
        return accepted if field.required else f"{accepted}; an empty line leaves it out"

    def _summary(self) -> list[str]:
        lines = [
            f"Your answers for {printable(self._form.server)}:" if self._answers else "There is nothing to fill in."
        ]
        for number, field in enumerate(self._form.fields, 1):
            value = self._answers[field.name]
            text = "(left out)" if value is ABSENT else _format_value(field, value)
            lines += wrap(f"{number}) {field.title}: {text}", self._width, indent="  ")
        return lines + wrap(self._review_help(), self._width)

    def _review_help(self) -> str:
        change = "the number of an answer to change it, " if self._form.fields else ""
        return f"Type send to accept, {change}:decline to refuse, or :cancel."


def _format_value(field: FormField, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(_title(field, each) for each in value) or "none"
    # An empty string would look like a missing answer.
    return _title(field, value) or '""' if isinstance(value, str) else str(value)


def _title(field: FormField, value: str) -> str:
    return printable(next((choice.title for choice in field.choices if choice.value == value), value))


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_PROMPT_CHARS else f"{text[:_MAX_PROMPT_CHARS]}…"
