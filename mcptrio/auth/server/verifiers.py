"""Routing a token to the verifier that knows it.

The resource server passes each token on to one of its verifiers. A verifier recognizes its own tokens by their prefix
or by the issuer that they name, and no other verifier sees such a token: an issuer could use another issuer's token.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from mcptrio.abc import Principal, TokenVerifier
from mcptrio.auth.jose import named_issuer
from mcptrio.errors import AuthorizationError, Overloaded

__all__ = ["Verifiers"]


@frozen
class Verifiers:
    """
    Args:
        verifiers: to choose from. If none recognizes a token, those that cannot tell are asked in this order.
    """

    verifiers: Sequence[TokenVerifier]

    async def verify(self, token: str) -> Principal | None:
        """Return the principal of a token, or ``None`` if no verifier knows the token.

        Raises:
            AuthorizationError: the token is genuine but not accepted; the message may be sent to the client.
            Overloaded: a verifier cannot decide now.
        """
        unsure: Overloaded | None = None
        rejected: AuthorizationError | None = None
        for verifier in self._for_token(token):
            try:
                principal = await verifier.verify(token)
            except Overloaded as error:
                unsure = unsure or error
            except AuthorizationError as error:
                rejected = rejected or error
            else:
                if principal is not None:
                    return principal
        if rejected is not None:
            raise rejected
        if unsure is not None:
            raise unsure
        return None

    def _for_token(self, token: str) -> Sequence[TokenVerifier]:
        issuer = named_issuer(token)
        answers = [(verifier.is_own(token, issuer), verifier) for verifier in self.verifiers]
        own = [verifier for is_own, verifier in answers if is_own]
        return own or [verifier for is_own, verifier in answers if is_own is None]
