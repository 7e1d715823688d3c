"""``mcptrio auth``: logs in to servers, shows the logins, and logs out.

Credentials are never shown, only the server, the issuer, the scopes and the expiry.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import click
import orjson

from mcptrio.abc import FetchRequest, TokenStore
from mcptrio.auth.client.credentials import Binding, Credentials, Granted
from mcptrio.auth.client.oauth import OAuth, OAuthClient
from mcptrio.auth.client.registration import PreRegistered, Registered
from mcptrio.auth.urls import resource_metadata_urls, shown
from mcptrio.cli.client.client_settings import VARIABLES, client_settings
from mcptrio.cli.client.credentials import credential_store, http_url
from mcptrio.cli.client.exit_codes import EXIT_CODES, ExitCode
from mcptrio.cli.client.running import Work, run_at_console
from mcptrio.cli.client.signing_in import sign_in
from mcptrio.cli.client.targets import TargetOptions, find_target, read_value
from mcptrio.cli.help_pages import CLICommand, CLIGroup
from mcptrio.cli.param_types import PORT
from mcptrio.cli.terminal.console import Console
from mcptrio.cli.terminal.json_output import json_option
from mcptrio.cli.terminal.terminal import Terminal
from mcptrio.connecting.targets import Endpoint
from mcptrio.errors import AuthorizationError, ConfigError, RequestFailed
from mcptrio.ground.quoting import printable
from mcptrio.ground.secret import Secret
from mcptrio.http.client.address_policy import AddressPolicy
from mcptrio.http.client.fetcher import Fetcher

__all__ = ["command"]

# Revisions with a handshake allow ping before initialize (2025-11-25, basic/lifecycle). Only the status and the
# challenge of the response matter.
_PING: Final = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"})
_HEADERS: Final = {"content-type": "application/json", "accept": "application/json, text/event-stream"}


@click.group("auth", cls=CLIGroup)
def command() -> None:
    """Log in to servers, show your logins, and log out.

    The other commands use these logins. Credentials are stored in a file that only you can read, or in the system's
    keyring.
    """


class _AuthCommand(CLICommand):
    environment = tuple(name for name in VARIABLES if name.endswith("_CREDENTIALS") or "_TLS_" in name)


_Command = partial(command.command, cls=_AuthCommand, epilog=EXIT_CODES)


@_Command("login")
@click.argument("target")
@click.option("--scope", "scopes", multiple=True, metavar="SCOPE", help="Also request this scope; repeat for more.")
@click.option("--client-id", metavar="ID", help="The id of a client that was registered by hand.")
@click.option(
    "--client-secret",
    metavar="@FILE|$NAME",
    help="The secret of that client, in a file or a variable, which hides it from process lists.",
)
@click.option(
    "--issuer", metavar="URL", help="The authorization server of that client; the secret is sent to no other."
)
@click.option(
    "--private-server",
    "private_servers",
    multiple=True,
    metavar="URL",
    help="Allow an authorization server in a private network; others must be public.",
)
@click.option(
    "--port",
    type=PORT,
    default=0,
    metavar="PORT",
    help="The local port to which the browser returns.  [default: any]",
)
@click.option("--no-browser", is_flag=True, help="Only show the URL, and open no browser.")
def login(target: str, client_id: str | None, client_secret: str | None, issuer: str | None, **options: Any) -> None:
    """Log in to a server with the browser.

    TARGET is a URL, FILE.json#NAME, or the name of a server in a file in this folder. Without a terminal, the URL to
    open is printed to standard error, and the command waits for the login.
    """
    # A secret or an issuer without a client would be ignored silently.
    if client_id is None and (client_secret is not None or issuer is not None):
        option = "--issuer" if client_secret is None else "--client-secret"
        raise click.UsageError(f"expected --client-id with --client-secret and --issuer, got {option} without it")
    client = None
    if client_id is not None:
        if client_secret is not None and issuer is None:
            raise click.UsageError(
                "expected --issuer with --client-secret, got none: the server would choose where the secret is sent"
            )
        secret = None if client_secret is None else Secret(read_value("--client-secret", client_secret))
        client = PreRegistered(client_id=client_id, client_secret=secret, issuer=issuer)
    _run(lambda: partial(_log_in, _endpoint(target), credential_store(), client, **options))


@_Command("status")
@click.argument("target", required=False)
@json_option
def status(target: str | None, as_json: bool) -> None:
    """Show your logins with issuer, scopes and expiry, or the login to one server.

    Exit code 1 if there is no login.
    """

    _run(lambda: partial(_status, None if target is None else http_url(_endpoint(target)), credential_store(), as_json))


@_Command("logout")
@click.argument("target")
def logout(target: str) -> None:
    """Delete the login to a server, and revoke it if the authorization server supports that.

    Exit code 1 if there was no login.
    """

    _run(lambda: partial(_log_out, _endpoint(target), credential_store()))


def _run(start: Callable[[], Work]) -> None:
    click.get_current_context().exit(run_at_console(start))


def _endpoint(target: str) -> Endpoint:
    endpoint = find_target(TargetOptions(target=target, settings=client_settings())).target
    if not isinstance(endpoint, Endpoint):
        raise ConfigError("TARGET: expected a server with a URL, got one without; only a server with a URL has a login")
    return endpoint


async def _log_in(
    endpoint: Endpoint,
    store: TokenStore,
    client: PreRegistered | None,
    console: Console,
    terminal: Terminal | None,
    *,
    scopes: tuple[str, ...],
    private_servers: tuple[str, ...],
    port: int,
    no_browser: bool,
) -> int:
    url = http_url(endpoint)
    redirects = sign_in(console, terminal, server=url, port=port, browser=not no_browser)
    oauth = OAuth(redirects=redirects, store=store, scopes=scopes, client=client, private_servers=private_servers)
    fetcher = Fetcher(AddressPolicy.around(url, origins=oauth.named_servers), tls=endpoint.tls)
    await oauth.client_auth(url, fetcher).log_in(await _challenge(fetcher, url))
    credentials = Credentials(store)
    binding = await credentials.binding(url)
    granted = None if binding is None else await credentials.granted(binding)
    # Read back from the store, because every later command depends on it.
    if binding is None or granted is None:
        raise ConfigError(
            "expected a store that keeps credentials, got one that lost them; set MCPTRIO_CLIENT_CREDENTIALS to a file"
        )
    if client is not None:
        # The other commands refresh the tokens as the same client.
        await credentials.keep_client(binding.issuer, Registered(identity=client))
    console.print(console.layout.wrap(_describe_login(binding, granted, time.time()), label=f"logged in to {url}: "))
    return ExitCode.DONE


async def _challenge(fetcher: Fetcher, url: str) -> dict[str, str]:
    """Return the server's challenge for a request without credentials, which may name its metadata and scopes.

    Raises:
        AuthorizationError: The server requires no credentials and has no metadata.
        RequestFailed: The server cannot be reached.
    """
    try:
        response = await fetcher(FetchRequest(url=url, method="POST", headers=_HEADERS, body=_PING))
        if response.status == 401:
            return dict(response.headers)
        got = f"HTTP {response.status}" + ("; check the path of the URL" if response.status == 404 else "")
    except RequestFailed as error:
        # The request was not delivered, so no server at this URL can have metadata.
        if not error.delivered:
            raise
        got = str(error)
    # The server may serve anonymous requests and still support a login.
    for metadata_url in resource_metadata_urls(url):
        if (await fetcher(FetchRequest(url=metadata_url))).status == 200:
            return {}
    raise AuthorizationError(f"{url} requires no login: expected HTTP 401 or protected resource metadata, got {got}")


async def _status(url: str | None, store: TokenStore, as_json: bool, console: Console, _: Terminal | None) -> int:
    credentials, now = Credentials(store), time.time()
    rows = []
    for each in await credentials.servers() if url is None else [url]:
        binding = await credentials.binding(each)
        granted = None if binding is None else await credentials.granted(binding)
        if binding is not None and granted is not None:
            rows.append((each, binding, granted))
    if as_json:
        console.print_json({"logins": [_login_as_json(*row) for row in rows]})
    else:
        for each, binding, granted in rows:
            console.print(console.layout.wrap(_describe_login(binding, granted, now), label=f"{each}: "))
    if not rows:
        # On standard error: standard output contains only logins.
        console.note("not logged in anywhere" if url is None else f"not logged in to {url}")
        return ExitCode.FAILED
    return ExitCode.DONE


async def _log_out(endpoint: Endpoint, store: TokenStore, console: Console, _: Terminal | None) -> int:
    url = http_url(endpoint)
    binding = await Credentials(store).binding(url)
    # The issuer may be in a private network. The user has allowed that at the login.
    issuers = () if binding is None else (binding.issuer,)
    policy = AddressPolicy.around(url, origins=issuers)
    oauth: OAuthClient = OAuth(store=store, private_servers=issuers).client_auth(url, Fetcher(policy, tls=endpoint.tls))
    if not await oauth.log_out():
        console.note(f"not logged in to {url}")
        return ExitCode.FAILED
    console.print(console.layout.wrap(f"logged out of {url}"))
    return ExitCode.DONE


def _login_as_json(url: str, binding: Binding, granted: Granted) -> dict[str, Any]:
    expires = granted.tokens.expires_at
    return {
        "url": url,
        "issuer": binding.issuer,
        "scopes": list(granted.scopes),
        "expires": None if expires is None else datetime.fromtimestamp(expires, UTC).isoformat(timespec="seconds"),
        "renewable": granted.tokens.refresh_token is not None,
        "bound": granted.tokens.scheme == "DPoP",
    }


def _describe_login(binding: Binding, granted: Granted, now: float) -> str:
    # `shown` puts quotation marks around the issuer.
    words = [f"by {shown(binding.issuer)[1:-1]}"]
    words.append(f"scopes {' '.join(granted.scopes)}" if granted.scopes else "no scopes named")
    expires = granted.tokens.expires_at
    if granted.tokens.refresh_token is not None:
        words.append("renewed automatically")
    elif expires is not None:
        until = datetime.fromtimestamp(expires).astimezone().strftime("%Y-%m-%d %H:%M")
        words.append(f"expired at {until}" if expires <= now else f"until {until}")
    if granted.tokens.scheme == "DPoP":
        words.append("bound to a key")
    return printable(", ".join(words))
