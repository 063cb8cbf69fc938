"""The hook reference is what the live specification says."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from hami_core import hookspecs
from hami_core.plugins.manager import HOOKS
from hami_core.plugins.reference import page, signature

DOCS = Path(__file__).parents[3] / "docs"
PAGE = DOCS / "reference" / "hooks.md"


def test_reference_page_is_current():
    command = "python -m hami_core.plugins.reference > docs/reference/hooks.md"
    assert PAGE.read_text("utf-8") == page(), f"run: {command}"


@pytest.mark.parametrize("hook", HOOKS)
def test_every_hook_is_documented_with_its_arguments(hook):
    text = PAGE.read_text("utf-8")
    assert f"## `{hook}`" in text
    assert signature(hook) in text
    doc = inspect.getdoc(getattr(hookspecs, hook))
    assert "When:" in doc
    assert "When it fails:" in doc or "When it fails otherwise:" in doc
    for argument in HOOKS[hook]:
        assert f"- `{argument}`: " in text


def test_the_six_names_of_the_contract_exist():
    frozen = {
        "register": ("node",),
        "check_type": ("request", "kind"),
        "check_uuid": ("request", "device_id"),
        "custom_filter": ("request", "device", "chosen"),
        "patch_annotations": ("pod", "allocation"),
        "allocate": ("slices", "container"),
    }
    assert {name: HOOKS[name][: len(arguments)] for name, arguments in frozen.items()} == frozen
