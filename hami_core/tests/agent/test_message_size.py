"""The list of slots must fit into one gRPC message. The kubelet accepts at most 4 MiB."""

import uuid

from hami_core.agent.kubelet import Offer, SlotService
from hami_core.agent.proto import deviceplugin_pb2 as api

LIMIT = 4 << 20


async def test_sixteen_cards_of_a_hundred_slots_are_a_small_message():
    offer = Offer()
    cards = [f"GPU-{uuid.UUID(int=number)}" for number in range(16)]
    offer.set({f"{card}-{slot}": (True, 1) for card in cards for slot in range(100)})
    service = SlotService("nvidia.com/gpu", offer, binder=None)
    said = await anext(service.ListAndWatch(api.Empty(), None))
    assert len(said.devices) == 1600
    assert len(said.SerializeToString()) < LIMIT / 20
