"""Annotations of a Binding: after an invalid key nobody could update the pod any more."""

from __future__ import annotations

import pytest

from hami_core.errors import WireError
from hami_core.scheduler.metadata import TOTAL_LIMIT, check_annotations, is_label_value, is_qualified_name


@pytest.mark.parametrize("key", ["a", "hami.io/vgpu-node", "AWS_NEURON_IDS", "a.b-c/d_e.f", "x" * 63])
def test_valid_keys(key):
    assert is_qualified_name(key)
    check_annotations({}, {key: "v"})


@pytest.mark.parametrize("key", ["", "/a", "a/", "a/b/c", "-a", "a-", "ä", "A B", "x" * 64, "a..b/c", "a" * 254 + "/b"])
def test_invalid_keys(key):
    assert not is_qualified_name(key)
    with pytest.raises(WireError, match="not a valid annotation key"):
        check_annotations({}, {key: "v"})


def test_everything_together_has_a_limit():
    present = {"a": "x" * (TOTAL_LIMIT - 10)}
    check_annotations(present, {"b": "x" * 8})
    with pytest.raises(WireError, match=f"Kubernetes allows {TOTAL_LIMIT}"):
        check_annotations(present, {"b": "x" * 9})


def test_a_value_that_is_no_unicode_is_refused():
    with pytest.raises(WireError, match="not valid Unicode"):
        check_annotations({}, {"a": "\ud800"})


@pytest.mark.parametrize(("value", "valid"), [("", True), ("node-1.zone", True), ("x" * 64, False), ("a b", False)])
def test_label_values(value, valid):
    assert is_label_value(value) is valid
