"""A client of revision 2026-07-28 that sends each proof of possession (DPoP) several times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any, Final

import trio

from mcptrio.auth.dpop import DPoPSigner
from tests.replicas.credentials import RESOURCE, Issuer
from tests.replicas.history import Delivery, Proof
from tests.replicas.modern_client import modern_headers, modern_message
from tests.replicas.raw_http import Broken, request
from tests.replicas.trial import REPLY_SECONDS, ROUTER_STATUSES, Trial, refusal

__all__ = ["PROOF_CLIENTS", "ProofClient", "read_runs"]

PROOF_CLIENTS: Final = 2
_PAUSE: Final = 0.5
_REPEAT_SECONDS: Final = (1.0, 5.0)
"""When a proof is sent again: a replica that was killed serves again by then, and another one may have ended."""


class ProofClient:
    """A client that proves possession of its key with DPoP in every request.

    Args:
        issuer: The authorization server that issues its token.
    """

    def __init__(self, trial: Trial, name: str, random: Random, issuer: Issuer) -> None:
        self._trial = trial
        self._name = name
        self._random = random
        self._signer = DPoPSigner()
        self._token = issuer.token(name, self._signer.thumbprint)
        self._ids = 0

    async def run(self) -> None:
        """Send proofs until the trial stops."""
        async with trio.open_nursery() as nursery:
            while not self._trial.is_stopping:
                nursery.start_soon(self._send_repeatedly)
                await self._trial.pause(self._random, _PAUSE)

    async def _send_repeatedly(self) -> None:
        """Send a proof several times at once, so that it reaches several replicas, and once more later."""
        proof = Proof(self._trial.token(self._name))
        self._trial.history.proofs.append(proof)
        self._ids += 1
        message = modern_message(self._ids, "tools/call", {"name": "note", "arguments": {"token": proof.token}})
        headers = {
            **modern_headers(message),
            "Authorization": f"DPoP {self._token}",
            "DPoP": self._signer.prove("POST", RESOURCE, token=self._token),
        }
        async with trio.open_nursery() as nursery:
            for _ in range(self._random.randint(2, 3)):
                nursery.start_soon(self._deliver, proof, headers, message)
        with trio.move_on_after(self._random.uniform(*_REPEAT_SECONDS)):
            await self._trial.stopping.wait()
        await self._deliver(proof, headers, message)

    async def _deliver(self, proof: Proof, headers: Mapping[str, str], message: dict[str, Any]) -> None:
        delivery = Delivery.UNCERTAIN
        try:
            with trio.fail_after(REPLY_SECONDS):
                async with request(self._trial.port, "POST", headers, message) as reply:
                    if reply.status == 200:
                        delivery = Delivery.ACCEPTED
                    elif reply.status == 401:
                        delivery = Delivery.REFUSED
                    elif reply.status not in ROUTER_STATUSES:
                        delivery = Delivery.WRONG
                        proof.wrong.append(await refusal(reply))
        except (Broken, trio.TooSlowError) as error:
            self._trial.failed("proof", error)
        finally:
            # Also if the trial ends now: the request may have been accepted.
            proof.deliveries.append(delivery)
            self._trial.counts[f"proof: {delivery.value}"] += 1


def read_runs(folder: Path, trial: Trial) -> None:
    """Note how often the tool has run for each proof."""
    path = folder / "noted"
    runs = Counter(path.read_text().split() if path.exists() else [])
    for proof in trial.history.proofs:
        proof.runs = runs[proof.token]
