"""Writes ``docs/reference.md``: the public names of mcptrio, from their signatures and docstrings.

Run it after a change: python docs/make_reference.py. A test compares the file with what this would write.
The one rule: nothing is said here that the code does not say; the groups are the comments in the packages.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from enum import EnumMeta
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs

import mcptrio
import mcptrio.abc
import mcptrio.auth
import mcptrio.auth.jose
import mcptrio.auth.urls
import mcptrio.client
import mcptrio.errors
import mcptrio.host
import mcptrio.net
import mcptrio.schema
import mcptrio.serving
import mcptrio.types

__all__ = ["PACKAGES", "PAGE", "render"]

MODULES = {
    mcptrio.errors: "More errors",
    mcptrio.abc: "Interfaces",
    mcptrio.auth.jose: "Keys and signed tokens",
    mcptrio.auth.urls: "URLs of authorization",
}
"""Modules that are public as they are, with their titles."""

PACKAGES = (
    mcptrio,
    mcptrio.types,
    mcptrio.serving,
    mcptrio.client,
    mcptrio.host,
    mcptrio.auth,
    mcptrio.net,
    mcptrio.schema,
    *MODULES,
)

PAGE = Path(__file__).resolve().parent / "reference.md"

_HEAD = """# Reference

The public names, from their docstrings.
Written by `docs/make_reference.py`; change the docstrings, not this page.
Seconds and bytes unless a name says otherwise (`ttl_ms`).
"""
_SECTIONS = ("Args", "Attributes", "Returns", "Raises", "Source")


def render() -> str:
    """The whole page."""
    lines = [line for package in PACKAGES for group in _groups(package) for line in _group(package, *group)]
    return "\n".join([_HEAD, *lines]).rstrip() + "\n"


def _groups(package: ModuleType) -> Iterator[tuple[str, list[str]]]:
    """The public names below the comments that group them; of the errors those that are not among the first names."""
    if package in MODULES:
        shown = {*mcptrio.__all__, *mcptrio.auth.__all__}
        yield MODULES[package], [name for name in package.__all__ if name not in shown]
        return
    source = inspect.getsource(package)
    title = ""
    names: list[str] = []
    for line in source[source.index("_HOMES = {") :].splitlines()[1:]:
        text = line.strip()
        if text.startswith("# "):
            if names:
                yield title, names
            title, names = text[2:], []
        elif match := re.fullmatch(r'"(\w+)": .*', text):
            names.append(match[1])
    yield title, names


def _group(package: ModuleType, title: str, names: list[str]) -> Iterator[str]:
    yield f"## {title}\n"
    if package is not mcptrio:
        yield f"Names of `{package.__name__}`.\n"
    for name in names:
        yield from _entry(name, getattr(package, name), alias_of(package.__name__, name))


def alias_of(module: str, name: str) -> tuple[str, str] | None:
    """An alias of types: its value as the source has it, and the string below it. ``None`` for all other names."""
    body = ast.parse(inspect.getsource(importlib.import_module(module))).body
    for node in (each for part in body for each in (part.body if isinstance(part, ast.If) else [part])):
        if isinstance(node, ast.ImportFrom) and name in {each.asname or each.name for each in node.names}:
            return alias_of(node.module or "", name)
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
            said = after.value if isinstance(after, ast.Expr) else None
            value = ast.unparse(node.value) if node.value is not None else ""
            if isinstance(node.value, ast.Constant):
                value = str(node.value.value)
            is_alias = ast.unparse(node.annotation) == "TypeAlias"
            return (value, str(said.value) if isinstance(said, ast.Constant) else "") if is_alias else None
    return None


def _entry(name: str, value: Any, alias: tuple[str, str] | None) -> Iterator[str]:
    yield f"### `{name}`\n"
    if isinstance(value, EnumMeta):
        yield f"{_prose(value.__doc__)}\n"
        yield "| name | value |\n|---|---|"
        yield "\n".join(f"| `{member.name}` | {member.value} |" for member in list[Any](value))
        yield ""
    elif inspect.isclass(value):
        base = value.__bases__[0].__name__
        if issubclass(value, Exception) and base != "Exception":
            yield f"Is a `{base}`.\n"
        signature = _signature(name, value)
        if signature and (attrs.has(value) or "Made by" not in (value.__doc__ or "")):
            yield signature
        yield from _docstring(value)
        yield from _fields(value)
        yield from _members(name, value)
    elif inspect.isroutine(value):
        yield _signature(name, value)
        yield from _docstring(value)
    elif alias is not None:
        yield f"```text\n{name} = {alias[0]}\n```\n"
        yield f"{_inline(alias[1])}\n"
    else:
        yield f"{_OTHERS[name]}\n"


_OTHERS = {
    "ALGORITHMS": "The signature algorithms that are accepted, none of them symmetric.",
    "Fetch": "Sends one HTTP request and gives its response.",
    "ANYONE": "What `ctx.caller` is where one caller cannot be told from another: over HTTP in 2026-07-28, where "
    "nobody has to sign in.",
    "hookimpl": "Marks a function, or a method of a plugin object, as the implementation of a [hook](hooks.md).",
}


def _members(owner: str, cls: type) -> Iterator[str]:
    """The public methods and properties that have a docstring or a signature worth reading."""
    if issubclass(cls, BaseException) or cls.__module__.startswith("mcptrio.protocol"):
        return
    own = {
        name: value.__func__ if isinstance(value, classmethod) else value
        for name, value in vars(cls).items()
        if not name.startswith("_") and not (attrs.has(cls) and name in attrs.fields_dict(cls))
    }
    properties = {name: value.fget for name, value in own.items() if isinstance(value, property) and value.fget}
    if properties:
        for name, get in properties.items():
            said = _inline(get.__doc__)
            yield f"- `{name}`: `{_annotation(inspect.signature(get).return_annotation)}`.{' ' if said else ''}{said}"
        yield ""
    for name, value in own.items():
        if inspect.isroutine(value):
            yield f"#### `{owner}.{name}`\n"
            yield _signature(name, value, method=True)
            yield from _docstring(value)


def _signature(name: str, value: Any, *, method: bool = False) -> str:
    try:
        signature = inspect.signature(value)
    except ValueError:
        return ""
    if [parameter.kind for parameter in signature.parameters.values()] == [
        inspect.Parameter.VAR_POSITIONAL,
        inspect.Parameter.VAR_KEYWORD,
    ]:
        return ""
    # attrs copies the types of a base class that have been resolved meanwhile; the source is the same in every process.
    written = _written(value) if inspect.isclass(value) else {}
    parts = []
    seen_keyword = False
    for parameter in list(signature.parameters.values())[1 if method else 0 :]:
        if parameter.kind is parameter.VAR_POSITIONAL:
            seen_keyword = True
        if parameter.kind is parameter.KEYWORD_ONLY and not seen_keyword:
            parts.append("*")
            seen_keyword = True
        parts.append(_parameter(parameter.replace(annotation=written.get(parameter.name, parameter.annotation))))
    prefix = "async def " if inspect.iscoroutinefunction(inspect.unwrap(value)) else "def "
    if inspect.isclass(value):
        prefix, result = "class ", ""
    else:
        result = f" -> {_annotation(signature.return_annotation)}"
    one_line = f"{prefix}{name}({', '.join(parts)}){result}: ..."
    if len(one_line) > 100:
        inner = "".join(f"    {part},\n" for part in parts)
        one_line = f"{prefix}{name}(\n{inner}){result}: ..."
    # Not a python block: names such as MessageChannel are not imported here.
    return f"```text\n{one_line.removesuffix(': ...')}\n```\n"


def _written(cls: type) -> dict[str, str]:
    """The annotations of a class of attrs and its bases, as they stand in the source."""
    if not attrs.has(cls):
        return {}
    found = {name: each for base in reversed(cls.__mro__) for name, each in inspect.get_annotations(base).items()}
    return {name: each for name, each in found.items() if isinstance(each, str)}


def _parameter(parameter: inspect.Parameter) -> str:
    kind = parameter.kind
    stars = "*" if kind is parameter.VAR_POSITIONAL else "**" if kind is parameter.VAR_KEYWORD else ""
    text = stars + parameter.name
    if parameter.annotation is not parameter.empty:
        text += f": {_annotation(parameter.annotation)}"
    if parameter.default is not parameter.empty:
        shown = "..." if parameter.default is attrs.NOTHING else repr(parameter.default)
        if isinstance(parameter.default, frozenset):  # in the same order in every process
            shown = f"frozenset({{{', '.join(sorted(map(repr, parameter.default)))}}})"
        text += f" = {'...' if ' object at ' in shown or shown.startswith('<') else shown}"
    return text


def _annotation(annotation: Any) -> str:
    if annotation is inspect.Signature.empty:
        return "None"
    return str(annotation if isinstance(annotation, str) else inspect.formatannotation(annotation))


def _fields(cls: type) -> Iterator[str]:
    """The strings below the fields of a class."""
    if not attrs.has(cls):
        return
    [tree] = ast.parse(inspect.getsource(cls)).body
    assert isinstance(tree, ast.ClassDef)
    found = []
    for field, after in zip(tree.body, tree.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
            and isinstance(after.value.value, str)
        ):
            found.append(f"- `{field.target.id}`: {_inline(after.value.value)}")
    if found:
        yield "\n".join(found) + "\n"


def _docstring(value: Any) -> Iterator[str]:
    text = inspect.getdoc(value) if not inspect.isclass(value) else inspect.cleandoc(value.__doc__ or "")
    if not text or text.startswith("Method generated by attrs"):
        return
    for block in re.split(r"\n\s*\n", text):
        heading, _, rest = block.partition("\n")
        word = heading.partition(":")[0]
        if word in _SECTIONS and heading.rstrip() == f"{word}:":
            yield f"{word}:\n"
            if word == "Returns":
                yield f"{_inline(rest)}\n"
            else:
                yield "\n".join(_items(inspect.cleandoc(rest))) + "\n"
        else:
            yield f"{_prose(block)}\n"


def _items(text: str) -> Iterator[str]:
    """``name: what it means``, with the lines that are indented below it."""
    items: list[str] = []
    for line in text.splitlines():
        if line.startswith(" ") and items:
            items[-1] += f" {line.strip()}"
        else:
            items.append(line)
    for item in items:
        name, colon, meaning = item.partition(": ")
        yield f"- `{name}`: {_inline(meaning)}" if colon else f"- {_inline(item)}"


def _inline(text: str | None) -> str:
    return _prose(" ".join((text or "").split()))


def _prose(text: str | None) -> str:
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", inspect.cleandoc(text or ""))
    return text.replace("``", "`")


if __name__ == "__main__":
    PAGE.write_text(render(), "utf-8")
