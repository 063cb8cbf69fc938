"""The code reads and writes the samples on the page of the wire format."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hami_core.wire import extender, mig, node, pod

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "wire-format.md").read_text()
SAMPLES = dict(re.findall(r"^% sample: (\S+)\n```\w+\n(.+?)\n```$", PAGE, re.MULTILINE | re.DOTALL))


def again(name: str, text: str) -> str:
    match name:
        case "register":
            return node.encode_devices_json(node.decode_devices_json(text, key=name, family="NVIDIA"))
        case "csv":
            return node.encode_devices_csv(node.decode_devices_csv(text, key=name, family="DCU"))
        case "scores":
            return node.encode_pair_scores(node.decode_pair_scores(text, key=name))
        case "allocation":
            return pod.encode_pod_devices(pod.decode_pod_devices(text, key=name, family="NVIDIA", strict=True)[:-1])
        case "mig":
            return mig.encode_reservations(mig.decode_reservations(text))
        case "filter-result":
            found = extender.decode_filter_result(text.encode())
            return extender.encode_filter_result(names=found.names, failed=found.failed).decode()
        case _:
            raise AssertionError(f"no reader for sample {name!r}")


def test_the_page_has_its_samples():
    assert len(SAMPLES) == PAGE.count("% sample:") == 6


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_come_back_as_written(name):
    assert again(name, SAMPLES[name]) == SAMPLES[name]
