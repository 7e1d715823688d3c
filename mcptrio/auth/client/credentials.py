"""What a client was granted, and where: kept in a token store under names that say whose it is.

Used by :mod:`mcptrio.auth.client.oauth`, and by commands that list and forget.
The one rule: what belongs to an authorization server is found only by its issuer, and tokens only by issuer and
resource together. A server that names another issuer finds nothing.

Everything in a store is one person's. A program that acts for several gives each a store, or names of their own in one.

Source: MCP 2026-07-28, basic/authorization/client-registration, "Authorization Server Binding".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Final

from attrs import field, frozen

from mcptrio.abc import TokenStore
from mcptrio.auth.client.registration import Registered
from mcptrio.auth.dpop import DPoPSigner
from mcptrio.auth.jose import BadKey, Key
from mcptrio.auth.token_requests import Tokens

__all__ = ["Binding", "Credentials", "Granted"]

_SERVER: Final = "server "
_CLIENT: Final = "client "
_TOKENS: Final = "tokens "


@frozen(kw_only=True)
class Binding:
    """Where a server's tokens came from the last time.

    Args:
        resource: as it was published then.
        metadata_url: what a challenge said about where the server's metadata is.
    """

    issuer: str
    resource: str
    metadata_url: str | None = None


@frozen(kw_only=True)
class Granted:
    """Tokens, and what goes with them.

    Args:
        asked: for which scopes; ``None`` where the server chose them.
        client: the registration they were granted to, which alone may use the refresh token (RFC 6749 section 6);
            ``None`` for a client whose id does not change: registered by hand, or with a metadata document.
        prover: has the key they are bound to.
        obtained_at: seconds since 1970.
        is_from_grant: whether a grant gave them, and not only a refresh token.
    """

    issuer: str
    resource: str
    tokens: Tokens
    asked: tuple[str, ...] | None
    obtained_at: float
    is_from_grant: bool
    client: Registered | None = None
    prover: DPoPSigner | None = field(default=None, repr=False)

    @property
    def scopes(self) -> tuple[str, ...]:
        """What the tokens are good for, as far as is known."""
        return (self.asked or ()) if self.tokens.scopes is None else self.tokens.scopes

    def write(self) -> dict[str, Any]:
        return {
            **self.tokens.write(),
            "asked": None if self.asked is None else list(self.asked),
            "obtained_at": self.obtained_at,
            "is_from_grant": self.is_from_grant,
            "client": None if self.client is None else self.client.write(),
            "key": None if self.prover is None else self.prover.key.private(),
        }

    @classmethod
    def read(cls, binding: Binding, value: Mapping[str, Any]) -> Granted:
        """What :meth:`write` wrote.

        Raises:
            KeyError, TypeError, BadKey: it did not.
        """
        asked, key, client = value["asked"], value["key"], value["client"]
        return cls(
            issuer=binding.issuer,
            resource=binding.resource,
            tokens=Tokens.read(value),
            asked=None if asked is None else tuple(asked),
            obtained_at=value["obtained_at"],
            is_from_grant=value["is_from_grant"],
            client=None if client is None else Registered.read(client),
            prover=None if key is None else DPoPSigner(Key.from_jwk(key)),
        )


class Credentials:
    """
    Args:
        store: ``None`` to keep them only as long as this object.
    """

    def __init__(self, store: TokenStore | None) -> None:
        self._store = store or _Passing()

    async def binding(self, url: str) -> Binding | None:
        """Where a server's tokens came from.

        Args:
            url: of the server, canonical.
        """
        value = await self._store.load(f"{_SERVER}{url}")
        try:
            return None if value is None else Binding(**value)
        except TypeError:
            return None

    async def granted(self, binding: Binding) -> Granted | None:
        value = await self._store.load(_tokens(binding))
        try:
            return None if value is None else Granted.read(binding, value)
        except (KeyError, TypeError, BadKey):
            return None  # written by another version of this; the person is asked again

    async def keep(self, url: str, binding: Binding, granted: Granted) -> None:
        await self._store.save(_tokens(binding), granted.write())
        await self._store.save(
            f"{_SERVER}{url}",
            {"issuer": binding.issuer, "resource": binding.resource, "metadata_url": binding.metadata_url},
        )

    async def forget_tokens(self, binding: Binding) -> None:
        await self._store.delete(_tokens(binding))

    async def forget(self, url: str) -> bool:
        """Forget a server and its tokens; whether there was something. Others may still use our registration."""
        binding = await self.binding(url)
        found = binding is not None and await self._store.delete(_tokens(binding))
        return await self._store.delete(f"{_SERVER}{url}") or found

    async def client(self, issuer: str) -> Registered | None:
        """What an authorization server knows us as."""
        value = await self._store.load(f"{_CLIENT}{issuer}")
        try:
            return None if value is None else Registered.read(value)
        except (KeyError, TypeError):
            return None

    async def keep_client(self, issuer: str, registered: Registered) -> None:
        await self._store.save(f"{_CLIENT}{issuer}", registered.write())

    async def forget_client(self, issuer: str, client_id: str) -> None:
        """Forget a registration, unless another one has taken its place."""
        known = await self.client(issuer)
        if known is not None and known.identity.client_id == client_id:
            await self._store.delete(f"{_CLIENT}{issuer}")

    def lock(self, url: str) -> AbstractAsyncContextManager[None]:
        """Hold the right to renew what was granted for a server, against every process that uses the store."""
        return self._store.lock(f"{_SERVER}{url}")

    async def servers(self) -> list[str]:
        """The URLs of all servers there is something about, sorted."""
        return sorted(key.removeprefix(_SERVER) for key in await self._store.keys() if key.startswith(_SERVER))


def _tokens(binding: Binding) -> str:
    # A blank is in neither of them: both are checked as URLs before they get here.
    return f"{_TOKENS}{binding.issuer} {binding.resource}"


class _Passing:
    """A store that ends with its owner, who has a lock for each server already."""

    def __init__(self) -> None:
        self._values: dict[str, Mapping[str, Any]] = {}

    async def load(self, key: str) -> Mapping[str, Any] | None:
        return self._values.get(key)

    async def save(self, key: str, value: Mapping[str, Any]) -> None:
        self._values[key] = value

    async def delete(self, key: str) -> bool:
        return self._values.pop(key, None) is not None

    async def keys(self) -> Sequence[str]:
        return tuple(self._values)

    def lock(self, key: str) -> AbstractAsyncContextManager[None]:
        return nullcontext()
