"""Speed of encoding and decoding the wire formats, compared with the standard library's json on the same text."""

from __future__ import annotations

import json
import statistics

from hami_core.model import Device, Slice
from hami_core.wire import extender, node, pod, signature
from tests.bench.figures import Figure, timings

CARDS = tuple(
    Device(f"GPU-{i:08d}-0000-0000-0000-000000000000", i, 10, 81_559, 100, "NVIDIA-NVIDIA H100 80GB HBM3", "NVIDIA")
    for i in range(8)
)
SLICES = [[Slice(card.id, "NVIDIA", 3000, 30) for card in CARDS[:2]] for _ in range(4)]
NAMES = [f"node-{i:05d}.pool.example" for i in range(5000)]


def run(*, quick: bool) -> list[Figure]:
    """Measure the microseconds of each operation, and the ratio to json."""
    rounds = 200 if quick else 2000
    register = node.encode_devices_json(CARDS)
    allocation = pod.encode_pod_devices(SLICES)
    body = extender.encode_filter_args(b'{"metadata":{"name":"a","uid":"u"}}', names=NAMES)
    key = signature.generate_private_key()
    statement = signature.SignedStatement("uid", "node", {"hami.io/vgpu-devices-allocated": allocation}, epoch=1)
    signed = signature.sign(key, statement)
    cases = {
        "decode node register, 8 cards": (
            lambda: node.decode_devices_json(register, key="k", family="NVIDIA"),
            lambda: json.loads(register),
        ),
        "encode node register, 8 cards": (
            lambda: node.encode_devices_json(CARDS),
            lambda: json.dumps(json.loads(register)),
        ),
        "decode pod devices, 4 containers": (
            lambda: pod.decode_pod_devices(allocation, key="k", family="NVIDIA"),
            None,
        ),
        "encode pod devices, 4 containers": (lambda: pod.encode_pod_devices(SLICES), None),
        "decode filter request, 5,000 names": (
            lambda: extender.decode_filter_args(body),
            lambda: json.loads(body),
        ),
        "encode filter result, 5,000 reasons": (
            lambda: extender.encode_filter_result(failed=dict.fromkeys(NAMES, "8/8 CardInsufficientMemory")),
            None,
        ),
        "sign an allocation": (lambda: signature.sign(key, statement), None),
        "verify an allocation": (lambda: signature.verify([key.public_key()], signed, statement), None),
    }
    figures = []
    for case, (ours, plain) in cases.items():
        seconds = statistics.median(timings(ours, rounds))
        figures.append(Figure("codecs", case, seconds * 1e6, "µs"))
        if plain is not None:
            ratio = seconds / statistics.median(timings(plain, rounds))
            figures.append(Figure("codecs", f"{case}, ÷ json", ratio, "ratio"))
    return figures
