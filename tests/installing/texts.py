"""Files as users write them: the same values with any spaces, comments, line ends and commas.

Used by the tests of the editors.
"""

from __future__ import annotations

import json
import string
from typing import Any

from hypothesis import strategies as st

__all__ = ["ENTRY", "entries", "jsonc", "toml", "yaml_maps"]

ENTRY = {"command": "/opt/py thon", "args": ["-m", "mcptrio", "serve", "--stdio"], "env": {"A": 'b "c" \\ é \u2028'}}

_NAMES = st.sampled_from(["a", "b", "c c", "é", "mcpServers", "servers", "//", 'q"', "1"])
_TEXTS = st.text(alphabet=string.ascii_letters + ' /*",:{}[]#\\é\U0001f600\n', max_size=8)
_SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-(10**6), 10**6), _TEXTS)
_VALUES: st.SearchStrategy[Any] = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_NAMES, inner, max_size=3)),
    max_leaves=6,
)
_WORDS = st.text(alphabet=string.ascii_letters + '0 "\\é', max_size=6)


@st.composite
def entries(draw: st.DrawFn) -> dict[str, Any]:
    """An entry as an installer may write it."""
    env = draw(st.dictionaries(st.sampled_from(["A", "B_C"]), _WORDS, max_size=2))
    return {"command": draw(_WORDS), "args": draw(st.lists(_WORDS, max_size=3)), **({"env": env} if env else {})}


@st.composite
def jsonc(draw: st.DrawFn, keys: tuple[str, ...]) -> str:
    """An object with any layout, in which there may be an object under the first of the keys."""
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    space = st.sampled_from(
        ["", "", " ", newline, f"{newline}  ", "\t", " /* c */ ", f' // c }} "{newline}', f"{newline}/* d{newline}*/"]
    )
    commas = draw(st.booleans())

    def written(value: Any) -> str:
        if isinstance(value, dict):
            items = [
                f"{draw(space)}{json.dumps(name)}{draw(space)}:{draw(space)}{written(value[name])}{draw(space)}"
                for name in value
            ]
            brackets = "{}"
        elif isinstance(value, list):
            items = [f"{draw(space)}{written(each)}{draw(space)}" for each in value]
            brackets = "[]"
        else:
            return json.dumps(value, ensure_ascii=draw(st.booleans()))
        inner = ",".join(items) or draw(space)
        if items and commas and draw(st.booleans()):
            inner += f",{draw(space)}"
        return f"{brackets[0]}{inner}{brackets[1]}"

    value = draw(st.dictionaries(_NAMES.filter(lambda name: name != keys[0]), _VALUES, max_size=3))
    if draw(st.booleans()):
        others = draw(st.dictionaries(_NAMES.filter(lambda name: name != keys[1]), _VALUES, max_size=3))
        value = {**value, keys[0]: others}
        if draw(st.booleans()):
            value = dict(reversed(value.items()))
    return f"{draw(space)}{written(value)}{draw(space)}"


@st.composite
def toml(draw: st.DrawFn, keys: tuple[str, ...]) -> str:
    """Tables with comments, long strings and arrays over several lines, some outside the table of the keys."""
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    values = st.sampled_from(
        [
            "1",
            "true",
            '"#[x]"',
            "'''a\n[b]\nc = 1'''",
            '"""\\"""\n[d]"""',
            "[1, # ]\n 2]",
            "{ a = 1, b = [2] }",
            "1979-05-27",
            "nan",
        ]
    )
    heads = ["other", f"{keys[0]}.fs", f'"{keys[0]}" . "x y"', f"{keys[0]}.fs.env", "[list]", "[list]"]
    lines = [f"k{number} = {draw(values)}" for number in range(draw(st.integers(0, 2)))]
    for head in draw(st.lists(st.sampled_from(heads), unique=True, max_size=4)):
        lines += draw(st.sampled_from([[], [""], ["# about it"], ["", "  # [no.table]"]]))
        lines.append(f"{draw(st.sampled_from(['', '  ']))}[{head}]{draw(st.sampled_from(['', ' # c']))}")
        lines += [f"k{number} = {draw(values)}" for number in range(draw(st.integers(0, 2)))]
    text = "\n".join(lines) + draw(st.sampled_from(["", "\n", "\n\n", "\n# end"]))
    return text.replace("\n", newline)


@st.composite
def yaml_maps(draw: st.DrawFn, keys: tuple[str, ...]) -> str:
    """A mapping in block style, with comments and all kinds of values, in which there may be one of the first key."""
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    values = st.sampled_from(
        [
            "1",
            "'it''s'",
            '"a # b"',
            "{a: 1, b: [2, 3]}",
            "|\n{m}  text\n{m}  # more",
            "plain words # c",
            "\n{m}  - 1\n{m}  - b: c",
            "~",
        ]
    )
    comment = st.sampled_from([[], [], ["# above"], [""], ["  # odd"]])

    def block(margin: str, names: list[str]) -> list[str]:
        found = []
        for name in names:
            found += draw(comment)
            found.append(f"{margin}{name}: {draw(values).replace('{m}', margin)}")
        return found

    lines = block("", draw(st.lists(st.sampled_from(["GOOSE_MODEL", "x y", "'q'"]), unique=True, max_size=2)))
    kind = draw(st.sampled_from(["none", "null", "flow", "empty", "block"]))
    if kind != "none":
        step = draw(st.sampled_from(["  ", "    "]))
        inner = block(step, draw(st.lists(st.sampled_from(["developer", "fs", '"a b"']), unique=True, min_size=1)))
        body = {"null": [], "empty": [], "flow": [], "block": inner}[kind]
        tail = {"null": "", "empty": " {}", "flow": " {fs: {type: stdio}, 'b': 1} # c", "block": ""}[kind]
        lines += [f"{keys[0]}:{tail}", *body]
    lines += block("", draw(st.lists(st.sampled_from(["last", "other"]), unique=True, max_size=2)))
    text = "\n".join(lines) + draw(st.sampled_from(["\n", "\n\n", "\n# end\n", ""]))
    return text.replace("\n", newline)
