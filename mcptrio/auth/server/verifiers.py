"""Selection of the verifier for a token.

The resource server passes each token to one of its verifiers.
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
    """The token verifiers of a resource server.

    Args:
        verifiers: The verifiers. If none recognizes a token, those that cannot tell are tried in this order.
    """

    verifiers: Sequence[TokenVerifier]

    async def verify(self, token: str) -> Principal | None:
        """Return the principal of a token, or ``None`` if no verifier knows the token.

        Raises:
            AuthorizationError: The token is genuine but not accepted; the message may be sent to the client.
            Overloaded: A verifier cannot decide now.
        """
        unsure: Overloaded | None = None
        rejected: AuthorizationError | None = None
        for verifier in self._for_token(token):
            try:
                principal = await verifier.verify(token)
            except Overloaded as error:
                # An issuer that is unreachable must not stop the verification of another issuer's tokens.
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
        # A verifier recognizes its tokens by their prefix or issuer, and no other verifier receives them: an issuer
        # could use a token of another issuer.
        issuer = named_issuer(token)
        answers = [(verifier.is_own(token, issuer), verifier) for verifier in self.verifiers]
        own = [verifier for is_own, verifier in answers if is_own]
        return own or [verifier for is_own, verifier in answers if is_own is None]
