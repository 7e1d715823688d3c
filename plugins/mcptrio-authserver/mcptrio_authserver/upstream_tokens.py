"""Tokens of an upstream provider, encrypted with the client's code or refresh token.

This server stores only a digest of that code or token, so it cannot decrypt them without a request of the client.

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

# Bytes of a nonce (NIST SP 800-38D section 8.2).
_NONCE_BYTES: Final = 12
_LABEL: Final = b"mcptrio-authserver upstream tokens"


@frozen(kw_only=True)
class UpstreamTokens:
    """The tokens that the provider issued for a user.

    Args:
        subject: The user at the provider.
        access: The access token.
        refresh: The refresh token, if any.
        ends: The time at which the access token expires, in seconds since 1970.
    """

    subject: str
    access: str = field(repr=False)
    refresh: str | None = field(default=None, repr=False)
    ends: float


def seal_tokens(tokens: UpstreamTokens, secret: str) -> str:
    """Encrypt tokens.

    Args:
        secret: The code or refresh token of this server that decrypts them.
    """
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = os.urandom(_NONCE_BYTES)
    sealed = AESGCM(_key(secret)).encrypt(nonce, orjson.dumps(asdict(tokens)), _LABEL)
    return base64.b64encode(nonce + sealed).decode()


def open_tokens(sealed: str, secret: str) -> UpstreamTokens:
    """Decrypt tokens.

    Raises:
        Refusal: ``invalid_grant``: They were encrypted with another secret.
    """
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    raw = base64.b64decode(sealed)
    try:
        return UpstreamTokens(
            **orjson.loads(AESGCM(_key(secret)).decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], _LABEL))
        )
    except InvalidTag:
        raise Refusal("invalid_grant", "the identity provider's tokens for this user cannot be decrypted") from None


def _key(secret: str) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(algorithm=SHA256(), length=32, salt=None, info=_LABEL).derive(secret.encode())
