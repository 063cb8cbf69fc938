"""One loaded vendor: every hook as a typed method with the default, the checks and the failure effect of its spec.

Methods raise `VendorError` (counted and logged already) where the caller decides what a failure means; the
callables of `LoadedVendor.rules` never raise: there a failure is a refusal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from hami_core.errors import VendorError
from hami_core.model import (
    Advertisement,
    Allocation,
    ContainerEdits,
    ContainerRef,
    ContainerSpec,
    Device,
    DeviceKind,
    DeviceUsage,
    Family,
    HealthChange,
    Mutation,
    NodeFacts,
    PodFacts,
    Reason,
    Request,
    Sample,
    Slice,
    VendorRules,
)
from hami_core.plugins import answers, metrics
from hami_core.plugins.answers import Unusable
from hami_core.vendorkit import is_zero_beside_amounts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np

    from hami_core.model import MetricSpec
    from hami_core.plugins.call import HookCall
    from hami_core.plugins.discovery import Source
    from hami_core.plugins.manager import VendorManager

T = TypeVar("T")

FAILED: Final = "VendorPluginFailed"
"""Reason code for a refusal that stands for a failed plugin."""


def declared_keys(families: Sequence[Family]) -> frozenset[str]:
    """Pod annotations the hooks of these families are shown."""
    keys = {key for family in families for key in family.pod_keys}
    for family in families:
        for pair in (*family.uuid_selectors, *family.type_selectors):
            keys |= {pair.use, pair.nouse}
    return frozenset(key for key in keys if key)


@dataclass(frozen=True, slots=True, eq=False)
class LoadedVendor:
    """A vendor ready to be asked.

    Attributes:
        name: Entry-point name.
        source: Who supplies it.
        families: What it serves.
        api_version: The contract version it states.
        manager: Its own pluggy manager: itself, the defaults for what it leaves out, the wrappers.
        calls: Every hook by name.
        metric_specs: What it measures, by metric name.
        keys: Pod annotations its hooks are shown, by common word; those of all its families under "".
    """

    name: str
    source: Source
    families: tuple[Family, ...]
    api_version: tuple[int, int]
    manager: VendorManager
    calls: Mapping[str, HookCall]
    metric_specs: Mapping[str, MetricSpec]
    keys: Mapping[str, frozenset[str]]

    @property
    def distribution(self) -> str:
        """Distribution name."""
        return self.source.distribution

    @property
    def version(self) -> str:
        """Distribution version."""
        return self.source.version

    @property
    def words(self) -> frozenset[str]:
        """The common words it serves."""
        return frozenset(family.word for family in self.families)

    @property
    def hooks(self) -> tuple[str, ...]:
        """Hooks the vendor itself implements, in the order of the spec."""
        return self.manager.implemented_by_vendor

    def shown(self, pod: PodFacts, word: str = "") -> PodFacts:
        """The pod as hooks may see it: only the annotations the family, or any family, declared."""
        keys = self.keys[word]
        annotations = pod.annotations
        if not annotations or annotations.keys() <= keys:
            return pod
        kept = {key: annotations[key] for key in keys if key in annotations}
        return PodFacts(pod.namespace, pod.name, pod.uid, kept, pod.runtime_class)

    # --- scheduler side --------------------------------------------------------------------------------------------

    def register(self, node: NodeFacts) -> tuple[Device, ...] | None:
        """Devices on a node; None: not this vendor's business.

        Raises:
            WireError: The node's annotation is malformed.
            VendorError: The plugin failed.
        """
        return self._optional("register", (node,), lambda answer: answers.devices(answer, self.words))

    def parse_request(self, container: ContainerSpec, pod: PodFacts, family: Family) -> Request | None:
        """What a container asks of one family, None: nothing.

        Raises:
            RequestError: The user's request is wrong.
            VendorError: The plugin failed.
        """
        shown = self.shown(pod, family.word)
        args = (container, shown, family)
        found = self._optional("parse_request", args, lambda answer: answers.request(answer, family.word))
        if found is None or found.annotations is shown.annotations or found.annotations == shown.annotations:
            return found
        return replace(found, annotations=shown.annotations)

    def mutate_admission(self, container: ContainerSpec, pod: PodFacts) -> Mutation | None:
        """What to change on a container at admission.

        Raises:
            RequestError: The pod is to be denied with this text.
            VendorError: The plugin failed; the pod is to be denied.
        """
        if self.calls["mutate_admission"].implemented:
            return self._optional("mutate_admission", (container, self.shown(pod)), answers.mutation)
        return self.default_mutation(container, pod)

    def default_mutation(self, container: ContainerSpec, pod: PodFacts) -> Mutation | None:
        """The answer for a vendor without the hook: change nothing, route a pod that names devices to our scheduler."""
        uses = any(
            self.parse_request(container, pod, family) is not None or is_zero_beside_amounts(container, family)
            for family in self.families
        )
        return Mutation(uses_devices=True) if uses else None

    def patch_annotations(self, pod: PodFacts, allocation: Allocation) -> dict[str, str]:
        """The vendor's own annotations for a pod about to be bound.

        Raises:
            VendorError: The plugin failed; the Bind is to be refused.
        """
        args = (self.shown(pod), allocation)
        merged: dict[str, str] = {}
        for part in self.calls["patch_annotations"](*args):
            got = self._checked("patch_annotations", args, part, answers.strings)
            twice = sorted(merged.keys() & got.keys())
            if twice:
                raise self.calls["patch_annotations"].bad(f"annotation {twice[0]} is answered twice", args)
            merged |= got
        return merged

    def lock_annotations(self, node: str, pod: PodFacts) -> dict[str, str]:
        """Node locks to take at Bind: key → protocol (``hami`` or ``time``).

        Raises:
            VendorError: The plugin failed; the Bind is to be refused.
        """
        args = (node, self.shown(pod))
        locks = self._optional("lock_annotations", args, answers.strings) or {}
        for key, protocol in locks.items():
            if protocol not in {"hami", "time"}:
                raise self.calls["lock_annotations"].bad(
                    f"lock {key} has the protocol {protocol!r}, expected 'hami' or 'time'", args
                )
        return locks

    def rules(self) -> tuple[VendorRules, ...]:
        """One set of placement rules a family; their callables never raise."""
        calls = self.calls
        optional: dict[str, Any] = {}
        if calls["custom_filter"].implemented:
            optional["custom_filter"] = self._refusing("custom_filter")
        # a wrapper that refuses in custom_filter must not be passed by through the vectorised twin
        if calls["fit_mask"].implemented and not calls["custom_filter"].wrapped:
            optional["fit_mask"] = self._fit_mask
        methods = {"account": self._account, "score_node": self._score_node}
        optional |= {hook: method for hook, method in methods.items() if calls[hook].implemented}
        check_type: Callable[[Request, DeviceKind], Reason | None] = self._refusing("check_type")
        check_uuid: Callable[[Request, str], Reason | None] = self._refusing("check_uuid")
        return tuple(
            VendorRules(**self._choosing(family), check_type=check_type, check_uuid=check_uuid, **optional)
            for family in self.families
        )

    def _choosing(self, family: Family) -> dict[str, Any]:
        """The family and how it chooses, as arguments of `VendorRules`."""
        call = self.calls["choose"]
        if not call.implemented:
            return {"family": family}
        if not family.choose_is_preference:
            return {"family": family, "choose": self._choose}
        if call.wrapped:  # a wrapper may refuse: no node is judged without asking it
            return {"family": replace(family, choose_is_preference=False), "choose": self._choose}
        return {"family": family, "choose": self._prefer}

    def _refusing(self, hook: str) -> Any:  # noqa: ANN401 - a callable of the hook's arguments
        """The hook as a callable that answers None or a reason, whatever the plugin does."""
        call = self.calls[hook]
        direct: Callable[..., Any] = call.direct or call

        def checked(answer: object, args: tuple[object, ...]) -> Reason | None:
            try:
                return answers.reason(answer)
            except Unusable as finding:
                return Reason(FAILED, detail=str(call.bad(str(finding), args)))

        def asks(*args: object) -> Reason | None:
            try:
                answer = call(*args)
            except VendorError as error:
                return Reason(FAILED, detail=str(error))
            return checked(answer, args)

        def asks_directly(*args: object) -> Reason | None:
            try:
                answer = direct(*args)
            except BaseException as error:  # noqa: BLE001 - a plugin may raise anything
                return Reason(FAILED, detail=str(call.failed(error, args)))
            return answer if answer is None or type(answer) is Reason else checked(answer, args)

        return asks if call.direct is None else asks_directly

    def _fit_mask(self, request: Request, columns: Mapping[str, np.ndarray]) -> np.ndarray | None:
        args = (request, columns)
        try:
            found: np.ndarray | None = self._optional("fit_mask", args, lambda answer: answers.mask(answer, columns))
        except Exception:  # noqa: BLE001 - reported already; refuses every device
            any_column: np.ndarray = next(iter(columns.values()))
            nothing: np.ndarray = any_column != any_column  # noqa: PLR0124 - all False without importing numpy
            return nothing
        return found

    def _choose(
        self, request: Request, candidates: tuple[DeviceUsage, ...], policy: str
    ) -> tuple[int, ...] | Reason | None:
        try:
            return self._choice((request, candidates, policy), may_refuse=True)
        except Exception as error:  # noqa: BLE001 - reported already; refuses the combination
            return Reason(FAILED, detail=str(error))

    def _prefer(
        self, request: Request, candidates: tuple[DeviceUsage, ...], policy: str
    ) -> tuple[int, ...] | Reason | None:
        try:
            return self._choice((request, candidates, policy), may_refuse=False)
        except Exception:  # noqa: BLE001 - reported already; in order, since every combination serves
            return None

    def _choice(
        self, args: tuple[Request, tuple[DeviceUsage, ...], str], *, may_refuse: bool
    ) -> tuple[int, ...] | Reason | None:
        request, candidates, _ = args
        return self._optional(
            "choose", args, lambda answer: answers.choice(answer, request.count, candidates, may_refuse=may_refuse)
        )

    def _account(
        self, request: Request, device: DeviceUsage, plain: Slice, taken: tuple[DeviceUsage, ...]
    ) -> Slice | Reason:
        args = (request, device, plain, taken)
        try:
            found = self._optional("account", args, lambda answer: answers.piece(answer, plain))
        except Exception as error:  # noqa: BLE001 - reported already; refuses the device
            return Reason(FAILED, device=plain.device_id, detail=str(error))
        return plain if found is None else found

    def _score_node(self, node: NodeFacts, allocation: Allocation, policy: str) -> float:
        try:
            return self._optional("score_node", (node, allocation, policy), answers.number) or 0.0
        except Exception:  # noqa: BLE001 - reported already; counts nothing
            return 0.0

    # --- node side -------------------------------------------------------------------------------------------------

    def discover(self) -> tuple[Device, ...]:
        """Devices of this node.

        Raises:
            VendorError: The plugin failed; the last devices stay, marked unhealthy.
        """
        return self._required("discover", (), lambda answer: answers.devices(answer, self.words))

    def advertise(self, devices: Sequence[Device]) -> Advertisement:
        """What to write on the node object and which slots to offer.

        Raises:
            VendorError: The plugin failed; nothing is to be changed.
        """
        return self._required("advertise", (devices,), answers.advertisement)

    def allocate(self, slices: tuple[Slice, ...], container: ContainerRef) -> ContainerEdits:
        """What one container needs to see its slices.

        Raises:
            VendorError: The plugin failed; the container is to be refused.
        """
        return self._required("allocate", (slices, container), answers.edits)

    def health(self, devices: Sequence[Device]) -> tuple[HealthChange, ...]:
        """Devices' health where it is known; empty when the vendor does not watch it.

        Raises:
            VendorError: The plugin failed; nothing changes.
        """
        found = self._optional("health", (devices,), lambda answer: answers.sequence(answer, HealthChange))
        return found or ()

    def release(self, container: ContainerRef) -> None:
        """Take back what `allocate` set up outside the edits.

        Raises:
            VendorError: The plugin failed; to be repeated.
        """
        self.calls["release"](container)

    def tend(
        self,
        records: Mapping[str, ContainerRef],
        slices: Mapping[str, tuple[Slice, ...]],
        region_dirs: Mapping[str, str],
    ) -> None:
        """Look after running containers.

        Raises:
            VendorError: The plugin failed; called again next time.
        """
        self.calls["tend"](records, slices, region_dirs)

    def metrics(self, records: Mapping[str, ContainerRef], region_dirs: Mapping[str, str]) -> tuple[Sample, ...]:
        """Samples of devices and containers.

        Raises:
            VendorError: The plugin failed; its samples are missing from this scrape.
        """
        args = (records, region_dirs)
        found: list[Sample] = []
        for part in self.calls["metrics"](*args):
            found += self._checked("metrics", args, part, lambda answer: metrics.samples(answer, self.metric_specs))
        return tuple(found)

    # --- checks ----------------------------------------------------------------------------------------------------

    def _optional(self, hook: str, args: tuple[Any, ...], check: Callable[[Any], T]) -> T | None:
        answer = self.calls[hook](*args)
        return None if answer is None else self._checked(hook, args, answer, check)

    def _required(self, hook: str, args: tuple[Any, ...], check: Callable[[Any], T]) -> T:
        return self._checked(hook, args, self.calls[hook](*args), check)

    def _checked(self, hook: str, args: tuple[Any, ...], answer: object, check: Callable[[Any], T]) -> T:
        try:
            return check(answer)
        except Unusable as finding:
            raise self._bad(hook, str(finding), args) from None
        except Exception as error:
            # an answer of the right type whose own attributes or length raise
            raise self._bad(hook, f"{type(error).__name__}: {error}", args) from error

    def _bad(self, hook: str, problem: str, args: tuple[Any, ...]) -> VendorError:
        return self.calls[hook].bad(problem, args)
