"""Selects the objects with tools, resources and prompts for a configuration.

The plugin's ``setup`` registers them. The tools that write are included only if a database is writable.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from .config import Config
from .export_tool import ExportTool
from .insights import Insights
from .prompts import Analysis, Demonstration
from .queries import Queries
from .read_tools import SQLiteReadTools
from .resources import SchemaResources
from .write_tools import WriteTools

__all__ = ["objects"]

_MIN_SQLITE_VERSION: Final = (3, 37, 0)
"""The first version of SQLite with ``pragma_table_list``."""


def objects(config: Config) -> list[object]:
    """Return the objects to register.

    Raises:
        ValueError: The SQLite of this Python is too old.
    """
    if sqlite3.sqlite_version_info < _MIN_SQLITE_VERSION:
        raise ValueError(f"expected SQLite 3.37 or newer, got {sqlite3.sqlite_version}")
    queries = Queries(config)
    tool_objects: list[object] = [
        queries.pool,
        SQLiteReadTools(queries),
        ExportTool(queries),
        SchemaResources(queries),
        Insights(config),
        Analysis(),
    ]
    if config.writable:
        tool_objects += [WriteTools(queries), Demonstration()]
    return tool_objects
