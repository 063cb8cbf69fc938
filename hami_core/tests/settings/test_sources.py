"""Sources of settings: precedence, HAMi's flag forms, and errors that name the place."""

from __future__ import annotations

import pytest

from hami_core import ConfigError
from hami_core.settings import AgentSettings, SchedulerSettings
from hami_core.settings.fields import env_names, flag_names
from hami_core.settings.flags import help_text

TRUST = {"node_name": "n1", "mode": "trust:hami-scheduler"}


def scheduler(*arguments):
    return SchedulerSettings.from_arguments(arguments)[0]


def test_flag_over_environment_over_file_over_default(tmp_path, monkeypatch):
    file = tmp_path / "hami.yaml"
    monkeypatch.delenv("HAMI_CONFIG", raising=False)
    assert scheduler().filter_return == 16
    file.write_text("filter-return: 3\nhold_time: 20s\n")
    assert scheduler(f"--config={file}").filter_return == 3
    monkeypatch.setenv("HAMI_CONFIG", str(file))
    assert scheduler().filter_return == 3
    monkeypatch.setenv("HAMI_FILTER_RETURN", "all")
    assert scheduler().filter_return == "all"
    assert scheduler("--filter-return=1").filter_return == 1
    assert scheduler().hold_time == 20


def test_hamis_own_variables_come_after_ours(monkeypatch):
    assert SchedulerSettings.load(environment={"HAMI_NODELOCK_EXPIRE": "7m"}).node_lock_timeout == 420
    both = {"HAMI_NODELOCK_EXPIRE": "7m", "HAMI_NODE_LOCK_TIMEOUT": "10"}
    assert SchedulerSettings.load(environment=both).node_lock_timeout == 10
    assert AgentSettings.load({"mode": "trust:s"}, environment={"NODE_NAME": "w1"}).node_name == "w1"


@pytest.mark.parametrize(
    ("arguments", "name", "value"),
    [
        (["--http_bind=0.0.0.0:443"], "http_bind", "0.0.0.0:443"),
        (["--http-bind", "unix:/run/x.sock"], "http_bind", "unix:/run/x.sock"),
        (["-scheduler-name=s"], "scheduler_name", "s"),
        (["--leader-elect"], "leader_elect", True),
        (["--leader-elect=false"], "leader_elect", False),
        (["--leader_elect=true"], "leader_elect", True),
        (["--force-overwrite-default-scheduler=0"], "force_overwrite_default_scheduler", False),
        (["--node-lock-timeout=1h2m3s"], "node_lock_timeout", 3723),
        (["--hold-time=250ms"], "hold_time", 0.25),
        (["--kube-qps=7.5"], "kube_qps", 7.5),
        (["--node-label-selector=gpu=on,zone=a"], "node_label_selector", {"gpu": "on", "zone": "a"}),
        (["--vendors=nvidia, ascend"], "vendors", ("nvidia", "ascend")),
        (["--gpu-scheduler-policy=mutex,binpack"], "gpu_scheduler_policy", "mutex,binpack"),
        (["--gpu-scheduler-policy=numa, topology-aware"], "gpu_scheduler_policy", "numa, topology-aware"),
        (["-v=5"], "log_level", "debug"),
        (["-v", "4"], "log_level", "info"),
        (["-v=9", "--log-level=error"], "log_level", "error"),
    ],
)
def test_flag_forms_of_hamis_programs(arguments, name, value):
    assert getattr(scheduler(*arguments), name) == value


@pytest.mark.parametrize(
    ("variable", "told"),
    [
        ("HAMI_KUBE_BRST", True),
        ("HAMI_GPU_SCHEDULER_POLCY", True),
        ("HAMI_KUBE_BURST", False),
        ("HAMI_SCHEDULER_SERVICE_PORT", False),
        ("HAMI_SCHEDULER_PORT_443_TCP", False),
        ("HAMI_NVIDIA_SPLIT_COUNT", False),
        ("HAMI_PLUGINS", False),
    ],
)
def test_misspelt_variable_is_a_warning(monkeypatch, variable, told):
    monkeypatch.setenv(variable, "7")
    warnings = SchedulerSettings.from_arguments([])[1]
    assert [text.split()[2] for text in warnings] == [variable] * told


def test_flags_without_effect_are_accepted_and_named():
    arguments = ["--logtostderr", "--enable-ascend=true", "--dcu-name=hygon.com/dcunum", "--vmodule", "a=1"]
    settings, warnings = SchedulerSettings.from_arguments(arguments)
    assert settings == SchedulerSettings.from_arguments([])[0]
    assert [text.split()[0] for text in warnings] == ["--logtostderr", "--enable-ascend", "--dcu-name", "--vmodule"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--http_bnd=x"], r"--http_bnd: there is no such flag \(did you mean --http_bind\?\)"),
        (["serve"], "'serve' belongs to no flag"),
        (["--kube-qps"], "--kube-qps: needs a value"),
        (["--kube-qps=fast"], "--kube-qps: expected a number, got 'fast'"),
        (["--kube-qps=nan"], "--kube-qps"),
        (["--node-lock-timeout=5 minutes"], "not a duration; write seconds or a form such as 5m"),
        (["--hold-time=-1"], "--hold-time"),
        (["--hold-time=99999999999"], "--hold-time"),
        (["--http_bind=host:99999"], "no address"),
        (["--http_bind=8080"], "no address"),
        (["--filter-return=0"], "expected a number from 1, or all"),
        (["--filter-return=some"], "expected a number from 1, or all"),
        (["--filter-return=true"], "expected a number from 1, or all"),
        (["--node-label-selector=gpu"], "no label"),
        (["--gpu-scheduler-policy=binpak"], r"--gpu-scheduler-policy: 'binpak' is none of .*did you mean binpack\?"),
        (["--gpu-scheduler-policy=Bin Pack"], "is none of binpack, spread, mutex, topology-aware, numa"),
        (["--gpu-scheduler-policy=mutex,spred"], r"'spred' is none of .*did you mean spread\?"),
        (["--gpu-scheduler-policy="], "'' is none of"),
        (["--gpu-scheduler-policy=mutex,"], "'' is none of"),
        (
            ["--node-scheduler-policy=spred"],
            "'spred' is none of binpack, spread; did you mean spread",
        ),
        (["--node-scheduler-policy=mutex"], "'mutex' is none of binpack, spread"),
        (["--node-scheduler-policy=binpack,spread"], "'binpack,spread' is none of binpack, spread"),
        (["--log-level=warn"], r"'warn' is none of debug, info, warning, error \(did you mean warning\?\)"),
        (["--log-format=jsno"], r"--log-format: 'jsno' is none of .*did you mean json\?"),
        (["--lease=follw"], r"--lease: 'follw' is none of .*did you mean follow\?"),
        (
            ["--gpu-scheduler-policy=binpak", "--node-scheduler-policy=spred"],
            r"--node-scheduler-policy: 'spred' .*mean spread.*--gpu-scheduler-policy: 'binpak' .*mean binpack\?",
        ),
        (["--scheduler-name="], "--scheduler-name: is empty; write default-scheduler"),
        (["--scheduler-name", " "], "--scheduler-name: is empty"),
        (["--leader-elect=maybe"], "--leader-elect: expected true or false, got 'maybe'"),
        (["--cert-file=a.pem"], "--cert-file and --key-file belong together"),
        (["--webhook-bind=:443"], "give --cert-file and --key-file"),
        (["-v=high"], "-v: 'high' is not a whole number"),
        (["--config=/nonexistent/x.yaml"], "/nonexistent/x.yaml: can't be read: No such file"),
    ],
)
def test_wrong_command_line_names_flag_and_fix(arguments, message):
    with pytest.raises(ConfigError, match=message):
        SchedulerSettings.from_arguments(arguments)


def test_error_names_the_environment_variable():
    with pytest.raises(ConfigError, match=r"environment variable HAMI_KUBE_BURST: .*got 'x'"):
        SchedulerSettings.load(environment={"HAMI_KUBE_BURST": "x"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kube_burst: many", "hami.yaml: kube_burst: .*'many'"),
        ("kube-brst: 3", r"hami.yaml: kube_brst: there is no such setting \(did you mean kube_burst\?\)"),
        ("[1, 2]", "holds a list, expected a mapping"),
        ("1: 2", "hami.yaml: 1: there is no such setting"),
        ("kube_burst: 3\nkube-burst: 4", "hami.yaml: kube_burst: is given twice"),
        ("kube_burst: 3\nkube_burst: 4", "line 2, column 1: duplicate key 'kube_burst'"),
        ("log_level: loud", r"hami.yaml: log_level: 'loud' is none of debug"),
        ("a: [\n", r"line 2, column 1: is not YAML"),
        ("x: !!python/object/apply:os.getcwd []", "is not YAML"),
    ],
)
def test_error_names_the_file_and_key(tmp_path, text, message):
    file = tmp_path / "hami.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message):
        SchedulerSettings.load(environment={}, file=file)


def test_settings_file_that_is_not_utf8_is_refused(tmp_path):
    file = tmp_path / "hami.yaml"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="byte 0 is not UTF-8"):
        SchedulerSettings.load(environment={}, file=file)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, r"--node-name: is required \(give --node-name or set HAMI_NODE_NAME\)"),
        ({"node_name": "n"}, "verifies signatures; give --signing-keys"),
        ({"node_name": "n", "mode": "adopt", "signing_keys": "k"}, "needs --adopt-before"),
        ({"node_name": "n", "mode": "trust"}, "write --mode=trust:<scheduler>"),
        ({"node_name": "n", "mode": "adpt"}, r"--mode: 'adpt' is none of .*did you mean adopt"),
        ({**TRUST, "enforcement": "observ"}, r"--enforcement: .*did you mean observe"),
        ({**TRUST, "serial": "alwais"}, r"--serial: .*did you mean always"),
        ({**TRUST, "prestart_timeout": "40"}, "--prestart-timeout"),
    ],
)
def test_agent_settings_that_do_not_fit_together(values, message):
    with pytest.raises(ConfigError, match=message):
        AgentSettings.load(values, environment={})


AGENT = ["--node-name=n", "--mode=trust:a"]


def test_flags_of_the_vendor_become_hamis_variables():
    arguments = [
        *AGENT,
        "--gds-enabled",
        "--device-list-strategy=cdi-cri",
        "--device_list_strategy",
        "cdi-annotations",
        "--imex-required=false",
        "--nvidia-dev-root=/",
    ]
    settings, warnings = AgentSettings.from_arguments(arguments)
    assert (settings.node_name, warnings) == ("n", ())
    assert AgentSettings.variables_of(arguments) == {
        "GDS_ENABLED": "true",
        "DEVICE_LIST_STRATEGY": "cdi-cri,cdi-annotations",
        "IMEX_REQUIRED": "false",
        "NVIDIA_DEV_ROOT": "/",
    }


def test_flag_of_the_vendor_may_be_misspelt_and_needs_its_value():
    with pytest.raises(ConfigError, match=r"--device-list-stratgy: there is no such flag \(did you mean"):
        AgentSettings.from_arguments([*AGENT, "--device-list-stratgy=envvar"])
    with pytest.raises(ConfigError, match="--device-list-strategy: needs a value"):
        AgentSettings.from_arguments([*AGENT, "--device-list-strategy"])


def test_hamis_kubelet_socket_names_the_plugin_folder():
    settings, warnings = AgentSettings.from_arguments([*AGENT, "--kubelet-socket=/k/plugins/kubelet.sock"])
    assert (str(settings.kubelet_plugin_dir), warnings) == ("/k/plugins", ())
    given = {"node_name": "n", "mode": "trust:a"}
    read = AgentSettings.load(given, environment={"KUBELET_SOCKET": "/k/kubelet.sock"})
    assert str(read.kubelet_plugin_dir) == "/k"
    for text, message in (("", "is empty; the agent always registers"), ("/k/other.sock", "is not kubelet.sock")):
        with pytest.raises(ConfigError, match=message):
            AgentSettings.load({**given, "kubelet_plugin_dir": text}, environment={})


def test_trust_with_names_in_hamis_short_form():
    settings = AgentSettings.load({"node_name": "n", "mode": "trust:a,b"}, environment={})
    assert (settings.mode, settings.trust_schedulers) == ("trust", ("a", "b"))


@pytest.mark.parametrize("model", [SchedulerSettings, AgentSettings])
def test_every_setting_is_described_and_shown_in_the_help(model):
    text = help_text(model, "hami x [flags]")
    for name, field in model.model_fields.items():
        assert field.description, name
        assert all(flag in text for flag in flag_names(name, field))
        assert all(variable in text for variable in env_names(name, field))


@pytest.mark.parametrize("model", [SchedulerSettings, AgentSettings])
def test_no_two_settings_share_a_flag_or_variable(model):
    flags = [flag for name, field in model.model_fields.items() for flag in flag_names(name, field)]
    variables = [variable for name, field in model.model_fields.items() for variable in env_names(name, field)]
    assert len(flags) == len(set(flags))
    assert len(variables) == len(set(variables))
    assert not set(flags) & set(model.IGNORED)


def test_settings_are_frozen_and_need_no_environment(monkeypatch):
    monkeypatch.setenv("HAMI_FILTER_RETURN", "3")
    settings = SchedulerSettings(scheduler_name="x")
    assert settings.filter_return == 16
    with pytest.raises(Exception, match="frozen"):
        settings.scheduler_name = "y"
