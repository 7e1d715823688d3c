"""DPoP proofs: a client shows with each request that it has the key to which its token is bound.

:class:`DPoPSigner` authorizes a client's requests; the resource server and authorization servers verify proofs with
:class:`DPoPVerifier`. A proof is valid for one request: it has a unique id and names the method, the URL and the token.

Source: RFC 9449, sections 4.2, 4.3, 8, 9 and 11; MCP extension DPoP (SEP-1932).
"""

from __future__ import annotations

import re
import secrets
import time
from base64 import urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from hmac import compare_digest
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from attrs import evolve, frozen

from mcptrio.auth.jose import ALGORITHMS, PRIVATE_MEMBERS, BadKey, BadToken, Key, peek, sign, verify
from mcptrio.auth.urls import origin

__all__ = ["DPOP", "BadDPoPProof", "DPoPProof", "DPoPSigner", "DPoPVerifier", "base64url_sha256", "normal_url"]

DPOP: Final = "dpop"
"""The header that contains the proof, in lower case."""

_NONCE: Final = "dpop-nonce"
_TYPE: Final = "dpop+jwt"
# Longest proof in characters; one with an RSA key of 4096 bits has 2600.
_MAX_PROOF_CHARS: Final = 12 * 1024
# Longest proof id, and longest nonce, in characters.
_MAX_JTI_CHARS: Final = 256
# Servers whose last nonce a client keeps. After an eviction the server asks for a nonce again.
_MAX_ORIGINS: Final = 64
# Seconds by which the time of a proof may differ: proxies and clock differences included.
_WINDOW_SECONDS: Final = 300.0
# 1*NQCHAR of RFC 9449 section 8.1.
_NONCE_TEXT: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,256}")
_PORTS: Final = {"http": 80, "https": 443}
_UNRESERVED: Final = re.compile(r"[A-Za-z0-9._~-]")
# The members of the key in a proof's header that are used.
_KEY_MEMBERS: Final = frozenset({"kty", "crv", "x", "y", "n", "e", "alg", "use"})
# Client keys in the cache, 2 KiB each; importing a key costs as much as verifying a signature.
_MAX_CACHED_KEYS: Final = 1024


class BadDPoPProof(ValueError):
    """A proof is missing or invalid.

    Args:
        error: The code for the challenge: ``invalid_dpop_proof``, ``use_dpop_nonce`` or ``invalid_token``.
    """

    def __init__(self, message: str, *, error: str = "invalid_dpop_proof") -> None:
        super().__init__(message)
        self.error = error


# Client


class DPoPSigner:
    """Signs proofs with one key and keeps the last nonce of each server.

    Args:
        key: A private key; by default a new ES256 key, which every server has to support.
        clock: Returns seconds since 1970.
    """

    def __init__(self, key: Key | None = None, *, clock: Callable[[], float] = time.time) -> None:
        self._key = key
        self._clock = clock
        self._nonces: OrderedDict[str, str] = OrderedDict()

    @property
    def key(self) -> Key:
        """The private key, generated on first use."""
        if self._key is None:
            self._key = Key.generate()
        return self._key

    @property
    def thumbprint(self) -> str:
        """The thumbprint that a token bound to the key contains as ``cnf.jkt``."""
        return self.key.thumbprint

    def prove(self, method: str, url: str, *, token: str | None = None) -> str:
        """Return a new proof for one request. Each request needs its own.

        Args:
            token: The access token of the request; ``None`` at a token endpoint.
        """
        claims: dict[str, object] = {
            "jti": secrets.token_urlsafe(16),
            "htm": method,
            "htu": url.partition("#")[0].partition("?")[0],
            "iat": int(self._clock()),
        }
        if token is not None:
            claims["ath"] = base64url_sha256(token)
        if (nonce := self._nonces.get(_origin(url))) is not None:
            claims["nonce"] = nonce
        key = self.key
        # RFC 9449 section 4.2: the header contains the key itself, so it has no kid.
        return sign(claims, evolve(key, id=None), typ=_TYPE, header={"jwk": key.bare})

    def take_nonce(self, url: str, headers: Mapping[str, str]) -> bool:
        """Store the nonce of a response.

        Args:
            headers: The response headers, with names in lower case.

        Returns:
            True if the nonce is new; then a request that was refused for its nonce is worth one retry.
        """
        nonce = headers.get(_NONCE)
        if nonce is None or _NONCE_TEXT.fullmatch(nonce) is None:
            return False
        server = _origin(url)
        changed = self._nonces.get(server) != nonce
        self._nonces[server] = nonce
        self._nonces.move_to_end(server)
        while len(self._nonces) > _MAX_ORIGINS:
            self._nonces.popitem(last=False)
        return changed


# Server


@frozen(kw_only=True)
class DPoPProof:
    """A verified proof."""

    thumbprint: str
    """The thumbprint of the key, to which the token has to be bound."""
    id: str
    issued_at: float
    nonce: str | None = None

    @property
    def name(self) -> str:
        """The name by which a replay is detected: the thumbprint, a colon, and the digest of the id."""
        # The name contains the key, so no client can use up another client's ids.
        return f"{self.thumbprint}:{base64url_sha256(self.id)}"


@frozen(kw_only=True)
class DPoPVerifier:
    """Verifies proofs. Keeps no state: the caller provides the replay cache and the nonces.

    Args:
        is_new: A function called with the name of each otherwise valid proof, and the time until which to remember it,
            in seconds since 1970. It returns True if the proof is used for the first time, and raises Overloaded if the
            proof cannot be remembered.
        algorithms: The accepted signature algorithms.
        window: Seconds by which the time of a proof may differ in either direction.
        clock: Returns seconds since 1970.
        is_current: Returns True for a valid nonce. If it is ``None``, proofs need no nonce.
    """

    is_new: Callable[[str, float], bool]
    algorithms: frozenset[str] = ALGORITHMS
    window: float = _WINDOW_SECONDS
    clock: Callable[[], float] = time.time
    is_current: Callable[[str], bool] | None = None

    def verify(
        self,
        proofs: Sequence[str],
        *,
        method: str,
        url: str,
        token: str | None = None,
        bound_to: str | None = None,
    ) -> DPoPProof:
        """Verify the proof of a request.

        Args:
            proofs: The values of all ``DPoP`` headers of the request.
            method: The HTTP method as received.
            url: The URL to which the client sent the request.
            token: The access token of the request; ``None`` at a token endpoint.
            bound_to: The thumbprint that the token names (``cnf.jkt``).

        Raises:
            BadDPoPProof: The proof is missing, was used before, or is not valid for this request.
        """
        proof, claims = self._read(proofs)
        now = self.clock()
        if claims.get("htm") != method:
            raise BadDPoPProof("htm: expected the HTTP method of the request, got another")
        if _normal_url_or_none(claims.get("htu")) != normal_url(url):
            raise BadDPoPProof("htu: expected the URL of the request, got another")
        if abs(proof.issued_at - now) > self.window:
            raise BadDPoPProof(
                f"iat: expected a time at most {self.window:g} seconds from now; compare the clocks of both sides"
            )
        self._check_nonce(proof)
        if token is not None:
            hashed = claims.get("ath")
            if not isinstance(hashed, str) or not compare_digest(hashed.encode(), base64url_sha256(token).encode()):
                raise BadDPoPProof("ath: expected the hash of the access token")
        if bound_to is not None and not compare_digest(bound_to.encode(), proof.thumbprint.encode()):
            raise BadDPoPProof("the token is bound to another key", error="invalid_token")
        # Last, so that invalid proofs take no memory.
        if not self.is_new(proof.name, proof.issued_at + self.window):
            raise BadDPoPProof("jti: the proof was used before")
        return proof

    def _read(self, proofs: Sequence[str]) -> tuple[DPoPProof, Mapping[str, object]]:
        """Return a proof and its claims, verified with the key in its own header."""
        if len(proofs) != 1 or not proofs[0]:
            raise BadDPoPProof(
                f"expected one DPoP proof, got {len(proofs)}" if proofs else "expected a DPoP proof, got none"
            )
        [text] = proofs
        if len(text) > _MAX_PROOF_CHARS:
            raise BadDPoPProof(f"expected a proof of at most {_MAX_PROOF_CHARS} characters")
        try:
            # The key need not be known: its thumbprint has to match the token, which the caller checks. RFC 9449
            # section 4.3 forbids private and symmetric keys.
            jwk = peek(text).header.get("jwk")
            if not isinstance(jwk, dict) or not PRIVATE_MEMBERS.isdisjoint(jwk):
                raise BadDPoPProof("jwk: expected a public key in the header of the proof")
            members = [(name, value) for name, value in jwk.items() if name in _KEY_MEMBERS]
            if not all(isinstance(value, str) for _, value in members):
                raise BadDPoPProof("jwk: expected members that are strings")
            key, thumbprint = _public_key(tuple(members))
            claims = verify(text, key, algorithms=self.algorithms, typ=frozenset({_TYPE})).claims
        except (BadToken, BadKey) as error:
            raise BadDPoPProof(str(error)) from error
        id, issued, nonce = claims.get("jti"), claims.get("iat"), claims.get("nonce")
        if not isinstance(id, str) or not 0 < len(id) <= _MAX_JTI_CHARS:
            raise BadDPoPProof(f"jti: expected 1 to {_MAX_JTI_CHARS} characters")
        if isinstance(issued, bool) or not isinstance(issued, int | float):
            raise BadDPoPProof("iat: expected seconds since 1970, got no number")
        if nonce is not None and not (isinstance(nonce, str) and len(nonce) <= _MAX_JTI_CHARS):
            raise BadDPoPProof(f"nonce: expected at most {_MAX_JTI_CHARS} characters")
        return DPoPProof(thumbprint=thumbprint, id=id, issued_at=issued, nonce=nonce), claims

    def _check_nonce(self, proof: DPoPProof) -> None:
        if self.is_current is None:
            return
        if proof.nonce is None or not self.is_current(proof.nonce):
            raise BadDPoPProof("nonce: expected the nonce of the last response", error="use_dpop_nonce")


@lru_cache(maxsize=_MAX_CACHED_KEYS)
def _public_key(members: tuple[tuple[str, str], ...]) -> tuple[Key, str]:
    """Return a key and its thumbprint. Errors are not cached.

    Raises:
        BadKey: The members are not a valid key.
    """
    key = Key.from_jwk(dict(members))
    return key, key.thumbprint


def base64url_sha256(text: str) -> str:
    """Return a SHA-256 in base64url, as the ``ath`` claim of an access token and PKCE challenges have it."""
    return urlsafe_b64encode(sha256(text.encode()).digest()).rstrip(b"=").decode()


def normal_url(url: str) -> str:
    """Return a URL in the form in which DPoP compares it.

    Without query and fragment, normalised by syntax and scheme (RFC 3986 sections 6.2.2 and 6.2.3).

    Raises:
        ValueError: The text is not an http or https URL, or contains credentials.
    """
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname or "@" in parts.netloc:
        raise ValueError("expected an http or https URL with a host and without credentials")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    port = "" if parts.port in (None, _PORTS[parts.scheme]) else f":{parts.port}"
    path = re.sub("%[0-9A-Fa-f]{2}", _decode_unreserved, parts.path) or "/"
    return urlunsplit((parts.scheme, host + port, path, "", ""))


def _decode_unreserved(match: re.Match[str]) -> str:
    character = chr(int(match[0][1:], 16))
    return character if _UNRESERVED.fullmatch(character) else match[0].upper()


def _normal_url_or_none(url: object) -> str | None:
    if not isinstance(url, str):
        return None
    try:
        return normal_url(url)
    except ValueError:
        return None


def _origin(url: str) -> str:
    return origin(normal_url(url))
