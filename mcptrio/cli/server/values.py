"""The values of the options of ``mcptrio serve``.

Called by click while it reads the command line.
"""

from __future__ import annotations

import click

__all__ = ["addresses"]


def addresses(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> list[str]:
    """Addresses as ``stream.listen`` has them; a port alone is one of this machine."""
    return [f"127.0.0.1:{value}" if value.isdecimal() else value for value in values]
