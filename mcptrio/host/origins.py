"""Recognizes a server that is added again, by its command or URL.

The host remembers the revision that a command or a URL speaks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256

from mcptrio.connecting.targets import Command, Endpoint, Target

__all__ = ["origin_of"]


def origin_of(target: Target) -> bytes | None:
    """Return a digest of a server's command or URL, which may contain secrets."""
    if isinstance(target, Command):
        # NUL cannot occur in an argument, so two commands never have the same text.
        known = "\0".join(map(str, target.args))
    elif isinstance(target, Endpoint):
        known = target.url
    elif isinstance(target, str):
        known = target
    elif isinstance(target, Mapping):
        known = repr(sorted(target.items()))
    elif isinstance(target, Sequence):
        known = "\0".join(target)
    else:
        # An open channel or a server object can be connected to once, so remembering would not help.
        return None
    return sha256(known.encode("utf-8", "surrogatepass")).digest()
