"""The kubelet's checkpoint is an internal format, so it is read strictly."""

from __future__ import annotations

import base64
import json

import pytest

from hami_core.agent.identity import CHECKPOINT, CheckpointReader, decode
from hami_core.agent.proto import deviceplugin_pb2 as api
from hami_core.errors import WireError

GPU = "acme.com/gpu"


def entry(**changes) -> dict:
    answer = api.ContainerAllocateResponse(cdi_devices=[api.CDIDevice(name="acme.hami.io/slot=a1")])
    return {
        "PodUID": "uid-a",
        "ContainerName": "main",
        "ResourceName": GPU,
        "DeviceIDs": {"-1": ["c0-7", "c0-2"], "0": ["c0-5"]},
        "AllocResp": base64.b64encode(answer.SerializeToString()).decode(),
    } | changes


def checkpoint(*entries: dict, **more) -> bytes:
    data = {"PodDeviceEntries": list(entries), "RegisteredDevices": {GPU: ["c0-2", "c0-5", "c0-7"]}} | more
    return json.dumps({"Data": data, "Checksum": 1}).encode()


def test_slots_of_all_numa_nodes_are_one_sorted_set():
    (found,) = decode(checkpoint(entry())).entries
    assert (found.pod_uid, found.container, found.resource) == ("uid-a", "main", GPU)
    assert found.slot_ids == ("c0-2", "c0-5", "c0-7")
    assert found.names == ("acme.hami.io/slot=a1",)


@pytest.mark.parametrize("field", ["PodUID", "ContainerName"])
@pytest.mark.parametrize("text", ["", "../../etc", "a/b", ".", "..", ".hidden", "a\0b"])
def test_names_that_are_unsafe_as_folders_are_refused(field, text):
    with pytest.raises(WireError, match=f"PodDeviceEntries: {field} .* is not a name"):
        decode(checkpoint(entry(), entry(**{field: text})))


@pytest.mark.parametrize("text", ["?", "AAA", "x" * 4, "CgM="])
def test_a_malformed_answer_names_its_container(text):
    with pytest.raises(WireError, match="AllocResp of container main"):
        decode(checkpoint(entry(AllocResp=text)))


def test_answers_of_other_resources_are_not_decoded():
    others = entry(ResourceName="other.com/nic", AllocResp="?")
    found = decode(checkpoint(others, entry()), resources=frozenset({GPU}))
    assert [e.resource for e in found.entries] == [GPU]


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", checkpoint(entry(New=1)), checkpoint(New=1), checkpoint()[:-1]])
def test_an_unknown_form_is_an_error(content):
    with pytest.raises(WireError, match="not a device checkpoint of a form we know"):
        decode(content)


def test_a_damaged_file_raises_and_keeps_the_last_good_state(tmp_path):
    reader = CheckpointReader(tmp_path, frozenset({GPU}))
    assert reader.read().entries == ()
    path = tmp_path / CHECKPOINT
    path.write_bytes(checkpoint(entry()))
    good = reader.read()
    path.write_bytes(b"{")
    for _ in range(2):
        with pytest.raises(WireError):
            reader.read()
        assert reader.is_stale
    assert reader.last == good
    path.write_bytes(checkpoint(entry(), entry(ContainerName="side")))
    assert [e.container for e in reader.read().entries] == ["main", "side"]
    path.unlink()
    assert reader.read().entries == ()
