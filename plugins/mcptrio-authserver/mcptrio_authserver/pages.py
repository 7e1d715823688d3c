"""The pages that people see: logging in, consenting, and what went wrong.

Rendered for :mod:`.web` from the templates beside this module.
The one rule: a page needs no JavaScript and runs none; all that comes from a client is text, and stands where people
can tell it from what this server says.

Source: WCAG 2.2 level AA (1.3.1, 1.4.3, 2.4.2, 2.4.7, 3.1.1, 3.3.1, 3.3.2, 4.1.2); Content Security Policy level 3; MCP
2026-07-28, basic/authorization/security-considerations, "Localhost Redirect URI Risks".
"""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final
from urllib.parse import urlsplit

from .authorization_requests import AuthorizationRequest
from .clients import RegisteredClient
from .config import Config
from .grants import TokenGrant
from .moments import shown_moment

__all__ = ["STYLE", "client_values", "consent_forms", "consent_values", "grants_values", "policy", "problem_sentence"]

STYLE: Final = """
:root { --text: #1b1b1f; --page: #f6f6f8; --card: #ffffff; --line: #75757d; --act: #1a4f9c; --on: #ffffff;
  --dim: #55555c; --bad: #a3141c; --badbg: #fdecec; --warnbg: #fff4d6; --warn: #5a4300; }
@media (prefers-color-scheme: dark) { :root { --text: #f1f1f4; --page: #17171a; --card: #232327; --line: #8f8f98;
  --act: #9cc2ff; --on: #10131a; --dim: #b9b9c2; --bad: #ffb4b0; --badbg: #4a1717; --warnbg: #423405;
  --warn: #ffe6a3; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text); font: 1rem/1.5 system-ui, sans-serif; }
main { max-width: 30rem; margin: 4vh auto; padding: 1.5rem; background: var(--card); border-radius: .75rem;
  overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; line-height: 1.25; margin: 0 0 1rem; }
h2 { font-size: 1rem; margin: 1rem 0 .25rem; }
dl { margin: 1rem 0; }
dt { color: var(--dim); font-size: .9rem; }
dd { margin: 0 0 .75rem; }
section + section { margin-top: 2rem; padding-top: .5rem; border-top: 1px solid var(--line); }
ul { margin: .25rem 0 1rem; padding-left: 1.25rem; }
.scope { color: var(--dim); font-size: .9rem; }
label { display: block; font-weight: 600; margin-top: 1rem; }
input[type=text], input[type=password] { width: 100%; min-height: 2.75rem; padding: .5rem; font: inherit;
  color: inherit; background: var(--card); border: 1px solid var(--line); border-radius: .375rem; }
button { min-height: 2.75rem; margin-top: 1.25rem; padding: .5rem 1.25rem; font: inherit; font-weight: 600;
  color: var(--on); background: var(--act); border: 1px solid var(--act); border-radius: .375rem; cursor: pointer; }
button.second { color: var(--act); background: var(--card); }
button.plain { color: var(--act); background: none; border-color: transparent; padding: .5rem 0; font-weight: 400;
  text-decoration: underline; }
.buttons { display: flex; flex-wrap: wrap; gap: .75rem; }
a { color: var(--act); }
:focus-visible { outline: 3px solid var(--act); outline-offset: 2px; }
.problem { color: var(--bad); background: var(--badbg); padding: .75rem; border-radius: .375rem; }
.warning { color: var(--warn); background: var(--warnbg); padding: .25rem .75rem; border-radius: .375rem; }
"""

_STYLE_HASH: Final = base64.b64encode(sha256(STYLE.encode()).digest()).decode()


def policy(forms: Sequence[str] = ("'self'",)) -> str:
    """The Content-Security-Policy of a page.

    Args:
        forms: where its forms may lead.
    """
    return (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action {' '.join(forms)};"
        " frame-ancestors 'none'; base-uri 'none'"
    )


def client_values(request: AuthorizationRequest) -> dict[str, Any]:
    """What each page says of the client that asks, before anything is typed or allowed."""
    client = request.client
    warnings = []
    if client.origin == "registration":
        warnings.append("The application has registered itself here. Nobody has checked its name.")
    if request.is_local:
        warnings.append(
            "Your answer goes to a program on this computer, which may be another one than it says."
            " Allow this only if you have started it yourself just now."
        )
    return {
        "client": client,
        "origin": urlsplit(client.id).netloc if client.origin == "document" else None,
        "host": request.host,
        "warnings": warnings,
    }


def consent_values(
    config: Config, request: AuthorizationRequest, scopes: Sequence[str], *, user: str | None
) -> dict[str, Any]:
    """What the consent page says.

    Args:
        user: who is logged in; ``None`` where they log in at the provider after that.
    """
    return {
        **client_values(request),
        "resource": request.resource,
        "scopes": [(scope, config.scopes[scope]) for scope in scopes],
        "user": user,
        "upstream": urlsplit(config.upstream.issuer).netloc if config.upstream is not None else None,
    }


def consent_forms(request: AuthorizationRequest, provider: str | None) -> tuple[str, ...]:
    """Where the consent form may lead: browsers look at where its answer redirects to as well, and at what comes after.

    Args:
        provider: the authorization endpoint of a provider upstream.
    """
    places = ["'self'", "https:"]
    for url in (request.redirect_uri, provider):
        if url is None:
            continue
        parts = urlsplit(url)
        if parts.scheme == "http":
            # There are no addresses of IPv6 in a policy.
            places.append("http:" if "[" in parts.netloc else f"http://{parts.netloc}")
        elif parts.scheme != "https":
            places.append(f"{parts.scheme}:")
    return tuple(places)


def grants_values(config: Config, grants: Sequence[TokenGrant]) -> dict[str, Any]:
    """The values of the page that lists the grants of a user."""
    return {
        "grants": [
            {
                "id": grant.id,
                "name": grant.client_name,
                "host": grant.host,
                "resource": grant.resource,
                # The settings may have dropped a scope since.
                "scopes": [(scope, config.scopes.get(scope)) for scope in grant.scopes],
                "begun": shown_moment(grant.begun),
                "ends": shown_moment(grant.ends),
            }
            for grant in grants
        ],
        "minutes": math.ceil(config.access_lifetime / 60),
    }


def problem_sentence(error: str, client: RegisteredClient | None) -> str:
    """What went wrong, for people."""
    name = client.name if client is not None else "The application"
    if error == "temporarily_unavailable":
        return "The server is busy, or something that it needs cannot be reached. Try again in a while."
    if error == "access_denied":
        return "Access was denied."
    if error == "invalid_client":
        return "The application that sent you here is not known. It may have to be connected anew."
    return f"{name} has asked for something that cannot be granted. Whoever runs it can make use of the line below."
