"""What an upstream provider gave for a user: kept sealed with the client's own code or refresh token.

The one rule: what this server keeps cannot be opened by this server alone. Only who comes with the client's token,
of which no more than a digest is kept, lets it be used again.

Source: MCP 2025-03-26, basic/authorization, "Third-Party Authorization Flow"; AES-256-GCM: NIST SP 800-38D; HKDF: RFC
5869.
"""

from __future__ import annotations

import base64
import os
from typing import Final

import orjson
from attrs import asdict, field, frozen

from .refusals import Refusal

__all__ = ["UpstreamTokens", "open_tokens", "seal_tokens"]

_NONCE: Final = 12
_LABEL: Final = b"mcptrio-authserver upstream tokens"


@frozen(kw_only=True)
class UpstreamTokens:
    """
    Args:
        subject: who it is, as the provider names them.
        access: the access token.
        refresh: the refresh token, if there is one.
        ends: when the access token does, in seconds since 1970.
    """

    subject: str
    access: str = field(repr=False)
    refresh: str | None = field(default=None, repr=False)
    ends: float


def seal_tokens(tokens: UpstreamTokens, secret: str) -> str:
    """
    Args:
        secret: a code or a refresh token of ours.
    """
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = os.urandom(_NONCE)
    sealed = AESGCM(_key(secret)).encrypt(nonce, orjson.dumps(asdict(tokens)), _LABEL)
    return base64.b64encode(nonce + sealed).decode()


def open_tokens(sealed: str, secret: str) -> UpstreamTokens:
    """
    Raises:
        Refusal: ``invalid_grant``: it was sealed with something else.
    """
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    raw = base64.b64decode(sealed)
    try:
        return UpstreamTokens(**orjson.loads(AESGCM(_key(secret)).decrypt(raw[:_NONCE], raw[_NONCE:], _LABEL)))
    except InvalidTag:
        raise Refusal("invalid_grant", "what the provider gave for this user cannot be opened") from None


def _key(secret: str) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(algorithm=SHA256(), length=32, salt=None, info=_LABEL).derive(secret.encode())
