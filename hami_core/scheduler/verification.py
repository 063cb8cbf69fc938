"""Checks the signature of every live pod's allocation, in the background.

An allocation without our signature counts all the same, because the pod takes room in any case. HAMi's own
pods have no signature, and ignoring them would give their room to other pods. A missing or invalid signature is
reported, and an agent in mode ``required`` does not start the pod's containers.
"""

from __future__ import annotations

import asyncio
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Final

import structlog

from hami_core.errors import WireError
from hami_core.wire import keys
from hami_core.wire.signature import statement_of, verify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hami_core.kube.objects import Pod
    from hami_core.model import Family
    from hami_core.scheduler.keyring import Keyring

log = structlog.get_logger(__name__)

BATCH_SIGNATURES: Final = 10
"""Signatures checked before requests are served again. One check takes 0.2 ms."""


class SignatureProblem(StrEnum):
    """Why an allocation is not known to be ours."""

    UNSIGNED = "unsigned"
    """It has no signature: HAMi's scheduler wrote it, or somebody bypassed the scheduler."""
    INVALID = "invalid"
    """Its signature is not ours, or belongs to another allocation."""


class Verification:
    """Checks signatures of live pods' allocations.

    Args:
        keyring: Keys whose signatures count. Without keys, now and in future, nothing is checked.
        families: Families served.
        pod: ``namespace/name`` → the pod as it is now; None: it is gone.
        on_invalid: Called once for each pod with an invalid signature, with the problem.
    """

    def __init__(
        self,
        keyring: Keyring,
        families: Mapping[str, Family],
        pod: Callable[[str], Pod | None],
        on_invalid: Callable[[Pod, str], None],
    ) -> None:
        self._keyring = keyring
        self._families = families
        self._pod = pod
        self._on_invalid = on_invalid
        self._due: dict[str, None] = {}
        self._wake = asyncio.Event()
        self.problems: dict[str, SignatureProblem] = {}
        """UID of a live pod → why its allocation is not known to be ours."""

    def see(self, old: Pod | None, pod: Pod) -> None:
        """Queue a new or changed allocation for a check."""
        if self._keyring.verifies and (old is None or old.metadata.annotations != pod.metadata.annotations):
            self._due[pod.key] = None
            self._wake.set()

    def see_all(self, pods: Iterable[Pod]) -> None:
        """Queue all these pods for a check, because the keys changed."""
        self._due |= dict.fromkeys(pod.key for pod in pods)
        self._wake.set()

    def forget(self, uid: str) -> None:
        """Forget a pod that ended or was deleted."""
        self.problems.pop(uid, None)

    async def run(self) -> None:
        """Check until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self._keyring.ready.wait()
            while self._due:
                for key in list(islice(self._due, BATCH_SIGNATURES)):
                    del self._due[key]
                    pod = self._pod(key)
                    if pod is not None and not pod.is_terminal and pod.spec.node_name:
                        self._check(pod)
                await asyncio.sleep(0)

    def _check(self, pod: Pod) -> None:
        text = pod.metadata.annotations.get(keys.SIGNATURE, "")
        if not text:
            self.problems[pod.uid] = SignatureProblem.UNSIGNED
            return
        try:
            statement = statement_of(pod.uid, pod.metadata.annotations, self._families.values())
            verify(self._keyring.public, text, statement)
        except WireError as error:
            if self.problems.get(pod.uid) is not SignatureProblem.INVALID:
                log.warning("an allocation is not signed by us but counts all the same", pod=pod.key, error=str(error))
                self._on_invalid(pod, str(error))
            self.problems[pod.uid] = SignatureProblem.INVALID
        else:
            self.problems.pop(pod.uid, None)
