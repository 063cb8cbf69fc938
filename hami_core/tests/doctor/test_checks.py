"""A sound cluster is found sound; each thing that is broken is named, with its field and what to do."""

from __future__ import annotations

from hami_core.tests.doctor import sound
from hami_core.tests.doctor.conftest import look, said, words


def test_a_sound_cluster_has_nothing_to_complain_of(cluster):
    report = look(cluster)
    assert [f for f in report.findings if f.level != "ok"] == []
    assert report.exit_status(strict=True) == 0


def test_nothing_installed_is_one_clear_failure():
    report = look({"Node/n1": sound.node("n1")})
    assert "no pod runs `hami scheduler`" in words(said(report, "scheduler.pods"))
    assert report.exit_status() == 1
