"""The metadata document of the authorization server.

Source: RFC 8414 section 2; OpenID Connect Discovery 1.0 section 3; RFC 9207 section 3; RFC 9449 section 5.1; OAuth
Client ID Metadata Document (draft 00) section 5; ext-auth, Enterprise-Managed Authorization.
"""

from __future__ import annotations

from typing import Any

from mcptrio.auth.jose import ALGORITHMS

from .clients import AUTH_METHODS
from .config import Config

__all__ = ["server_metadata"]


def server_metadata(config: Config, *, openid: bool) -> dict[str, Any]:
    """Return the metadata document.

    Args:
        openid: True for the location of OpenID Connect Discovery.
    """
    url = config.addresses.url
    algorithms = sorted(ALGORITHMS)
    methods = list(AUTH_METHODS)
    document: dict[str, Any] = {
        "issuer": config.issuer,
        "authorization_endpoint": url("authorize"),
        "token_endpoint": url("token"),
        "jwks_uri": url("jwks"),
        "introspection_endpoint": url("introspect"),
        "revocation_endpoint": url("revoke"),
        "scopes_supported": list(config.scopes),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token", "client_credentials"],
        "token_endpoint_auth_methods_supported": methods,
        "token_endpoint_auth_signing_alg_values_supported": algorithms,
        "introspection_endpoint_auth_methods_supported": methods[1:],
        "introspection_endpoint_auth_signing_alg_values_supported": algorithms,
        "revocation_endpoint_auth_methods_supported": methods,
        "revocation_endpoint_auth_signing_alg_values_supported": algorithms,
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
        "client_id_metadata_document_supported": config.client_documents,
        "dpop_signing_alg_values_supported": algorithms,
        "prompt_values_supported": ["none", "consent"],
    }
    if config.registration:
        document["registration_endpoint"] = url("register")
    kinds = {trusted.kind for trusted in config.trusted_issuers.values()}
    if kinds:
        document["grant_types_supported"].append("urn:ietf:params:oauth:grant-type:jwt-bearer")
    if "id-jag" in kinds:
        document["authorization_grant_profiles_supported"] = ["urn:ietf:params:oauth:grant-profile:id-jag"]
    # Clients that look there require members that OAuth lacks. No ID token is ever issued, so their values have no
    # effect.
    if openid:
        document |= {"subject_types_supported": ["public"], "id_token_signing_alg_values_supported": ["ES256"]}
    return document
