"""Label selectors of the per-node file, in the form of Kubernetes' ``metav1.LabelSelector``. Pure.

Kubernetes checks a selector when it is stored. Nobody checks the per-node file, so this module does, as strictly.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, field_validator, model_validator

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX: Final = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def _key(text: str) -> str:
    prefix, slash, name = text.rpartition("/")
    if not _NAME.fullmatch(name) or (slash and not _PREFIX.fullmatch(prefix)):
        raise ValueError("is not the key of a label, such as example.com/pool")
    return text


def _value(text: str) -> str:
    if text and not _NAME.fullmatch(text):
        raise ValueError("is not the value of a label: at most 63 letters, digits, '-', '_' and '.'")
    return text


LabelKey = Annotated[str, AfterValidator(_key)]
LabelValue = Annotated[str, AfterValidator(_value)]


class Requirement(BaseModel):
    """One expression: a key, an operator, and for ``In`` and ``NotIn`` the values."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    key: LabelKey
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: tuple[LabelValue, ...] = ()

    @field_validator("values", mode="before")
    @classmethod
    def _null(cls, value: Any) -> Any:  # noqa: ANN401 - whatever the file holds
        return () if value is None else value

    @model_validator(mode="after")
    def _values_fit(self) -> Requirement:
        if (self.operator in {"In", "NotIn"}) != bool(self.values):
            needs = "needs values" if not self.values else "takes no values"
            raise ValueError(f"operator {self.operator} {needs}")
        return self

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels fulfils it. As in Kubernetes, ``NotIn`` also holds without the label."""
        match self.operator:
            case "In":
                return labels.get(self.key) in self.values
            case "NotIn":
                return labels.get(self.key) not in self.values
            case "Exists":
                return self.key in labels
        return self.key not in labels


class Selector(BaseModel):
    """A label selector. All its parts must hold; an empty one matches every node.

    Its fields are ``matchLabels`` and ``matchExpressions``, in the lower case in which the per-node file is read.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    matchlabels: dict[LabelKey, LabelValue] = {}
    matchexpressions: tuple[Requirement, ...] = ()

    @field_validator("matchlabels", mode="before")
    @classmethod
    def _no_labels(cls, value: Any) -> Any:  # noqa: ANN401 - whatever the file holds
        return {} if value is None else value

    @field_validator("matchexpressions", mode="before")
    @classmethod
    def _no_expressions(cls, value: Any) -> Any:  # noqa: ANN401 - whatever the file holds
        return () if value is None else value

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels is selected."""
        return all(labels.get(key) == value for key, value in self.matchlabels.items()) and all(
            requirement.matches(labels) for requirement in self.matchexpressions
        )
