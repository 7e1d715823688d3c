"""Selects the objects with tools and resources for a configuration.

The plugin's ``setup`` calls it. Without a writable database, no writing tool is offered.
"""

from __future__ import annotations

from .changing import PostgresChanging
from .config import Config
from .describing import Describing
from .queries import PostgresQueries
from .reading import PostgresReading
from .resources import DatabaseResources
from .tuning import Tuning

__all__ = ["objects"]


def objects(config: Config) -> list[object]:
    """Return the objects to register."""
    queries = PostgresQueries(config)
    found: list[object] = [
        queries.pools,
        PostgresReading(queries),
        Describing(queries),
        Tuning(queries),
        DatabaseResources(queries),
    ]
    if config.writable:
        found.append(PostgresChanging(queries))
    return found
