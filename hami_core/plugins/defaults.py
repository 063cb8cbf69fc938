"""Default implementations of the hooks that a vendor leaves out: HAMi's rules, from `hami_core.vendorkit`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hami_core import vendorkit
from hami_core.hookspecs import hookimpl
from hami_core.model import Mutation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hami_core.model import (
        ContainerSpec,
        Device,
        DeviceKind,
        Family,
        NodeFacts,
        PodFacts,
        Reason,
        Request,
    )


class Defaults:
    """Default hooks for one vendor's families.

    Args:
        families: The vendor's families.
    """

    parse: Callable[[ContainerSpec, PodFacts, Family], Request | None]
    """The vendor's `parse_request`; set when the vendor is complete."""

    def __init__(self, families: Sequence[Family]) -> None:
        self._families = {family.word: family for family in families}

    @hookimpl
    def register(self, node: NodeFacts) -> list[Device] | None:
        """Read devices from each family's register annotation, as HAMi's agents write it in JSON."""
        lists = [vendorkit.read_json_register(node, family) for family in self._families.values()]
        present = [devices for devices in lists if devices is not None]
        return [device for devices in present for device in devices] if present else None

    @hookimpl
    def parse_request(self, container: ContainerSpec, pod: PodFacts, family: Family) -> Request | None:
        """Read count, memory, percentage and cores from the container's limits."""
        return vendorkit.default_parse_request(container, pod, family)

    @hookimpl
    def mutate_admission(self, container: ContainerSpec, pod: PodFacts) -> Mutation | None:
        """Say that the container uses devices if it asks for some, or writes a count of 0 beside other amounts."""
        uses = any(
            self.parse(container, pod, family) is not None or vendorkit.is_zero_beside_amounts(container, family)
            for family in self._families.values()
        )
        return Mutation(uses_devices=True) if uses else None

    @hookimpl
    def check_type(self, request: Request, kind: DeviceKind) -> Reason | None:
        """Apply HAMi's use and nouse annotations for device types."""
        return vendorkit.default_check_type(request, kind, self._families[request.family])

    @hookimpl
    def check_uuid(self, request: Request, device_id: str) -> Reason | None:
        """Apply HAMi's use and nouse annotations for device ids."""
        return vendorkit.default_check_uuid(request, device_id, self._families[request.family])
