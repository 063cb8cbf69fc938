"""A vendor's section of the device-config: raw content → the vendor's own pydantic model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ValidationError

from hami_core.errors import ConfigError, VendorError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hami_core.plugins.discovery import Source
    from hami_core.plugins.problem import Reporter

HAMI_SECTIONS: Final = (
    "nvidia",
    "cambricon",
    "hygon",
    "metax",
    "enflame",
    "mthreads",
    "iluvatars",
    "kunlun",
    "awsneuron",
    "amd",
    "vastai",
    "biren",
    "vnpus",
)
"""Sections HAMi v2.10 has; a file may hold them all, whichever vendors are installed."""


def section_name(model: type[BaseModel]) -> str:
    """The key of the section a model describes, empty when it names none."""
    extra = model.model_config.get("json_schema_extra")
    name = extra.get("section", "") if isinstance(extra, dict) else ""
    return name if isinstance(name, str) else ""


def read_section(model: object, config: Mapping[str, Any], source: Source, reporter: Reporter) -> BaseModel:
    """Validate a vendor's section.

    Args:
        model: What `config_model` answered.
        config: Section name → raw content; a mapping with an attribute ``path`` gives messages a file name.
        source: The vendor.
        reporter: Gets a warning that lists unknown keys.

    Returns:
        An instance; the model's defaults where the file has no such section.

    Raises:
        VendorError: The answer is no model with a section name.
        ConfigError: The section does not fit the model; names file, key and what is expected.
    """
    if not isinstance(model, type) or not issubclass(model, BaseModel) or not section_name(model):
        text = f"answered {model!r}, expected a pydantic model with json_schema_extra={{'section': '…'}}"
        raise VendorError(source.name, source.label, "config_model", text)
    name = section_name(model)
    where = str(getattr(config, "path", "") or "device-config")
    raw = config.get(name)
    try:
        section = model() if raw is None else model.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join([name, *map(str, first["loc"])])
        more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        got = "" if first["type"] == "missing" else f", got {first['input']!r}"
        raise ConfigError(f"{where}: {key}", f"{first['msg']}{got}{more}", "correct or remove the key") from error
    unknown = sorted(unknown_keys(section, raw, name))
    if unknown:
        reporter.warn(source, f"{where}: unknown keys, ignored: {', '.join(unknown)}")
    return section


def unknown_keys(section: BaseModel, raw: object, path: str) -> Iterator[str]:
    """Dotted names of the keys in the file that no field of the model stands for."""
    if not isinstance(raw, dict):
        root = getattr(section, "root", None)
        yield from _below(root, raw, path)
        return
    fields = type(section).model_fields
    known = {name: name for name in fields} | {
        alias: name for name, field in fields.items() for alias in _aliases(field)
    }
    validators = type(section).__pydantic_decorators__.model_validators.values()
    by_validator = any(validator.info.mode == "before" for validator in validators)  # may rename keys
    for key, value in raw.items():
        if key in known:
            yield from _below(getattr(section, known[key]), value, f"{path}.{key}")
        elif type(section).model_config.get("extra") != "allow" and not by_validator:
            yield f"{path}.{key}"


def _below(value: object, raw: object, path: str) -> Iterator[str]:
    if isinstance(value, BaseModel):
        yield from unknown_keys(value, raw, path)
    elif isinstance(value, list | tuple) and isinstance(raw, list) and len(value) == len(raw):
        for position, (item, raw_item) in enumerate(zip(value, raw, strict=True)):
            yield from _below(item, raw_item, f"{path}[{position}]")


def _aliases(field: Any) -> Iterator[str]:  # noqa: ANN401 - pydantic's FieldInfo
    for alias in (field.alias, field.validation_alias):
        if isinstance(alias, str):
            yield alias
        for choice in getattr(alias, "choices", ()):
            if isinstance(choice, str):
                yield choice
