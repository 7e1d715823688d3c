"""Selects the operator's credentials for the security requirements of an operation.

They are read with the operation. Credentials are configured by the name of a security scheme, and sent only for that
scheme. If there are several alternatives, the first one that is completely configured is used.

Source: OpenAPI 3.1.1, 4.8.27 "Security Scheme Object", 4.8.30 "Security Requirement Object"; RFC 6750, 2.1; RFC 7617;
RFC 6749, 4.4.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import urljoin

from attrs import frozen

from .config import Api, Credential
from .documents import Document, mapping
from .origins import origin_of
from .problems import DocumentError, join, name_kind

__all__ = ["Scheme", "schemes_of"]

_CONNECTION = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "te", "trailer", "upgrade", "expect"}
)
"""Headers of the connection. As the header of an API key, some of them could split a request in two."""
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")


@frozen(kw_only=True)
class Scheme:
    """A security scheme for which a credential is configured."""

    kind: Literal["header", "query", "cookie", "bearer", "basic", "client"]
    """The kind of credential. ``client`` is a bearer token that is obtained with OAuth2 client credentials."""
    key: str
    """The name of the scheme in the document and in the configuration."""
    name: str = ""
    """The name of the header, the query parameter or the cookie."""
    token_url: str = ""


def schemes_of(
    document: Document, api: Api, base_url: str, operation: Mapping[str, Any], pointer: str
) -> tuple[Scheme, ...]:
    """Return the schemes whose credentials are sent with an operation's requests.

    Raises:
        DocumentError: A required credential is not configured, or the security requirement is invalid.
    """
    holder, where = (operation, pointer) if "security" in operation else (document.root, "#")
    alternatives = holder.get("security", [])
    where = join(where, "security")
    if not isinstance(alternatives, list):
        raise DocumentError(where, f"expected an array, got {name_kind(alternatives)}")
    is_optional = not alternatives
    missing: list[str] = []
    for index, alternative in enumerate(alternatives):
        keys = list(mapping(alternative, join(where, index)))
        if not keys:
            is_optional = True
            continue
        lacking = [key for key in keys if key not in api.auth]
        if not lacking:
            return tuple(_scheme(document, api.auth[key], key, base_url) for key in keys)
        missing += lacking
    if is_optional or api.anonymous or api.headers:
        return ()
    names = ", ".join(dict.fromkeys(name_kind(key) for key in missing[:10]))
    raise DocumentError(where, f"expected credentials for {names}, got none; set auth, or anonymous = true")


def _scheme(document: Document, credential: Credential, key: str, base_url: str) -> Scheme:
    components = document.root.get("components")
    schemes = components.get("securitySchemes") if isinstance(components, Mapping) else None
    pointer = join("#", "components", "securitySchemes", key)
    if not isinstance(schemes, Mapping) or key not in schemes:
        raise DocumentError(pointer, "expected a security scheme, got nothing")
    value, pointer = document.follow(schemes[key], pointer)
    scheme = mapping(value, pointer)
    kind = scheme.get("type")
    if kind == "apiKey":
        return _api_key(scheme, credential, key, pointer)
    if kind == "http":
        name = scheme.get("scheme")
        lowered = name.lower() if isinstance(name, str) else ""
        if lowered == "bearer":
            return _bearer(credential, key, pointer)
        if lowered == "basic":
            if credential.username is None:
                raise DocumentError(pointer, f"expected a username and a password in auth.{key}, got something else")
            return Scheme(kind="basic", key=key)
        raise DocumentError(join(pointer, "scheme"), f"expected basic or bearer, got {name_kind(name)}; set headers")
    if kind in ("oauth2", "openIdConnect"):
        if credential.client_id is None:
            return _bearer(credential, key, pointer)
        return Scheme(kind="client", key=key, token_url=_token_url(document, scheme, credential, pointer, base_url))
    raise DocumentError(join(pointer, "type"), f"expected apiKey, http, oauth2 or openIdConnect, got {name_kind(kind)}")


def _api_key(scheme: Mapping[str, Any], credential: Credential, key: str, pointer: str) -> Scheme:
    location, name = scheme.get("in"), scheme.get("name")
    if location not in ("header", "query", "cookie"):
        raise DocumentError(join(pointer, "in"), f"expected header, query or cookie, got {name_kind(location)}")
    if not isinstance(name, str) or not name or (location == "header" and not _TOKEN.fullmatch(name)):
        raise DocumentError(join(pointer, "name"), f"expected a name, got {name_kind(name)}")
    if location == "header" and name.lower() in _CONNECTION:
        raise DocumentError(
            join(pointer, "name"), f"expected a header that the connection does not set itself, got {name_kind(name)}"
        )
    if credential.token is None:
        raise DocumentError(pointer, f"expected a token in auth.{key}, got something else")
    return Scheme(kind=location, key=key, name=name)


def _bearer(credential: Credential, key: str, pointer: str) -> Scheme:
    if credential.token is None:
        raise DocumentError(pointer, f"expected a token in auth.{key}, got something else")
    return Scheme(kind="bearer", key=key)


def _token_url(
    document: Document, scheme: Mapping[str, Any], credential: Credential, pointer: str, base_url: str
) -> str:
    if credential.token_url is not None:
        return credential.token_url
    flows = scheme.get("flows")
    flow = flows.get("clientCredentials") if isinstance(flows, Mapping) else None
    url = flow.get("tokenUrl") if isinstance(flow, Mapping) else None
    where = join(pointer, "flows", "clientCredentials", "tokenUrl")
    if not isinstance(url, str):
        raise DocumentError(where, "expected the URL of a token endpoint, got none; set token_url")
    url = urljoin(document.url or f"{base_url}/", url)
    try:
        origin = origin_of(url)
    except ValueError as error:
        raise DocumentError(where, str(error)) from error
    if origin != origin_of(base_url):
        # Otherwise the author of a document could choose the server to which the client secret is sent.
        raise DocumentError(where, f"expected the API's own origin, got {origin}; if that is right, set token_url")
    return url
