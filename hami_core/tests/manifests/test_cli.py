"""``hami manifests`` on the command line."""

from __future__ import annotations

import subprocess
import sys

import yaml

from hami_core.manifests import Chart, Release, folder, render


def manifests(*words, stdin=None):
    argv = [sys.executable, "-m", "hami_core", "manifests", *words]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120, input=stdin)


def test_it_prints_the_objects_with_their_comments(tmp_path):
    first, second = tmp_path / "a.yaml", "scheduler: {replicas: 3, nodeSelector: null}\n"
    first.write_text("scheduler: {replicas: 2}\nresourceName: a.b/c\nglobal: {imageRegistry: registry.example}\n")
    done = manifests(
        *("-f", str(first), "-f", "-", "--set", "resourceMem=a.b/mem", "--kube-version", "1.36.3", "-n", "ns"),
        *("--set-json", "devicePlugin.deviceMemoryScaling=1.5", "--set-string", "scheduler.filterReturn=1"),
        stdin=second,
    )
    assert done.returncode == 0, done.stderr
    given = {
        "global": {"imageRegistry": "registry.example"},
        "scheduler": {"replicas": 3, "nodeSelector": None, "filterReturn": "1"},
        "resourceName": "a.b/c",
        "resourceMem": "a.b/mem",
        "devicePlugin": {"deviceMemoryScaling": 1.5},
    }
    expected = [m.content for m in render(Chart.read(), given, Release(namespace="ns", kube_version="1.36.3"))]
    assert list(yaml.safe_load_all(done.stdout)) == expected
    assert "# Source: hami/templates/scheduler-deployment.yaml" in done.stdout
    assert "# CDI specs that the agent writes for the runtime." in done.stdout


def test_error_is_one_line():
    for words, told in (
        ((), "--kube-version"),
        (
            ("--kube-version", "1.36.3", "--set", "scheduler.replicas=no"),
            "scheduler.replicas: expected integer, got 'no'",
        ),
        (("--kube-version", "1.36.3", "-f", "/nonexistent.yaml"), "/nonexistent.yaml: can't be read"),
        (("--kube-version", "1.36.3", "--set", "x"), "is not of the form key=value"),
        (("--kube-version", "1.36.3"), "image hami/scheduler has no registry"),
    ):
        done = manifests(*words)
        assert done.returncode == 1
        assert told in done.stderr
        assert done.stderr.count("\n") == 1
        assert not done.stdout


def test_warning_names_a_flag_that_the_command_takes():
    words = ("--kube-version", "1.36.3", "--set", "global.imageRegistry=localhost,prometheus.enabled=true")
    without, given = manifests(*words), manifests(*words, "--api-versions", "monitoring.coreos.com/v1/ServiceMonitor")
    assert "hami: warning: prometheus.enabled: the cluster has no CRD for ServiceMonitor" in without.stderr
    assert "--api-versions monitoring.coreos.com/v1/ServiceMonitor" in without.stderr
    assert "kind: ServiceMonitor" not in without.stdout
    assert "kind: ServiceMonitor" in given.stdout
    assert given.stderr == ""


def test_missing_engine_names_the_extra_to_install():
    without = "import sys; sys.modules['helm_python'] = None; from hami_core.cli.main import main; main()"
    argv = [sys.executable, "-c", without, "manifests", "--kube-version", "1.36.3"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1
    assert done.stderr.startswith("hami: manifests: helm's engine can't be loaded: ")
    assert "pip install 'hami[manifests]'" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not done.stdout


def test_all_values_can_be_shown():
    assert manifests("--show-values").stdout == (folder() / "values.yaml").read_text()
