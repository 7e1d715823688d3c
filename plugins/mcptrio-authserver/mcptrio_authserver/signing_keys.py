"""The keys that tokens are signed with: made, published, used, retired.

The one rule: a key is published before it signs, and for as long as a token of it may be good; so nobody meets a token
whose key they cannot find.

Source: RFC 7517; RFC 9068 section 5; RFC 8414 section 2, "jwks_uri".
"""

from __future__ import annotations

from typing import Final

from attrs import frozen

from mcptrio.auth.jose import Key, KeySet

from .config import Config
from .ledger import Ledger

__all__ = ["SigningKeys", "delete_signing_keys", "signing_keys"]

_NOTICE: Final = 3600.0
"""Seconds for which a key is published before it signs."""
_AFTER: Final = 3600.0
"""Seconds for which it is published after the last token of it has expired; clocks differ."""


@frozen(kw_only=True)
class SigningKeys:
    """
    Args:
        signing: private.
        published: public ones, that of ``signing`` among them.
    """

    signing: Key
    published: KeySet


def signing_keys(ledger: Ledger, config: Config, now: float) -> SigningKeys:
    """The keys of this moment; the next one is made when it is time."""
    records = list(ledger.list("key"))
    notice = min(_NOTICE, config.key_lifetime / 4)
    if not records or now >= records[-1]["begins"] + config.key_lifetime - notice:
        # The very first has nobody who could have been told before.
        begins = max(now + notice, records[-1]["begins"] + config.key_lifetime) if records else now
        key = Key.generate("ES256")
        record = {"jwk": key.private(), "begins": begins}
        until = begins + 2 * config.key_lifetime + config.access_lifetime + _AFTER
        ledger.put("key", str(key.id), record, until=until)
        records.append(record)
    begun = [record for record in records if record["begins"] <= now] or records[:1]
    keys = [Key.from_jwk(record["jwk"]) for record in records]
    signing = Key.from_jwk(begun[-1]["jwk"])
    return SigningKeys(signing=signing, published=KeySet(tuple(Key.from_jwk(key.public) for key in keys)))


def delete_signing_keys(ledger: Ledger) -> int:
    """Delete all keys, the number of which is returned; the next token is signed with a new one.

    No key is published ahead then, but a leaked one must not sign for another hour. A resource server that meets a
    token of an unknown key fetches the keys again.
    """
    return ledger.delete_group("key", None)
