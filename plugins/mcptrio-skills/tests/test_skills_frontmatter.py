"""Front matter has the values that hosts read with a YAML 1.2 parser."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from mcptrio_skills.frontmatter import BadSkill, check_name, read_frontmatter

from tests.conformance.runner import find_suite
from tests.node import find_node

SCALARS = """\
words: [yes, No, on, off, y, n, true, False, ~, null, NULL, tRue]
dates: [2026-01-02, 2001-12-14t21:59:43.10-05:00, 12:30, 1:30:00]
numbers: [012, 0o17, 0x1F, 1_000, +1, -0, 1., .5, 1e3, -1.5E-3, 1.10, 0b1, "1", '2', 1 ]
empty:
nested: {a: {b: [1, {c: d}]}, e: []}
block: |
  one
  two
folded: >-
  one
  two
quoted: "\\u00e9\\n\\x41"
anchor: &x 1
tagged: !!str 1
emoji: 😀
true: key
colon: a:b
hash: a#b # comment
"""


def matter(text: str) -> bytes:
    return f"---\nname: a\ndescription: x\n{text}\n---\n# Body\n---\n".encode()


def test_scalars_follow_the_yaml_core_schema() -> None:
    """The result is compared with the suite's parser, which many hosts use."""
    node = find_node()
    modules = find_suite(node).parents[3]
    script = "console.log(JSON.stringify(require('yaml').parse(require('fs').readFileSync(0, 'utf8'))))"
    text = SCALARS.replace("true: key\n", "")
    theirs = subprocess.run(
        [node.binary, "-e", script], cwd=modules, input=text, capture_output=True, text=True, check=True, timeout=60
    )

    ours = read_frontmatter(matter(text.rstrip("\n")))

    expected = json.loads(theirs.stdout)
    assert {key: ours[key] for key in expected} == expected


def test_byte_order_mark_and_any_line_ends_are_accepted() -> None:
    text = b"\xef\xbb\xbf---\r\nname: a\r\ndescription: |\r\n  b\r\n  c\r\n---\r\nbody"

    assert read_frontmatter(text) == {"name": "a", "description": "b\nc"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "to begin with front matter"),
        (b"# Title\n---\nname: a\n---\n", "to begin with front matter"),
        (b"---\nname: a\n", "to begin with front matter"),
        (b"---\nname: \xff\n---\n", "in UTF-8, got byte 0xff"),
        (b"---\n- a\n---\n", "with fields, got something else"),
        (b"---\n# nothing\n---\n", "with fields, got something else"),
        (b"---\nname: a\n---\n", "description: expected a string of 1 to 1024 characters, got none"),
        (b"---\nname: a\ndescription: 5\n---\n", "description: expected a string .* got 5"),
        (matter("name: b"), "each key once, got 'name' again at line 4"),
        (matter("x: &a 1\ny: *a"), r"no aliases in front matter, got \*a at line 5"),
        (matter("a: &a [x,x]\nb: &b [*a,*a]"), "no aliases"),
        (matter("x: " + "[" * 5000), "32 deep"),
        (matter("x: " + "{a: " * 40 + "}" * 40), "32 deep"),
        (matter("x: [" + "1," * 20_000 + "]"), "at most 5000 values"),
        (matter("x: " + "a" * 70_000), "at most 65536 bytes"),
        (matter("x: !!python/object/apply:os.system [id]"), "plain values"),
        (matter("x: !!timestamp 2001-01-01"), "plain values"),
        (matter("x: !!binary aGk="), "plain values"),
        (matter("x: .nan"), "finite number"),
        (matter("x: .inf"), "finite number"),
        (matter("x: 9007199254740992"), "integer within"),
        (matter("x: !!int abc"), "invalid literal"),
        (matter("1: x"), "strings as keys, got 1, which needs quotes at line 4"),
        (matter("? [a]\n: x"), "strings as keys"),
        (matter("x: 'a"), "expected YAML"),
        (matter("x: y: z"), "expected YAML, got mapping values are not allowed here at line 4"),
        (matter("\tx: y"), "expected YAML"),
        (matter("...\nb: c"), "expected YAML"),
        (matter("x: \x07"), "expected YAML"),
    ],
)
def test_unsupported_frontmatter_is_refused(text: bytes, problem: str) -> None:
    with pytest.raises(BadSkill, match=problem):
        read_frontmatter(text)


@pytest.mark.parametrize("name", ["a", "a-b", "0", "a" * 64, "pdf-2"])
def test_valid_skill_name_is_accepted(name: str) -> None:
    check_name({"name": name}, name)
    with pytest.raises(BadSkill, match="expected that of the folder"):
        check_name({"name": name}, f"{name}x")


@pytest.mark.parametrize("name", ["", "A", "a_b", "-a", "a-", "a--b", "a" * 65, "a\n", "é", "a b"])
def test_invalid_skill_name_is_refused(name: str) -> None:
    with pytest.raises(BadSkill, match="single hyphens inside"):
        check_name({"name": name}, name)


def test_every_field_is_kept() -> None:
    found: dict[str, Any] = read_frontmatter(matter("allowed-tools: Bash(git:*) Read\nmetadata: {x: 1}\nown: [a]"))

    assert list(found) == ["name", "description", "allowed-tools", "metadata", "own"]
