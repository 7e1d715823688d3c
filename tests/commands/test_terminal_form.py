"""Questions at a terminal: tables of input and output, and the driver with real input."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from mcptrio.cli.terminal.dialog_text import Reply
from mcptrio.cli.terminal.form_dialog import FormDialog
from mcptrio.cli.terminal.prompting import ask
from mcptrio.cli.terminal.url_dialog import URLDialog
from mcptrio.client.forms import Form, OpenURL, read_form, read_url
from mcptrio.protocol.model.elicitation import ElicitFormParams, ElicitResult, ElicitURLParams

__all__: list[str] = []

NAME = {"type": "string", "title": "Your name", "minLength": 2, "description": "As in your passport"}
AGE = {"type": "integer", "minimum": 0, "maximum": 150, "default": 30}
COLOR = {"type": "string", "oneOf": [{"const": "#f00", "title": "Red"}, {"const": "#00f", "title": "Blue"}]}
TAGS = {"type": "array", "items": {"enum": ["a", "b", "c"]}}
NOTE = {"type": "string"}


def make(properties: dict[str, Any], *required: str, message: str = "Please tell") -> Form:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return read_form(ElicitFormParams(message=message, requested_schema=schema), server="notes")


def page(url: str, message: str = "Pay") -> OpenURL:
    return read_url(ElicitURLParams(message=message, url=url), server="shop")


def enter(dialog: FormDialog | URLDialog, *lines: str) -> list[Reply]:
    return [dialog.begin(), *(dialog.feed(line) for line in lines)]


def accepted(content: dict[str, Any]) -> ElicitResult:
    return ElicitResult(action="accept", content=content)


# --- a form


def test_form_is_filled_in_and_reviewed() -> None:
    form = make({"name": NAME, "age": AGE, "color": COLOR, "tags": TAGS, "sure": {"type": "boolean"}}, "name", "sure")
    replies = enter(FormDialog(form), "Ann", "", "2", "a, c", "y", "send")

    assert [reply.text for reply in replies] == [
        """\
notes asks:
  | Please tell
5 questions; commands: :back, :skip, :help, :decline, :cancel

(1 of 5) Your name
  | As in your passport
  Takes text (at least 2 characters).
""",
        """\
(2 of 5) age, optional
  Takes an integer (0 to 150); an empty line means 30.
""",
        """\
(3 of 5) color, optional
    1) Red (#f00)
    2) Blue (#00f)
  Takes one of these, by number or name; an empty line leaves it out.
""",
        """\
(4 of 5) tags, optional
    1) a
    2) b
    3) c
  Takes any of these, by number or name, with commas between them, or none; an
    empty line leaves it out.
""",
        """\
(5 of 5) sure
  Takes yes or no.
""",
        """\
Your answers for notes:
  1) Your name: Ann
  2) age: 30
  3) color: Blue
  4) tags: a, c
  5) sure: yes
Type send to accept, the number of an answer to change it, :decline to refuse,
  or :cancel.
""",
        "Sent.\n",
    ]
    assert [reply.prompt for reply in replies] == [
        "Your name: ", "age [30]: ", "color: ", "tags: ", "sure: ", "Send? ", "",
    ]  # fmt: skip
    assert [reply.result for reply in replies[:-1]] == [None] * 6
    assert replies[-1].result == accepted({"name": "Ann", "age": 30, "color": "#00f", "tags": ["a", "c"], "sure": True})


@pytest.mark.parametrize(
    ("definition", "lines", "value"),
    [
        (NAME, ["x", "Xe"], "Xe"),
        (NOTE, ["::decline"], ":decline"),
        (NOTE, ["a :b ::c"], "a :b ::c"),
        (NOTE, [" kept as it is \r\n"], " kept as it is "),
        (NOTE, ["send"], "send"),
        (AGE, ["old", "151", "31"], 31),
        (AGE, ["", "1", "x", "33"], 33),
        (AGE, [":back", ":HELP", ":foo", ": ", ":foo bar", "30"], 30),
        (COLOR, ["3", "blue"], "#00f"),
        (COLOR, ["#f00"], "#f00"),
        ({"type": "string", "enum": ["2", "1"]}, ["1"], "1"),
        (TAGS, ["1 3"], ["a", "c"]),
        (TAGS, ["none"], []),
        ({**TAGS, "maxItems": 1}, ["a,b", "b"], ["b"]),
    ],
)  # fmt: skip
def test_enter_sends_the_answer_to_the_only_question(definition: dict[str, Any], lines: list[str], value: Any) -> None:
    *_, asked, end = enter(FormDialog(make({"f": definition})), *lines)

    assert asked.result is None
    assert end == Reply(text="Sent.\n", result=accepted({"f": value}))


def test_only_question_is_shown_without_a_number() -> None:
    first, review, end = enter(FormDialog(make({"age": AGE})), "", "send")

    assert first == Reply(
        text="""\
notes asks:
  | Please tell
Enter sends the answer; commands: :back, :skip, :help, :decline, :cancel

age, optional
  Takes an integer (0 to 150); an empty line means 30.
""",
        prompt="age [30]: ",
    )
    assert review.prompt == "Send? "
    assert end.result == accepted({"age": 30})


@pytest.mark.parametrize(
    ("definition", "lines", "value"),
    [
        (NOTE, ["send"], "send"),
        (AGE, [""], 30),
        (AGE, ["\n"], 30),
        (AGE, ["old", "151", "31"], 31),
        (AGE, ["31", ":back", ""], 31),
        (AGE, ["31", ":back", "32"], 32),
        (AGE, ["31", "", "1", ""], 31),
        (AGE, ["31", "", "edit 1", "32"], 32),
        (AGE, ["31", "", "1", "x", "33"], 33),
        (AGE, ["31", "", "1", ":back"], 31),
        (AGE, ["31", "", "1", ":skip", "1", "32"], 32),
        (AGE, ["31", "", "0", "3", "edit", "", "n", ":help", "help"], 31),
        ({**TAGS, "default": ["a"]}, [""], ["a"]),
        ({**TAGS, "default": []}, [""], []),
    ],
)  # fmt: skip
def test_lines_become_the_value_of_a_field(definition: dict[str, Any], lines: list[str], value: Any) -> None:
    dialog = FormDialog(make({"f": definition, "g": NOTE}))
    reply = enter(dialog, *lines)[-1]
    if reply.prompt != "Send? ":
        reply = dialog.feed("")

    assert reply.prompt == "Send? "
    assert dialog.feed("accept").result == accepted({"f": value})


@pytest.mark.parametrize(
    ("definition", "lines"),
    [(NOTE, [""]), (AGE, [":skip"]), (AGE, ["", "1", ":skip"])],
)
def test_optional_field_is_skipped(definition: dict[str, Any], lines: list[str]) -> None:
    *_, review, end = enter(FormDialog(make({"f": definition})), *lines, "y")

    assert "  1) f: (left out)\n" in review.text
    assert end.result == accepted({})


def test_required_multiple_choice_may_be_empty() -> None:
    assert enter(FormDialog(make({"f": TAGS}, "f")), "", "send")[-1].result == accepted({"f": []})


@pytest.mark.parametrize(
    ("definition", "line", "message"),
    [
        (NAME, "", "This one is required: text (at least 2 characters).\n"),
        (NAME, ":skip", "This one is required.\n"),
        (NAME, "x", "Expected text (at least 2 characters), got 1 character.\n"),
        (NAME, ":back", "There is no question before this one.\n"),
        (NAME, ":foo", "There is no command `:foo`; there are :back, :skip, :help, :decline, :cancel.\n"),
        (NAME, "::", "Expected text (at least 2 characters), got 1 character.\n"),
        ({**AGE, "default": None}, "200", "Expected an integer (0 to 150), got 200.\n"),
        (COLOR, "green", 'Expected one of "#f00" (Red), "#00f" (Blue), got "green".\n'),
        ({**TAGS, "minItems": 1}, "", 'This one is required: at least 1 of "a", "b", "c".\n'),
    ],
)
def test_invalid_entry_is_explained_and_asked_again(definition: dict[str, Any], line: str, message: str) -> None:
    first, again = enter(FormDialog(make({"f": definition}, "f")), line)

    assert again == Reply(text=message, prompt=first.prompt)


def test_going_back_keeps_the_answers() -> None:
    form = make({"a": AGE, "b": NOTE, "c": NOTE}, "b")
    *_, back, review, end = enter(FormDialog(form), "1", "two", ":back", ":back", "", "", "three", ":back", "", "send")

    assert "an empty line keeps three" in back.text
    assert back.prompt == "c [three]: "
    assert "  1) a: 1\n  2) b: two\n  3) c: three\n" in review.text
    assert end.result == accepted({"a": 1, "b": "two", "c": "three"})


def test_changed_answer_returns_to_the_review() -> None:
    *_, asked, review, end = enter(FormDialog(make({"a": NOTE, "b": NOTE})), "1", "2", "1", "one", "send")

    assert asked.text.startswith("(1 of 2) a, optional\n")
    assert asked.prompt == "a [1]: "
    assert "  1) a: one\n  2) b: 2\n" in review.text
    assert end.result == accepted({"a": "one", "b": "2"})


@pytest.mark.parametrize(
    "lines", [[], ["Ann", ""], ["Ann", "", "1"]], ids=["at a question", "at the review", "editing"]
)
@pytest.mark.parametrize(
    ("command", "action", "message"),
    [(":decline", "decline", "Declined.\n"), (" :Cancel ", "cancel", "Cancelled.\n")],
)
def test_form_is_declined_or_cancelled_at_any_question(
    lines: list[str], command: str, action: Any, message: str
) -> None:
    end = enter(FormDialog(make({"name": NAME, "note": NOTE})), *lines, command)[-1]

    assert end == Reply(text=message, result=ElicitResult(action=action))


@pytest.mark.parametrize(("word", "action"), [("decline", "decline"), ("Cancel", "cancel"), ("SEND", "accept")])
def test_review_accepts_action_words(word: str, action: str) -> None:
    result = enter(FormDialog(make({"note": NOTE})), "", word)[-1].result

    assert result is not None
    assert result.action == action


def test_empty_line_at_the_review_sends_nothing() -> None:
    review, again = enter(FormDialog(make({"note": NOTE})), "", "")[-2:]

    assert again.result is None
    assert again.text.startswith("Nothing is sent yet. Type send to accept, the number of")
    assert again.prompt == review.prompt == "Send? "


def test_form_without_fields_asks_for_consent_only() -> None:
    first, *_, end = enter(FormDialog(make({}, message="Sure?")), ":back", "1", ":skip", "send")

    assert first == Reply(
        text="""\
notes asks:
  | Sure?
commands: :back, :skip, :help, :decline, :cancel

There is nothing to fill in.
Type send to accept, :decline to refuse, or :cancel.
""",
        prompt="Send? ",
    )
    assert end.result == accepted({})


HOSTILE = "\x1b[2J\u202e\n\nSent.\n" + "x " * 60 + "\r\x07"


def test_text_of_the_server_cannot_imitate_the_dialog() -> None:
    form = make(
        {
            HOSTILE: {
                "type": "string",
                "title": HOSTILE,
                "description": HOSTILE,
                "default": HOSTILE,
                "format": HOSTILE,
            },
            "choice": {"type": "array", "items": {"oneOf": [{"const": HOSTILE, "title": HOSTILE + "!"}]}},
        },
        message=HOSTILE,
    )
    replies = enter(FormDialog(form, width=40), ":help", ":\x1b[2J", "x\x1b[2J", "", "zzz", "1")
    shown = "".join(reply.text + reply.prompt for reply in replies)

    assert all(character.isprintable() or character == "\n" for character in shown)
    assert all("\n" not in reply.prompt and len(reply.prompt) < 120 for reply in replies)
    assert not any(line.startswith(("Sent", "x x")) for line in shown.splitlines())
    assert all(len(line) <= 40 for reply in replies for line in reply.text.splitlines() if line.startswith("  | "))


LINES = st.text(max_size=6) | st.sampled_from(["", "1", "2", "y", "send", ":back", ":skip", ":help", "edit 1", "a,b"])


@settings(max_examples=200, deadline=None)
@given(st.lists(LINES, max_size=30))
def test_form_sends_only_valid_answers(lines: list[str]) -> None:
    form = make({"name": NAME, "age": AGE, "color": COLOR, "tags": TAGS}, "name", "tags")
    dialog = FormDialog(form)
    reply = dialog.begin()
    for line in lines:
        assert reply.prompt
        assert reply.text.endswith("\n")
        reply = dialog.feed(line)
        if reply.result is not None:
            assert form.accept({"age": 1, "color": "#f00", **(reply.result.content or {})})
            break


# --- a page


def test_page_is_shown_before_the_question() -> None:
    first, end = enter(URLDialog(page("https://pay.example/?a=b", message="To pay,\ngo there")), "yes")

    assert first == Reply(
        text="""\
shop asks you to open a page:
  | To pay,
  | go there
URL:  https://pay.example/?a=b
Host: [ pay.example ]
""",
        prompt="Open it in your browser? (yes/no) ",
    )
    assert end == Reply(text="Accepted.\n", result=ElicitResult(action="accept"))


def test_long_url_is_shown_in_full_on_one_line() -> None:
    url = "https://pay.example/?" + "x" * 3_000

    assert f"URL:  {url}\n" in URLDialog(page(url)).begin().text


def test_host_is_emphasised_by_the_given_function() -> None:
    dialog = URLDialog(page("https://pay.example/"), emphasise=lambda host: f"\x1b[1m{host}\x1b[0m")

    assert "Host: \x1b[1mpay.example\x1b[0m\n" in dialog.begin().text


def test_warnings_are_between_the_host_and_the_question() -> None:
    assert URLDialog(page("http://user@pay.example/")).begin().text.partition("URL:  ")[2] == (
        """\
http://user@pay.example/
Host: [ pay.example ]
Warning: it has a user name before the host, which can be mistaken for the
  host.
Warning: it is not encrypted (http): others may read along, and change the
  page.
"""
    )


@pytest.mark.parametrize(
    ("lines", "action"),
    [
        (["yes"], "accept"),
        (["Open"], "accept"),
        (["y", "", "yes please", "yes"], "accept"),
        (["no"], "decline"),
        (["n"], "decline"),
        ([":decline"], "decline"),
        (["decline"], "decline"),
        ([":cancel"], "cancel"),
        (["cancel"], "cancel"),
        ([":yes", ":foo", ":help", "help", ":no", "no"], "decline"),
    ],
)
def test_consent_requires_a_whole_word(lines: list[str], action: str) -> None:
    *before, end = enter(URLDialog(page("https://pay.example/")), *lines)

    assert [reply.result for reply in before] == [None] * len(lines)
    assert end.result == ElicitResult(action=action)  # type: ignore[arg-type]


def test_unsafe_page_cannot_be_consented_to() -> None:
    first, again, end = enter(URLDialog(page("https:/\\evil.example/ \x1b[2J")), "yes", "no")

    assert "URL:  https:/\\evil.example/\\x20\\x1b[2J\nHost: none\nWarning: it may not be opened: " in first.text
    assert first.prompt == "It will not be opened. (no/:cancel) "
    assert again == Reply(text="It may not be opened. Enter no to decline, or :cancel.\n", prompt=first.prompt)
    assert end.result == ElicitResult(action="decline")


# --- the driver


def typing(lines: list[str], screen: list[str]) -> tuple[Callable[[str, Any], Awaitable[str]], Callable[[str], None]]:
    """A terminal with these lines of input, then its end."""
    left = iter(lines)

    async def read_line(prompt: str, _: Any) -> str:
        await trio.lowlevel.checkpoint()
        if (line := next(left, None)) is None:
            raise EOFError
        screen.append(f"{prompt}{line}\n")
        return line

    return read_line, screen.append


async def test_form_is_repeated_until_it_is_answered() -> None:
    screen: list[str] = []
    read_line, write = typing(["", "Ann"], screen)
    result = await ask(make({"name": {"type": "string"}}, "name"), read_line=read_line, write=write)

    assert result == accepted({"name": "Ann"})
    assert "".join(screen).endswith(
        """\
name
  Takes text.
name: 
This one is required: text.
name: Ann
Sent.
"""  # noqa: W291 - the prompt ends with a space
    )


async def test_page_is_asked_at_the_terminal() -> None:
    screen: list[str] = []
    read_line, write = typing(["yes"], screen)
    result = await ask(
        page("https://pay.example/"), read_line=read_line, write=write, emphasise=lambda host: f"*{host}*"
    )

    assert result == ElicitResult(action="accept")
    assert "Host: *pay.example*\n" in "".join(screen)


@pytest.mark.parametrize("question", [make({"name": NAME}), page("https://pay.example/")], ids=["form", "url"])
async def test_end_of_input_cancels_the_question(question: Form | OpenURL) -> None:
    read_line, write = typing(["x"], [])

    assert await ask(question, read_line=read_line, write=write) == ElicitResult(action="cancel")


async def test_deadline_ends_the_question(autojump_clock: trio.testing.MockClock) -> None:
    async def read_line(prompt: str, _: Any) -> str:
        await trio.sleep_forever()
        raise AssertionError(prompt)

    with trio.move_on_after(60) as scope:
        await ask(make({"name": NAME}), read_line=read_line, write=lambda text: None)

    assert scope.cancelled_caught


def test_commands_are_wrapped_at_a_narrow_terminal() -> None:
    first = FormDialog(make({"age": AGE}), width=40).begin()

    assert "Enter sends the answer; commands: :back,\n  :skip, :help, :decline, :cancel\n" in first.text
