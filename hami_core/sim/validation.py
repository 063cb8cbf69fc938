"""The API server's validation of metadata and of pods' resources.

Only errors that this project's parts can meet are checked: names, label and annotation keys, label values, finalizers,
extended resources. The texts are those of Kubernetes 1.36.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hami_core.errors import WireError
from hami_core.sim.quantity import canonical
from hami_core.sim.resources import NODES, PODS, QUOTAS, Cause, Object, Resource, bad_request, invalid
from hami_core.wire.quantity import parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAME = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_QUANTITY = r"^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
_KEY_TEXT = (
    "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    f"alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME}') "
    "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
)
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    f"'({_NAME})?')"
)
_NAME_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_ANNOTATIONS_MAX = 256 << 10
"""Largest size of all annotations of an object together, in bytes."""


def _key_is_valid(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    domain_ok = not slash or (len(prefix) <= 253 and re.fullmatch(_SUBDOMAIN, prefix) is not None)
    return domain_ok and len(name) <= 63 and re.fullmatch(_NAME, name) is not None


def metadata(resource: Resource, meta: Object, *, patched: bool = False) -> None:
    """Checks name, labels and annotations.

    Raises:
        ApiError: 422 with every cause. A value that is not text gives 400, or 422 if it comes from a patch.
    """
    for part in ("labels", "annotations"):
        found = meta.get(part) or {}
        if not isinstance(found, dict) or not all(isinstance(v, str) for v in found.values()):
            why = f"json: cannot unmarshal into Go struct field ObjectMeta.metadata.{part} of type string"
            if patched:
                raise invalid(resource, "", Cause("patch", f"Invalid value: {why}"))
            kind = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
            raise bad_request(f"{kind}: {why}")
    causes = [*_metadata_causes(meta)]
    if causes:
        raise invalid(resource, str(meta.get("name", "")), *causes)


def _metadata_causes(meta: Object) -> Iterator[Cause]:
    name = str(meta.get("name", ""))
    if len(name) > 253 or not re.fullmatch(_SUBDOMAIN, name):
        yield Cause("metadata.name", f'Invalid value: "{name}": {_NAME_TEXT}')
    for key, value in (meta.get("labels") or {}).items():
        if not _key_is_valid(key):
            yield Cause("metadata.labels", f'Invalid value: "{key}": {_KEY_TEXT}')
        if len(value) > 63 or not re.fullmatch(f"({_NAME})?", value):
            yield Cause("metadata.labels", f'Invalid value: "{value}": {_VALUE_TEXT}')
    annotations: dict[str, str] = meta.get("annotations") or {}
    for key in annotations:
        if not _key_is_valid(key.lower()):
            yield Cause("metadata.annotations", f'Invalid value: "{key}": {_KEY_TEXT}')
    if sum(len(k.encode()) + len(v.encode()) for k, v in annotations.items()) > _ANNOTATIONS_MAX:
        text = f"Too long: may not be more than {_ANNOTATIONS_MAX} bytes"
        yield Cause("metadata.annotations", text, "FieldValueTooLong")


def finalizers(resource: Resource, old: Object, new: Object) -> None:
    """Checks that an object that is being deleted gets no new finalizers.

    Raises:
        ApiError: 422.
    """
    fresh = [f for f in new.get("finalizers") or [] if f not in (old.get("finalizers") or [])]
    if old.get("deletionTimestamp") and fresh:
        listed = ", ".join(f'"{f}"' for f in fresh)
        text = "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers "
        cause = Cause("metadata.finalizers", f"{text}[]string{{{listed}}}", "FieldValueForbidden")
        raise invalid(resource, old["name"], cause)


def quantities(resource: Resource, obj: Object) -> None:
    """Brings the amounts of pods, nodes and quotas into the API server's form: JSON numbers become text.

    Raises:
        ApiError: 400 if an amount is not a quantity.
    """
    for holder, part in _amounts(resource, obj):
        found = holder.get(part)
        if not isinstance(found, dict):
            continue
        try:
            holder[part] = {name: canonical(amount) for name, amount in found.items()}
        except WireError:
            kind = f'{resource.kind} in version "v1" cannot be handled as a {resource.kind}'
            raise bad_request(f"{kind}: quantities must match the regular expression '{_QUANTITY}'") from None


def _amounts(resource: Resource, obj: Object) -> Iterator[tuple[Object, str]]:
    spec, status = obj.get("spec"), obj.get("status")
    if resource is PODS and isinstance(spec, dict):
        for part in ("initContainers", "containers", "ephemeralContainers"):
            for container in spec.get(part) or []:
                resources = container.get("resources") if isinstance(container, dict) else None
                if isinstance(resources, dict):
                    yield from ((resources, "limits"), (resources, "requests"))
    elif resource is NODES and isinstance(status, dict):
        yield from ((status, "capacity"), (status, "allocatable"))
    elif resource is QUOTAS:
        if isinstance(spec, dict):
            yield spec, "hard"
        if isinstance(status, dict):
            yield from ((status, "hard"), (status, "used"))


def quota(resource: Resource, obj: Object) -> None:
    """Checks a quota's amounts, which `quantities` has brought into form.

    Raises:
        ApiError: 422 with every cause.
    """
    causes: list[Cause] = []
    for name, amount in ((obj.get("spec") or {}).get("hard") or {}).items():
        value, where = parse_quantity(amount), f"spec.hard[{name}]"
        if value < 0:
            text = f'Invalid value: "{amount}": must be greater than or equal to 0'
            causes.append(Cause(where, text))
        if "/" in name and not name.startswith("requests.") and value != int(value):
            causes.append(Cause(where, f'Invalid value: "{amount}": must be an integer'))
    if causes:
        raise invalid(resource, str(obj["metadata"].get("name", "")), *causes)


def containers(resource: Resource, pod: Object) -> None:
    """Checks names and resources of a pod's containers, after `strategy.default_pod` has set the requests.

    Raises:
        ApiError: 422 with every cause; 400 if an amount is not a quantity.
    """
    spec, causes = pod["spec"], list[Cause]()
    if not spec.get("containers"):
        causes.append(Cause("spec.containers", "Required value", "FieldValueRequired"))
    if spec.get("ephemeralContainers"):
        causes.append(Cause("spec.ephemeralContainers", "Forbidden: cannot be set on create", "FieldValueForbidden"))
    seen: set[str] = set()
    for part in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(part) or []):
            where = f"spec.{part}[{index}]"
            if not container.get("name"):
                causes.append(Cause(f"{where}.name", "Required value", "FieldValueRequired"))
            elif container["name"] in seen:
                causes.append(Cause(f"{where}.name", f'Duplicate value: "{container["name"]}"', "FieldValueDuplicate"))
            seen.add(container.get("name", ""))
            causes.extend(_resource_causes(resource, f"{where}.resources", container["resources"]))
    if causes:
        raise invalid(resource, pod["metadata"]["name"], *causes)


def ephemeral(resource: Resource, old: Object, pod: Object) -> None:
    """Checks the ephemeral containers of a running pod: they have no resources and never change once added.

    Raises:
        ApiError: 422 with every cause.
    """
    spec, causes, where = pod["spec"], list[Cause](), "spec.ephemeralContainers"
    found = spec["ephemeralContainers"]
    others = {c.get("name") for part in ("initContainers", "containers") for c in spec.get(part) or []}
    for index, container in enumerate(found):
        name = container.get("name")
        if not name:
            causes.append(Cause(f"{where}[{index}].name", "Required value", "FieldValueRequired"))
        elif name in others:
            causes.append(Cause(f"{where}[{index}].name", f'Duplicate value: "{name}"', "FieldValueDuplicate"))
        others.add(name)
        if any((container.get("resources") or {}).values()):
            text = "Forbidden: cannot be set for an Ephemeral Container"
            causes.append(Cause(f"{where}[{index}].resources", text, "FieldValueForbidden"))
    now = {container.get("name"): container for container in found}
    for before in old["spec"].get("ephemeralContainers") or []:
        name = before["name"]
        if now.get(name) != before:
            what = "changed" if name in now else "removed"
            text = f'Forbidden: existing ephemeral containers "{name}" may not be {what}\n'
            causes.append(Cause(where, text, "FieldValueForbidden"))
    if causes:
        raise invalid(resource, pod["metadata"]["name"], *causes)


def _resource_causes(resource: Resource, where: str, resources: Object) -> Iterator[Cause]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for part, found in (("limits", limits), ("requests", requests)):
        for name, amount in found.items():
            try:
                value = parse_quantity(str(amount))
            except WireError:
                kind = f'{resource.kind} in version "v1" cannot be handled as a {resource.kind}'
                text = f"{kind}: quantities must match the regular expression '{_QUANTITY}'"
                raise bad_request(text) from None
            if "/" in name and value != int(value):
                yield Cause(f"{where}.{part}[{name}]", f'Invalid value: "{_canonical(value)}": must be an integer')
    for name, amount in requests.items():
        if "/" not in name:
            continue
        if name not in limits:
            text = "Required value: Limit must be set for non overcommitable resources"
            yield Cause(f"{where}.limits", text, "FieldValueRequired")
        elif parse_quantity(str(amount)) != parse_quantity(str(limits[name])):
            text = f'Invalid value: "{amount}": must be equal to {name} limit of {limits[name]}'
            yield Cause(f"{where}.requests", text)


def _canonical(value: Any) -> str:  # noqa: ANN401 - any type of number that `parse_quantity` returns
    thousandths = value * 1000
    return f"{int(thousandths)}m" if thousandths == int(thousandths) else str(value)
