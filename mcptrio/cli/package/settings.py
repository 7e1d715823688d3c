"""The settings of a plugin that a form can ask for: one for each simple field of its settings class.

Used for the ``user_config`` of a bundle and the environment variables of ``server.json``. Each setting is passed as its
environment variable; a missing one has the class's default.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
import typing
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import attrs
from attrs import frozen

from mcptrio.ground.secret import Secret
from mcptrio.schema.docstrings import parse_docstring
from mcptrio.settings.reader import variable_of

__all__ = ["Setting", "settings_of"]

_MAX_DESCRIPTION_CHARS = 400
"""Characters of a description."""


@frozen(kw_only=True)
class Setting:
    """A setting that a form can ask for.

    Args:
        plugin: The name of the plugin.
        field: The name of the field.
        variable: The environment variable.
        kind: The type in MCPB's terms.
        is_multiple: True if it is a list, whose items the variable separates.
        default: The default to show; ``None`` if the class has no simple one.
        choices: The possible values, if there are few.
    """

    plugin: str
    field: str
    variable: str
    kind: Literal["string", "number", "boolean", "directory", "file"]
    description: str
    is_multiple: bool = False
    is_secret: bool = False
    default: str | float | bool | None = None
    choices: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return f"{self.plugin}_{self.field}".lower()

    @property
    def title(self) -> str:
        return f"{self.plugin}: {self.field.replace('_', ' ')}"


def settings_of(plugin: str, cls: type[Any]) -> Iterator[Setting]:
    """Yield the settings of a class. Tables are left out, because they belong in a file."""
    hints = typing.get_type_hints(cls)
    # A text below the field takes precedence over the class's Args.
    descriptions = {**parse_docstring(cls.__doc__).parameters, **_attribute_docstrings(cls)}
    for each in attrs.fields(cls):
        # The user cannot set a computed field.
        if not each.init:
            continue
        name = each.alias or each.name
        hint, is_multiple = _without_none(hints[each.name]), False
        if get_origin(hint) is tuple:
            hint, is_multiple = _without_none(get_args(hint)[0]), True
        kind = _form_type(hint, name)
        if kind is None:
            continue
        is_secret = hint is Secret or bool(each.metadata.get("secret"))
        # A factory or an object has no text for a form, and an empty text tells the user nothing.
        default = each.default if isinstance(each.default, bool | int | float | str) and each.default != "" else None
        yield Setting(
            plugin=plugin,
            field=name,
            variable=variable_of((plugin, name)),
            kind=kind,
            description=" ".join((descriptions.get(name) or name.replace("_", " ")).replace("``", "`").split())[
                :_MAX_DESCRIPTION_CHARS
            ],
            is_multiple=is_multiple,
            is_secret=is_secret,
            # The default of a secret must not be published.
            default=default if not is_secret else None,
            choices=tuple(map(str, get_args(hint))) if get_origin(hint) is Literal else (),
        )


def _without_none(hint: Any) -> Any:
    """Return a type without ``None``; for a list, or one of several strings, the list."""
    if get_origin(hint) in (typing.Union, types.UnionType):
        inner = [each for each in get_args(hint) if each is not type(None)]
        lists = [each for each in inner if get_origin(each) is tuple]
        return (lists or inner)[0] if len(lists or inner) == 1 else hint
    return hint


def _form_type(hint: Any, name: str) -> Literal["string", "number", "boolean", "directory", "file"] | None:
    if hint is bool:
        return "boolean"
    if hint in (int, float):
        return "number"
    if hint is Path:
        # A Path can be a file or a folder, so the name of the field decides.
        return "file" if any(word in name for word in ("file", "database", "log")) else "directory"
    return "string" if hint in (str, Secret) or get_origin(hint) is Literal else None


def _attribute_docstrings(cls: type[Any]) -> dict[str, str]:
    """Return the texts below the fields, which only the source code contains."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError, SyntaxError):
        return {}
    body = tree.body[0].body if tree.body and isinstance(tree.body[0], ast.ClassDef) else []
    docstrings = {}
    for field, below in pairwise(body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                docstrings[name] = text
    return docstrings
