"""Sends the user at the terminal to an authorization server, and waits for the redirect back.

:mod:`mcptrio.cli.client.running` and ``mcptrio auth login`` use it. The URL is shown first, and a browser opens it only
after the user's consent.

Source: MCP 2026-07-28, basic/authorization/security-considerations, "Open Redirection"; RFC 8252 section 8.
"""

from __future__ import annotations

from functools import partial
from typing import Final
from urllib.parse import urlsplit

import trio

from mcptrio.auth.client.loopback import LoopbackRedirects
from mcptrio.cli.terminal.console import Console
from mcptrio.cli.terminal.terminal import Interrupted, Terminal
from mcptrio.errors import AuthorizationError
from mcptrio.ground.quoting import printable

__all__ = ["sign_in"]

# An empty line is the default answer, as [Y/n] shows.
_YES: Final = frozenset({"", "y", "yes"})


def sign_in(
    console: Console, terminal: Terminal | None, *, server: str, port: int = 0, browser: bool = True
) -> LoopbackRedirects:
    """Return the redirects that log in the user at a terminal.

    Args:
        terminal: Asks for consent to open a browser; ``None`` only shows the URL.
        server: The name of the server that requires the login, which is shown to the user.
        port: The local port to which the browser is redirected; 0 for any.
        browser: True to offer to open a browser.
    """
    return LoopbackRedirects(
        show=partial(_show_url, console, server),
        consent=partial(_ask_consent, console, terminal) if terminal is not None and browser else None,
        port=port,
        program="mcptrio",
    )


def _show_url(console: Console, server: str, url: str) -> None:
    host = urlsplit(url).hostname or ""
    # On a line of its own: the user must decide whether to trust the host, and may overlook it in a long URL.
    console.note(f"{printable(server)} wants you to log in at {printable(host)}:", "bold")
    console.note(f"\n  {printable(url)}\n")


async def _ask_consent(console: Console, terminal: Terminal, url: str) -> bool:
    """Ask whether a browser may be opened. Cancelled if the user has opened the URL in the meantime.

    Raises:
        AuthorizationError: The input has ended.
    """
    answer = None
    async with terminal.exclusive():
        try:
            answer = await terminal.read_line(console.paint("Open it in the browser? [Y/n] ", "bold"))
        except Interrupted:
            # In raw mode, Ctrl-C arrives as a key and not as a signal.
            console.interrupts.interrupt()
        except EOFError:
            pass
    if answer is None:
        await trio.lowlevel.checkpoint()  # an interrupt has cancelled the surrounding scope
        raise AuthorizationError("the login was cancelled")
    if answer.strip().lower() in _YES:
        return True
    console.note("Then open it yourself; Ctrl-C cancels the login.", "dim")
    return False
