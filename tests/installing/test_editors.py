"""The editors: only our entry changes in any file, and an entry can be removed again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from mcptrio.cli.install.documents import FormatName, entry_at, parse, put, remove
from mcptrio.cli.install.edits import Uneditable, Unreadable
from tests.installing.texts import ENTRY, entries, jsonc, toml, yaml_maps

__all__: list[str] = []

JSON_KEYS = ("mcpServers", "mcptrio")
TOML_KEYS = ("mcp_servers", "mcptrio")
YAML_KEYS = ("extensions", "mcptrio")


def contains_all_characters(before: str, after: str) -> bool:
    """Return whether all characters are still there, in the same order: text was only added."""
    left = iter(after)
    return all(character in left for character in before)


def is_readable(name: FormatName, text: str) -> bool:
    try:
        parse(name, text)
    except Unreadable:
        return False
    return True


@settings(deadline=None)
@given(jsonc(JSON_KEYS), entries())
@example("{}", ENTRY)
@example("", ENTRY)
@example('{"a": 1}', ENTRY)
@example('{"a":1}', ENTRY)
@example('{\r\n\t"a": 1 // one\r\n}\r\n', ENTRY)
@example('{"mcpServers": {/* none */}}', ENTRY)
@example('{"mcpServers": {"x": {} // }\n}}', ENTRY)
def test_json_changes_only_in_our_entry(text: str, entry: dict[str, Any]) -> None:
    after = put("json", text, JSON_KEYS, entry)

    assert entry_at(parse("json", after), JSON_KEYS) == entry
    assert contains_all_characters(text, after)
    changed = put("json", after, JSON_KEYS, {"command": "other"})
    assert entry_at(parse("json", changed), JSON_KEYS) == {"command": "other"}
    assert put("json", changed, JSON_KEYS, entry) == after
    taken = remove("json", after, JSON_KEYS)
    servers = parse("json", text).get("mcpServers")
    assert taken == text if servers else parse("json", taken) == {**parse("json", text), "mcpServers": {}}


@settings(deadline=None)
@given(toml(TOML_KEYS), entries())
@example("", ENTRY)
@example("mcp_servers.fs.command = 'x'", ENTRY)
@example("[mcp_servers]\nfs = { command = 'x' }\n", ENTRY)
def test_toml_changes_only_in_our_entry(text: str, entry: dict[str, Any]) -> None:
    assume(is_readable("toml", text))
    after = put("toml", text, TOML_KEYS, entry)

    assert entry_at(parse("toml", after), TOML_KEYS) == entry
    assert after.startswith(text)
    changed = put("toml", after, TOML_KEYS, {"command": "other"})
    assert changed.startswith(text)
    assert put("toml", changed, TOML_KEYS, entry) == after
    assert remove("toml", after, TOML_KEYS).rstrip() == text.rstrip()


@settings(deadline=None)
@given(yaml_maps(YAML_KEYS), entries())
@example("", ENTRY)
@example("# only words\n", ENTRY)
@example("extensions:", ENTRY)
def test_yaml_changes_only_in_our_entry(text: str, entry: dict[str, Any]) -> None:
    assume(is_readable("yaml", text))
    try:
        after = put("yaml", text, YAML_KEYS, entry)
    except Uneditable:
        assume(False)  # a text whose last line is in a block scalar without a line end
        raise
    assert entry_at(parse("yaml", after), YAML_KEYS) == entry
    assert contains_all_characters(text, after)
    changed = put("yaml", after, YAML_KEYS, {"cmd": "other"})
    assert put("yaml", changed, YAML_KEYS, entry) == after
    there = parse("yaml", text).get("extensions")
    taken = remove("yaml", after, YAML_KEYS)
    assert taken.rstrip() == text.rstrip() if there else not entry_at(parse("yaml", taken), YAML_KEYS)


@settings(deadline=None)
@given(
    st.sampled_from(["json", "toml", "yaml"]), st.text(alphabet="{}[]\"'\\:,#/*- \n\r\tab1.=|>&!~\ufeff", max_size=30)
)
def test_any_text_is_edited_or_refused(name: FormatName, text: str) -> None:
    """The entry is written, or the editor raises its own error."""
    try:
        after = put(name, text, ("a", "mcptrio"), ENTRY)
    except (Unreadable, Uneditable):
        return

    assert entry_at(parse(name, after), ("a", "mcptrio")) == ENTRY


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{}\n", '{\n  "s": {\n    "m": {\n      "command": "x"\n    }\n  }\n}\n'),
        ('{"a":{}}', '{"a":{},"s":{"m":{"command":"x"}}}'),
        ('{ "s": { "b": 1 } }', '{ "s": { "b": 1, "m": {"command": "x"} } }'),
        (
            '{\n\t"s": {\n\t\t"b": {}, // keep\n\t\t// and this\n\t},\n}\n',
            '{\n\t"s": {\n\t\t"b": {}, // keep\n\t\t"m": {\n\t\t\t"command": "x"\n\t\t},\n\t\t// and this\n\t},\n}\n',
        ),
        (
            '{\r\n    "s": {\r\n        "b": {} // keep\r\n    }\r\n}',
            '{\r\n    "s": {\r\n        "b": {}, // keep\r\n'
            '        "m": {\r\n            "command": "x"\r\n        }\r\n    }\r\n}',
        ),
        ('{\n  "s": {\n  }\n}', '{\n  "s": {\n    "m": {\n      "command": "x"\n    }\n  }\n}'),
    ],
)
def test_json_entry_has_the_style_of_the_file(before: str, after: str) -> None:
    assert put("json", before, ("s", "m"), {"command": "x"}) == after


@pytest.mark.parametrize(
    ("name", "text", "after"),
    [
        ("json", '{"s": {"m": {}, "b": 1}}', '{"s": {"b": 1}}'),
        ("json", '{"s": {\n  // mine\n  "m": {}, // ours\n  "b": 1\n}}', '{"s": {\n  // mine\n  // ours\n  "b": 1\n}}'),
        ("json", '{"s": {// c\n "m": {} }}', '{"s": {// c\n }}'),
        ("json", '{"s": {"b": 1, // c\n "m": {}}}', '{"s": {"b": 1 // c\n }}'),
        ("toml", "[s.m]\na = 1\n\n[s.m.env]\nb = 1\n\n# of c\n[c]\n", "\n# of c\n[c]\n"),
        ("toml", "[a]\n\n[s.m]\nx = 1\n\n[c]\n[s.m.env]\nb = 1\n[d]\n", "[a]\n\n[c]\n[d]\n"),
        ("toml", "[s]\nm.a = 1\nm.b = [\n1]\nc = 2", "[s]\nc = 2"),
        ("yaml", "s:\n  # of m\n  m:\n    a: |\n      x\n  # of b\n  b: 1\n", "s:\n  # of m\n  # of b\n  b: 1\n"),
        ("yaml", "s:\n  m: 1 # x\nt: 2\n", "s: {}\nt: 2\n"),
        ("yaml", "s: {b: 1, m: {a: 1}, c: 2}\n", "s: {b: 1, c: 2}\n"),
        ("yaml", "s: {b: 1, m: {a: 1}}\n", "s: {b: 1}\n"),
    ],
)
def test_entry_in_any_notation_is_removed(name: FormatName, text: str, after: str) -> None:
    assert remove(name, text, ("s", "m")) == after


@pytest.mark.parametrize(
    ("name", "text", "line", "column"),
    [
        ("json", '{\n  "a": 1\n  "b": 2\n}', 3, 3),
        ("json", '{"a": }', 1, 7),
        ("json", "{\n", 2, 1),
        ("json", '{"a": 1, "a": 2}', 1, 10),
        ("toml", "a = 1\nb = = 2\n", 2, 5),
        ("toml", "a = 1\na = 2\n", 2, 6),
        ("yaml", "a: 1\nb: [1\n", 3, 1),
        ("yaml", "a: 1\na: 2\n", 2, 1),
        ("yaml", "a: &x {b: *x}\n", 1, 4),
        ("yaml", "\ta: 1\n", 1, 1),
        ("yaml", "a: 1\n---\nb: 2\n", 2, 1),
        ("yaml", "a: 1\nb: \x07\n", 2, 4),
    ],
)
def test_unreadable_file_error_has_line_and_column(name: FormatName, text: str, line: int, column: int) -> None:
    with pytest.raises(Unreadable) as refused:
        put(name, text, ("s", "m"), ENTRY)

    assert (refused.value.line, refused.value.column) == (line, column)


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("a: &x {b: 1}\nc: *x\ns:\n  d: *x\n", 'a: &x {b: 1}\nc: *x\ns:\n  m:\n    cmd: "x"\n  d: *x\n'),
        ("a: &x {b: 1}\ns:\n  <<: *x\n", 'a: &x {b: 1}\ns:\n  m:\n    cmd: "x"\n  <<: *x\n'),
        ("s:\t# c\n  b: 1\t# d\n", 's:\t# c\n  m:\n    cmd: "x"\n  b: 1\t# d\n'),
        ("s:\t{b: 1,\tc: 2}\t# d\n", 's:\t{"m": {"cmd": "x"}, b: 1,\tc: 2}\t# d\n'),
        ("a:\t'x\t# y'\t#z\n", "a:\t'x\t# y'\t#z\ns:\n  m:\n    cmd: \"x\"\n"),
    ],
)
def test_yaml_with_aliases_and_tabs_is_edited(text: str, after: str) -> None:
    assert put("yaml", text, ("s", "m"), {"cmd": "x"}) == after
    assert entry_at(parse("yaml", remove("yaml", after, ("s", "m"))), ("s", "m")) is None


def test_aliases_that_expand_too_much_are_refused() -> None:
    text = "a0: &a0 [1, 2]\n" + "".join(
        f"a{number}: &a{number} [*a{number - 1}, *a{number - 1}]\n" for number in range(1, 40)
    )

    with pytest.raises(Unreadable, match="expected aliases that stand for at most 1000000 values"):
        parse("yaml", text)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("toml", "a = 1\ns = { m = { b = 1 } }\n", r"line 2: expected s as a table with a header, \[s\], got a value"),
        ("yaml", "a: &x {m: {b: 1}}\ns: {<<: *x}\n", "expected s.m to be written out, got one that << merges in"),
        ("yaml", "a: &x {m: {b: 1}}\ns: *x\n", "got one in which other entries would change"),
    ],
)
def test_entry_that_cannot_be_removed_is_refused(name: FormatName, text: str, message: str) -> None:
    with pytest.raises(Uneditable, match=message):
        remove(name, text, ("s", "m"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("json", '{"s": []}'),
        ("json", "[]"),
        ("json", '{"s": null}'),
        ("toml", "s = { b = 1 }\n"),
        ("toml", "s = 1\n"),
        ("yaml", "a: &x {b: 1}\ns: *x\n"),
        ("yaml", "s: [1]\n"),
        ("yaml", "- 1\n"),
        ("yaml", "a: 1\n...\n"),
    ],
)
def test_uneditable_file_is_refused(name: FormatName, text: str) -> None:
    with pytest.raises(Uneditable):
        put(name, text, ("s", "m"), ENTRY)


def test_deeply_nested_file_is_refused() -> None:
    for name, text in (("json", "[" * 100_000), ("toml", "a = " + "[" * 100_000), ("yaml", "[" * 100_000)):
        with pytest.raises(Unreadable):
            put(name, text, ("s", "m"), ENTRY)  # type: ignore[arg-type]


def test_large_file_takes_linear_time() -> None:
    servers = {f"s{number}": {"command": "x", "args": ["y"] * 20} for number in range(2000)}
    text = json.dumps({"mcpServers": servers}, indent=2)

    assert remove("json", put("json", text, JSON_KEYS, ENTRY), JSON_KEYS) == text
