"""The vendor as the core loads it: registers, requests, dies of one card, mutex, and scores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from hami_core.errors import RequestError
from hami_core.inventory import Inventory, PolicyDefaults
from hami_core.model import Allocation, ContainerKind, ContainerSpec, NodeFacts, PodFacts, Request
from hami_core.placement.request import pod_request
from hami_core.plugins import load

COUNT = "vastaitech.com/va"
POD = PodFacts("ns", "p", "u")


def loaded(**section: object):
    found = load({"vastai": section} if section else {}, only=["vastai"])
    assert not found.problems
    return found


def node(name: str, *cards: int, count: int = 1, offered: str = "1", **more: object) -> NodeFacts:
    """A node in die mode with so many dies on each card. Without cards: four whole cards."""
    dies = [(card, die) for card, size in enumerate(cards) for die in range(size)]
    entries = [
        {"id": f"{card}-{die}", "index": i, "custominfo": {"DeviceStrategy": "die", "AIC": str(card)}}
        for i, (card, die) in enumerate(dies)
    ] or [{"id": f"{i}-0", "index": i} for i in range(4)]
    register = [{"count": count, "devmem": 32768, "type": "Vastai", "health": True, **one, **more} for one in entries]
    return NodeFacts(name, {"hami.io/node-va-register": json.dumps(register)}, {}, {COUNT: "9"}, {COUNT: offered})


class Cluster:
    """Webhook, Filter and Bind on some nodes."""

    def __init__(self, *nodes: NodeFacts, node_policy: str = "binpack") -> None:
        self.found = loaded()
        self.inventory = Inventory(self.found.rules(), PolicyDefaults(node_policy=node_policy))
        self.names = [one.name for one in nodes]
        for one in nodes:
            self.inventory.set_node(one, self.found.register(one).devices)
        self._pods = 0

    def place(self, *counts: int, policy: str = "binpack", **annotations: str) -> tuple[str, list[list[str]]] | str:
        """Node and devices of each container of a pod, or the refusals."""
        self._pods += 1
        uid = f"u{self._pods}"
        specs = [ContainerSpec(f"c{i}", ContainerKind.APP, {COUNT: str(n)}) for i, n in enumerate(counts)]
        keys = {f"vastaitech.com/{key}-gpuuuid": value for key, value in annotations.items()}
        keys["hami.io/gpu-scheduler-policy"] = policy
        wanted = pod_request(uid, "ns", uid, specs, keys, self.found.parse)
        outcome = self.inventory.filter(wanted, self.names)
        if not outcome.best:
            return " ".join(map(str, dict(outcome.refused).values()))
        booked = self.inventory.book(wanted, outcome.best[0][0])
        assert isinstance(booked, Allocation)
        return booked.node, [[piece.device_id for piece in pieces] for pieces in booked.of("Vastai")]

    def cards(self, *counts: int, policy: str = "binpack") -> list[str]:
        """The card of each die that a pod of one container gets."""
        placed = self.place(*counts, policy=policy)
        assert not isinstance(placed, str), placed
        return sorted(die.split("-")[0] for dies in placed[1] for die in dies)


# --- registers and requests ------------------------------------------------------------------------------------------


def test_devices_have_all_cores_whatever_the_register_says():
    found = loaded().register(node("n1", 2, devcore=7)).devices["Vastai"]
    assert [(d.id, d.cores, d.memory_mib, d.type, d.healthy) for d in found] == [
        ("0-0", 100, 32768, "Vastai", True),
        ("0-1", 100, 32768, "Vastai", True),
    ]


@pytest.mark.parametrize("text", ["", ":", "{}", '[{"id":""}]', '[{"id":"a","count":-1}]', '[{"id":"a"},{"id":"a"}]'])
def test_a_malformed_register_closes_the_node_and_names_its_key(text):
    found = loaded().register(NodeFacts("n1", {"hami.io/node-va-register": text}))
    assert found.devices["Vastai"] is None
    assert "hami.io/node-va-register" in str(found.errors[0])


def test_a_register_of_an_older_plugin_has_devices_without_memory():
    text = '[{"id":"7-0-batch-0","count":1,"type":"Vastai","health":true,"devicepairscore":{}}]'
    facts = NodeFacts("n1", {"hami.io/node-va-register": text}, {}, {COUNT: "1"}, {COUNT: "1"})
    assert Cluster(facts).place(1) == ("n1", [["7-0-batch-0"]])


def test_devices_are_refused_while_the_kubelet_offers_none():
    (text,) = {d.not_offered for d in loaded().register(node("n1", offered="0")).devices["Vastai"]}
    assert text == f"the kubelet offers no {COUNT}"
    assert "CardNotHealth" in Cluster(node("n1", offered="0")).place(1)
    assert "CardNotHealth" in Cluster(node("n1", health=False)).place(1)


def test_a_request_is_a_count_and_books_no_memory():
    spec = ContainerSpec("c", ContainerKind.APP, {COUNT: "2"})
    assert loaded().parse(spec, POD) == (Request("Vastai", 2, 0, None, 0),)


@pytest.mark.parametrize("amount", ["-1", "1.5", "16Gi", "x"])
def test_admission_refuses_wrong_counts_by_name(amount):
    with pytest.raises(RequestError, match=r"container c: vastaitech\.com/va: "):
        loaded().mutate(ContainerSpec("c", ContainerKind.APP, {COUNT: amount}), POD)


def test_containers_share_a_device_as_often_as_registered():
    cluster = Cluster(node("n1", count=2))
    assert cluster.place(4) == ("n1", [["3-0", "2-0", "1-0", "0-0"]])
    assert not isinstance(cluster.place(4), str)
    assert "CardTimeSlicingExhausted" in cluster.place(1)


@pytest.mark.parametrize(("key", "ids"), [("use", "1-0"), ("nouse", "0-0,2-0,3-0")])
def test_devices_are_chosen_by_annotation(key, ids):
    assert Cluster(node("n1")).place(1, **{key: ids}) == ("n1", [["1-0"]])


# --- dies ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "count", "cards"),
    [
        ((3, 2, 1), 3, "000"),
        ((1, 2, 3), 3, "222"),
        ((3, 2, 1), 4, "0001"),
        ((3, 2, 1), 5, "00011"),
        ((2, 2), 3, "001"),
        ((2, 3), 2, "11"),
        ((3, 2, 1), 6, "000112"),
    ],
)
@pytest.mark.parametrize("policy", ["binpack", "spread", "mutex", "numa,mutex"])
def test_dies_are_taken_from_the_card_with_most_free_dies(sizes, count, cards, policy):
    got = Cluster(node("n1", *sizes)).cards(count, policy=policy)
    sizes_got, wanted = (sorted(map(one.count, set(one))) for one in (got, list(cards)))
    assert sizes_got == wanted


def test_more_dies_than_the_node_has_are_refused():
    assert isinstance(Cluster(node("n1", 2, 1)).place(5), str)


def test_dies_without_a_card_are_taken_in_order():
    facts = node("n1", 3, custominfo={"DeviceStrategy": "die"})
    placed = Cluster(facts).place(2)
    assert placed == ("n1", [["0-2", "0-1"]])


@pytest.mark.parametrize("policy", ["mutex", "mutex,numa", "binpack, mutex"])
def test_mutex_closes_cards_of_which_a_die_is_in_use(policy):
    cluster = Cluster(node("n1", 2, 2))
    used = cluster.cards(1)
    assert cluster.cards(1, policy=policy) != used
    assert "ExclusiveDeviceAllocateConflict" in cluster.place(1, policy=policy)
    assert not isinstance(cluster.place(2), str), "without mutex the idle dies are given"


def test_mutex_says_why_idle_dies_are_not_given():
    cluster = Cluster(node("n1", 2))
    cluster.place(1)
    wanted = pod_request(
        "x",
        "ns",
        "x",
        [ContainerSpec("c", ContainerKind.APP, {COUNT: "1"})],
        {"hami.io/gpu-scheduler-policy": "mutex"},
        cluster.found.parse,
    )
    assert "1 idle dies are on cards of which another die is in use" in cluster.inventory.explain_text(wanted, "n1")


def test_mutex_on_whole_cards_asks_for_idle_cards_only():
    cluster = Cluster(node("n1", count=2))
    cluster.place(3)
    assert cluster.place(1, policy="mutex") == ("n1", [["0-0"]])
    assert "ExclusiveDeviceAllocateConflict" in cluster.place(1, policy="mutex")


# --- scores ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["binpack", "spread"])
@pytest.mark.parametrize("order", [1, -1])
def test_a_node_with_all_dies_on_one_card_wins_under_every_policy(policy, order):
    nodes = [node("a-scattered", 1, 1, 1), node("b-one-card", 3)][::order]
    placed = Cluster(*nodes, node_policy=policy).place(3)
    assert placed[0] == "b-one-card"


def test_whole_cards_are_not_scored():
    assert Cluster(node("a-cards"), node("b-cards")).place(2)[0] == "a-cards"


# --- device-config and examples --------------------------------------------------------------------------------------


def test_the_resource_name_is_a_setting():
    (family,) = loaded(resourceCountName="a.b/va").families.values()
    assert (family.resources.count, family.offered_resource) == ("a.b/va", "a.b/va")


def test_the_example_pods_fit():
    examples = Path(__file__).parents[3] / "examples" / "vastai.yaml"
    for pod in yaml.safe_load_all(examples.read_text()):
        counts = [c["resources"]["limits"][COUNT] for c in pod["spec"]["containers"]]
        annotations = pod["metadata"].get("annotations", {})
        policy = annotations.get("hami.io/gpu-scheduler-policy", "binpack")
        nouse = annotations.get("vastaitech.com/nouse-gpuuuid", "")
        placed = Cluster(node("n1", 4, 2)).place(*counts, policy=policy, nouse=nouse)
        assert not isinstance(placed, str), placed
