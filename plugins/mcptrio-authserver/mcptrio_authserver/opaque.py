"""Random secrets and their digests: codes, refresh tokens, client secrets and cookies."""

from __future__ import annotations

import hmac
import secrets
from hashlib import sha256
from typing import Final

__all__ = ["MAX_TOKEN_CHARS", "digest_of", "is_same", "new_id", "new_opaque"]

MAX_TOKEN_CHARS: Final = 512
"""Longest secret in characters; the rest is ignored."""


def new_opaque(prefix: str = "") -> str:
    """Return a new secret of 256 bits.

    Args:
        prefix: Identifies the kind of secret for users and for secret scanners.
    """
    return prefix + secrets.token_urlsafe(32)


def new_id() -> str:
    """Return a new id of 128 bits in hexadecimal.

    It never begins with a hyphen, so commands accept it as an argument.
    """
    return secrets.token_hex(16)


def digest_of(text: str) -> str:
    """Return the digest under which a secret is stored."""
    # The secrets are random and long, so a plain hash protects them as well as a slow one. A lookup by digest takes as
    # long whether or not the record exists.
    return sha256(text.encode()).hexdigest()


def is_same(text: str, digest: str) -> bool:
    """Return True if a secret has this digest, in constant time."""
    return hmac.compare_digest(digest_of(text), digest)
