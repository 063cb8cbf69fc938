"""Every hook that a vendor may implement, in the order in which they are called.

Entry points
    A vendor is one class behind one entry point. Group ``hami.vendors`` is the *scheduler side*: any machine can
    import it, its hooks are pure functions, and it loads no driver library. Group ``hami.node`` is the *node side*:
    only the node agent imports it, and it may do I/O. A class marks its hooks with `hami_core.hookimpl`. Each hook
    takes the arguments that it needs, by name. Group ``hami.plugins`` is for plugins that apply to all vendors. They
    can only *wrap* hooks (``@hookimpl(wrapper=True)``), and they can only tighten: a refusal never becomes a yes.

Rules for all hooks
    Hooks of the *scheduler side* are pure: the same input gives the same answer, without clock, files, sockets or
    globals. They run on the event loop and must return within microseconds. The scheduler calls them once for each
    *distinct* input, not once for each node and device.
    Hooks of the *node side* run in a worker thread with a time limit and may block. They must be idempotent: after a
    crash, the agent may repeat any call.

Failures
    Some hooks may raise `hami_core.errors.RequestError`, which says that the user's request is wrong. Any other
    exception, and an answer of the wrong type, is reported with distribution, version, hook and arguments. *When it
    fails* names its effect. The process goes on.

Versions
    `hami_core.API_VERSION` is the version of this contract, independent of the package's version. A minor version may
    add arguments and optional hooks. Only a major version removes or changes anything, after a release that warns.
    A class states the version that it was written for as ``api_version = (1, 0)``; a class of another major version
    is not loaded.
    The names `register`, `check_type`, `check_uuid`, `custom_filter`, `patch_annotations` and `allocate` are frozen.
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
    """Name the pydantic model that describes the vendor's section of ``device-config.yaml``. Optional.

    When: once, before `families`, in the scheduler and in the agent.

    Returns:
        A model class whose ``model_config`` names the section, as in ``json_schema_extra={"section": "nvidia"}``.
        None, the default: the vendor has no section.

    When it fails: the vendor is reported and not loaded.
    """


@hookspec(firstresult=True)
def families(config: Any, node: NodeContext | None) -> Sequence[Family]:  # noqa: ANN401 - the vendor's own model
    """Say which kinds of device the vendor serves. Required.

    When: exactly once, after `config_model` and before every other hook. Keep on ``self`` what later hooks need of
    the arguments.

    Args:
        config: An instance of the model that `config_model` named, filled with the model's defaults if the file has
            no such section. None if the vendor names no model.
        node: The node that this process serves. None in the scheduler, which serves no node.

    Returns:
        Families, each with its common word, resource names, annotation keys and capabilities. If two vendors claim
        one word, one resource name or one allocation key, neither is loaded, and an error names both.

    When it fails: the vendor is reported and not loaded.
    """


# --- a node appears or changes (scheduler side) -----------------------------------------------------------------


@hookspec(firstresult=True)
def register(node: NodeFacts) -> Sequence[Device] | None:
    """List the vendor's devices on a node. Contract hook.

    When: whenever the node's annotations, labels, capacity or allocatable change, once for each distinct content. It
    may not block.

    Args:
        node: Name, annotations, labels, capacity and allocatable, with quantities as strings.

    Returns:
        Devices in registration order, with memory in MiB and cores in percent. Of two equally good devices, placement
        takes the later one. An empty sequence: the node has none of the vendor's devices. None: the node does not
        concern the vendor.

    Raise `hami_core.errors.WireError` for a malformed annotation.

    When it fails: the node keeps its last known devices, and no new pods get them.
    """


# --- a pod is admitted (webhook) -----------------------------------------------------------------------------------


@hookspec(firstresult=True)
def mutate_admission(container: ContainerSpec, pod: PodFacts) -> Mutation | None:
    """Complete what the user wrote for one container. Optional.

    When: at pod creation, for each init container in order, then for each app container. Also when an ephemeral
    container is added to a running pod. It is shown as an app container without limits, and only `env` of the answer is
    applied to it.

    Args:
        container: Name, kind, limits, requests and names of its environment variables.
        pod: Namespace, name, declared annotations and runtime class.

    Returns:
        What to change. None: the container has nothing to do with this vendor. ``Mutation.env`` replaces what the pod
        wrote under those names. The default answers ``Mutation(uses_devices=True)`` if `parse_request` finds a
        request, or if the container writes a count of 0 beside other amounts.

    May raise `RequestError`: the pod is denied with its text. When it fails otherwise: the pod is denied if the
    container names one of the vendor's resources. If not, the vendor is skipped.
    """


@hookspec(firstresult=True)
def parse_request(container: ContainerSpec, pod: PodFacts, family: Family) -> Request | None:
    """Turn a container's limits into numbers. Optional; the default reads count, memory, percentage and cores.

    When: at admission, for the quota, and again in Filter and Bind; once for each container and family.

    Args:
        container: Its resource maps. A resource without a limit is read from the requests.
        pod: Namespace, name, declared annotations and runtime class.
        family: The family whose resources are read.

    Returns:
        The request, with every amount within its bounds. None: the container asks nothing of this family.

    May raise `RequestError` that names container, resource and fix: the pod is refused with its text. HAMi, however,
    schedules such a container as if it used no device. When it fails otherwise: the pod is refused if the container
    names one of the vendor's resources. If not, the vendor is skipped.
    """


# --- Filter and Bind -----------------------------------------------------------------------------------------------


@hookspec
def check_type(request: Request, kind: DeviceKind) -> Reason | None:
    """Say whether devices of one kind may serve a request. Contract hook.

    When: once for each request and each distinct kind (family, type, mode) in the cluster.

    Args:
        request: Amounts, and the pod's declared annotations.
        kind: Family, model and mode of the devices.

    Returns:
        None to accept, else the reason, normally ``Reason("CardTypeMismatch")``.

    Several answers: any refusal wins. When it fails: devices of this kind are refused.
    """


@hookspec
def check_uuid(request: Request, device_id: str) -> Reason | None:
    """Say whether one particular device may serve a request. Contract hook.

    When: only for pods that carry one of the annotations in the family's ``uuid_selectors``. It is called once for each
    device that these annotations name, and once for all other devices together. If the family declares
    ``exact_uuid_selectors=False``, it is called for each device.

    Args:
        request: As in `check_type`.
        device_id: The device's id.

    Returns:
        None to accept, else the reason, normally ``Reason("CardUuidMismatch")``.

    Several answers: any refusal wins. When it fails: the device is refused.
    """


@hookspec
def custom_filter(request: Request, device: DeviceUsage, chosen: tuple[DeviceUsage, ...]) -> Reason | None:
    """Apply the vendor's own rule to one candidate device. Contract hook.

    When: once for each distinct pair of a device and what is booked on it, with ``chosen=()``. If the family declares
    ``depends_on_chosen``, also while a node is placed, with the devices already chosen. A device must pass both calls.
    Combinations are tried in the policy's order until one fits or the search gives up. To see all devices at once, use
    `choose`.

    Args:
        request: As in `check_type`.
        device: The candidate, with the slots, MiB and percent in use.
        chosen: Devices already taken for this container, in order.

    Returns:
        None to accept, else the reason.

    Several answers: any refusal wins. When it fails: the device is refused.
    """


@hookspec(firstresult=True)
def fit_mask(request: Request, columns: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """Answer `custom_filter` with nothing chosen for all devices at once. Optional.

    When: once for each container and Filter, instead of `custom_filter`. The conformance kit checks that both agree.

    Args:
        request: As in `check_type`.
        columns: Read-only arrays, all of the shape ``[card position, node]``: ``total_memory``, ``free_memory``,
            ``total_cores``, ``free_cores``, ``slots``, ``used_slots`` and ``numa``. Memory is in MiB, cores in percent.

    Returns:
        A boolean array of that shape, True where the device may serve. None: `custom_filter` is asked about each
        device.

    When it fails: every device is refused.
    """


@hookspec(firstresult=True)
def choose(
    request: Request, candidates: tuple[DeviceUsage, ...], policy: str, devices: tuple[DeviceUsage, ...]
) -> tuple[int, ...] | Reason | None:
    """Pick a combination of a node's fitting devices, or refuse all combinations. Optional, for topology.

    When: while a node is placed, if at least as many devices fit as the request needs; once for each request of a
    container. Under NUMA binding, once for each NUMA node until a combination is taken. If the family declares
    ``choose_policies``, only under these policies.

    Args:
        request: As in `check_type`; ``request.count`` is the number of devices to pick.
        candidates: All devices that fit with nothing chosen yet, in the policy's order. A device that can give several
            slices (MIG) is listed once for each of them.
        policy: The pod's device policy.
        devices: All devices of the family on the node, also those that do not fit, with what is in use.

    Returns:
        Exactly ``request.count`` different positions in ``candidates``. None: the devices are taken in order. A reason:
        no combination serves, and the pod's event shows the reason. A family that declares ``choose_is_preference``
        must not answer a reason.

    When it fails: the candidates are refused; under ``choose_is_preference`` they are taken in order.
    """


@hookspec(firstresult=True)
def account(
    request: Request, device: DeviceUsage, piece: Slice, taken: tuple[DeviceUsage, ...]
) -> Slice | Reason | None:
    """Turn a plain slice into what the device can really give, such as a MIG instance. Optional.

    When: for each chosen device, before it is booked, in families whose vendor implements the hook.

    Args:
        request: As in `check_type`.
        device: The chosen device, with what is in use.
        piece: The slice that would be booked without this hook.
        taken: The devices already chosen for the same container, with what was in use before.

    Returns:
        The slice to book, or a reason to refuse the device. None: ``piece`` is booked unchanged.

    When it fails: the device is refused.
    """


@hookspec(firstresult=True)
def score_node(node: NodeFacts, allocation: Allocation, policy: str, devices: tuple[DeviceUsage, ...]) -> float | None:
    """Add to the score of a node on which the pod fits. Optional.

    When: for each fitting node that can still become one of the best by the family's ``score_bound``, after the pod was
    placed on it. Not for pods whose containers all ask for fewer devices than the family's ``scored_from``.

    Args:
        node: The node.
        allocation: What the pod would get there.
        policy: The node policy. Under ``spread`` the node with the smallest score wins, under all others the largest.
        devices: The node's devices of the vendor's families that the pod asks for, with what was in use before.

    Returns:
        A number on HAMi's scale, on which the base score runs from 0 to 30. None counts as 0.

    When it fails: 0 is added.
    """


@hookspec
def patch_annotations(pod: PodFacts, allocation: Allocation) -> Mapping[str, str]:
    """Name the annotations that the vendor's node side needs on the pod, besides the allocation. Contract hook.

    When: at Bind, after the devices were chosen and before the pod is written, once. The framework itself writes the
    families' ``allocated_key`` and ``to_allocate_key``, `hami.io/vgpu-node` and the times.

    Args:
        pod: Namespace, name, UID and declared annotations.
        allocation: The node, and the slices of each container in HAMi's order.

    Returns:
        Annotation keys and values; empty if there is nothing to add.

    Several answers: all are written; if two vendors answer one key, an error names both. When it fails: the Bind is
    refused.
    """


@hookspec(firstresult=True)
def lock_annotations(node: str, pod: PodFacts) -> Mapping[str, str] | None:
    """Name the node locks that the vendor's own node plugin needs. Optional.

    When: at Bind. Most vendors leave this hook out and name their plugin's lock in ``Family.foreign_lock``, which is
    taken on nodes without our agent. The hook is for locks that depend on the node or the pod.

    Args:
        node: Name of the node.
        pod: The pod.

    Returns:
        Lock key → protocol. ``hami`` is HAMi's `hami.io/mutex.lock` format, ``time`` a bare RFC 3339 time. None, the
        default: no lock is taken.

    When it fails: the Bind is refused.
    """


# --- the node side -----------------------------------------------------------------------------------------------


@hookspec(firstresult=True)
def discover() -> Sequence[Device]:
    """Find the devices of this node. Required on the node side.

    When: at agent start, every 60 s, and after each change of health. May block up to 30 s.

    Returns:
        Devices with scaling applied, memory in MiB and cores in percent. Leave a broken device out or mark it
        unhealthy; it must not hide the others. A device that cannot be shared says why: in `Device.not_offered` (then
        it is unhealthy) or in `Device.whole_only` (then it has one slot).

    When it fails: at start, the agent tries again with back-off; `ConfigError` ends it, since an administrator has to
    correct something. Later it keeps the devices that it knows, marks them unhealthy, and tries again within 60 s.
    """


@hookspec(firstresult=True)
def advertise(devices: Sequence[Device]) -> Advertisement:
    """Say what to write on the node object and which slots to offer to the kubelet. Required on the node side.

    When: after `discover` and after each change of health. Only differences are written.

    Args:
        devices: The devices, with their health.

    Returns:
        Annotations and labels for the node (a label of None is removed); and for each resource name the slots, with
        health and NUMA node.

    When it fails: the node keeps what was last written, and the failure is reported.
    """


@hookspec(firstresult=True)
def allocate(slices: tuple[Slice, ...], container: ContainerRef) -> ContainerEdits:
    """Say what one container needs to use its slices: devices, mounts, environment, limits. Contract hook.

    When: before the container starts, once its allocation has been verified. It gets all slices of the container in one
    call. The call is repeated for the same container after a crash, a reboot or an upgrade; the same input must give
    the same answer. May block up to 10 s.

    Args:
        slices: The container's slices of this vendor, in the order of the allocation.
        container: Pod, container, its limits and the declared annotations.

    Returns:
        What to add to the container. Host paths must exist. Do not trust anything inside the container.

    May raise `DeviceError` that names what is missing and the fix: PreStartContainer refuses the container with that
    text.
    When it fails otherwise: the text also names the plugin, its version and the arguments.
    """


@hookspec(firstresult=True)
def health(devices: Sequence[Device]) -> Sequence[HealthChange]:
    """Report the present health of devices. Optional.

    When: every few seconds (``--health-interval``), one call at a time. May block up to 10 s.

    Args:
        devices: The devices as last discovered.

    Returns:
        One entry for each device whose health is known. Devices without an entry keep their health. Set ``rediscover``
        if a device no longer matches its description: `discover` is then called at once.

    When it fails: every device keeps its health, and the failure is reported.
    """


@hookspec
def release(container: ContainerRef) -> None:
    """Undo what `allocate` did on the node outside the container, such as making a MIG instance. Optional.

    When: once the container's pod has ended, and again after the pod is gone from the API server and from the kubelet's
        checkpoint. It may be repeated. After a restart of the agent, it may come before `discover`.

    Args:
        container: The container that has ended.

    When it fails: it is repeated until it succeeds.
    """


@hookspec
def tend(
    records: Mapping[str, ContainerRef], slices: Mapping[str, tuple[Slice, ...]], region_dirs: Mapping[str, str]
) -> None:
    """Look after running containers, for example after what they share. Optional.

    When: 5 s after the last call has returned, and before a container starts. May block up to 10 s. A start waits for
    0.5 s at most, so it should return at once if nothing needs to be done.

    Args:
        records: Live containers by record id. Those of pods that have ended are left out.
        slices: The slices of this vendor that each of them holds, by record id.
        region_dirs: Host folder of each container's region, by record id. Containers write there: do not trust the
            content.

    When it fails: the failure is reported, and the next call comes as usual.
    """


@hookspec
def metrics(records: Mapping[str, ContainerRef], region_dirs: Mapping[str, str]) -> Sequence[Sample]:
    """Measure devices and containers. Optional.

    The plugin's class lists its metrics in ``metric_specs``, a tuple of `hami_core.MetricSpec`. Use HAMi's name where
    HAMi has one. Samples with other names or labels are refused.

    When: at a scrape, at most once in 5 s.

    Args:
        records: Live containers by record id. With agent setting ``--mode=adopt`` they include containers that HAMi's
            device plugin served before the migration.
        region_dirs: Host folder of each container's region, by record id.

    Returns:
        Samples of the metrics in the table, in the units of their names.

    Several answers: all samples are served. When it fails: the scrape lacks these samples, and the failure is reported.
    """
