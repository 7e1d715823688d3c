"""Checks for ``mcptrio plugins doctor``: settings that are missing.

They change nothing and send no requests.
"""

from __future__ import annotations

from collections.abc import Sequence

from mcptrio.errors import ConfigError

from .config import Config

__all__ = ["config_warnings"]


def config_warnings(config: Config) -> Sequence[str]:
    """Return a sentence for each problem that keeps users from getting tokens."""
    from .users import read_users

    if not config.issuer:
        return ["issuer is not set, so there is no authorization server"]
    warnings = []
    if not config.scopes:
        warnings.append("scopes are not set, so no token has the scope that a server may require")
    # Without I/O, so users in a database are not looked for.
    if config.upstream is None and config.ledger is None:
        try:
            users = read_users(config.folder / "users")
        except ConfigError as error:
            warnings.append(str(error))
        else:
            if not users and not config.clients and not config.trusted_issuers:
                warnings.append("no user can log in; add one: python -m mcptrio_authserver user add NAME")
    return warnings
