"""Granted tokens and client registrations in a token store.

:mod:`mcptrio.auth.client.oauth` and the commands that list or delete logins use them. Registrations are stored by
issuer, tokens by issuer and resource, so a server that names another issuer finds none. One store holds the data of one
user: a program that acts for several users needs a store, or distinct keys, for each.

Source: MCP 2026-07-28, basic/authorization/client-registration, "Authorization Server Binding".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import Any, Final, TypeVar

from attrs import asdict, field, frozen

from mcptrio.abc import TokenStore
from mcptrio.auth.client.registration import Registered
from mcptrio.auth.dpop import DPoPSigner
from mcptrio.auth.jose import BadKey, Key
from mcptrio.auth.token_requests import Tokens

__all__ = ["Binding", "Credentials", "Granted"]

T = TypeVar("T")

_SERVER: Final = "server "
_CLIENT: Final = "client "
_TOKENS: Final = "tokens "


@frozen(kw_only=True)
class Binding:
    """The issuer and the resource of a server's latest tokens.

    Args:
        resource: The resource identifier as published at that time.
        metadata_url: The URL of the server's metadata in the challenge, if any.
    """

    issuer: str
    resource: str
    metadata_url: str | None = None


@frozen(kw_only=True)
class Granted:
    """Tokens and the circumstances of their grant.

    Args:
        requested_scopes: The requested scopes; ``None`` if the server chose them.
        obtained_at: Seconds since 1970.
        is_from_grant: True if a grant issued them, False if they were refreshed.
        client: The registration to which they were granted; only it may use the refresh token (RFC 6749 section 6).
            ``None`` for a client whose id does not change: pre-registered, or with a metadata document.
        prover: The key to which they are bound, if any.
    """

    issuer: str
    resource: str
    tokens: Tokens
    requested_scopes: tuple[str, ...] | None
    obtained_at: float
    is_from_grant: bool
    client: Registered | None = None
    prover: DPoPSigner | None = field(default=None, repr=False)

    @property
    def scopes(self) -> tuple[str, ...]:
        """The granted scopes, as far as known."""
        return (self.requested_scopes or ()) if self.tokens.scopes is None else self.tokens.scopes

    def write(self) -> dict[str, Any]:
        return {
            **self.tokens.write(),
            "asked": None if self.requested_scopes is None else list(self.requested_scopes),
            "obtained_at": self.obtained_at,
            "is_from_grant": self.is_from_grant,
            "client": None if self.client is None else self.client.write(),
            "key": None if self.prover is None else self.prover.key.private(),
        }

    @classmethod
    def read(cls, binding: Binding, value: Mapping[str, Any]) -> Granted:
        """Return the record that :meth:`write` encoded.

        Raises:
            KeyError, TypeError, BadKey: The value is malformed.
        """
        requested, key, client = value["asked"], value["key"], value["client"]
        return cls(
            issuer=binding.issuer,
            resource=binding.resource,
            tokens=Tokens.read(value),
            requested_scopes=None if requested is None else tuple(requested),
            obtained_at=value["obtained_at"],
            is_from_grant=value["is_from_grant"],
            client=None if client is None else Registered.read(client),
            prover=None if key is None else DPoPSigner(Key.from_jwk(key)),
        )


class Credentials:
    """The logins and registrations of one user.

    Args:
        store: The token store; ``None`` keeps them in memory.
    """

    def __init__(self, store: TokenStore | None) -> None:
        self._store = store or _UnlockedMemoryStore()

    async def binding(self, url: str) -> Binding | None:
        """Return the issuer and the resource of a server's tokens, or ``None`` if it has none.

        Args:
            url: The canonical URL of the server.
        """
        return await self._load(f"{_SERVER}{url}", lambda value: Binding(**value))

    async def granted(self, binding: Binding) -> Granted | None:
        return await self._load(_tokens(binding), partial(Granted.read, binding))

    async def keep(self, url: str, binding: Binding, granted: Granted) -> None:
        await self._store.save(_tokens(binding), granted.write())
        await self._store.save(f"{_SERVER}{url}", asdict(binding))

    async def forget_tokens(self, binding: Binding) -> None:
        await self._store.delete(_tokens(binding))

    async def forget(self, url: str) -> bool:
        """Delete the tokens of a server. The registration stays, because other servers may use it.

        Returns:
            True if tokens or a binding existed.
        """
        binding = await self.binding(url)
        had_tokens = binding is not None and await self._store.delete(_tokens(binding))
        return await self._store.delete(f"{_SERVER}{url}") or had_tokens

    async def client(self, issuer: str) -> Registered | None:
        """Return the registration at an authorization server, or ``None``."""
        return await self._load(f"{_CLIENT}{issuer}", Registered.read)

    async def keep_client(self, issuer: str, registered: Registered) -> None:
        await self._store.save(f"{_CLIENT}{issuer}", registered.write())

    async def forget_client(self, issuer: str, client_id: str) -> None:
        """Delete a registration, unless another client id has replaced it."""
        known = await self.client(issuer)
        if known is not None and known.identity.client_id == client_id:
            await self._store.delete(f"{_CLIENT}{issuer}")

    def lock(self, url: str) -> AbstractAsyncContextManager[None]:
        """Return a lock for renewing a server's tokens, which excludes all other processes that use the store."""
        return self._store.lock(f"{_SERVER}{url}")

    async def servers(self) -> list[str]:
        """Return the sorted URLs of all servers with stored tokens."""
        return sorted(key.removeprefix(_SERVER) for key in await self._store.keys() if key.startswith(_SERVER))

    async def _load(self, key: str, read: Callable[[Mapping[str, Any]], T]) -> T | None:
        value = await self._store.load(key)
        try:
            return None if value is None else read(value)
        except (KeyError, TypeError, BadKey):
            # The record comes from another version; the user logs in again.
            return None


def _tokens(binding: Binding) -> str:
    # Neither part contains a space: both were checked as URLs.
    return f"{_TOKENS}{binding.issuer} {binding.resource}"


class _UnlockedMemoryStore:
    """A store in memory. Its owner already has a lock per server."""

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
