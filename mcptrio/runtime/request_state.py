"""Seals and opens ``requestState``, from which any process can replay a handler.

The round trips seal it, the client sends it back, and the process that receives the retry opens it. The state is not
trusted until every check has passed, and every failed check causes the same error.

Source: MCP 2026-07-28, basic/patterns/mrtr, "Request state"; AES-256-GCM: NIST SP 800-38D.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import logging
import os
import secrets
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import orjson
from attrs import field, frozen

from mcptrio.errors import InvalidParams
from mcptrio.protocol.events import RequestReceived

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

__all__ = ["Journal", "KeyRing", "digest_of", "open_state", "seal_state"]

_log = logging.getLogger("mcptrio.request_state")

NONCE_BYTES = 12
KEY_ID_BYTES = 4
VERSION = 1
"""Version of the format of a state; other versions are refused."""
LIFETIME = 3600
"""Seconds for which a sealed state is accepted."""


class KeyRing:
    """A set of sealing keys. It seals with the first key and opens with any.

    Args:
        keys: The keys that all replicas share, at least 16 bytes each. Without keys, this process generates one.
    """

    def __init__(self, keys: Sequence[bytes] = ()) -> None:
        for key in keys:
            if len(key) < 16:
                raise ValueError(f"expected sealing keys of at least 16 bytes, got one of {len(key)}")
        self._keys = [
            # The prefix derives a key for this use only: the operator's keys are used for other purposes too.
            hashlib.sha256(b"mcptrio request state\0" + key).digest()
            for key in keys or (secrets.token_bytes(32),)
        ]
        self._ciphers: dict[bytes, AESGCM] = {}

    def seal(self, value: bytes, *, audience: bytes) -> str:
        """Encrypt a value so that it can be opened only with the same audience."""
        key = self._keys[0]
        nonce = os.urandom(NONCE_BYTES)
        sealed = self._cipher(key).encrypt(nonce, value, audience)
        return base64.urlsafe_b64encode(_key_id(key) + nonce + sealed).decode().rstrip("=")

    def open(self, sealed: str, *, audience: bytes) -> bytes:
        """Verify and decrypt a sealed state, with any key of the ring.

        Raises:
            ValueError: It was sealed with another key or for another audience, or it was altered.
        """
        from cryptography.exceptions import InvalidTag

        try:
            # seal() removes the padding, which b64decode requires.
            raw = base64.b64decode(sealed + "=" * (-len(sealed) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError) as error:
            raise ValueError("not base64url") from error
        key_id, nonce, body = (
            raw[:KEY_ID_BYTES],
            raw[KEY_ID_BYTES : KEY_ID_BYTES + NONCE_BYTES],
            raw[KEY_ID_BYTES + NONCE_BYTES :],
        )
        # There may be several keys, so that an operator can change the key while old states are in use.
        for key in self._keys:
            if hmac.compare_digest(_key_id(key), key_id):
                try:
                    return self._cipher(key).decrypt(nonce, body, audience)
                except (InvalidTag, ValueError) as error:
                    raise ValueError("altered, or sealed for another audience") from error
        raise ValueError("sealed with a key that is not in the ring")

    def _cipher(self, key: bytes) -> AESGCM:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        if key not in self._ciphers:
            self._ciphers[key] = AESGCM(key)
        return self._ciphers[key]


def _key_id(key: bytes) -> bytes:
    return hashlib.sha256(b"id\0" + key).digest()[:KEY_ID_BYTES]


@frozen(kw_only=True)
class Journal:
    """The history of a call over all its rounds.

    Args:
        round: The number of responses with questions so far.
        answers: The client's answers by the keys of their questions, in wire form.
        once: Results of side effects by key, as JSON values. The effects must not run again.
        question_keys: The keys of the last round's questions.
        pages: Those of ``question_keys`` that stand for a URL which the user had to open before a replay.
        ticket: The id of the parked handler; ``None`` if it was not parked.
        call: Identifies the call over all its rounds; ``None`` before its first state.
        trace: The trace context of the first round; empty if it was not traced.
    """

    round: int = 0
    answers: dict[str, Any] = field(factory=dict)
    once: dict[str, Any] = field(factory=dict)
    question_keys: tuple[str, ...] = ()
    pages: tuple[str, ...] = ()
    ticket: str | None = None
    call: str | None = None
    trace: dict[str, str] = field(factory=dict)


def digest_of(request: RequestReceived) -> str:
    """Return a digest of the method and its original parameters, which a request and its retries have in common."""
    params = request.peer.revision.unstructure(request.params)
    for member in ("_meta", "inputResponses", "requestState"):
        params.pop(member, None)
    text = orjson.dumps([request.method.name, params], option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(text).hexdigest()


def seal_state(ring: KeyRing | Any, journal: Journal, *, audience: str, principal: str, digest: str) -> str:
    """Return a journal as a ``requestState`` that only the same principal can use, for the same request."""
    value = {
        "v": VERSION,
        "e": int(time.time()) + LIFETIME,
        "p": principal,
        "d": digest,
        "r": journal.round,
        "a": journal.answers,
        "o": journal.once,
        "k": journal.question_keys,
        "u": journal.pages,
        "t": journal.ticket,
        "c": journal.call,
        # The state differs in every round, even if all other members are equal.
        "n": secrets.token_hex(4),
    }
    if journal.trace:
        value["x"] = journal.trace
    sealed: str = ring.seal(orjson.dumps(value), audience=audience.encode())
    return sealed


def open_state(ring: KeyRing | Any, sealed: str, *, audience: str, principal: str, digest: str) -> Journal:
    """Open a sealed ``requestState``, check it, and return its journal.

    Raises:
        InvalidParams: The same error for every reason; the log has the failed check.
    """
    refusal = _refusal(sealed)
    try:
        value = orjson.loads(ring.open(sealed, audience=audience.encode()))
        if value.get("v") != VERSION:
            raise ValueError("sealed by another version of this server")
    except ValueError as error:
        _log.warning("requestState refused: %s", error)
        raise refusal from error
    checks = (
        (value["e"] >= time.time(), "it has expired"),
        # Makes a stolen state useless to another principal.
        (hmac.compare_digest(value["p"].encode(), principal.encode()), "it was sealed for another principal"),
        # Otherwise the answers of one call could be used for another one.
        (hmac.compare_digest(value["d"], digest), "it was sealed for another request"),
    )
    for passed, problem in checks:
        if not passed:
            _log.warning("requestState refused: %s", problem)
            raise refusal
    return Journal(
        round=value["r"],
        answers=value["a"],
        once=value["o"],
        question_keys=tuple(value["k"]),
        pages=tuple(value["u"]),
        ticket=value["t"],
        call=value["c"],
        trace=value.get("x", {}),
    )


def _refusal(sealed: str) -> InvalidParams:
    return InvalidParams("expected the requestState of the last answer to this request, unchanged at `requestState`")
