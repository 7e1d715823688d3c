"""Validation of client metadata, in a registration or a metadata document. Unknown members are ignored.

Source: RFC 7591 sections 2 and 3.2.2; OpenID Connect Dynamic Client Registration 1.0 section 2; MCP 2026-07-28,
basic/authorization/client-registration, "Application Type and Redirect URI Constraints".
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Mapping
from typing import Any, Final

from attrs import frozen

from mcptrio.auth.urls import check_url
from mcptrio.errors import AuthorizationError

from .clients import AUTH_METHODS
from .redirect_uris import check_redirect_uri, is_local
from .refusals import Refusal

__all__ = ["RegistrationMetadata", "read_client_metadata"]

# Without client_credentials: no user would have consented to the tokens of such a client.
_GRANTS: Final = ("authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:jwt-bearer")
# Longest client name in characters.
_MAX_NAME_CHARS: Final = 100
# Redirect URIs of one client.
_MAX_REDIRECTS: Final = 20
# Entries of the other lists.
_MAX_ENTRIES: Final = 50
# Keys of one client.
_MAX_KEYS: Final = 20


@frozen(kw_only=True)
class RegistrationMetadata:
    """Validated metadata of a client."""

    name: str | None
    redirect_uris: tuple[str, ...]
    grant_types: tuple[str, ...]
    auth_method: str
    application_type: str
    keys: Mapping[str, Any] | None
    jwks_uri: str | None
    scopes: tuple[str, ...] | None


def read_client_metadata(
    document: Mapping[str, Any], *, default_method: str, app_schemes: Collection[str]
) -> RegistrationMetadata:
    """Validate client metadata.

    Args:
        document: The JSON object.
        default_method: The authentication method if the document names none.
        app_schemes: The schemes without a period that are allowed in redirect URIs.

    Raises:
        Refusal: ``invalid_redirect_uri`` or ``invalid_client_metadata``.
    """
    redirects = _texts(document, "redirect_uris", _MAX_REDIRECTS)
    application_type = document.get("application_type")
    if application_type not in (None, "web", "native"):
        raise _invalid_metadata("application_type: expected web or native")
    for uri in redirects or ():
        try:
            # OpenID Connect defaults to web; but clients before 2026-07-28 omit the type and are native.
            check_redirect_uri(uri, application_type, app_schemes)
        except ValueError as error:
            raise Refusal("invalid_redirect_uri", str(error)) from None
    grants = _texts(document, "grant_types", _MAX_ENTRIES) or ("authorization_code",)
    if "authorization_code" in grants and not redirects:
        raise Refusal("invalid_redirect_uri", "redirect_uris: expected at least one")
    grant_types = tuple(grant for grant in grants if grant in _GRANTS)
    if not grant_types:
        raise _invalid_metadata(f"grant_types: expected some of {', '.join(_GRANTS)}, got none of them")
    responses = _texts(document, "response_types", _MAX_ENTRIES)
    if responses is not None and responses and "code" not in responses:
        raise _invalid_metadata("response_types: expected code")
    method = document.get("token_endpoint_auth_method", default_method)
    if method not in AUTH_METHODS:
        raise _invalid_metadata(f"token_endpoint_auth_method: expected one of {', '.join(AUTH_METHODS)}")
    keys, jwks_uri = _keys(document)
    if method == "private_key_jwt" and keys is None and jwks_uri is None:
        raise _invalid_metadata("jwks: expected keys, or jwks_uri, for private_key_jwt")
    return RegistrationMetadata(
        name=_name(document),
        redirect_uris=redirects or (),
        grant_types=grant_types,
        auth_method=method,
        application_type=application_type or ("native" if any(map(is_local, redirects or ())) else "web"),
        keys=keys if method == "private_key_jwt" else None,
        jwks_uri=jwks_uri if method == "private_key_jwt" else None,
        scopes=_scopes(document),
    )


def _name(document: Mapping[str, Any]) -> str | None:
    name = document.get("client_name")
    if name is None:
        return None
    if not isinstance(name, str) or len(name) > _MAX_NAME_CHARS:
        raise _invalid_metadata(f"client_name: expected at most {_MAX_NAME_CHARS} characters")
    # Users read the name on the consent page: control and formatting characters could hide or reverse the text around
    # it.
    visible = "".join(each for each in name if unicodedata.category(each)[0] not in "CZ" or each == " ")
    return " ".join(visible.split()) or None


def _keys(document: Mapping[str, Any]) -> tuple[Mapping[str, Any] | None, str | None]:
    keys, uri = document.get("jwks"), document.get("jwks_uri")
    if keys is not None and uri is not None:
        raise _invalid_metadata("jwks: expected jwks or jwks_uri, got both")
    if keys is not None and not (
        isinstance(keys, dict) and isinstance(keys.get("keys"), list) and len(keys["keys"]) <= _MAX_KEYS
    ):
        raise _invalid_metadata(f"jwks: expected a JSON Web Key set of at most {_MAX_KEYS} keys")
    if uri is not None:
        try:
            check_url(uri if isinstance(uri, str) else "", "jwks_uri")
        except AuthorizationError as error:
            raise _invalid_metadata(str(error)) from None
    return keys, uri


def _scopes(document: Mapping[str, Any]) -> tuple[str, ...] | None:
    scope = document.get("scope")
    if scope is None:
        return None
    if not isinstance(scope, str) or len(scope) > 4096:
        raise _invalid_metadata("scope: expected scopes with spaces between them")
    return tuple(dict.fromkeys(scope.split())) or None


def _texts(document: Mapping[str, Any], name: str, max_items: int) -> tuple[str, ...] | None:
    value = document.get(name)
    if value is None:
        return None
    if not isinstance(value, list) or len(value) > max_items or not all(isinstance(each, str) for each in value):
        error = "invalid_redirect_uri" if name == "redirect_uris" else "invalid_client_metadata"
        raise Refusal(error, f"{name}: expected a list of at most {max_items} texts")
    return tuple(value)


def _invalid_metadata(description: str) -> Refusal:
    return Refusal("invalid_client_metadata", description)
