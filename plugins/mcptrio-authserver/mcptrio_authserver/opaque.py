"""Texts that let somebody in: codes, refresh tokens, secrets of clients, the cookie of a browser.

The one rule: what is kept is the digest. These texts are random and long, so a plain SHA-256 of one is as good as the
slow hash that a password needs; and finding a record by a digest takes as long whether it is there or not.
"""

from __future__ import annotations

import hmac
import secrets
from hashlib import sha256
from typing import Final

__all__ = ["MAX_TOKEN_CHARS", "digest_of", "is_same", "new_id", "new_opaque"]

MAX_TOKEN_CHARS: Final = 512
"""Characters of one that is looked at."""


def new_opaque(prefix: str = "") -> str:
    """A new one of 256 bits.

    Args:
        prefix: tells people, and scanners of leaked secrets, what it is.
    """
    return prefix + secrets.token_urlsafe(32)


def new_id() -> str:
    """A new id of 128 bits, of hexadecimal digits: no id begins with a hyphen, so commands take each as an argument."""
    return secrets.token_hex(16)


def digest_of(text: str) -> str:
    """What it is kept as."""
    return sha256(text.encode()).hexdigest()


def is_same(text: str, digest: str) -> bool:
    """Whether a text is the one that was kept. Takes as long for a wrong one."""
    return hmac.compare_digest(digest_of(text), digest)
