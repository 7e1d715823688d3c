"""Metadata documents of protected resources and authorization servers.

:mod:`mcptrio.auth.discovery` reads them; the resource server and authorization servers write them. Unknown members are
ignored; a known member of the wrong type makes the document invalid.

Source: RFC 9728 section 2; RFC 8414 section 2; OpenID Connect Discovery 1.0 section 3; RFC 9207 section 3; RFC 9449
section 5.1; OAuth Client ID Metadata Document (draft 00) section 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, Self, TypeVar

import orjson
from attrs import fields, frozen

from mcptrio.auth.urls import check_url, shown
from mcptrio.errors import AuthorizationError

__all__ = ["MAX_DOCUMENT_BYTES", "ResourceMetadata", "ServerMetadata", "read_object"]

MAX_DOCUMENT_BYTES: Final = 128 * 1024
"""Largest document in bytes; those of large providers have 10 KiB."""
# Longest list in a document.
_MAX_LIST_ITEMS: Final = 500
# Longest string in a document, in characters.
_MAX_TEXT_CHARS: Final = 2048

D = TypeVar("D", bound="_MetadataDocument")


@frozen(kw_only=True)
class _MetadataDocument:
    """The base of both documents: a JSON object of strings, lists of strings, and booleans."""

    # Members to which the client sends requests or the user's browser; their URLs are checked.
    _URLS: ClassVar[frozenset[str]] = frozenset()
    _REQUIRED: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def read(cls, document: bytes, where: str) -> Self:
        """Read a document.

        Args:
            where: The URL of the document, for errors.

        Raises:
            AuthorizationError: The document is malformed, lacks a required member, or has a member of the wrong type.
        """
        members = read_object(document, where)
        values: dict[str, Any] = {}
        for member in fields(cls):
            value = members.get(member.name)
            if value is None:
                if member.name in cls._REQUIRED:
                    raise AuthorizationError(f"{member.name}: missing at {shown(where)}")
                continue
            # With `from __future__ import annotations`, attrs keeps the annotation as text.
            kind = str(member.type)
            if kind.startswith("bool"):
                values[member.name] = _boolean(member.name, value, where)
            elif kind.startswith("tuple"):
                values[member.name] = _texts(member.name, value, where)
            else:
                values[member.name] = _text(member.name, value, where)
            if member.name in cls._URLS:
                check_url(values[member.name], f"{member.name} at {shown(where)}")
        return cls(**values)

    def write(self) -> bytes:
        """Return the document as JSON, without absent members."""
        members = {
            member.name: value
            for member in fields(type(self))
            # RFC 8414 and RFC 9728: an absent boolean means false.
            if (value := getattr(self, member.name)) is not None and value is not False
        }
        return orjson.dumps(members)


@frozen(kw_only=True)
class ResourceMetadata(_MetadataDocument):
    """Metadata of a protected resource, with the member names of RFC 9728."""

    _REQUIRED: ClassVar[frozenset[str]] = frozenset({"resource"})

    resource: str
    authorization_servers: tuple[str, ...] | None = None
    scopes_supported: tuple[str, ...] | None = None
    bearer_methods_supported: tuple[str, ...] | None = None
    resource_name: str | None = None
    resource_documentation: str | None = None
    dpop_signing_alg_values_supported: tuple[str, ...] | None = None
    dpop_bound_access_tokens_required: bool = False


@frozen(kw_only=True)
class ServerMetadata(_MetadataDocument):
    """Metadata of an authorization server, with the member names of RFC 8414 and its extensions."""

    _URLS: ClassVar[frozenset[str]] = frozenset(
        {
            "authorization_endpoint",
            "token_endpoint",
            "registration_endpoint",
            "revocation_endpoint",
            "introspection_endpoint",
            "jwks_uri",
        }
    )
    _REQUIRED: ClassVar[frozenset[str]] = frozenset({"issuer"})

    issuer: str
    authorization_endpoint: str | None = None
    token_endpoint: str | None = None
    registration_endpoint: str | None = None
    revocation_endpoint: str | None = None
    introspection_endpoint: str | None = None
    jwks_uri: str | None = None
    scopes_supported: tuple[str, ...] | None = None
    response_types_supported: tuple[str, ...] | None = None
    grant_types_supported: tuple[str, ...] | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] | None = None
    token_endpoint_auth_signing_alg_values_supported: tuple[str, ...] | None = None
    code_challenge_methods_supported: tuple[str, ...] | None = None
    authorization_grant_profiles_supported: tuple[str, ...] | None = None
    dpop_signing_alg_values_supported: tuple[str, ...] | None = None
    authorization_response_iss_parameter_supported: bool = False
    client_id_metadata_document_supported: bool = False
    service_documentation: str | None = None

    def endpoints(self) -> dict[str, str]:
        """Return the URLs to which requests are sent, by member name."""
        return {name: url for name in sorted(self._URLS) if (url := getattr(self, name)) is not None}


def read_object(document: bytes, where: str) -> Mapping[str, Any]:
    """Return the JSON object in a document from another machine.

    Raises:
        AuthorizationError: The document is not a JSON object, or is larger than 128 KiB.
    """
    if len(document) > MAX_DOCUMENT_BYTES:
        raise AuthorizationError(f"expected at most {MAX_DOCUMENT_BYTES} bytes, got {len(document)} at {shown(where)}")
    try:
        value = orjson.loads(document)
    except orjson.JSONDecodeError as error:
        raise AuthorizationError(f"expected JSON at {shown(where)}: {error.msg}") from None
    if not isinstance(value, dict):
        raise AuthorizationError(f"expected a JSON object, got {type(value).__name__} at {shown(where)}")
    return value


def _text(name: str, value: object, where: str) -> str:
    if not isinstance(value, str) or len(value) > _MAX_TEXT_CHARS:
        raise _wrong_type(name, f"a string of at most {_MAX_TEXT_CHARS} characters", value, where)
    return value


def _texts(name: str, value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > _MAX_LIST_ITEMS:
        raise _wrong_type(name, f"a list of at most {_MAX_LIST_ITEMS} strings", value, where)
    return tuple(_text(name, each, where) for each in value)


def _boolean(name: str, value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise _wrong_type(name, "true or false", value, where)
    return value


def _wrong_type(name: str, expected: str, value: object, where: str) -> AuthorizationError:
    size = f" of {len(value)}" if isinstance(value, str | list | dict) else ""
    # The type and the size only: the value may be long, or a secret in the wrong member.
    return AuthorizationError(f"{name}: expected {expected}, got {type(value).__name__}{size} at {shown(where)}")
