"""Checks that replicas on several machines can work together before any of them serves."""

from __future__ import annotations

from mcptrio.cli.server.plugin_server import keys_of
from mcptrio.serve.config import ServeConfig
from mcptrio.serve.stores_table import StoresTable
from mcptrio.stores.urls import is_of_this_machine

__all__ = ["check_replicas"]


def check_replicas(read: ServeConfig, table: StoresTable) -> None:
    """Check the settings that replicas with a common engine must share.

    Raises:
        ConfigError: One is missing, or a URL is invalid.
    """
    if all(is_of_this_machine(url) for url in table.urls.values()):
        return
    if not keys_of(read):
        problem = "expected sealing keys that all replicas share, got none: set MCPTRIO_KEYS or server.key_files"
        raise read.error(("server", "key_files"), problem)
    if not read.is_set("server", "audience"):
        problem = "expected a name of this service that all its replicas share, got none: set MCPTRIO_SERVER_AUDIENCE"
        raise read.error(("server", "audience"), problem)
