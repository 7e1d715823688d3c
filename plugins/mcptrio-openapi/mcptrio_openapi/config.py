"""The settings of the operator: ``[plugins.openapi]``, with one table for each API.

mcptrio creates a Config when it loads the plugin; embedding programs create it directly. The operator's values are
trusted: a base URL may have a private address, and a token URL another origin. The values of documents are not trusted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from attrs import Attribute, field, frozen
from attrs.validators import ge, gt, le, optional

from mcptrio import Secret

from .origins import check_base_url, check_document_url, origin_of

__all__ = ["METHODS", "SAFE_METHODS", "Api", "Config", "Credential"]

METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
"""The methods that can become tools. TRACE is excluded, because its response repeats the credentials."""
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing (RFC 9110, 9.2.1)."""

_MIB = 1024 * 1024
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,22}[A-Za-z0-9])?")
_HEADER = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")


def _has_controls(text: str) -> bool:
    return any(ord(character) < 32 or ord(character) == 127 for character in text)


def _known_methods(_: object, attribute: Attribute[Any], value: tuple[str, ...]) -> None:
    for method in value:
        if method.upper() not in METHODS:
            raise ValueError(f"{attribute.name}: expected some of {', '.join(METHODS)}, got {method!r}")


def _header_fields(_: object, attribute: Attribute[Any], value: Mapping[str, Secret]) -> None:
    for name, text in value.items():
        if not _HEADER.fullmatch(name):
            raise ValueError(f"{attribute.name}: expected the name of a header, got {name!r}")
        if _has_controls(text.reveal()):
            raise ValueError(f"{attribute.name}.{name}: expected a value without control characters")


@frozen(kw_only=True)
class Credential:
    """The credentials for one security scheme of a document."""

    token: Secret | None = None
    """The API key, or the bearer token."""

    username: str | None = None
    """The user name for HTTP basic authentication."""

    password: Secret | None = None
    """The password for HTTP basic authentication."""

    client_id: str | None = None
    """The client id for OAuth2 client credentials."""

    client_secret: Secret | None = None
    """The client secret for OAuth2 client credentials."""

    client_authentication: Literal["basic", "post"] = "basic"
    """How the client secret is sent to the token endpoint: in the Authorization header, or in the form."""

    token_url: str | None = None
    """The token endpoint. The one in the document is used only if it has the origin of the API."""

    scopes: tuple[str, ...] = ()
    """The scopes to request. The scopes of the operation's security requirement are not added."""

    token_parameters: Mapping[str, str] = field(factory=dict)
    """Further fields of the token request, such as ``audience``."""

    def __attrs_post_init__(self) -> None:
        kinds = {
            "token": self.token is not None,
            "username and password": self.username is not None or self.password is not None,
            "client_id and client_secret": self.client_id is not None or self.client_secret is not None,
        }
        given_kinds = [kind for kind, is_given in kinds.items() if is_given]
        if len(given_kinds) != 1:
            raise ValueError(f"expected one of {', '.join(kinds)}, got {' and '.join(given_kinds) or 'none of them'}")
        if self.username is not None and (":" in self.username or _has_controls(self.username)):
            raise ValueError("expected a username without colons and control characters (RFC 7617)")
        if (self.username is None) != (self.password is None):
            raise ValueError("expected a username and a password, got one of them")
        if (self.client_id is None) != (self.client_secret is None):
            raise ValueError("expected a client_id and a client_secret, got one of them")
        if self.token_url is not None:
            check_document_url(self.token_url, "token_url")
        for secret in (self.token, self.password, self.client_secret):
            if secret is not None and _has_controls(secret.reveal()):
                raise ValueError("expected secrets without control characters; is there a line end in the file?")


@frozen(kw_only=True)
class Api:
    """One API: its document, its URL, its credentials, and the operations that become tools."""

    file: Path | None = None
    """The document in JSON or YAML. Either ``file`` or ``url`` is required."""

    url: str | None = None
    """The URL of the document, which is fetched when the server starts: https, or http on this machine."""

    url_headers: Mapping[str, Secret] = field(factory=dict, validator=_header_fields)
    """Headers for fetching the document. They are sent only to the origin of ``url``."""

    base_url: str | None = None
    """The URL of the API, instead of the document's ``servers``. A private address and plain http are allowed."""

    auth: Mapping[str, Credential] = field(factory=dict)
    """Credentials by the name of the document's security scheme."""

    headers: Mapping[str, Secret] = field(factory=dict, validator=_header_fields)
    """Headers of every request, for example for documents that declare no security schemes."""

    anonymous: bool = False
    """Also offer operations whose security schemes have no credentials here."""

    methods: tuple[str, ...] = field(default=("GET", "HEAD"), validator=_known_methods)
    """The methods whose operations become tools."""

    tags: tuple[str, ...] = ()
    """Offer only operations with one of these tags."""

    operations: tuple[str, ...] = ()
    """Offer only operations whose operationId matches one of these globs."""

    paths: tuple[str, ...] = ()
    """Offer only operations whose path template matches one of these globs, such as ``/pets/*``."""

    exclude: tuple[str, ...] = ()
    """Do not offer operations whose operationId or path template matches one of these globs."""

    mode: Literal["auto", "search"] = "auto"
    """``search`` always offers two tools, one that finds operations and one that calls them. ``auto`` does so only for
    more than ``max_tools`` operations."""

    max_tools: int = field(default=100, validator=[ge(1), le(2000)])
    """Maximum number of operations that become a tool each, 1 to 2000. If there are more, two tools find and call
    them."""

    timeout: float = field(default=30.0, validator=[gt(0), le(3600)])
    """Seconds for one call, including waiting for the rate limit, redirects, retries and the download. Up to 3600."""

    connect_timeout: float = field(default=10.0, validator=[gt(0), le(3600)])
    """Seconds for opening a connection, up to 3600."""

    concurrency: int = field(default=4, validator=[ge(1), le(100)])
    """Maximum number of concurrent requests to this API, 1 to 100; further ones wait."""

    rate: float | None = field(default=None, validator=optional([gt(0), le(10_000)]))
    """Maximum number of requests to this API per second, up to 10000; further ones wait. Unset: no limit."""

    burst: int = field(default=1, validator=[ge(1), le(10_000)])
    """Number of requests that may be sent at once before ``rate`` delays further ones, 1 to 10000."""

    retries: int = field(default=0, validator=[ge(0), le(5)])
    """Maximum number of retries of a GET, HEAD, OPTIONS, PUT or DELETE after a failed connection or status 429, 502,
    503 or 504, 0 to 5."""

    max_response_bytes: int = field(default=_MIB, validator=[ge(1024), le(256 * _MIB)])
    """Maximum size of a response after decompression, 1 KiB to 256 MiB."""

    max_request_bytes: int = field(default=10 * _MIB, validator=[ge(1024), le(256 * _MIB)])
    """Maximum size of a request body, 1 KiB to 256 MiB."""

    redirect_origins: tuple[str, ...] = ()
    """Other origins, such as ``https://files.example.com``, to which a GET may be redirected. The redirected request
    has neither credentials nor the call's headers."""

    proxy: Secret | None = None
    """The URL of an HTTP proxy. Proxies in the environment are not used."""

    ca_file: Path | None = None
    """A PEM file with the certificates to trust instead of the system's."""

    def __attrs_post_init__(self) -> None:
        if (self.file is None) == (self.url is None):
            raise ValueError(f"expected one of file and url, got {'none' if self.file is None else 'both'}")
        if self.url is not None:
            check_document_url(self.url, "url")
        if self.base_url is not None:
            check_base_url(self.base_url, "base_url")
        if self.proxy is not None and not self.proxy.reveal().startswith(("http://", "https://")):
            raise ValueError("proxy: expected an http or https URL, got another scheme or none")
        for origin in self.redirect_origins:
            check_base_url(origin, "redirect_origins")
            if origin_of(origin) != origin.rstrip("/"):
                raise ValueError(f"redirect_origins: expected an origin such as https://example.com, got {origin!r}")


@frozen(kw_only=True)
class Config:
    """The settings of the plugin."""

    apis: Mapping[str, Api] = field(factory=dict)
    """The APIs by name. A name has 1 to 24 characters of ``A-Za-z0-9-`` and begins the names of the API's tools."""

    max_document_bytes: int = field(default=32 * _MIB, validator=[ge(1024), le(1024 * _MIB)])
    """Maximum size of a document, 1 KiB to 1 GiB."""

    document_timeout: float = field(default=30.0, validator=[gt(0), le(600)])
    """Seconds for fetching one document, up to 600. The server starts after each document was fetched or has failed."""

    max_schema_bytes: int = field(default=64 * 1024, validator=[ge(1024), le(256 * 1024)])
    """Maximum size of a tool's schema as JSON, 1 to 256 KiB. An operation with a larger input schema is left out; a
    larger output schema is omitted."""

    max_description: int = field(default=1000, validator=[ge(80), le(20_000)])
    """Maximum length of a tool's description, 80 to 20000; longer ones are cut. A parameter's has a third of it."""

    def __attrs_post_init__(self) -> None:
        for name in self.apis:
            # An underscore ends the API's name in the name of a tool, so two APIs cannot have the same tool names.
            if not _NAME.fullmatch(name):
                raise ValueError(f"apis: expected names of 1 to 24 characters A-Za-z0-9-, got {name!r}")
