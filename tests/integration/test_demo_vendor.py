"""`hami demo` with another vendor than NVIDIA, and with a user's own manifests."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hami_nvidia.demo.stage import GpuDemo

from hami_core.demo.run import POD_LIMIT_S
from tests.integration import acme

pytestmark = pytest.mark.timeout(240)
EXAMPLES = Path(__file__).parents[2] / "contrib" / "examples"


@pytest.fixture(scope="module", autouse=True)
def installed(short_folder):
    yield from acme.installed(short_folder)


def demo(*arguments):
    command = [sys.executable, "-m", "hami_core", "demo", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)


def result_of(done, code=0):
    assert (done.returncode, bool(done.stdout)) == (code, True), done.stdout + done.stderr
    return json.loads(done.stdout)


def written(path, *pods):
    path.write_text(yaml.safe_dump_all(pods))
    return path


def env_options(env):
    return [word for name, value in env.items() for word in ("--agent-env", f"{name}={value}")]


def test_demo_reports_pods_of_any_vendor(short_folder):
    env = acme.devices(short_folder / "two")
    pods = [acme.pod("trainer", 3000, 2), acme.pod("job", 1000, command="true"), acme.pod("large", 40_000)]
    file = written(short_folder / "pods.yaml", *pods)
    done = demo("--vendor=acme", "--manifests", file, *env_options(env), "--json", "--dir", short_folder / "d")
    result = result_of(done)
    assert (result["vendor"], result["ok"], result["measured"]) == ("acme", True, False)
    assert result["seconds"] < POD_LIMIT_S
    trainer, job, large = result["pods"]
    assert (trainer["phase"], trainer["node"], job["phase"]) == ("Running", "node-1", "Succeeded")
    given = trainer["containers"][0]["given"]
    assert {piece["memory_mib"] for piece in given["slices"]} == {3000}
    assert len(given["slices"]) == 2
    assert given["env"] == {"ACME_MEMORY_LIMITS_MIB": "3000,3000"}
    assert sorted(given["devices"]) == ["/dev/acme0", "/dev/acme1"]
    assert [pod["containers"][0]["given"]["exit_code"] for pod in (trainer, job)] == [None, 0]
    assert "CardInsufficientMemory" in large["reason"]


def test_demo_fails_if_a_pod_fails_or_is_denied(short_folder):
    env = acme.devices(short_folder / "three", count=1)
    pods = [acme.pod("broken", 1000, command="false"), acme.pod("wrong", -5)]
    file = written(short_folder / "bad.yaml", *pods)
    done = demo("--vendor=acme", "--manifests", file, *env_options(env), "--dir", short_folder / "f")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "What each container was given" in [line.strip() for line in done.stdout.splitlines()]
    text = " ".join(done.stdout.split())
    assert "broken: is Failed: main ended with 1" in text
    assert "wrong: is denied" in text
    assert "Not as it should be" in text


def test_demo_judges_the_example_pods_rightly(short_folder):
    """The share of selectors.yaml by the vendor's parsing, and the two cards of policies.yaml on one NUMA node."""
    ordinary = acme.pod("ordinary", 1)
    ordinary["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 2000}}
    chooser, pair = (yaml.safe_load((EXAMPLES / name).read_text()) for name in ("selectors.yaml", "policies.yaml"))
    done = demo(
        "--manifests",
        written(short_folder / "gpu.yaml", chooser, pair, ordinary),
        "--json",
        "--dir",
        short_folder / "g",
    )
    result = result_of(done)
    measured, numa, told = (pod["containers"][0] for pod in result["pods"])
    assert measured["devices"][0]["seen"] == measured["devices"][0]["asked"]
    assert [device["seen"] >> 20 for device in numa["devices"]] == [4000, 4000]
    assert [piece["memory_mib"] for piece in told["given"]["slices"]] == [2000]
    assert result["seconds"] < POD_LIMIT_S


def test_pods_of_deployments_and_jobs_are_judged(short_folder):
    template = {"metadata": {"labels": {"app": "web"}}, "spec": gpu_pod("x", "cuda-probe", "600")["spec"]}
    web = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
    web["spec"] = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}}
    web["spec"]["template"] = {**template, "spec": {**template["spec"], "restartPolicy": "Always"}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once"}}
    job["spec"] = {"template": {"spec": gpu_pod("x", "nvml-look")["spec"]}}
    wrong = {**web, "metadata": {"name": "wrong"}, "spec": {**web["spec"], "selector": {"matchLabels": {"app": "b"}}}}
    file = written(short_folder / "load.yaml", web, job, wrong)
    done = demo("--manifests", file, "--json", "--dir", short_folder / "w")
    *made, denied = result_of(done, 1)["pods"]
    assert [(pod["name"].partition("-")[0], pod["phase"], pod["ok"]) for pod in made] == [
        ("web", "Running", True),
        ("web", "Running", True),
        ("once", "Succeeded", True),
    ]
    assert all(device["seen"] >> 20 == 1000 for pod in made for c in pod["containers"] for device in c["devices"])
    assert (denied["name"], denied["phase"]) == ("wrong", "Denied")


def test_folder_of_an_earlier_run_is_refused(tmp_path):
    (tmp_path / "cluster").mkdir()
    done = demo("--dir", tmp_path)
    assert done.returncode == 1
    assert "holds a cluster of an earlier run (remove it, or name another folder)" in done.stderr


def test_example_that_is_no_pod_is_refused_with_the_way():
    done = demo("--manifests", EXAMPLES / "quota.yaml")
    assert done.returncode == 1
    assert re.search(r"quota.yaml: holds a ResourceQuota \(.*run it with --keep.*kubectl", done.stderr)


def gpu_pod(name, *command):
    limits = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000}
    container = {"name": "main", "image": "any", "command": [*command], "resources": {"limits": limits}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}}
    return {**pod, "spec": {"restartPolicy": "Never", "containers": [container]}}


def test_programs_of_a_user_are_measured_by_their_report(short_folder):
    """The failing pods are told with their last lines, within seconds."""
    program = GpuDemo.manifests.parent / "programs" / "nvml.py"
    pods = [
        gpu_pod("mine", "python3", str(program), "--hold", "600"),
        gpu_pod("silent", "sh", "-c", "echo here I am; sleep 600"),
        gpu_pod("wrong", "sh", "-c", """echo '{"devices": 1}'; sleep 600"""),
        gpu_pod("broken", "python3", "-c", "import no_such_module"),
    ]
    file = written(short_folder / "own.yaml", *pods)
    done = demo("--manifests", file, "--json", "--dir", short_folder / "o")
    result = result_of(done, 1)
    assert result["seconds"] < POD_LIMIT_S
    found = {pod["name"]: pod for pod in result["pods"]}
    assert {name: pod["ok"] for name, pod in found.items()} == {
        "mine": True,
        "silent": True,
        "wrong": False,
        "broken": False,
    }
    assert [device["seen"] >> 20 for device in found["mine"]["containers"][0]["devices"]] == [1000]
    assert found["silent"]["output"] == {"main": ["here I am"]}
    assert "its report is wrong" in found["wrong"]["containers"][0]["problems"][0]
    assert found["broken"]["problems"] == ["is Failed: main ended with 1"]
    assert found["broken"]["output"]["main"][-1] == "ModuleNotFoundError: No module named 'no_such_module'"


NO_NODE_SIDE = """
from hami_core.plugins import discovery
real = discovery.installed
discovery.installed = lambda group: [] if group == discovery.NODE else real(group)
"""


@pytest.mark.parametrize(
    ("before", "arguments", "words"),
    [
        ("sys.modules['cuda'] = None", [], "demo: not installed: cuda-bindings (pip install 'hami[demo]')"),
        ("sys.modules['hami_interpose'] = None", [], "demo: not installed: hami-interpose (pip install 'hami[demo]')"),
        ("sys.modules['hami_gpusim'] = None", [], "demo: not installed: hami-gpusim (pip install 'hami[demo]')"),
        ("os.environ['PATH'] = '/nonexistent'", [], "there is no C compiler cc on the PATH (install gcc"),
        (
            "import pynvml; pynvml.nvmlInit = lambda: (_ for _ in ()).throw(pynvml.NVMLError(12))",
            ["--gpu=real"],
            "--gpu real: no NVIDIA driver answers: ",
        ),
        ("", ["--dir=/dev/null/x"], "--dir: /dev/null/x can't be written to: Not a directory (name a folder of yours"),
        (
            "from hami_core.plugins import discovery; discovery.installed = lambda group: []",
            [],
            "--vendor: no vendor with its own demo is installed (pip install 'hami[demo]'",
        ),
        (
            NO_NODE_SIDE,
            ["--vendor=ascend", "--manifests={pods}"],
            "--vendor: ascend has no node side",
        ),
    ],
    ids=["cuda", "interpose", "gpusim", "compiler", "driver", "dir", "no-vendor", "node-side"],
)
def test_missing_part_is_named_before_anything_starts(short_folder, before, arguments, words):
    arguments = [word.format(pods=written(short_folder / "one.yaml", acme.pod("p", 1))) for word in arguments]
    code = f"import os, sys\n{before}\nfrom hami_core.cli.main import main\nmain({['demo', *arguments]})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--vendor=acmee"], "--vendor: 'acmee' names no installed package.*did you mean acme"),
        (["--vendor=acme"], "--manifests: .*no example pods for acme .*of acme: --manifests FILE"),
        (["--vendor=acme", "--manifests={pods}", "--agent-env=X"], "--agent-env: 'X' is not NAME=VALUE"),
        (
            ["--vendor=acme", "--manifests={pods}", "--gpu=real"],
            "--gpu: is for a vendor with its own demo, not for acme",
        ),
        (["--nodes={pods}"], "--nodes: nvidia brings its own nodes"),
        (["--vendor=acme", "--manifests={pods}", "--nodes={pods}"], "holds a Pod"),
        (
            ["--vendor=acme", "--manifests={pods}"],
            "acme does not exist: is the acme driver loaded.*--agent-env NAME=VALUE",
        ),
    ],
    ids=["vendor", "manifests", "agent-env", "gpu", "gpu-nodes", "nodes", "devices"],
)
def test_wrong_option_is_refused_with_what_is_missing(short_folder, arguments, words):
    file = written(short_folder / "any.yaml", acme.pod("p", 1))
    done = demo(*(word.format(pods=file) for word in arguments))
    assert done.returncode == 1, done.stderr
    text = " ".join((done.stdout + done.stderr).replace('"', "").split())
    assert re.search(words, text), text
    assert "Traceback" not in text
