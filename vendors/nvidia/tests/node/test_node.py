"""NVIDIA's node side on simulated cards."""

from __future__ import annotations

import json
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from hami_interpose import limits as limits_file
from hami_interpose.region import REGION_SIZE
from hami_nvidia.driver import DriverRoot, discover, nvml_below
from hami_nvidia.metrics import METRICS
from structlog.testing import capture_logs

from hami_core import ContainerKind, ContainerRef, DeviceError, RequestError, Slice
from hami_core.wire.node import decode_devices_json, decode_pair_scores

MIB = 1 << 20


def ref(**how):
    base = ContainerRef("uid-1", "default", "pod", "main", ContainerKind.APP)
    return replace(base, **how)


def slice_of(device, mib, cores=0):
    return Slice(device.id, "NVIDIA", mib, cores, type="NVIDIA")


def test_register_as_hami_reads_it(node):
    made = node(split_count=3, memory_scaling=1.5, core_scaling=2.0)
    devices = made.discover()
    said = made.advertise(devices)
    text = said.annotations["hami.io/node-nvidia-register"]
    assert decode_devices_json(text, key="k", family="NVIDIA") == tuple(devices)
    first = json.loads(text)[0]
    total = made.nvml.cards()[0][0].memory_bytes // MIB
    assert (first["count"], first["devmem"], first["devcore"]) == (3, int(total * 1.5), 200)
    assert first["type"].startswith("NVIDIA")
    assert first["mode"] == "hami-core"
    assert first["health"] is True
    slots = said.slots["nvidia.com/gpu"]
    assert set(slots) == {f"{d.id}-{k}" for d in devices for k in range(3)}
    assert set(slots.values()) == {(True, -1)}, "no topology unless asked for"
    assert said.env == {"NVIDIA_VISIBLE_DEVICES": "void"}
    assert "hami.io/node-nvidia-score" not in said.annotations


def test_pair_scores_are_advertised_if_enabled(node):
    made = node(topology_score=True)
    devices = made.discover()
    scores = decode_pair_scores(made.advertise(devices).annotations["hami.io/node-nvidia-score"], key="k")
    assert set(scores) == {d.id for d in devices}
    one, other = (d.id for d in devices)
    assert scores[one][other] == scores[other][one]


def test_hidden_cards_are_not_offered(node, tmp_path):
    file = tmp_path / "config.json"
    file.write_text('{"nodeconfig": [{"name": "n1", "filterdevices": {"index": [0]}}]}')
    assert [d.index for d in node(config_file=file).discover()] == [1]


def test_a_filter_that_matches_no_card_is_logged_once(node, tmp_path):
    file = tmp_path / "config.json"
    file.write_text('{"nodeconfig": [{"name": "n1", "filterdevices": {"index": [1, 7], "uuid": ["GPU-typo"]}}]}')
    made = node(config_file=file)
    with capture_logs() as logs:
        assert [d.index for d in made.discover()] == [0]
        made.discover()
    assert [entry["cards"] for entry in logs if "filterdevices" in entry["event"]] == [["7", "GPU-typo"]]


def test_a_container_gets_devices_driver_and_limits(node, tmp_path):
    made = node(memory_scaling=2.0)
    first, second = made.discover()
    edits = made.allocate(
        (slice_of(second, 2000, 30), slice_of(first, 1000, 100)), ref(limits={"nvidia.com/priority": "0"})
    )
    wanted = limits_file.decode(edits.limits["limits"])
    assert [(d.uuid, d.memory_bytes, d.physical_bytes, d.cores) for d in wanted.devices] == [
        (first.id, 1000 * MIB, 500 * MIB, 0),
        (second.id, 2000 * MIB, 1000 * MIB, 30),
    ]
    assert (wanted.mode, wanted.priority, wanted.core_policy) == ("enforce", 0, "default")
    assert (edits.limits_path, edits.region_path) == ("/usr/local/vgpu/limits", "/usr/local/vgpu/region")
    assert len(edits.region["vgpu.cache"]) == REGION_SIZE
    assert edits.env == {
        "NVIDIA_VISIBLE_DEVICES": "void",
        "CUDA_DEVICE_MEMORY_LIMIT_0": "1000m",
        "CUDA_DEVICE_MEMORY_LIMIT_1": "2000m",
        "CUDA_DEVICE_SM_LIMIT": "100",
        "CUDA_DEVICE_MEMORY_SHARED_CACHE": "/usr/local/vgpu/region/vgpu.cache",
        "CUDA_OVERSUBSCRIBE": "true",
        "LIBCUDA_LOG_LEVEL": "1",
    }
    paths = {n.path: n.host_path for n in edits.device_nodes}
    assert paths["/dev/nvidia0"] == str(made.folder / "dev/nvidia0")
    assert {"/dev/nvidia1", "/dev/nvidiactl"} <= set(paths)
    mounts = {m.container_path: m.host_path for m in edits.mounts}
    assert mounts["/usr/local/nvidia/lib64/libcuda.so.1"].endswith("libcuda.so.1")
    assert Path(mounts["/etc/ld.so.preload"]).read_text() == "/usr/local/vgpu/libvgpu.so\n"
    assert Path(mounts["/usr/local/vgpu/libvgpu.so"]).parent == tmp_path / "lib"
    assert all(m.read_only == ("/turns/" not in m.container_path) for m in edits.mounts)
    assert all(Path(m.host_path).exists() for m in edits.mounts)
    assert [path for path in mounts if "/turns/" in path] == [f"/usr/local/vgpu/turns/{second.id}"]
    assert (
        made.allocate(
            (slice_of(second, 2000, 30), slice_of(first, 1000, 100)), ref(limits={"nvidia.com/priority": "0"})
        )
        == edits
    )


def test_a_container_gets_only_its_own_cards_nodes(node):
    made = node()
    _, second = made.discover()
    edits = made.allocate((slice_of(second, 10),), ref())
    assert "/dev/nvidia0" not in {n.path for n in edits.device_nodes}
    assert edits.env["CUDA_DEVICE_MEMORY_LIMIT_0"] == "10m"


def test_whole_cards_get_no_interposer(node):
    made = node()
    first, _ = made.discover()
    edits = made.allocate((slice_of(first, first.memory_mib, 100),), ref(whole_devices=True))
    assert not edits.limits_path
    assert not edits.region
    assert "/etc/ld.so.preload" not in {m.container_path for m in edits.mounts}
    assert edits.env == {"NVIDIA_VISIBLE_DEVICES": "void"}
    assert "/dev/nvidia0" in {n.path for n in edits.device_nodes}


def test_scaled_memory_is_never_whole(node):
    made = node(memory_scaling=2.0)
    first, _ = made.discover()
    assert made.allocate((slice_of(first, first.memory_mib, 100),), ref(whole_devices=True)).limits_path


def test_a_missing_card_is_an_error_that_names_it(node):
    made = node()
    made.discover()
    with pytest.raises(DeviceError, match="GPU-nowhere"):
        made.allocate((Slice("GPU-nowhere", "NVIDIA", 1, 0),), ref())


@pytest.mark.parametrize("text", ["10", "-1", "x", "1.5", "\uff11"])
def test_an_invalid_priority_is_refused(node, text):
    made = node()
    first, _ = made.discover()
    with pytest.raises(RequestError, match=r"nvidia\.com/priority"):
        made.allocate((slice_of(first, 1),), ref(limits={"nvidia.com/priority": text}))


def test_a_lost_card_stays_listed_and_is_unhealthy(node, state):
    made = node()
    first, second = made.discover()
    state.lose(0)
    again = made.discover()
    assert [(d.id, d.healthy) for d in again] == [(first.id, False), (second.id, True)]
    slots = made.advertise(again).slots["nvidia.com/gpu"]
    assert not slots[f"{first.id}-0"][0]
    assert slots[f"{second.id}-0"][0]


def test_the_drivers_files_from_nvidias_own_cdi_spec(node, tmp_path):
    folder = tmp_path / "cdi"
    folder.mkdir()
    spec = {
        "cdiVersion": "0.5.0",
        "kind": "nvidia.com/gpu",
        "containerEdits": {
            "env": ["NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_CTK=1"],
            "deviceNodes": [{"path": "/dev/nvidiactl"}],
            "mounts": [{"hostPath": "/h/libcuda.so.1", "containerPath": "/c/libcuda.so.1", "options": ["ro", "bind"]}],
            "hooks": [
                {"hookName": "createContainer", "path": "/usr/bin/nvidia-cdi-hook", "args": ["nvidia-cdi-hook", "x"]}
            ],
        },
        "devices": [
            {"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia7"}, {"path": "/dev/dri/card0"}]}},
            {"name": "all", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia8"}]}},
        ],
    }
    (folder / "nvidia.yaml").write_text(json.dumps(spec))
    made = node(driver_libraries=(), cdi_dirs=(folder,))
    first, _ = made.discover()
    edits = made.allocate((slice_of(first, 10),), ref())
    paths = {n.path for n in edits.device_nodes}
    assert {"/dev/nvidia7", "/dev/dri/card0", "/dev/nvidiactl"} <= paths
    assert "/dev/nvidia8" not in paths
    assert edits.env["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert edits.env["NVIDIA_CTK"] == "1"
    assert edits.hooks[0].path == "/usr/bin/nvidia-cdi-hook"


@pytest.mark.parametrize(
    "text",
    ["kind: nvidia.com/gpu\ndevices: 3", "kind: nvidia.com/gpu\ncontainerEdits: {mounts: [{}]}", "a: [nvidia.com/gpu"],
)
def test_a_broken_spec_is_an_error_that_names_the_file(node, tmp_path, text):
    (tmp_path / "nvidia.yaml").write_text(text)
    made = node(driver_libraries=(), cdi_dirs=(tmp_path,))
    first, _ = made.discover()
    with pytest.raises(DeviceError, match=r"nvidia\.yaml"):
        made.allocate((slice_of(first, 10),), ref())


def test_the_drivers_files_found_below_its_root(node, tmp_path):
    made = node(driver_libraries=(), cdi_dirs=(), driver_root=tmp_path / "root", container_library_dir="")
    version = made.nvml.driver_version()
    libraries = tmp_path / "root/usr/lib/x86_64-linux-gnu"
    libraries.mkdir(parents=True)
    (libraries / f"libcuda.so.{version}").write_bytes(b"x")
    (libraries / "libcuda.so.1").symlink_to(f"libcuda.so.{version}")
    (libraries / "libcuda.so.1.0.old").write_bytes(b"x")
    first, _ = made.discover()
    mounts = {m.container_path: m.host_path for m in made.allocate((slice_of(first, 1),), ref()).mounts}
    real = str(libraries / f"libcuda.so.{version}")
    assert mounts["/usr/lib/x86_64-linux-gnu/libcuda.so.1"] == real
    assert mounts[f"/usr/lib/x86_64-linux-gnu/libcuda.so.{version}"] == real
    assert not any("old" in path for path in mounts)


@pytest.fixture
def debian(tmp_path):
    """A host's root as its agent sees it, with Debian's driver behind alternatives, which are absolute links."""
    seen = tmp_path / "driver-root"
    places = {
        "real": "usr/lib/x86_64-linux-gnu/nvidia/current",
        "links": "etc/alternatives",
        "named": "usr/lib/x86_64-linux-gnu",
    }
    for name in places.values():
        (seen / name).mkdir(parents=True, exist_ok=True)
    (seen / "lib").symlink_to("usr/lib")
    for name in ("libcuda.so", "libnvidia-ml.so"):
        (seen / places["real"] / f"{name}.550.54").write_bytes(b"x")
        (seen / places["real"] / f"{name}.1").symlink_to(f"{name}.550.54")
        (seen / places["links"] / f"glx--{name}.1").symlink_to(f"/{places['real']}/{name}.1")
        (seen / places["named"] / f"{name}.1").symlink_to(f"/{places['links']}/glx--{name}.1")
    return DriverRoot(Path("/"), seen)


def test_links_below_the_drivers_root_stay_below_it(debian):
    real = "usr/lib/x86_64-linux-gnu/nvidia/current"
    assert nvml_below(debian) == str(debian.here / real / "libnvidia-ml.so.550.54")
    mounts = {m.container_path: m.host_path for m in discover(debian, "550.54", "").mounts}
    assert mounts["/usr/lib/x86_64-linux-gnu/libcuda.so.1"] == f"/{real}/libcuda.so.550.54"
    assert mounts["/lib/x86_64-linux-gnu/libcuda.so.550.54"] == f"/{real}/libcuda.so.550.54"
    assert set(mounts.values()) == {f"/{real}/libcuda.so.550.54", f"/{real}/libnvidia-ml.so.550.54"}


@pytest.mark.parametrize("target", ["../../../../../../../../outside", "/outside"])
def test_links_cannot_lead_out_of_the_drivers_root(tmp_path, target):
    (tmp_path / "outside").write_bytes(b"x")
    (tmp_path / "root/lib").mkdir(parents=True)
    (tmp_path / "root/lib/libnvidia-ml.so.1").symlink_to(target)
    root = DriverRoot(Path("/"), tmp_path / "root")
    assert root.follow(Path("lib/libnvidia-ml.so.1")) == Path("outside")
    assert nvml_below(root) == ""


def test_links_in_a_circle_are_an_error(tmp_path):
    (tmp_path / "lib").symlink_to("lib64")
    (tmp_path / "lib64").symlink_to("/lib")
    with pytest.raises(DeviceError, match="a circle"):
        nvml_below(DriverRoot(Path("/"), tmp_path))


def test_no_driver_says_what_to_set(node, tmp_path):
    made = node(driver_libraries=(), cdi_dirs=(), driver_root=tmp_path)
    first, _ = made.discover()
    with pytest.raises(DeviceError, match="HAMI_NVIDIA_DRIVER_ROOT"):
        made.allocate((slice_of(first, 1),), ref())


def test_metrics_have_hamis_names_and_labels(node, tmp_path):
    made = node()
    first, _ = made.discover()
    edits = made.allocate((slice_of(first, 1000),), ref())
    region = tmp_path / "region"
    region.mkdir()
    (region / "vgpu.cache").write_bytes(edits.region["vgpu.cache"])
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "vgpu.cache").symlink_to("/dev/zero")
    found = made.metrics({"r": ref(), "b": ref(pod="evil")}, {"r": str(region), "b": str(bad)})
    by_name = {}
    for sample in found:
        by_name.setdefault(sample.name, []).append(sample)
    container = {"namespace", "pod", "container", "vdevice_index", "device_uuid"}
    host = {"node", "device_index", "device_uuid", "device_type"}
    labels = {
        "hami_host_gpu_memory_used_bytes": host,
        "hami_host_gpu_utilization_ratio": host,
        "hami_host_gpu_memory_controller_utilization_ratio": host - {"node"},
        **dict.fromkeys(
            (
                "hami_vgpu_memory_used_bytes",
                "hami_vgpu_memory_limit_bytes",
                "hami_container_device_memory_bytes",
                "hami_vgpu_memory_context_bytes",
                "hami_vgpu_memory_module_bytes",
                "hami_vgpu_memory_buffer_bytes",
            ),
            container,
        ),
    }
    for name, wanted in labels.items():
        assert set(by_name[name][0].labels) == wanted, name
    assert all(spec.zoned for spec in METRICS)
    assert by_name["hami_vgpu_memory_limit_bytes"][0].value == 1000 * MIB
    assert [s.labels["pod"] for s in by_name["hami_vgpu_region_unreadable"]] == ["evil"]


@pytest.mark.parametrize("folder", ["ours", "missing", "empty", "link", "garbage", "foreign card"])
def test_containers_of_hamis_plugin_keep_their_metrics(node, tmp_path, folder):
    """After a migration the agent reads the regions that HAMi's library writes."""
    made = node()
    card = made.discover()[0].id
    theirs = tmp_path / "uid-1_main"
    if folder != "missing":
        theirs.mkdir()
    content = bytearray(2008952)
    struct.pack_into("<iii", content, 0, 19920718, 1, 2)
    struct.pack_into("<Q", content, 56, 1)
    name = b"GPU-other" if folder == "foreign card" else card.encode()
    content[64 : 64 + len(name)] = name
    struct.pack_into("<Q", content, 1600, 3000 * MIB)
    struct.pack_into("<i", content, 2008896, 1)
    struct.pack_into("<5Q", content, 1856 + 8, 1, 2, 3, 0, 700 * MIB)
    struct.pack_into("<3Q", content, 1856 + 1160, 0, 0, 42)
    struct.pack_into("<i", content, 1856 + 1928, 1)
    if folder in {"ours", "foreign card"}:
        (theirs / "9a1c.cache").write_bytes(content)
        (theirs / "libvgpu.so.cache").write_bytes(b"")
    elif folder == "link":
        (theirs / "9a1c.cache").symlink_to("/dev/zero")
    elif folder == "garbage":
        (theirs / "9a1c.cache").write_bytes(b"x" * 3000)
    found = [s for s in made.metrics({"uid-1_main": ref()}, {"uid-1_main": str(theirs)}) if "pod" in s.labels]
    values = {s.name: s.value for s in found if s.labels.get("device_uuid") == card}
    if folder == "ours":
        assert values == {
            "hami_vgpu_memory_used_bytes": 700 * MIB,
            "hami_container_device_memory_bytes": 700 * MIB,
            "hami_vgpu_memory_limit_bytes": 3000 * MIB,
            "hami_vgpu_memory_context_bytes": 1,
            "hami_vgpu_memory_module_bytes": 2,
            "hami_vgpu_memory_buffer_bytes": 3,
            "hami_container_device_utilization_ratio": 42,
        }
    else:
        unreadable = {"link", "garbage"}
        assert [s.name for s in found] == ["hami_vgpu_region_unreadable"] * (folder in unreadable)


def test_the_first_containers_of_a_node_may_be_prepared_at_once(node, tmp_path):
    for number in range(10):
        made = node(library_dir=tmp_path / f"lib-{number}")
        piece = slice_of(made.discover()[0], 1000)
        start = threading.Barrier(8)

        def prepare(piece=piece, made=made, start=start):
            start.wait()
            return made.allocate((piece,), ref())

        with ThreadPoolExecutor(8) as pool:
            edits = [task.result() for task in [pool.submit(prepare) for _ in range(8)]]
        assert all(found == edits[0] for found in edits)
