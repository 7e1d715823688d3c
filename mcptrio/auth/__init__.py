"""Authorization over HTTP: protect a server, authorize a client, build an authorization server.

Each name is imported when it is first used.
"""

from typing import TYPE_CHECKING

from mcptrio.ground.lazy_names import lazy_names

if TYPE_CHECKING:
    from mcptrio.auth.claims import check_claims as check_claims
    from mcptrio.auth.client.client_credentials import ClientCredentials as ClientCredentials
    from mcptrio.auth.client.engine import GrantClient as GrantClient
    from mcptrio.auth.client.enterprise_managed import EnterpriseManaged as EnterpriseManaged
    from mcptrio.auth.client.enterprise_managed import IdentityProvider as IdentityProvider
    from mcptrio.auth.client.grants import GrantMethod as GrantMethod
    from mcptrio.auth.client.loopback import LoopbackRedirects as LoopbackRedirects
    from mcptrio.auth.client.oauth import OAuth as OAuth
    from mcptrio.auth.client.oauth import OAuthClient as OAuthClient
    from mcptrio.auth.client.redirects import OwnRedirects as OwnRedirects
    from mcptrio.auth.client.redirects import Redirect as Redirect
    from mcptrio.auth.client.redirects import Redirects as Redirects
    from mcptrio.auth.client.registration import PreRegistered as PreRegistered
    from mcptrio.auth.client.workload_identity import WorkloadIdentity as WorkloadIdentity
    from mcptrio.auth.dpop import BadDPoPProof as BadDPoPProof
    from mcptrio.auth.dpop import DPoPProof as DPoPProof
    from mcptrio.auth.dpop import DPoPVerifier as DPoPVerifier
    from mcptrio.auth.flows import Flow as Flow
    from mcptrio.auth.flows import drive as drive
    from mcptrio.auth.jose import Key as Key
    from mcptrio.auth.metadata import ServerMetadata as ServerMetadata
    from mcptrio.auth.metadata import read_object as read_object
    from mcptrio.auth.server.certificates import CertificateNames as CertificateNames
    from mcptrio.auth.server.certificates import CertificatePrincipals as CertificatePrincipals
    from mcptrio.auth.server.failures import FailureLimit as FailureLimit
    from mcptrio.auth.server.introspection import IntrospectedTokens as IntrospectedTokens
    from mcptrio.auth.server.introspection import IntrospectionBounds as IntrospectionBounds
    from mcptrio.auth.server.issuer_keys import IssuerKeys as IssuerKeys
    from mcptrio.auth.server.issuer_keys import KeyTimes as KeyTimes
    from mcptrio.auth.server.jwt_tokens import ClaimRules as ClaimRules
    from mcptrio.auth.server.jwt_tokens import JWTTokens as JWTTokens
    from mcptrio.auth.server.replay_cache import Nonces as Nonces
    from mcptrio.auth.server.replay_cache import ReplayBounds as ReplayBounds
    from mcptrio.auth.server.resource_options import DPoPRule as DPoPRule
    from mcptrio.auth.server.resource_options import DPoPUse as DPoPUse
    from mcptrio.auth.server.resource_options import ResourceServerOptions as ResourceServerOptions
    from mcptrio.auth.server.resource_server import ResourceServer as ResourceServer
    from mcptrio.auth.server.static_tokens import StaticTokens as StaticTokens
    from mcptrio.auth.token_requests import AuthenticationMethod as AuthenticationMethod
    from mcptrio.auth.token_requests import ClientIdentity as ClientIdentity
    from mcptrio.stores.tokens_file import FileTokenStore as FileTokenStore
    from mcptrio.stores.tokens_keyring import KeyringTokenStore as KeyringTokenStore

# Imported lazily, so that a server loads no client code, a client no server code, and a program without authorization
# no cryptography.
_HOMES = {
    # Protecting a server
    "CertificateNames": "mcptrio.auth.server.certificates",
    "CertificatePrincipals": "mcptrio.auth.server.certificates",
    "ClaimRules": "mcptrio.auth.server.jwt_tokens",
    "DPoPRule": "mcptrio.auth.server.resource_options",
    "DPoPUse": "mcptrio.auth.server.resource_options",
    "FailureLimit": "mcptrio.auth.server.failures",
    "IntrospectedTokens": "mcptrio.auth.server.introspection",
    "IntrospectionBounds": "mcptrio.auth.server.introspection",
    "IssuerKeys": "mcptrio.auth.server.issuer_keys",
    "JWTTokens": "mcptrio.auth.server.jwt_tokens",
    "KeyTimes": "mcptrio.auth.server.issuer_keys",
    "ReplayBounds": "mcptrio.auth.server.replay_cache",
    "ResourceServerOptions": "mcptrio.auth.server.resource_options",
    "ResourceServer": "mcptrio.auth.server.resource_server",
    "StaticTokens": "mcptrio.auth.server.static_tokens",
    # Authorizing a client
    "AuthenticationMethod": "mcptrio.auth.token_requests",
    "ClientCredentials": "mcptrio.auth.client.client_credentials",
    "ClientIdentity": "mcptrio.auth.token_requests",
    "EnterpriseManaged": "mcptrio.auth.client.enterprise_managed",
    "GrantClient": "mcptrio.auth.client.engine",
    "GrantMethod": "mcptrio.auth.client.grants",
    "IdentityProvider": "mcptrio.auth.client.enterprise_managed",
    "Key": "mcptrio.auth.jose",
    "LoopbackRedirects": "mcptrio.auth.client.loopback",
    "OAuth": "mcptrio.auth.client.oauth",
    "OAuthClient": "mcptrio.auth.client.oauth",
    "OwnRedirects": "mcptrio.auth.client.redirects",
    "PreRegistered": "mcptrio.auth.client.registration",
    "Redirect": "mcptrio.auth.client.redirects",
    "Redirects": "mcptrio.auth.client.redirects",
    "WorkloadIdentity": "mcptrio.auth.client.workload_identity",
    # Building an authorization server
    "BadDPoPProof": "mcptrio.auth.dpop",
    "Flow": "mcptrio.auth.flows",
    "Nonces": "mcptrio.auth.server.replay_cache",
    "DPoPProof": "mcptrio.auth.dpop",
    "DPoPVerifier": "mcptrio.auth.dpop",
    "ServerMetadata": "mcptrio.auth.metadata",
    "check_claims": "mcptrio.auth.claims",
    "drive": "mcptrio.auth.flows",
    "read_object": "mcptrio.auth.metadata",
    # Keeping tokens
    "FileTokenStore": "mcptrio.stores.tokens_file",
    "KeyringTokenStore": "mcptrio.stores.tokens_keyring",
}
"""Every public name and the module that defines it."""

__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll] - the imports above define them for type checkers

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
