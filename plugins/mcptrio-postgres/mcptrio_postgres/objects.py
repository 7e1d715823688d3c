"""Selects the objects with tools and resources for a configuration.

The plugin's ``setup`` registers them. The tool that writes is included only if a database is writable.
"""

from __future__ import annotations

from .config import Config
from .describe_tools import DescribeTools
from .queries import PostgresQueries
from .read_tools import PostgresReadTools
from .resources import DatabaseResources
from .tuning import TuningTools
from .write_tool import PostgresWriteTool

__all__ = ["objects"]


def objects(config: Config) -> list[object]:
    """Return the objects to register."""
    queries = PostgresQueries(config)
    tool_objects: list[object] = [
        queries.pools,
        PostgresReadTools(queries),
        DescribeTools(queries),
        TuningTools(queries),
        DatabaseResources(queries),
    ]
    if config.writable:
        tool_objects.append(PostgresWriteTool(queries))
    return tool_objects
