"""``mcptrio token``: manages the access tokens of a team without an identity provider, in a file of hashes.

A token is printed only once, when it is created. Standard output contains nothing else.

Exit codes: 0 done; 1 the token does not exist, or already exists; 2 invalid usage or configuration.
"""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click
from attrs import asdict, evolve

from mcptrio.auth.server.static_tokens import StaticToken, make_token, parse_tokens, read_tokens, tokens_text
from mcptrio.cli.help_pages import CLIGroup
from mcptrio.cli.install.files import Original
from mcptrio.cli.install.files import read as read_file
from mcptrio.cli.server.config_options import default_config
from mcptrio.cli.terminal.json_output import json_option, print_json
from mcptrio.cli.terminal.layout import TerminalLayout
from mcptrio.errors import ConfigError
from mcptrio.ground.quoting import printable, quote_name

__all__ = ["command"]

_MODE: Final = 0o600
_DURATION: Final = re.compile(r"([0-9]{1,6})([mhdwy])")
_UNITS: Final = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400, "y": 365 * 86400}
_NEVER: Final = "never"


@click.group("token", cls=CLIGroup)
def command() -> None:
    """Create, list and revoke access tokens, for a team without an identity provider."""


_file_option = click.option(
    "--file",
    "path",
    type=click.Path(path_type=Path),
    help="The file of tokens.  [default: auth.tokens in mcptrio.toml]",
)


def _duration(ctx: click.Context, parameter: click.Parameter, text: str) -> int | None:
    if text == _NEVER:
        return None
    match = _DURATION.fullmatch(text)
    if match is None or not int(match[1]):
        raise click.BadParameter(f"expected a number and one of m, h, d, w, y, such as 90d, or never; got {text!r}")
    return int(match[1]) * _UNITS[match[2]]


@command.command("new")
@click.argument("name")
@click.option("--subject", metavar="SUBJECT", help="The subject of the token.  [default: NAME]")
@click.option("--scope", "scopes", multiple=True, metavar="SCOPE", help="A scope of the token; repeat for more.")
@click.option(
    "--expires",
    default="90d",
    show_default=True,
    callback=_duration,
    metavar="TIME",
    help="Expire after this time, such as 30m, 12h, 90d or 1y; or never.",
)
@_file_option
@json_option
def new(
    name: str,
    subject: str | None,
    scopes: tuple[str, ...],
    expires: int | None,
    as_json: bool,
    path: Path | None,
) -> None:
    """Create a token called NAME, and print it once.

    Its hash is added to the file, which is created if missing. A server that uses the file accepts the token within a
    second.
    """
    file = _token_file(path)
    original, tokens = _load(file)
    if any(each.name == name for each in tokens):
        raise click.ClickException(
            f"{file}: token {quote_name(name)} already exists; revoke it first, or choose another name"
        )
    now = time.time()
    try:
        token, stored = make_token(
            name,
            subject=subject or name,
            scopes=scopes,
            created=now,
            expires=None if expires is None else now + expires,
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    _save(original, [*tokens, stored])
    if as_json:
        print_json({"token": token, "file": str(file), **_values(stored)})
    else:
        click.echo(token)
    # Standard output contains only the token, so that a script can capture it.
    click.echo(f"{file}: added {name}, {_until(stored, now)}; the token is not shown again", err=True)


@command.command("list")
@_file_option
@json_option
def list_all(as_json: bool, path: Path | None) -> None:
    """List the tokens: name, subject, scopes and expiry."""
    tokens, now = read_tokens(_token_file(path)), time.time()
    if as_json:
        print_json({"tokens": [_values(each) for each in tokens]})
        return
    rows = [(each.name, each.subject, " ".join(each.scopes) or "-", _until(each, now)) for each in tokens]
    if rows:
        cells = [[printable(cell) for cell in row] for row in rows]
        click.echo(TerminalLayout.of_stdout().table((), cells))


@command.command("revoke")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@_file_option
def revoke(names: tuple[str, ...], path: Path | None) -> None:
    """Remove tokens from the file. A server that uses the file refuses them within a second."""
    file = _token_file(path)
    original, tokens = _load(file)
    existing = {each.name for each in tokens}
    if missing := [name for name in names if name not in existing]:
        raise click.ClickException(
            f"{file}: there is no token {quote_name(missing[0])}; `mcptrio token list` shows the tokens"
        )
    _save(original, [each for each in tokens if each.name not in names])
    click.echo(f"{file}: revoked {', '.join(dict.fromkeys(names))}", err=True)


def _token_file(path: Path | None) -> Path:
    if path is not None:
        return path
    config = default_config()
    setting = (config.auth or {}).get("tokens")
    if not isinstance(setting, str) or not setting:
        raise ConfigError("expected the file of tokens: pass --file PATH, or set tokens in [auth] of mcptrio.toml")
    return config.resolve_path(str(Path(setting).expanduser()))


def _load(path: Path) -> tuple[Original, list[StaticToken]]:
    original = read_file(path)
    return original, [] if original.data is None else parse_tokens(path, original.data)


def _save(original: Original, tokens: list[StaticToken]) -> None:
    # replace() fails if another process has changed the file since _load(). Otherwise a token that was revoked in the
    # meantime would be valid again.
    evolve(original, mode=_MODE).replace(tokens_text(tokens).encode())


def _values(token: StaticToken) -> dict[str, Any]:
    values = {key: value for key, value in asdict(token).items() if key != "hash"}
    for key in ("created", "expires"):
        if values[key] is not None:
            values[key] = datetime.fromtimestamp(values[key], UTC).isoformat(timespec="seconds")
    return values


def _until(token: StaticToken, now: float) -> str:
    if token.expires is None:
        return "does not expire"
    day = datetime.fromtimestamp(token.expires, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"valid until {day}" if token.expires > now else f"expired {day}"
