"""One command's visit to one server: the client, where to write, and what was asked for in general.

Made by :mod:`mcptrio.commands.running`, handed to each command's function.
"""

from __future__ import annotations

from typing import Any

from attrs import frozen

from mcptrio.client.client import Client
from mcptrio.commands.console import Console
from mcptrio.commands.interrupts import Interrupts
from mcptrio.commands.terminal import Terminal
from mcptrio.errors import LocalProtocolError
from mcptrio.protocol.model.fields import Absent
from mcptrio.protocol.revisions.registry import LATEST, REVISIONS

__all__ = ["Visit"]


@frozen(kw_only=True)
class Visit:
    client: Client
    console: Console
    interrupts: Interrupts
    terminal: Terminal | None
    """``None`` where standard input or standard error is none."""
    is_interactive: bool
    """Whether there is a person who may be asked."""
    may_read_input: bool = True
    """Whether standard input is free; the shell reads its lines there."""
    as_json: bool = False
    verbose: bool = False

    def wire(self, model: Any) -> Any:
        """A model as the JSON value it came as."""
        if isinstance(model, Absent):
            return None
        try:
            return REVISIONS[self.client.revision].unstructure(model)
        except LocalProtocolError:
            # The server has said more than its revision has words for; whoever looks at it wants to see that.
            return LATEST.unstructure(model)
