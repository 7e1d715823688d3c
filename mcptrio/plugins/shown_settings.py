"""The settings of a plugin for display: each with its value and its source.

``mcptrio plugins show`` uses this. It hides secrets: values of type Secret, values with the metadata ``secret``, values
from a variable or file by reference and, without a settings class, strings whose names sound like secrets.
"""

from __future__ import annotations

import os
import re
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import orjson

from mcptrio.ground.secret import Secret
from mcptrio.plugins.plugin import Plugin
from mcptrio.plugins.policy import PluginPolicy
from mcptrio.settings.problems import Key
from mcptrio.settings.reader import has_reference, variable_of

__all__ = ["HIDDEN", "ShownSetting", "shown_settings"]

HIDDEN = "(not shown)"
_MAX_QUOTED_CHARS = 500
"""Maximum characters of a value."""
_DEFAULT = "default"
_SECRET_NAME = re.compile(r"pass(word|phrase|wd)?|secret|token|credential|api_?key|private_?key", re.IGNORECASE)


@attrs.frozen(kw_only=True)
class ShownSetting:
    """A setting of a plugin, for display.

    Args:
        value: The value as text.
        origin: ``default``, the file and the line, or the name of an environment variable.
    """

    name: str
    value: str
    origin: str
    is_secret: bool = False


def shown_settings(
    plugin: Plugin,
    cls: type[Any] | None,
    table: Mapping[str, Any],
    where: Callable[[Key], str | None],
    environ: Mapping[str, str] | None = None,
) -> Iterator[ShownSetting]:
    """Iterate over the plugin's settings, and then over the operator's limits.

    The settings are those of the plugin's class, or of its table if it has no class.

    Args:
        cls: The class of the plugin's settings.
        table: The plugin's table in the file.
        where: A function that returns the file and line of a key.
    """
    environ = os.environ if environ is None else environ
    policy = {each.name for each in attrs.fields(PluginPolicy)}

    def origin(name: str, *, with_class: bool) -> str:
        variable = variable_of((plugin.name, name))
        if with_class and variable in environ:
            return variable
        return (where(("plugins", plugin.name, name)) or "the configuration") if name in table else _DEFAULT

    plugin_table = {name: value for name, value in table.items() if name not in policy}
    if cls is not None and isinstance(plugin.config, cls):
        for attribute in attrs.fields(cls):
            if attribute.init:
                name = attribute.alias or attribute.name
                source = origin(name, with_class=True)
                by_reference = source != variable_of((plugin.name, name)) and has_reference(plugin_table.get(name))
                value = getattr(plugin.config, attribute.name)
                yield _shown_setting(
                    name, value, source, is_secret=by_reference or _is_secret(attribute, _hint(cls, attribute))
                )
    else:
        # The class is unknown, or refused the values. In both cases the values in the file are shown.
        visible_names = (
            {each.alias or each.name for each in _fields_without_secrets(cls)} if cls is not None else set(plugin_table)
        )
        for name, value in plugin_table.items():
            hidden = has_reference(value) or name not in visible_names
            yield _shown_setting(name, value, origin(name, with_class=False), is_secret=hidden)
    for attribute in attrs.fields(PluginPolicy):
        source = origin(attribute.name, with_class=True)
        if source != _DEFAULT:
            yield _shown_setting(attribute.name, getattr(plugin.policy, attribute.name), source, is_secret=False)


def _shown_setting(name: str, value: Any, origin: str, *, is_secret: bool) -> ShownSetting:
    """Make a setting for display, without its value if the value is secret."""
    text = HIDDEN if is_secret and value not in (None, "") else orjson.dumps(_as_json(value, name)).decode()
    text = HIDDEN if text == f'"{HIDDEN}"' else text
    if len(text) > _MAX_QUOTED_CHARS:
        text = f"{text[: _MAX_QUOTED_CHARS - 1]}…"
    return ShownSetting(name=name, value=text, origin=origin, is_secret=is_secret)


def _fields_without_secrets(cls: type[Any]) -> Iterator[attrs.Attribute[Any]]:
    """Yield the fields that are not secret."""
    if attrs.has(cls):
        yield from (each for each in attrs.fields(cls) if not _is_secret(each, _hint(cls, each)))


def _hint(cls: type[Any], attribute: attrs.Attribute[Any]) -> Any:
    return typing.get_type_hints(cls).get(attribute.name, attribute.type)


def _is_secret(attribute: attrs.Attribute[Any], hint: Any) -> bool:
    return bool(attribute.metadata.get("secret")) or hint is Secret or Secret in typing.get_args(hint)


def _as_json(value: Any, name: str = "") -> Any:
    """Return the value as JSON, without secrets at any depth."""
    if isinstance(value, Secret):
        return HIDDEN
    if isinstance(value, Path):
        return str(value)
    if attrs.has(type(value)):
        return {
            each.name: HIDDEN if each.metadata.get("secret") else _as_json(getattr(value, each.name), each.name)
            for each in attrs.fields(type(value))
        }
    if isinstance(value, Mapping):
        return {str(key): _as_json(each, str(key)) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(each, name) for each in value]
    if isinstance(value, str):
        return HIDDEN if value and _SECRET_NAME.search(name) else value
    return value if value is None or isinstance(value, bool | int | float) else str(value)
