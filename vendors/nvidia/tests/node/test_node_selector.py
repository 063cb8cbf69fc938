"""Entries of the per-node file by label: which apply, in which order, and what a broken one does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import structlog
from hami_nvidia.settings import NodeSettings, OptionsOfNode, options

from hami_core import ConfigError, DeviceError, NodeContext

T4 = {"karpenter.k8s.aws/instance-gpu-name": "t4", "pool": "inference"}


@pytest.fixture
def at(tmp_path):
    """The context of node n1 with these labels and this list of entries."""

    def make(entries, labels=T4):
        file = tmp_path / "config.json"
        file.write_text(json.dumps({"nodeconfig": entries}))
        return NodeContext("n1", Path("/var/lib/hami"), config_file=file, labels=lambda: labels)

    return make


@pytest.fixture
def logs():
    """Log lines of the test."""
    with structlog.testing.capture_logs() as lines:
        yield lines


def found(node):
    return options(NodeSettings(), {}, node)


def expression(operator, *values, key="pool"):
    return {"matchExpressions": [{"key": key, "operator": operator} | ({"values": list(values)} if values else {})]}


@pytest.mark.parametrize(
    ("selector", "selects"),
    [
        ({"matchLabels": {"pool": "inference"}}, True),
        ({"matchLabels": {"pool": "inference", "zone": "a"}}, False),
        ({"MATCHLABELS": {"pool": "inference"}}, True),
        (expression("In", "training", "inference"), True),
        (expression("In", "training"), False),
        (expression("NotIn", "training"), True),
        (expression("NotIn", "a", key="zone"), True),
        (expression("NotIn", "inference"), False),
        (expression("Exists"), True),
        (expression("Exists", key="zone"), False),
        (expression("DoesNotExist", key="zone"), True),
        (expression("DoesNotExist"), False),
        ({"matchLabels": {"pool": "inference"}, **expression("DoesNotExist")}, False),
        ({}, True),
        ({"matchLabels": None, "matchExpressions": None}, True),
    ],
)
def test_a_selector_matches_as_in_kubernetes(at, selector, selects):
    entry = {"nodeLabelSelector": selector, "devicesplitcount": 4}
    assert (found(at([entry])).split_count == 4) is selects


def test_a_named_entry_wins_over_labels_over_the_entry_for_every_node(at):
    entries = [
        {"name": "n1", "devicesplitcount": 2, "filterdevices": {"index": [0]}},
        {"nodelabelselector": {"matchLabels": {"pool": "inference"}}, "devicesplitcount": 3, "devicecorescaling": 3},
        {"nodelabelselector": {}, "filterdevices": {"index": [1]}, "devicecorescaling": 4},
        {"name": "*", "devicesplitcount": 5, "devicecorescaling": 5, "devicememoryscaling": 5},
    ]
    said = found(at(entries))
    assert (said.split_count, said.core_scaling, said.memory_scaling) == (2, 4, 5)
    assert said.hidden_indices == {0, 1}


def test_several_entries_that_the_labels_select_are_warned_of(at, logs):
    found(at([{"nodelabelselector": {}}, {"nodelabelselector": expression("Exists")}, {"name": "*"}]))
    (warning,) = [line["warning"] for line in logs]
    assert "the labels of this node select nodeconfig[0], nodeconfig[1]: a later one wins" in warning


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"nodelabelselector": "pool=a"}, r"nodeconfig\[0\]: nodelabelselector: expected a mapping"),
        ({"nodelabelselector": {"matchLabel": {}}}, r"nodelabelselector.matchlabel: there is no such key"),
        ({"nodelabelselector": {"pool": "a"}}, r"nodelabelselector.pool: there is no such key"),
        ({"nodelabelselector": {"matchLabels": {"gpu model": "a"}}}, "is not the key of a label"),
        ({"nodelabelselector": {"matchLabels": {"a/b/c": "a"}}}, "is not the key of a label"),
        ({"nodelabelselector": {"matchLabels": {"pool": "a b"}}}, "is not the value of a label"),
        ({"nodelabelselector": {"matchLabels": {"pool": 4}}}, "expected text; quote it, got 4"),
        ({"nodelabelselector": expression("Is", "a")}, r"operator: 'Is' is none of In, NotIn, Exists, DoesNotExist"),
        ({"nodelabelselector": expression("In")}, "operator In needs values"),
        ({"nodelabelselector": expression("Exists", "a")}, "operator Exists takes no values"),
        ({"nodelabelselector": {"matchExpressions": [{"operator": "Exists"}]}}, "key: is required"),
        (
            {"nodelabelselector": {"matchExpressions": [{"key": "a", "operator": "Exists", "value": ["b"]}]}},
            "value: there",
        ),
        ({"nodelabelselectr": {"matchLabels": {"pool": "a"}}}, "has neither a name nor a nodelabelselector"),
        ({"matchLabels": {"pool": "a"}}, "has neither a name nor a nodelabelselector"),
        ({"name": "n1", "nodelabelselector": {"matchLabels": {"pool": "a"}}}, "has a name and a nodelabelselector"),
    ],
)
def test_a_selector_that_cannot_be_read_ends_the_agent_at_once(at, entry, problem):
    with pytest.raises(ConfigError, match=problem):
        OptionsOfNode(NodeSettings(), {}, at([{"devicesplitcount": 4, **entry}], labels=None))


def test_a_broken_entry_counts_only_where_the_labels_select_it(at, logs):
    entries = [{"nodelabelselector": {"matchLabels": {"pool": "inference"}}, "operatingmode": "mgi"}]
    assert found(at(entries, labels={"pool": "training"})).mode == "hami-core"
    assert "did you mean mig?" in logs[-1]["warning"]
    with pytest.raises(ConfigError, match=r"nodeconfig\[0\].operatingmode: 'mgi' is none of"):
        found(at(entries))


def test_an_entry_with_the_name_of_another_node_and_a_selector_is_broken(at):
    entries = [{"name": "n2", "nodelabelselector": {"matchLabels": {"pool": "inference"}}}]
    assert found(at(entries, labels={})).mode == "hami-core"
    with pytest.raises(ConfigError, match="has a name and a nodelabelselector"):
        found(at(entries))


def test_labels_that_are_not_known_delay_only_files_with_selectors(at):
    assert found(at([{"name": "n1", "devicesplitcount": 4}], labels=None)).split_count == 4
    with pytest.raises(DeviceError, match="labels of this node are not known yet"):
        found(at([{"nodelabelselector": {}, "devicesplitcount": 4}], labels=None))


def test_a_change_of_the_nodes_labels_changes_what_is_offered(node, tmp_path, logs):
    file = tmp_path / "config.json"
    entry = {
        "nodelabelselector": {"matchLabels": {"pool": "a"}},
        "devicesplitcount": 3,
        "filterdevices": {"index": [1]},
    }
    file.write_text(json.dumps({"nodeconfig": [entry]}))
    labels = {"pool": "b"}
    made = node(config_file=file, labels=lambda: labels)
    assert [device.slots for device in made.discover()] == [10, 10]
    labels["pool"] = "a"
    assert [device.slots for device in made.discover()] == [3]
    labels.clear()
    assert [device.slots for device in made.discover()] == [10, 10]
    assert [line["split_count"] for line in logs if "select other options" in line["event"]] == [3, 10]


def test_options_that_labels_select_must_fit_the_device_list_strategy(node, tmp_path):
    file = tmp_path / "config.json"
    entry = {"nodelabelselector": {"matchLabels": {"pool": "a"}}, "migstrategy": "mixed"}
    file.write_text(json.dumps({"nodeconfig": [entry]}))
    labels = {"pool": "b"}
    made = node(config_file=file, labels=lambda: labels, serial="always", device_list_strategy=("envvar",))
    assert made.discover()
    labels["pool"] = "a"
    with pytest.raises(ConfigError, match="can't name the MIG instances of migStrategy mixed"):
        made.discover()
