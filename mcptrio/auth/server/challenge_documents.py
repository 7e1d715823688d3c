"""What is said to clients that are not let in: challenges, and the documents that these lead to.

Used by :mod:`mcptrio.auth.server.resource_server`.
The one rule: it says where to get a token and for what, and nothing of the one that came.

Source: RFC 6750 section 3; RFC 9728 sections 2, 3 and 5; RFC 9449 section 7.1; MCP 2026-07-28, basic/authorization.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final
from urllib.parse import urlsplit

from attrs import frozen

from mcptrio.abc import RequestHead
from mcptrio.auth.challenges import build_challenge
from mcptrio.auth.jose import ALGORITHMS
from mcptrio.auth.metadata import ResourceMetadata
from mcptrio.auth.scopes import check_scope
from mcptrio.auth.server.request_credentials import CredentialsRefused
from mcptrio.auth.server.resource_options import ResourceServerOptions
from mcptrio.auth.urls import resource_metadata_urls

__all__ = ["NEVER_REQUESTED_SCOPES", "ChallengeDocuments", "path_of"]

NEVER_REQUESTED_SCOPES: Final = frozenset({"offline_access"})
"""MCP 2026-07-28, basic/authorization, "Refresh Tokens": servers should not ask for it."""

_SCOPE_CHARACTERS: Final = 4096
"""Of all scopes in a challenge; past that, only those that are needed."""
_UNSAYABLE: Final = re.compile(r"[^\x20\x21\x23-\x5b\x5d-\x7e]")
"""In an ``error_description`` (RFC 6750 section 3)."""
_DESCRIPTION: Final = 300


@frozen(kw_only=True)
class ChallengeDocuments:
    """
    Args:
        resources: addresses of the endpoint; may be empty where there are no issuers.
        issuers: where tokens come from; where there are none, nothing is published.
        scopes: that everybody needs, as few as include them all.
        options: of the resource server.
    """

    resources: Sequence[str]
    issuers: Sequence[str]
    scopes: frozenset[str]
    options: ResourceServerOptions

    def documents(self) -> Iterator[tuple[str, bytes]]:
        """Path and JSON of the metadata of each resource; that of the first one at the root too."""
        if not self.issuers:
            return
        for resource in reversed(self.resources):  # the first one last, so that the root is its own
            document = self._metadata(resource).write()
            for url in reversed(resource_metadata_urls(resource)):
                yield urlsplit(url).path, document

    def challenge(self, request: RequestHead, refused: CredentialsRefused) -> str:
        """``WWW-Authenticate``: each scheme that is taken, the one that was used first."""
        common: dict[str, str] = {}
        if (scope := refused.scope or self.asked(self.scopes)) and refused.status != 400:
            common["scope"] = scope
        if self.issuers:
            common["resource_metadata"] = resource_metadata_urls(self.resource_of(request))[0]
        told = {}
        if refused.error is not None:
            told = {"error": refused.error, "error_description": _sayable(refused.reason)}
        schemes = self._schemes()
        # Clients that read only the first one read the one that they have used.
        schemes.sort(key=lambda scheme: scheme != refused.scheme)
        if refused.status != 401:
            del schemes[1:]  # it is no other scheme that is wanted
        return ", ".join(
            build_challenge(
                scheme,
                {
                    **(told if scheme == schemes[0] else {}),
                    **common,
                    **({"algs": " ".join(sorted(ALGORITHMS))} if scheme == "DPoP" else {}),
                },
            )
            for scheme in schemes
        )

    def asked(self, scopes: Iterable[str], *, needed: Iterable[str] = ()) -> str:
        """Scopes as a client asks for them.

        Args:
            scopes: all there are; perhaps granted elsewhere, with names that no header can carry, or more than one can.
            needed: those of them that it cannot do without.
        """
        text = self._written(scopes)
        return self._written(needed) if len(text) > _SCOPE_CHARACTERS else text

    def resource_of(self, request: RequestHead) -> str:
        """The resource that a request is for: the one with its path, or the first."""
        path = path_of(request).rstrip("/")
        return next((each for each in self.resources if urlsplit(each).path.rstrip("/") == path), self.resources[0])

    # Private

    def _schemes(self) -> list[str]:
        use = self.options.dpop.use if self.resources else "off"
        return {"off": ["Bearer"], "accepted": ["Bearer", "DPoP"], "required": ["DPoP"]}[use]

    def _written(self, scopes: Iterable[str]) -> str:
        names = (f"{self.options.scope_prefix}{each}" for each in {*scopes} - NEVER_REQUESTED_SCOPES)
        return " ".join(sorted(filter(_is_scope, names)))

    def _metadata(self, resource: str) -> ResourceMetadata:
        options = self.options
        supported = self.scopes if options.scopes_supported is None else options.scopes_supported
        return ResourceMetadata(
            resource=resource,
            authorization_servers=tuple(self.issuers),
            scopes_supported=tuple(self._written(supported).split()) or None,
            bearer_methods_supported=("header",),
            resource_name=options.name,
            resource_documentation=options.documentation,
            dpop_signing_alg_values_supported=tuple(sorted(ALGORITHMS)) if "DPoP" in self._schemes() else None,
            dpop_bound_access_tokens_required=options.dpop.use == "required",
        )


def path_of(request: RequestHead) -> str:
    """The path of a request, whatever its client wrote as the host."""
    _, slash, path = request.url.partition("://")[2].partition("/")
    return f"{slash}{path}"


def _sayable(text: str) -> str:
    return _UNSAYABLE.sub("?", text.replace('"', "'"))[:_DESCRIPTION]


def _is_scope(scope: str) -> bool:
    try:
        check_scope(scope)
    except ValueError:
        return False
    return True
