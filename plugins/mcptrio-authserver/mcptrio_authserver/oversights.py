"""What an operator may have forgotten: a sentence for each.

Asked by ``mcptrio plugins doctor``.
The one rule: nothing is changed, and nothing is asked of other machines.
"""

from __future__ import annotations

from collections.abc import Sequence

from mcptrio.errors import ConfigError

from .config import Config

__all__ = ["find_oversights"]


def find_oversights(config: Config) -> Sequence[str]:
    """What is missing before anybody gets a token."""
    from .users import read_users

    if not config.issuer:
        return ["issuer is not set, so there is no authorization server"]
    found = []
    if not config.scopes:
        found.append("scopes are not set, so no token is good for anything that asks for one")
    if config.upstream is None:
        try:
            users = read_users(config.folder / "users")
        except ConfigError as error:
            found.append(str(error))
        else:
            if not users and not config.clients and not config.trusted_issuers:
                found.append("nobody can log in: python -m mcptrio_authserver user add NAME")
    return found
