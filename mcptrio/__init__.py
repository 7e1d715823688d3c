"""mcptrio: a Trio-native runtime for the Model Context Protocol.

This module has the names that most programs need. ``mcptrio.types`` has the types of the protocol; ``mcptrio.serving``,
``mcptrio.client``, ``mcptrio.host`` and ``mcptrio.auth`` the options of servers, clients and hosts; ``mcptrio.errors``
all exceptions; ``mcptrio.testing`` the test kit.

Each name is imported on first use.
"""

from typing import TYPE_CHECKING

from mcptrio.ground.lazy_names import lazy_names
from mcptrio.ground.version import __version__ as __version__

if TYPE_CHECKING:
    from mcptrio.capabilities.contents import Blob as Blob
    from mcptrio.capabilities.context import Context as Context
    from mcptrio.capabilities.decorators import Header as Header
    from mcptrio.capabilities.decorators import completion as completion
    from mcptrio.capabilities.decorators import method as method
    from mcptrio.capabilities.decorators import notification as notification
    from mcptrio.capabilities.decorators import prompt as prompt
    from mcptrio.capabilities.decorators import resource as resource
    from mcptrio.capabilities.decorators import tool as tool
    from mcptrio.capabilities.middleware import RequestView as RequestView
    from mcptrio.capabilities.questions import Elicit as Elicit
    from mcptrio.capabilities.questions import ElicitURL as ElicitURL
    from mcptrio.capabilities.questions import ListRoots as ListRoots
    from mcptrio.capabilities.questions import Sample as Sample
    from mcptrio.capabilities.registrar import Registrar as Registrar
    from mcptrio.cli.run import run as run
    from mcptrio.client.client import Client as Client
    from mcptrio.connecting.connect import connect as connect
    from mcptrio.connecting.targets import Command as Command
    from mcptrio.connecting.targets import Endpoint as Endpoint
    from mcptrio.connecting.targets import Socket as Socket
    from mcptrio.errors import ConfigError as ConfigError
    from mcptrio.errors import ConnectionClosed as ConnectionClosed
    from mcptrio.errors import InvalidParams as InvalidParams
    from mcptrio.errors import MCPError as MCPError
    from mcptrio.errors import MCPTrioError as MCPTrioError
    from mcptrio.errors import RequestTimeout as RequestTimeout
    from mcptrio.errors import ResourceNotFound as ResourceNotFound
    from mcptrio.errors import ToolError as ToolError
    from mcptrio.ground.redaction import redact as redact
    from mcptrio.ground.secret import Secret as Secret
    from mcptrio.host.host import Host as Host
    from mcptrio.mounting.mount import Mount as Mount
    from mcptrio.plugins.hooks import hookimpl as hookimpl
    from mcptrio.plugins.hooks import lifespan as lifespan
    from mcptrio.plugins.setup import PluginSetup as PluginSetup
    from mcptrio.runtime.callers import ANONYMOUS as ANONYMOUS
    from mcptrio.server import Server as Server

# Every public name and the module that defines it. Importing on first use keeps "import mcptrio" and the command line
# fast.
_HOMES = {
    # For plugins
    "ANONYMOUS": "mcptrio.runtime.callers",
    "Context": "mcptrio.capabilities.context",
    "Header": "mcptrio.capabilities.decorators",
    "PluginSetup": "mcptrio.plugins.setup",
    "Registrar": "mcptrio.capabilities.registrar",
    "RequestView": "mcptrio.capabilities.middleware",
    "Secret": "mcptrio.ground.secret",
    "completion": "mcptrio.capabilities.decorators",
    "hookimpl": "mcptrio.plugins.hooks",
    "lifespan": "mcptrio.plugins.hooks",
    "method": "mcptrio.capabilities.decorators",
    "notification": "mcptrio.capabilities.decorators",
    "prompt": "mcptrio.capabilities.decorators",
    "redact": "mcptrio.ground.redaction",
    "resource": "mcptrio.capabilities.decorators",
    "run": "mcptrio.cli.run",
    "tool": "mcptrio.capabilities.decorators",
    # Questions and results of a handler
    "Blob": "mcptrio.capabilities.contents",
    "Elicit": "mcptrio.capabilities.questions",
    "ElicitURL": "mcptrio.capabilities.questions",
    "ListRoots": "mcptrio.capabilities.questions",
    "Sample": "mcptrio.capabilities.questions",
    # Servers, clients and hosts
    "Client": "mcptrio.client.client",
    "Command": "mcptrio.connecting.targets",
    "Endpoint": "mcptrio.connecting.targets",
    "Host": "mcptrio.host.host",
    "Mount": "mcptrio.mounting.mount",
    "Server": "mcptrio.server",
    "Socket": "mcptrio.connecting.targets",
    "connect": "mcptrio.connecting.connect",
    # Errors
    "ConfigError": "mcptrio.errors",
    "ConnectionClosed": "mcptrio.errors",
    "InvalidParams": "mcptrio.errors",
    "MCPError": "mcptrio.errors",
    "MCPTrioError": "mcptrio.errors",
    "RequestTimeout": "mcptrio.errors",
    "ResourceNotFound": "mcptrio.errors",
    "ToolError": "mcptrio.errors",
}

__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll] - the imports above define them for type checkers

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
