"""YAML as helm writes it."""

from __future__ import annotations

from typing import Any

import yaml


class _Dumper(yaml.SafeDumper):
    """PyYAML's, without anchors; text of several lines as a block."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ANN401 - PyYAML's signature
        """Write everything out."""
        del data
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def dump(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """One document, keys in order."""
    return yaml.dump(value, Dumper=_Dumper, default_flow_style=False, sort_keys=True, allow_unicode=True, width=4096)
