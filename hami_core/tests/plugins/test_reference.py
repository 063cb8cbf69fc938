"""The reference page of hooks agrees with the specifications, and its examples work."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from hami_core import ContainerKind, ContainerSpec, Device, NodeFacts, PodFacts, RequestError, Slice, hookspecs
from hami_core.model import DeviceUsage
from hami_core.plugins.discovery import NODE, VENDORS, Found, Source
from hami_core.plugins.example import Acme
from hami_core.plugins.hooks import HOOKS
from hami_core.plugins.load import assemble
from hami_core.plugins.reference import example, page, signature

DOCS = Path(__file__).parents[3] / "docs"
PAGE = DOCS / "reference" / "hooks.md"


def test_reference_page_is_current():
    command = "python -m hami_core.plugins.reference > docs/reference/hooks.md"
    assert PAGE.read_text("utf-8") == page(), f"run: {command}"


@pytest.mark.parametrize("hook", HOOKS)
def test_every_hook_is_documented_with_its_arguments(hook):
    text = PAGE.read_text("utf-8")
    assert f"## `{hook}`" in text
    assert signature(hook) in text
    doc = inspect.getdoc(getattr(hookspecs, hook))
    assert "When:" in doc
    assert "When it fails:" in doc or "When it fails otherwise:" in doc
    for argument in HOOKS[hook].arguments:
        assert f"- `{argument}`: " in text


def test_the_six_names_of_the_contract_exist():
    frozen = {
        "register": ("node",),
        "check_type": ("request", "kind"),
        "check_uuid": ("request", "device_id"),
        "custom_filter": ("request", "device", "chosen"),
        "patch_annotations": ("pod", "allocation"),
        "allocate": ("slices", "container"),
    }
    assert {name: HOOKS[name].arguments[: len(arguments)] for name, arguments in frozen.items()} == frozen


@pytest.fixture
def acme():
    """Load both sides of the example vendor, as the agent does."""
    sides = [Found(Source("acme", group, "tests", "tests", "0"), Acme) for group in (VENDORS, NODE)]
    loaded = assemble(sides[:1], sides[1:], side="node")
    assert loaded.problems == ()
    return loaded


def test_every_hook_has_an_example_that_loads(acme):
    assert set(acme.vendor("acme").hooks) == set(HOOKS)
    text = PAGE.read_text("utf-8")
    assert [hook for hook in HOOKS if f"**Example**\n\n```python\n{example(hook)}\n```" not in text] == []


def test_examples_of_the_scheduler_side_answer_as_they_say(acme):
    pod = PodFacts("default", "one", "u", {"acme.example/avoid": "A-1"})
    limits = {"acme.example/npu": "2", "acme.example/npu-memory": "1024"}
    [request] = acme.parse(ContainerSpec("main", ContainerKind.APP, limits), pod)
    with pytest.raises(RequestError, match=r"1000 MiB \(write a multiple of 512\)"):
        acme.parse(ContainerSpec("main", ContainerKind.APP, limits | {"acme.example/npu-memory": "1000"}), pod)
    [rules] = acme.rules()
    cards = [Device(f"A-{index}", index, 10, 32768, 100, "Acme-X1", "ACME") for index in range(3)]
    assert rules.check_type(request, cards[0].kind) is None
    assert [rules.check_uuid(request, card.id) is None for card in cards] == [True, False, True]
    assert rules.custom_filter(request, DeviceUsage(cards[0], used_slots=4), ()).code == "TooManyTenants"
    usages = tuple(map(DeviceUsage, reversed(cards)))
    assert rules.choose(request, usages, "spread", usages) == (2, 1)
    assert rules.account(request, DeviceUsage(cards[0]), Slice("A-0", "ACME", 0, 0), ()).code == "NoMemoryAsked"
    mutation = acme.mutate(ContainerSpec("main", ContainerKind.APP, limits), pod)
    assert mutation.env_removed == {"ACME_VISIBLE_DEVICES"}


def test_examples_of_the_node_side_answer_as_they_say(acme):
    vendor = acme.vendor("acme")
    card = Device("A-0", 0, 2, 32768, 100, "Acme-X1", "ACME")
    said = vendor.advertise([card])
    assert set(said.slots["acme.example/npu"]) == {"A-0-0", "A-0-1"}
    assert [device.id for device in acme.register(NodeFacts("n1", said.annotations)).devices["ACME"]] == ["A-0"]
    assert [change.healthy for change in vendor.health([card])] == [False]
