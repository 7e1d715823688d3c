"""The contents of the pages: login, consent, grants, logout and errors.

:mod:`.page_handlers` renders the templates next to this module with these values. Pages work without JavaScript.

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
from .time_format import format_time

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
    """Return the Content-Security-Policy of a page.

    Args:
        forms: The targets to which its forms may lead.
    """
    return (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action {' '.join(forms)};"
        " frame-ancestors 'none'; base-uri 'none'"
    )


def client_values(request: AuthorizationRequest) -> dict[str, Any]:
    """Return the template values about the requesting client.

    Every page shows them before the user enters or allows anything.
    """
    client = request.client
    # Any client can choose any name, so users need to know how it became known here.
    warnings = []
    if client.origin == "registration":
        warnings.append("The application has registered itself here. Its name has not been verified.")
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
    """Return the template values of the consent page.

    Args:
        request: The client's request.
        scopes: The scopes to consent to.
        user: The logged-in user; ``None`` if the user logs in at the provider afterwards.
    """
    return {
        **client_values(request),
        "resource": request.resource,
        "scopes": [(scope, config.scopes[scope]) for scope in scopes],
        "user": user,
        "upstream": urlsplit(config.upstream.issuer).netloc if config.upstream is not None else None,
    }


def consent_forms(request: AuthorizationRequest, provider: str | None) -> tuple[str, ...]:
    """Return the targets to which the consent form may lead.

    Args:
        request: The client's request.
        provider: The authorization endpoint of the upstream provider, if any.
    """
    # Browsers apply form-action to the whole chain of redirects that follows the form.
    places = ["'self'", "https:"]
    for url in (request.redirect_uri, provider):
        if url is None:
            continue
        parts = urlsplit(url)
        if parts.scheme == "http":
            # A policy cannot contain IPv6 addresses.
            places.append("http:" if "[" in parts.netloc else f"http://{parts.netloc}")
        elif parts.scheme != "https":
            places.append(f"{parts.scheme}:")
    return tuple(places)


def grants_values(config: Config, grants: Sequence[TokenGrant]) -> dict[str, Any]:
    """Return the template values of the page that lists a user's grants."""
    return {
        "grants": [
            {
                "id": grant.id,
                "name": grant.client_name,
                "host": grant.host,
                "resource": grant.resource,
                # A scope may have been removed from the settings since the grant.
                "scopes": [(scope, config.scopes.get(scope)) for scope in grant.scopes],
                "begun": format_time(grant.begun),
                "ends": format_time(grant.ends),
            }
            for grant in grants
        ],
        "minutes": math.ceil(config.access_lifetime / 60),
    }


def problem_sentence(error: str, client: RegisteredClient | None) -> str:
    """Return the sentence that explains an error to the user."""
    name = client.name if client is not None else "The application"
    if error == "temporarily_unavailable":
        return "The server is busy, or something that it needs cannot be reached. Try again in a while."
    if error == "access_denied":
        return "Access was denied."
    if error == "invalid_client":
        return "The application that sent you here is not known. Try to connect it again."
    return f"{name} has asked for something that cannot be granted. Its developers can use the line below."
