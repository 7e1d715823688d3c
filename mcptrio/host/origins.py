"""What a host recognizes a server by when it is added again.

The host remembers the revision that a command or a URL was found to speak.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256

from mcptrio.connecting.targets import Command, Endpoint, Target

__all__ = ["origin_of"]


def origin_of(target: Target) -> bytes | None:
    """What a server is known by when it comes again: its command or its URL. A digest, since they may hold secrets."""
    if isinstance(target, Command):
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
        return None
    return sha256(known.encode("utf-8", "surrogatepass")).digest()
