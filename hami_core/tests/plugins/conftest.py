"""Distributions for tests: a folder on ``sys.path`` with a module and its metadata, as pip would install them."""

from __future__ import annotations

import signal
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest

from hami_core.plugins.discovery import SWITCH

if TYPE_CHECKING:
    from pathlib import Path

VENDOR = """
from hami_core import Device, Family, Reason, Resources, hookimpl

class Vendor:
    @hookimpl
    def families(self):
        return [Family(word="{word}", resources=Resources(count="{name}.com/gpu", memory="{name}.com/mem"),
                       allocated_key="hami.io/{name}-allocated", register_key="hami.io/node-{name}",
                       pod_keys=("{name}.com/level",))]
"""


class Site:
    """A folder on ``sys.path`` in which tests install distributions."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self._monkeypatch = monkeypatch

    def add(
        self, name: str, body: str = "", *, group="hami.vendors", version="1.0", dist="", target="Vendor", points=None
    ) -> None:
        """Add a distribution with one module; ``body`` extends the class of a minimal vendor, or replaces it."""
        module = f"site_{(dist or name).replace('-', '_')}"
        text = textwrap.dedent(body)
        if group == "hami.vendors" and "class Vendor" not in text:
            text = VENDOR.format(word=name.upper(), name=name) + textwrap.indent(text, "    ")
        (self.root / f"{module}.py").write_text(text)
        info = self.root / f"{module}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {dist or 'dist-' + name}\nVersion: {version}\n")
        points = points or {group: {name: f"{module}:{target}"}}
        lines = [f"[{key}]\n" + "".join(f"{n} = {v}\n" for n, v in entries.items()) for key, entries in points.items()]
        (info / "entry_points.txt").write_text("\n".join(lines))
        self._monkeypatch.delitem(sys.modules, module, raising=False)


@pytest.fixture
def site(tmp_path, monkeypatch):
    """An empty `Site`. Tests leave out other installed plugins by the switch in `names`."""
    root = tmp_path / "site"
    root.mkdir()
    monkeypatch.syspath_prepend(str(root))
    monkeypatch.delenv(SWITCH, raising=False)
    yield Site(root, monkeypatch)
    for module in [name for name in sys.modules if name.startswith("site_")]:
        del sys.modules[module]


@pytest.fixture
def interruptible():
    """Let Ctrl-C raise, as in the foreground: a shell starts background processes with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
