"""The settings of plugins: the tables ``[plugins.NAME]``, overridden by the environment.

The plugin manager uses this to configure a plugin, and commands use it to show settings. A table contains the plugin's
own settings, read into its class, and those of :class:`mcptrio.plugins.policy.PluginPolicy`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import SequenceMatcher
from typing import Any, Final

import attrs

from mcptrio.ground.suggestions import suggest
from mcptrio.plugins.policy import RESERVED, PluginPolicy
from mcptrio.settings.reader import SettingsReader, keys_of_class, variable_of

__all__ = ["PluginTables"]

_PREFIX: Final = variable_of(("",))
_MIN_SIMILARITY: Final = 0.8
"""The similarity at which a name is a misspelling of a plugin's name; 1 if the two are equal."""


@attrs.frozen(kw_only=True)
class PluginTables(SettingsReader, Mapping[str, Mapping[str, Any]]):
    """The tables of all plugins, with a reader that knows their file and lines.

    Args:
        tables: The tables by plugin name.
    """

    tables: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)

    def of(self, plugin: str, cls: type[Any] | None) -> Any:
        """Return the settings of a plugin: an instance of ``cls``, or its table if it has no class.

        Raises:
            ConfigError: A setting is invalid; the message names file, line and key.
            TypeError: The class cannot be used for settings.
        """
        if cls is None:
            # Reserved keys are settings of the server.
            return {key: value for key, value in self.resolved_table(plugin).items() if key not in RESERVED}
        _check_class(cls)
        table = {key: value for key, value in self.tables.get(plugin, {}).items() if key not in RESERVED}
        return self.read(cls, table, ("plugins", plugin), variables=(plugin,))

    def policy(self, plugin: str) -> PluginPolicy:
        """Return the operator's limits for a plugin.

        Raises:
            ConfigError: A value is invalid; the message names file, line and key.
        """
        table = {key: value for key, value in self.tables.get(plugin, {}).items() if key in RESERVED}
        return self.read(PluginPolicy, table, ("plugins", plugin), variables=(plugin,))

    def unknown_variables(
        self, plugin: str, cls: type[Any] | None, others: Callable[[], Iterable[str]]
    ) -> Iterator[str]:
        """Yield a sentence for each variable that sets nothing, probably by mistake.

        Such a variable has the plugin's prefix but names none of its settings, or names one with a misspelled prefix.

        Args:
            others: Returns the names of all plugins. If another plugin's name begins with this one's, variables with
                the other's prefix are skipped.
        """
        variables = [name for name in sorted(self._environ) if name.startswith(_PREFIX)]
        if not variables:
            return
        prefix = variable_of((plugin, ""))
        classes = (PluginPolicy,) if cls is None else (cls, PluginPolicy)
        known = [variable_of((plugin, *key)) for each in classes for key in keys_of_class(each)]
        variables = [name for name in variables if name not in known]
        meant = {name: each for name in variables for each in known if _is_misspelled(name, each, prefix)}
        variables = [name for name in variables if name in meant or name.startswith(prefix)]
        prefixes = {variable_of((name, "")) for name in (others() if variables else ())} - {prefix}
        longer = tuple(each for each in prefixes if len(each) > len(prefix))
        for name in variables:
            if name in meant:
                if not name.startswith(tuple(prefixes)):
                    yield f"{name}: no plugin has such a setting; did you mean `{meant[name]}`?"
            elif not name.startswith(longer):
                yield f"{name}: the plugin has no such setting{suggest(name, known)}"

    def resolved_table(self, plugin: str) -> dict[str, Any]:
        """Return the table of a plugin, with references replaced by their values.

        Raises:
            ConfigError: A variable is not set, or a file cannot be read; the message names file, line and key.
        """
        table = self.tables.get(plugin, {})
        return {key: self.resolve(value, ("plugins", plugin, key)) for key, value in table.items()}

    def __getitem__(self, plugin: str) -> Mapping[str, Any]:
        return self.tables[plugin]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)


def _is_misspelled(name: str, known: str, prefix: str) -> bool:
    """Return whether a variable differs from a known one only in the name of the plugin, and only a little."""
    end = known[len(prefix) - 1 :]
    plugin = name[len(_PREFIX) : -len(end)]
    return (
        not name.startswith(prefix)
        and name.endswith(end)
        and SequenceMatcher(None, plugin, prefix[len(_PREFIX) : -1]).ratio() > _MIN_SIMILARITY
    )


def _check_class(cls: type[Any]) -> None:
    """Check that a class can be used for the settings of a plugin.

    Raises:
        TypeError: The class is not an attrs class, or a field has no default or a reserved name.
    """
    if not attrs.has(cls):
        raise TypeError(f"configuration: expected a class of attrs, got {cls!r}")
    for each in attrs.fields(cls):
        if not each.init:
            continue
        # A plugin must start without a configuration, so every setting needs a default.
        if each.default is attrs.NOTHING:
            raise TypeError(f"configuration: expected a default for {cls.__name__}.{each.name}, got none")
        if each.name in RESERVED:
            raise TypeError(
                f"configuration: expected a name that is not a setting of the server, got {cls.__name__}.{each.name}"
            )
