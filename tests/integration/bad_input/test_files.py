"""Every file that an administrator writes, damaged at random, is accepted, or refused with file, entry and key.

Each file starts out valid. Then one thing is changed. In the content: a misspelt key, a value of another kind, a word
that names nothing. In the bytes: a missing end, tabs, a byte order mark, aliases that multiply. A reader must name what
it ignores in a warning. A refusal is one line of ours. Any other exception is a bug in the reader.
"""

from __future__ import annotations

import asyncio
import copy
import json
import os
import random
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hami_nvidia import node_config
from hami_nvidia.settings import NodeSettings, options
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from contrib.vendor_folders import in_tree
from hami_core.agent.keyfiles import KeyFiles
from hami_core.documents import load_mapping, read_text
from hami_core.errors import ConfigError
from hami_core.http import tls
from hami_core.http.token import TokenFile
from hami_core.kube.official import connect
from hami_core.manifests import Chart, Release, render, warnings
from hami_core.model import NodeContext
from hami_core.plugins import discovery
from hami_core.plugins.load import assemble
from hami_core.scheduler.options import from_settings
from hami_core.settings import AgentSettings, SchedulerSettings, load_device_config
from hami_core.wire.signature import generate_private_key, private_key_pem, public_key_pem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OURS = discovery.Selection(frozenset(vendor.name for vendor in in_tree()))
VENDORS = discovery.discover(discovery.VENDORS, OURS)
NODE_SIDE = discovery.discover(discovery.NODE, OURS)
CHART = Chart.read()
RELEASE = Release(kube_version="1.36.3")


# --- the files, each valid, and the reader of each -----------------------------------------------------------------


def read_for_scheduler(path: Path) -> list[str]:
    loaded = assemble(VENDORS, config=load_device_config(path))
    loaded.require()
    return [str(problem) for problem in loaded.problems]


def read_for_agent(path: Path) -> list[str]:
    served = [found for found in VENDORS if found.source.name in {node.source.name for node in NODE_SIDE}]
    loaded = assemble(served, NODE_SIDE, config=load_device_config(path), side="node")
    loaded.require()
    return [str(problem) for problem in loaded.problems]


def read_node_config(path: Path) -> list[str]:
    options(NodeSettings(), {}, NodeContext("n1", Path("/var/lib/hami"), config_file=path))
    return node_config.read(path, "n1").warnings


def read_values(path: Path) -> list[str]:
    content = load_mapping(read_text(path), str(path))
    render(CHART, content, RELEASE, [(str(path), content)])
    return warnings(CHART, content, RELEASE)


def read_scheduler_settings(path: Path) -> list[str]:
    SchedulerSettings.load(environment={}, file=path)
    return []


def read_agent_settings(path: Path) -> list[str]:
    AgentSettings.load(environment={}, file=path)
    return []


def read_kubeconfig(path: Path) -> list[str]:
    async def ask() -> None:
        api = await connect(path)
        await api.close()

    asyncio.run(ask())
    return []


DEVICE_CONFIG = {
    "nvidia": {
        "resourceCountName": "nvidia.com/gpu",
        "resourceMemoryName": "nvidia.com/gpumem",
        "overwriteEnv": False,
        "defaultMemory": 0,
        "gpuCorePolicy": "default",
        "deviceSplitCount": 10,
        "deviceMemoryScaling": 1.5,
        "libCudaLogLevel": 1,
        "migProfileAllowlist": [{"models": ["A30"], "profiles": ["1g.6gb"]}],
    },
    "cambricon": {"resourceCountName": "cambricon.com/vmlu", "vendorSpelling": True},
    "vnpus": {
        "hamiVnpuCore": False,
        "configs": [
            {
                "commonWord": "Ascend910B3",
                "chipName": "910B3",
                "resourceName": "huawei.com/Ascend910B3",
                "memoryAllocatable": 65536,
                "aiCore": 20,
                "templates": [{"name": "vir05_1c_16g", "memory": 16384, "aiCore": 5, "aiCPU": 1}],
            }
        ],
    },
    "hygon": {"resourceCountName": "hygon.com/dcunum"},
}
NODE_CONFIG = {
    "nodeconfig": [
        {"name": "gpu-03", "operatingmode": "mig", "devicesplitcount": 2, "filterdevices": {"uuid": ["GPU-y"]}},
        {
            "name": "n1",
            "operatingmode": "hami-core",
            "devicememoryscaling": 1.5,
            "devicesplitcount": 4,
            "libcudaloglevel": "1",
            "enablenumatopology": False,
            "filterdevices": {"uuid": ["GPU-x"], "index": [0, 3]},
        },
    ]
}
VALUES = {
    "schedulerName": "hami-scheduler",
    "resourceName": "nvidia.com/gpu",
    "global": {"imageRegistry": "registry.example", "imagePullSecrets": ["a", {"name": "b"}], "labels": {"a": "b"}},
    "scheduler": {
        "defaultSchedulerPolicy": {"nodeSchedulerPolicy": "spread", "gpuSchedulerPolicy": "mutex,binpack"},
        "replicas": 2,
        "filterReturn": "16",
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "service": {"type": "ClusterIP", "httpTargetPort": 8443},
        "extender": {"image": {"pullPolicy": "Always"}, "extraEnvs": [{"name": "A", "value": "b"}]},
    },
    "devicePlugin": {"deviceSplitCount": 4, "deviceMemoryScaling": 1.5, "mode": "required", "extraEnvs": {"A": "b"}},
    "devices": {"ascend": {"enabled": True}, "nvidia": {"gpuCorePolicy": "force"}, "kunlun": {"enabled": False}},
    "prometheus": {"enabled": True, "labels": {"a": "b"}},
}
SCHEDULER_SETTINGS = {
    "gpu_scheduler_policy": "mutex,binpack",
    "node-scheduler-policy": "spread",
    "http_bind": "127.0.0.1:8080",
    "kube_qps": 50,
    "hold_time": "15s",
    "node_label_selector": {"gpu": "on"},
    "vendors": ["nvidia"],
    "leader_elect": True,
    "log_level": "info",
}
AGENT_SETTINGS = {
    "node_name": "n1",
    "mode": "trust",
    "trust_schedulers": ["hami-scheduler"],
    "enforcement": "enforce",
    "reconcile_interval": "30s",
    "metrics_bind_address": ":9394",
}
KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "c",
    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "u", "user": {"token": "t"}}],
}


@dataclass(frozen=True)
class File:
    """A file with its valid content and its reader."""

    name: str
    content: dict[str, Any]
    read: Callable[[Path], list[str]]
    names_keys: bool = True
    """Whether our reader must name unknown keys. Formats of Kubernetes have readers of their own."""


FILES = [
    File("device-config.yaml", DEVICE_CONFIG, read_for_scheduler),
    File("device-config.yaml", DEVICE_CONFIG, read_for_agent),
    File("config.json", NODE_CONFIG, read_node_config),
    File("values.yaml", VALUES, read_values),
    File("scheduler.yaml", SCHEDULER_SETTINGS, read_scheduler_settings),
    File("agent.yaml", AGENT_SETTINGS, read_agent_settings),
    File("kubeconfig", KUBECONFIG, read_kubeconfig, names_keys=False),
]
IDS = [file.read.__name__.removeprefix("read_") for file in FILES]
FREE = {"labels", "extraEnvs", "tolerations", "node_label_selector"}
"""Keys below which any key is accepted, since Kubernetes checks them."""
ODD = [
    None, True, False, 0, -1, 1, 3.5, -0.0, 2**31, 2**63, 10**30, float("nan"), float("inf"), 1e308, "", " ", "\u202e",
    "\x1b[31m", "a\nb", "x" * 5000, "binpak", "1e9", "0x10", "null", "{{ fail }}", "é" * 300, [], {}, [None], [[]],
    {"": None}, {"a": {"b": {}}}, [1] * 1000, [{"name": 1}],
]  # fmt: skip


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Paths of all values in a document except its top."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in items:
        yield (*path, key)
        yield from places(below, (*path, key))


def around(content: Any, path: tuple[str | int, ...]) -> Any:
    """The mapping or list that contains a path's value."""
    for part in path[:-1]:
        content = content[part]
    return content


@dataclass(frozen=True)
class Damage:
    """A file's content after one random change.

    Attributes:
        text: The changed content.
        unknown: An added key that the reader must name. Empty if there is none.
        at: The key whose value was changed. Empty if there is none.
    """

    text: bytes
    unknown: str = ""
    at: str = ""


def misspelt(key: str, chance: random.Random) -> str:
    """A key with one letter dropped, doubled or replaced."""
    at = chance.randrange(len(key))
    return chance.choice([key[:at] + key[at + 1 :], key[:at] + key[at] + key[at:], key[:at] + "q" + key[at + 1 :]])


def damaged(file: File, chance: random.Random) -> Damage:
    """The file with one thing changed."""
    content = copy.deepcopy(file.content)
    path = chance.choice(list(places(content)))
    holder, last = around(content, path), path[-1]
    free = FREE.intersection(map(str, path[:-1]))
    unknown = at = ""
    how = chance.choice(["value", "value", "rename", "add", "remove", "bytes", "bytes"])
    if how == "value":
        holder[last] = copy.deepcopy(chance.choice(ODD))
        at = next((part for part in reversed(path) if isinstance(part, str)), "")
    elif how == "rename" and isinstance(last, str):
        unknown = misspelt(last, chance)
        if unknown in holder or not unknown:
            unknown = "zzquux"
        holder[unknown] = holder.pop(last)
    elif how == "add" and isinstance(holder, dict):
        unknown = chance.choice(["zzquux", "filterdevice", "gpuSchedulerPolcy", "namme"])
        holder[unknown] = copy.deepcopy(chance.choice(ODD[:6]))
    elif how == "remove":
        del holder[last]
    if free or path[:2] == ("nodeconfig", 0):
        unknown = ""  # any key is accepted there, or the entry is about another node
    if path[0] == "hygon" or (file.read is read_for_agent and path[0] != "nvidia"):
        unknown = ""  # the reader does not serve that section's vendor
    in_json = file.name.endswith(".json") or chance.random() < 0.2
    text = json.dumps(content) if in_json else yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
    data = text.encode("utf-8", "surrogatepass")
    return Damage(broken(data, chance)) if how == "bytes" else Damage(data, unknown, at)


def broken(data: bytes, chance: random.Random) -> bytes:
    """Damage bytes as editors, failed copies and people do."""
    lines = data.splitlines(keepends=True)
    line, at = chance.randrange(len(lines)), chance.randrange(len(data))
    bomb = b"".join(b"%c: &%c [%s]\n" % (c, c, b",".join([b"*%c" % (c - 1)] * 9)) for c in range(98, 110))
    return chance.choice(
        [
            b"",
            b"\n",
            b"\xef\xbb\xbf" + data,
            data.decode().encode("utf-16"),
            data[:at],
            data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :],
            data[:at] + b"\x00" + data[at:],
            data[:at] + b"\t" + data[at:],
            data.replace(b"  ", b"\t"),
            b"".join([*lines[:line], lines[line], *lines[line:]]),
            data + data,
            data + b"\n---\n" + data,
            b"[" * 100_000,
            b'{"a":' * 100_000,
            b"a: &a [1,1,1,1,1,1,1,1,1]\n" + bomb + data,
            b"a: &a [*a]\n" + data,
            b"a: &a {<<: *a}\n",
            b"!!python/object/apply:os.getcwd []\n",
            b"? {a: 1}\n: 2\n",
            b"<<: 3\n" + data,
            chance.randbytes(200),
            b"x" * (5 << 20),
            data.replace(b":", b": !!binary", 1),
            data.replace(b":", b": !!bool", 1),
        ]
    )


@contextmanager
def folder() -> Iterator[Path]:
    """A temporary folder that is deleted at once, since a test tries many examples."""
    with tempfile.TemporaryDirectory(prefix="hami-") as name:
        yield Path(name)


def judge(read: Callable[[Path], list[str]], path: Path, damage: Damage, *, names_keys: bool = True) -> None:
    """Check that the reader accepts the file and names ignored keys, or refuses it in one line with file and key."""
    try:
        told = read(path)
    except ConfigError as error:
        text = str(error)
        assert path.name in text or "is required" in text, text
        assert len(text) < 2500, text
        assert text.isprintable(), repr(text)
        assert "pydantic" not in text, text
        if damage.at and "/templates/" not in text and names_keys:
            assert damage.at in text or "is not YAML" in text or "number" in text or "--" in text, (damage.at, text)
    else:
        if damage.unknown and names_keys:
            assert any(damage.unknown.lower() in each.lower() for each in told), (damage.unknown, told)


COUNTS = [150, pytest.param(5_000, marks=pytest.mark.soak)]


def tried(count: int, case: Callable[[random.Random], None]) -> None:
    """Run a case with many seeds. A failure shows its seed."""

    @settings(
        max_examples=count,
        deadline=None,
        derandomize=count < 1000,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.integers(0, 2**32))
    def run(seed: int) -> None:
        case(random.Random(seed))

    run()


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    for name in list(os.environ):
        if name.startswith(("HAMI_", "KUBE", "DP_")):
            monkeypatch.delenv(name)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("file", FILES, ids=IDS)
def test_valid_file_is_accepted(file):
    with folder() as here:
        path = here / file.name
        path.write_text(json.dumps(file.content))
        assert not [text for text in file.read(path) if "unknown" in text or "no such key" in text]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("file", FILES, ids=IDS)
def test_damaged_file_is_accepted_or_refused_by_name(file, count):
    def case(chance: random.Random) -> None:
        with folder() as here:
            path = here / file.name
            damage = damaged(file, chance)
            path.write_bytes(damage.text)
            judge(file.read, path, damage, names_keys=file.names_keys)

    tried(count, case)


# --- keys, certificates, tokens ----------------------------------------------------------------------------------

KEY = generate_private_key()
PUBLIC = public_key_pem(KEY.public_key())
CERTIFICATE, CERTIFICATE_KEY = tls.self_sign(["localhost"])


def read_public(path: Path) -> list[str]:
    assert KeyFiles(path).keys
    return []


def read_public_folder(path: Path) -> list[str]:
    KeyFiles(path.parent)
    return []


def read_private(path: Path) -> list[str]:
    from_settings(SchedulerSettings.load({"signing_key": str(path)}, environment={}))
    return []


def read_token(path: Path) -> list[str]:
    assert TokenFile(path, "metrics_token_file")()
    return []


def read_certificate(path: Path) -> list[str]:
    (path.parent / "key.pem").write_bytes(CERTIFICATE_KEY)
    tls.context(tls.TlsFiles(path, path.parent / "key.pem"))
    return []


def read_key(path: Path) -> list[str]:
    (path.parent / "cert.pem").write_bytes(CERTIFICATE)
    tls.context(tls.TlsFiles(path.parent / "cert.pem", path))
    return []


def read_ca(path: Path) -> list[str]:
    (path.parent / "cert.pem").write_bytes(CERTIFICATE)
    (path.parent / "key.pem").write_bytes(CERTIFICATE_KEY)
    tls.context(tls.TlsFiles(path.parent / "cert.pem", path.parent / "key.pem", path))
    return []


SECRETS = [
    ("signing.pem", PUBLIC * 2, read_public),
    ("signing.pem", PUBLIC, read_public_folder),
    ("signing.key", private_key_pem(KEY), read_private),
    ("token", b"secret-token\n", read_token),
    ("tls.crt", CERTIFICATE, read_certificate),
    ("tls.key", CERTIFICATE_KEY, read_key),
    ("ca.crt", CERTIFICATE, read_ca),
]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(("name", "content", "read"), SECRETS, ids=[each[2].__name__ for each in SECRETS])
def test_damaged_secret_is_accepted_or_refused_by_name(name, content, read, count):
    def case(chance: random.Random) -> None:
        with folder() as here:
            path = here / name
            path.write_bytes(broken(content, chance))
            judge(read, path, Damage(b""))

    tried(count, case)


@pytest.mark.parametrize("read", [*(file.read for file in FILES), *(each[2] for each in SECRETS)])
@pytest.mark.parametrize("what", ["folder", "absent", "unreadable"])
def test_unreadable_file_is_refused_by_name(read, what):
    if (read is read_public and what == "folder") or (read is read_public_folder and what != "unreadable"):
        return  # a folder of keys is valid, and may be empty
    if read is read_node_config and what == "absent":
        return  # the file is optional
    with folder() as here:
        path = here / "named.pem"
        if what == "folder":
            path.mkdir()
        elif what == "unreadable":
            path.symlink_to(path.name)  # a loop, which even root can't read
        with pytest.raises(ConfigError, match=r"named\.pem"):
            read(path)
