"""The pictures show the output of the current code. `nox -s pictures` writes them."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree as ET

import pytest
from hami_nvidia.demo.stage import GpuDemo

from contrib import pictures
from hami_core.demo.manifests import asks, load
from hami_core.demo.run import describe
from hami_core.plugins import load as load_vendors

STALE = "the picture is stale: run `nox -s pictures`"


@pytest.fixture(scope="module")
def picture():
    return pictures.PICTURE.read_text("utf-8")


@pytest.fixture(scope="module")
def recording(picture):
    return pictures.recording_of(picture)


def test_current_code_draws_the_same_picture(picture, recording):
    assert pictures.draw(recording) == picture, STALE


def test_recorded_pods_are_those_of_the_manifests(recording):
    """The webhook adds defaults to a request. So the request in the picture begins with the one in the manifest."""
    parse = load_vendors({}, side="scheduler", only=["nvidia"]).parse
    pods = load(GpuDemo().manifests)
    shown = {row["name"]: row["asked"] for row in recording["snapshots"][-1]["pods"]}
    assert list(shown) == [pod["metadata"]["name"] for pod in pods], STALE
    for pod in pods:
        asked = "; ".join(describe(ask) for ask in asks(pod, parse))
        assert shown[pod["metadata"]["name"]].startswith(asked), STALE


def test_every_recorded_container_got_its_slice(recording):
    result = recording["result"]
    assert result["ok"]
    assert result["overshoot_bytes"] == 0


def test_picture_loads_nothing_and_ends_without_animation(picture):
    root = ET.fromstring(picture)
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert tags == {"svg", "title", "style", "rect", "circle", "g", "path", "text", "metadata"}
    assert not re.search(r"url\(|@import|href|https?://(?!www\.w3\.org)", picture)
    hidden = set(re.findall(r"^\.(f\d+-\d+)\{opacity:0\}", picture, re.MULTILINE))
    seen = [group for group in root.iter("{http://www.w3.org/2000/svg}g") if group.get("class") not in hidden]
    assert "Every container got exactly its slice" in {text for group in seen for text in group.itertext()}


def test_times_and_uuids_do_not_make_a_picture_stale(recording):
    other = json.loads(re.sub(r"GPU-[0-9a-f]{8}", "GPU-01234567", json.dumps(recording)))
    other["result"]["seconds"] += 1
    same, changed = pictures.draw(recording), pictures.draw(other)
    assert same != changed
    assert pictures.without_chance(same) == pictures.without_chance(changed)
