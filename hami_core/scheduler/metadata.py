"""Checks annotations and labels by Kubernetes' rules before a Binding is sent. Pure.

The API server does not check a Binding's annotations. But it checks every later update of the pod, so after one invalid
key the kubelet could not write the pod's status any more.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from hami_core.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Mapping

TOTAL_LIMIT: Final = 256 * 1024
"""Most bytes in all annotations of an object, keys and values together."""
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", re.ASCII)
_PREFIX = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*", re.ASCII)


def is_qualified_name(key: str) -> bool:
    """Whether a text may be an annotation or label key: ``[prefix/]name``."""
    prefix, slash, name = key.rpartition("/")
    if slash and not (len(prefix) <= 253 and _PREFIX.fullmatch(prefix)):
        return False
    return _NAME.fullmatch(name) is not None


def is_label_value(value: str) -> bool:
    """Whether a text may be a label's value (at most 63 characters)."""
    return value == "" or _NAME.fullmatch(value) is not None


def check_annotations(present: Mapping[str, str], added: Mapping[str, str]) -> None:
    """Check annotations before they are written.

    Args:
        present: The object's annotations.
        added: The annotations to add.

    Raises:
        WireError: A key is invalid, a value is not valid Unicode, or all annotations together are too long.
    """
    for key, value in added.items():
        # Kubernetes lower-cases a key before it validates it (ValidateAnnotations).
        if not is_qualified_name(key.lower()):
            raise WireError("annotations", -1, f"{key!r} is not a valid annotation key")
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise WireError(key, error.start, "not valid Unicode") from None
    total = sum(len(k.encode()) + len(v.encode()) for k, v in (dict(present) | dict(added)).items())
    if total > TOTAL_LIMIT:
        problem = f"the pod's annotations would have {total} bytes, Kubernetes allows {TOTAL_LIMIT}"
        raise WireError("annotations", -1, problem)
