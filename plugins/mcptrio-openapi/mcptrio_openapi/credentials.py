"""Adds the credentials of an API to its requests, and removes them from texts for people and models.

The ``OperationCaller`` of each API owns one :class:`APICredentials`. A secret is sent only to the origin of the base
URL, or to the token endpoint that the operator has configured.

Source: RFC 6749, 2.3.1, 4.4, 5.1 and 5.2; RFC 6750, 2.1; RFC 7617.
"""

from __future__ import annotations

import base64
import json
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias
from urllib.parse import quote, quote_plus

import orjson
import trio
from attrs import frozen

from mcptrio import Secret
from mcptrio.errors import ToolError

from .config import Api, Credential
from .security import Scheme

__all__ = ["APICredentials", "PostForm", "RequestCredentials"]

PostForm: TypeAlias = Callable[[str, Mapping[str, str], Mapping[str, str]], Awaitable[tuple[int, bytes]]]
"""A function that sends a form with headers to a URL. It returns the status and the body, and follows no redirects."""

_EXPIRY_MARGIN_SECONDS = 30.0
"""Seconds before the expiry of a token at which it is renewed."""
_DEFAULT_LIFETIME_SECONDS = 300.0
"""The lifetime of a token if the token response has no ``expires_in``."""
_MIN_SECRET_CHARS = 4
"""Shorter secrets are not removed from texts, because they occur in ordinary words."""
_REDACTED = "[secret]"
_MAX_RECENT_TOKENS = 60
"""Maximum number of spellings of recent tokens that are removed from texts."""


@frozen(kw_only=True)
class RequestCredentials:
    """The headers, query parameters and cookies that carry the credentials of one request."""

    headers: tuple[tuple[str, str], ...] = ()
    query: tuple[tuple[str, str], ...] = ()
    cookies: tuple[tuple[str, str], ...] = ()


@frozen
class _Token:
    text: str
    expires_at: float


class APICredentials:
    """The credentials of one API, and the access tokens that were obtained with them.

    Args:
        post_form: Sends a token request.
    """

    def __init__(self, api: Api, post_form: PostForm) -> None:
        self._api = api
        self._post_form = post_form
        self._tokens: dict[Scheme, _Token] = {}
        self._locks: dict[Scheme, trio.Lock] = {}
        secrets: set[str] = set()
        for header in (*api.headers.values(), *api.url_headers.values()):
            text = header.reveal()
            secrets |= {*_spellings(text), *_spellings(text.rpartition(" ")[2])}
        for credential in api.auth.values():
            for secret in (credential.token, credential.password, credential.client_secret):
                secrets |= _spellings(_text(secret))
            if credential.username is not None:
                secrets |= _spellings(_basic(credential.username, _text(credential.password)))
            if credential.client_id is not None:
                secrets |= _spellings(_client(credential))
        # The longest first, because a secret may be a part of another one.
        self._secrets = sorted(secrets, key=lambda text: (-len(text), text))
        self._recent_tokens: deque[str] = deque(maxlen=_MAX_RECENT_TOKENS)
        """Includes expired tokens, because a late response may repeat one."""

    async def for_request(self, schemes: tuple[Scheme, ...]) -> RequestCredentials:
        """Return the credentials for a request. Obtains a token first if there is none or it has expired.

        Raises:
            ToolError: The token endpoint did not issue a token.
        """
        headers = [(name, value.reveal()) for name, value in self._api.headers.items()]
        query: list[tuple[str, str]] = []
        cookies: list[tuple[str, str]] = []
        for scheme in schemes:
            credential = self._api.auth[scheme.key]
            if scheme.kind == "client":
                headers.append(("Authorization", f"Bearer {await self._token(scheme, credential)}"))
            elif scheme.kind == "bearer":
                headers.append(("Authorization", f"Bearer {_text(credential.token)}"))
            elif scheme.kind == "basic":
                basic = _basic(credential.username or "", _text(credential.password))
                headers.append(("Authorization", f"Basic {basic}"))
            else:
                location = {"header": headers, "query": query, "cookie": cookies}[scheme.kind]
                location.append((scheme.name, _text(credential.token)))
        return RequestCredentials(headers=tuple(headers), query=tuple(query), cookies=tuple(cookies))

    def drop_refused_tokens(self, schemes: tuple[Scheme, ...], credentials: RequestCredentials) -> bool:
        """Drop the tokens of a request that the API has refused. Returns True if it carried any."""
        refused = {value for _, value in credentials.headers}
        dropped = False
        for scheme in schemes:
            token = self._tokens.get(scheme)
            if token is not None and f"Bearer {token.text}" in refused:
                del self._tokens[scheme]
                dropped = True
        return dropped

    def redact(self, text: str) -> str:
        """Return a text with all secrets replaced, because an API may repeat them in its response."""
        for secret in (*self._recent_tokens, *self._secrets):
            if secret in text:
                text = text.replace(secret, _REDACTED)
        return text

    async def _token(self, scheme: Scheme, credential: Credential) -> str:
        async with self._locks.setdefault(scheme, trio.Lock()):
            token = self._tokens.get(scheme)
            if token is None or token.expires_at <= trio.current_time():
                token = self._tokens[scheme] = await self._request_token(scheme, credential)
            return token.text

    async def _request_token(self, scheme: Scheme, credential: Credential) -> _Token:
        form = {"grant_type": "client_credentials", **credential.token_parameters}
        if credential.scopes:
            form["scope"] = " ".join(credential.scopes)
        headers = {"Accept": "application/json"}
        if credential.client_authentication == "basic":
            headers["Authorization"] = f"Basic {_client(credential)}"
        else:
            form |= {"client_id": credential.client_id or "", "client_secret": _text(credential.client_secret)}
        status, body = await self._post_form(scheme.token_url, form, headers)
        try:
            answer = orjson.loads(body)
        except orjson.JSONDecodeError:
            answer = None
        fields = answer if isinstance(answer, dict) else {}
        if status != 200:
            reason = fields.get("error")
            reason_text = f": {self.redact(reason)[:100]}" if isinstance(reason, str) else ""
            raise ToolError(f"the token endpoint refused the credentials of {scheme.key}: {status}{reason_text}")
        text, kind = fields.get("access_token"), fields.get("token_type", "bearer")
        if not isinstance(text, str) or not text.isascii() or not text.isprintable() or not text:
            raise ToolError(f"expected an access token for {scheme.key} from the token endpoint, got none")
        if not isinstance(kind, str) or kind.lower() != "bearer":
            raise ToolError(f"expected a bearer token for {scheme.key} from the token endpoint, got another kind")
        lifetime = fields.get("expires_in")
        if isinstance(lifetime, str) and lifetime.isascii() and lifetime.isdigit():
            lifetime = int(lifetime[:9])
        if isinstance(lifetime, bool) or not isinstance(lifetime, int | float):
            lifetime = _DEFAULT_LIFETIME_SECONDS
        self._recent_tokens.extend(_spellings(text))
        margin = min(_EXPIRY_MARGIN_SECONDS, lifetime / 2)
        return _Token(text, trio.current_time() + max(lifetime - margin, 0))


def _text(secret: Secret | None) -> str:
    return secret.reveal() if secret is not None else ""


def _basic(username: str, password: str) -> str:
    return base64.b64encode(f"{username}:{password}".encode()).decode()


def _client(credential: Credential) -> str:
    """Return client id and secret for HTTP Basic, each form-encoded before they are joined (RFC 6749, 2.3.1)."""
    return _basic(quote_plus(credential.client_id or ""), quote_plus(_text(credential.client_secret)))


def _spellings(secret: str) -> set[str]:
    """Return the spellings of a secret in a text: plain, in a URL, in a form, and in JSON."""
    if len(secret) < _MIN_SECRET_CHARS:
        return set()
    return {secret, quote(secret, safe=""), quote(secret), quote_plus(secret), json.dumps(secret)[1:-1]}
