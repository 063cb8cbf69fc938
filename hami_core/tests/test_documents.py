"""An administrator's document is accepted, or refused with file, place and fix."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, Field

from hami_core.documents import load_json, load_mapping, load_yaml, read_model, read_text, shown
from hami_core.errors import ConfigError

BOMB = "\n".join(f"{c}: &{c} [{', '.join([f'*{b}'] * 10)}]" for b, c in zip("abcdef", "bcdefg", strict=True))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\na: 2", "f.yaml, line 2, column 1: duplicate key 'a'"),
        ("a: {b: 1, b: 1}", "duplicate key 'b'"),
        ("a: &x [*x]", r"\*x contains itself"),
        ("[" * 100_000, "nested more than 64 deep"),
        (f"a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n{BOMB}", "holds more than 200000 values"),
        ("a: .nan", "is not a number in JSON"),
        ("a: -.inf", "is not a number in JSON"),
        ("a: 1.0e+400", "is not a number in JSON"),
        ("a: " + "9" * 5000, "is not a valid int"),
        ("a: 99999999999999999999", "beyond 64 bits"),
        ("a: !!bool x", "'x' is not a valid bool"),
        ("a: !!binary aGk=", "could not determine a constructor"),
        ("? [a]\n: b", "a key that is not plain text"),
        ("a:\n\t- b", "f.yaml, line 2, column 1: is not YAML"),
        ("a: \x00", "is not YAML"),
        ("\ud800", "is not YAML"),
        ("a: 1\n---\nb: 2", "holds several documents"),
        ("- a", "holds a list, expected a mapping"),
        ("text", "holds a text, expected a mapping"),
    ],
)
def test_yaml_that_would_lose_a_value_is_refused(text, message):
    with pytest.raises(ConfigError, match=f"f.yaml.*{message.removeprefix('f.yaml')}") as refused:
        load_mapping(text, "f.yaml")
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 300


def test_yaml_is_read_as_json_means_it():
    text = "on: yes\n1: 1:30\nd: 2024-01-01\nf: 2.0\nx: &a {p: 1, q: 2}\ny: {<<: *a, p: 3}"
    assert load_yaml(text, "f") == {
        "on": True, "1": "1:30", "d": "2024-01-01", "f": 2, "x": {"p": 1, "q": 2}, "y": {"p": 3, "q": 2}
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("{", "line 1, column 2: is not JSON"),
        ("a: 1", "it looks like YAML; write it as JSON"),
        ('{"a": NaN}', "NaN is not a number"),
        ("[" * 100_000, "is not JSON"),
        ("[" * 70 + "]" * 70, "nested more than 64 deep"),
        ('{"a": 1} x', "is not JSON"),
    ],
)
def test_json_beyond_the_standard_is_refused(text, message):
    with pytest.raises(ConfigError, match=message):
        load_json(text, "c.json")


def test_duplicate_json_keys_are_remembered():
    assert load_json('{"a": {"b": 1, "b": 2}}', "c.json")["a"].repeated == ("b",)


def test_files_are_read_with_and_without_a_byte_order_mark(tmp_path):
    file = tmp_path / "f"
    file.write_bytes(b"\xef\xbb\xbfa: 1")
    assert read_text(file) == "a: 1"
    for path, message in (
        (tmp_path, "Is a directory"),
        (tmp_path / "none", "No such file"),
    ):
        with pytest.raises(ConfigError, match=f"{path}: can't be read: {message}"):
            read_text(path)
    file.write_bytes(b"a" * (5 << 20))
    with pytest.raises(ConfigError, match="longer than 4 MiB"):
        read_text(file)


class Part(BaseModel):
    size: int = 1


class Whole(BaseModel):
    count: int = Field(1, ge=1, alias="theCount")
    parts: dict[str, list[Part]] = {}


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"theCount": 0}, "f: top.theCount: must be at least 1, got 0"),
        ({"theCount": True}, "f: top.theCount: expected a number, got true or false"),
        ({"theCount": "x" * 10_000}, "f: top.theCount: expected a whole number, got 'xxx"),
        ({"parts": {"a": [{"size": []}]}}, r"f: top.parts.a\[0\].size: expected a whole number, got \[\]"),
        ({"parts": {"a": [{"size": False}]}}, r"f: top.parts.a\[0\].size: expected a number"),
        ([], r"f: top: expected a mapping of names to values, got \[\]"),
    ],
)
def test_value_that_does_not_fit_a_model_is_named_with_its_place(raw, message):
    with pytest.raises(ConfigError, match=message) as refused:
        read_model(Whole, raw, "f", "top")
    assert len(str(refused.value)) < 300


def test_unknown_keys_come_with_the_most_similar_known_key():
    _, unknown = read_model(Whole, {"thecount": 1, "colour": 1, "parts": {"a": [{"sise": 1}]}}, "f")
    assert [str(each) for each in unknown] == [
        "thecount (did you mean theCount?)",
        "colour",
        "parts.a[0].sise (did you mean size?)",
    ]


@pytest.mark.parametrize("value", ["x" * 10**6, list(range(10**6)), {"a": {"b": "c" * 10**6}}, 10**400, "a\nb"])
def test_value_in_a_message_is_short_and_on_one_line(value):
    assert len(shown(value)) < 100
    assert "\n" not in shown(value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a: 2001-01-01", "2001-01-01"), ("a: 12:30", "12:30"), ("a: 2.0", 2), ("a: 1.5", 1.5), ("a: on", True)],
)
def test_yaml_is_read_as_helm_reads_it(text, expected):
    assert load_yaml(text, "t") == {"a": expected}
