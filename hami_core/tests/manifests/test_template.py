"""The template language, piece by piece; tests/e2e/test_chart.py compares the whole with helm."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_core.documents import load_yaml as load
from hami_core.manifests import TemplateError, Templates
from hami_core.manifests.yamltext import dump

DATA = {
    "Values": {"name": "a", "n": 3, "half": 0.5, "on": True, "none": None, "list": ["x", "y"], "map": {"k": 1, "b": 2}},
    "Files": {"Get": lambda name: f"<{name}>"},
}


def rendered(text, **more):
    return Templates({"t.yaml": text, **more}).render("t.yaml", DATA)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a {{ .Values.name }} b", "a a b"),
        ("a  {{- .Values.name -}}  b", "aab"),
        ("a {{- /* nothing {{ */ -}} b", "ab"),
        (
            "{{ .Values.n }} {{ .Values.half }} {{ .Values.on }} [{{ .Values.none }}] [{{ .Values.absent }}]",
            "3 0.5 true [] []",
        ),
        ("{{ if .Values.list }}yes{{ else }}no{{ end }}", "yes"),
        ("{{ if .Values.absent }}1{{ else if eq .Values.n 3 }}2{{ else }}3{{ end }}", "2"),
        ("{{ with .Values.map }}{{ .k }}{{ $.Values.name }}{{ end }}", "1a"),
        ("{{ with .Values.absent }}1{{ else }}{{ .Values.name }}{{ end }}", "a"),
        ("{{ range .Values.list }}{{ . }},{{ end }}", "x,y,"),
        ("{{ range $i, $x := .Values.list }}{{ $i }}{{ $x }} {{ end }}", "0x 1y "),
        ("{{ range $k, $v := .Values.map }}{{ $k }}={{ $v }} {{ end }}", "b=2 k=1 "),
        ("{{ range .Values.absent }}1{{ else }}none{{ end }}", "none"),
        ('{{ $x := "1" }}{{ if true }}{{ $x = "2" }}{{ end }}{{ $x }}', "2"),
        ('{{ $x := "1" }}{{ if true }}{{ $x := "2" }}{{ end }}{{ $x }}', "1"),
        ('{{ define "d" }}<{{ . }}>{{ end }}{{ include "d" .Values.name | quote }}', '"<a>"'),
        ('{{ (index .Values "map").k }}', "1"),
        ('{{ .Files.Get "f" }}{{ $.Files.Get "g" }}', "<f><g>"),
        ("{{ and .Values.absent .Values.absent.deeper }}{{ or .Values.name .Values.absent.deeper }}", "a"),
        ("{{ not .Values.absent }} {{ true | ternary 1 2 }} {{ default 5 .Values.none }}", "true 1 5"),
        ('{{ list 1 2 | toJson }} {{ dict "b" 1 "a" "<" | toJson }}', '[1,2] {"a":"\\u003c","b":1}'),
        ("x:\n  {{- toYaml .Values.map | nindent 2 }}\n", "x:\n  b: 2\n  k: 1\n"),
        ('{{ printf "%s-%d%%" "a" 2 }} {{ "a.b" | splitList "." | last }}', "a-2% b"),
        ('{{ dig "k" 0 .Values.map }}{{ dig "z" "q" 9 .Values.map }}', "19"),
        ('{{ `a"b` | quote }}', '"a\\"b"'),
        ('{{ "on" | toYaml }}', "'on'"),
    ],
)
def test_means_what_it_means_to_helm(text, expected):
    assert rendered(text) == expected


def test_what_one_file_defines_another_may_call():
    assert rendered('{{ include "x" . }}', **{"helpers.tpl": '{{ define "x" }}{{ .Values.n }}{{ end }}'}) == "3"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("\n\n{{ lookup 1 }}", r"t\.yaml:3: function 'lookup' is not supported"),
        ("{{ if true }}", r"t\.yaml:1: .* no end"),
        ("{{ end }}", r"end without a beginning"),
        ("{{ $x }}", r"\$x is not declared"),
        ("{{ $x = 1 }}", r"\$x is not declared"),
        ("a\n{{ .Values.absent.deeper }}", r"t\.yaml:2: \.deeper of nothing"),
        ("{{ .Values.name.deeper }}", r"\.deeper of a str"),
        ("{{ .Values.map }}", "toYaml"),
        ('{{ include "none" . }}', "'none' is not defined"),
        ('{{ define "d" }}{{ include "d" . }}{{ end }}{{ include "d" . }}', "without end"),
        ("{{ range .Values.name }}{{ end }}", "range over a str"),
        ("{{ .Values.name 1 }}", "no function"),
        ("{{ template }}", "template is not supported"),
        ("{{ 1 ? }}", "can't read"),
        ("{{ (1 }}", r"expected \)"),
        ("{{ }}", "a value is missing"),
        ('{{ gt "a" 1 }}', "gt"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text, problem):
    with pytest.raises(TemplateError, match=problem):
        rendered(text)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(exclude_categories=("C",))),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("abc.-/", min_size=1), inner),
    max_leaves=10,
)


@given(VALUES)
def test_yaml_and_json_written_are_read_back(value):
    data = {"v": value}
    templates = Templates({"y": "{{ toYaml .v }}", "j": "{{ toJson .v }}"})
    assert load(templates.render("y", data), "y") == value
    assert load(templates.render("j", data), "j") == value


@given(st.text(max_size=60))
def test_any_text_is_a_template_or_refused(text):
    try:
        Templates({"t": text}).render("t", {})
    except TemplateError:
        return
    assert "{{" in text or rendered(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a: 2001-01-01", "2001-01-01"), ("a: 12:30", "12:30"), ("a: 2.0", 2), ("a: 1.5", 1.5), ("a: on", True)],
)
def test_yaml_is_read_as_helm_reads_it(text, expected):
    assert load(text, "t") == {"a": expected}
    assert load(dump({"a": expected}), "t") == {"a": expected}
