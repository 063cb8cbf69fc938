"""The reference page of settings agrees with the models."""

from __future__ import annotations

from pathlib import Path

from hami_core.settings.reference import page

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "settings.md"


def test_reference_page_is_current():
    command = "python -m hami_core.settings.reference > docs/reference/settings.md"
    assert PAGE.read_text("utf-8") == page(), f"run: {command}"
