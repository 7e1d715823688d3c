"""The settings of the plugin: ``[plugins.sqlite]`` in mcptrio.toml, and the environment.

mcptrio creates a Config when it loads the plugin. Only the databases that it names can be opened. Databases that are
not in ``writable`` are read-only.

Source: ``MCPTRIO_SQLITE_<KEY>`` in the environment overrides the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from attrs import field, frozen
from attrs.validators import and_, ge, le

__all__ = ["ALL", "Config"]

ALL = "*"
"""The entry of ``writable`` that stands for every database."""

_MIB = 1024 * 1024
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@frozen(kw_only=True)
class Config:
    """The settings of the plugin. Sizes are in bytes, times in seconds."""

    databases: Mapping[str, Path] = field(factory=dict)
    """Database files by name. A name has 1 to 64 characters of ``A-Za-z0-9_.-``."""

    folder: Path | None = None
    """Every ``.db``, ``.db3``, ``.sqlite`` and ``.sqlite3`` file directly in this folder is a database with the name of
    the file. Links that lead out of the folder are not followed."""

    writable: tuple[str, ...] = ()
    """Names of writable databases; ``"*"`` for all. If empty, the writing tools are not offered."""

    schema_changes: bool = False
    """Allow ``write_query`` to alter and drop tables, and to create and drop indexes, views and triggers."""

    deny: tuple[str, ...] = ()
    """Globs of tables (``secrets``, ``audit_*``) and columns (``users.password``) that can be neither read nor
    written."""

    foreign_keys: bool = True
    """Enforce foreign keys on writes, which SQLite does not do by default."""

    query_timeout: float = field(default=30.0, validator=and_(ge(0.1), le(3600.0)))
    """Seconds for one query, including the wait for locks and for a process; 0.1 to 3600."""

    max_rows: int = field(default=500, validator=and_(ge(1), le(10_000)))
    """Rows in one result; 1 to 10000."""

    max_result_bytes: int = field(default=36_000, validator=and_(ge(1000), le(10 * _MIB)))
    """Bytes of rows in one result, as JSON; 1000 to 10 MiB. The default is about 9,000 tokens. A single row
    with very many columns may exceed it."""

    max_cell_bytes: int = field(default=10_000, validator=and_(ge(16), le(10 * _MIB)))
    """Bytes shown of one value; 16 to 10 MiB. A longer value is cut and marked as truncated."""

    max_value_bytes: int = field(default=4 * _MIB, validator=and_(ge(1000), le(1_000_000_000)))
    """Size of the largest text or blob that a query may load or create; 1000 to 10^9."""

    max_memory_bytes: int = field(default=256 * _MIB, validator=and_(ge(32 * _MIB), le(2**40)))
    """Memory of one running query; 32 MiB to 1 TiB. Enforced on Linux."""

    max_temp_bytes: int = field(default=1024 * _MIB, validator=and_(ge(64 * 1024), le(2**46)))
    """Size of each temporary file that a query uses for sorting and grouping; 64 KiB to 64 TiB. A query that writes may
    use twice ``max_database_bytes``, or twice the size of the database if that is larger."""

    max_query_bytes: int = field(default=100_000, validator=and_(ge(100), le(1_000_000)))
    """Length of the SQL; 100 to 10^6."""

    max_export_rows: int = field(default=100_000, validator=and_(ge(1), le(10_000_000)))
    """Rows in one exported file; 1 to 10^7."""

    max_export_bytes: int = field(default=36_000, validator=and_(ge(1000), le(64 * _MIB)))
    """Size of an exported file, and of a schema as a resource; 1000 to 64 MiB. Clients may put a file into the context
    of the model, so the default is about 9,000 tokens."""

    max_database_bytes: int = field(default=4096 * _MIB, validator=and_(ge(64 * 1024), le(2**46)))
    """Size to which writing may grow a database; 64 KiB to 64 TiB. A larger database does not grow further."""

    max_databases: int = field(default=1000, validator=and_(ge(1), le(100_000)))
    """Files in ``folder`` that are databases, the first ones by name; 1 to 100000."""

    max_threads: int = field(default=4, validator=and_(ge(1), le(64)))
    """Concurrent queries, each in its own process; 1 to 64. Further ones wait."""

    max_insights: int = field(default=100, validator=and_(ge(1), le(10_000)))
    """Insights in one memo; 1 to 10000. When full, the oldest is removed."""

    def __attrs_post_init__(self) -> None:
        for name, path in self.databases.items():
            if not _NAME.fullmatch(name):
                raise ValueError(f"databases: expected a name of 1 to 64 characters A-Za-z0-9_.-, got {name!r}")
            # ":memory:" and other special names of SQLite are not files.
            if not str(path) or str(path).startswith(":") or "\0" in str(path):
                raise ValueError(f"databases.{name}: expected the path of a file, got {str(path)!r}")
        for pattern in self.deny:
            if not pattern.strip() or pattern.count(".") > 1:
                raise ValueError(f"deny: expected 'table' or 'table.column', got {pattern!r}")
        for name in self.writable:
            if name != ALL and name not in self.databases and self.folder is None:
                raise ValueError(f"writable: expected the name of a database or '*', got {name!r}")
