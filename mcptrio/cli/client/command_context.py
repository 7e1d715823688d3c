"""The context of a client command: the client, the console and the common options.

:mod:`mcptrio.cli.client.running` makes it and passes it to the command's function.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from attrs import frozen

from mcptrio.cli.client.targets import TargetOptions
from mcptrio.cli.terminal.console import Console
from mcptrio.cli.terminal.terminal import Terminal
from mcptrio.client.client import Client
from mcptrio.errors import ConfigError, InsufficientScope, LocalProtocolError, MCPError
from mcptrio.ground.quoting import quote_name
from mcptrio.ground.suggestions import suggest
from mcptrio.protocol.model.fields import Absent
from mcptrio.protocol.revisions.registry import LATEST, REVISIONS

__all__ = ["CommandContext"]


@frozen(kw_only=True)
class CommandContext:
    client: Client
    options: TargetOptions
    """The options with which the client has connected."""
    server: str
    """The name of the server, as shown to the user."""
    hint_at_login: Callable[[], Awaitable[str]]
    """Returns the end of an error about a name that the server does not list: how to get more scopes, if the
    client sent credentials; otherwise an empty text."""
    console: Console
    terminal: Terminal | None
    """``None`` unless standard input and standard error are terminals."""
    is_interactive: bool
    """True if the server's questions can be shown to a user."""
    may_read_input: bool = True
    """True if the command may read standard input. In the shell it may not, because the shell reads its lines there."""
    has_started_server: bool = False
    """True if the server is a command that was started for this command, so that ``--verbose`` shows its log."""
    as_json: bool = False
    verbose: bool = False

    def require(self, capability: str) -> None:
        """Raise ConfigError if the server does not declare the capability, such as ``resources``."""
        if getattr(self.client.capabilities, capability) is None:
            raise ConfigError(f"the server has no {capability}")

    async def unlisted_error(self, kind: str, name: str, names: Sequence[str]) -> ConfigError:
        """Return the error about a name that the server does not list, if the server may hide it.

        Args:
            names: The names that it lists, for a suggestion.

        Raises:
            ConfigError: The same error, if the server hides nothing.
        """
        hint = await self.hint_at_login()
        # The list may hide the entry, so the error claims no more than the list shows.
        verb = "lists" if hint else "has"
        error = ConfigError(f"the server {verb} no {kind} {quote_name(name)}{suggest(name, names)}{hint}")
        # The client sent no credentials, so no larger scope would show the name.
        if not hint:
            raise error
        return error

    @contextmanager
    def raising_if_refused(self, unlisted: ConfigError | None) -> Iterator[None]:
        """Raise ``unlisted`` if the server refuses a request for a name that it may hide."""
        try:
            # The name is requested although it is not listed: only then does the server name the missing scope.
            yield
        except MCPError as error:
            # This error names the missing scope; ours could only guess.
            if unlisted is None or isinstance(error, InsufficientScope):
                raise
            raise unlisted from error

    def wire(self, model: Any) -> Any:
        """Return a model as the JSON value that was received."""
        if isinstance(model, Absent):
            return None
        try:
            return REVISIONS[self.client.revision].unstructure(model)
        except LocalProtocolError:
            # The server has sent fields that its revision does not have; show them too.
            return LATEST.unstructure(model)
