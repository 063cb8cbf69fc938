"""Reads a vendor's section of the device-config into the vendor's own pydantic model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from hami_core.documents import read_model
from hami_core.errors import VendorError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hami_core.plugins.discovery import Source
    from hami_core.plugins.problem import Reporter


def section_name(model: type[BaseModel]) -> str:
    """Return the key of the section that a model describes; empty: the model names none."""
    extra = model.model_config.get("json_schema_extra")
    name = extra.get("section", "") if isinstance(extra, dict) else ""
    return name if isinstance(name, str) else ""


def read_section(model: object, config: Mapping[str, Any], source: Source, reporter: Reporter) -> BaseModel:
    """Validate a vendor's section.

    Args:
        model: What `config_model` answered.
        config: Section name → raw content. Its attribute ``path``, if it has one, is the file name in messages.
        source: The vendor.
        reporter: Gets a warning that lists unknown keys.

    Returns:
        An instance of the model; with its defaults if the file has no such section.

    Raises:
        VendorError: ``model`` is not a model with a section name.
        ConfigError: The section does not fit the model; names file, key and what is expected.
    """
    if not isinstance(model, type) or not issubclass(model, BaseModel) or not section_name(model):
        text = f"answered {model!r}, expected a pydantic model with json_schema_extra={{'section': '…'}}"
        raise VendorError(source.name, source.label, "config_model", text)
    name = section_name(model)
    where = str(getattr(config, "path", "") or "device-config")
    raw = config.get(name)
    section, unknown = read_model(model, {} if raw is None else raw, where, name)
    if unknown:
        reporter.warn(source, f"{where}: unknown keys, ignored: {', '.join(sorted(map(str, unknown)))}")
    return section
