"""Vendor plugins that misbehave, written into a folder as pip would install them."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

FAMILY = """
from hami_core import Device, Family, Resources, hookimpl

class Vendor:
    @hookimpl
    def families(self):
        return [Family(word="{word}", resources=Resources(count="{name}.example/gpu", memory="{name}.example/mem"),
                       allocated_key="hami.io/{name}-allocated", register_key="hami.io/node-{name}")]

    {body}
"""
EVERY_HOOK = (
    "register(self, node)",
    "mutate_admission(self, container, pod)",
    "parse_request(self, container, pod, family)",
    "check_type(self, request, kind)",
    "check_uuid(self, request, device_id)",
    "custom_filter(self, request, device, chosen)",
    "score_node(self, node, allocation, policy)",
    "patch_annotations(self, pod, allocation)",
    "lock_annotations(self, node, pod)",
)


def hooks(answer: str) -> str:
    """Methods of a vendor whose hooks all have this body."""
    return "\n".join(f"@hookimpl\ndef {signature}:\n    {answer}\n" for signature in EVERY_HOOK)


RAISES = hooks('raise RuntimeError("the plugin is broken")')
WRONG_TYPES = hooks('return {"neither": "this"}')
ODD_EXIT = hooks("raise SystemExit(3)")
SLOW_IMPORT = """
import time

time.sleep(1)
raise OSError("librogue.so.7: cannot open shared object file")
"""
NOT_A_CLASS = "Vendor = 'a text'\n"
BAD_FAMILIES = """
from hami_core import hookimpl

class Vendor:
    @hookimpl
    def families(self):
        return ["NVIDIA", 7]
"""

LOADABLE = {"raiser": RAISES, "typist": WRONG_TYPES, "leaver": ODD_EXIT}
BROKEN = {"sleeper": SLOW_IMPORT, "texter": NOT_A_CLASS, "teller": BAD_FAMILIES}


def install(site: Path) -> None:
    """Write all these distributions into a folder that will be on ``PYTHONPATH``."""
    site.mkdir()
    for name, body in LOADABLE.items():
        write(site, name, FAMILY.format(word=name.upper(), name=name, body=textwrap.indent(body, "    ")[4:]))
    for name, module in BROKEN.items():
        write(site, name, module)


def write(site: Path, name: str, module: str, version: str = "6.6") -> None:
    """Write one distribution ``rogue-<name>`` with a vendor of this name."""
    (site / f"rogue_{name}.py").write_text(module)
    info = site / f"rogue_{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: rogue-{name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(f"[hami.vendors]\n{name} = rogue_{name}:Vendor\n")
