"""Every hook a vendor may implement, in order of time: the vendor author's page.

How it works
    A vendor is one class behind one entry point. Group ``hami.vendors`` is the *scheduler side*: importable
    anywhere, pure functions, no driver library. Group ``hami.node`` is the *node side*: imported by the node agent
    only, may do I/O. A class implements the hooks it wants with `hami_core.hookimpl`, each with the subset of the
    arguments it needs, by name. Group ``hami.plugins`` holds cross-cutting plugins, which may only *wrap*
    (``@hookimpl(wrapper=True)``) and only tighten: a refusal never becomes a yes.

Rules for all hooks
    *Scheduler side* hooks are pure: same input, same answer; no clock, files, sockets or globals; they run on the
    event loop and must return in microseconds. They are called once per *distinct* input, never per node and
    device. *Node side* hooks run in a worker thread with a time limit, may block, and must be idempotent: any call
    may be repeated after a crash.
    A hook that raises `hami_core.errors.RequestError` says "the user's request is wrong" where the table allows
    it. Anything else raised, or a value of the wrong type, is reported with distribution, version, hook and
    arguments, and has the effect named under *When it fails*; the process goes on.

Versions
    `hami_core.API_VERSION` versions this page apart from the package. Arguments and optional hooks may be added in
    a minor version; nothing is removed or re-interpreted without a major one, after a release that warns. A class
    states the version it was written for as ``api_version = (1, 0)``; one of another major is not loaded.
    The six names `register`, `check_type`, `check_uuid`, `custom_filter`, `patch_annotations` and `allocate` are
    frozen.
"""

# Specifications have no bodies.
# mypy: disable-error-code="empty-body"

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pluggy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from pydantic import BaseModel

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
        NodeContext,
        NodeFacts,
        PodFacts,
        Reason,
        Request,
        Sample,
        Slice,
    )

API_VERSION: Final[tuple[int, int]] = (1, 0)
"""Version of the hook contract: (major, minor)."""

hookspec = pluggy.HookspecMarker("hami")
hookimpl = pluggy.HookimplMarker("hami")
"""Marks a method as a hook implementation; re-exported as `hami_core.hookimpl`."""


# --- start ----------------------------------------------------------------------------------------------------


@hookspec(firstresult=True)
def config_model() -> type[BaseModel] | None:
    """Name the pydantic model of the vendor's section in ``device-config.yaml``.

    Optional. When: once, before `families`. Where: scheduler and agent.

    Returns:
        A model class whose ``model_config`` names its section key in ``json_schema_extra={"section": "nvidia"}``,
        or None: the vendor has no section (the default).

    When it fails: the vendor is reported and not loaded.
    """


@hookspec(firstresult=True)
def families(config: Any, node: NodeContext | None) -> Sequence[Family]:  # noqa: ANN401 - the vendor's own model
    """Say what the vendor serves. Required.

    When: exactly once, before every other hook but `config_model`; keep what you need of the arguments on ``self``.

    Args:
        config: An instance of the model named by `config_model`, with its defaults where the file has no such
            section; None where the vendor names no model.
        node: The node that the process serves; None in a process that serves none, such as the scheduler.

    Returns:
        Families, each with its common word, resource names, annotation keys and capabilities. Two vendors that
        claim one word or one resource name are an error naming both; neither is then loaded.

    When it fails: the vendor is reported and not loaded.
    """


# --- a node appears or changes (scheduler side) -----------------------------------------------------------------


@hookspec(firstresult=True)
def register(node: NodeFacts) -> Sequence[Device] | None:
    """List the devices this vendor advertises on a node object. Contract hook.

    When: whenever the node's annotations, labels, capacity or allocatable change; called with each distinct
    content once. May not block.

    Args:
        node: Name, annotations, labels, capacity and allocatable (quantities as strings).

    Returns:
        Devices in registration order (ties between equal devices go to the last one), empty when there are none,
        None when this node is none of the vendor's business. Amounts are MiB and percent.

    Several answers: first. When it fails: the node keeps its last devices, closed to new pods.
    `hami_core.errors.WireError` is the way to say that an annotation is malformed.
    """


# --- a pod is admitted (webhook) -----------------------------------------------------------------------------------


@hookspec(firstresult=True)
def mutate_admission(container: ContainerSpec, pod: PodFacts) -> Mutation | None:
    """Complete what the user wrote for one container. Optional.

    When: at pod creation, for each init container, then each app container, in order; and for each ephemeral container
    that is added to a running pod. An ephemeral one is shown as an app container without limits, and of the answer only
    `env` counts.

    Args:
        container: Name, kind, limits, requests, names of its environment variables.
        pod: Namespace, name, declared annotations, runtime class.

    Returns:
        What to change, or None: the container has nothing to do with this vendor. ``Mutation.env`` is imposed: it
        replaces what the pod wrote under those names. The default answers ``Mutation(uses_devices=True)`` when
        `parse_request` finds a request, or a count of 0 stands beside other amounts.

    May raise `RequestError`: the pod is denied with its text. When it fails otherwise: the pod is denied if the
    container names a resource of the vendor; else the vendor is passed over.
    """


@hookspec(firstresult=True)
def parse_request(container: ContainerSpec, pod: PodFacts, family: Family) -> Request | None:
    """Turn a container's limits into numbers. Optional; the default reads count, memory, percentage and cores.

    When: at admission (quota) and again in Filter and Bind, once per container and family.

    Args:
        container: Its resource maps; limits count, requests where a limit is absent.
        pod: Declared annotations among other things.
        family: The family asked about.

    Returns:
        The request with every amount bounded, or None: nothing asked of this family.

    May raise `RequestError` naming container, resource and fix: the pod is refused with its text. HAMi treats such
    a container as not using the vendor; we refuse. When it fails otherwise: the pod is refused if the container
    names a resource of the vendor; else the vendor is passed over.
    """


# --- Filter and Bind -----------------------------------------------------------------------------------------------


@hookspec
def check_type(request: Request, kind: DeviceKind) -> Reason | None:
    """Say whether devices of a kind may serve a request. Contract hook.

    When: once per request and distinct kind (family, type, mode) in the cluster.

    Args:
        request: Amounts and the declared annotations of the pod.
        kind: Family, model string and mode of the devices.

    Returns:
        None to accept, else the reason, normally ``Reason("CardTypeMismatch")``.

    Several answers: any refusal wins. When it fails: refuses.
    """


@hookspec
def check_uuid(request: Request, device_id: str) -> Reason | None:
    """Say whether this very device may serve a request. Contract hook.

    When: only for pods that carry one of the family's ``uuid_selectors`` keys, once per device.

    Args:
        request: As in `check_type`.
        device_id: The device's id.

    Returns:
        None to accept, else the reason, normally ``Reason("CardUuidMismatch")``.

    Several answers: any refusal wins. When it fails: refuses.
    """


@hookspec
def custom_filter(request: Request, device: DeviceUsage, chosen: tuple[DeviceUsage, ...]) -> Reason | None:
    """A vendor's own rule on one candidate. Contract hook.

    When: with ``chosen=()`` once per distinct device row (device and its sums). A family that declares
    ``depends_on_chosen`` is asked again with the devices already chosen while one node is placed; a device has to pass
    both times. Combinations are tried in the policy's order until one fits or the search gives up; `choose` is the way
    to see all devices at once.

    Args:
        request: As in `check_type`.
        device: The candidate with slots, MiB and percent in use.
        chosen: Devices already taken for this container, in order.

    Returns:
        None to accept, else the reason.

    Several answers: any refusal wins. When it fails: refuses.
    """


@hookspec(firstresult=True)
def fit_mask(request: Request, columns: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """The vectorised twin of `custom_filter` with nothing chosen yet. Optional.

    When: once per container and Filter, in place of `custom_filter`. The conformance kit checks that both agree.

    Args:
        request: As in `check_type`.
        columns: Arrays of one shape ``[card position, node]``: ``total_memory``, ``free_memory``, ``total_cores``,
            ``free_cores``, ``slots``, ``used_slots``, ``numa`` (MiB and percent). Read-only.

    Returns:
        Boolean array of that shape, True where the device may serve, or None to be asked row by row.

    When it fails: refuses every device.
    """


@hookspec(firstresult=True)
def choose(request: Request, candidates: tuple[DeviceUsage, ...], policy: str) -> tuple[int, ...] | Reason | None:
    """Pick one combination among the fitting devices of one node, or refuse them all. Optional (topology).

    When: while one node is placed and at least as many devices fit as are needed; once for each request of a container,
    and under NUMA binding once for each NUMA node until one is taken. A family that declares ``choose_policies`` is
    asked under these policies only.

    Args:
        request: As in `check_type`; ``request.count`` is how many to pick.
        candidates: All devices that fit with nothing chosen yet, in the order the policy would take them. A device
            that may give several slices (MIG) stands there once for each.
        policy: The pod's device policy string.

    Returns:
        Different positions in ``candidates``, exactly ``request.count`` of them. None: take them in order. A reason:
        no combination of them serves; the pod's event shows it. A family that declares ``choose_is_preference`` answers
        no reason.

    When it fails: refuses the candidates; takes them in order where the family declares ``choose_is_preference``.
    """


@hookspec(firstresult=True)
def account(
    request: Request, device: DeviceUsage, piece: Slice, taken: tuple[DeviceUsage, ...]
) -> Slice | Reason | None:
    """Turn a plain slice into what an odd device really gives (a MIG instance). Optional.

    When: for each device chosen, before it is booked, on families where it is implemented.

    Args:
        request: As in `check_type`.
        device: The chosen device with what is in use.
        piece: The slice as it would be booked.
        taken: The node's devices with everything this pod has taken so far.

    Returns:
        The slice to book, a reason to refuse the device, or None: as it is.

    When it fails: refuses the device.
    """


@hookspec(firstresult=True)
def score_node(node: NodeFacts, allocation: Allocation, policy: str) -> float | None:
    """Add to the score of a node that fits. Optional.

    When: for each fitting node that could still be among the best, after it was placed.

    Args:
        node: The node.
        allocation: What the pod would get there.
        policy: Word of the node policy, such as ``binpack``.

    Returns:
        A number in HAMi's scale (the base score runs from 0 to 30), or None for 0.

    When it fails: counts 0.
    """


@hookspec
def patch_annotations(pod: PodFacts, allocation: Allocation) -> Mapping[str, str]:
    """Say what the vendor's node side must find on the pod besides the allocation itself. Contract hook.

    When: at Bind, after the devices were chosen, before the one write. The framework itself writes the families'
    ``allocated_key`` and ``to_allocate_key``, `hami.io/vgpu-node` and the times; this adds the vendor's own keys.

    Args:
        pod: Namespace, name, UID, declared annotations.
        allocation: Node and, per container in HAMi's order, its slices.

    Returns:
        Annotation keys and values; empty when there is nothing to add.

    Several answers: merged; one key twice is an error that names both. When it fails: refuses the Bind.
    """


@hookspec(firstresult=True)
def lock_annotations(node: str, pod: PodFacts) -> Mapping[str, str] | None:
    """Name the node locks the vendor's own node plugin needs. Optional.

    When: at Bind, only for vendors that third-party node plugins serve. A vendor that our agent serves names
    the lock of HAMi's own plugin in ``Family.foreign_lock`` instead, taken on nodes that our agent does not serve.

    Args:
        node: Node name.
        pod: The pod.

    Returns:
        Lock key → protocol (``hami`` = HAMi's `hami.io/mutex.lock` format, ``time`` = a bare RFC 3339 time), or
        None: no lock is taken (the default).

    When it fails: refuses the Bind.
    """


# --- the node side -----------------------------------------------------------------------------------------------


@hookspec(firstresult=True)
def discover() -> Sequence[Device]:
    """Find the devices of this node. Required on the node side.

    When: at agent start, after a driver reload and after a health change. May block up to 30 s.

    Returns:
        Devices with scaling applied (MiB, percent). One broken device is left out or unhealthy; it never hides the
        others. A device that must not be shared as it is says why: `Device.not_offered` (and is unhealthy) or
        `Device.whole_only` (and has one slot).

    When it fails: the last known devices are kept and marked unhealthy, then asked again with back-off.
    """


@hookspec(firstresult=True)
def advertise(devices: Sequence[Device]) -> Advertisement:
    """Say what to write on the node object and which slots to offer to the kubelet. Required on the node side.

    When: after `discover` and after each health change; written only when it changed.

    Args:
        devices: The devices, health applied.

    Returns:
        Annotations and labels for the node, and per resource name the slots with health and NUMA node.

    When it fails: nothing is changed; reported.
    """


@hookspec(firstresult=True)
def allocate(slices: tuple[Slice, ...], container: ContainerRef) -> ContainerEdits:
    """Say what one container needs to see its slices: devices, mounts, environment, limits. Contract hook.

    When: once the container of a slot name is known and its allocation verified, before it starts; again for the
    same container after a crash, a reboot or an upgrade: same input, same answer. Called once with all slices of
    the container. May block up to 10 s.

    Args:
        slices: The container's slices of this vendor, in the order of the allocation.
        container: Pod, container, its limits, the declared annotations.

    Returns:
        The edits. Host paths must exist; nothing in the container is trusted.

    Several answers: first. When it fails: the container is refused at PreStartContainer with the text.
    """


@hookspec(firstresult=True)
def health(devices: Sequence[Device]) -> Sequence[HealthChange]:
    """Tell how devices are now. Optional.

    When: every few seconds from one worker thread. May block up to 10 s.

    Args:
        devices: The devices as last discovered.

    Returns:
        One entry per device whose health is known; devices left out keep theirs. ``rediscover`` asks for `discover` at
        once, since the device is no longer as it was described.

    When it fails: nothing changes; reported.
    """


@hookspec
def release(container: ContainerRef) -> None:
    """Take back what `allocate` set up outside the edits (a MIG instance). Optional.

    When: after the container's pod is gone from API and checkpoint; may be repeated.

    When it fails: repeated with back-off; the device stays booked on the node until it succeeds.
    """


@hookspec
def tend(
    records: Mapping[str, ContainerRef], slices: Mapping[str, tuple[Slice, ...]], region_dirs: Mapping[str, str]
) -> None:
    """Look after running containers: what lies in their regions, what they share. Optional.

    When: every 5 s, one call at a time. May block up to 10 s; does nothing where nothing needs it.

    Args:
        records: Live containers by record id.
        slices: What each of them holds of this vendor, by record id.
        region_dirs: Host folder of each record's region, by record id. Containers write there: nothing in it is
            trusted.

    When it fails: reported; called again next time.
    """


@hookspec
def metrics(records: Mapping[str, ContainerRef], region_dirs: Mapping[str, str]) -> Sequence[Sample]:
    """Measure devices and containers. Optional.

    The plugin's class lists what it measures in ``metric_specs``, a tuple of `hami_core.MetricSpec`: HAMi's names
    where HAMi has one, else names of your own. Samples of other names or labels are refused.

    When: at each scrape, at most once per 5 s.

    Args:
        records: Live containers by record id.
        region_dirs: Host folder of each record's region, by record id.

    Returns:
        Samples of metrics in the table, in the units of their names.

    Several answers: joined. When it fails: those samples are missing from the scrape; reported.
    """
