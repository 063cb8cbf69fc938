"""The context that every check receives, and helpers that checks share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from hami_core.capability import Capability, Support
from hami_core.doctor.install import config_source, config_text, find, managed_resources, parse_config, served_names
from hami_core.scheduler.pods import node_facts
from hami_core.wire import keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from hami_core.doctor.facts import Facts
    from hami_core.doctor.install import Install, Part
    from hami_core.doctor.objects import Container, Pod
    from hami_core.kube.objects import Node
    from hami_core.model import Device, Family
    from hami_core.plugins import Registration

SHOWN: Final = 5
"""Most objects that one finding names."""


@dataclass(frozen=True)
class Context:
    """The facts, and values derived from them that several checks need."""

    facts: Facts

    @cached_property
    def install(self) -> Install:
        """The programs of the installation, and those beside it."""
        return find(self.facts.pods, self.facts.namespace)

    @cached_property
    def resources(self) -> frozenset[str]:
        """Resource names of the installed vendors, and those that our extender manages."""
        names = {name for family in self.facts.families for name in family.resources.names()}
        return frozenset(names | self._managed())

    @cached_property
    def counts(self) -> frozenset[str]:
        """Resources that count devices; device plugins advertise these to kubelets."""
        return frozenset(family.resources.count for family in self.facts.families if family.resources.count)

    def _managed(self) -> set[str]:
        return {name for _, config in self.configs() for name in managed_resources(config)}

    @cached_property
    def placers(self) -> tuple[Part, ...]:
        """The kube-schedulers that place our pods: in our scheduler's pods, or serving our ``schedulerName``."""
        return tuple(part for part in self.install.kube_schedulers if self._places_ours(part))

    def _places_ours(self, part: Part) -> bool:
        if part in self.install.companions:
            return True
        config = self.config_of(part)
        return isinstance(config, dict) and not self.install.scheduler_names.isdisjoint(served_names(config))

    def configs(self) -> Iterator[tuple[Part, dict[str, Any]]]:
        """Readable configurations of the kube-schedulers that place our pods."""
        for part in self.placers:
            found = self.config_of(part)
            if isinstance(found, dict):
                yield part, found

    def config_of(self, part: Part) -> dict[str, Any] | str:
        """A kube-scheduler's configuration, or a text that says why it is not known."""
        source = config_source(part)
        if source is None or source[0] != "ConfigMap":
            return "--config does not come from a ConfigMap"
        problem = self.facts.config_maps.problem(part.namespace, source[1])
        found = self.facts.config_maps.get(part.namespace, source[1])
        if found is None:
            return problem or f"ConfigMap {part.namespace}/{source[1]} does not exist"
        try:
            return parse_config(config_text(part, found))
        except ValueError as error:
            return f"ConfigMap {part.namespace}/{source[1]}: {error}"

    def config_object(self, part: Part) -> str:
        """Name of the object that holds a kube-scheduler's configuration; the pod's name if that is no ConfigMap."""
        source = config_source(part)
        if source is not None and source[0] == "ConfigMap":
            return f"ConfigMap {part.namespace}/{source[1]}"
        return pod_name(part.pod)

    def agents_on(self, node: str) -> tuple[Part, ...]:
        """Our agents on a node."""
        return tuple(agent for agent in self.install.agents if agent.pod.spec.node_name == node)

    @cached_property
    def nodes_of_hami(self) -> frozenset[str]:
        """Nodes with a pod of HAMi's own device plugin where our agent never ran."""
        theirs = {p.pod.spec.node_name for p in self.install.originals if p.pod.owner.startswith("DaemonSet/")}
        ours = {part.pod.spec.node_name for part in self.install.agents}
        labelled = {
            node.metadata.name
            for node in self.facts.nodes
            if any(key.startswith(keys.AGENT_LABEL_PREFIX) for key in node.metadata.labels)
        }
        return frozenset(theirs - ours - labelled - {""})

    @cached_property
    def registrations(self) -> Mapping[str, Registration]:
        """Node → what the vendors read from the node."""
        vendors = self.facts.vendors
        if vendors is None:
            return {}
        return {node.metadata.name: vendors.register(node_facts(node)) for node in self.facts.nodes}

    @cached_property
    def devices(self) -> Mapping[str, Mapping[str, tuple[Device, ...] | None]]:
        """Node → common word → devices in the node's register; None: the register can't be read."""
        return {node: registration.devices for node, registration in self.registrations.items()}

    @cached_property
    def agent_words(self) -> frozenset[str]:
        """Common words of the families that our agents serve. Other people's device plugins serve the others."""
        vendors = self.facts.vendors.vendors if self.facts.vendors else ()
        named = {agent.setting("vendor") for agent in self.install.agents}
        return frozenset(
            family.word
            for vendor in vendors
            for family in vendor.families
            if vendor.name in named or _has_node_side(family)
        )

    def families_on(self, node: Node) -> tuple[Family, ...]:
        """The families that a node has devices of, by its register, its capacity or a label."""
        return tuple(
            family
            for family in self.facts.families
            if family.register_key in node.metadata.annotations
            or quantity(node.status.capacity.get(family.resources.count)) > 0
            or any(node.metadata.labels.get(key) == value for key, value in family.doctor.node_labels)
        )

    def uses_devices(self, pod: Pod) -> bool:
        """Whether any container requests one of our resources."""
        return any(self.asked(container) for container in pod.spec.all_containers)

    def asked(self, container: Container) -> frozenset[str]:
        """The resources of ours that a container requests."""
        limits, requests = container.resources.limits, container.resources.requests
        return self.resources & {*limits, *requests}

    @cached_property
    def device_pods(self) -> tuple[Pod, ...]:
        """Pods that request our resources and have not ended."""
        return tuple(pod for pod in self.facts.pods if not pod.is_over and self.uses_devices(pod))

    @cached_property
    def device_nodes(self) -> tuple[Node, ...]:
        """Nodes with a register, a device label, our agent, or capacity of our resources."""
        return tuple(node for node in self.facts.nodes if self._has_devices(node))

    def device_label(self, node: Node) -> str:
        """The first label, ``key=value``, that says that the node has devices; empty if there is none."""
        known = [pair for family in self.facts.families for pair in family.doctor.node_labels]
        return next((f"{key}={value}" for key, value in known if node.metadata.labels.get(key) == value), "")

    def _has_devices(self, node: Node) -> bool:
        meta = node.metadata
        registers = {family.register_key for family in self.facts.families if family.register_key}
        if registers & set(meta.annotations) or self.device_label(node) or self.agents_on(meta.name):
            return True
        return any(quantity(node.status.capacity.get(name)) > 0 for name in self.counts)


def _has_node_side(family: Family) -> bool:
    grade = family.capabilities.get(Capability.NODE_AGENT)
    return grade is not None and grade.support in {Support.FULL, Support.PARTIAL}


def quantity(text: str | None) -> int:
    """Parse a number of devices; anything else than a whole number counts as 0."""
    return int(text) if text and text.isdigit() and len(text) < 10 else 0


def pod_name(pod: Pod) -> str:
    """``Pod namespace/name``."""
    return f"Pod {pod.key}"


def some(names: list[str]) -> str:
    """The first names, then how many more there are."""
    rest = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def is_allocated(pod: Pod) -> bool:
    """Whether the pod carries an allocation, ours or HAMi's."""
    return any(keys.is_allocated_key(key) for key in pod.metadata.annotations)
