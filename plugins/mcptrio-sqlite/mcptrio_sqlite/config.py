"""What the operator may set: ``[plugins.sqlite]`` in mcptrio.toml, and the environment.

Filled in by mcptrio when the plugin is loaded. The one rule: what is not named here is not reachable, and what is not
called writable is not written.

Source: ``MCPTRIO_SQLITE_<KEY>`` in the environment wins over the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from attrs import field, frozen
from attrs.validators import and_, ge, le

__all__ = ["ALL", "Config"]

ALL = "*"
"""In ``writable``: every database."""

_MIB = 1024 * 1024
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@frozen(kw_only=True)
class Config:
    """The settings of the plugin. Sizes are bytes, times seconds."""

    databases: Mapping[str, Path] = field(factory=dict)
    """Names of databases and their files. A name is 1 to 64 of ``A-Za-z0-9_.-``."""

    folder: Path | None = None
    """Every ``.db``, ``.db3``, ``.sqlite`` and ``.sqlite3`` file directly in this folder is a database, called as its
    file is. Links that lead out of it are not followed."""

    writable: tuple[str, ...] = ()
    """Names of the databases that may be written; ``"*"`` is all of them. Without one, no tool that writes is
    offered."""

    schema_changes: bool = False
    """Let ``write_query`` alter and drop tables too, and create and drop indexes, views and triggers."""

    deny: tuple[str, ...] = ()
    """Globs of tables (``secrets``, ``audit_*``) and columns (``users.password``) that are neither read nor written."""

    foreign_keys: bool = True
    """Enforce foreign keys when writing, which SQLite does not by itself."""

    query_timeout: float = field(default=30.0, validator=and_(ge(0.1), le(3600.0)))
    """Seconds for one query, with its wait for locks and for a process; 0.1 to 3600."""

    max_rows: int = field(default=500, validator=and_(ge(1), le(10_000)))
    """The most rows in one answer; 1 to 10000."""

    max_result_bytes: int = field(default=100_000, validator=and_(ge(1000), le(10 * _MIB)))
    """The most bytes of rows in one answer, as JSON; 1000 to 10 MiB. One row may be more where it has very many
    columns."""

    max_cell_bytes: int = field(default=10_000, validator=and_(ge(16), le(10 * _MIB)))
    """What is shown of one value; 16 to 10 MiB. A longer one is cut, and says so."""

    max_value_bytes: int = field(default=4 * _MIB, validator=and_(ge(1000), le(1_000_000_000)))
    """The largest text or blob that a query may load or make; 1000 to 10^9."""

    max_memory_bytes: int = field(default=256 * _MIB, validator=and_(ge(32 * _MIB), le(2**40)))
    """The memory of one query at work, all its values together; 32 MiB to 1 TiB. Linux keeps to it."""

    max_temp_bytes: int = field(default=1024 * _MIB, validator=and_(ge(64 * 1024), le(2**46)))
    """How large a temporary file of a query may grow, into which it sorts and groups what does not fit into memory;
    64 KiB to 64 TiB. One that writes may use twice ``max_database_bytes``, or
    twice the database where that is larger."""

    max_query_bytes: int = field(default=100_000, validator=and_(ge(100), le(1_000_000)))
    """The longest SQL; 100 to 10^6."""

    max_export_rows: int = field(default=100_000, validator=and_(ge(1), le(10_000_000)))
    """The most rows in one exported file; 1 to 10^7."""

    max_export_bytes: int = field(default=_MIB, validator=and_(ge(1000), le(64 * _MIB)))
    """The largest exported file, and the longest schema as a resource; 1000 to 64 MiB."""

    max_database_bytes: int = field(default=4096 * _MIB, validator=and_(ge(64 * 1024), le(2**46)))
    """How large writing may make a database; 64 KiB to 64 TiB. One that is larger already does not grow."""

    max_databases: int = field(default=1000, validator=and_(ge(1), le(100_000)))
    """Files in ``folder`` that are databases, the first in order of name; 1 to 100000."""

    max_threads: int = field(default=4, validator=and_(ge(1), le(64)))
    """Queries at work at the same time, each in a process of its own; 1 to 64. More wait."""

    max_insights: int = field(default=100, validator=and_(ge(1), le(10_000)))
    """Insights in one memo; 1 to 10000. When it is full, the oldest goes."""

    def __attrs_post_init__(self) -> None:
        for name, path in self.databases.items():
            if not _NAME.fullmatch(name):
                raise ValueError(f"databases: expected a name of 1 to 64 characters A-Za-z0-9_.-, got {name!r}")
            if not str(path) or str(path).startswith(":") or "\0" in str(path):
                raise ValueError(f"databases.{name}: expected the path of a file, got {str(path)!r}")
        for pattern in self.deny:
            if not pattern.strip() or pattern.count(".") > 1:
                raise ValueError(f"deny: expected 'table' or 'table.column', got {pattern!r}")
        for name in self.writable:
            if name != ALL and name not in self.databases and self.folder is None:
                raise ValueError(f"writable: expected the name of a database or '*', got {name!r}")
