"""Calls the operations of one API, within its limits of rate and concurrency.

The plugin owns one caller for each API, and the tools use it. One deadline covers the whole call: waiting, obtaining a
token, redirects, retries and the download. When the call is cancelled, the connection is closed.

Source: RFC 9110, 9.2.2 and 15.4; RFC 6585, 4; RFC 6750, 3.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

import trio
from attrs import evolve, frozen

from mcptrio import Context
from mcptrio.errors import ToolError
from mcptrio.types import CallToolResult

from .config import Api
from .connections import APIUnreachable, Connections, user_agent
from .credentials import APICredentials, RequestCredentials
from .operations import Operation
from .rate_limiter import RateLimiter
from .redirects import MAX_REDIRECTS, RedirectRefused, is_redirect, next_url
from .requests import Draft, draft_request
from .response_stream import ACCEPTED_CODINGS, ResponseStream
from .results import APIResponse, result_of

__all__ = ["OperationCaller"]

_RETRIED_STATUSES = frozenset({429, 502, 503, 504})
_MAX_ERROR_BYTES = 64 * 1024
_MAX_TOKEN_BYTES = 64 * 1024
_FIRST_PAUSE_SECONDS = 0.25
"""Seconds before the first retry if the API names no time. Each further pause is twice as long."""
_MIN_REPORTED_BYTES = 64 * 1024
"""Number of received bytes from which on progress is reported."""


@frozen
class _Retry:
    """A failed attempt: its response or error, and the seconds to wait before the next attempt."""

    response: APIResponse | None
    seconds: float
    error: ToolError | None = None


class OperationCaller:
    """Sends the requests of one API.

    Args:
        name: The name of the API in the configuration.
    """

    def __init__(self, name: str, api: Api) -> None:
        self._name = name
        self._api = api
        self._connections = Connections(
            max_connections=api.concurrency, connect_timeout=api.connect_timeout, proxy=api.proxy, ca_file=api.ca_file
        )
        self._credentials = APICredentials(api, self._post_form)
        self._limiter = trio.CapacityLimiter(api.concurrency)
        self._rate_limiter = RateLimiter(api.rate, api.burst)

    async def call(self, ctx: Context, operation: Operation, arguments: Mapping[str, Any]) -> CallToolResult:
        """Call an operation.

        Raises:
            ToolError: The arguments are invalid, the response is an error, or it did not arrive in time.
        """
        draft = draft_request(operation, arguments, self._api.max_request_bytes)
        deadline = trio.current_time() + self._api.timeout
        response: APIResponse | None = None
        with trio.move_on_at(deadline):
            try:
                response = await self._call_with_retries(ctx, operation, draft, deadline)
            except RedirectRefused as error:
                raise ToolError(f"{operation.label}: {error}") from error
            except ToolError as error:
                raise ToolError(f"{operation.label}: {self._credentials.redact(str(error))}") from error
        if response is None:
            raise ToolError(f"{operation.label}: no complete response within {self._api.timeout:g} s (timeout)")
        return result_of(operation, response, self._credentials.redact)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._connections.aclose()

    async def _call_with_retries(
        self, ctx: Context, operation: Operation, draft: Draft, deadline: float
    ) -> APIResponse:
        retries = self._api.retries if operation.is_idempotent else 0
        may_renew = True
        for attempt in range(retries + 2):
            async with self._limiter:
                await self._rate_limiter.wait(deadline)
                credentials = await self._credentials.for_request(operation.schemes)
                outcome = await self._attempt(ctx, operation, draft, credentials, _FIRST_PAUSE_SECONDS * 2**attempt)
            if isinstance(outcome, APIResponse):
                if (
                    outcome.status == 401
                    and may_renew
                    and self._credentials.drop_refused_tokens(operation.schemes, credentials)
                ):
                    # The API has refused the token, so it has not run the operation. Try once more with a new token.
                    may_renew = False
                    continue
                return outcome
            if retries == 0 or trio.current_time() + outcome.seconds >= deadline:
                return _last_response(outcome)
            retries -= 1
            await trio.sleep(outcome.seconds)
        raise AssertionError("one attempt more than retries and renewals ends otherwise")

    async def _attempt(
        self, ctx: Context, operation: Operation, draft: Draft, credentials: RequestCredentials, seconds: float
    ) -> APIResponse | _Retry:
        try:
            response = await self._exchange(ctx, operation, draft, credentials)
        except APIUnreachable as error:
            return _Retry(None, seconds, error)
        if response.status not in _RETRIED_STATUSES:
            return response
        retry_after = response.header("retry-after") or ""
        if retry_after.isascii() and retry_after.isdigit():
            seconds = float(retry_after[:6])
        return _Retry(response, seconds)

    async def _exchange(
        self, ctx: Context, operation: Operation, draft: Draft, credentials: RequestCredentials
    ) -> APIResponse:
        """Send a request, follow redirects, and read the response."""
        url, is_same_origin = _with_query(draft.url, draft.query, credentials), True
        for _ in range(MAX_REDIRECTS + 1):
            headers = self._headers(operation, draft, credentials) if is_same_origin else self._plain_headers(operation)
            async with self._connections.send(
                draft.method, url, headers, content=draft.content, parts=draft.parts
            ) as stream:
                location = stream.header("location")
                if location is None or not is_redirect(stream.status, location):
                    return await self._read(ctx, stream, url.partition("?")[0])
                draft = _redirect(draft, stream.status)
                allowed_origins = self._api.redirect_origins if draft.method in ("GET", "HEAD") else ()
                url, is_same = next_url(url, location, allowed_origins)
                # After a redirect to another origin, no further request carries credentials: that origin could redirect
                # back to this API, and so choose a request that is sent with them.
                is_same_origin = is_same_origin and is_same
                if is_same_origin:
                    url = _with_api_keys(url, credentials)
        raise RedirectRefused(f"redirected more than {MAX_REDIRECTS} times")

    async def _read(self, ctx: Context, stream: ResponseStream, url: str) -> APIResponse:
        max_bytes = self._api.max_response_bytes if stream.status < 400 else _MAX_ERROR_BYTES
        body = bytearray()
        while len(body) <= max_bytes and (piece := await stream.receive()) is not None:
            body += piece
            if len(body) >= _MIN_REPORTED_BYTES:
                await ctx.report_progress(len(body), stream.length, f"{len(body)} bytes received")
        return APIResponse(
            status=stream.status,
            headers=stream.headers,
            body=bytes(body[:max_bytes]),
            is_cut=len(body) > max_bytes,
            url=url,
        )

    def _headers(self, operation: Operation, draft: Draft, credentials: RequestCredentials) -> list[tuple[str, str]]:
        cookies = [
            *draft.cookies,
            *(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in credentials.cookies),
        ]
        credential_names = {name.lower() for name, _ in credentials.headers}
        headers = [
            (name, value) for name, value in self._plain_headers(operation) if name.lower() not in credential_names
        ]
        headers += [(name, value) for name, value in draft.headers if name.lower() not in credential_names]
        headers += credentials.headers
        return [*headers, ("Cookie", "; ".join(cookies))] if cookies else headers

    def _plain_headers(self, operation: Operation) -> list[tuple[str, str]]:
        return [
            ("Accept", operation.accept),
            ("Accept-Encoding", ACCEPTED_CODINGS),
            ("User-Agent", user_agent()),
        ]

    async def _post_form(self, url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> tuple[int, bytes]:
        sent = [
            ("Content-Type", "application/x-www-form-urlencoded"),
            ("User-Agent", user_agent()),
            *headers.items(),
        ]
        # Separate connections, because a slow token endpoint must not use up the connections of the API.
        connections = Connections(
            max_connections=1,
            connect_timeout=self._api.connect_timeout,
            proxy=self._api.proxy,
            ca_file=self._api.ca_file,
        )
        try:
            async with connections.send("POST", url, sent, content=urlencode(form).encode()) as stream:
                body = bytearray()
                while (piece := await stream.receive()) is not None:
                    body += piece
                    if len(body) > _MAX_TOKEN_BYTES:
                        raise ToolError(f"the token endpoint answered with more than {_MAX_TOKEN_BYTES} bytes")
                return stream.status, bytes(body)
        finally:
            await connections.aclose()


def _last_response(outcome: _Retry) -> APIResponse:
    if outcome.response is not None:
        return outcome.response
    assert outcome.error is not None
    raise outcome.error


def _with_query(url: str, query: tuple[str, ...], credentials: RequestCredentials) -> str:
    pairs = [*query, *(_pair(name, value) for name, value in credentials.query)]
    return f"{url}?{'&'.join(pairs)}" if pairs else url


def _with_api_keys(url: str, credentials: RequestCredentials) -> str:
    """Return the target of a redirect, with the API keys added to its query if they are missing."""
    base, _, query = url.partition("?")
    pairs = [pair for pair in query.split("&") if pair]
    names = {pair.partition("=")[0] for pair in pairs}
    pairs += [_pair(name, value) for name, value in credentials.query if quote(name, safe="") not in names]
    return f"{base}?{'&'.join(pairs)}" if pairs else base


def _pair(name: str, value: str) -> str:
    return f"{quote(name, safe='')}={quote(value, safe='')}"


def _redirect(draft: Draft, status: int) -> Draft:
    """Return the request after a redirect.

    Raises:
        RedirectRefused: The status does not define the method of the next request.
    """
    if draft.method in ("GET", "HEAD") or status in (307, 308):
        return draft
    if status == 303:
        headers = tuple((name, value) for name, value in draft.headers if name.lower() != "content-type")
        return evolve(draft, method="GET", headers=headers, content=None, parts=None)
    raise RedirectRefused(f"{status} for {draft.method}: the API is somewhere else; correct base_url or the document")
