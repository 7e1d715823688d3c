"""The objects that carry the tools, resources and prompts, as the configuration has them.

Called when the plugin is registered. The one rule: where nothing may be written, nothing that writes is offered.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from .changing import Changing
from .config import Config
from .exporting import Exporting
from .insights import Insights
from .prompts import Analysis, Demonstration
from .queries import Queries
from .reading import SQLiteReading
from .resources import SchemaResources

__all__ = ["objects"]

_MIN_SQLITE_VERSION: Final = (3, 37, 0)
"""The first SQLite with ``pragma_table_list``."""


def objects(config: Config) -> list[object]:
    """What is to be registered.

    Raises:
        ValueError: this Python has an SQLite that is too old.
    """
    if sqlite3.sqlite_version_info < _MIN_SQLITE_VERSION:
        raise ValueError(f"expected SQLite 3.37 or newer, got {sqlite3.sqlite_version}")
    queries = Queries(config)
    found: list[object] = [
        queries.lanes,
        SQLiteReading(queries),
        Exporting(queries),
        SchemaResources(queries),
        Insights(config),
        Analysis(),
    ]
    if config.writable:
        found += [Changing(queries), Demonstration()]
    return found
