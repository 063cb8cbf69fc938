"""Names in HAMi v2.10 that contain a vendor's name, read from ``hami.toml``. No code of the core names a vendor."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec


class Hami(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    """HAMi's names that contain a vendor's name.

    Attributes:
        sections: Sections of device-config.yaml. A file may have them all, whichever vendors are installed.
        programs: Programs in HAMi's images, besides ``scheduler``.
        resource_flags: Flags of HAMi's scheduler that its device-config.yaml overwrote.
        vendor_flags: Flags of HAMi's scheduler that enable a vendor.
        node_selector_key: Chart key with the labels of the nodes that the agent runs on.
        driver_root_key: Chart key with the driver's folder on the node.
        plugin_flags: Flags of HAMi's device plugin that a vendor's settings answer, with HAMi's variable for each.
        plugin_switches: Such flags that need no value.
    """

    sections: tuple[str, ...]
    programs: tuple[str, ...]
    resource_flags: tuple[str, ...]
    vendor_flags: tuple[str, ...]
    node_selector_key: str
    driver_root_key: str
    plugin_flags: Mapping[str, str]
    plugin_switches: Mapping[str, str]


HAMI: Final = msgspec.toml.decode(Path(__file__).with_name("hami.toml").read_bytes(), type=Hami)
