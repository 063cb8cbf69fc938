"""Values files and ``--set`` flags, as an administrator gives them."""

from __future__ import annotations

import pytest

from hami_core.errors import ConfigError
from hami_core.manifests import values


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("a=1", {"a": 1}),
        ("a.b=x,c=true", {"a": {"b": "x"}, "c": True}),
        ("a=null", {"a": None}),
        ("a={x,1}", {"a": ["x", 1]}),
        ("a={}", {"a": []}),
        ("a[1].b=2", {"a": [None, {"b": 2}]}),
        (r"a\.b/c=1", {"a.b/c": 1}),
        (r"a=x\,y", {"a": "x,y"}),
        ("a=007", {"a": "007"}),
        ("a=1.5", {"a": "1.5"}),
        ("a=", {"a": ""}),
        ("a=b=c", {"a": "b=c"}),
        ("a=-3", {"a": -3}),
    ],
)
def test_set_reads_as_helms(setting, expected):
    given = {}
    values.assign(given, setting)
    assert given == expected


def test_settings_add_up():
    given = {"a": {"b": 1}}
    for setting in ("a.c=2", "a.d[0]=x", "a.d[1]=y", "b=1"):
        values.assign(given, setting)
    assert given == {"a": {"b": 1, "c": 2, "d": ["x", "y"]}, "b": 1}


def test_text_and_json():
    given = {}
    values.assign(given, "a=1,b=true", kind="string")
    values.assign(given, 'c={"d": [1, null], "e": "x,y"}', kind="json")
    assert given == {"a": "1", "b": "true", "c": {"d": [1, None], "e": "x,y"}}


@pytest.mark.parametrize("setting", ["a", "=1", "a]=1", "a.b[x]=1", "[0]=1", "a[99999999]=1"])
def test_a_setting_of_another_form_is_refused(setting):
    with pytest.raises(ConfigError, match="--set"):
        values.assign({"a": {}}, setting)


def test_null_takes_a_default_away():
    assert values.laid_over({"a": {"b": 1, "c": 2}, "d": [1]}, {"a": {"b": None}, "d": []}) == {"a": {"c": 2}, "d": []}


def test_null_in_one_file_lasts_through_the_next():
    joined = values.joined({"a": {"b": None}}, {"a": {"c": 1}})
    assert values.laid_over({"a": {"b": 7}}, joined) == {"a": {"c": 1}}
