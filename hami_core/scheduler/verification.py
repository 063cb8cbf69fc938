"""Whose allocations are counted: every live pod's signature is checked, beside the requests and not in their way.

An allocation without our signature counts all the same. What runs takes room whatever is written about it, and
HAMi's own pods have no signature; not to count them would give their room away. It is on_invalid, and an agent in mode
``required`` starts nothing for it.
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
"""Signatures checked (0.2 ms each) before requests get their turn."""


class SignatureProblem(StrEnum):
    """Why an allocation is not known to be ours."""

    UNSIGNED = "unsigned"
    """It has no signature: HAMi's own, or written round us."""
    INVALID = "invalid"
    """It has one that is not ours, or that belongs to another allocation."""


class Verification:
    """Checks signatures of live pods' allocations.

    Args:
        keyring: Keys whose signatures count; where there are none and none will come, nothing is checked.
        families: Families served.
        pod: The pod as it is now, by ``namespace/name``; None: gone.
        on_invalid: Called once for each pod with an invalid signature, with what is wrong.
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
        """UID of each live pod whose allocation is in doubt."""

    def see(self, old: Pod | None, pod: Pod) -> None:
        """An allocation came or changed: have it checked."""
        if self._keyring.verifies and (old is None or old.metadata.annotations != pod.metadata.annotations):
            self._due[pod.key] = None
            self._wake.set()

    def see_all(self, pods: Iterable[Pod]) -> None:
        """The keys changed: have all of these checked again."""
        self._due |= dict.fromkeys(pod.key for pod in pods)
        self._wake.set()

    def forget(self, uid: str) -> None:
        """The pod ended or is gone."""
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
                log.warning(
                    "an allocation is not signed by us, it is counted all the same", pod=pod.key, error=str(error)
                )
                self._on_invalid(pod, str(error))
            self.problems[pod.uid] = SignatureProblem.INVALID
        else:
            self.problems.pop(pod.uid, None)
