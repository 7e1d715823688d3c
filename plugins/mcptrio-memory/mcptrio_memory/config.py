"""The settings of the operator: ``[plugins.memory]`` in mcptrio.toml.

mcptrio creates a Config when it loads the plugin; embedding programs create it directly.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from attrs import field, frozen
from attrs.validators import ge, gt, le

__all__ = ["ANY", "Config"]

ANY = "*"
"""The entry of ``namespaces`` that allows every name."""

_NAMESPACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_MIB = 1024 * 1024


@frozen(kw_only=True)
class Config:
    """The settings of the plugin. Sizes are in bytes, lengths in characters, times in seconds."""

    file: Path | None = None
    """The SQLite file, which is created if it does not exist. Unset: ``memory.db`` in mcptrio's data folder of this
    user."""

    namespace: str = "default"
    """The graph that a call without ``namespace`` uses. 1 to 100 letters, digits, dots, dashes, underscores."""

    namespaces: tuple[str, ...] | Literal["principal"] = ()
    """Further graphs in the same file that a call may name; ``*`` for any. Or ``principal``: each authenticated user
    has a private graph, and anonymous callers have none."""

    read_only: bool = False
    """Do not offer the tools that change the graph."""

    import_file: Path | None = None
    """A file of the reference memory server (JSON lines) that is imported into ``namespace`` once, at the first
    start."""

    limit: int = field(default=100, validator=[ge(1), le(10_000)])
    """Default number of entities in one result, 1 to 10000."""

    max_limit: int = field(default=1000, validator=[ge(1), le(10_000)])
    """Maximum number of entities in one result, 1 to 10000."""

    max_answer_bytes: int = field(default=36_000, validator=[ge(1000), le(64 * _MIB)])
    """Maximum bytes of a tool's answer, 1000 to 64 MiB; further pages have the rest. The default is about 9,000
    tokens."""

    max_resource_bytes: int = field(default=4 * _MIB, validator=[ge(1000), le(64 * _MIB)])
    """Maximum bytes of a resource, 1000 to 64 MiB. A longer graph is truncated, and a longer export is an error."""

    max_items: int = field(default=1000, validator=[ge(1), le(100_000)])
    """Maximum number of entities, relations, names or deletions in one call, 1 to 100000."""

    max_name: int = field(default=500, validator=[ge(1), le(1000)])
    """Maximum length of a name or type, 1 to 1000."""

    max_observation: int = field(default=20_000, validator=[ge(1), le(1_000_000)])
    """Maximum length of an observation, 1 to 1000000."""

    max_observations: int = field(default=5000, validator=[ge(1), le(100_000)])
    """Maximum number of observations of one entity, 1 to 100000."""

    max_import_bytes: int = field(default=2 * _MIB, validator=[ge(1), le(64 * _MIB)])
    """Maximum length of the text in one call of import_graph, 1 to 64 MiB. The default fits, as JSON, into the largest
    message that mcptrio accepts by default. ``import_file`` has no such limit."""

    max_file_bytes: int = field(default=1024 * _MIB, validator=[ge(_MIB), le(1024 * 1024 * _MIB)])
    """Maximum size of the SQLite file, 1 MiB to 1 TiB. Changes fail when the file is full."""

    busy_timeout: float = field(default=20.0, validator=[gt(0), le(3600)])
    """Seconds that a change waits for other processes that write to the same file, up to 3600."""

    watch_interval: float = field(default=1.0, validator=[ge(0.01), le(3600)])
    """Seconds between checks of the file for changes by other processes, while there are subscribers; 0.01 to 3600."""

    def __attrs_post_init__(self) -> None:
        for name in (self.namespace, *self.other_namespaces):
            if name != ANY and not _NAMESPACE.fullmatch(name):
                raise ValueError(f"expected a namespace of 1 to 100 letters, digits, dots, dashes, got {name!r}")
        if self.namespace == ANY:
            raise ValueError("expected the name of one namespace as namespace, got '*'")
        if self.is_by_principal and self.import_file is not None:
            raise ValueError("import_file: expected none, since each principal has its own namespace; got a file")
        if self.limit > self.max_limit:
            raise ValueError(f"expected a limit of at most max_limit, {self.max_limit}, got {self.limit}")

    @property
    def is_by_principal(self) -> bool:
        """True if each principal has a separate graph."""
        return self.namespaces == "principal"

    @property
    def other_namespaces(self) -> tuple[str, ...]:
        """The graphs that a call may name in addition to ``namespace``."""
        return () if isinstance(self.namespaces, str) else self.namespaces

    def path(self) -> Path:
        """Return the absolute path of the file, with ``~`` expanded."""
        if self.file is None:
            import platformdirs  # imported only if no file is configured

            return Path(platformdirs.user_data_dir("mcptrio", appauthor=False)) / "memory.db"
        return Path(self.file).expanduser().absolute()

    def import_path(self) -> Path | None:
        """Return the file to import at the first start: absolute, with ``~`` expanded."""
        return None if self.import_file is None else Path(self.import_file).expanduser().absolute()

    def allowed_namespace(self, namespace: str | None) -> str | None:
        """Return the namespace of a call; ``None`` if a call may not name it."""
        if namespace is None or namespace == self.namespace:
            return self.namespace
        if namespace in self.other_namespaces or (ANY in self.other_namespaces and _NAMESPACE.fullmatch(namespace)):
            return namespace if namespace != ANY else None
        return None
