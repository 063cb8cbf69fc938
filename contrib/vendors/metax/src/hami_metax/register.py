"""Reads the sGPU register, the node annotation in which MetaX's device plugin lists its cards."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from hami_core import Device, WireError
from hami_metax.topology import LINK_ZONE

REGISTER_KEY: Final = "metax-tech.com/node-gpu-devices"
MOST_CARDS: Final = 1024

_Amount = Annotated[int, Field(ge=0, le=2**31 - 1)]
_Word = Annotated[str, Field(max_length=128)]


class _Card(BaseModel):
    """One card. The plugin leaves out zero, false and empty values; older plugins know no policy and no zone."""

    model_config = ConfigDict(frozen=True, strict=True)

    uuid: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,128}$")]
    model: _Word = ""
    slots: Annotated[_Amount, Field(alias="totalDevCount")] = 0
    compute: Annotated[_Amount, Field(alias="totalCompute")] = 0
    memory_mib: Annotated[_Amount, Field(alias="totalVRam")] = 0
    numa: Annotated[int, Field(ge=-1, le=4095)] = 0
    healthy: bool = False
    policy: Annotated[_Word, Field(alias="qosPolicy")] = ""
    zone: Annotated[int, Field(alias="linkZone", ge=-(2**31), le=2**31 - 1)] = 0


_CARDS: Final = TypeAdapter(Annotated[list[_Card], Field(max_length=MOST_CARDS)])


@lru_cache(maxsize=4096)
def read(text: str, family: str) -> tuple[Device, ...]:
    """Decode a register. A card's mode is its QoS policy, as the driver has it.

    Raises:
        WireError: The text is malformed, an amount is out of bounds, or a card is listed twice.
    """
    try:
        cards = _CARDS.validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        position, *names = [*first["loc"], -1]
        at = position if isinstance(position, int) else -1
        field = ".".join(str(name) for name in names if name != -1)
        raise WireError(REGISTER_KEY, at, f"{field}: {first['msg']}".removeprefix(": ")) from None
    seen: set[str] = set()
    for position, card in enumerate(cards):
        if card.uuid in seen:
            raise WireError(REGISTER_KEY, position, f"card {card.uuid!r} is listed twice")
        seen.add(card.uuid)
    return tuple(
        Device(
            id=card.uuid,
            index=position,
            slots=card.slots,
            memory_mib=card.memory_mib,
            cores=card.compute,
            type=card.model or family,
            family=family,
            numa=max(card.numa, 0),
            mode=card.policy,
            healthy=card.healthy,
            custom={LINK_ZONE: card.zone},
        )
        for position, card in enumerate(cards)
    )
