"""Network access and child processes for plugins.

:class:`Fetcher` sends HTTP requests and refuses addresses in private networks. Each name is imported on first use.
"""

from typing import TYPE_CHECKING

from mcptrio.ground.lazy_names import lazy_names

if TYPE_CHECKING:
    from mcptrio.ground.networks import network_of as network_of
    from mcptrio.http.client.address_kinds import Address as Address
    from mcptrio.http.client.address_kinds import AddressKind as AddressKind
    from mcptrio.http.client.address_kinds import address_kind as address_kind
    from mcptrio.http.client.address_kinds import parse_address as parse_address
    from mcptrio.http.client.address_policy import AddressPolicy as AddressPolicy
    from mcptrio.http.client.fetcher import Fetcher as Fetcher
    from mcptrio.transports.child_process import ChildProcess as ChildProcess
    from mcptrio.transports.child_process import start_process as start_process

_HOMES = {
    # Requests
    "AddressPolicy": "mcptrio.http.client.address_policy",
    "Fetcher": "mcptrio.http.client.fetcher",
    # Addresses
    "Address": "mcptrio.http.client.address_kinds",
    "AddressKind": "mcptrio.http.client.address_kinds",
    "address_kind": "mcptrio.http.client.address_kinds",
    "network_of": "mcptrio.ground.networks",
    "parse_address": "mcptrio.http.client.address_kinds",
    # Processes
    "ChildProcess": "mcptrio.transports.child_process",
    "start_process": "mcptrio.transports.child_process",
}
"""Every public name and the module that defines it."""

__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll] - the imports above define them for type checkers

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
