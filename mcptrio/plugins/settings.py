"""What the operator has set for a plugin: its table, the environment before it, checked against the plugin's own class.

Used by the plugin manager when a plugin is configured, and by commands that show settings.
The one rule: nothing is guessed. A key that is not known, a value of another kind, a variable or a file that is not
there is an error that names the key, and where there is a file, its line.

A field of the class may be a bool, int, float, str, :class:`pathlib.Path` (``~`` is the home folder; in a file one
that is relative begins at the file's folder), :class:`mcptrio.Secret`, a Literal, one of these or ``None``, a
``tuple[T, ...]`` or ``Mapping[str, T]`` of them, or another attrs class. What its validators raise is a ValueError with
a sentence.

Anywhere in a table, ``{ "$env" = "NAME" }`` stands for the value of a variable of the environment, and
``{ "$file" = "PATH" }`` for the text of a file, so that no secret need be in it; ``default`` beside these is used where
there is no such variable or file. In the environment ``MCPTRIO_NAME_FIELD`` wins over the table: numbers and truth as
in TOML, lists separated as in PATH (of anything but paths, by commas), tables as JSON.
"""

from __future__ import annotations

import os
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeAlias, get_args, get_origin

import attrs
import msgspec
import orjson

from mcptrio.errors import ConfigError
from mcptrio.plugins.policy import RESERVED, PluginPolicy
from mcptrio.secret import Secret

__all__ = ["Key", "PluginTables", "variable_of"]

Key: TypeAlias = tuple[str, ...]
"""Where something stands: ``("plugins", "git", "repositories")``."""

_FILE_BYTES = 64 * 1024
_ENV, _FILE, _DEFAULT = "$env", "$file", "default"

_WORDS = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "null": "nothing",
}
"""What msgspec calls things, and what one says of TOML."""


def _error(key: Key, problem: str) -> ConfigError:
    return ConfigError(f"{'.'.join(key)}: {problem}")


@attrs.frozen(kw_only=True)
class PluginTables:
    """The tables of all plugins, and how to say what is wrong in them.

    Args:
        tables: by plugin name.
        folder: where relative paths in them begin.
        error: makes the error about a key.
        environ: the environment; by default the process's, as it is when a table is read.
    """

    tables: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)
    folder: Path = attrs.field(factory=Path)
    error: Callable[[Key, str], ConfigError] = _error
    environ: Mapping[str, str] | None = None

    def of(self, plugin: str, cls: type[Any] | None) -> Any:
        """The settings of a plugin: an instance of ``cls``, or its table where it has no class.

        Raises:
            ConfigError: they do not fit; names file, line and key.
            TypeError: the class cannot be used for settings.
        """
        table = {key: value for key, value in self._table(plugin).items() if key not in RESERVED}
        if cls is None:
            return table
        _check_class(cls)
        return self._structured(plugin, table, cls)

    def policy(self, plugin: str) -> PluginPolicy:
        """What the operator says of a plugin.

        Raises:
            ConfigError: it does not fit; names file, line and key.
        """
        table = {key: value for key, value in self._table(plugin).items() if key in RESERVED}
        policy: PluginPolicy = self._structured(plugin, table, PluginPolicy)
        return policy

    # Private

    def _table(self, plugin: str) -> dict[str, Any]:
        return {
            key: self._resolved(value, ("plugins", plugin, key)) for key, value in self.tables.get(plugin, {}).items()
        }

    def _structured(self, plugin: str, table: dict[str, Any], cls: type[Any]) -> Any:
        where = ("plugins", plugin)
        self._check_keys(cls, table, where)
        hints = typing.get_type_hints(cls)
        settings = {key: self._converted(value, hints[key], (*where, key)) for key, value in table.items()}
        environ = os.environ if self.environ is None else self.environ
        for name in _fields(cls):
            variable = variable_of(plugin, name)
            if variable in environ:
                settings[name] = _from_environment(environ[variable], hints[name], variable)
        try:
            return cls(**settings)
        except (ValueError, TypeError) as error:
            # A validator of attrs names its field; others may begin with it.
            said = _sentence(error)
            named = next((name for name in settings if f"'{name}'" in said or re.match(rf"{name}[.:\[]", said)), None)
            if named is not None:
                raise self.error((*where, named), said.removeprefix(f"{named}: ")) from error
            raise self.error(where, said) from error

    def _resolved(self, value: Any, where: Key) -> Any:
        """The value with its references to variables and files replaced."""
        if isinstance(value, list):
            return [self._resolved(item, where) for item in value]
        if not isinstance(value, dict):
            return value
        if not {_ENV, _FILE} & value.keys():
            return {key: self._resolved(item, (*where, key)) for key, item in value.items()}
        kind = _ENV if _ENV in value else _FILE
        name, unknown = value[kind], value.keys() - {kind, _DEFAULT}
        if unknown or not isinstance(name, str):
            raise self.error(where, f'expected {{ "{kind}" = "…" }}, with or without a default, got {sorted(value)}')
        found = self._variable(name) if kind == _ENV else self._text(name, where, required=_DEFAULT not in value)
        if found is not None:
            return found
        if _DEFAULT in value:
            return value[_DEFAULT]
        raise self.error(where, f"expected the environment variable {name}, which is not set")

    def _variable(self, name: str) -> str | None:
        return (os.environ if self.environ is None else self.environ).get(name)

    def _text(self, name: str, where: Key, *, required: bool) -> str | None:
        path = self.folder / Path(name).expanduser()
        try:
            with path.open("rb") as file:
                content = file.read(_FILE_BYTES + 1)
            if len(content) > _FILE_BYTES:
                raise self.error(where, f"expected a file of at most {_FILE_BYTES} bytes, got more: {path}")
            return content.decode().rstrip("\r\n")
        except FileNotFoundError as error:
            if not required:
                return None
            raise self.error(where, f"{path} cannot be read: {error.strerror}") from error
        except OSError as error:
            raise self.error(where, f"{path} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise self.error(where, f"expected a file of UTF-8 text: {path}") from error

    def _check_keys(self, cls: type[Any], table: Mapping[str, Any], where: Key) -> None:
        """What msgspec would ignore.

        Raises:
            ConfigError: a key is none of the class's, here or in a table inside.
        """
        known = list(_fields(cls))
        hints = typing.get_type_hints(cls)
        for key, value in table.items():
            if key not in known:
                near = get_close_matches(key, known, 1)
                hint = f"did you mean {near[0]}?" if near else f"expected one of {', '.join(known)}"
                raise self.error((*where, key), f"there is no setting {key}; {hint}")
            for inner, part, path in _tables_in(hints[key], value, (*where, key)):
                self._check_keys(inner, part, path)

    def _converted(self, value: Any, hint: Any, where: Key) -> Any:
        if get_origin(hint) in (dict, Mapping) and isinstance(value, dict):
            # One by one, for msgspec does not say which.
            inner = get_args(hint)[1]
            return {key: self._converted(item, inner, (*where, key)) for key, item in value.items()}
        try:
            return msgspec.convert(value, hint, dec_hook=self._made)
        except msgspec.ValidationError as error:
            place, problem = _place_of(error, hint)
            shown = _shown(value, place, hint)
            raise self.error((*where, *place), f"{problem}, got {shown}" if shown else problem) from error

    def _made(self, cls: type[Any], value: Any) -> Any:
        if cls is Path and isinstance(value, str):
            if not value or "\0" in value:
                raise ValueError("Expected a path")
            return self.folder / Path(value).expanduser()
        if cls is Secret and isinstance(value, str):
            return Secret(value)
        if cls in (Path, Secret):
            raise ValueError("Expected `str`")
        raise NotImplementedError(f"{cls} cannot be the type of a setting")


def variable_of(plugin: str, field: str) -> str:
    """The name of the environment variable of a setting: ``MCPTRIO_GIT_MAX_BYTES``."""
    return re.sub(r"[^A-Z0-9]", "_", f"MCPTRIO_{plugin}_{field}".upper())


def _check_class(cls: type[Any]) -> None:
    if not attrs.has(cls):
        raise TypeError(f"configuration: expected a class of attrs, got {cls!r}")
    for each in attrs.fields(cls):
        if not each.init:
            continue
        if each.default is attrs.NOTHING:
            raise TypeError(f"configuration: expected a default for {cls.__name__}.{each.name}")
        if each.name in RESERVED:
            raise TypeError(f"configuration: {each.name} is a setting of the server's own; expected another name")


def _fields(cls: type[Any]) -> Iterator[str]:
    return (each.alias or each.name for each in attrs.fields(cls) if each.init)


def _tables_in(hint: Any, value: Any, where: Key) -> Iterator[tuple[type[Any], Mapping[str, Any], Key]]:
    """The tables of other attrs classes inside a value."""
    if isinstance(hint, type) and attrs.has(hint):
        if isinstance(value, dict):
            yield hint, value, where
        return
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (typing.Union, types.UnionType):
        for each in inner:
            yield from _tables_in(each, value, where)
    elif origin is tuple and isinstance(value, list):
        for item in value:
            yield from _tables_in(inner[0], item, where)
    elif origin in (dict, Mapping) and isinstance(value, dict):
        for key, item in value.items():
            yield from _tables_in(inner[1], item, (*where, key))


def _from_environment(text: str, hint: Any, variable: str) -> Any:
    tables = PluginTables(error=lambda _, problem: ConfigError(f"{variable}: {problem}"))
    inner = [each for each in get_args(hint) if each is not type(None)]
    kind = inner[0] if get_origin(hint) in (typing.Union, types.UnionType) and len(inner) == 1 else hint
    value: Any = text
    if get_origin(kind) is tuple:
        separator = os.pathsep if get_args(kind)[0] is Path else ","
        value = [part.strip() for part in text.split(separator) if part.strip()]
    elif (isinstance(kind, type) and attrs.has(kind)) or get_origin(kind) in (dict, Mapping):
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise ConfigError(f"{variable}: expected JSON: {error}") from error
    elif kind in (bool, int, float):
        try:
            return msgspec.convert(text.strip().lower(), kind, strict=False)
        except msgspec.ValidationError as error:
            raise ConfigError(f"{variable}: {_place_of(error, kind)[1]}, got {text!r}") from error
    return tables._converted(value, kind, ())


def _place_of(error: msgspec.ValidationError, hint: Any) -> tuple[Key, str]:
    """Where in the value, and the problem in our words."""
    text, _, path = str(error).partition(" - at `$")
    place = tuple(re.findall(r"\.(\w+)", path))
    if text.startswith("Invalid enum value"):
        choices = ", ".join(str(each) for each in _choices(hint))
        return place, f"expected one of {choices}" if choices else "expected one of the values there are"
    text = re.sub(r", got .*", "", text)
    text = re.sub(
        r"`([^`]+)`", lambda found: " or ".join(_WORDS.get(word, word) for word in found[1].split(" | ")), text
    )
    return place, text[:1].lower() + text[1:]


def _choices(hint: Any) -> Iterator[Any]:
    if get_origin(hint) is typing.Literal:
        yield from get_args(hint)
    else:
        for each in get_args(hint):
            yield from _choices(each)


def _sentence(error: BaseException) -> str:
    """What a validator of attrs says comes with the attribute and more in further arguments."""
    return str(error.args[0]) if error.args else type(error).__name__


def _shown(value: Any, place: Key, hint: Any) -> str:
    """A value in a message, or nothing; without any that may be secret."""
    if "Secret" in str(hint):
        return "a value that is not shown"
    for part in place:
        if not isinstance(value, dict) or part not in value:
            return ""  # inside a list or a table of tables, where msgspec does not say which
        value = value[part]
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, str):
        return repr(value if len(value) <= 40 else value[:39] + "…")
    return "a list" if isinstance(value, list) else "a table" if isinstance(value, dict) else type(value).__name__
