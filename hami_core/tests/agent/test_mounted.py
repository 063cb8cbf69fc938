"""Which host files containers mount, so that a vendor may remove the others."""

from __future__ import annotations

import pytest

from hami_core.agent import cdi
from hami_core.agent.options import NodeLabels, node_context
from hami_core.agent.proto import deviceplugin_pb2 as api
from hami_core.errors import DeviceError
from hami_core.model import ContainerEdits, Mount
from hami_core.settings import AgentSettings
from hami_core.tests.agent.stub_kubelet import Given, StubKubelet


@pytest.fixture
def kubelet(tmp_path):
    for name in ("dp", "cdi"):
        (tmp_path / name).mkdir()
    return StubKubelet(tmp_path / "dp", tmp_path / "cdi")


@pytest.fixture
def mounted(kubelet):
    """The function that vendors get in their `NodeContext`."""
    settings = AgentSettings(
        node_name="n1", mode="trust:other", cdi_dir=kubelet.cdi_dir, kubelet_plugin_dir=kubelet.folder
    )
    return node_context(settings, NodeLabels()).mounted


def write(kubelet, host: str, kind: str = "acme.hami.io/slot") -> str:
    name = cdi.fresh_name()
    edits = ContainerEdits(mounts=(Mount(host, "/lib/x"),))
    cdi.SpecFolder(kubelet.cdi_dir).write(name, cdi.spec(kind, name, edits, ()))
    return name


def test_specs_of_all_vendors_and_stored_answers_count(kubelet, mounted):
    assert mounted() == set()
    write(kubelet, "/a/one")
    write(kubelet, "/a/two", "other.hami.io/slot")
    (kubelet.cdi_dir / "foreign.yaml").write_text("not ours")
    answer = api.ContainerAllocateResponse()
    answer.mounts.add(container_path="/lib/x", host_path="/a/three")
    kubelet.given.append(Given("uid", "main", "acme.com/gpu", ["g0"], answer))
    kubelet.checkpoint()
    assert mounted() == {"/a/one", "/a/two", "/a/three"}


@pytest.mark.parametrize("content", [b"{", b"{}", b'{"devices": []}'])
def test_an_unreadable_spec_makes_the_list_unknown(kubelet, mounted, content):
    write(kubelet, "/a/one")
    (kubelet.cdi_dir / cdi.file_name(cdi.fresh_name())).write_bytes(content)
    with pytest.raises(DeviceError, match="can't tell which host files containers mount"):
        mounted()


def test_an_unreadable_checkpoint_makes_the_list_unknown(kubelet, mounted):
    kubelet.write_checkpoint(b"{}")
    with pytest.raises(DeviceError, match="kubelet_internal_checkpoint"):
        mounted()
