"""Generated requests: the server admits or refuses each, and admits only valid credentials."""

from __future__ import annotations

import pytest
import trio
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mcptrio.abc import Principal, RequestHead
from mcptrio.auth.dpop import DPoPSigner
from mcptrio.auth.server.certificates import CertificatePrincipals
from mcptrio.auth.server.failures import FailureLimit
from mcptrio.auth.server.issuer_keys import IssuerKeys
from mcptrio.auth.server.jwt_tokens import JWTTokens
from mcptrio.auth.server.resource_options import DPoPRule, ResourceServerOptions
from mcptrio.auth.server.resource_server import ResourceServer
from mcptrio.errors import AuthorizationError
from tests.auth.server_parts import ISSUER, RESOURCE, Issuer
from tests.auth.test_resource_server import Tokens

__all__: list[str] = []

ISSUED = Issuer()
PROVER = DPoPSigner(clock=ISSUED.clock)
BOUND = ISSUED.token(cnf={"jkt": PROVER.thumbprint})
PROOF = PROVER.prove("POST", RESOURCE, token=BOUND)
GUARD = ResourceServer(
    RESOURCE,
    tokens=[
        Tokens({"odd": Principal(subject="odd", claims={"cnf": {"jkt": "x"}})}),
        JWTTokens(
            IssuerKeys(ISSUER, ISSUED, ticks=ISSUED.clock), audience=[RESOURCE], clock=ISSUED.clock, ticks=ISSUED.clock
        ),
    ],
    authorization_servers=[ISSUER],
    options=ResourceServerOptions(
        dpop=DPoPRule(nonces=60),
        certificates=CertificatePrincipals(name="uri"),
        failures=FailureLimit(per_minute=0),
    ),
    clock=ISSUED.clock,
)

latin = st.text(st.characters(max_codepoint=255), max_size=60)
mangled = st.builds(
    lambda text, at, new: text[:at] + new + text[at + len(new) :], st.just(BOUND), st.integers(0), latin
)
tokens = st.one_of(latin, mangled, st.sampled_from([BOUND, "odd"]))
fields = st.one_of(latin, st.builds("{} {}".format, st.sampled_from(["Bearer", "DPoP", "dpop "]), tokens))
proofs = st.lists(
    st.one_of(latin, st.just(PROOF), st.builds(lambda a, b: f"{PROOF[: a % len(PROOF)]}{b}", st.integers(0), latin)),
    max_size=2,
)


@settings(max_examples=150, deadline=None)
@given(
    authorization=st.lists(fields, max_size=2),
    proof=proofs,
    url=st.one_of(st.just(RESOURCE), latin, st.builds("https://{}/mcp".format, latin)),
    query=latin,
    certificate=st.one_of(st.none(), st.binary(max_size=60)),
    address=st.one_of(st.none(), latin),
)
@example(authorization=["DPoP odd"], proof=[PROOF], url="https://[/mcp", query="", certificate=None, address="[")
@example(authorization=[], proof=[], url="", query="%", certificate=b"", address="")
def test_request_without_valid_credentials_is_refused(
    authorization: list[str],
    proof: list[str],
    url: str,
    query: str,
    certificate: bytes | None,
    address: str | None,
) -> None:
    head = RequestHead(
        method="POST",
        url=url,
        headers={"authorization": authorization, "dpop": proof},
        query=query,
        certificate=certificate,
        address=address,
    )
    with pytest.raises(AuthorizationError) as refused:
        trio.run(GUARD.admit, head)

    assert refused.value.status in (400, 401, 403)
    assert (refused.value.challenge or "").isascii()
    assert "\n" not in (refused.value.challenge or "")
    assert all(text.isascii() for text in refused.value.headers.values())
