"""Reads a table of the configuration, overridden by the environment, into an instance of an attrs class.

:mod:`mcptrio.serve.config` reads the tables of the server with it, :mod:`mcptrio.serve.auth_config` ``[auth]``, and
:mod:`mcptrio.plugins.settings` the tables of plugins. An unknown key, a value of the wrong type, and a missing variable
or file are errors that name the key and its line.
"""

from __future__ import annotations

import json
import os
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

import attrs
import msgspec

from mcptrio.errors import ConfigError
from mcptrio.ground.bounded_file import read_text
from mcptrio.ground.expected import PROGRAM_ONLY
from mcptrio.ground.secret import Secret
from mcptrio.ground.suggestions import suggest
from mcptrio.settings.problems import HIDDEN_VALUE, Key, describe_value, first_argument, locate_problem, names_member

__all__ = ["SettingsReader", "has_reference", "keys_of_class", "variable_of"]

_T = TypeVar("_T")
_MAX_FILE_BYTES = 64 * 1024
# The message of the validators ge, gt, le and lt of attrs.
_BOUND = re.compile(r"^'\w+' must be ([<>]=? \S+): (.+)$")
_ENV, _FILE, _DEFAULT = "$env", "$file", "default"


def _error(key: Key, problem: str) -> ConfigError:
    return ConfigError(f"{'.'.join(key)}: {problem}")


@attrs.frozen(kw_only=True)
class SettingsReader:
    """Reads tables into instances of attrs classes.

    A field may have these types:

    - bool, int, float, str, :class:`pathlib.Path`, :class:`mcptrio.Secret`, a Literal, or a class with
      ``from_setting``; one of these or ``None``
    - ``tuple[T, ...]`` and ``Mapping[str, T]`` of these types
    - another attrs class, for a table inside the table

    In a path, ``~`` is the home folder, and a relative path in a file starts at the folder of the file. An exception
    of a validator becomes an error about the field that it names.

    Values may come from elsewhere, so that the file contains no secrets:

    - ``{ "$env" = "NAME" }`` stands for the value of an environment variable, and ``{ "$file" = "PATH" }`` for the text
      of a file. If the variable or file is missing, ``default`` in the same table is used.
    - The environment variable ``MCPTRIO_TABLE_FIELD``, or ``MCPTRIO_TABLE_INNER_FIELD`` for a table inside a table,
      overrides a field: numbers and booleans as in TOML, lists separated by commas (lists of paths as in ``PATH``),
      mappings and lists of tables as JSON.

    Args:
        folder: The folder of relative paths.
        error: Returns the error about a key.
        environ: The environment; by default that of the process when a table is read.
        tables_with: Returns the tables that have a setting with a given name. The error about a setting in the wrong
            table names them.
    """

    folder: Path = attrs.field(factory=Path)
    error: Callable[[Key, str], ConfigError] = _error
    environ: Mapping[str, str] | None = None
    tables_with: Callable[[str], Sequence[str]] = lambda name: ()

    def read(self, cls: type[_T], table: Mapping[str, Any], where: Key, *, variables: Key) -> _T:
        """Return an instance of a class; fields without a value get their defaults.

        Args:
            where: The key of the table, for errors.
            variables: The parts of a variable's name between ``MCPTRIO`` and the field.

        Raises:
            ConfigError: A value is invalid, or a key is unknown. The message names file, line and key, or the variable.
        """
        hints = _hints(cls)
        expected = _expected_values(cls)
        for key in table:
            if key not in hints:
                raise self.error((*where, key), self._unknown_key(key, hints))
        environ = self._environ
        settings: dict[str, Any] = {}
        hidden: set[str] = set()
        from_environment: set[str] = set()
        for name, hint in hints.items():
            place, variable = (*where, name), variable_of((*variables, name))
            inner = _table_class(hint)
            # A reference stands for the whole table, so its members are not read one by one.
            if inner is not None and not has_reference(table.get(name)):
                if name in table or any(each.startswith(f"{variable}_") for each in environ):
                    part = table.get(name, {})
                    if not isinstance(part, dict):
                        raise self.error(place, f"expected a table, got {describe_value(part, ())}")
                    settings[name] = self.read(inner, part, place, variables=(*variables, name))
            elif variable in environ:
                settings[name] = _from_environment(environ[variable], hint, variable, expected[name])
                from_environment.add(name)
            elif name in table:
                value = table[name]
                if has_reference(value):
                    # A value that came from a variable or a file may be a secret, so errors do not show it.
                    hidden.add(name)
                value = self.resolve(value, place)
                settings[name] = self._convert(value, hint, place, expected[name], hidden=name in hidden)
        try:
            return cls(**settings)
        except (ValueError, TypeError) as error:
            # The message of a validator of attrs contains the quoted field; other messages may begin with the field.
            message = first_argument(error).removeprefix(f"{cls.__name__}: ")
            named = next(
                (name for name in expected if f"'{name}'" in message or re.match(rf"{name}[.:\[]", message)), None
            )
            if named is None:
                raise self.error(where, message) from error
            if named in hidden:
                raise self.error((*where, named), "invalid value, which is not shown") from None
            source = "" if named in settings else ", which is the default"
            problem = _BOUND.sub(rf"expected a value \1, got \2{source}", message.removeprefix(f"{named}: "))
            if named in from_environment:
                raise ConfigError(f"{variable_of((*variables, named))}: {problem}") from error
            raise self.error((*where, named), problem) from error

    def resolve(self, value: Any, where: Key) -> Any:
        """Return a value with its references to variables and files replaced.

        Raises:
            ConfigError: A variable is not set, or a file cannot be read. The message names file, line and key.
        """
        if isinstance(value, list):
            return [self.resolve(item, where) for item in value]
        if not isinstance(value, dict):
            return value
        if not {_ENV, _FILE} & value.keys():
            return {key: self.resolve(item, (*where, key)) for key, item in value.items()}
        kind = _ENV if _ENV in value else _FILE
        name, unknown = value[kind], value.keys() - {kind, _DEFAULT}
        if unknown or not isinstance(name, str):
            raise self.error(where, f'expected {{ "{kind}" = "…" }}, with or without a default, got {sorted(value)}')
        text = self._environ.get(name) if kind == _ENV else self._file_text(name, where, required=_DEFAULT not in value)
        if text is not None:
            return text
        if _DEFAULT in value:
            return value[_DEFAULT]
        raise self.error(where, f"expected the environment variable {name}, which is not set")

    # Private

    @property
    def _environ(self) -> Mapping[str, str]:
        return os.environ if self.environ is None else self.environ

    def _file_text(self, name: str, where: Key, *, required: bool) -> str | None:
        path = self.folder / Path(name).expanduser()
        if not required and not path.exists():
            return None
        text = read_text(path, _MAX_FILE_BYTES, lambda problem: self.error(where, f"{path}: {problem}"))
        # Editors end a file with a line break, which is not part of a password.
        return text.rstrip("\r\n")

    def _check_keys(self, hint: Any, value: Any, where: Key) -> None:
        """Refuse unknown keys of tables inside a value, which msgspec ignores."""
        for cls, table, path in _tables_in(hint, value, where):
            hints = _hints(cls)
            for key, part in table.items():
                if key not in hints:
                    raise self.error((*path, key), self._unknown_key(key, hints))
                self._check_keys(hints[key], part, (*path, key))

    def _unknown_key(self, key: str, known: Mapping[str, Any]) -> str:
        if tables := self.tables_with(key):
            return f"there is no setting `{key}` here; it belongs in {' or '.join(f'[{table}]' for table in tables)}"
        return f"there is no setting `{key}`{suggest(key, sorted(known))}"

    def _convert(self, value: Any, hint: Any, where: Key, expected: str | None = None, *, hidden: bool = False) -> Any:
        """Return a configuration value converted to the type ``hint``.

        Args:
            expected: A description of the valid values, if a validator has a better one than the type.
            hidden: True if the value may be a secret, so that errors must not show it.
        """
        self._check_keys(hint, value, where)
        if get_origin(hint) in (dict, Mapping) and isinstance(value, dict):
            # Items are converted one by one, because msgspec's error does not name the key.
            inner = get_args(hint)[1]
            return {key: self._convert(item, inner, (*where, key), hidden=hidden) for key, item in value.items()}
        try:
            return msgspec.convert(value, hint, dec_hook=self._decode)
        except msgspec.ValidationError as error:
            place, problem = locate_problem(error, hint)
            if expected is not None and not place:
                problem = f"expected {expected}"
            is_secret = hidden or "Secret" in str(hint)
            got = "" if names_member(problem) else HIDDEN_VALUE if is_secret else describe_value(value, place)
            failure = self.error((*where, *place), f"{problem}, got {got}" if got else problem)
            # A traceback would show the cause too, which may quote the value.
            raise failure from (None if is_secret else error)

    def _decode(self, cls: type[Any], value: Any) -> Any:
        if hasattr(cls, "from_setting"):
            return cls.from_setting(value, self.folder)
        if cls is Path and isinstance(value, str):
            if not value or "\0" in value:
                raise ValueError("Expected a path")
            return self.folder / Path(value).expanduser()
        if cls is Secret and isinstance(value, str):
            return Secret(value)
        if cls in (Path, Secret):
            raise ValueError("Expected `str`")
        raise NotImplementedError(f"{cls} cannot be the type of a setting")


def variable_of(key: Key) -> str:
    """Return the environment variable of a setting: ``MCPTRIO_HTTP_PORT`` for ``port`` of ``[http]``."""
    return re.sub(r"[^A-Z0-9]", "_", "_".join(("MCPTRIO", *key)).upper())


def has_reference(value: Any) -> bool:
    """Return True if a value, or a part of it, is a reference to a variable or a file."""
    if isinstance(value, dict):
        return bool({_ENV, _FILE} & value.keys()) or any(map(has_reference, value.values()))
    return isinstance(value, list) and any(map(has_reference, value))


def keys_of_class(cls: type[Any]) -> Iterator[Key]:
    """Yield the keys that a table may have, including those of inner tables: ``("timeouts", "idle")``."""
    for name, hint in _hints(cls).items():
        inner = _table_class(hint)
        if inner is None:
            yield (name,)
        else:
            yield from ((name, *key) for key in keys_of_class(inner))


def _hints(cls: type[Any]) -> dict[str, Any]:
    """Return the types of the settings by key."""
    hints = typing.get_type_hints(cls)
    return {
        each.alias or each.name: hints.get(each.name, Any)
        for each in attrs.fields(cls)
        if each.init and not PROGRAM_ONLY.items() <= each.metadata.items()
    }


def _expected_values(cls: type[Any]) -> dict[str, str | None]:
    """Return the descriptions of valid values, by key, from validators that have one."""
    return {each.alias or each.name: getattr(each.validator, "expected", None) for each in attrs.fields(cls)}


def _alternatives(hint: Any) -> list[Any]:
    """Return the types that a hint allows, without ``None``."""
    parts = get_args(hint) if get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    return [each for each in parts if each is not type(None)]


def _table_class(hint: Any) -> type[Any] | None:
    """Return the attrs class of a field that is a table."""
    parts = _alternatives(hint)
    return parts[0] if len(parts) == 1 and isinstance(parts[0], type) and attrs.has(parts[0]) else None


def _tables_in(hint: Any, value: Any, where: Key) -> Iterator[tuple[type[Any], Mapping[str, Any], Key]]:
    """Yield the tables of attrs classes in a list or a mapping."""
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


def _from_environment(text: str, hint: Any, variable: str, expected: str | None) -> Any:
    reader = SettingsReader(folder=Path.cwd(), error=lambda _, problem: ConfigError(f"{variable}: {problem}"))
    parts = _alternatives(hint)
    literals = [text for each in parts if get_origin(each) is typing.Literal for text in get_args(each)]
    others = [each for each in parts if get_origin(each) is not typing.Literal]
    # A text that is none of the literals is read as one of the other types, whose error is more helpful.
    kind = hint
    if others and text not in literals:
        kind = next((each for each in others if get_origin(each) is tuple), others[0])
    value: Any = text
    if get_origin(kind) is tuple and not attrs.has(get_args(kind)[0]):
        separator = os.pathsep if get_args(kind)[0] is Path else ","
        value = [part.strip() for part in text.split(separator) if part.strip()]
    elif get_origin(kind) in (tuple, dict, Mapping):
        try:
            value = json.loads(text)
        except json.JSONDecodeError as error:
            raise ConfigError(f"{variable}: expected JSON: {error}") from error
    elif kind in (bool, int, float):
        value = text.strip().lower()
        try:
            # TOML has these prefixes too; the mode of a file is usually written in octal.
            if kind is int and value.startswith(("0o", "0x", "0b")):
                return int(value, 0)
            return msgspec.convert(value, kind, strict=False)
        except msgspec.ValidationError as error:
            problem = locate_problem(error, hint)[1] if expected is None else f"expected {expected}"
            raise ConfigError(f"{variable}: {problem}, got {text!r}") from error
        except ValueError as error:
            raise ConfigError(f"{variable}: expected {expected or 'an integer'}, got {text!r}") from error
    return reader._convert(value, kind, (), expected)
