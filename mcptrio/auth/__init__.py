"""Authorization: what guards a server over HTTP, and what authorizes a client's requests to one.

Neither a server nor a client loads what only the other needs, and nobody who has no ``[auth]`` loads cryptography.

Each name is imported when it is first used.
"""

from typing import TYPE_CHECKING

from mcptrio.lazy_names import lazy_names

if TYPE_CHECKING:
    from mcptrio.auth.certificates import CertificateNames as CertificateNames
    from mcptrio.auth.certificates import CertificatePrincipals as CertificatePrincipals
    from mcptrio.auth.claims import check_claims as check_claims
    from mcptrio.auth.client_credentials import ClientCredentials as ClientCredentials
    from mcptrio.auth.client_oauth import OAuth as OAuth
    from mcptrio.auth.client_oauth import OAuthClient as OAuthClient
    from mcptrio.auth.dpop import BadProof as BadProof
    from mcptrio.auth.dpop import Proof as Proof
    from mcptrio.auth.dpop import ProofJudge as ProofJudge
    from mcptrio.auth.engine import GrantClient as GrantClient
    from mcptrio.auth.enterprise_managed import EnterpriseManaged as EnterpriseManaged
    from mcptrio.auth.enterprise_managed import IdentityProvider as IdentityProvider
    from mcptrio.auth.failures import FailureLimit as FailureLimit
    from mcptrio.auth.flows import Flow as Flow
    from mcptrio.auth.flows import drive as drive
    from mcptrio.auth.grants import GrantMethod as GrantMethod
    from mcptrio.auth.introspection import IntrospectedTokens as IntrospectedTokens
    from mcptrio.auth.introspection import IntrospectionBounds as IntrospectionBounds
    from mcptrio.auth.issuer_keys import IssuerKeys as IssuerKeys
    from mcptrio.auth.issuer_keys import KeyTimes as KeyTimes
    from mcptrio.auth.jose import Key as Key
    from mcptrio.auth.jwt_tokens import ClaimRules as ClaimRules
    from mcptrio.auth.jwt_tokens import JWTTokens as JWTTokens
    from mcptrio.auth.loopback import LoopbackRedirects as LoopbackRedirects
    from mcptrio.auth.metadata import ServerMetadata as ServerMetadata
    from mcptrio.auth.metadata import read_object as read_object
    from mcptrio.auth.redirects import OwnRedirects as OwnRedirects
    from mcptrio.auth.redirects import Redirect as Redirect
    from mcptrio.auth.redirects import Redirects as Redirects
    from mcptrio.auth.registration import PreRegistered as PreRegistered
    from mcptrio.auth.replays import Nonces as Nonces
    from mcptrio.auth.replays import ReplayBounds as ReplayBounds
    from mcptrio.auth.resource_options import DPoPRule as DPoPRule
    from mcptrio.auth.resource_options import DPoPUse as DPoPUse
    from mcptrio.auth.resource_options import ResourceOptions as ResourceOptions
    from mcptrio.auth.resource_server import ResourceServer as ResourceServer
    from mcptrio.auth.static_tokens import StaticTokens as StaticTokens
    from mcptrio.auth.token_requests import AuthenticationMethod as AuthenticationMethod
    from mcptrio.auth.token_requests import ClientIdentity as ClientIdentity
    from mcptrio.auth.workload_identity import WorkloadIdentity as WorkloadIdentity
    from mcptrio.stores.tokens_file import FileTokenStore as FileTokenStore
    from mcptrio.stores.tokens_keyring import KeyringTokenStore as KeyringTokenStore

_HOMES = {
    # Guarding a server
    "CertificateNames": "mcptrio.auth.certificates",
    "CertificatePrincipals": "mcptrio.auth.certificates",
    "ClaimRules": "mcptrio.auth.jwt_tokens",
    "DPoPRule": "mcptrio.auth.resource_options",
    "DPoPUse": "mcptrio.auth.resource_options",
    "FailureLimit": "mcptrio.auth.failures",
    "IntrospectedTokens": "mcptrio.auth.introspection",
    "IntrospectionBounds": "mcptrio.auth.introspection",
    "IssuerKeys": "mcptrio.auth.issuer_keys",
    "JWTTokens": "mcptrio.auth.jwt_tokens",
    "KeyTimes": "mcptrio.auth.issuer_keys",
    "ReplayBounds": "mcptrio.auth.replays",
    "ResourceOptions": "mcptrio.auth.resource_options",
    "ResourceServer": "mcptrio.auth.resource_server",
    "StaticTokens": "mcptrio.auth.static_tokens",
    # Authorizing a client
    "AuthenticationMethod": "mcptrio.auth.token_requests",
    "ClientCredentials": "mcptrio.auth.client_credentials",
    "ClientIdentity": "mcptrio.auth.token_requests",
    "EnterpriseManaged": "mcptrio.auth.enterprise_managed",
    "GrantClient": "mcptrio.auth.engine",
    "GrantMethod": "mcptrio.auth.grants",
    "IdentityProvider": "mcptrio.auth.enterprise_managed",
    "Key": "mcptrio.auth.jose",
    "LoopbackRedirects": "mcptrio.auth.loopback",
    "OAuth": "mcptrio.auth.client_oauth",
    "OAuthClient": "mcptrio.auth.client_oauth",
    "OwnRedirects": "mcptrio.auth.redirects",
    "PreRegistered": "mcptrio.auth.registration",
    "Redirect": "mcptrio.auth.redirects",
    "Redirects": "mcptrio.auth.redirects",
    "WorkloadIdentity": "mcptrio.auth.workload_identity",
    # Building an authorization server
    "BadProof": "mcptrio.auth.dpop",
    "Flow": "mcptrio.auth.flows",
    "Nonces": "mcptrio.auth.replays",
    "Proof": "mcptrio.auth.dpop",
    "ProofJudge": "mcptrio.auth.dpop",
    "ServerMetadata": "mcptrio.auth.metadata",
    "check_claims": "mcptrio.auth.claims",
    "drive": "mcptrio.auth.flows",
    "read_object": "mcptrio.auth.metadata",
    # Keeping tokens
    "FileTokenStore": "mcptrio.stores.tokens_file",
    "KeyringTokenStore": "mcptrio.stores.tokens_keyring",
}
"""Every public name, and the module that has it."""

__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll] - the imports above say it to type checkers

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
