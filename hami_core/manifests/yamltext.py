"""YAML as helm reads it: no dates, no base-60 numbers, each key once."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import yaml

from hami_core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

_BASE_60: Final = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?")


_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]
    """PyYAML's, without what Go's reader doesn't know."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """A mapping; a key that stands twice is an error, since one of both would be lost."""
        seen = set()
        for key, _ in node.value:
            if key.value in seen and key.tag != "tag:yaml.org,2002:merge":
                raise yaml.constructor.ConstructorError(None, None, f"key {key.value!r} stands twice", key.start_mark)
            seen.add(key.value)
        return {str(key): value for key, value in super().construct_mapping(node, deep).items()}


_Loader.yaml_implicit_resolvers = {
    first: [(tag, form) for tag, form in known if not tag.endswith(":timestamp")]
    for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _number(loader: _Loader, node: yaml.ScalarNode) -> Any:  # noqa: ANN401 - int, float or text
    if _BASE_60.fullmatch(node.value):
        return node.value
    if node.tag.endswith(":int"):
        return loader.construct_yaml_int(node)
    value = loader.construct_yaml_float(node)
    # Every number is JSON's to helm, which doesn't tell 2.0 from 2.
    return int(value) if value.is_integer() else value


_Loader.add_constructor("tag:yaml.org,2002:int", _number)
_Loader.add_constructor("tag:yaml.org,2002:float", _number)


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


def load(text: str, where: str) -> Any:  # noqa: ANN401 - whatever it holds
    """One document.

    Raises:
        ConfigError: It is no YAML; with line and column.
    """
    documents = list(load_all(text, where))
    if len(documents) > 1:
        raise ConfigError(where, "holds several documents, expected one")
    return documents[0] if documents else None


def load_all(text: str, where: str) -> Iterator[Any]:
    """All documents.

    Raises:
        ConfigError: It is no YAML; with line and column.
    """
    try:
        yield from yaml.load_all(text, Loader=_Loader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        at = f", line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        raise ConfigError(f"{where}{at}", f"is no YAML: {getattr(error, 'problem', None) or error}") from error


def dump(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """One document, keys in order."""
    return yaml.dump(value, Dumper=_Dumper, default_flow_style=False, sort_keys=True, allow_unicode=True, width=4096)
