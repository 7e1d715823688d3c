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
from typing import Any, get_args, get_origin

import attrs
import msgspec
import orjson

from mcptrio.errors import ConfigError
from mcptrio.plugins.policy import RESERVED, PluginPolicy
from mcptrio.plugins.setting_problems import NOT_SHOWN, Key, place_of, says_all, sentence, shown
from mcptrio.secret import Secret

__all__ = ["PluginTables", "refers", "variable_of"]

_FILE_BYTES = 64 * 1024
_ENV, _FILE, _DEFAULT = "$env", "$file", "default"


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
        table = {key: value for key, value in self.resolved(plugin).items() if key not in RESERVED}
        if cls is None:
            return table
        _check_class(cls)
        return self._structured(plugin, table, cls)

    def policy(self, plugin: str) -> PluginPolicy:
        """What the operator says of a plugin.

        Raises:
            ConfigError: it does not fit; names file, line and key.
        """
        table = {key: value for key, value in self.resolved(plugin).items() if key in RESERVED}
        policy: PluginPolicy = self._structured(plugin, table, PluginPolicy)
        return policy

    def resolved(self, plugin: str) -> dict[str, Any]:
        """The table of a plugin with the values of what it refers to.

        Raises:
            ConfigError: a variable is not set, or a file cannot be read; names file, line and key.
        """
        return {
            key: self._resolved(value, ("plugins", plugin, key)) for key, value in self.tables.get(plugin, {}).items()
        }

    # Private

    def _structured(self, plugin: str, table: dict[str, Any], cls: type[Any]) -> Any:
        where = ("plugins", plugin)
        self._check_keys(cls, table, where)
        hints = _hints(cls)
        hidden = {key for key, value in self.tables.get(plugin, {}).items() if refers(value)}
        settings = {
            key: self._converted(value, hints[key], (*where, key), hidden=key in hidden) for key, value in table.items()
        }
        environ = os.environ if self.environ is None else self.environ
        for name, hint in hints.items():
            variable = variable_of(plugin, name)
            if variable in environ:
                hidden.discard(name)
                settings[name] = _from_environment(environ[variable], hint, variable)
        try:
            return cls(**settings)
        except (ValueError, TypeError) as error:
            # A validator of attrs names its field; others may begin with it.
            said = sentence(error)
            named = next((name for name in settings if f"'{name}'" in said or re.match(rf"{name}[.:\[]", said)), None)
            if named in hidden:
                raise self.error((*where, named), "its value does not fit") from None
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
        hints = _hints(cls)
        for key, value in table.items():
            if key not in hints:
                near = get_close_matches(key, hints, 1)
                hint = f"did you mean {near[0]}?" if near else f"expected one of {', '.join(hints)}"
                raise self.error((*where, key), f"there is no setting {key}; {hint}")
            for inner, part, path in _tables_in(hints[key], value, (*where, key)):
                self._check_keys(inner, part, path)

    def _converted(self, value: Any, hint: Any, where: Key, *, hidden: bool = False) -> Any:
        """
        Args:
            hidden: whether the value is not to be shown, for it may be a secret.
        """
        if get_origin(hint) in (dict, Mapping) and isinstance(value, dict):
            # One by one, for msgspec does not say which.
            inner = get_args(hint)[1]
            return {key: self._converted(item, inner, (*where, key), hidden=hidden) for key, item in value.items()}
        try:
            return msgspec.convert(value, hint, dec_hook=self._made)
        except msgspec.ValidationError as error:
            place, problem = place_of(error, hint)
            is_secret = hidden or "Secret" in str(hint)
            came = "" if says_all(problem) else NOT_SHOWN if is_secret else shown(value, place)
            told = self.error((*where, *place), f"{problem}, got {came}" if came else problem)
            # The log has the cause too, which may quote the value.
            raise told from (None if is_secret else error)

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


def refers(value: Any) -> bool:
    """Whether a value, or anything in it, stands for a variable or a file."""
    if isinstance(value, dict):
        return bool({_ENV, _FILE} & value.keys()) or any(map(refers, value.values()))
    return isinstance(value, list) and any(map(refers, value))


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


def _hints(cls: type[Any]) -> dict[str, Any]:
    """The types of the settings, by the names that one sets them by."""
    hints = typing.get_type_hints(cls)
    return {each.alias or each.name: hints.get(each.name, Any) for each in attrs.fields(cls) if each.init}


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
    others = [each for each in get_args(hint) if each is not type(None)]
    kind = others[0] if get_origin(hint) in (typing.Union, types.UnionType) and len(others) == 1 else hint
    words = [word for each in others if get_origin(each) is typing.Literal for word in get_args(each)]
    if kind is hint and words and text not in words:
        # A list, or else one of some words, of which it is none.
        kind = next((each for each in others if get_origin(each) is tuple), hint)
    value: Any = text
    if get_origin(kind) is tuple:
        separator = os.pathsep if get_args(kind)[0] is Path else ","
        value = [part.strip() for part in text.split(separator) if part.strip()]
    elif (isinstance(kind, type) and attrs.has(kind)) or get_origin(kind) in (dict, Mapping):
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise ConfigError(f"{variable}: expected JSON: {error}") from error
        for inner, table, path in _tables_in(kind, value, ()):
            tables._check_keys(inner, table, path)
    elif kind in (bool, int, float):
        try:
            return msgspec.convert(text.strip().lower(), kind, strict=False)
        except msgspec.ValidationError as error:
            raise ConfigError(f"{variable}: {place_of(error, kind)[1]}, got {text!r}") from error
    return tables._converted(value, kind, ())
