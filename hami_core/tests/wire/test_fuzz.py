"""Valid samples with random damage: every decoder answers or raises its own kind of error, and no other."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hami_nvidia import rules

from hami_core.errors import ConfigError, RequestError, WireError
from hami_core.model import ContainerKind, ContainerSpec, Family, PodFacts, Resources
from hami_core.vendorkit import default_parse_request, parse_lock
from hami_core.wire import extender, keys, mig, node, pod, quantity, reasons, signature

if TYPE_CHECKING:
    from collections.abc import Callable

FAMILY = Family("NVIDIA", Resources("n", "mem", "pct", "cores"), rules.ALLOCATED)
CONTAINERS = [("a", ContainerKind.INIT), ("b", ContainerKind.APP)]
PRIVATE = signature.generate_private_key()
STATEMENT = signature.SignedStatement("uid", "n1", {"k": "v"}, epoch=3)
PEM = signature.public_key_pem(PRIVATE.public_key()).decode()

RESERVED = (
    '[{"containerIndex":1,"deviceIndex":0,"gpuUUID":"GPU-a","profile":"2g.10gb","placement":{"start":0,"size":2},'
    '"migUUID":"MIG-a","gpuInstanceID":4,"computeInstanceID":0}]'
)
REGISTER = (
    '[{"id":"GPU-a","index":1,"count":10,"devmem":81920,"devcore":100,"type":"NVIDIA H200","numa":1,"mode":"mig",'
    '"migProfiles":[{"name":"1g.5gb","memoryMB":4864,"core":15,"sliceCount":1,"placements":[{"start":6,"size":1}]}],'
    '"health":true,"custominfo":{"NetworkID":1}}]'
)
REVIEW = '{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","object":{},"userInfo":{}}}'


def read_allocation(text: str) -> None:
    allocated, _, reserved = text.partition("|")
    annotations = {keys.NODE: "n1", rules.ALLOCATED: allocated, keys.MIG_ALLOCATIONS: reserved}
    asking = [{}, {FAMILY.resources.count: "1"}]
    for limits in ([], asking, asking[::-1]):
        counted = pod.read_allocation(annotations, {"NVIDIA": FAMILY}, CONTAINERS, limits)
        read = pod.decode_allocation(annotations, {"NVIDIA": FAMILY}, CONTAINERS, strict=False, limits=limits)
        assert read == counted.allocation, "what can be told is told alike"
    pod.decode_allocation(annotations, {"NVIDIA": FAMILY}, CONTAINERS)


def read_request(text: str) -> None:
    limits = dict(zip(("n", "mem", "pct", "cores"), text.split(" "), strict=False))
    default_parse_request(ContainerSpec("c", ContainerKind.APP, limits), PodFacts("ns", "p", "u"), FAMILY)


def raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


DECODERS = {
    "register JSON": (REGISTER, lambda t: node.decode_devices_json(t, key="k", family="F")),
    "register CSV": (
        "GPU-e,10,7680,100,NVIDIA-Tesla P4,0,true,1,hami-core:GPU-f,10,7680,100,T,0,true:",
        lambda t: node.decode_devices_csv(t, key="k", family="F"),
    ),
    "link scores": ('[{"uuid":"a","score":{"b":100}}]', lambda t: node.decode_pair_scores(t, key="k")),
    "allocation": (f";GPU-a,NVIDIA,1000,30:GPU-b,NVIDIA,1,0:;|{RESERVED}", read_allocation),
    "MIG reservations": (RESERVED, mig.decode_reservations),
    "weights": ("slot=1,core=2,memory=3", pod.parse_weights),
    "quantity": ("16.5Gi", quantity.parse_quantity),
    "request": ("2 16k 50 100", read_request),
    "lock": ("2026-07-03T15:35:10.5+08:00,ns,pod", parse_lock),
    "histogram": ("3/8 CardInsufficientMemory, 2/8 CardNotHealth", reasons.parse_histogram),
    "signature": (
        signature.sign(PRIVATE, STATEMENT),
        lambda t: signature.verify([PRIVATE.public_key()], t, STATEMENT),
    ),
    "public keys": (PEM, lambda t: signature.load_public_keys(raw(t), where="f")),
    "filter": ('{"Pod":{"a":1},"NodeNames":["n1","n2"]}', lambda t: extender.decode_filter_args(raw(t)).names()),
    "bind": (
        '{"PodName":"p","PodNamespace":"ns","PodUID":"u","Node":"n"}',
        lambda t: extender.decode_binding_args(raw(t)),
    ),
    "preempt": (
        '{"Pod":{},"NodeNameToVictims":{"n":{"Pods":[{"metadata":{"uid":"u"}}]}}}',
        lambda t: extender.decode_preemption_args(raw(t)),
    ),
    "filter result": (
        '{"NodeNames":["n"],"FailedNodes":{"m":"r"},"Error":""}',
        lambda t: extender.decode_filter_result(raw(t)),
    ),
    "priorities": ('[{"Host":"a","Score":10}]', lambda t: extender.decode_priorities(raw(t))),
    "review": (REVIEW, lambda t: extender.decode_admission_review(raw(t))),
}
BITS = [
    "",
    "\0",
    "\ud800",
    "\u0663",
    "é",
    "-",
    "-1",
    "1e999",
    "99999999999999999999",
    "null",
    "[",
    "]",
    "{",
    "}",
    '"',
    "\\u",
    ",",
    ":",
    ";",
    "_",
    " ",
    "true",
]


def damaged(text: str, chance: random.Random) -> str:
    """Replace, double, drop or swap up to four pieces of a text."""
    for _ in range(chance.randint(1, 4)):
        start = chance.randint(0, len(text))
        end = min(len(text), start + chance.choice([0, 1, 1, 2, 5, 20]))
        piece = chance.choice(
            [chance.choice(BITS), text[start:end] * 2, chr(chance.randint(0, 0x2FF)), text[end:start:-1]]
        )
        text = text[:start] + piece + text[end:]
    return text


def outcome(decode: Callable[[str], object], text: str) -> str:
    """Return ``answered``, or the text of the decoder's own error."""
    try:
        decode(text)
    except (WireError, RequestError, ConfigError) as error:
        return f"{type(error).__name__}: {error}"
    except Exception as error:
        raise AssertionError(f"{text!r} raised {error!r}") from error
    return "answered"


@pytest.mark.parametrize("count", [1_000, pytest.param(20_000, marks=pytest.mark.soak)])
@pytest.mark.parametrize("name", DECODERS)
def test_damaged_text_gives_an_answer_or_the_decoders_own_error(name, count):
    sound, decode = DECODERS[name]
    decode(sound)
    chance = random.Random(f"{name} {count}")
    outcomes: Counter[str] = Counter()
    for _ in range(count):
        text = damaged(sound, chance)
        told = outcome(decode, text)
        outcomes[told.partition(":")[0]] += 1
        assert len(told) < 4 * len(text) + 1000
    assert outcomes.total() == count
    assert len(outcomes) > 1 or name == "histogram", f"the damage does no harm or all: {outcomes}"
