"""The keys that sign access tokens: generation, publication and rotation.

A key is published before it signs, and until its last token has expired.

Source: RFC 7517; RFC 9068 section 5; RFC 8414 section 2, "jwks_uri".
"""

from __future__ import annotations

from typing import Final

from attrs import frozen

from mcptrio.auth.jose import Key, KeySet

from .config import Config
from .ledger import Ledger

__all__ = ["SigningKeys", "delete_signing_keys", "signing_keys"]

# Seconds between publication and first use: resource servers with cached keys then have the key in time.
_NOTICE_SECONDS: Final = 3600.0
# Seconds of publication after its last token has expired, for clock differences.
_GRACE_SECONDS: Final = 3600.0


@frozen(kw_only=True)
class SigningKeys:
    """The current keys.

    Args:
        signing: The private key that signs.
        published: All published keys, including that of ``signing``.
    """

    signing: Key
    published: KeySet


def signing_keys(ledger: Ledger, config: Config, now: float) -> SigningKeys:
    """Return the current keys; generates the next one when it is due."""
    records = list(ledger.list("key"))
    notice = min(_NOTICE_SECONDS, config.key_lifetime / 4)
    if not records or now >= records[-1]["begins"] + config.key_lifetime - notice:
        # The first key cannot be announced in advance.
        begins = max(now + notice, records[-1]["begins"] + config.key_lifetime) if records else now
        key = Key.generate("ES256")
        record = {"jwk": key.private(), "begins": begins}
        until = begins + 2 * config.key_lifetime + config.access_lifetime + _GRACE_SECONDS
        ledger.put("key", str(key.id), record, until=until)
        records.append(record)
    active_records = [record for record in records if record["begins"] <= now] or records[:1]
    keys = [Key.from_jwk(record["jwk"]) for record in records]
    signing = Key.from_jwk(active_records[-1]["jwk"])
    return SigningKeys(signing=signing, published=KeySet(tuple(Key.from_jwk(key.public) for key in keys)))


def delete_signing_keys(ledger: Ledger) -> int:
    """Delete all keys and return their number; the next token is signed with a new one."""
    # Without announcement, because a leaked key must not sign for another hour. Resource servers fetch the keys again
    # when they receive a token with an unknown key.
    return ledger.delete_group("key", None)
