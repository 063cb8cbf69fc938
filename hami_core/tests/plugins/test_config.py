"""The vendor's own section of the device-config."""

from __future__ import annotations

import pytest

from hami_core import ConfigError, plugins

BODY = """
from pydantic import BaseModel, ConfigDict, Field
from hami_core import Family, Resources, hookimpl

class Part(BaseModel):
    size: int = 1

class Section(BaseModel):
    model_config = ConfigDict(json_schema_extra={"section": "one"})
    count_name: str = Field("one.com/gpu", alias="resourceCountName")
    split: int = Field(10, ge=1, alias="deviceSplitCount")
    parts: list[Part] = []

class Vendor:
    @hookimpl
    def config_model(self):
        return Section

    @hookimpl
    def families(self, config):
        return [Family(word="ONE", resources=Resources(count=config.count_name), allocated_key="k")]
"""


def count_name(loaded):
    return loaded.families["ONE"].resources.count


def test_vendor_gets_its_section_or_the_models_defaults(site):
    site.add("one", BODY)
    assert count_name(plugins.load({"one": {"resourceCountName": "x/y"}}, only=["one"])) == "x/y"
    assert count_name(plugins.load({}, only=["one"])) == "one.com/gpu"


def test_wrong_value_names_file_key_and_value(site):
    site.add("one", BODY)
    loaded = plugins.load({"one": {"deviceSplitCount": 0}}, only=["one"])
    assert loaded.vendors == ()
    with pytest.raises(ConfigError, match=r"device-config: one\.deviceSplitCount: must be at least 1, got 0"):
        loaded.require()


def test_unknown_keys_are_listed_in_one_warning(site):
    site.add("one", BODY)
    loaded = plugins.load({"one": {"colour": 1, "parts": [{"size": 2}, {"sise": 3}]}}, only=["one"])
    [problem] = loaded.problems
    assert problem.severity == "warning"
    assert "one.colour, one.parts[1].sise (did you mean size?)" in problem.text


def test_section_without_a_vendor_or_hami_name_is_a_warning(site):
    site.add("one", BODY)
    loaded = plugins.load({"hygon": {}, "onee": {}}, only=["one"])
    [problem] = loaded.problems
    assert "no loaded vendor reads the section onee; did you mean one?" in problem.text


@pytest.mark.parametrize("answer", ["42", "Section()", "Part", "1 / 0"])
def test_config_model_must_be_a_model_with_a_section(site, answer):
    site.add("one", BODY.replace("return Section", f"return {answer}"))
    loaded = plugins.load(only=["one"])
    assert loaded.vendors == ()
    assert loaded.problems[0].hook == "config_model"
