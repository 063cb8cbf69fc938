"""What every check is given, and words they share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

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
    from hami_core.model import Device

SHOWN: Final = 5
"""Most objects a finding names one by one."""


@dataclass(frozen=True)
class Context:
    """Facts, and what follows from them for several checks."""

    facts: Facts

    @cached_property
    def install(self) -> Install:
        """What runs of us and beside us."""
        return find(self.facts.pods, self.facts.namespace)

    @cached_property
    def resources(self) -> frozenset[str]:
        """Extended resources of the vendors served, and what our extender manages."""
        names = {name for family in self.facts.families for name in family.resources.names()}
        return frozenset(names | self._managed())

    @cached_property
    def counts(self) -> frozenset[str]:
        """The resources among them that count devices, which device plugins advertise."""
        return frozenset(family.resources.count for family in self.facts.families if family.resources.count)

    def _managed(self) -> set[str]:
        return {name for _, config in self.configs() for name in managed_resources(config)}

    @cached_property
    def placers(self) -> tuple[Part, ...]:
        """The kube-schedulers that see our pods: those beside our schedulers, and any other that serves their name."""
        return tuple(part for part in self.install.kube_schedulers if self._places_ours(part))

    def _places_ours(self, part: Part) -> bool:
        if part in self.install.companions:
            return True
        config = self.config_of(part)
        return isinstance(config, dict) and not self.install.scheduler_names.isdisjoint(served_names(config))

    def configs(self) -> Iterator[tuple[Part, dict[str, Any]]]:
        """Configurations of the kube-schedulers that see our pods, those that can be read."""
        for part in self.placers:
            found = self.config_of(part)
            if isinstance(found, dict):
                yield part, found

    def config_of(self, part: Part) -> dict[str, Any] | str:
        """A kube-scheduler's configuration, or why it is not known."""
        source = config_source(part)
        if source is None or source[0] != "ConfigMap":
            return "it has no --config from a ConfigMap"
        problem = self.facts.config_maps.problem(part.namespace, source[1])
        found = self.facts.config_maps.get(part.namespace, source[1])
        if found is None:
            return problem or f"there is no ConfigMap {part.namespace}/{source[1]}"
        try:
            return parse_config(config_text(part, found))
        except ValueError as error:
            return f"ConfigMap {part.namespace}/{source[1]}: {error}"

    def config_object(self, part: Part) -> str:
        """Name of the object a kube-scheduler's configuration comes from."""
        source = config_source(part)
        if source is not None and source[0] == "ConfigMap":
            return f"ConfigMap {part.namespace}/{source[1]}"
        return pod_name(part.pod)

    def agents_on(self, node: str) -> tuple[Part, ...]:
        """Our agents on a node."""
        return tuple(agent for agent in self.install.agents if agent.pod.spec.node_name == node)

    @cached_property
    def nodes_of_hami(self) -> frozenset[str]:
        """Nodes that HAMi's own device plugin serves: a pod of its DaemonSet runs there, and our agent never did."""
        theirs = {p.pod.spec.node_name for p in self.install.originals if p.pod.owner.startswith("DaemonSet/")}
        ours = {part.pod.spec.node_name for part in self.install.agents}
        labelled = {
            node.metadata.name
            for node in self.facts.nodes
            if any(key.startswith(keys.AGENT_LABEL_PREFIX) for key in node.metadata.labels)
        }
        return frozenset(theirs - ours - labelled - {""})

    @cached_property
    def devices(self) -> Mapping[str, Mapping[str, tuple[Device, ...] | None]]:
        """Node → common word → devices that it registers; None: they can't be read."""
        vendors = self.facts.vendors
        if vendors is None:
            return {}
        return {node.metadata.name: vendors.register(node_facts(node)).devices for node in self.facts.nodes}

    def uses_devices(self, pod: Pod) -> bool:
        """Whether any container asks for one of our resources."""
        return any(self.asked(container) for container in pod.spec.all_containers)

    def asked(self, container: Container) -> frozenset[str]:
        """Which of our resources a container asks for."""
        limits, requests = container.resources.limits, container.resources.requests
        return self.resources & {*limits, *requests}

    @cached_property
    def device_pods(self) -> tuple[Pod, ...]:
        """Pods that ask for our devices and have not ended."""
        return tuple(pod for pod in self.facts.pods if not pod.is_over and self.uses_devices(pod))

    @cached_property
    def device_nodes(self) -> tuple[Node, ...]:
        """Nodes that have devices, by what they say or by their labels, or run our agent."""
        return tuple(node for node in self.facts.nodes if self._has_devices(node))

    def device_label(self, node: Node) -> str:
        """The label by which a node says that it has devices, ``key=value``; empty: none does."""
        known = [pair for family in self.facts.families for pair in family.doctor.node_labels]
        return next((f"{key}={value}" for key, value in known if node.metadata.labels.get(key) == value), "")

    def _has_devices(self, node: Node) -> bool:
        meta = node.metadata
        registers = {family.register_key for family in self.facts.families if family.register_key}
        if registers & set(meta.annotations) or self.device_label(node) or self.agents_on(meta.name):
            return True
        return any(quantity(node.status.capacity.get(name)) > 0 for name in self.counts)


def quantity(text: str | None) -> int:
    """A whole number of devices; what is none counts as 0."""
    return int(text) if text and text.isdigit() and len(text) < 10 else 0


def pod_name(pod: Pod) -> str:
    """``Pod namespace/name``."""
    return f"Pod {pod.key}"


def some(names: list[str]) -> str:
    """A few names in full, the rest as a number."""
    rest = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def is_allocated(pod: Pod) -> bool:
    """Whether the pod carries an allocation, ours or HAMi's."""
    return any(keys.is_allocated_key(key) for key in pod.metadata.annotations)
