"""The settings of the plugin: ``[plugins.postgres]`` in mcptrio.toml, and the environment.

mcptrio creates a Config when it loads the plugin. Only the databases that it names can be opened. Databases that are
not in ``writable`` are read-only.

Source: ``MCPTRIO_POSTGRES_<KEY>`` in the environment overrides the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from attrs import field, frozen
from attrs.validators import and_, ge, le

from mcptrio import Secret

from .address import read_address

__all__ = ["ALL", "Config"]

ALL = "*"
"""The entry of ``writable`` that stands for every database."""

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_MIB = 1024 * 1024


@frozen(kw_only=True)
class Config:
    """The settings of the plugin. Sizes are in bytes, times in seconds."""

    databases: Mapping[str, Secret] = field(factory=dict)
    """URLs of databases by name: ``postgresql://USER:PASSWORD@HOST:PORT/DATABASE``. A name has 1 to 64 characters of
    ``A-Za-z0-9_.-``."""

    writable: tuple[str, ...] = ()
    """Names of writable databases; ``"*"`` for all. If empty, the writing tool is not offered."""

    schema_changes: bool = False
    """Allow ``write_query`` to create, alter and drop tables, indexes, views and other objects."""

    query_timeout: float = field(default=30.0, validator=and_(ge(0.1), le(3600.0)))
    """Seconds for one call, including the wait for a connection and for locks; 0.1 to 3600."""

    connect_timeout: float = field(default=10.0, validator=and_(ge(2.0), le(120.0)))
    """Seconds for one attempt to connect; 2 to 120."""

    max_connections: int = field(default=4, validator=and_(ge(1), le(64)))
    """Maximum number of connections to each database, and of its concurrent queries; 1 to 64. Further ones wait."""

    max_rows: int = field(default=500, validator=and_(ge(1), le(10_000)))
    """Rows in one result; 1 to 10000."""

    max_result_bytes: int = field(default=36_000, validator=and_(ge(1000), le(10 * _MIB)))
    """Bytes of rows or text in one result; 1000 to 10 MiB. The default is about 9,000 tokens."""

    max_cell_chars: int = field(default=2_000, validator=and_(ge(16), le(_MIB)))
    """Maximum length of a shown value; 16 to 1 MiB. PostgreSQL cuts longer values before it sends them."""

    max_query_bytes: int = field(default=100_000, validator=and_(ge(100), le(1_000_000)))
    """Maximum length of the SQL, and of all values in ``params`` together; 100 to 10^6."""

    def __attrs_post_init__(self) -> None:
        for name, url in self.databases.items():
            if not _NAME.fullmatch(name):
                raise ValueError(f"databases: expected a name of 1 to 64 characters A-Za-z0-9_.-, got {name!r}")
            try:
                read_address(url.reveal())
            except ValueError as error:
                raise ValueError(f"databases.{name}: {error}") from None
        for name in self.writable:
            if name != ALL and name not in self.databases:
                raise ValueError(f"writable: expected the name of a database or '*', got {name!r}")
