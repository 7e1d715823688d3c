"""Checks that replicas on several machines can work together before any of them serves."""

from __future__ import annotations

from mcptrio.cli.server.plugin_server import keys_of
from mcptrio.serve.config import ServeConfig
from mcptrio.serve.stores_table import StoresTable
from mcptrio.stores.opening import check_scheme
from mcptrio.stores.urls import is_local_store

__all__ = ["check_replicas"]


def check_replicas(config: ServeConfig, table: StoresTable) -> None:
    """Check the settings that replicas with a common engine must share.

    Raises:
        ConfigError: One is missing, or a URL is invalid.
    """
    # First, so that a misspelled scheme is not taken for that of an engine, which needs the settings below.
    for url in table.urls.values():
        check_scheme(url)
    if all(is_local_store(url) for url in table.urls.values()):
        return
    if not keys_of(config):
        problem = (
            "replicas need a common key: create one with `head -c 32 /dev/urandom | base64 > seal.key`, "
            'then set server.key_files = ["seal.key"] or MCPTRIO_KEYS'
        )
        raise config.error(("server", "key_files"), problem)
    if not config.is_set("server", "audience"):
        problem = (
            "replicas need a common name of their service, such as its host name: "
            "set server.audience or MCPTRIO_SERVER_AUDIENCE to the same text for all"
        )
        raise config.error(("server", "audience"), problem)
