"""HAMi's device-config.yaml: sections are kept unread for the vendors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_core import ConfigError
from hami_core.settings import load_device_config

CHART = """
nvidia:
  resourceCountName: nvidia.com/gpu
  deviceSplitCount: 10
  migProfileAllowlist:
  - models: [A30]
    profiles: [1g.6gb]
iluvatars:
- chipName: MR-V100
acme:
  anything: {goes: [1, 2]}
hygon:
"""


def test_sections_are_kept_raw(tmp_path):
    file = tmp_path / "device-config.yaml"
    file.write_text(CHART)
    config = load_device_config(file)
    assert config == load_device_config(CHART)
    assert config.path == str(file)
    assert sorted(config) == ["acme", "iluvatars", "nvidia"]
    assert config["nvidia"]["deviceSplitCount"] == 10
    assert config["acme"] == {"anything": {"goes": [1, 2]}}


def test_no_file_means_no_sections():
    assert dict(load_device_config(None)) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n", "all configurations are empty"),
        ("nvidia: 5", "nvidia: holds a number, expected a mapping or a list"),
        ("- a\n- b", "holds a list, expected a mapping"),
        ("nvidia: {a: 1\nb: 2", "line 2, column"),
        ("nvidia: &a [*a]\n", "line 1, column 13: .*contains itself"),
        ("nvidia: {a: 1, a: 2}", "line 1, column 16: duplicate key 'a'"),
        ("nvidia: {a: .nan}", "is not a number in JSON"),
    ],
)
def test_malformed_device_config_is_refused_with_the_place(text, message):
    with pytest.raises(ConfigError, match=message):
        load_device_config(text)


@given(st.text(max_size=200))
def test_any_text_is_a_config_or_a_clear_error(text):
    try:
        config = load_device_config("# text\n" + text)
    except ConfigError as error:
        assert str(error).startswith("device-config")  # noqa: PT017
    else:
        assert all(isinstance(section, dict | list) for section in config.values())
