"""Static MIG: instances that an administrator made are offered as they are, and never made, changed or destroyed.

With ``migStrategy`` ``single`` the scheduler plans them like instances that the agent would make. With ``mixed`` each
one is a slot of a resource such as ``nvidia.com/mig-1g.10gb``, which the kubelet hands out by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hami_core import MigInstance, MigProfile

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from hami_nvidia.nvml_mig import Instance, Profile

NO_INSTANCES: Final = (
    "card is in MIG mode and has no MIG instance that one compute instance fills (administrator: nvidia-smi mig -i "
    "{index} -cgi PROFILE -C)"
)


@dataclass(frozen=True, slots=True)
class Part:
    """An instance that an administrator made, with one compute instance that fills it.

    Attributes:
        profile: Its profile.
        instance: Card, place, UUID and ids.
    """

    profile: Profile
    instance: MigInstance


def parts(
    card: str,
    profiles: Iterable[Profile],
    there: Iterable[Instance],
    uuids: Mapping[tuple[int, int], str],
    hidden: Collection[str],
) -> list[Part]:
    """The instances of a card that can be given to containers, by their places.

    Args:
        card: UUID of the card.
        profiles: The card's profiles.
        there: Instances that are not the agent's.
        uuids: UUIDs of the MIG devices by the ids of GPU instance and compute instance.
        hidden: UUIDs that are not offered.
    """
    by_id = {profile.id: profile for profile in profiles}
    found = []
    for one in there:
        ids = one.id, one.compute[0] if one.filled else -1
        uuid = uuids.get(ids, "")
        if uuid and uuid not in hidden and one.profile in by_id:
            found.append(Part(by_id[one.profile], MigInstance(card, one.placement, uuid, *ids)))
    return sorted(found, key=lambda part: part.instance.placement.start)


def offers(own: Sequence[Part], profiles: Iterable[Profile]) -> tuple[MigProfile, ...]:
    """What a card registers under ``single``: each profile with the places where an instance lies.

    Args:
        own: Its instances.
        profiles: All profiles of the card.
    """
    most = max((profile.sms for profile in profiles), default=1)
    places: dict[str, list[Part]] = {}
    for part in own:
        places.setdefault(part.profile.name, []).append(part)
    return tuple(
        MigProfile(
            name,
            of_name[0].profile.memory_mib,
            -(-of_name[0].profile.sms * 100 // most),
            of_name[0].profile.slices,
            tuple(part.instance.placement for part in of_name),
        )
        for name, of_name in places.items()
    )


def resource(count: str, profile: str) -> str:
    """The resource of a profile under ``mixed``, as NVIDIA's device plugin names it.

    Args:
        count: The resource of whole cards, whose domain is used.
        profile: Name of the profile.
    """
    return f"{count.partition('/')[0]}/mig-{profile.replace('+', '.')}"
