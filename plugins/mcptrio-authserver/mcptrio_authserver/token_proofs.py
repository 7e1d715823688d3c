"""DPoP proofs at the token endpoint. Used proofs and the nonce key are in the ledger, shared by all workers.

Source: RFC 9449 sections 4.3, 5 and 8.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Final

from mcptrio.auth import BadDPoPProof, DPoPVerifier, Nonces

from .clients import RegisteredClient
from .config import Config
from .ledger import Ledger
from .opaque import digest_of
from .refusals import Refusal, too_often

__all__ = ["current_nonce", "dpop_key_of"]

# Seconds for which a nonce is issued.
_ROTATION_SECONDS: Final = 300.0
_NEVER_EXPIRES: Final = 1e12
# Proofs that are remembered.
_MAX_PROOFS: Final = 100_000
# Proofs of one key that are remembered.
_MAX_PROOFS_PER_KEY: Final = 1000


def dpop_key_of(
    ledger: Ledger, config: Config, client: RegisteredClient | None, proofs: Sequence[str], now: float
) -> str | None:
    """Return the thumbprint of the key that a request proves; ``None`` if it has no proof and needs none.

    Args:
        client: The client, if any.
        proofs: The values of all ``DPoP`` headers.
        now: Seconds since 1970.

    Raises:
        Refusal: ``invalid_dpop_proof``, or ``use_dpop_nonce`` with the nonce.
    """
    if not proofs:
        if config.dpop == "required" or (client is not None and client.dpop):
            raise Refusal("invalid_dpop_proof", "expected a proof of possession (header DPoP), got none")
        return None
    nonces = _nonces(ledger, now)
    verifier = DPoPVerifier(
        is_new=lambda name, until: _is_new(ledger, name, until),
        clock=lambda: now,
        is_current=nonces.accepts if config.dpop_nonces else None,
    )
    try:
        return verifier.verify(proofs, method="POST", url=config.addresses.url("token")).thumbprint
    except BadDPoPProof as error:
        headers = {"DPoP-Nonce": nonces.current()} if error.error == "use_dpop_nonce" else {}
        raise Refusal(error.error, str(error), headers=headers) from None


def current_nonce(ledger: Ledger, now: float) -> str:
    """Return the nonce for the next proof."""
    return _nonces(ledger, now).current()


def _nonces(ledger: Ledger, now: float) -> Nonces:
    record = ledger.get("secret", "nonces")
    if record is None:
        record = {"key": secrets.token_hex(32)}
        ledger.put("secret", "nonces", record, until=_NEVER_EXPIRES)
    return Nonces(rotate=_ROTATION_SECONDS, clock=lambda: now, key=bytes.fromhex(record["key"]))


def _is_new(ledger: Ledger, name: str, until: float) -> bool:
    key, digest = name.partition(":")[0], digest_of(name)
    if ledger.get("proof", digest) is not None:
        return False
    # When full, new proofs are refused: an evicted one could be used again.
    if ledger.count("proof", key) >= _MAX_PROOFS_PER_KEY or ledger.count("proof") >= _MAX_PROOFS:
        raise too_often(60)
    ledger.put("proof", digest, {}, until=until, group=key)
    return True
