"""A made-up vendor that implements every hook in a few lines: the examples on the reference page of hooks.

Its devices give memory in steps of 512 MiB. To write a vendor, copy ``contrib/template`` instead.
"""

# ruff: noqa: D102 - the page shows each hook's text above its example
from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from hami_core import (
    Advertisement,
    Allocation,
    ContainerEdits,
    ContainerRef,
    ContainerSpec,
    Device,
    DeviceKind,
    DeviceNode,
    DeviceUsage,
    Family,
    HealthChange,
    MetricSpec,
    Mutation,
    NodeFacts,
    PodFacts,
    Reason,
    Request,
    RequestError,
    Resources,
    Sample,
    SelectorKeys,
    Slice,
    hookimpl,
)
from hami_core.vendorkit import default_parse_request, read_json_register
from hami_core.vendorkit.node import encode_devices_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

MEMORY_STEP_MIB = 512


class AcmeConfig(BaseModel):
    """The section ``acme`` of device-config.yaml."""

    model_config = ConfigDict(json_schema_extra={"section": "acme"})

    count: str = "acme.example/npu"
    memory: str = "acme.example/npu-memory"


class Acme:
    """Both sides in one class; a real vendor keeps the node side in a module of its own."""

    api_version = (1, 0)
    metric_specs = (MetricSpec.gauge("hami_acme_containers", "Containers with an Acme slice."),)

    @hookimpl
    def config_model(self) -> type[AcmeConfig]:
        return AcmeConfig

    @hookimpl
    def families(self, config: AcmeConfig) -> list[Family]:
        self._family = Family(
            word="ACME",
            resources=Resources(config.count, config.memory),
            allocated_key="hami.io/acme-devices-allocated",
            register_key="hami.io/node-acme-register",
            pod_keys=("acme.example/model",),
            uuid_selectors=(SelectorKeys(use="", nouse="acme.example/avoid"),),
        )
        return [self._family]

    @hookimpl
    def register(self, node: NodeFacts) -> Sequence[Device] | None:
        return read_json_register(node, self._family)

    @hookimpl
    def mutate_admission(self, container: ContainerSpec) -> Mutation | None:
        if self._family.resources.count not in container.limits:
            return None
        return Mutation(uses_devices=True, env_removed=frozenset({"ACME_VISIBLE_DEVICES"}))

    @hookimpl
    def parse_request(self, container: ContainerSpec, pod: PodFacts, family: Family) -> Request | None:
        request = default_parse_request(container, pod, family)
        if request is not None and request.memory_mib % MEMORY_STEP_MIB:
            problem = f"{request.memory_mib} MiB"
            fix = f"write a multiple of {MEMORY_STEP_MIB}"
            raise RequestError(f"container {container.name}", family.resources.memory, problem, fix)
        return request

    @hookimpl
    def check_type(self, request: Request, kind: DeviceKind) -> Reason | None:
        wanted = request.annotations.get("acme.example/model", kind.type)
        return None if kind.type == wanted else Reason("CardTypeMismatch", detail=kind.type)

    @hookimpl
    def check_uuid(self, request: Request, device_id: str) -> Reason | None:
        avoided = request.annotations.get("acme.example/avoid", "").split(",")
        return Reason("CardUuidMismatch", device_id) if device_id in avoided else None

    @hookimpl
    def custom_filter(self, device: DeviceUsage) -> Reason | None:
        return Reason("TooManyTenants", device.device.id) if device.used_slots >= 4 else None

    @hookimpl
    def fit_mask(self, columns: Mapping[str, np.ndarray]) -> np.ndarray | None:
        return columns["used_slots"] < 4  # the rule of custom_filter, applied to all devices at once

    @hookimpl
    def choose(self, request: Request, candidates: tuple[DeviceUsage, ...]) -> tuple[int, ...] | None:
        positions = sorted(range(len(candidates)), key=lambda position: candidates[position].device.index)
        return tuple(positions[: request.count])

    @hookimpl
    def account(self, piece: Slice) -> Slice | Reason | None:
        return Reason("NoMemoryAsked", piece.device_id) if piece.memory_mib == 0 else None

    @hookimpl
    def score_node(self, node: NodeFacts) -> float | None:
        return 1.0 if node.labels.get("acme.example/fast-link") == "true" else None

    @hookimpl
    def patch_annotations(self, allocation: Allocation) -> dict[str, str]:
        devices = [piece.device_id for pieces in allocation.of("ACME") for piece in pieces]
        return {"acme.example/devices": ",".join(devices)}

    @hookimpl
    def lock_annotations(self) -> dict[str, str] | None:
        return {"acme.example/node-lock": "hami"}

    @hookimpl
    def discover(self) -> list[Device]:
        folders = sorted(Path("/sys/class/acme").glob("acme[0-9]*"))
        return [
            Device((folder / "uuid").read_text().strip(), index, 10, 32768, 100, "Acme-X1", "ACME")
            for index, folder in enumerate(folders)
        ]

    @hookimpl
    def advertise(self, devices: Sequence[Device]) -> Advertisement:
        register = encode_devices_json(devices)
        slots = {f"{d.id}-{k}": (d.healthy, d.numa) for d in devices for k in range(d.slots)}
        return Advertisement({self._family.register_key: register}, slots={self._family.resources.count: slots})

    @hookimpl
    def allocate(self, slices: tuple[Slice, ...]) -> ContainerEdits:
        limits = ",".join(str(piece.memory_mib) for piece in slices)
        nodes = tuple(DeviceNode(f"/dev/acme/{piece.device_id}") for piece in slices)
        return ContainerEdits(env={"ACME_MEMORY_LIMITS_MIB": limits}, device_nodes=nodes)

    @hookimpl
    def health(self, devices: Sequence[Device]) -> list[HealthChange]:
        return [HealthChange(d.id, Path(f"/dev/acme/{d.id}").exists()) for d in devices]

    @hookimpl
    def release(self, container: ContainerRef) -> None:
        Path(f"/run/acme/{container.pod_uid}-{container.container}").unlink(missing_ok=True)

    @hookimpl
    def tend(self, region_dirs: Mapping[str, str]) -> None:
        for folder in region_dirs.values():
            Path(folder, "seen").touch()

    @hookimpl
    def metrics(self, records: Mapping[str, ContainerRef]) -> list[Sample]:
        return [Sample("hami_acme_containers", {}, float(len(records)))]
